"""Runs with what the observer sees and comes to believe: the call `opaq.replay`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from opaq.choices import check_numbers, check_types
from opaq.display import Displayed
from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.product.compile import Product
from opaq.simulation.belief_trace import trace_beliefs
from opaq.simulation.run_tables import runs_to_dataframe
from opaq.simulation.runs import MOST_RUNS, Run, compiled, simulated

if TYPE_CHECKING:
    from pandas import DataFrame

_FEW_RUNS = 3  # replayed where it is not said how many


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moment(ByContent):
    """One time of a run; state and action are empty where only the observations are known."""

    time: int
    state: str
    action: str
    observation: str
    posterior: Mapping[str, float]  # P(Z = z | observations so far)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Replay(Displayed, ByContent):
    """One run, time by time, and its secret (empty where it is not known)."""

    moments: tuple[Moment, ...]
    secret: str

    def to_dataframe(self) -> DataFrame:
        """One line per time: what happened, what was seen, and P(value) of every value of the secret."""
        return runs_to_dataframe([self]).drop(columns=["run", "secret"])


def replay(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    runs: int | Sequence[Run] | None = None,
    observations: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[Replay, ...]:
    """Runs with what the observer believes of the secret after every observation.

    problem: an object, the name of a file, or the name of a scenario.
    policy: the policy the observer expects, an object or the name of a file; None is the uniform policy.
    runs: how many to sample (3 unless given), or runs that `simulate` gave.
    observations: instead of runs, what was seen, o_0 .. o_t; it may be shorter than a run.
    seed: the same seed gives the same sampled runs.

    Raises InputError when an argument does not fit, or when observations have probability 0 under the policy.
    """
    check_numbers({"seed": (seed, 0, 2**64)}, whole=("seed",))
    check_types(
        {"observations": (observations, Sequence, "a list of observations, and no runs")}, optional=("observations",)
    )
    product, pi = compiled(problem, policy)
    if observations is not None and (isinstance(observations, str) or runs is not None):
        finding = "is a text" if isinstance(observations, str) else "is given beside runs"
        raise InputError([Fault("observations", finding, "give a list of observations, and no runs")])
    if observations is not None:
        return replayed(product, pi, [Run((), (), tuple(observations), "")])
    if isinstance(runs, list | tuple):
        check_types({f"runs[{index}]": (run, Run, "an opaq.Run") for index, run in enumerate(runs)})
        return replayed(product, pi, runs)
    count = cast(int, _FEW_RUNS if runs is None else runs)
    check_numbers({"runs": (count, 1, MOST_RUNS)}, whole=("runs",))
    return replayed(product, pi, simulated(product, pi, count=count, rng=np.random.default_rng(seed)))


def replayed(product: Product, pi: FloatArray, runs: Sequence[Run]) -> tuple[Replay, ...]:
    """Runs of a compiled problem with the beliefs of an observer who expects a policy vector."""
    return tuple(_replay(product, trace.run, trace.secrets) for trace in trace_beliefs(product, pi, runs))


def _replay(product: Product, run: Run, posteriors: FloatArray) -> Replay:
    blank = ("",) * len(run.observations)
    moments = zip(run.states or blank, run.actions or blank, run.observations, posteriors, strict=True)
    return Replay(
        tuple(
            Moment(time, state, action, seen, dict(zip(product.secret_values, shares.tolist(), strict=True)))
            for time, (state, action, seen, shares) in enumerate(moments)
        ),
        run.secret,
    )
