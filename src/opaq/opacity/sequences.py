"""Which observation sequences give the secret away, and which leave the observer guessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.opacity.beliefs import Budget, Chain, Graph, unroll
from opaq.opacity.futures import Futures
from opaq.product.compile import Product


@dataclass(frozen=True, slots=True)
class Sighting:
    """Observation sequences that leave the observer with one and the same belief."""

    observations: tuple[str, ...]  # the likeliest of them; shorter than the run if the rest cannot matter
    complete: bool  # False: whatever follows these observations, the secret is out
    probability: float  # of all the sequences with this belief together
    likeliest: float  # of the sequence shown
    posterior: Mapping[str, float]
    bits: float  # what they add to leakage (revealing ones) or to opacity (confusing ones)


def sightings(
    product: Product, pi: FloatArray, prior: FloatArray, *, count: int, budget: Budget
) -> tuple[tuple[Sighting, ...], tuple[Sighting, ...]]:
    """The most revealing and the most confusing sequences, by their share of leakage and of opacity."""
    process = product.process
    chain = Chain.of(process, pi)
    graph = unroll(chain, steps=process.horizon + 1, budget=budget, keep=True)
    leaves = graph.last
    last = Futures.of(process, np.real(chain.moves.flow), steps=0)
    posterior = last.outlook(leaves, process.horizon, np.arange(leaves.mass.size), pair_state=chain.pairs.state)
    candidates = _Candidates(product, graph, posterior, prior)
    return candidates.revealing(count), candidates.confusing(count)


@dataclass(frozen=True, slots=True)
class _Candidates:
    product: Product
    graph: Graph
    posterior: object  # sparse [leaf, secret value]
    prior: FloatArray

    def confusing(self, count: int) -> tuple[Sighting, ...]:
        bits = self.graph.last.mass * self._entropy(against=None)
        return tuple(self._leaf(leaf, bits[leaf]) for leaf in _top(bits, count))

    def revealing(self, count: int) -> tuple[Sighting, ...]:
        bits = self.graph.last.mass * self._entropy(against=self.prior)
        found = [self._leaf(leaf, bits[leaf]) for leaf in _top(bits, count)]
        for depth, level in enumerate(self.graph.levels):
            gained = level.known.mass * -np.log2(np.maximum(self.prior[level.known.value], 1e-300))
            found += [self._settled(depth, place, gained[place]) for place in _top(gained, count)]
        return tuple(sorted(found, key=lambda sighting: -sighting.bits)[:count])

    def _entropy(self, against: FloatArray | None) -> FloatArray:
        """H(Z | leaf), or its divergence from a prior, of every leaf."""
        matrix = self.posterior
        owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))  # type: ignore[attr-defined]
        ratio = matrix.data if against is None else matrix.data / against[matrix.indices]  # type: ignore[attr-defined]
        terms = matrix.data * np.log2(np.maximum(ratio, 1e-300))  # type: ignore[attr-defined]
        total = np.bincount(owner, weights=terms, minlength=matrix.shape[0])  # type: ignore[attr-defined]
        return np.asarray(total if against is not None else -total)

    def _leaf(self, leaf: int, bits: float) -> Sighting:
        nodes = self.graph.last
        row = self.posterior[[leaf]].toarray().reshape(-1)  # type: ignore[index]
        return Sighting(
            self._path(len(self.graph.levels) - 1, leaf),
            complete=True,
            probability=float(nodes.mass[leaf]),
            likeliest=float(nodes.best[leaf]),
            posterior=dict(zip(self.product.secret_values, row.tolist(), strict=True)),
            bits=max(0.0, float(bits)),
        )

    def _settled(self, depth: int, place: int, bits: float) -> Sighting:
        known = self.graph.levels[depth].known
        node, observation = int(known.node[place]), int(known.observation[place])
        before = self.graph.levels[depth - 1].nodes
        mass = float(known.mass[place])
        return Sighting(
            (*self._path(depth - 1, node), self.product.observations[observation]),
            complete=depth == len(self.graph.levels) - 1,
            probability=mass,
            likeliest=mass * float(before.best[node] / before.mass[node]),
            posterior={
                name: float(value == known.value[place]) for value, name in enumerate(self.product.secret_values)
            },
            bits=float(bits),
        )

    def _path(self, depth: int, node: int) -> tuple[str, ...]:
        """The likeliest observations that lead to a node."""
        found = []
        while depth > 0:
            nodes = self.graph.levels[depth].nodes
            found.append(self.product.observations[nodes.observation[node]])
            node, depth = int(nodes.parent[node]), depth - 1
        return tuple(reversed(found))


def _top(values: FloatArray, count: int) -> list[int]:
    """The places of the largest positive values, largest first."""
    order = np.argsort(-values, kind="stable")[:count]
    return [int(place) for place in order if values[place] > 1e-15]
