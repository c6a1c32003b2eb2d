"""Which observation sequences give the secret away, and which leave the observer guessing.

Opacity and leakage are sums over the leaves of the belief graph: a leaf of mass m and posterior p(z) adds m H(p) bits
to opacity and m D(p || prior) bits to leakage (D: Kullback-Leibler). Continuations that settle the secret add m (-log2
prior(z)) to leakage. Leaves are ranked by these shares and named by their likeliest sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opaq.beliefs.graph import DROPPED, Budget, Chain, Graph
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import ContentEq, FloatArray, SparseRows, expand_rows
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


def rank_sequences(
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
    """Return the most revealing and the most confusing sequences, by their share of leakage and of opacity.

    product, pi: a compiled problem and a policy vector [slot] of it.
    prior: [secret value] P(Z = z) under the policy.
    count: how many of each to return.
    budget: sequences are sought among those that it keeps, and ranked by the probability kept.
    samples, rng: seek among so many sampled runs instead, ranked by the share of the runs.

    Every probability that is returned is exact, also that of a sampled sequence. Raises StoppedError when `stop` is
    requested meanwhile.
    """
    process = product.process
    chain = Chain.of(process, pi, named=True, stop=stop, workers=budget.workers)
    graph = unroll(chain, steps=process.horizon + 1, budget=budget, keep=True, samples=samples, rng=rng)
    chain.stop.check()
    leaves = graph.last
    leaf = np.repeat(np.arange(leaves.mass.size), np.diff(leaves.start))
    value, shape = process.secret[chain.pairs.state[leaves.pair]], (leaves.mass.size, process.num_secrets)
    posterior = SparseRows.from_entries(leaf, value, np.real(leaves.belief), shape=shape)
    complete = not samples and graph.dropped_mass == 0.0
    counts = _count_sequences(graph) if complete else None
    candidates = _Candidates(product, chain, graph, posterior, prior, counts)
    return candidates.revealing(count), candidates.confusing(count)


def _count_sequences(graph: Graph) -> list[FloatArray]:
    """Return [level][node]: how many observation sequences lead to a node of a graph of which nothing is missing."""
    counts: list[FloatArray] = [np.ones(1)]
    for level in graph.levels[1:]:
        per_arc = np.repeat(counts[-1], np.diff(level.arcs.start))
        kept = level.arcs.child != DROPPED
        total = np.bincount(level.arcs.child[kept], weights=per_arc[kept], minlength=level.num_nodes)
        counts.append(total.astype(np.float64))
    return counts


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The leaves of a belief graph with their posteriors, and the paths that lead to them.

    Names are resolved only for the few leaves that are returned.
    """

    product: Product
    chain: Chain
    graph: Graph
    posterior: SparseRows  # [leaf, secret value]
    prior: FloatArray
    counts: list[FloatArray] | None  # [level][node]; None: a part of the graph is missing, masses are not known

    def confusing(self, count: int) -> tuple[ObservedSequence, ...]:
        """Return the `count` leaves with the largest share m H(Z | leaf) of opacity."""
        mass, bits = np.real(self.graph.last.mass), self._entropy()
        return tuple(self._leaf_sequence(leaf, bits[leaf]) for leaf in _largest(mass * bits, mass, count))

    def revealing(self, count: int) -> tuple[ObservedSequence, ...]:
        """Return the `count` leaves and settled continuations with the largest share of leakage."""
        mass, bits = np.real(self.graph.last.mass), self._divergence()
        ranked = [
            (mass[leaf] * bits[leaf], self._leaf_sequence(leaf, bits[leaf]))
            for leaf in _largest(mass * bits, mass, count)
        ]
        for depth, level in enumerate(self.graph.levels):
            known, gained = level.known, -_log2(self.prior[level.known.value])
            ranked += [
                (known.mass[entry] * gained[entry], self._settled_sequence(depth, entry, gained[entry]))
                for entry in _largest(known.mass * gained, known.mass, count)
            ]
        return tuple(sequence for _, sequence in sorted(ranked, key=lambda pair: -pair[0])[:count])

    def _entropy(self) -> FloatArray:
        """Return [leaf]: H(Z | leaf) in bits."""
        return -self._row_sums(self.posterior.values * _log2(self.posterior.values))

    def _divergence(self) -> FloatArray:
        """Return [leaf]: sum over z of p(z | leaf) log2(p(z | leaf) / p(z)), the leakage per unit of mass."""
        share, prior = self.posterior.values, self.prior[self.posterior.columns]
        return self._row_sums(share * (_log2(share) - _log2(prior)))

    def _row_sums(self, terms: FloatArray) -> FloatArray:
        """Return [leaf]: the sum of terms, one per entry of the posterior."""
        return replace(self.posterior, values=terms).row_sums()

    def _leaf_sequence(self, leaf: int, bits: float) -> ObservedSequence:
        """Describe a leaf by its likeliest sequence.

        bits: the leaf's share per unit of probability; multiplied by its mass, or by the probability of the one
            sequence where the mass is not known.
        """
        depth, nodes = len(self.graph.levels) - 1, self.graph.last
        row = np.zeros(len(self.product.secret_values))
        values, shares = self.posterior.row(leaf)
        row[values] = shares
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

    def _settled_sequence(self, depth: int, entry: int, bits: float) -> ObservedSequence:
        """Describe a continuation after which the secret is certain; its belief is not part of the graph."""
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
        """Return P(observation | node) by one step of the filter."""
        nodes, process, pairs = self.graph.levels[depth].nodes, self.product.process, self.chain.pairs
        entries = slice(nodes.start[node], nodes.start[node + 1])
        owner, edge = expand_rows(process.edge_start, pairs.state[nodes.pair[entries]].astype(np.int64))
        ahead = np.real(nodes.belief[entries][owner] * self.chain.moves.flow[edge])
        source, pair = expand_rows(pairs.start.astype(np.int64), process.edge_target[edge])
        emits = pairs.observation[pair] == observation
        return float(ahead[source[emits]] @ pairs.value[pair[emits]])

    def _count(self, depth: int, node: int) -> int | None:
        """Return how many sequences lead to a node; None where that is not known or too large to be exact."""
        if self.counts is None or not self.counts[depth][node] < _COUNTABLE:
            return None
        return int(self.counts[depth][node])

    def _path(self, depth: int, node: int) -> tuple[str, ...]:
        """Return the likeliest observations that lead to a node."""
        reversed_names = []
        while depth > 0:
            nodes = self.graph.levels[depth].nodes
            reversed_names.append(self.product.observations[nodes.observation[node]])
            node, depth = int(nodes.parent[node]), depth - 1
        return tuple(reversed(reversed_names))


def _log2(p: FloatArray) -> FloatArray:
    """Return log2 with 0 replaced by the smallest double."""
    return np.log2(np.maximum(p, _TINY))


def _largest(shares: FloatArray, mass: FloatArray, count: int) -> list[int]:
    """Return the indices of the largest shares, largest first; rounding errors are not listed."""
    real = np.where(mass > _NOISE, shares, 0.0)
    order = np.argsort(-real, kind="stable")[:count]
    return [int(index) for index in order if real[index] > _NOISE]
