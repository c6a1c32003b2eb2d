"""Runs with what the observer sees and comes to believe: the calls `opaq.replay` and `opaq.filter`.

After o_0 .. o_t the observer, who knows the model and expects a policy, believes P(x_t | o_0 .. o_t) of the state (by
filtering) and P(Z | o_0 .. o_t) of the secret of the whole run (by predicting from that belief to the horizon). Runs
can also be drawn given observations: P(x_0 .. x_t | o_0 .. o_t), by filtering forwards and sampling backwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, vstack

from opaq.beliefs.returns import transition_matrix
from opaq.beliefs.secret_prediction import backward_cost, forward_cost, predict_secret
from opaq.codec import Result, encode, if_known
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import Fault, InputError, check_numbers, check_types
from opaq.model.arrays import ContentEq, FloatArray, IntArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.opacity.filtering import filter_states, filter_together
from opaq.opacity.guessing import likeliest_paths
from opaq.opacity.policies import compile_for_policy
from opaq.product.compile import Product
from opaq.simulation.runs import MOST_RUNS, Run, secret_of_run, simulate_product
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
    beliefs, secrets = _filter_and_predict(product, pi, runs)
    states = _sum_over_model_states(product, vstack([block for _, block in beliefs]))
    rows = [np.zeros(len(run.observations), dtype=np.int64) for run in runs]
    first = 0
    for time, (numbers, _) in enumerate(beliefs):
        for row, number in enumerate(numbers):
            rows[number][time] = first + row
        first += len(numbers)
    return tuple(BeliefTrace(run, states[row], shares) for run, row, shares in zip(runs, rows, secrets, strict=True))


def _filter_and_predict(
    product: Product, pi: FloatArray, runs: Sequence[Run]
) -> tuple[list[tuple[IntArray, Any]], list[FloatArray]]:
    """Return the beliefs of `filter_together`, and for every run P(Z = z | o_0 .. o_t) as [time, secret value].

    Of a trajectory it is P(W_t = w | o_0 .. o_t), the word of the state at that time.
    """
    beliefs = filter_together(product, pi, [run.observations for run in runs])
    if isinstance(product.problem.secret, Trajectory):  # of a whole run, the word of the present
        process = product.process
        entries = (np.ones(process.num_states), (np.arange(process.num_states), process.secret))
        words = csr_array(entries, shape=(process.num_states, process.num_secrets))
        told = [np.zeros((len(run.observations), process.num_secrets)) for run in runs]
        for time, (numbers, block) in enumerate(beliefs):
            for number, row in zip(numbers, (block @ words).toarray(), strict=True):
                told[number][time] = row
        return beliefs, told
    secrets = [np.zeros((len(run.observations), product.process.num_secrets)) for run in runs]
    backwards = backward_cost(product.process) <= forward_cost(product.process, _FEW)
    for time, first, rows in predict_secret(product.process, pi, [block for _, block in beliefs], backwards=backwards):
        for number, row in zip(beliefs[time][0][first:], rows, strict=False):
            secrets[number][time] = row
    return beliefs, secrets


def filter_beliefs(product: Product, pi: FloatArray, observations: Sequence[str]) -> Any:
    """Return P(x_t | o_0 .. o_t) as a sparse matrix [time, product state].

    observations: names of o_0 .. o_t. Raises InputError where they have probability 0 under the policy.
    """
    return csr_array(vstack([block for _, block in filter_together(product, pi, [observations])]))


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
    if isinstance(product.problem.secret, Trajectory):
        return secret_of_run(product, np.array(states)) if len(states) == process.horizon + 1 else ""
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
    begin, end = process.edge_slots.starts[edge : edge + 2]
    slots = process.edge_slots.columns[begin:end]
    return int(slots[draw_index(process.edge_slots.values[begin:end] * pi[slots], rng)])


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
_MOST_AT_ONCE = 500  # runs that are replayed together
_CELLS_AT_ONCE = 20_000_000  # of their beliefs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReplayStep(ContentEq):
    """One time of a run; state and action are empty where only the observations are known.

    time: 0 .. horizon.
    state: the state at that time.
    action: the action taken then.
    observation: what the observer sees then.
    belief: secret value -> P(value | observations so far), of the secret of the whole run; of a trajectory, of what is
        secret about the state at that time.
    guess: of a trajectory: what is secret about the state at that time in the most likely run, given all that was
        observed; left out elsewhere.
    """

    time: int
    state: str
    action: str
    observation: str
    belief: Mapping[str, float]
    guess: str | None = field(default=None, metadata=if_known())


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
    policy: the policy the observer expects: an object, a file, "uniform" or "return-optimal"; None is uniform.
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
    return tuple(each for batch in _replay_sampled(product, pi, runs, seed) for each in batch)


def replay_batches(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    runs: int | None = None,
    seed: int = 0,
) -> Iterator[tuple[Replay, ...]]:
    """Yield the runs that `replay` samples a batch at a time, so that memory does not grow with their number.

    The arguments are those of `replay`. Raises InputError when one of them does not fit.
    """
    check_numbers({"seed": (seed, 0, 2**64)}, whole=("seed",))
    return _replay_sampled(*compile_for_policy(problem, policy), runs, seed)


def _replay_sampled(product: Product, pi: FloatArray, runs: Any, seed: int) -> Iterator[tuple[Replay, ...]]:
    """Yield replays of sampled runs; how many are drawn at a time, by memory, does not change any of them."""
    count: int = _FEW_RUNS if runs is None else runs
    check_numbers({"runs": (count, 1, MOST_RUNS)}, whole=("runs",))
    process, rng = product.process, np.random.default_rng(seed)
    cells = (process.horizon + 1) * max(process.num_states, process.num_secrets)
    at_once = min(_MOST_AT_ONCE, max(1, _CELLS_AT_ONCE // cells))
    for first in range(0, count, at_once):
        sampled = simulate_product(product, pi, count=min(at_once, count - first), rng=rng)
        yield replay_runs(product, pi, sampled)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilterStep(ContentEq):
    """What the observer believes after one more observation.

    time: 0 .. t.
    observation: what it sees then.
    log2_probability: of the observations so far; probabilities of long sequences are too small for a float.
    secret: value -> P(value | observations so far), of the secret of the whole run.
    states: state -> P(state now | observations so far), those that are possible.
    """

    time: int
    observation: str
    log2_probability: float
    secret: Mapping[str, float]
    states: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Filtering(NotebookView, ContentEq):
    """What the observer believes along a sequence of observations.

    problem: the problem's name.
    steps: one per observation.
    """

    problem: str
    steps: tuple[FilterStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the steps as plain data."""
        plain: dict[str, Any] = encode(self)
        return plain

    def to_dataframe(self) -> DataFrame:
        """Return one line per observation: how likely all so far are, and P(value) of every value of the secret."""
        names = posterior_columns([step.secret for step in self.steps])
        lines = [
            {
                "time": step.time,
                "observation": step.observation,
                "log2_probability": step.log2_probability,
                **{column: step.secret[value] for value, column in names.items()},
            }
            for step in self.steps
        ]
        return data_frame(lines, ("time", "observation", "log2_probability", *names.values()))


def filter(
    problem: Problem | str | os.PathLike[str],
    observations: Sequence[str],
    policy: Policy | str | os.PathLike[str] | None = None,
) -> Filtering:
    """Filter a sequence of observations: what the observer believes of the secret and of the state after each.

    problem: an object, the name of a file, or the name of a scenario.
    observations: what was seen, o_0 .. o_t, by name; it may be shorter than a run.
    policy: the policy the observer expects: an object, a file, "uniform" or "return-optimal"; None is uniform.

    Raises InputError when an argument does not fit, or when the observations have probability 0 under the policy.
    """
    if isinstance(observations, str):
        raise InputError([Fault("observations", "is a text", "give a list of observations")])
    check_types({"observations": (observations, Sequence, "a list of observations")})
    product, pi = compile_for_policy(problem, policy)
    (trace,) = trace_beliefs(product, pi, [Run((), (), tuple(observations), "")])
    logs = [float(log) for _, log in filter_states(product, pi, observations)]
    names, states = product.problem.mdp.states, csr_array(trace.states)
    steps = []
    for time, (seen, shares, log) in enumerate(zip(observations, trace.secrets, logs, strict=True)):
        row = slice(states.indptr[time], states.indptr[time + 1])
        possible = zip(states.indices[row].tolist(), states.data[row].tolist(), strict=True)
        secret = dict(zip(product.secret_values, shares.tolist(), strict=True))
        steps.append(FilterStep(time, seen, log, secret, {names[state]: share for state, share in sorted(possible)}))
    return Filtering(product.problem.name, tuple(steps))


def replay_runs(product: Product, pi: FloatArray, runs: Sequence[Run]) -> tuple[Replay, ...]:
    """Replay runs of a compiled problem for an observer who expects a policy vector [slot]."""
    _, secrets = _filter_and_predict(product, pi, runs)
    guesses = reconstruct_runs(product, pi, runs)
    each = zip(runs, secrets, guesses, strict=True)
    return tuple(_build_replay(product, run, shares, guess) for run, shares, guess in each)


def reconstruct_runs(product: Product, pi: FloatArray, runs: Sequence[Run]) -> list[tuple[str | None, ...]]:
    """Return per run and time what the most likely run, given all observations, has of a trajectory; else None."""
    if not isinstance(product.problem.secret, Trajectory):
        return [(None,) * len(run.observations) for run in runs]
    number = {name: index for index, name in enumerate(product.observations)}
    seen = [np.array([number[name] for name in run.observations], dtype=np.int64) for run in runs]
    paths = likeliest_paths(product.process, pi, seen)
    return [tuple(product.secret_values[word] for word in product.process.secret[path]) for path in paths]


def _build_replay(product: Product, run: Run, posteriors: FloatArray, guesses: Sequence[str | None]) -> Replay:
    """Return a run step by step with its posteriors [time, secret value] and guesses [time]."""
    blank = ("",) * len(run.observations)
    moments = zip(run.states or blank, run.actions or blank, run.observations, posteriors, guesses, strict=True)
    return Replay(
        tuple(
            ReplayStep(time, state, action, seen, dict(zip(product.secret_values, shares.tolist(), strict=True)), guess)
            for time, (state, action, seen, shares, guess) in enumerate(moments)
        ),
        run.secret,
    )
