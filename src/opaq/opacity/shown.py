"""Which sequences a measurement shows, with less work than the measurement was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.model.arrays import FloatArray
from opaq.opacity.evaluator import Answer
from opaq.opacity.sequences import ObservedSequence, observed_sequences
from opaq.product.compile import Product
from opaq.stop import Stop, StoppedError

_FEW_NODES = 50_000  # a graph of at most this many beliefs is searched as a whole for sequences to show
_SHOWN_RUNS = 200  # sampled runs searched for sequences to show
_LEAST_SHOWN = 64  # of a larger one, at least this many per level


def shown_sequences(
    product: Product,
    pi: FloatArray,
    prior: FloatArray,
    answer: Answer,
    *,
    count: int,
    budget: Budget,
    rng: np.random.Generator,
    stop: Stop,
) -> tuple[tuple[ObservedSequence, ...], tuple[ObservedSequence, ...]]:
    """Sequences worth showing, with less work than the measurement was; none when asked to stop."""
    if not count or stop.requested:
        return (), ()
    samples = min(answer.samples, _SHOWN_RUNS)
    shown = replace(budget, nodes=min(budget.nodes, _searched_nodes(answer, product.process.horizon)))
    try:
        return observed_sequences(
            product, pi, prior, count=count, budget=shown, samples=samples, rng=rng if samples else None, stop=stop
        )
    except StoppedError:
        return (), ()


def _searched_nodes(answer: Answer, horizon: int) -> int:
    """How many beliefs per level are searched."""
    if answer.opacity.method == "exact" and answer.num_nodes <= _FEW_NODES:
        return _FEW_NODES
    return max(_LEAST_SHOWN, answer.num_nodes // (4 * (horizon + 1)))
