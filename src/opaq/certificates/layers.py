"""Product states beside an observation machine, level by level: what the bounds are computed on.

An *entry* is (x, node) at one time: the state and the last observation (a pair) and what the machine remembers. Every
node knows its last observation. Once the secret is settled in all states of a node, what the machine remembers no
longer matters: all such nodes with the same last observation are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opaq.certificates.decisions import Decisions
from opaq.certificates.observation_machines import ObservationMachine
from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, IndexArray, IntArray, indices, spread
from opaq.stop import Stop

_BYTES_A_CASE = 120  # while a level is put together, per (node, next state, observation)
_BYTES_AN_ACTION = 8
_MOST_CASES = 8_000_000  # per level: sorting them takes seconds, in which no stop is noticed
_COPIES = 10  # of the table of how often actions are taken by time, that a search keeps at once


class Layer(NamedTuple):
    """The entries at one time, by node, and where they lead: per node the states that may come next."""

    node_start: IntArray  # [node + 1]: entries
    pair: IndexArray  # [entry]: its state and last observation
    menu_start: IntArray  # [entry + 1]: its actions
    next_start: IntArray  # [node + 1]: states that may come next
    next_state: IndexArray  # [next]
    child_start: IntArray  # [next + 1]
    child: IndexArray  # [child]: the entry at the next time, for every observation that the next state can emit


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """All times, and the secret values per node of the last one."""

    machine: str
    layers: tuple[Layer, ...]
    root: IntArray  # [(start state, observation)]: entries at time 0
    cell: IntArray  # [entry of the last layer] -> cell: (node, secret value)
    cell_start: IntArray  # [node + 1] of the last layer
    cell_secret: IntArray  # [cell]
    settled: BoolArray  # [node] of the last layer: whether the secret is settled there
    num_bytes: int

    @property
    def num_entries(self) -> int:
        """Of all times together."""
        return sum(int(layer.pair.size) for layer in self.layers)


class _Nodes(NamedTuple):
    """The nodes of a level under construction."""

    codes: IntArray  # [node, part]
    observation: IntArray  # [node]
    settled: BoolArray  # [node]
    start: IntArray  # [node + 1]
    pair: IntArray  # [entry]


def build_layers(decisions: Decisions, machine: ObservationMachine, *, memory: int, stop: Stop) -> Layers:
    """Everything reachable under some policy.

    memory: bytes that may be used. Raises BudgetError when they do not do, StoppedError when `stop` is requested.
    """
    table = 8 * _COPIES * (decisions.process.horizon + 1) * int(decisions.moves.menu_start[-1])
    builder = _Builder(decisions, machine, memory, stop, used=table)
    builder.check(0)
    nodes, root = builder.first()
    layers = []
    for time in range(decisions.process.horizon):
        layer, nodes = builder.layer(time, nodes)
        layers.append(layer)
    nothing = np.zeros(0, dtype=np.int64)
    ends = np.zeros(nodes.start.size, dtype=np.int64)
    layers.append(
        Layer(
            nodes.start,
            indices(nodes.pair),
            builder.menus(nodes.pair),
            ends,
            indices(nothing),
            ends[:1],
            indices(nothing),
        )
    )
    return Layers(machine.name, tuple(layers), root, *builder.cells(nodes), nodes.settled, builder.used)


@dataclass(slots=True)
class _Builder:
    """Puts levels together, one after the other, within a budget of memory."""

    decisions: Decisions
    machine: ObservationMachine
    memory: int
    stop: Stop
    used: int = 0

    def first(self) -> tuple[_Nodes, IntArray]:
        """The level after the first observation, and the entry of every (start state, observation)."""
        moves = self.decisions.moves
        _, pair = spread(moves.pair_start, self.decisions.start_state)
        observation = self.decisions.process.emission.columns[pair]
        return self._nodes(self.machine.begin(observation), observation, np.zeros(pair.size, dtype=bool), pair)

    def layer(self, time: int, nodes: _Nodes) -> tuple[Layer, _Nodes]:
        """The level of some nodes, and the nodes after it."""
        self.stop.check()
        moves, process = self.decisions.moves, self.decisions.process
        next_node, next_state = self._ahead(nodes)
        owner, pair = spread(moves.pair_start, next_state)
        self.check(pair.size)
        observation = process.emission.columns[pair]
        source = next_node[owner]
        codes = self.machine.step(time + 1, nodes.codes[source], observation)
        after, child = self._nodes(codes, observation, nodes.settled[source], pair)
        num_nodes = nodes.start.size - 1
        layer = Layer(
            nodes.start,
            indices(nodes.pair),
            self.menus(nodes.pair),
            np.concatenate(([0], np.cumsum(np.bincount(next_node, minlength=num_nodes)))),
            indices(next_state),
            np.concatenate(([0], np.cumsum(np.diff(moves.pair_start)[next_state]))),
            indices(child),
        )
        self.used += sum(int(array.nbytes) for array in layer) + _BYTES_AN_ACTION * int(layer.menu_start[-1])
        self.check(0)
        return layer, after

    def check(self, cases: int) -> None:
        """Refuse what does not fit before memory is taken for it."""
        if cases > _MOST_CASES or self.used + cases * _BYTES_A_CASE > self.memory:
            raise BudgetError(f"the machine '{self.machine.name}' needs more than the {self.memory:,} bytes it may use")

    def menus(self, pair: IntArray) -> IntArray:
        """Where the actions of every entry begin."""
        counts = np.diff(self.decisions.moves.menu_start)[pair]
        return np.concatenate(([0], np.cumsum(counts)))

    def cells(self, nodes: _Nodes) -> tuple[IntArray, IntArray, IntArray]:
        """The secret values that occur per node: (cell of every entry, where a node's cells begin, their values)."""
        process = self.decisions.process
        node = np.repeat(np.arange(nodes.start.size - 1), np.diff(nodes.start))
        secret = process.secret[self.decisions.moves.pair_state[nodes.pair]]
        cells, cell = np.unique(node * process.num_secrets + secret, return_inverse=True)
        counts = np.bincount(cells // process.num_secrets, minlength=nodes.start.size - 1)
        return cell.reshape(-1), np.concatenate(([0], np.cumsum(counts))), cells % process.num_secrets

    def _ahead(self, nodes: _Nodes) -> tuple[IntArray, IntArray]:
        """(node, state that may come next), ascending."""
        process = self.decisions.process
        node = np.repeat(np.arange(nodes.start.size - 1), np.diff(nodes.start))
        state = self.decisions.moves.pair_state[nodes.pair].astype(np.int64)
        self.check(int(np.diff(process.edge_start)[state].sum()))
        owner, edge = spread(process.edge_start, state)
        reached = np.unique(node[owner] * process.num_states + process.edge_target[edge])
        return reached // process.num_states, reached % process.num_states

    def _nodes(
        self, codes: IntArray, observation: IntArray, settled: BoolArray, pair: IntArray
    ) -> tuple[_Nodes, IntArray]:
        """The distinct nodes and entries among some cases, and the entry of every case."""
        codes = np.where(settled[:, None], 0, codes)
        node, _ = self._numbered(codes, observation, settled)
        self.stop.check()
        settled = settled | self._settles(node, pair)[node]
        codes = np.where(settled[:, None], 0, codes)
        node, example = self._numbered(codes, observation, settled)
        num_pairs = self.decisions.moves.pair_state.size
        entries, entry = np.unique(node * num_pairs + pair, return_inverse=True)
        counts = np.bincount(entries // num_pairs, minlength=example.size)
        start = np.concatenate(([0], np.cumsum(counts)))
        chosen = _Nodes(codes[example], observation[example], settled[example], start, entries % num_pairs)
        return chosen, entry.reshape(-1)

    def _numbered(self, codes: IntArray, observation: IntArray, settled: BoolArray) -> tuple[IntArray, IntArray]:
        """The number of every case among the distinct (code, observation, settled), and an example of each."""
        key = observation * 2 + settled
        for part in codes.T:
            distinct, number = np.unique(part, return_inverse=True)
            _, key = np.unique(key * distinct.size + number.reshape(-1), return_inverse=True)
        _, example, number = np.unique(key, return_index=True, return_inverse=True)
        return number.reshape(-1), example

    def _settles(self, node: IntArray, pair: IntArray) -> BoolArray:
        """[node]: whether all its states settle the secret to one value."""
        value = self.decisions.process.settled[self.decisions.moves.pair_state[pair]]
        order = np.argsort(node, kind="stable")
        heads = np.concatenate(([0], np.cumsum(np.bincount(node))[:-1]))
        least, most = np.minimum.reduceat(value[order], heads), np.maximum.reduceat(value[order], heads)
        return np.asarray((least == most) & (least >= 0))
