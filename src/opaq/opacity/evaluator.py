"""One policy evaluated exactly, as an interval or from samples, whichever its size allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter
from typing import Literal

import numpy as np

from opaq.beliefs.graph import Budget, Limit
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.model.leaf import Leaf, value_of
from opaq.opacity.amount import Amount
from opaq.opacity.entropies import entropy
from opaq.opacity.exact import Evaluation, evaluate
from opaq.opacity.invariants import bounded_error, bounded_leaf, bounded_opacity
from opaq.opacity.sampled import estimate
from opaq.product.process import HiddenProcess
from opaq.stop import Stop, StoppedError

Mode = Literal["auto", "exact", "interval", "sampled"]
_QUICK_NODES = 5_000_000  # beliefs of all levels together for an interval where the whole graph does not fit
_LEAST_QUICK = 500  # with fewer per level it is not worth trying
_MOST_EXPECTED = 1e15  # beliefs; an estimate beyond this says nothing
_HOPELESS = 50  # an interval this many times too wide is not tried with more beliefs


@dataclass(frozen=True, slots=True)
class ExactnessLimit:
    """What kept an answer from being exact, and what the whole belief graph would take where that can be estimated.

    limit: "beliefs" on one level, "memory", "time", "work" (of an answer without a time limit), "interrupted", or
    "mode" where the mode asked for is not exact. Estimates hold if the levels to come grow as the last ones did.
    """

    limit: Limit | Literal["time", "interrupted", "mode"]
    num_nodes: int = 0  # beliefs made before
    expected_nodes: int | None = None  # of the whole graph
    expected_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Opacity, guess error and further leaves, and how they were obtained."""

    opacity: Amount
    guess_error: Amount
    further: tuple[Amount, ...]  # [leaf]
    num_nodes: int
    explanation: str
    samples: int = 0  # how many runs were sampled, if the answer is an estimate
    exactness_limit: ExactnessLimit | None = None  # None: exact


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One policy on one process, and how precise the answer should be."""

    process: HiddenProcess
    pi: FloatArray
    prior: FloatArray
    leaves: tuple[Leaf, ...]
    width: float
    samples: int
    rng: np.random.Generator
    time: float | None
    stop: Stop
    tell: Callable[[str], None]

    def answer(self, mode: Mode, budget: Budget) -> Answer:
        """By the mode asked for; "auto" gives the exact and then the interval part of the time each a share."""
        if mode == "sampled":
            return replace(self._sample(None, "as asked"), exactness_limit=ExactnessLimit("mode"))
        if mode == "interval":
            evaluation = self._tighten(None, budget, parts=(64, 8, 1), hopeful=False)
            limit = None if evaluation.whole else ExactnessLimit("mode", evaluation.num_nodes)
            return replace(self._interval(evaluation), exactness_limit=limit)
        if mode == "exact" or self.time is not None:
            budget = replace(budget, whole_work=None)
        growth = _Growth(self.process.horizon)
        with self.stop.stage(self._share(0.5 if mode == "auto" else None)):
            first = self._evaluate(budget, whole=True, growth=growth)
            ran_out = self.stop.requested
        if first.whole:
            return self._from(first, _exact_words(first))
        stopped: Literal["interrupted", "time"] = "interrupted" if self.stop.interrupted else "time"
        limit = growth.limited_by(first.limit or stopped)
        if self.stop.requested:
            return replace(self._interval(first), exactness_limit=limit)
        answer = self._inexact(mode, first, budget, ran_out=ran_out)
        return answer if answer.opacity.method == "exact" else replace(answer, exactness_limit=limit)

    def _inexact(self, mode: Mode, first: Evaluation, budget: Budget, *, ran_out: bool) -> Answer:
        """What can be said where the whole graph could not be had."""
        if mode == "exact":
            raise BudgetError(
                f"the belief graph has more than {first.num_nodes:,} beliefs, too many for the budget; "
                "use mode interval or sampled, or allow more nodes or memory"
            )
        if self._quick(budget).nodes < min(_LEAST_QUICK, budget.nodes // 8):
            return self._sample_or_interval(first, "the belief graph does not fit the budget")
        with self.stop.stage(self._share(0.25)):
            evaluation = self._tighten(first if ran_out else None, self._quick(budget), parts=(8, 1), hopeful=True)
        return self._interval_or_sample(evaluation)

    def _share(self, part: float | None) -> float | None:
        return None if self.time is None or part is None else part * self.time

    def _interval_or_sample(self, evaluation: Evaluation) -> Answer:
        """The interval if it is narrow enough, or narrower than sampling would give."""
        if evaluation.opacity.width <= self.width or self.stop.requested:
            return self._interval(evaluation)
        reason = f"the certified interval stayed {evaluation.opacity.width:.2g} bits wide"
        sampled = self._sample_or_interval(evaluation, reason)
        if evaluation.opacity.width <= 4 * (sampled.opacity.standard_error or 0.0):
            return self._from(evaluation, f"certified interval, narrower than sampling would give ({reason})")
        return sampled

    def _sample_or_interval(self, evaluation: Evaluation, reason: str) -> Answer:
        """An estimate beside the interval, or the interval alone where the work ended before there was an estimate."""
        try:
            return self._sample(evaluation, reason)
        except StoppedError:
            return self._interval(evaluation)

    def _interval(self, evaluation: Evaluation) -> Answer:
        kept = f"{evaluation.num_nodes:,} beliefs kept, {evaluation.dropped_mass:.2g} of the probability dropped"
        if evaluation.whole:
            return self._from(evaluation, _exact_words(evaluation))
        why = f"; {self.stop.reason}" if self.stop.requested else ""
        return self._from(evaluation, f"certified interval: {kept}{why}")

    def _quick(self, budget: Budget) -> Budget:
        """An eighth of the budget, less for long horizons: an interval should not take longer than sampling would."""
        return replace(budget, nodes=max(1, min(budget.nodes // 8, _QUICK_NODES // (self.process.horizon + 1))))

    def _tighten(self, best: Evaluation | None, budget: Budget, *, parts: tuple[int, ...], hopeful: bool) -> Evaluation:
        """Ever larger parts of the graph until the interval is narrow enough, the budget is used up or time is.

        With `hopeful` also until a larger part can hardly make it narrow enough.
        """
        for part in parts:
            evaluation = self._evaluate(replace(budget, nodes=max(budget.nodes // part, 1)))
            best = evaluation if best is None else _narrower(best, evaluation)
            hopeless = hopeful and best.opacity.width > _HOPELESS * self.width
            if best.whole or hopeless or best.opacity.width <= self.width or self.stop.requested:
                break
        assert best is not None, "there is at least one part"
        return best

    def _evaluate(self, budget: Budget, *, whole: bool = False, growth: _Growth | None = None) -> Evaluation:
        """What knowing the prior alone says of opacity and guess error tightens the upper ends."""
        levels = self.process.horizon

        def on_level(done: int, nodes: int) -> None:
            if growth is not None:
                growth.note(done, nodes)
            self.tell(f"observation {done} of {levels}, {nodes:,} beliefs")

        evaluation = evaluate(
            self.process,
            self.pi,
            leaves=self.leaves,
            budget=budget,
            whole=whole,
            stop=self.stop,
            on_level=on_level,
        )
        return replace(
            evaluation,
            opacity=bounded_opacity(evaluation.opacity, self.prior),
            guess_error=bounded_error(evaluation.guess_error, self.prior),
            further=tuple(map(self._bounded, evaluation.further, self.leaves)),
        )

    def _bounded(self, amount: Amount, leaf: Leaf) -> Amount:
        return bounded_leaf(amount, leaf, self.prior, what=type(leaf).__name__)

    def _unknown(self, leaf: Leaf) -> Amount:
        """What the prior alone says of an uncertainty."""
        return self._bounded(Amount.between(float(leaf.certain @ self.prior), value_of(leaf, self.prior)), leaf)

    def _from(self, evaluation: Evaluation, explanation: str) -> Answer:
        return Answer(evaluation.opacity, evaluation.guess_error, evaluation.further, evaluation.num_nodes, explanation)

    def _sample(self, evaluation: Evaluation | None, reason: str) -> Answer:
        """An estimate with standard errors, beside whatever interval is certified."""
        estimated = estimate(
            self.process,
            self.pi,
            samples=self.samples,
            rng=self.rng,
            leaves=self.leaves,
            stop=self.stop,
            on_batch=lambda done: self.tell(f"{done:,} of {self.samples:,} runs sampled"),
        )
        opacity = evaluation.opacity if evaluation else Amount.between(0.0, entropy(self.prior))
        error = evaluation.guess_error if evaluation else Amount.between(0.0, 1.0 - float(self.prior.max()))
        further = evaluation.further if evaluation else tuple(map(self._unknown, self.leaves))
        early = f"; {self.stop.reason}" if estimated.samples < self.samples else ""
        return Answer(
            _estimated(opacity, estimated.opacity, estimated.opacity_error),
            _estimated(error, estimated.guess_error, estimated.guess_error_error),
            tuple(_estimated(known, *mean) for known, mean in zip(further, estimated.further, strict=True)),
            evaluation.num_nodes if evaluation else 0,
            f"estimated from {estimated.samples:,} sampled runs ({reason}{early})",
            estimated.samples,
        )


@dataclass(slots=True)
class _Growth:
    """How a graph grew, level by level."""

    horizon: int
    begun: float = field(default_factory=perf_counter)
    noted: list[tuple[int, int, float]] = field(default_factory=list)  # levels, beliefs so far, seconds

    def note(self, levels: int, num_nodes: int) -> None:
        """One or more levels are made."""
        self.noted.append((levels, num_nodes, perf_counter() - self.begun))

    def limited_by(self, limit: Limit | Literal["time", "interrupted"]) -> ExactnessLimit:
        """Return the limit that was met with an estimate of the whole graph.

        There is one where the last three levels are known one by one, and no more levels are left than were made: the
        last ratio of their sizes is taken to last. Where memory or time ended the work, the last level is not complete.
        """
        num_nodes = self.noted[-1][1] if self.noted else 0
        complete = self.noted[:-1] if limit in ("memory", "time", "interrupted") else self.noted
        (last, total, seconds), sizes = complete[-1] if complete else (0, 0, 0.0), _last_sizes(complete)
        left = self.horizon - last
        if sizes is None or left > last:
            return ExactnessLimit(limit, num_nodes)
        ratio = sizes[1] / sizes[0]
        expected = total + sum(sizes[1] * ratio**step for step in range(1, left + 1))
        if expected > _MOST_EXPECTED:
            return ExactnessLimit(limit, num_nodes)
        per_node = seconds / (total - sizes[1])  # nodes of the last level were not looked at beyond it
        return ExactnessLimit(limit, num_nodes, int(expected), expected * per_node)


def _last_sizes(noted: list[tuple[int, int, float]]) -> tuple[int, int] | None:
    """The sizes of the last two levels, where those were noted one by one."""
    if len(noted) < 3 or noted[-1][0] - noted[-3][0] != 2:
        return None
    before, last = (after[1] - first[1] for first, after in pairwise(noted[-3:]))
    return (before, last) if before > 0 else None


def _narrower(first: Evaluation, second: Evaluation) -> Evaluation:
    """What two evaluations of one policy say together."""
    return replace(
        second if second.dropped_mass <= first.dropped_mass else first,
        opacity=_both(first.opacity, second.opacity),
        guess_error=_both(first.guess_error, second.guess_error),
        further=tuple(map(_both, first.further, second.further)),
    )


def _both(first: Amount, second: Amount) -> Amount:
    lower, upper = max(first.lower, second.lower), min(first.upper, second.upper)
    return Amount.between(lower, max(lower, upper))


def _estimated(certified: Amount, value: float, standard_error: float) -> Amount:
    return Amount.estimate(value, certified.lower, certified.upper, standard_error=standard_error)


def _exact_words(evaluation: Evaluation) -> str:
    beliefs = "1 belief" if evaluation.num_nodes == 1 else f"{evaluation.num_nodes:,} beliefs"
    return f"exact: the whole belief graph fits ({beliefs})"
