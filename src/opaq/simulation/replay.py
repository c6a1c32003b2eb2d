"""Runs with what the observer sees and comes to believe: the call `opaq.replay`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from opaq.codec import Result
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import Fault, InputError, check_numbers, check_types
from opaq.model.arrays import ContentEq, FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.product.compile import Product
from opaq.simulation.belief_trace import trace_beliefs
from opaq.simulation.runs import MOST_RUNS, Run, compile_for_policy, simulate_product

if TYPE_CHECKING:
    from pandas import DataFrame


_COLUMNS = ("run", "time", "state", "action", "observation", "secret")


def runs_to_dataframe(runs: Sequence[Run | Replay]) -> DataFrame:
    """Return one line per run and time: state, action, observation and the run's secret.

    runs: what `simulate` or `replay` gave; of replays, P(value) of every value of the secret is added, as the observer
    believes it at that time.

    Raises an error that says how to install pandas where it is missing.
    """
    check_types({"runs": (runs, Sequence, "a list of runs or replays")})
    check_types({f"runs[{index}]": (run, _is_run, "a run or a replay") for index, run in enumerate(runs)})
    lines: list[dict[str, Any]] = []
    posteriors: list[Mapping[str, float]] = []
    for number, run in enumerate(runs):
        for time, (state, action, observation, posterior) in enumerate(_steps(run)):
            cells = (number, time, state, action, observation, run.secret)
            lines.append(dict(zip(_COLUMNS, cells, strict=True)))
            posteriors.append(posterior)
    names = posterior_columns(posteriors)
    for line, posterior in zip(lines, posteriors, strict=True):
        line.update({column: posterior.get(value, 0.0) for value, column in names.items()})
    return data_frame(lines, (*_COLUMNS, *names.values()))


def _is_run(run: object) -> bool:
    return isinstance(run, Run | Replay)


def _steps(run: Run | Replay) -> Iterator[tuple[str, str, str, Mapping[str, float]]]:
    """State, action, observation and what is believed at every time; of a plain run no belief is known."""
    if isinstance(run, Run):
        yield from ((*moment, {}) for moment in zip(run.states, run.actions, run.observations, strict=True))
    else:
        yield from ((each.state, each.action, each.observation, each.belief) for each in run.steps)


_FEW_RUNS = 3  # replayed where it is not said how many


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplayStep(ContentEq):
    """One time of a run; state and action are empty where only the observations are known.

    time: 0 .. horizon.
    state: the state at that time.
    action: the action taken then.
    observation: what the observer sees then.
    belief: secret value -> P(value | observations so far), of the secret of the whole run.
    """

    time: int
    state: str
    action: str
    observation: str
    belief: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Replay(NotebookView, ContentEq, Result):
    """One run, time by time.

    steps: one per time.
    secret: the value of the secret; empty where it is not known.
    """

    RESULT: ClassVar[str] = "run"
    PRINTED_BY: ClassVar[str] = "simulate"

    steps: tuple[ReplayStep, ...]
    secret: str

    def to_dataframe(self) -> DataFrame:
        """Return one line per time: what happened, what was seen, and P(value) of every value of the secret."""
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
    product, pi = compile_for_policy(problem, policy)
    if observations is not None and (isinstance(observations, str) or runs is not None):
        finding = "is a text" if isinstance(observations, str) else "is given beside runs"
        raise InputError([Fault("observations", finding, "give a list of observations, and no runs")])
    if observations is not None:
        return replay_runs(product, pi, [Run((), (), tuple(observations), "")])
    if isinstance(runs, list | tuple):
        check_types({f"runs[{index}]": (run, Run, "an opaq.Run") for index, run in enumerate(runs)})
        return replay_runs(product, pi, runs)
    count = cast(int, _FEW_RUNS if runs is None else runs)
    check_numbers({"runs": (count, 1, MOST_RUNS)}, whole=("runs",))
    return replay_runs(product, pi, simulate_product(product, pi, count=count, rng=np.random.default_rng(seed)))


def replay_runs(product: Product, pi: FloatArray, runs: Sequence[Run]) -> tuple[Replay, ...]:
    """Runs of a compiled problem with the beliefs of an observer who expects a policy vector."""
    return tuple(_replay(product, trace.run, trace.secrets) for trace in trace_beliefs(product, pi, runs))


def _replay(product: Product, run: Run, posteriors: FloatArray) -> Replay:
    blank = ("",) * len(run.observations)
    moments = zip(run.states or blank, run.actions or blank, run.observations, posteriors, strict=True)
    return Replay(
        tuple(
            ReplayStep(time, state, action, seen, dict(zip(product.secret_values, shares.tolist(), strict=True)))
            for time, (state, action, seen, shares) in enumerate(moments)
        ),
        run.secret,
    )
