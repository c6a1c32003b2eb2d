"""What the observer knows after every observation, what tells it most, and how sure it is in the end.

Level t + 1 of the belief graph holds every belief after o_0 .. o_t, so that H(Z | o_0 .. o_t) = sum over its nodes of
mass * H(Z | belief), never rising in t. Beliefs that settle the secret are not in the graph: they add no bits, and in
the end the observer is sure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opaq.beliefs.graph import Budget, Chain, Graph
from opaq.beliefs.secret_prediction import backward_cost, forward_cost, predict_secret
from opaq.beliefs.unroll import unroll
from opaq.codec import encode
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import BudgetError, check_numbers, check_types
from opaq.model.arrays import ContentEq, FloatArray, floats
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.uncertainty import GuessError, Shannon, plogp
from opaq.opacity.amount import Amount
from opaq.opacity.levels import Levels
from opaq.opacity.measure import Measurement, measure, measure_product
from opaq.opacity.policies import compile_for_policy
from opaq.opacity.sequences import ObservedSequence
from opaq.product.process import HiddenProcess
from opaq.stop import Deadline, Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame


_MOST_NODES = 300_000  # beliefs of a graph that is looked at as a whole
_SOME_NODES = 1000  # per level, where an interval is tried
_MEMORY = 512 << 20
_NARROW = 0.02  # an interval of at most this share of H(Z) is worth showing
_MOST_RUNS, _LEAST_RUNS = 1000, 30  # sampled, where the graph is too large
_OPERATIONS = 2e9  # multiplications that the estimate may take
_TWO_SIDED = 1.96  # standard errors to each end of a 95% interval
_SURE, _UNSURE = 0.99, 0.75
_BINS = 20

TimeMethod = Literal["exact", "interval", "estimate"]


@dataclass(frozen=True, slots=True, eq=False)
class OpacityOverTime(NotebookView, ContentEq):
    """H(Z | o_0 .. o_t) and the guess error after o_0 .. o_t, for t = 0 .. horizon."""

    method: TimeMethod
    explanation: str
    opacity: FloatArray  # [time], bits; never rises, but for the opacity of the present
    lower: FloatArray  # [time]: certified, or where it lies with 95% if it is an estimate
    upper: FloatArray  # [time]
    guess_error: FloatArray  # [time]
    samples: int | None = None  # runs behind an estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data, lists over the times."""
        plain: dict[str, Any] = encode(self)
        return plain

    def to_dataframe(self) -> DataFrame:
        """Return one line per time: opacity, its two ends, and the guess error."""
        names = ("opacity", "lower", "upper", "guess_error")
        lines = [
            {"time": time, **{name: float(getattr(self, name)[time]) for name in names}}
            for time in range(self.opacity.size)
        ]
        return data_frame(lines, ("time", *names))


@dataclass(frozen=True, slots=True, eq=False)
class Confidences(ContentEq):
    """The distribution of the observer's final confidence, max over z of P(z | o_0 .. o_T), in bins.

    A confidence c is right with probability c, so that the bins also say how often a sure observer is wrong.
    """

    method: TimeMethod
    explanation: str
    edges: FloatArray  # [bin + 1]
    right: FloatArray  # [bin]: probability of this confidence, and that the best guess is right
    wrong: FloatArray  # [bin]: the same and that it is wrong
    sure: float  # probability of a confidence of at least 0.99
    unsure: float  # probability of a confidence below 0.75
    samples: int | None = None  # runs behind an estimate


@dataclass(frozen=True, slots=True, eq=False)
class _BeliefLevels:
    """The beliefs after o_0 .. o_t for every t, each with its weight."""

    graph: Graph
    method: TimeMethod
    explanation: str
    runs: int = 0  # how many were sampled

    def weight(self, time: int) -> FloatArray:
        """Return [belief]: P(belief) after o_time, or the share of the sampled runs that hold it."""
        nodes = self.graph.levels[time + 1].nodes
        return nodes.runs / self.runs if self.runs else np.real(nodes.mass)


def opacity_over_time(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    stop: Stop | None = None,
) -> OpacityOverTime:
    """Return H(secret | o_0 .. o_t) and the guess error after every observation of a run.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy.
    seed: of the runs that are sampled where the belief graph is too large.
    time_limit: seconds for all of it; so it ends when `stop` is requested or, without a stop, after Ctrl-C.

    The last figure is that of `measure`. Raises InputError when an argument does not fit, StoppedError when there was
    too little time, BudgetError where the problem is too large even for an estimate.
    """
    call = Deadline(time_limit)
    limits = {"seed": (seed, 0, 2**64), "time_limit": (time_limit, 0, math.inf)}
    check_numbers(limits, whole=("seed",), optional=("time_limit",))
    check_types({"stop": (stop, Stop, "an opaq.Stop")}, optional=("stop",))
    product, pi = compile_for_policy(problem, policy)
    rng = np.random.default_rng(seed)
    with interruptible(stop, keep_answer=False) as active, active.limit(call.left):
        measurement = measure_product(product, pi, rng=rng, time=call.share(0.5), sequences=0, stop=active)
        over, _ = knowledge_over_time(product.process, pi, measurement, rng=rng, stop=active)
        active.check()
    if over is None:
        raise BudgetError("the problem is too large for its opacity after every observation")
    return over


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RevealingSequences(NotebookView, ContentEq):
    """The observation sequences that give the secret away, by their share of the leakage; a list of them.

    problem: the problem's name.
    leakage: what all sequences together tell, in bits.
    sequences: the largest shares first.
    """

    problem: str
    leakage: Amount
    sequences: tuple[ObservedSequence, ...]

    def __iter__(self) -> Iterator[ObservedSequence]:
        return iter(self.sequences)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> ObservedSequence:
        return self.sequences[index]

    def to_dict(self) -> dict[str, Any]:
        """Return the sequences as plain data."""
        plain: dict[str, Any] = encode(self)
        return plain

    def to_dataframe(self) -> DataFrame:
        """Return one line per sequence: what is seen, how likely it is, its share in bits, and P(value) after it."""
        names = posterior_columns([each.posterior for each in self.sequences])
        fixed = ("observations", "complete", "probability", "likeliest", "num_sequences", "bits")
        lines = [
            {name: getattr(each, name) for name in fixed}
            | {column: each.posterior.get(value, 0.0) for value, column in names.items()}
            for each in self.sequences
        ]
        return data_frame(lines, (*fixed, *names.values()))


def most_revealing(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    count: int = 5,
    seed: int = 0,
    time_limit: float | None = None,
    stop: Stop | None = None,
) -> RevealingSequences:
    """Return the observation sequences with the largest share of the leakage, and what is believed after each.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy.
    count: how many, 1 to 1,000,000.
    seed, time_limit, stop: as for `measure`, which raises what does not fit.
    """
    check_numbers({"count": (count, 1, 10**6)}, whole=("count",))
    measured = measure(problem, policy, seed=seed, time_limit=time_limit, sequences=count, stop=stop)
    return RevealingSequences(measured.problem, measured.leakage, measured.revealing)


def knowledge_over_time(
    process: HiddenProcess, pi: FloatArray, measurement: Measurement, *, rng: np.random.Generator, stop: Stop
) -> tuple[OpacityOverTime | None, Confidences | None]:
    """Return opacity and guess error after every observation, and the final confidences, of a measured policy.

    process, pi: a compiled process and the policy vector [slot].
    measurement: of that policy; its figures are those of the last time, and its method tells whether the graph is
        small.
    rng: draws the runs of an estimate.
    stop: checked between levels; (None, None) is returned once it is requested.

    Exact where the belief graph is small enough; otherwise an interval where a part of the graph gives a narrow one,
    and an estimate from sampled runs where it does not. A part is None where even that would take too long.
    """
    if measurement.moments is not None or measurement.steps_guessed is not None:
        return _moments_over_time(process, pi, rng, stop), None
    try:
        whole = _build_whole_graph(process, pi, measurement, stop)
        if whole is not None:
            return _choose_levels(process, pi, measurement, whole, whole, stop)
        sampled = _sample_levels(process, pi, rng, stop)
        part = _build_partial_graph(process, pi, stop) if measurement.opacity.method != "sampled" else None
        return _choose_levels(process, pi, measurement, part, sampled, stop)
    except StoppedError:
        return None, None


def _choose_levels(
    process: HiddenProcess,
    pi: FloatArray,
    measurement: Measurement,
    first: _BeliefLevels | None,
    second: _BeliefLevels | None,
    stop: Stop,
) -> tuple[OpacityOverTime | None, Confidences | None]:
    """Return opacity over time and final confidences from the better of two sets of levels.

    Over time from `first` where its interval is narrow, else from `second`; the confidences from `second`.
    """
    spread = None if second is None else _uncertainties(process, pi, second, stop)
    over = None
    if first is not None and first is not second:
        over = _over_time(measurement, first, _uncertainties(process, pi, first, stop))
        if (over.upper - over.lower).max() > _NARROW * max(measurement.secret_entropy, 1e-300):
            over = None
    if second is None or spread is None:
        return over, None
    return over or _over_time(measurement, second, spread), _confidences(second, spread[-1][1])


def _build_whole_graph(
    process: HiddenProcess, pi: FloatArray, measurement: Measurement, stop: Stop
) -> _BeliefLevels | None:
    """Return the whole graph, where it is known to be small and its beliefs are quickly turned to the secret."""
    if measurement.opacity.method != "exact" or measurement.num_nodes > _MOST_NODES:
        return None
    if backward_cost(process) > _OPERATIONS:
        return None
    budget = Budget(nodes=_MOST_NODES, memory=_MEMORY)
    graph = unroll(Chain.of(process, pi, stop=stop), steps=process.horizon + 1, budget=budget, keep=True, whole=True)
    stop.check()
    if not graph.whole:
        return None
    return _BeliefLevels(graph, "exact", f"exact: every belief of the observer, {graph.num_nodes:,} of them")


def _build_partial_graph(process: HiddenProcess, pi: FloatArray, stop: Stop) -> _BeliefLevels | None:
    """Return the part of a large graph that matters most."""
    if backward_cost(process) > _OPERATIONS:
        return None
    budget = Budget(nodes=_SOME_NODES, memory=_MEMORY)
    graph = unroll(Chain.of(process, pi, stop=stop), steps=process.horizon + 1, budget=budget, keep=True)
    stop.check()
    what = f"{graph.num_nodes:,} beliefs kept, {graph.dropped_mass:.2g} of the probability dropped"
    return _BeliefLevels(graph, "interval", f"certified intervals: {what}")


def _sample_levels(
    process: HiddenProcess, pi: FloatArray, rng: np.random.Generator, stop: Stop
) -> _BeliefLevels | None:
    """Return as many sampled runs as can be followed in a short time; None where those would be too few.

    A run costs a step along all edges per time and, where the backward prediction is too expensive, moving each of its
    beliefs on to the horizon.
    """
    spent = backward_cost(process)
    each = process.horizon * process.edge_target.size + (forward_cost(process, 1) if spent > _OPERATIONS else 0.0)
    runs = min(_MOST_RUNS, int(_OPERATIONS // max(each, 1.0)))
    if runs < _LEAST_RUNS:
        return None
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon + 1, keep=True, samples=runs, rng=rng)
    stop.check()
    return _BeliefLevels(graph, "estimate", f"estimated from {runs:,} sampled runs", runs)


def _uncertainties(
    process: HiddenProcess, pi: FloatArray, levels: _BeliefLevels, stop: Stop
) -> list[tuple[FloatArray, FloatArray]]:
    """Return for every time, per belief: H(Z | belief) in bits and max over z of P(z | belief)."""
    blocks = [_rows(process, levels.graph.levels[time + 1].nodes) for time in range(process.horizon + 1)]
    spread = [(np.zeros(block.shape[0]), np.zeros(block.shape[0])) for block in blocks]
    backwards = backward_cost(process) <= _OPERATIONS
    for time, first, rows in predict_secret(process, pi, blocks, backwards=backwards):
        stop.check()
        entropy, largest = spread[time]
        entropy[first : first + rows.shape[0]] = np.maximum(0.0, -plogp(rows).sum(axis=1))
        largest[first : first + rows.shape[0]] = np.minimum(1.0, rows.max(axis=1, initial=0.0))
    return spread


def _rows(process: HiddenProcess, nodes: Any) -> Any:
    """Return the beliefs of a level as a sparse matrix [node, product state]."""
    from scipy.sparse import csr_array

    shape = (nodes.mass.size, process.num_states)
    return csr_array((np.real(nodes.belief), process.pairs.state[nodes.pair], nodes.start), shape=shape)


def _over_time(
    measurement: Measurement, levels: _BeliefLevels, spread: list[tuple[FloatArray, FloatArray]]
) -> OpacityOverTime:
    """Return the means over beliefs at every time; the last time is the measurement's own.

    spread: [time] -> (H(Z | belief), max P(z | belief)), per belief. With w the weights of the beliefs, opacity is sum
        of w H and the guess error sum of w (1 - max). Dropped beliefs widen the upper end by Graph.dropped; for an
        estimate the ends are 1.96 standard errors away.
    """
    weights = [levels.weight(time) for time in range(len(spread))]
    opacity = np.array([weight @ entropy for weight, (entropy, _) in zip(weights, spread, strict=True)])
    error = np.array([weight @ (1.0 - largest) for weight, (_, largest) in zip(weights, spread, strict=True)])
    lower = upper = opacity
    if levels.method == "interval":
        upper = opacity + levels.graph.dropped[1]
        opacity, error = opacity + 0.5 * levels.graph.dropped[1], error + 0.5 * levels.graph.dropped[2]
    if levels.method == "estimate":
        squares = np.array([weight @ entropy**2 for weight, (entropy, _) in zip(weights, spread, strict=True)])
        margin = _TWO_SIDED * np.sqrt(np.maximum(squares - opacity**2, 0.0) / max(levels.runs - 1, 1))
        lower, upper = opacity - margin, opacity + margin
    most, (least, largest) = measurement.secret_entropy, _bounds_of(measurement.opacity)
    return OpacityOverTime(
        levels.method,
        levels.explanation + _describe_last_point(measurement, levels),
        opacity=_make_nonincreasing(opacity, measurement.opacity.value, most),
        lower=_make_nonincreasing(lower, least, most),
        upper=_make_nonincreasing(upper, largest, most),
        guess_error=_make_nonincreasing(error, measurement.guess_error.value, 1.0),
        samples=levels.runs or None,
    )


def _describe_last_point(measurement: Measurement, levels: _BeliefLevels) -> str:
    """Return the addition that the last time is exact, where the measurement is and the levels are not."""
    if levels.method == "exact" or measurement.opacity.method != "exact":
        return ""
    what = "the last point is" if measurement.guess_error.method == "exact" else "the opacity of the last point is"
    return f"; {what} exact, as measured"


def _bounds_of(amount: Amount) -> tuple[float, float]:
    """Return the certain bounds of an amount, or its 95% interval if it is an estimate."""
    if amount.standard_error is None:
        return amount.lower, amount.upper
    margin = _TWO_SIDED * amount.standard_error
    return max(amount.lower, amount.value - margin), min(amount.upper, amount.value + margin)


def _make_nonincreasing(values: FloatArray, last: float, most: float) -> FloatArray:
    """Return values [time] with the last one replaced and all made monotone.

    Knowing more never raises an expected uncertainty, so that each value bounds the later ones from above. last: the
    value at the horizon; most: the value before anything is seen.
    """
    falling = np.minimum.accumulate(np.minimum(values, most))
    return np.append(np.maximum(falling[:-1], last), last)


def _confidences(levels: _BeliefLevels, largest: FloatArray) -> Confidences:
    """Return the final confidences in bins; the probability that is missing settled the secret before the end."""
    weight = levels.weight(len(levels.graph.levels) - 2)
    settled = max(0.0, 1.0 - float(weight.sum()))
    weight, largest = np.append(weight, settled), np.append(largest, 1.0)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    index = np.clip((largest * _BINS + 1e-9).astype(np.int64), 0, _BINS - 1)
    return Confidences(
        levels.method,
        levels.explanation,
        edges,
        right=floats(np.bincount(index, weights=weight * largest, minlength=_BINS)),
        wrong=floats(np.bincount(index, weights=weight * (1.0 - largest), minlength=_BINS)),
        sure=float(weight[largest >= _SURE].sum()),
        unsure=float(weight[largest < _UNSURE].sum()),
        samples=levels.runs or None,
    )


def _moments_over_time(
    process: HiddenProcess, pi: FloatArray, rng: np.random.Generator, stop: Stop
) -> OpacityOverTime | None:
    """Return the opacity and the guess error of the present, H(W_t | o_0 .. o_t), at every time; None after a stop.

    Exact where the belief graph fits, else an estimate from sampled runs.
    """
    names, ones = tuple(str(value) for value in range(process.num_secrets)), np.ones(process.horizon + 1)
    kinds = [Levels.present(process, leaf.over(names), ones) for leaf in (Shannon(), GuessError())]
    budget = Budget(nodes=_MOST_NODES, memory=_MEMORY, whole_work=_OPERATIONS)
    first = kinds[0].moments(pi, budget=budget, whole=True, stop=stop)
    if stop.requested:
        return None
    if first.dropped_mass == 0.0:
        error = kinds[1].moments(pi, budget=budget, stop=stop)
        opacity, errors = (floats([amount.value for amount in each.amounts]) for each in (first, error))
        return OpacityOverTime(
            "exact", f"exact, of the present: {first.num_nodes:,} beliefs", opacity, opacity, opacity, errors
        )
    try:
        sampled, wrong = (levels.sample_moments(pi, samples=_MOST_RUNS, rng=rng, stop=stop) for levels in kinds)
    except StoppedError:
        return None
    mean, margin = sampled.mean(axis=0), _TWO_SIDED * sampled.std(axis=0, ddof=1) / math.sqrt(sampled.shape[0])
    return OpacityOverTime(
        "estimate",
        f"estimated from {_MOST_RUNS:,} sampled runs, of the present",
        opacity=floats(mean),
        lower=floats(mean - margin),
        upper=floats(mean + margin),
        guess_error=floats(wrong.mean(axis=0)),
        samples=_MOST_RUNS,
    )
