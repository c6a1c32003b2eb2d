"""What a frozen belief graph is made of: its shape, the links to the last observation, and the numbers of a sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opaq.beliefs.graph import Chain, Graph
from opaq.beliefs.kernels import NumberArray, longer
from opaq.kernel_cache import njit
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, indices, spread
from opaq.product.process import HiddenProcess


class Shape(NamedTuple):
    """The nodes of all levels, one level after the other, without their numbers."""

    entry_start: IndexArray  # [node + 1]
    state: IndexArray  # [entry]
    emission: FloatArray  # [entry]: E(o | x) of the observation that led there
    arc_start: IndexArray  # [node + 1]: nodes of the last level have no arcs
    child: IndexArray  # [arc]
    first_leaf: int  # the first node of the last level
    cell_start: IndexArray  # [leaf + 1]
    cell: IndexArray  # the (observation, secret value) cells that may follow a leaf


class Links(NamedTuple):
    """From a state to the cells of the last observation, one step ahead: P(o, z | x) is a sum over edges and pairs."""

    start: IndexArray  # [state + 2]: the links of every state, the source's last
    cell: IndexArray  # [link]
    observation: IndexArray  # [cell]
    part_start: IndexArray  # [edge + 1]
    part_link: IndexArray  # [part]: the link that an (edge, pair of its target) adds to
    part_value: FloatArray  # [part]: E(o | target)


class Buffers(NamedTuple):
    """The numbers of a sweep; the memory is used again by the next one."""

    belief: NumberArray  # [entry]
    mass: NumberArray  # [node]
    filled: BoolArray  # [node]: whether a sweep has given it its belief
    projection: NumberArray  # [node]
    adjoint: NumberArray  # [entry]
    predicted: NumberArray  # [state]: 0 between nodes
    expected: NumberArray  # [state]: 0 between nodes
    cell_mass: NumberArray  # [cell]: 0 between leaves
    surprise: NumberArray  # [cell]
    chance: NumberArray  # [observation]: 0 between leaves
    link_chance: NumberArray  # [link]: P(o, z | x)
    link_slope: NumberArray  # [link]: d value / d that


def make_links(process: HiddenProcess) -> Links:
    """What every edge adds to the cells that its state leads to."""
    pairs, num_edges = process.pairs, process.edge_target.size
    owner = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    edge, pair = spread(process.emission.starts, process.edge_target)
    num_cells = pairs.cell_observation.size
    codes, link = np.unique(owner[edge] * num_cells + pairs.cell[pair], return_inverse=True)
    counts = np.bincount(codes // num_cells, minlength=process.num_states + 1)
    return Links(
        start=indices(np.concatenate(([0], np.cumsum(counts)))),
        cell=indices(codes % num_cells),
        observation=indices(pairs.cell_observation),
        part_start=indices(np.concatenate(([0], np.cumsum(np.bincount(edge, minlength=num_edges))))),
        part_link=indices(link.reshape(-1)),
        part_value=pairs.value[pair],
    )


def make_shape(graph: Graph, chain: Chain, links: Links) -> Shape:
    """All levels of a graph as one; arcs to dropped nodes are left out."""
    sizes = [level.num_nodes for level in graph.levels]
    first = np.concatenate(([0], np.cumsum(sizes)))
    counts = np.concatenate([np.diff(level.nodes.start) for level in graph.levels])
    arc_counts, children = [], []
    for depth, level in enumerate(graph.levels[1:], start=1):
        owner = np.repeat(np.arange(sizes[depth - 1]), np.diff(level.arcs.start))
        kept = level.arcs.child >= 0
        arc_counts.append(np.bincount(owner[kept], minlength=sizes[depth - 1]))
        children.append(level.arcs.child[kept] + first[depth])
    arc_counts.append(np.zeros(sizes[-1], dtype=np.int64))
    pair = np.concatenate([level.nodes.pair for level in graph.levels])
    cell_start, cell = followers(graph.last, links, chain.pairs, chain.work)
    return Shape(
        entry_start=indices(np.concatenate(([0], np.cumsum(counts)))),
        state=indices(chain.pairs.state[pair]),
        emission=chain.pairs.value[pair],
        arc_start=indices(np.concatenate(([0], np.cumsum(np.concatenate(arc_counts))))),
        child=indices(np.concatenate([*children, np.zeros(0, dtype=np.int64)])),
        first_leaf=int(first[-2]),
        cell_start=indices(cell_start),
        cell=indices(cell),
    )


@njit(cache=True, nogil=True)
def followers(leaves, links, pairs, work):
    """The cells that may follow each leaf: (cell_start, cell)."""
    num_leaves = leaves.mass.size
    cell_start = np.zeros(num_leaves + 1, np.int64)
    cells = np.empty(2 * leaves.pair.size + 64, np.int32)
    num_cells = 0
    for leaf in range(num_leaves):
        for entry in range(leaves.start[leaf], leaves.start[leaf + 1]):
            state = pairs.state[leaves.pair[entry]]
            for link in range(links.start[state], links.start[state + 1]):
                cell = links.cell[link]
                if work.listed[cell]:
                    continue
                work.listed[cell] = True
                if num_cells == cells.size:
                    cells = longer(cells, 2 * num_cells)
                cells[num_cells] = cell
                num_cells += 1
        for index in range(cell_start[leaf], num_cells):
            work.listed[cells[index]] = False
        cell_start[leaf + 1] = num_cells
    return cell_start, cells[:num_cells].copy()
