"""Runs with what the observer sees and comes to believe: the call `opaq.replay`.

After o_0 .. o_t the observer, who knows the model and expects a policy, believes P(x_t | o_0 .. o_t) of the state (by
filtering) and P(Z | o_0 .. o_t) of the secret of the whole run (by predicting from that belief to the horizon). Runs
can also be drawn given observations: P(x_0 .. x_t | o_0 .. o_t), by filtering forwards and sampling backwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from scipy.sparse import csr_array, vstack

from opaq.beliefs.returns import transition_matrix
from opaq.beliefs.secret_prediction import backward_cost, forward_cost, predict_secret
from opaq.codec import Result
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import Fault, InputError, check_numbers, check_types
from opaq.model.arrays import ContentEq, FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.filtering import filter_states
from opaq.product.compile import Product
from opaq.simulation.runs import MOST_RUNS, Run, compile_for_policy, simulate_product
from opaq.simulation.sampling import draw_index

if TYPE_CHECKING:
    from pandas import DataFrame


_FEW = 8  # how many runs there mostly are; the same for any number, so that beliefs are the same to the last bit


@dataclass(frozen=True, slots=True, eq=False)
class BeliefTrace:
    """One run, or the observations of one, and the beliefs after each observation."""

    run: Run
    states: Any  # sparse [time, model state]: P(s_t | o_0 .. o_t)
    secrets: FloatArray  # [time, secret value]: P(Z | o_0 .. o_t)


def trace_beliefs(product: Product, pi: FloatArray, runs: Sequence[Run]) -> tuple[BeliefTrace, ...]:
    """Return the beliefs along every run of an observer who expects a policy vector [slot].

    Raises InputError when observations have probability 0 under the policy.
    """
    beliefs = [filter_beliefs(product, pi, run.observations) for run in runs]
    secrets = [np.zeros((len(run.observations), product.process.num_secrets)) for run in runs]
    by_time = _group_by_time(beliefs)
    blocks = [block for _, block in by_time]
    backwards = backward_cost(product.process) <= forward_cost(product.process, _FEW)
    for time, first, rows in predict_secret(product.process, pi, blocks, backwards=backwards):
        for number, row in zip(by_time[time][0][first:], rows, strict=False):
            secrets[number][time] = row
    return tuple(
        BeliefTrace(run, _sum_over_model_states(product, belief), shares)
        for run, belief, shares in zip(runs, beliefs, secrets, strict=True)
    )


def filter_beliefs(product: Product, pi: FloatArray, observations: Sequence[str]) -> Any:
    """Return P(x_t | o_0 .. o_t) as a sparse matrix [time, product state].

    observations: names of o_0 .. o_t. Raises InputError where they have probability 0 under the policy.
    """
    rows = []
    for time, (now, log_probability) in enumerate(filter_states(product, pi, observations)):
        if not np.isfinite(log_probability):
            what = f"'{observations[time]}' has probability 0 after what was seen before it"
            raise InputError([Fault(f"observations[{time}]", what, "give what can be seen of this policy")])
        rows.append(csr_array(now.reshape(1, -1)))
    return csr_array(vstack(rows))


def _group_by_time(beliefs: Sequence[Any]) -> list[tuple[list[int], Any]]:
    """Return for every time the runs that have a belief then, and their beliefs as rows."""
    longest = max((belief.shape[0] for belief in beliefs), default=0)
    numbers = [[run for run, belief in enumerate(beliefs) if time < belief.shape[0]] for time in range(longest)]
    return [(runs, csr_array(vstack([beliefs[run][[time]] for run in runs]))) for time, runs in enumerate(numbers)]


def _sum_over_model_states(product: Product, beliefs: Any) -> Any:
    """Return beliefs [time, model state] from beliefs [time, product state]."""
    shape = (product.process.num_states, product.problem.mdp.num_states)
    entries = (np.ones(shape[0]), (np.arange(shape[0]), product.state_of))
    return csr_array(beliefs @ csr_array(entries, shape=shape))


def draw_conditional_runs(
    product: Product, pi: FloatArray, observations: Sequence[str], *, count: int, rng: np.random.Generator
) -> tuple[Run, ...]:
    """Draw `count` independent runs x_0 .. x_t from P(run | o_0 .. o_t), in the user's names.

    Observations may end before the run does; the runs end with them, and a secret is named only where it is settled by
    then. Raises InputError when the observations have probability 0 under the policy.
    """
    process = product.process
    beliefs = filter_beliefs(product, pi, observations).toarray()
    into = transition_matrix(process, process.flow(pi)).tocsc()  # the ways into a state are together
    return tuple(_draw_conditional_run(product, pi, observations, beliefs, into, rng) for _ in range(count))


def _draw_conditional_run(
    product: Product,
    pi: FloatArray,
    observations: Sequence[str],
    beliefs: FloatArray,
    into: Any,
    rng: np.random.Generator,
) -> Run:
    """Draw one run, from its last state backwards: P(x_t | x_{t+1}, o_0 .. o_t) ~ belief(x_t) P(x_{t+1} | x_t).

    beliefs: [time, product state]. into: P_pi by columns, so that the edges into a state are together.
    """
    states = [draw_index(beliefs[-1], rng)]
    slots = [_draw_slot(product, pi, states[0], rng)]
    for belief in beliefs[-2::-1]:
        after = states[-1]
        ways = slice(into.indptr[after], into.indptr[after + 1])
        before = into.indices[ways]
        states.append(int(before[draw_index(belief[before] * into.data[ways], rng)]))
        slots.append(_draw_slot_between(product, pi, states[-1], after, rng))
    states, slots = states[::-1], slots[::-1]
    return Run(
        states=tuple(product.problem.mdp.states[product.state_of[state]] for state in states),
        actions=tuple(product.actions[product.slot_action[slot]] for slot in slots),
        observations=tuple(observations),
        secret=_known_secret(product, states),
    )


def _known_secret(product: Product, states: Sequence[int]) -> str:
    """Return the secret at the end of the run, or what it is certain to be; empty where that is still open."""
    process, last = product.process, states[-1]
    value = process.secret[last] if len(states) == process.horizon + 1 else process.settled[last]
    return product.secret_values[value] if value >= 0 else ""


def _draw_slot(product: Product, pi: FloatArray, state: int, rng: np.random.Generator) -> int:
    """Draw the slot that the policy takes in the last state of the run, from which nothing follows."""
    first, last = product.process.row_start[product.process.row[state] :][:2]
    return int(first) + draw_index(pi[first:last], rng)


def _draw_slot_between(product: Product, pi: FloatArray, state: int, after: int, rng: np.random.Generator) -> int:
    """Draw the slot that led from one product state to the next, in proportion to pi[slot] P(x' | x, slot)."""
    process = product.process
    first, last = process.edge_start[state], process.edge_start[state + 1]
    edge = int(first) + int(np.flatnonzero(process.edge_target[first:last] == after)[0])
    begin, end = process.edge_slots.indptr[edge : edge + 2]
    slots = process.edge_slots.indices[begin:end]
    return int(slots[draw_index(process.edge_slots.data[begin:end] * pi[slots], rng)])


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
        for time, (state, action, observation, posterior) in enumerate(_iterate_steps(run)):
            cells = (number, time, state, action, observation, run.secret)
            lines.append(dict(zip(_COLUMNS, cells, strict=True)))
            posteriors.append(posterior)
    names = posterior_columns(posteriors)
    for line, posterior in zip(lines, posteriors, strict=True):
        line.update({column: posterior.get(value, 0.0) for value, column in names.items()})
    return data_frame(lines, (*_COLUMNS, *names.values()))


def _is_run(run: object) -> bool:
    """Return whether something is a run or a replay."""
    return isinstance(run, Run | Replay)


def _iterate_steps(run: Run | Replay) -> Iterator[tuple[str, str, str, Mapping[str, float]]]:
    """Yield (state, action, observation, posterior) of every time; of a plain run no posterior is known."""
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
    """Replay runs: what the observer believes of the secret after every observation.

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
    """Replay runs of a compiled problem for an observer who expects a policy vector [slot]."""
    return tuple(_build_replay(product, trace.run, trace.secrets) for trace in trace_beliefs(product, pi, runs))


def _build_replay(product: Product, run: Run, posteriors: FloatArray) -> Replay:
    """Return a run step by step with its posteriors [time, secret value]."""
    blank = ("",) * len(run.observations)
    moments = zip(run.states or blank, run.actions or blank, run.observations, posteriors, strict=True)
    return Replay(
        tuple(
            ReplayStep(time, state, action, seen, dict(zip(product.secret_values, shares.tolist(), strict=True)))
            for time, (state, action, seen, shares) in enumerate(moments)
        ),
        run.secret,
    )
