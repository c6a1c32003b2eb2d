"""Measure figures of all moments of a run: trajectories, and tasks about every moment or the least one.

A compiled problem and a policy come in; a `Measurement` goes out, as of `measure`. Of a trajectory W_0 .. W_T opacity
is H(W | Y) = H(W, Y) - H(Y), the guess is that of the whole run, and `opacity_per_step` divides by its moments. Where
the task is about every moment, opacity and leakage are those of the secret's values then, summed up or the least;
guesses are those after the last observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount, Target, fano_bound
from opaq.opacity.functionals import figure_of
from opaq.opacity.guessing import RunGuess, guess_run
from opaq.opacity.leakage import leakage_of_right, map_amount
from opaq.opacity.levels import BATCHES, Levels, Moments, show_words, trajectory_figure
from opaq.opacity.measure import (
    ExactnessLimit,
    Growth,
    Measurement,
    Mode,
    evaluate_requirements,
    leakage_from,
    measure_pair,
)
from opaq.product.compile import Product
from opaq.stop import Stop, StoppedError

_GUESSED_RUNS = 1_000  # sampled runs whose best guesses are looked at
_MOST_BITS = 900.0  # of the number of trajectories, in Fano's inequality


@dataclass(frozen=True, slots=True)
class LevelsAnswer:
    """A figure of all moments, and how it was obtained."""

    total: Amount
    moments: tuple[Amount, ...]  # [time]
    num_nodes: int
    samples: int = 0
    limit: ExactnessLimit | None = None  # None: exact

    @property
    def explanation(self) -> str:
        """How it was obtained, in words."""
        if self.limit is None:
            return f"exact: all beliefs of every moment ({self.num_nodes:,} beliefs)"
        if self.samples:
            why = "as asked" if self.limit.limit == "mode" else "the belief graph does not fit the budget"
            return f"estimated from {self.samples:,} sampled runs ({why})"
        return f"certified interval: {self.num_nodes:,} beliefs kept"


@dataclass(frozen=True, slots=True)
class _Question:
    """One policy, and how precise the answer should be; as in `measure_product`."""

    pi: FloatArray
    mode: Mode
    width: float
    samples: int
    rng: np.random.Generator
    budget: Budget
    time: float | None
    stop: Stop
    tell: Callable[[str], None]

    def answer(self, levels: Levels) -> LevelsAnswer:
        """Evaluate the whole graph, else a part of it where that gives a narrow interval, else sampled runs.

        Raises BudgetError in mode "exact" where the graph does not fit.
        """
        if self.mode == "sampled":
            return self._sample(levels, None, ExactnessLimit("mode"))
        growth = Growth(levels.process.horizon)

        def on_level(done: int, nodes: int) -> None:
            growth.note(done, nodes)
            self.tell(f"observation {done} of {levels.process.horizon}, {nodes:,} beliefs")

        whole = self.mode != "interval"
        lifted = self.budget if self.mode != "exact" and self.time is None else replace(self.budget, whole_work=None)
        with self.stop.stage(None if self.time is None or self.mode != "auto" else 0.4 * self.time):
            first = levels.moments(self.pi, budget=lifted, whole=whole, stop=self.stop, on_level=on_level)
            stopped: Literal["interrupted", "time"] = "interrupted" if self.stop.interrupted else "time"
        if first.dropped_mass == 0.0:
            return LevelsAnswer(levels.amount(first), first.amounts, first.num_nodes)
        if self.mode == "exact":
            raise BudgetError(f"the belief graph has more than {first.num_nodes:,} beliefs, too many for the budget")
        limit = growth.limited_by(first.limit or stopped) if whole else ExactnessLimit("mode", first.num_nodes)
        if self.stop.requested or not whole:
            return LevelsAnswer(levels.amount(first), first.amounts, first.num_nodes, limit=limit)
        nodes = max(1, min(self.budget.nodes // 8, 1_000_000 // (levels.process.horizon + 1)))
        part = levels.moments(self.pi, budget=replace(self.budget, nodes=nodes), stop=self.stop)
        if levels.amount(part).width <= self.width or self.stop.requested:
            return LevelsAnswer(levels.amount(part), part.amounts, part.num_nodes, limit=limit)
        return self._sample(levels, part, limit)

    def _sample(self, levels: Levels, known: Moments | None, limit: ExactnessLimit) -> LevelsAnswer:
        """Estimate from sampled runs, beside whatever interval is certified; where time is up, that interval."""
        try:
            values = levels.sample_moments(self.pi, samples=self.samples, rng=self.rng, stop=self.stop)
        except StoppedError:
            if known is None:
                raise
            return LevelsAnswer(levels.amount(known), known.amounts, known.num_nodes, limit=limit)
        low = np.full(values.shape[1], levels.certain)
        high = low + levels.most
        if known is not None:
            low, high = np.array([(amount.lower, amount.upper) for amount in known.amounts]).T
        errors = values.std(axis=0, ddof=1) / math.sqrt(values.shape[0])
        each = zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), errors.tolist(), strict=True)
        moments = tuple(Amount.estimate(value, one, two, standard_error=error) for value, one, two, error in each)
        mean, weights = levels.combine(values.mean(axis=0))
        error = float((values @ weights).std(ddof=1) / math.sqrt(values.shape[0]))
        total = Amount.estimate(mean, levels.combine(low)[0], levels.combine(high)[0], standard_error=error)
        nodes, runs = 0 if known is None else known.num_nodes, self.samples * values.shape[0] // BATCHES
        return LevelsAnswer(total, moments, nodes, max(1, min(runs, self.samples)), limit)


def measure_moments(
    product: Product,
    pi: FloatArray,
    *,
    mode: Mode,
    width: float,
    samples: int,
    rng: np.random.Generator,
    budget: Budget,
    time: float | None,
    sequences: int | None,
    start_time: float,
    stop: Stop,
    on_progress: Callable[[str], None] | None,
) -> Measurement:
    """Measure a policy vector where the figure is one of all moments; arguments as of `measure_product`."""
    asked = _Question(pi, mode, width, samples, rng, budget, time, stop, on_progress or (lambda text: None))
    if isinstance(product.problem.secret, Trajectory):
        return _measure_trajectory(product, asked, start_time)
    target = figure_of(product, product.problem.task)
    assert isinstance(target, Levels)
    task = product.problem.task
    at_end = replace(product, problem=replace(product.problem, task=replace(task, when="end")))
    measurement = measure_pair(
        at_end, pi, mode=mode, width=width, samples=samples, rng=rng, budget=budget, time=time, sequences=sequences,
        start_time=start_time, stop=stop, on_progress=on_progress,
    )  # fmt: skip
    own = asked.answer(target)
    entropy = Shannon().over(product.secret_values)
    hidden = target if task.of == Shannon() else Levels.present(
        target.process, entropy, target.weights, least=target.least
    )  # fmt: skip
    opacity = own if hidden is target else asked.answer(hidden)
    before = target.prior(pi, stop=stop)[0]
    blind = replace(target, process=target.unseen.process, cells=target.unseen.cells) if target.unseen else target
    return replace(
        measurement,
        opacity=opacity.total,
        secret_entropy=before,
        leakage=leakage_from(before, opacity.total),
        objective=Target.of_task(task.of, minimise=task.minimise, amount=own.total),
        secret_uncertainty=blind.evaluate(pi, budget=budget, stop=stop).amount.value,
        explanation=own.explanation,
        num_nodes=own.num_nodes,
        exactness_limit=own.limit,
        seconds=perf_counter() - start_time,
        opacity_per_step=_per_step(opacity.total, float(target.weights.sum())) if target.least is None else None,
        moments=opacity.moments,
    )


def _measure_trajectory(product: Product, asked: _Question, start_time: float) -> Measurement:
    """Measure a policy whose whole run is secret."""
    process, problem, pi, stop = product.process, product.problem, asked.pi, asked.stop
    met = evaluate_requirements(product, pi, stop=stop)
    stop.check()
    joint, seen = (part for part in trajectory_figure(process).parts if isinstance(part, Levels))
    words = Levels.outputs(show_words(process, process.secret, beside=False))
    parts = [_few_beliefs(levels, asked) or asked.answer(levels) for levels in (words, joint)]
    parts.append(asked.answer(seen))
    entropy = parts[0].total.value
    difference = parts[1].total.minus(parts[2].total)
    opacity = _within(difference, parts[0].total.upper)
    guess, blind = _guess(product, asked)
    missed, before = (map_amount(each.right, lambda right: 1.0 - right, slope=-1.0) for each in (guess, blind))
    vulnerability, min_entropy = leakage_of_right(blind.right.value, guess.right)
    inexact = next((part for part in (*parts[1:], parts[0]) if part.limit is not None), parts[2])
    bits = (process.horizon + 1) * math.log2(max(process.num_secrets, 1))
    return Measurement(
        problem=problem.name,
        opacity=opacity,
        secret_entropy=entropy,
        secret_distribution={},
        leakage=leakage_from(entropy, opacity),
        guess_error=missed,
        secret_guess_error=before.value,
        vulnerability=vulnerability,
        min_entropy_leakage=min_entropy,
        guesswork=None,
        secret_guesswork=None,
        objective=Target.of_task(problem.task.of, minimise=problem.task.minimise, amount=opacity),
        secret_uncertainty=entropy,
        g_leakage=None,
        fano_bound=fano_bound(opacity.lower, round(2.0**bits)) if bits <= _MOST_BITS else 0.0,
        expected_return=met[0].value,
        threshold=met[0].threshold,
        feasible=all(requirement.feasible for requirement in met),
        requirements=met,
        revealing=(),
        confusing=(),
        explanation=replace(inexact, num_nodes=sum(part.num_nodes for part in parts)).explanation,
        horizon=process.horizon,
        num_product_states=process.num_states,
        num_nodes=sum(part.num_nodes for part in parts),
        seconds=perf_counter() - start_time,
        exactness_limit=inexact.limit,
        opacity_per_step=_per_step(opacity, process.horizon + 1.0),
        steps_guessed=guess.share,
    )


def _few_beliefs(levels: Levels, asked: _Question) -> LevelsAnswer | None:
    """Return the exact answer where runs are to be sampled, but no level has more beliefs than there are states.

    So it is where the words tell the states: what is shown beside them then adds no doubt.
    """
    if asked.mode != "sampled":
        return None
    few = replace(asked.budget, nodes=min(levels.process.num_states, asked.budget.nodes))
    at = levels.moments(asked.pi, budget=few, whole=True, stop=asked.stop)
    return None if at.dropped_mass else LevelsAnswer(levels.amount(at), at.amounts, at.num_nodes)


def _within(amount: Amount, entropy: float) -> Amount:
    """Return an amount of opacity within 0 and the entropy of the secret."""
    if amount.method == "exact":
        return Amount.exact(min(max(amount.value, 0.0), entropy))
    lower, upper = max(amount.lower, 0.0), max(min(amount.upper, entropy), 0.0)
    if amount.method == "interval":
        return Amount.between(min(lower, upper), upper)
    return Amount.estimate(amount.value, min(lower, upper), upper, standard_error=amount.standard_error)


def _guess(product: Product, asked: _Question) -> tuple[RunGuess, RunGuess]:
    """Return what guesses of the run are worth, with observations and, which is quick, without.

    After a stop all that is known of the first is that observing does not make guesses worse.
    """
    process, samples = product.process, min(asked.samples, _GUESSED_RUNS)
    unseen = show_words(process, np.zeros_like(process.secret), beside=False)
    blind = replace(unseen, secret=process.secret, num_secrets=process.num_secrets)
    before = guess_run(blind, asked.pi, samples=samples, rng=asked.rng)
    try:
        return guess_run(process, asked.pi, samples=samples, rng=asked.rng, stop=asked.stop), before
    except StoppedError:
        return RunGuess(Amount.between(before.right.lower, 1.0), Amount.between(before.share.lower, 1.0)), before


def _per_step(amount: Amount, steps: float) -> Amount:
    """Return an amount divided by the moments of a run."""
    return map_amount(amount, lambda bits: bits / steps, slope=1.0 / steps)


def concerns_moments(problem: Problem) -> bool:
    """Return whether the figure of a problem is one of all moments of a run, not of its end alone."""
    return isinstance(problem.secret, Trajectory) or problem.task.when != "end"
