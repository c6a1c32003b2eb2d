"""The runs of a report: sampled ones, and one for every sequence that reveals or confuses most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.opacity.entropies import entropy
from opaq.opacity.measurement import Measurement
from opaq.opacity.sequences import ObservedSequence
from opaq.product.compile import Product
from opaq.reports.report_limits import LIMITS, ReportLimits
from opaq.simulation.belief_trace import BeliefTrace, trace_beliefs
from opaq.simulation.conditioned_runs import conditioned_runs
from opaq.simulation.runs import Run, simulated

_CELLS_AT_ONCE = 20_000_000  # of beliefs
_DRAWN = "the observations are given; states and actions are one run drawn from all that show them"


@dataclass(frozen=True, slots=True)
class _Told:
    """A run and what is said of it."""

    run: Run
    kind: str
    title: str
    note: str
    probability: float | None = None
    bits: float | None = None


def runs_of_report(
    product: Product,
    pi: FloatArray,
    measurement: Measurement,
    *,
    runs: int | None,
    rng: np.random.Generator,
    limits: ReportLimits = LIMITS,
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """The runs step by step, with what the observer believes, and what is to be said of each.

    runs: how many are sampled; None leaves that to the limits.
    """
    told = [*_sampled(product, pi, limits.num_runs(runs, product.process.horizon), rng)]
    told += _shown(product, pi, "revealing", measurement.revealing, rng)
    told += _shown(product, pi, "confusing", measurement.confusing, rng)
    told = [_cut(one, limits.longest_run) for one in told]
    steps = sum(len(one.run.observations) for one in told)
    writer = _StepWriter(
        product,
        limits.states_per_step(steps),
        limits.secrets_per_step(steps, len(product.secret_values)),
    )
    replays = [writer.steps(trace) for trace in _traces(product, pi, [one.run for one in told])]
    return replays, [_info(one) for one in told]


def _traces(product: Product, pi: FloatArray, runs: Sequence[Run]) -> Iterator[BeliefTrace]:
    """The beliefs along runs, as many runs at a time as memory allows."""
    longest = max(len(run.observations) for run in runs)
    at_once = max(1, _CELLS_AT_ONCE // (longest * max(len(product.secret_values), product.problem.mdp.num_states)))
    for first in range(0, len(runs), at_once):
        yield from trace_beliefs(product, pi, runs[first : first + at_once])


def _sampled(product: Product, pi: FloatArray, count: int, rng: np.random.Generator) -> list[_Told]:
    return [
        _Told(run, "sampled", f"Sampled run {number}", "drawn at random from all runs of the policy")
        for number, run in enumerate(simulated(product, pi, count=count, rng=rng), start=1)
    ]


def _shown(
    product: Product, pi: FloatArray, kind: str, sequences: Sequence[ObservedSequence], rng: np.random.Generator
) -> list[_Told]:
    told = []
    for number, sequence in enumerate(sequences, start=1):
        (run,) = conditioned_runs(product, pi, sequence.observations, count=1, rng=rng)
        ends = "" if sequence.complete else "; whatever follows, the secret is out"
        title = f"Most {kind} observations" if number == 1 else f"Most {kind} observations, no. {number}"
        probability = sequence.likeliest if sequence.probability is None else sequence.probability
        told.append(_Told(run, kind, title, _DRAWN + ends, probability, sequence.bits))
    return told


def _cut(told: _Told, longest: int) -> _Told:
    """A run that is too long to be shown as a whole: its beginning, and a word about it."""
    run, length = told.run, len(told.run.observations)
    if length <= longest:
        return told
    short = replace(
        run, states=run.states[:longest], actions=run.actions[:longest], observations=run.observations[:longest]
    )
    return replace(told, run=short, note=f"{told.note}; the first {longest:,} of {length:,} steps")


def _info(told: _Told) -> dict[str, Any]:
    return {
        "kind": told.kind,
        "title": told.title,
        "secret": told.run.secret,
        "probability": told.probability,
        "bits": told.bits,
        "note": told.note,
    }


@dataclass(frozen=True, slots=True)
class _StepWriter:
    """Runs with beliefs as plain data; of large beliefs the likeliest entries."""

    product: Product
    most_states: int
    most_secrets: int

    def steps(self, trace: BeliefTrace) -> list[dict[str, Any]]:
        """Every step of one run."""
        run = trace.run
        return [
            {
                "time": time,
                "state": state,
                "action": self._action(action),
                "observation": seen,
                **self._belief(trace.secrets[time]),
                **self._states(trace.states[[time]]),
                "entropy": entropy(trace.secrets[time]),
            }
            for time, (state, action, seen) in enumerate(zip(run.states, run.actions, run.observations, strict=True))
        ]

    def _action(self, name: str) -> str:
        """The model's action; with a free memory, rows choose pairs (action, next node)."""
        actions = self.product.problem.mdp.actions
        return actions[self.product.actions.index(name) * len(actions) // len(self.product.actions)]

    def _belief(self, shares: FloatArray) -> dict[str, Any]:
        names = self.product.secret_values
        if self.most_secrets >= len(names):
            return {"belief": dict(zip(names, shares.tolist(), strict=True))}
        order = np.argsort(-shares, kind="stable")[: self.most_secrets]
        kept = {names[value]: float(shares[value]) for value in order if shares[value] > 0}
        return {"belief": kept, "belief_rest": max(0.0, 1.0 - sum(kept.values()))}

    def _states(self, belief: Any) -> dict[str, Any]:
        row = belief.tocoo()
        order = np.lexsort((row.col, -row.data))
        kept = [[int(row.col[entry]), float(row.data[entry])] for entry in order[: self.most_states]]
        rest = row.data[order[self.most_states :]].sum()
        return {"states": kept, "rest": float(rest)}
