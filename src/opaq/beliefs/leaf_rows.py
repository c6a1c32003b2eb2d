"""Uncertainties other than opacity, at the last observation: masses of secret values, grouped into rows.

Where the secret is known, f(q) = c_z q_z. The belief graph leaves those sequences out, so that it carries only the
excess f(q) - sum_z c_z q_z, which is 0 there and never negative (f is concave); the mean of c_Z is added exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.uncertainty import Leaf
from opaq.product.process import HiddenProcess

_ENTRIES_A_BLOCK = 1 << 18  # bounds the memory of one evaluation


def largest_excess(leaf: Leaf) -> float:
    """What the excess per unit of mass never exceeds."""
    return leaf.highest - float(leaf.certain.min(initial=leaf.highest))


def excess(leaf: Leaf, masses: Any, values: IntArray) -> tuple[Any, Any]:
    """The excess of every row, and its supergradient; real masses where the leaf has kinks."""
    masses = masses if leaf.smooth else np.real(masses)
    amounts, slopes = leaf.rows(masses, values)
    certain = leaf.certain
    if not certain.any():
        return amounts, slopes
    known = certain[values]
    return amounts - (masses * known).sum(axis=1), slopes - known


def excess_of_rows(leaf: Leaf, starts: Any, values: Any, masses: FloatArray) -> FloatArray:
    """The excess of every row of a sparse matrix [row, secret value]."""
    rows = LeafRows.of(np.asarray(starts, dtype=np.int64), np.asarray(values), np.zeros(len(values), dtype=np.int64))
    return rows.evaluate(leaf, masses)[0]


def cell_values(process: HiddenProcess) -> IntArray:
    """The secret value of every (observation, secret value) cell."""
    values = np.zeros(process.pairs.cell_observation.size, dtype=np.int64)
    values[process.pairs.cell[:-1]] = process.secret[process.pairs.state[:-1]]
    return values


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Rows of about the same length."""

    node: IntArray  # [row]
    entry: IntArray  # [row, column]; one beyond the last entry where the row is shorter
    value: IntArray  # [row, column]


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """How the entries of nodes, one per secret value and last observation, form rows: one per observation."""

    blocks: tuple[_Block, ...]
    num_nodes: int
    num_entries: int

    @classmethod
    def of(cls, starts: IntArray, values: IntArray, observations: IntArray) -> LeafRows:
        """Node n owns the entries starts[n] .. starts[n + 1] - 1; each has a secret value and an observation."""
        node = np.repeat(np.arange(starts.size - 1), starts[1:] - starts[:-1])
        order = np.lexsort((observations, node))
        sorted_node, sorted_observation = node[order], observations[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(sorted_node) != 0) | (np.diff(sorted_observation) != 0)
        first = np.flatnonzero(new)
        lengths = np.diff(np.append(first, order.size))
        widths = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
        blocks = []
        for width in np.unique(widths):
            chosen = np.flatnonzero(widths == width)
            for part in np.array_split(chosen, -(-chosen.size * int(width) // _ENTRIES_A_BLOCK)):
                columns = np.arange(width)[None, :]
                inside = columns < lengths[part][:, None]
                index = np.where(inside, first[part][:, None] + columns, 0)
                entry = np.where(inside, order[index], order.size)
                value = np.where(inside, values[order[index]], 0)
                blocks.append(_Block(sorted_node[first[part]], entry, value))
        return cls(tuple(blocks), int(starts.size - 1), int(order.size))

    def evaluate(self, leaf: Leaf, masses: Any) -> tuple[FloatArray, Any]:
        """The excess of every node (the sum over its rows), and its supergradient by every mass."""
        padded = np.append(masses, 0.0)
        slopes = np.zeros(padded.size, padded.dtype)
        amounts = np.zeros(self.num_nodes)
        for block in self.blocks:
            found, slope = excess(leaf, padded[block.entry], block.value)
            slopes[block.entry] = slope
            amounts += np.bincount(block.node, weights=np.real(found), minlength=self.num_nodes)
        return amounts, slopes[:-1]
