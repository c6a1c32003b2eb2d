"""Product states beside an observation machine, level by level: what the bounds are computed on.

An *entry* is (x, node) at one time: the state and the last observation (a pair) and what the machine remembers. Every
node knows its last observation. Once the secret is settled in all states of a node, what the machine remembers no
longer matters: all such nodes with the same last observation are one.

Comes in: the decisions of a process and a machine. Goes out: `Layers`, flat arrays of everything that any policy
reaches, and the compiled steps over one of them:

- `forward` and `last_use` push the masses P(x_t, node_t) of a policy on entries one time on,
- `improve` and `maximise` take one backward step of the dynamic program

      V_t(x, m) = max over a of paid_t(x, a) + penalty_t(x, a, o) + sum_x',o' P(x' | x, a) E(o' | x') V_t+1(x', m'),

  m' the machine's node after o'. V_T adds the cost of the cell (node, secret value); sum of start x V_0 is what no
  policy exceeds, whether it sees the observations or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.machines import ObservationMachine
from opaq.certificates.decoder.numbering import number_distinct, number_within
from opaq.errors import BudgetError
from opaq.kernel_cache import inlined, kernel
from opaq.model.arrays import BoolArray, IndexArray, IntArray, distinct, expand_rows, indices
from opaq.stop import Stop

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_BYTES_A_CASE = 120  # while a level is put together, per (node, next state, observation)
_BYTES_AN_ACTION = 8
_MOST_CASES = 24_000_000  # per level: numbering them takes a second or two, in which no stop is noticed
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


class TooLargeError(BudgetError):
    """Layers do not fit the memory. needed: bytes that they may take, as their levels grow."""

    def __init__(self, message: str, needed: float) -> None:
        super().__init__(message)
        self.needed = needed


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """All times, and the secret values per node of the last one."""

    machine: str
    layers: tuple[Layer, ...]
    root: IntArray  # [(start state, observation)]: entries at time 0
    ending: tuple[csr_array, ...]  # chances: from entries of the last layer, emission by emission, to cells
    cell_start: IntArray  # [end node + 1]
    cell_secret: IntArray  # [cell]
    settled: BoolArray  # [end node]: whether the secret is settled there
    most_ends: int  # how many terms are added up at most, from the costs of cells to the value of a last entry

    @property
    def num_entries(self) -> int:
        """Return the number of entries of all times together."""
        return sum(int(layer.pair.size) for layer in self.layers)


class _Nodes(NamedTuple):
    """The nodes of a level under construction."""

    codes: IntArray  # [node, part]
    observation: IntArray  # [node]
    settled: BoolArray  # [node]
    start: IntArray  # [node + 1]
    pair: IntArray  # [entry]


class _Places(NamedTuple):
    """Where runs stand while the last states emit."""

    codes: IntArray  # [place, part], of the machine
    observation: IntArray  # [place]
    settled: BoolArray  # [place]
    waiting: IntArray  # [place, state]: kinds of the states that are still to emit, the next one first
    secret: IntArray  # [place]


def build_layers(decisions: Decisions, machine: ObservationMachine, *, memory: int, stop: Stop) -> Layers:
    """Build the layers of everything that is reachable under some policy.

    decisions: states, actions and emissions. machine: what the decoder remembers of the observations.
    memory: bytes that may be used, the tables of a search included.
    Raises TooLargeError when they do not do, StoppedError when `stop` is requested.
    """
    table = 8 * _COPIES * (decisions.process.horizon + 1) * decisions.use_choice.size
    builder = _LayerBuilder(decisions, machine, memory, stop, used=table)
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
    ending, cell_start, cell_secret, settled = builder.cells(nodes)
    most_ends = sum(int(np.bincount(step.indices).max(initial=1)) for step in ending)
    return Layers(builder.name, tuple(layers), root, ending, cell_start, cell_secret, settled, most_ends)


@dataclass(slots=True)
class _LayerBuilder:
    """Puts levels together, one after the other, within a budget of memory.

    A *case* is (node, next state, observation that it emits): the machine steps once per case, and cases that come to
    the same code, observation and state are one entry of the next level.
    """

    decisions: Decisions
    machine: ObservationMachine
    memory: int
    stop: Stop
    used: int = 0
    cases: int = 1  # of the level before
    growth: float = 1.0  # from the one before that to it

    def first(self) -> tuple[_Nodes, IntArray]:
        """Return the level after the first observation, and [(start state, observation)] -> its entry."""
        moves = self.decisions.moves
        _, pair = expand_rows(moves.pair_start, self.decisions.start_state)
        observation = self.decisions.process.emission.columns[pair]
        codes = self._read(0, None, observation)
        return self._nodes(codes, observation, np.zeros(pair.size, dtype=bool), pair)

    def layer(self, time: int, nodes: _Nodes) -> tuple[Layer, _Nodes]:
        """Return the level of some nodes, and the nodes after it.

        time: of the level. nodes: its nodes, with their entries. Raises BudgetError or StoppedError as `build_layers`.
        """
        self.stop.check()
        moves, process = self.decisions.moves, self.decisions.process
        levels = process.horizon - 1 - time
        next_node, next_state = self._ahead(nodes, levels)
        owner, pair = expand_rows(moves.pair_start, next_state)
        self.check(pair.size, levels=levels)
        self.cases, self.growth = pair.size, pair.size / self.cases
        observation = process.emission.columns[pair]
        source = next_node[owner]
        codes = self._read(time + 1, nodes.codes[source], observation)
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

    def check(self, cases: int, *, levels: int = 0) -> None:
        """Refuse what does not fit before memory is taken for it.

        cases: how many (node, next state, observation) are about to be numbered. levels: how many follow; they are
        expected to grow as this one has, or the one before it. Raises TooLargeError.
        """
        if cases > _MOST_CASES or self.used + cases * _BYTES_A_CASE > self.memory:
            growth = max(cases / self.cases, self.growth, 1.0)
            needed = self.used + cases * growth**levels * _BYTES_A_CASE
            text = f"the machine '{self.name}' needs more than the {self.memory:,} bytes it may use"
            raise TooLargeError(text, math.inf if cases > _MOST_CASES else needed)

    def menus(self, pair: IntArray) -> IntArray:
        """Return [entry + 1]: where the actions of every entry begin. pair: [entry]."""
        moves = self.decisions.moves
        counts = np.diff(moves.choice_start)[moves.pair_state[pair]]
        return np.concatenate(([0], np.cumsum(counts)))

    @property
    def name(self) -> str:
        """Return what the machine, and the delay of the agent, are called in reports."""
        delay = self.decisions.windows.delay
        return f"{self.machine.name}, seen {delay} step{'s' * (delay > 1)} late" if delay else self.machine.name

    def _read(self, time: int, codes: IntArray | None, observation: IntArray) -> IntArray:
        """Return [case, part] the code after what is emitted at a time, which an earlier state may have emitted.

        codes: [case, part] before it. observation: [case]; without meaning while the agent has seen nothing yet.
        """
        read = time - self.decisions.windows.delay
        if read < 0:
            return np.zeros_like(self.machine.begin(np.zeros_like(observation)))
        return (
            self.machine.begin(observation)
            if read == 0 or codes is None
            else self.machine.step(read, codes, observation)
        )

    def cells(self, nodes: _Nodes) -> tuple[tuple[csr_array, ...], IntArray, IntArray, BoolArray]:
        """Let the states that wait emit, one after the other, and return the secret values that occur per node then.

        nodes: of the last level. Returns the chances of `Layers.ending`, [end node + 1] where its cells begin, [cell]
        -> secret value and [end node] whether the secret is settled. Entries with the same node, secret value and kinds
        of states that wait are one from here on; a settled node is an end node as it is.
        """
        from scipy.sparse import csr_array

        windows, process = self.decisions.windows, self.decisions.process
        owner = np.repeat(np.arange(nodes.start.size - 1), np.diff(nodes.start))
        window = self.decisions.moves.pair_state[nodes.pair].astype(np.int64)
        places = _Places(
            nodes.codes[owner], nodes.observation[owner], nodes.settled[owner], windows.waiting[window],
            process.secret[window],
        )  # fmt: skip
        number, places, end = self._merge(places)
        ending = [csr_array((np.ones(number.size), (number, np.arange(number.size))), shape=(end.size, number.size))]
        for step in range(windows.delay):
            self.stop.check()
            emits = (places.waiting[:, 0] >= 0) & ~places.settled
            kept, emitting = np.flatnonzero(~emits), np.flatnonzero(emits)
            position, emitted = expand_rows(windows.emission.starts, places.waiting[emitting, 0])
            self.check(position.size + kept.size)
            source = np.concatenate((kept, emitting[position]))
            chance = np.concatenate((np.ones(kept.size), windows.emission.values[emitted]))
            codes, observation = places.codes[source], places.observation[source]
            observation[kept.size :] = windows.emission.columns[emitted]
            codes[kept.size :] = self._read(process.horizon + 1 + step, codes[kept.size :], observation[kept.size :])
            count = end.size
            after = _Places(
                codes, observation, places.settled[source], places.waiting[source, 1:], places.secret[source]
            )
            number, places, end = self._merge(after)
            ending.append(csr_array((chance, (number, source)), shape=(end.size, count)))
        cell_start = np.concatenate(([0], np.cumsum(np.bincount(end))))
        return tuple(ending), cell_start, places.secret, places.settled[cell_start[:-1]]

    def _merge(self, places: _Places) -> tuple[IntArray, _Places, IntArray]:
        """Return [case] its number among distinct places, these, and [place] the number of its node; by node."""
        end, _ = _number_nodes(places.codes, places.observation, places.settled)
        waiting = np.where(places.settled[:, None], -1, places.waiting)
        number, example = number_within(end, places.secret, *waiting.T)
        codes, observation, settled, _, secret = places
        chosen = _Places(codes[example], observation[example], settled[example], waiting[example], secret[example])
        return number, chosen, end[example]

    def _ahead(self, nodes: _Nodes, levels: int) -> tuple[IntArray, IntArray]:
        """Return [next] node and [next] state: every (node, state that may come next), ascending.

        levels: how many follow the next one.
        """
        process = self.decisions.process
        node = np.repeat(np.arange(nodes.start.size - 1), np.diff(nodes.start))
        state = self.decisions.moves.pair_state[nodes.pair].astype(np.int64)
        self.check(int(np.diff(process.edge_start)[state].sum()), levels=levels)
        owner, edge = expand_rows(process.edge_start, state)
        reached = distinct(node[owner] * process.num_states + process.edge_target[edge])
        return reached // process.num_states, reached % process.num_states

    def _nodes(
        self, codes: IntArray, observation: IntArray, settled: BoolArray, pair: IntArray
    ) -> tuple[_Nodes, IntArray]:
        """Return the distinct nodes and entries among some cases, and the entry of every case.

        codes: [case, part] of the machine. observation: [case]. settled: [case], whether the secret was settled before.
        pair: [case], the state and its observation. A node is settled where it was, or where all its states settle the
            secret
        to one value; its code is then 0, so that all settled nodes with the same observation are one.
        """
        codes = np.where(settled[:, None], 0, codes)
        node, example = _number_nodes(codes, observation, settled)
        self.stop.check()
        settled = settled[example] | self._settles(node, pair, example.size)
        codes, observation = np.where(settled[:, None], 0, codes[example]), observation[example]
        merged, example = _number_nodes(codes, observation, settled)
        node, pair = merged[node], self.decisions.windows.alike_pair[pair]
        entry, first = number_within(node, pair)
        start = np.concatenate(([0], np.cumsum(np.bincount(node[first], minlength=example.size))))
        chosen = _Nodes(codes[example], observation[example], settled[example], start, pair[first])
        return chosen, entry

    def _settles(self, node: IntArray, pair: IntArray, num_nodes: int) -> BoolArray:
        """Return [node]: whether all its states settle the secret to one value. node, pair: [case]."""
        value = self.decisions.process.settled[self.decisions.moves.pair_state[pair]]
        least = np.full(num_nodes, self.decisions.process.num_secrets)
        most = np.full(num_nodes, -1)
        np.minimum.at(least, node, value)
        np.maximum.at(most, node, value)
        return np.asarray((least == most) & (least >= 0))


def _number_nodes(codes: IntArray, observation: IntArray, settled: BoolArray) -> tuple[IntArray, IntArray]:
    """Return [case] its number among the distinct (code, observation, settled), and [number] an example of each.

    codes: [case, part]. observation, settled: [case].
    """
    return number_distinct(*codes.T, observation * 2 + settled)


_NOTHING = -300.0  # exponentials of less are 0 beside the probabilities that policies keep
_LEAST = 1e-100  # probabilities of actions do not fall below: an action that is 0 could never come back


@kernel
def forward(layer, moves, mass, policy, masses_after, used, ahead, stop):
    """Add to the masses of the next layer's entries, and to how often every (pair, action) is used.

        used(x, o, a) += m(x, n) policy(a | x, n),
        m'(x', n') += sum over (x, a) of m(x, n) policy(a | x, n) P(x' | x, a) E(o' | x'),   n' = node after (n, o').

    mass: [entry]. policy: [(entry, action)]. masses_after: [entry of the next layer], added to. used: [(pair, action)],
    added to. ahead: [state], zeros before and after. Returns False when asked to stop.
    """
    node_start, entry_pair, menu_start, next_start = layer.node_start, layer.pair, layer.menu_start, layer.next_start
    next_state, child_start, children = layer.next_state, layer.child_start, layer.child
    pair_start, pair_state, pair_chance, use_start = (
        moves.pair_start,
        moves.pair_state,
        moves.pair_chance,
        moves.use_start,
    )
    choice_start, branch_start, branch_target = moves.choice_start, moves.branch_start, moves.branch_target
    branch_chance = moves.branch_chance
    for node in range(node_start.size - 1):
        if stop[0] != 0:
            return False
        for entry in range(node_start[node], node_start[node + 1]):
            pair = entry_pair[entry]
            state = pair_state[pair]
            first, menu = menu_start[entry], use_start[pair]
            choice = choice_start[state]
            for action in range(choice_start[state + 1] - choice):
                share = mass[entry] * policy[first + action]
                used[menu + action] += share
                for branch in range(branch_start[choice + action], branch_start[choice + action + 1]):
                    ahead[branch_target[branch]] += share * branch_chance[branch]
        for index in range(next_start[node], next_start[node + 1]):
            state = next_state[index]
            weight = ahead[state]
            ahead[state] = 0.0
            emitted = pair_start[state]
            first = child_start[index]
            for offset in range(child_start[index + 1] - first):
                masses_after[children[first + offset]] += weight * pair_chance[emitted + offset]
    return True


@kernel
def last_use(layer, moves, mass, policy, used):
    """Add to how often every (pair, action) is used at the last time: used(x, o, a) += m(x, n) policy(a | x, n).

    mass: [entry]. policy: [(entry, action)]. used: [(pair, action)].
    """
    entry_pair, menu_start, use_start = layer.pair, layer.menu_start, moves.use_start
    for entry in range(entry_pair.size):
        first, menu = menu_start[entry], use_start[entry_pair[entry]]
        for action in range(menu_start[entry + 1] - first):
            used[menu + action] += mass[entry] * policy[first + action]


@inlined
def _expected_value(index, next_state, child_start, children, pair_start, pair_chance, values):
    """Return sum over o of E(o | x') values(x', node after o) of one next state x', by its index in the layer."""
    first = child_start[index]
    emitted = pair_start[next_state[index]]
    total = 0.0
    for offset in range(child_start[index + 1] - first):
        total += pair_chance[emitted + offset] * values[children[first + offset]]
    return total


@kernel
def improve(layer, moves, paid, penalty, soft_after, hard_after, policy, step, soft, hard, ahead, stop):
    """Take one backward step of mirror ascent: update the policy, its soft values and the largest values.

    policy <- policy exp(step Q) / normaliser, soft = log(normaliser) / step, where Q is what an action pays plus the
    expected soft value after it (the proximal step in the relative entropy of whole runs); hard = max over actions of
    the same with hard values. In the last layer nothing follows and soft, hard hold what the end is worth.

    paid: [choice]. penalty: [(pair, action)]. soft_after, hard_after: [entry of the next layer].
    policy: [(entry, action)], updated in place; no probability falls below 1e-100. step: 1 / bits. soft, hard: [entry],
    added to. ahead: three rows [state] of work space. Returns False when asked to stop.
    """
    node_start, entry_pair, menu_start, next_start = layer.node_start, layer.pair, layer.menu_start, layer.next_start
    next_state, child_start, children = layer.next_state, layer.child_start, layer.child
    pair_start, pair_state, pair_chance, use_start = (
        moves.pair_start,
        moves.pair_state,
        moves.pair_chance,
        moves.use_start,
    )
    choice_start, branch_start, branch_target = moves.choice_start, moves.branch_start, moves.branch_target
    branch_chance = moves.branch_chance
    soft_ahead, hard_ahead = ahead[0], ahead[1]
    wish = ahead[2]
    follows = children.size > 0
    for node in range(node_start.size - 1):
        if stop[0] != 0:
            return False
        for index in range(next_start[node], next_start[node + 1]):
            state = next_state[index]
            soft_ahead[state] = _expected_value(
                index, next_state, child_start, children, pair_start, pair_chance, soft_after
            )
            hard_ahead[state] = _expected_value(
                index, next_state, child_start, children, pair_start, pair_chance, hard_after
            )
        for entry in range(node_start[node], node_start[node + 1]):
            pair = entry_pair[entry]
            state = pair_state[pair]
            first, menu = menu_start[entry], use_start[pair]
            choice = choice_start[state]
            count = choice_start[state + 1] - choice
            best, best_wish = -np.inf, -np.inf
            for action in range(count):
                hard_value = paid[choice + action] + penalty[menu + action]
                soft_value = hard_value
                if follows:
                    for branch in range(branch_start[choice + action], branch_start[choice + action + 1]):
                        chance = branch_chance[branch]
                        target = branch_target[branch]
                        hard_value += chance * hard_ahead[target]
                        soft_value += chance * soft_ahead[target]
                best = max(best, hard_value)
                best_wish = max(best_wish, soft_value)
                wish[action] = soft_value
            total = 0.0
            for action in range(count):
                exponent = step * (wish[action] - best_wish)
                weight = policy[first + action] * math.exp(exponent) if exponent > _NOTHING else 0.0
                wish[action] = weight
                total += weight
            for action in range(count):
                policy[first + action] = max(wish[action] / total, _LEAST)
            soft[entry] += best_wish + math.log(total) / step
            hard[entry] += best
    return True


@kernel
def maximise(layer, moves, paid, penalty, after, values, ahead, stop):
    """Take one backward step of dynamic programming: add the largest value over actions to what `values` hold.

    values[entry] += max over actions of paid + penalty + expected value after it. paid: [choice].
    penalty: [(pair, action)]. after: [entry of the next layer]. ahead: rows [state] of work space, the first is used.
    Returns False when asked to stop.
    """
    node_start, entry_pair, next_start, next_state = layer.node_start, layer.pair, layer.next_start, layer.next_state
    child_start, children = layer.child_start, layer.child
    pair_start, pair_state, pair_chance, use_start = (
        moves.pair_start,
        moves.pair_state,
        moves.pair_chance,
        moves.use_start,
    )
    choice_start, branch_start, branch_target = moves.choice_start, moves.branch_start, moves.branch_target
    branch_chance = moves.branch_chance
    value_ahead = ahead[0]
    follows = children.size > 0
    for node in range(node_start.size - 1):
        if stop[0] != 0:
            return False
        for index in range(next_start[node], next_start[node + 1]):
            value_ahead[next_state[index]] = _expected_value(
                index, next_state, child_start, children, pair_start, pair_chance, after
            )
        for entry in range(node_start[node], node_start[node + 1]):
            pair = entry_pair[entry]
            state = pair_state[pair]
            menu, choice = use_start[pair], choice_start[state]
            best = -np.inf
            for action in range(choice_start[state + 1] - choice):
                value = paid[choice + action] + penalty[menu + action]
                if follows:
                    for branch in range(branch_start[choice + action], branch_start[choice + action + 1]):
                        value += branch_chance[branch] * value_ahead[branch_target[branch]]
                best = max(best, value)
            values[entry] += best
    return True
