"""What is uncertain after the last observation, at every node before it, and the slope by one sweep back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.graph import Budget, Chain, Graph
from opaq.beliefs.last_observation import backward_step, last_step, leaf_adjoint, leaf_masses
from opaq.beliefs.leaf_rows import LeafRows, cell_values
from opaq.beliefs.trimming import Trimmer
from opaq.model.arrays import FloatArray
from opaq.model.leaf import Leaf

_NODES_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class LastStep:
    """What is expected of the observer at every node before the last observation."""

    entropy: FloatArray  # [node]: expected H(Z | y) in bits
    error: FloatArray  # [node]: expected guess error
    further: tuple[FloatArray, ...]  # [leaf][node]: expected excess of every further uncertainty
    num_done: int  # how many nodes were dealt with before the work was asked to stop


def evaluate_leaves(chain: Chain, graph: Graph, *, leaves: Sequence[Leaf] = ()) -> LastStep:
    """Entropy, guess error and the excess of further leaves after the last observation."""
    nothing = np.zeros(0, chain.moves.flow.dtype)
    entropy, error, _, num_done = last_step(graph.last, chain.moves, chain.pairs, chain.work, False, nothing)
    further = [np.zeros(entropy.size) for _ in leaves]
    for first in range(0, num_done if leaves else 0, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, num_done)
        rows, _, masses, done = _masses(chain, graph, first, last)
        for amounts, leaf in zip(further, leaves, strict=True):
            amounts[first:last] = rows.evaluate(leaf, masses)[0]
        if done < last:
            num_done = done
            break
    return LastStep(entropy, error, tuple(further), int(num_done))


def slope_of_leaf(chain: Chain, graph: Graph, leaf: Leaf) -> tuple[FloatArray, Any]:
    """[node]: the expected entropy (or excess) of one leaf, and d its mean / d flow.

    The graph must have kept its levels. Raises StoppedError when the work was asked to stop.
    """
    moves, pairs, work = chain.moves, chain.pairs, chain.work
    slope = np.zeros(moves.flow.size, moves.flow.dtype)
    if leaf.compiled == "opacity":
        amounts, _, adjoint, _ = last_step(graph.last, moves, pairs, work, True, slope)
    else:
        amounts, adjoint = _leaf_by_rows(chain, graph, leaf, slope)
    for level, child in zip(graph.levels[-2::-1], graph.levels[:0:-1], strict=True):
        adjoint = backward_step(level.nodes, child.arcs, child.nodes, adjoint, moves, pairs, slope, work)
    chain.stop.check()
    return amounts, slope


def unfinished_cost(
    chain: Chain, graph: Graph, end: LastStep, budget: Budget, *, leaves: Sequence[Leaf] = ()
) -> FloatArray:
    """What the nodes that the last step did not deal with could add: mass, opacity, guess error, every leaf."""
    left = np.arange(end.num_done, graph.last.mass.size)
    trimmer = Trimmer(chain, budget, keep=False, leaves=tuple(leaves))
    return trimmer.cost(graph.last, chain.process.horizon - 1, left)


def _leaf_by_rows(chain: Chain, graph: Graph, leaf: Leaf, slope: Any) -> tuple[FloatArray, Any]:
    """The excess of a leaf at every node and its adjoints; adds to `slope`."""
    nodes = graph.last
    amounts = np.zeros(nodes.mass.size)
    adjoint = np.zeros(nodes.belief.size, nodes.belief.dtype)
    for first in range(0, nodes.mass.size, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, nodes.mass.size)
        rows, cells, masses, _ = _masses(chain, graph, first, last)
        chain.stop.check()
        amounts[first:last], slopes = rows.evaluate(leaf, masses)
        leaf_adjoint(nodes, first, *cells, slopes, chain.moves, chain.pairs, slope, adjoint, chain.work)
    return amounts, adjoint


def _masses(chain: Chain, graph: Graph, first: int, last: int) -> tuple[LeafRows, tuple[Any, Any], Any, int]:
    """The masses P(z, o | node) of some nodes, how they form rows, and where the work ended."""
    starts, cell, masses, done = leaf_masses(graph.last, first, last, chain.moves, chain.pairs, chain.work)
    values = cell_values(chain.process)[cell]
    rows = LeafRows.of(starts, values, chain.pairs.cell_observation[cell].astype(np.int64))
    return rows, (starts, cell), masses, int(done)
