"""Which observation sequences give the secret away, and which leave the observer guessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.futures import Futures
from opaq.beliefs.graph import DROPPED, Budget, Chain, Graph
from opaq.beliefs.unrolling import unroll
from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.product.compile import Product
from opaq.stop import Stop

_TINY = 5e-324  # the smallest double: logarithms of probabilities that underflowed stay finite
_NOISE = 1e-12  # probabilities and bits below this are rounding errors
_COUNTABLE = 2.0**53  # beyond this doubles no longer count one by one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObservedSequence(ByContent):
    """An observation sequence, and with it all others that leave the observer with the same belief."""

    observations: tuple[str, ...]  # the likeliest of them; shorter than the run if the rest cannot matter
    complete: bool  # False: whatever follows these observations, the secret is out
    probability: float  # of all the sequences with this belief together
    likeliest: float  # of the sequence shown alone
    posterior: Mapping[str, float]
    bits: float  # what they add to leakage (revealing ones) or to opacity (confusing ones)
    num_sequences: int | None = None  # how many sequences share the belief; None: not counted


def observed_sequences(
    product: Product,
    pi: FloatArray,
    prior: FloatArray,
    *,
    count: int,
    budget: Budget,
    samples: int = 0,
    rng: np.random.Generator | None = None,
    stop: Stop | None = None,
) -> tuple[tuple[ObservedSequence, ...], tuple[ObservedSequence, ...]]:
    """The most revealing and the most confusing sequences, by their share of leakage and of opacity.

    They are sought among those that the budget keeps, or among as many sampled ones. Raises StoppedError when `stop`
    is requested meanwhile.
    """
    process = product.process
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon + 1, budget=budget, keep=True, samples=samples, rng=rng)
    chain.stop.check()
    leaves = graph.last
    last = Futures.of(process, np.real(chain.moves.flow), steps=0)
    posterior = last.outlook(leaves, process.horizon, np.arange(leaves.mass.size), pair_state=chain.pairs.state)
    counts = None if samples else _sequence_counts(graph)
    candidates = _Candidates(product, graph, posterior, prior, counts)
    return candidates.revealing(count), candidates.confusing(count)


def _sequence_counts(graph: Graph) -> list[FloatArray] | None:
    """How many observation sequences lead to every node of every level; None if a part of the graph is missing."""
    if graph.dropped_mass > 0:
        return None
    counts: list[FloatArray] = [np.ones(1)]
    for level in graph.levels[1:]:
        per_arc = np.repeat(counts[-1], np.diff(level.arcs.start))
        kept = level.arcs.child != DROPPED
        total = np.bincount(level.arcs.child[kept], weights=per_arc[kept], minlength=level.num_nodes)
        counts.append(total.astype(np.float64))
    return counts


@dataclass(frozen=True, slots=True)
class _Candidates:
    product: Product
    graph: Graph
    posterior: Any  # sparse [leaf, secret value]
    prior: FloatArray
    counts: list[FloatArray] | None  # [level][node]

    def confusing(self, count: int) -> tuple[ObservedSequence, ...]:
        mass = np.real(self.graph.last.mass)
        bits = mass * self._entropy()
        return tuple(self._leaf(leaf, bits[leaf]) for leaf in _top(bits, mass, count))

    def revealing(self, count: int) -> tuple[ObservedSequence, ...]:
        mass = np.real(self.graph.last.mass)
        bits = mass * self._divergence()
        found = [self._leaf(leaf, bits[leaf]) for leaf in _top(bits, mass, count)]
        for depth, level in enumerate(self.graph.levels):
            gained = level.known.mass * -_log2(self.prior[level.known.value])
            found += [self._settled(depth, entry, gained[entry]) for entry in _top(gained, level.known.mass, count)]
        return tuple(sorted(found, key=lambda sequence: -sequence.bits)[:count])

    def _entropy(self) -> FloatArray:
        """H(Z | leaf) of every leaf."""
        return -self._row_sums(self.posterior.data * _log2(self.posterior.data))

    def _divergence(self) -> FloatArray:
        """How far the posterior of every leaf is from the prior: sum_z p(z | leaf) log2(p(z | leaf) / p(z))."""
        share, prior = self.posterior.data, self.prior[self.posterior.indices]
        return self._row_sums(share * (_log2(share) - _log2(prior)))

    def _row_sums(self, terms: FloatArray) -> FloatArray:
        size = self.posterior.shape[0]
        owner = np.repeat(np.arange(size), np.diff(self.posterior.indptr))
        return np.asarray(np.bincount(owner, weights=terms, minlength=size))

    def _leaf(self, leaf: int, bits: float) -> ObservedSequence:
        depth, nodes = len(self.graph.levels) - 1, self.graph.last
        row = self.posterior[[leaf]].toarray().reshape(-1)
        return ObservedSequence(
            self._path(depth, leaf),
            complete=True,
            probability=float(nodes.mass[leaf]),
            likeliest=float(nodes.best[leaf]),
            posterior=dict(zip(self.product.secret_values, row.tolist(), strict=True)),
            bits=max(0.0, float(bits)),
            num_sequences=self._count(depth, leaf),
        )

    def _settled(self, depth: int, entry: int, bits: float) -> ObservedSequence:
        """A continuation after which the secret is certain; its belief is not part of the graph."""
        known = self.graph.levels[depth].known
        node, observation = int(known.node[entry]), int(known.observation[entry])
        before = self.graph.levels[depth - 1].nodes
        mass, mass_before = float(known.mass[entry]), float(before.mass[node])
        chance = mass / mass_before if mass_before > 0.0 else 0.0
        return ObservedSequence(
            (*self._path(depth - 1, node), self.product.observations[observation]),
            complete=depth == len(self.graph.levels) - 1,
            probability=mass,
            likeliest=min(chance * float(before.best[node]), mass),
            posterior={
                name: float(value == known.value[entry]) for value, name in enumerate(self.product.secret_values)
            },
            bits=max(0.0, float(bits)),
            num_sequences=self._count(depth - 1, node),
        )

    def _count(self, depth: int, node: int) -> int | None:
        if self.counts is None or not self.counts[depth][node] < _COUNTABLE:
            return None
        return int(self.counts[depth][node])

    def _path(self, depth: int, node: int) -> tuple[str, ...]:
        """The likeliest observations that lead to a node."""
        found = []
        while depth > 0:
            nodes = self.graph.levels[depth].nodes
            found.append(self.product.observations[nodes.observation[node]])
            node, depth = int(nodes.parent[node]), depth - 1
        return tuple(reversed(found))


def _log2(p: FloatArray) -> FloatArray:
    return np.log2(np.maximum(p, _TINY))


def _top(bits: FloatArray, mass: FloatArray, count: int) -> list[int]:
    """The indices of the largest bits, largest first; what is no more than a rounding error is not listed."""
    real = np.where(mass > _NOISE, bits, 0.0)
    order = np.argsort(-real, kind="stable")[:count]
    return [int(index) for index in order if real[index] > _NOISE]
