"""Product states beside an observation machine, level by level: what the bounds are computed on.

An *entry* is (x, node) at one time: the state and the last observation (a pair) and what the machine remembers. Every
node knows its last observation. Once the secret is settled in all states of a node, what the machine remembers no
longer matters: all such nodes with the same last observation are one.

Comes in: the decisions of a process and a machine. Goes out: `Layers`, flat arrays of everything that any policy
reaches, and the compiled steps over one of them:

- `forward` pushes the masses P(x_t, node_t) of a policy on entries one time on, `emit` and `expect` push masses and
  pull values over what the states that still wait emit at the end,
- `improve` and `maximise` take one backward step of the dynamic program

      V_t(x, m) = max over a of paid_t(x, a) + penalty_t(x, a, o) + sum_x',o' P(x' | x, a) E(o' | x') V_t+1(x', m'),

  m' the machine's node after o'. V_T adds the cost of the cell (node, secret value); sum of start x V_0 is what no
  policy exceeds, whether it sees the observations or not,
- `charge_bits` and `count_bits` are the costs and the sum of opacity over cells, `count_use` averages a policy over
  rounds, `mix` and `dot` work on long arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.machines import ObservationMachine
from opaq.certificates.decoder.numbering import list_arcs, list_followers, number_distinct, number_targets
from opaq.certificates.decoder.words import Words, count_values
from opaq.certificates.rounding import UNIT
from opaq.errors import BudgetError
from opaq.kernel_cache import inlined, kernel
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray, expand_rows, indices
from opaq.product.process import merge_observations
from opaq.stop import Stop

_BYTES_A_CASE = 40  # while a level is put together, per (node, next state, observation)
_BYTES_A_PLACE = 24  # of what waits at the end: its values in sweeps
_BYTES_AN_ACTION = 8
_BYTES_A_WORD = 300  # in place of those of a case, where entries are histories: rounds on many of them take long
_BYTES_A_VALUE = 24  # of what words show: one number, and what costs of cells are computed with
_MOST_CASES = 60_000_000  # per level: numbering them takes a second or two, in which no stop is noticed
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


class Emission(NamedTuple):
    """What waits at the end emits: where every place leads. The first one gathers entries that are alike by then."""

    size: int  # how many places, last cells, there are after it

    kind: IndexArray  # [place]: what it emits
    child_start: IntArray  # [place + 1]
    child: IndexArray  # [child]: the place, last the cell, after every observation of the kind
    shown_start: IntArray  # [kind + 1]
    chance: FloatArray  # [(kind, observation)]

    def emit(self, mass: FloatArray, *, workers: int) -> FloatArray:
        """Return the masses of what follows. mass: [place]. workers: one thread is enough."""
        after = np.zeros(self.size)
        _emit(self, mass, after)
        return after

    def expect(self, values: FloatArray, *, workers: int) -> FloatArray:
        """Return [place] what it leads to on average. values: of what follows. workers: one thread is enough."""
        before = np.empty(self.kind.size)
        _expect(self, values, before)
        return before


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
    ending: tuple[Emission | Words, ...]  # from entries of the last layer, emission by emission, to cells
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
    item: IndexArray  # its entries, as pairs; while the last states emit: tails


class _Shown(NamedTuple):
    """What the items of nodes may show, by their kind, and what they are after it."""

    start: IntArray  # [kind + 1]
    observation: IntArray  # [shown]; the number of observations: none, the node stays as it is
    target: IntArray  # [shown]
    value: IntArray  # [shown]: what the secret is settled to then, -1: not
    num_targets: int


def build_layers(decisions: Decisions, machine: ObservationMachine, *, memory: int, stop: Stop) -> Layers:
    """Build the layers of everything that is reachable under some policy.

    decisions: states, actions and emissions. machine: what the decoder remembers of the observations.
    memory: bytes that may be used, the tables of a search included.
    Raises TooLargeError when they do not do, StoppedError when `stop` is requested.
    """
    table = 8 * _COPIES * (decisions.process.horizon + 1) * decisions.use_choice.size
    moves, process = decisions.moves, decisions.process
    value, target = process.settled[moves.pair_state], decisions.windows.alike_pair
    emitted = _Shown(moves.pair_start, process.emission.columns, target, value, target.size)
    builder = _LayerBuilder(decisions, machine, memory, stop, emitted, used=table)
    builder.check(0)
    if decisions.windows.unseen:  # sequences alone may be too many, whatever words there are
        shown = int(np.count_nonzero(np.bincount(decisions.windows.emission.columns)))
        builder.check_values(shown ** (process.horizon + 1) * process.num_secrets)
    nodes, root = builder.first()
    layers, codes = [], [nodes.codes[:, 0]]
    for time in range(process.horizon):
        layer, nodes = builder.layer(time, nodes)
        layers.append(layer)
        codes.append(nodes.codes[:, 0])
    nothing = np.zeros(0, dtype=np.int64)
    ends = np.zeros(nodes.start.size, dtype=np.int64)
    last = Layer(nodes.start, nodes.item, builder.menus(nodes.item), ends, indices(nothing), ends[:1], indices(nothing))
    ending, nodes, secret = builder.ending(nodes)
    most_ends = sum(int(np.diff(step.shown_start).max(initial=1)) for step in ending)
    if not decisions.windows.unseen:
        return Layers(
            builder.name, (*layers, last), root, ending, nodes.start, secret[nodes.item], nodes.settled, most_ends
        )
    gather, words = builder.show_words(ending[0], codes, nodes, secret)
    most_ends += len(codes) * int((words.chance > 0.0).sum(axis=1).max(initial=1))
    first = np.flatnonzero(np.diff(words.sequence, prepend=-1))
    starts, unknown = np.append(first, words.cells.size), np.zeros(first.size, dtype=np.bool_)
    return Layers(builder.name, (*layers, last), root, (gather, words), starts, words.secret, unknown, most_ends)


@dataclass(slots=True)
class _LayerBuilder:
    """Puts levels together, one after the other, within a budget of memory.

    A *case* is (node, next state, observation that it emits). Its *arc* is (node, observation): the machine steps once
    per arc, and cases that come to the same code, observation and state are one entry of the next level.
    """

    decisions: Decisions
    machine: ObservationMachine
    memory: int
    stop: Stop
    emitted: _Shown  # by states
    used: int = 0
    cases: int = 1  # of the level before
    growth: float = 1.0  # from the one before that to it

    def first(self) -> tuple[_Nodes, IntArray]:
        """Return the level after the first observation, and [(start state, observation)] -> its entry."""
        state = self.decisions.start_state
        codes = np.zeros_like(self.machine.begin(np.zeros(1, dtype=np.int64)))
        source = _Nodes(codes, np.zeros(1, np.int64), np.zeros(1, bool), np.array([0, state.size]), indices(state))
        nodes, _, child = self._advance(0, source, source.start, source.item, self.emitted)
        return nodes, child.astype(np.int64)

    def layer(self, time: int, nodes: _Nodes) -> tuple[Layer, _Nodes]:
        """Return the level of some nodes, and the nodes after it.

        time: of the level. nodes: its nodes, with their entries. Raises BudgetError or StoppedError as `build_layers`.
        """
        moves, process = self.decisions.moves, self.decisions.process
        levels = process.horizon - 1 - time
        states, next_start = moves.pair_state[nodes.item], np.zeros(nodes.start.size, dtype=np.int64)
        most = int(np.diff(process.edge_start)[states].sum())
        self.check(most, levels=levels)
        found = np.empty(most, dtype=np.uint32)
        seen = np.zeros(process.num_states, dtype=np.int64)
        count = list_followers(nodes.start, states, process.edge_start, process.edge_target, seen, next_start, found)
        next_state = indices(found[:count])
        cases = int(np.diff(moves.pair_start)[next_state].sum())
        self.check(cases, levels=levels)
        self.cases, self.growth = cases, cases / self.cases
        after, child_start, child = self._advance(time + 1, nodes, next_start, next_state, self.emitted)
        layer = Layer(nodes.start, nodes.item, self.menus(nodes.item), next_start, next_state, child_start, child)
        self.used += sum(int(array.nbytes) for array in layer) + _BYTES_AN_ACTION * int(layer.menu_start[-1])
        self.check(0)
        return layer, after

    def check(self, cases: int, *, levels: int = 0) -> None:
        """Refuse what does not fit before memory is taken for it.

        cases: how many (node, next state, observation) are about to be numbered. levels: how many follow; they are
        expected to grow as this one has, or the one before it. Raises TooLargeError.
        """
        each = _BYTES_A_WORD if self.decisions.windows.unseen else _BYTES_A_CASE
        if cases > _MOST_CASES or self.used + cases * each > self.memory:
            growth = max(cases / self.cases, self.growth, 1.0)
            needed = self.used + cases * growth**levels * each
            text = f"the machine '{self.name}' needs more than the {self.memory:,} bytes it may use"
            raise TooLargeError(text, math.inf if cases > _MOST_CASES else needed)

    def menus(self, pair: IndexArray) -> IntArray:
        """Return [entry + 1]: where the actions of every entry begin. pair: [entry]."""
        moves = self.decisions.moves
        return _starts(np.diff(moves.choice_start)[moves.pair_state[pair]])

    @property
    def name(self) -> str:
        """Return what the machine, and the delay of the agent, are called in reports."""
        delay = self.decisions.windows.delay
        if self.decisions.windows.unseen:
            return "full observation tree, never seen"
        return f"{self.machine.name}, seen {delay} step{'s' * (delay > 1)} late" if delay else self.machine.name

    def ending(self, nodes: _Nodes) -> tuple[tuple[Emission, ...], _Nodes, IntArray]:
        """Let the states that wait emit, one after the other.

        A *place* is a node and a *tail*: the secret and the kinds of the states that wait, which are all that matters
        now; in a settled node nothing waits. nodes: of the last level. Returns where entries, then places lead; the end
        nodes with their cells; and what the secret of a cell's item is.
        """
        windows, process = self.decisions.windows, self.decisions.process
        emission, size = windows.emission, process.num_states
        quiet = emission.starts.size - 1  # a further kind, which emits nothing
        starts = np.append(emission.starts, emission.columns.size + 1)
        columns, chances = np.append(emission.columns, process.num_observations), np.append(emission.values, 1.0)
        waiting = np.concatenate((windows.waiting, np.full((process.num_secrets, windows.delay), -1)))
        secret = np.concatenate((process.secret, np.arange(process.num_secrets)))
        tail, example = number_distinct(secret, *waiting.T)
        waiting, secret = waiting[example], secret[example]
        settled = np.repeat(nodes.settled, np.diff(nodes.start))
        kinds = indices(self.decisions.moves.pair_state[nodes.item] + size * settled)
        first, follows = np.full(2 * size, quiet), np.concatenate((tail[:size], tail[size + process.secret]))
        steps = list[Emission]()
        waits = waiting.shape[1]
        for step in range(waits + 1):
            owner, entry = expand_rows(starts, first)
            never = np.full(owner.size, -1)
            shown = _Shown(_starts(np.diff(starts)[first]), columns[entry], follows[owner], never, secret.size)
            self.check(int(np.diff(shown.start)[kinds].sum()))
            nodes, child_start, child = self._advance(process.horizon + step, nodes, nodes.start, kinds, shown)
            steps.append(Emission(nodes.item.size, kinds, child_start, child, shown.start, chances[entry]))
            self.used += sum(int(array.nbytes) for array in steps[-1][1:]) + _BYTES_A_PLACE * kinds.size
            if step < waits:
                kinds, first = nodes.item, np.where(waiting[:, 0] < 0, quiet, waiting[:, 0])
                follows, example = number_distinct(secret, *waiting[:, 1:].T)
                waiting, secret = waiting[example, 1:], secret[example]
        return tuple(steps), nodes, secret

    def show_words(
        self, gather: Emission, codes: list[IntArray], nodes: _Nodes, secret: IntArray
    ) -> tuple[Emission, Words]:
        """Return how entries gather to pairs (word, secret), and what the observer sees of these.

        gather: from entries to places. codes: [time][node], those of its word. nodes: their places, as items, whose
        secret is given. Raises TooLargeError when masses of all that is in between do not fit.
        """
        emission, num_secrets = self.decisions.windows.emission, self.decisions.process.num_secrets
        chance = merge_observations(emission).dense()
        chance = np.ascontiguousarray(chance[:, chance.any(axis=0)])
        self.check_values(count_values([code.size for code in codes], chance.shape[1], num_secrets))
        word = np.repeat(np.arange(nodes.settled.size), np.diff(nodes.start))
        place = word * num_secrets + secret[nodes.item]
        gather = gather._replace(size=nodes.settled.size * num_secrets, child=indices(place[gather.child]))
        return gather, Words.of(codes, chance, num_secrets=num_secrets, possible=place)

    def check_values(self, count: int) -> None:
        """Refuse so many numbers, of masses or values, before memory is taken for them. Raises TooLargeError."""
        needed = self.used + _BYTES_A_VALUE * count
        if needed > self.memory:
            text = f"the machine '{self.name}' needs {needed:,} bytes, more than the {self.memory:,} it may use"
            raise TooLargeError(text, needed)

    def _advance(
        self, time: int, nodes: _Nodes, item_start: IntArray, kinds: IndexArray, shown: _Shown
    ) -> tuple[_Nodes, IntArray, IndexArray]:
        """Return the nodes after some items have shown something, [item + 1] where their cases begin, [case] -> item.

        time: of what is shown. item_start: [node + 1], kinds: [item]; what comes next in the nodes, or is there. A node
        is settled where it was, or where all its items settle the secret to one value; its code is then 0, so that all
        settled nodes with the same observation are one.
        """
        self.stop.check()
        child_start = _starts(np.diff(shown.start)[kinds])
        cases, silent = int(child_start[-1]), self.decisions.process.num_observations
        case_arc, case_target = np.empty((2, cases), dtype=np.uint32)
        arcs = np.empty((min(cases, nodes.settled.size * (silent + 1)), 5), dtype=np.int64)
        last_arc = np.zeros((silent + 1, 2), dtype=np.int64)
        count = list_arcs(item_start, kinds, *shown[:4], last_arc, arcs, case_arc, case_target)
        source, observation, sizes, least, most = arcs[:count].T
        told = observation < silent
        codes, settled = nodes.codes[source], nodes.settled[source]
        codes[told] = self._read(time, codes[told], observation[told])
        observation, codes = (
            np.where(told, observation, nodes.observation[source]),
            np.where(settled[:, None], 0, codes),
        )
        number, example = _number_nodes(codes, observation, settled)
        least_of, most_of = least[example], most[example]
        np.minimum.at(least_of, number, least)
        np.maximum.at(most_of, number, most)
        settled = settled[example] | ((least_of == most_of) & (least_of >= 0))
        codes, observation = np.where(settled[:, None], 0, codes[example]), observation[example]
        merged, example = _number_nodes(codes, observation, settled)
        node = merged[number]
        self.stop.check()
        order = np.argsort(node, kind="stable")
        arc_end = np.empty(count, dtype=np.int64)
        arc_end[order] = _starts(sizes[order])[:-1]
        seen, start = np.zeros((shown.num_targets, 2), dtype=np.int64), np.zeros(example.size + 1, dtype=np.int64)
        sorted_case, child, found = np.empty((3, cases), dtype=np.uint32)
        count = number_targets(order, node, arc_end, case_arc, case_target, sorted_case, seen, child, start, found)
        after = _Nodes(codes[example], observation[example], settled[example], start, indices(found[:count]))
        return after, child_start, indices(child)

    def _read(self, time: int, codes: IntArray, observation: IntArray) -> IntArray:
        """Return [arc, part] the code after what is emitted at a time, which an earlier state may have emitted.

        codes: [arc, part] before it. observation: [arc]; without meaning while the agent has seen nothing yet.
        """
        read = time - self.decisions.windows.delay
        if read < 0:
            return np.zeros_like(codes)
        return self.machine.begin(observation) if read == 0 else self.machine.step(read, codes, observation)


def _starts(counts: IntArray) -> IntArray:
    """Return [row + 1] where rows begin that have so many entries each."""
    return np.concatenate(([0], np.cumsum(counts)))


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
def _emit(emission, mass, after):
    """Push masses [place] over an emission: add to `after`, the masses of the places, last the cells, that follow."""
    kind, child_start, children = emission.kind, emission.child_start, emission.child
    shown_start, chance = emission.shown_start, emission.chance
    for place in range(kind.size):
        first, shown = child_start[place], shown_start[kind[place]]
        for offset in range(child_start[place + 1] - first):
            after[children[first + offset]] += mass[place] * chance[shown + offset]


@kernel
def _expect(emission, after, values):
    """Pull values back over an emission: write the expected values [place] of what is worth `after` one emission on."""
    kind, child_start, children = emission.kind, emission.child_start, emission.child
    shown_start, chance = emission.shown_start, emission.chance
    for place in range(kind.size):
        values[place] = _expected_value(place, kind, child_start, children, shown_start, chance, after)


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


@kernel
def charge_bits(start, settled, masses, uniform, floor, costs, first_node, end_node):
    """Write the costs of a decoder of opacity, as `Shannon.costs` has them: -log2 of a smoothed posterior, rounded up.

    start: [node + 1], its cells. settled: [node]; nothing is open there, nor where one value can occur. masses: [cell].
    uniform, floor: as in `Smoothing`. Costs are rounded up by far more than their computation may be off. The last two
    arguments say which nodes are charged.
    """
    for node in range(first_node, end_node):
        first, end = start[node], start[node + 1]
        count = end - first
        if count == 1 or settled[node]:
            for cell in range(first, end):
                costs[cell] = 0.0
            continue
        total, decoder = floor, 0.0
        for cell in range(first, end):
            total += masses[cell]
        for cell in range(first, end):
            share = (masses[cell] + floor / count) / total if total > 0.0 else 1.0 / count
            costs[cell] = (1.0 - uniform) * share + uniform / count
            decoder += costs[cell]
        for cell in range(first, end):
            bits = abs(math.log2(costs[cell] / decoder))
            costs[cell] = bits + UNIT * (8.0 * bits + 4.0 * (count + 8))


@kernel
def count_bits(start, settled, masses, first_node, end_node):
    """Return the sum over nodes of -sum_z q_z log2(q_z / sum q), 0 where the secret is settled.

    start: [node + 1], its cells. settled: [node]. masses: [cell]. The last two arguments say which nodes are counted.
    """
    bits = 0.0
    for node in range(first_node, end_node):
        if settled[node] or start[node + 1] - start[node] == 1:
            continue
        total = 0.0
        for cell in range(start[node], start[node + 1]):
            total += masses[cell]
        for cell in range(start[node], start[node + 1]):
            if masses[cell] > 0.0:
                bits -= masses[cell] * math.log2(masses[cell] / total)
    return bits


@kernel
def count_use(menu_start, mass, policy, weight, plan):
    """Move a plan towards how often the policy takes actions: plan += weight (mass x policy - plan).

    menu_start: [entry + 1]. mass: [entry]. policy, plan: [(entry, action)].
    """
    for entry in range(mass.size):
        for place in range(menu_start[entry], menu_start[entry + 1]):
            plan[place] += weight * (mass[entry] * policy[place] - plan[place])


@kernel
def mix(one, two, weight, into):
    """Write one + weight (two - one) of two arrays of the same length; `into` may be the first."""
    for index in range(one.size):
        into[index] = one[index] + weight * (two[index] - one[index])


@kernel
def dot(one, two):
    """Return the sum of products of two arrays of the same length, in this thread: libraries would begin others."""
    total = 0.0
    for index in range(one.size):
        total += one[index] * two[index]
    return total
