"""Which observation sequences give the secret away, and which leave the observer guessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.graph import DROPPED, Budget, Chain, Graph
from opaq.beliefs.unroll import Futures, unroll
from opaq.model.arrays import ContentEq, FloatArray, expand_rows
from opaq.product.compile import Product
from opaq.stop import Stop

_TINY = 5e-324  # the smallest double: logarithms of probabilities that underflowed stay finite
_NOISE = 1e-12  # probabilities and bits below this are rounding errors
_COUNTABLE = 2.0**53  # beyond this doubles no longer count one by one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ObservedSequence(ContentEq):
    """An observation sequence, and with it all others that leave the observer with the same belief.

    Where a part of the belief graph was left out, not all of the others are known: the figures are then those of the
    sequence alone.

    observations: the likeliest of those looked at; shorter than the run where the rest cannot matter.
    complete: false: the sequence is a beginning, and whatever follows, the secret is out.
    probability: of all the sequences with this belief together; null where it is not known, because runs were sampled
        or a part of the belief graph was left out.
    likeliest: the probability of the sequence in `observations` alone, exactly; 0 where it is too small for a float.
    posterior: secret value -> probability, after any of them.
    bits: what all of them together add to leakage (revealing) or to opacity (confusing); where `probability` is not
        known, what the one in `observations` adds.
    num_sequences: how many they are; null where they were not counted.
    """

    observations: tuple[str, ...]
    complete: bool
    probability: float | None
    likeliest: float
    posterior: Mapping[str, float]
    bits: float
    num_sequences: int | None = None


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

    They are sought among those that the budget keeps, or among as many sampled ones, and ranked by the probability
    kept or by the share of the runs. Every probability that is returned is exact. Raises StoppedError when `stop`
    is requested meanwhile.
    """
    process = product.process
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon + 1, budget=budget, keep=True, samples=samples, rng=rng)
    chain.stop.check()
    leaves = graph.last
    last = Futures.of(process, np.real(chain.moves.flow), steps=0)
    posterior = last.outlook(leaves, process.horizon, np.arange(leaves.mass.size), pair_state=chain.pairs.state)
    complete = not samples and graph.dropped_mass == 0.0
    counts = _sequence_counts(graph) if complete else None
    candidates = _Candidates(product, chain, graph, posterior, prior, counts)
    return candidates.revealing(count), candidates.confusing(count)


def _sequence_counts(graph: Graph) -> list[FloatArray]:
    """How many observation sequences lead to every node of every level of a graph of which nothing is missing."""
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
    chain: Chain
    graph: Graph
    posterior: Any  # sparse [leaf, secret value]
    prior: FloatArray
    counts: list[FloatArray] | None  # [level][node]; None: a part of the graph is missing, masses are not known

    def confusing(self, count: int) -> tuple[ObservedSequence, ...]:
        mass, bits = np.real(self.graph.last.mass), self._entropy()
        return tuple(self._leaf(leaf, bits[leaf]) for leaf in _top(mass * bits, mass, count))

    def revealing(self, count: int) -> tuple[ObservedSequence, ...]:
        mass, bits = np.real(self.graph.last.mass), self._divergence()
        ranked = [(mass[leaf] * bits[leaf], self._leaf(leaf, bits[leaf])) for leaf in _top(mass * bits, mass, count)]
        for depth, level in enumerate(self.graph.levels):
            known, gained = level.known, -_log2(self.prior[level.known.value])
            ranked += [
                (known.mass[entry] * gained[entry], self._settled(depth, entry, gained[entry]))
                for entry in _top(known.mass * gained, known.mass, count)
            ]
        return tuple(sequence for _, sequence in sorted(ranked, key=lambda pair: -pair[0])[:count])

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
        """A leaf; `bits` are those per unit of its probability."""
        depth, nodes = len(self.graph.levels) - 1, self.graph.last
        row = self.posterior[[leaf]].toarray().reshape(-1)
        likeliest = float(nodes.best[leaf])
        probability = None if self.counts is None else float(np.real(nodes.mass[leaf]))
        return ObservedSequence(
            self._path(depth, leaf),
            complete=True,
            probability=probability,
            likeliest=likeliest,
            posterior=dict(zip(self.product.secret_values, row.tolist(), strict=True)),
            bits=max(0.0, (likeliest if probability is None else probability) * float(bits)),
            num_sequences=self._count(depth, leaf),
        )

    def _settled(self, depth: int, entry: int, bits: float) -> ObservedSequence:
        """A continuation after which the secret is certain; its belief is not part of the graph."""
        known = self.graph.levels[depth].known
        node, observation = int(known.node[entry]), int(known.observation[entry])
        likeliest = float(self.graph.levels[depth - 1].nodes.best[node]) * self._chance(depth - 1, node, observation)
        probability = None if self.counts is None else float(known.mass[entry])
        return ObservedSequence(
            (*self._path(depth - 1, node), self.product.observations[observation]),
            complete=depth == len(self.graph.levels) - 1,
            probability=probability,
            likeliest=likeliest if probability is None else min(likeliest, probability),
            posterior={
                name: float(value == known.value[entry]) for value, name in enumerate(self.product.secret_values)
            },
            bits=max(0.0, (likeliest if probability is None else probability) * float(bits)),
            num_sequences=self._count(depth - 1, node),
        )

    def _chance(self, depth: int, node: int, observation: int) -> float:
        """P(observation | node): one step of the filter."""
        nodes, process, pairs = self.graph.levels[depth].nodes, self.product.process, self.chain.pairs
        entries = slice(nodes.start[node], nodes.start[node + 1])
        owner, edge = expand_rows(process.edge_start, pairs.state[nodes.pair[entries]].astype(np.int64))
        ahead = np.real(nodes.belief[entries][owner] * self.chain.moves.flow[edge])
        source, pair = expand_rows(pairs.start.astype(np.int64), process.edge_target[edge])
        shown = pairs.observation[pair] == observation
        return float(ahead[source[shown]] @ pairs.value[pair[shown]])

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


def _top(shares: FloatArray, mass: FloatArray, count: int) -> list[int]:
    """The indices of the largest shares, largest first; what is no more than a rounding error is not listed."""
    real = np.where(mass > _NOISE, shares, 0.0)
    order = np.argsort(-real, kind="stable")[:count]
    return [int(index) for index in order if real[index] > _NOISE]
