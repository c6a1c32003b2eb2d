"""The graph of all beliefs that an observer can come to, whatever the policy does: what a least uncertainty is made of.

The observer knows the policy. A policy that sees the observations and the product state x_t may be taken to depend on
(x_t, o_0 .. o_t) alone: P(a_t | x_t, o_0 .. o_t) gives the same law of (x_T, o_0 .. o_T) as any memory does. Given the
observations its choice is a *prescription* g: state -> action, known to the observer, so that the next belief follows
from the last one, g and o. With unnormalised beliefs b, masses q_z(b) of the secret and the uncertainty f,

    V_T(b) = f(q(b)),    V_t(b) = min over g of sum over o of V_{t+1}(b'(b, g, o)),
    b'(b, g, o)(x') = sum over x of b(x) P(x' | x, g(x)) E(o | x'),

is the least uncertainty: the law of (x_T, o_0 .. o_T) is linear in every single prescription and f is concave, so that
prescriptions that draw lots are never better. An agent that sees the observations alone has one action for all states
of a belief (`shared`), and V is the program of active perception.

f is concave and f(c q) = c f(q), and so is every V_t: hence V_t(b + r) >= V_t(b) + V_t(r). Two consequences keep a
graph that is merged or incomplete a proof. With any lower bounds U_t(x) of V_t from a known state x,

- V_t(b) >= sum over x of b(x) U_t(x): a belief need not be expanded;
- V_t(b) >= c V_t(b') + (1 - c) min U_t for normalised b, b' and c = min over x of b(x) / b'(x): beliefs that are nearly
  equal may be merged, and what that loses is charged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.graph import IMPOSSIBLE
from opaq.certificates.decoder.decisions import Decisions
from opaq.model.arrays import BoolArray, FloatArray, IntArray, expand_rows
from opaq.product.compile import Product
from opaq.stop import Deadline, Stop

_MERGED = 1e10  # per unit of log belief: entries that differ by less than a share of about 1e-10 may be merged
_CHUNK = 300_000  # entries that are expanded at a time
_BYTES = 160  # per entry while it is expanded
_KEPT_BYTES = 48  # per entry, at most, of what is kept
_MOST_OPTIONS = 2.0**40  # prescriptions of one belief, beyond which it is never expanded


Roots = tuple[IntArray, IntArray, FloatArray] | IntArray  # (owner, state, mass) of distributions, or known states


class Beliefs(NamedTuple):
    """Normalised beliefs, sparsely: belief n has the entries start[n] .. start[n + 1] - 1, states in order."""

    start: IntArray  # [belief + 1]
    state: IntArray  # [entry]
    value: FloatArray  # [entry]

    @property
    def size(self) -> int:
        """Return the number of beliefs."""
        return int(self.start.size - 1)

    def take(self, chosen: IntArray) -> Beliefs:
        """Return the chosen beliefs, in this order."""
        _, entry = expand_rows(self.start, chosen)
        start = np.concatenate(([0], np.cumsum(np.diff(self.start)[chosen])))
        return Beliefs(start, self.state[entry], self.value[entry])

    def sums(self, weights: FloatArray) -> FloatArray:
        """Return [belief] or [belief, column]: sum over x of b(x) weights[x]. weights: [state] or [state, column]."""
        return np.asarray(self.matrix(weights.shape[0]) @ weights)

    def matrix(self, num_states: int) -> Any:
        """Return the beliefs as a sparse matrix [belief, state]."""
        from scipy.sparse import csr_array

        return csr_array((self.value, self.state, self.start), shape=(self.size, num_states))


class Options(NamedTuple):
    """What can be prescribed at the beliefs that are expanded; the options of a belief stand side by side."""

    belief: IntArray  # [expanded]
    start: IntArray  # [expanded + 1]: their options
    paid: FloatArray  # [option, requirement]: what is paid, discounted
    arcs: Any  # sparse [option, belief of the next level]: P(o | b, g), times c where beliefs are merged
    lost: FloatArray  # [option]: the probability that merging takes away


@dataclass(frozen=True, slots=True, eq=False)
class BeliefProgram:
    """All beliefs from some time to the horizon, as far as they were expanded.

    level i holds the beliefs at time first + i; options[i] lead from there to level i + 1, those of the last level
    (only where one action is shared by all states of a belief) nowhere.
    """

    first: int
    root: Any  # sparse [root, belief of level 0]: probabilities; a root is the start, or a state that is known
    levels: tuple[Beliefs, ...]
    options: tuple[Options, ...]
    whole: bool  # whether nothing was left unexpanded that could matter
    num_entries: int  # what was expanded: prescriptions times branches
    widest: int  # the largest support


@dataclass(frozen=True, slots=True, eq=False)
class Prescriptions:
    """What an agent can prescribe at a belief, and what comes of it.

    shared: one action for all states of a belief, for agents that see the observations alone.
    """

    decisions: Decisions
    shared: bool
    action: IntArray  # [choice] -> the model's action
    menu_start: IntArray  # [state + 1]: its distinct choices
    menu: IntArray  # [entry] -> choice
    choice_of: IntArray  # [state, action] -> choice, -1 where it is not enabled
    width: FloatArray  # [state]: about how many entries one choice makes
    keys: Any  # [state, 2]: odd numbers that hash beliefs

    @classmethod
    def of(cls, product: Product, decisions: Decisions, *, shared: bool) -> Prescriptions:
        """Lay out the choices of a product compiled for policies of the state; equal choices of a state count once."""
        choices, process = decisions.choices, decisions.process
        action = product.slot_action[choices.slot]
        ahead = choices.ahead
        seen: set[tuple[int, bytes, bytes, bytes]] = set()
        distinct = np.zeros(choices.state.size, dtype=np.bool_)
        for choice, state in enumerate(choices.state.tolist()):
            part = slice(ahead.indptr[choice], ahead.indptr[choice + 1])
            paid = decisions.rewards[:, choice].tobytes() + decisions.tails[:, choice].tobytes()
            key = (state, ahead.indices[part].tobytes(), ahead.data[part].tobytes(), paid)
            distinct[choice] = key not in seen
            seen.add(key)
        menu = np.flatnonzero(distinct)
        counts = np.bincount(choices.state[menu], minlength=process.num_states)
        choice_of = np.full((process.num_states, int(action.max(initial=0)) + 1), -1)
        choice_of[choices.state, action] = np.arange(choices.state.size)
        emitted = np.diff(process.emission.starts)
        made = ahead @ emitted.astype(np.float64) + np.diff(ahead.indptr)
        keys = np.random.default_rng(0x1EA5).integers(0, 2**63, size=(process.num_states, 2), dtype=np.uint64)
        return cls(
            decisions=decisions,
            shared=shared,
            action=action,
            menu_start=np.concatenate(([0], np.cumsum(counts))),
            menu=menu,
            choice_of=choice_of,
            width=np.maximum.reduceat(made, choices.first),
            keys=keys * np.uint64(2) + np.uint64(1),
        )

    def shared_actions(self, beliefs: Beliefs) -> BoolArray:
        """Return [belief, action]: whether all states of a belief enable it; shared options are these, in order."""
        enabled = np.add.reduceat(self.choice_of[beliefs.state] >= 0, beliefs.start[:-1], axis=0, dtype=np.int64)
        return np.asarray(enabled == np.diff(beliefs.start)[:, None])

    def count(self, beliefs: Beliefs) -> FloatArray:
        """Return [belief]: how many options it has; infinite beyond any budget."""
        if self.shared:
            return np.asarray(self.shared_actions(beliefs).sum(axis=1), dtype=np.float64)
        sizes = np.diff(self.menu_start)[beliefs.state].astype(np.float64)
        return np.exp2(np.add.reduceat(np.log2(sizes), beliefs.start[:-1])).round()

    def work(self, beliefs: Beliefs) -> FloatArray:
        """Return [belief]: about how many entries its options make; infinite beyond any budget."""
        counts = self.count(beliefs)
        work = counts * np.add.reduceat(self.width[beliefs.state], beliefs.start[:-1])
        return np.where(counts < _MOST_OPTIONS, work, np.inf)

    def prescribe(self, beliefs: Beliefs) -> tuple[IntArray, Any]:
        """Return [belief + 1] the options of every belief, and the sparse [option, choice] masses b(x) at g(x)."""
        from scipy.sparse import csr_array

        if self.shared:
            owner, act = np.nonzero(self.shared_actions(beliefs))
            option, entry = expand_rows(beliefs.start, owner)
            choice = self.choice_of[beliefs.state[entry], act[option]]
            counts = np.bincount(owner, minlength=beliefs.size)
        else:
            sizes = np.diff(self.menu_start)[beliefs.state]
            counts = self.count(beliefs).astype(np.int64)
            owner = np.repeat(np.arange(beliefs.size), counts)
            rank = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
            option, entry = expand_rows(beliefs.start, owner)
            digit = rank[option] // _strides(beliefs.start, sizes)[entry] % sizes[entry]
            choice = self.menu[self.menu_start[beliefs.state[entry]] + digit]
        shape = (owner.size, self.action.size)
        return np.concatenate(([0], np.cumsum(counts))), csr_array(
            (beliefs.value[entry], (option, choice)), shape=shape
        )

    def paid(self, time: int) -> FloatArray:
        """Return [choice, requirement]: what choices pay at a time, discounted, with the tails at the last time."""
        decisions = self.decisions
        paid = decisions.rewards * (decisions.discounts**time)[:, None]
        return np.asarray((paid + decisions.tails if time == decisions.process.horizon else paid).T)

    def observe(
        self, owner: IntArray, state: IntArray, mass: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray, Beliefs]:
        """Split distributions over states by what is seen in them.

        owner, state, mass: [entry]; sorted by owner, then state. Returns [arc] the owner, [arc] the observation, [arc]
        its probability, and the belief after every arc.
        """
        emission = self.decisions.process.emission
        source, shown = expand_rows(emission.starts, state)
        value = mass[source] * emission.values[shown]
        key = owner[source] * emission.num_columns + emission.columns[shown]
        order = np.flatnonzero(value > 0)
        order = order[np.argsort(key[order], kind="stable")]
        key, value, state = key[order], value[order], state[source[order]]
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if key.size else np.zeros(0, np.int64)
        start = np.append(first, key.size)
        total = np.add.reduceat(value, first) if key.size else np.zeros(0)
        beliefs = Beliefs(start, state, value / np.repeat(total, np.diff(start)))
        likely = np.flatnonzero(total > IMPOSSIBLE)
        into, observation = np.divmod(key[first[likely]], emission.num_columns)
        return into, observation, total[likely], beliefs.take(likely)

    def merge(self, beliefs: Beliefs) -> tuple[IntArray, FloatArray, Beliefs]:
        """Merge beliefs that are equal up to rounding.

        Returns [belief] the number of the one it is merged into, [belief] the share c of that which it contains, and
        the merged ones.
        """
        if not beliefs.size:
            return np.zeros(0, np.int64), np.zeros(0), beliefs
        digits = np.rint(np.log(beliefs.value) * _MERGED).astype(np.int64).astype(np.uint64)
        mixed = self.keys[beliefs.state, 0] * digits + self.keys[beliefs.state, 1]
        hashes = np.add.reduceat(mixed ^ (mixed >> np.uint64(29)), beliefs.start[:-1])
        _, kept, merged = np.unique(hashes, return_index=True, return_inverse=True)
        merged = merged.reshape(-1)
        sizes, other = np.diff(beliefs.start), kept[merged]
        share = np.ones(beliefs.size)
        copies = np.flatnonzero(other != np.arange(beliefs.size))
        share[copies[sizes[copies] != sizes[other[copies]]]] = 0.0
        copies = copies[sizes[copies] == sizes[other[copies]]]
        if copies.size:
            owner, entry = expand_rows(beliefs.start, copies)
            twin = entry - beliefs.start[copies][owner] + beliefs.start[other[copies]][owner]
            ratio = np.where(
                beliefs.state[entry] == beliefs.state[twin], beliefs.value[entry] / beliefs.value[twin], 0.0
            )
            heads = np.concatenate(([0], np.cumsum(sizes[copies])[:-1]))
            share[copies] = np.minimum(np.minimum.reduceat(ratio, heads), 1.0)
        return merged, share, beliefs.take(kept)

    def closed(self, beliefs: Beliefs) -> BoolArray:
        """Return [belief]: whether the sum of U_t over its states is its value, so that it need not be expanded.

        So it is where the secret is settled: then only payoffs count. Agents that do not see the state collect them
        no better than agents that do: their beliefs are closed only where nothing is required.
        """
        process = self.decisions.process
        if self.shared and self.decisions.names:
            return np.zeros(beliefs.size, dtype=np.bool_)
        settled = process.settled[beliefs.state]
        low, high = (choose.reduceat(settled, beliefs.start[:-1]) for choose in (np.minimum, np.maximum))
        return np.asarray((low == high) & (low >= 0))


def _strides(start: IntArray, sizes: IntArray) -> IntArray:
    """Return [entry]: the product of the sizes of the entries before it in its belief."""
    logs = np.concatenate(([0.0], np.cumsum(np.log2(sizes))))
    owner_head = np.repeat(logs[start[:-1]], np.diff(start))
    return np.asarray(np.exp2(logs[:-1] - owner_head).round(), dtype=np.int64)


def build_program(
    prescriptions: Prescriptions,
    roots: Roots,
    *,
    first: int,
    deadline: Deadline,
    memory: int,
    most_entries: float = np.inf,
    stop: Stop,
    on_level: Callable[[int, int], None] = lambda time, entries: None,
) -> BeliefProgram:
    """Expand all beliefs from some roots on, level by level, the likeliest first, as far as the budget goes.

    roots: (owner, state, mass) of distributions that are observed first, or states [root] that are known.
    first: the time of level 0. deadline, memory (bytes), most_entries: for all of it; a level gets half of what is
    left, the last one all.
    stop: ends the work with what is expanded by then. on_level: called with the time of a level and the entries so far.
    """
    from scipy.sparse import csr_array

    process = prescriptions.decisions.process
    if isinstance(roots, tuple):
        owner, _, chance, seen = prescriptions.observe(*roots)
        merged, share, beliefs = prescriptions.merge(seen)
        root = csr_array((chance * share, (owner, merged)), shape=(int(owner.max(initial=0)) + 1, beliefs.size))
    else:
        beliefs = Beliefs(np.arange(roots.size + 1), roots, np.ones(roots.size))
        root = csr_array((np.ones(roots.size), (np.arange(roots.size),) * 2), shape=(roots.size, roots.size))
    reach = np.asarray(root.max(axis=0).todense()).reshape(-1)
    levels, options, whole, entries, used = [beliefs], list[Options](), True, 0, 0
    for time in range(first, process.horizon):
        share_left = 0.5 if time < process.horizon - 1 else 1.0
        work = prescriptions.work(beliefs)
        wanted = np.flatnonzero(~prescriptions.closed(beliefs))
        order = wanted[work[wanted] * _BYTES <= memory / 4]
        order = order[np.argsort(-reach[order], kind="stable")]
        allowed = min(most_entries - entries, (memory - used) / _KEPT_BYTES) * share_left
        order = order[np.cumsum(work[order]) <= allowed]
        order = np.sort(order) if order.size == wanted.size else order
        step, beliefs, reach, made = _expand_level(
            prescriptions, beliefs, order, reach, work, time=time, limit=deadline.part(share_left), stop=stop
        )
        whole = whole and step.belief.size == wanted.size
        entries += made
        used += _num_bytes(step, beliefs)
        levels.append(beliefs)
        options.append(step)
        on_level(time, entries)
    if prescriptions.shared:
        options.append(_last_options(prescriptions, beliefs))
    widest = max((int(np.diff(level.start).max(initial=1)) for level in levels), default=1)
    return BeliefProgram(first, root, tuple(levels), tuple(options), whole, entries, widest)


def _expand_level(
    prescriptions: Prescriptions,
    beliefs: Beliefs,
    order: IntArray,
    reach: FloatArray,
    work: FloatArray,
    *,
    time: int,
    limit: Deadline,
    stop: Stop,
) -> tuple[Options, Beliefs, FloatArray, int]:
    """Expand some beliefs of one level, in order, until the limit or the stop.

    Returns their options, the beliefs of the next level, [belief] how likely each of those is at most, and the number
    of entries made.
    """
    from scipy.sparse import csr_array

    paid, ahead = prescriptions.paid(time), prescriptions.decisions.choices.ahead
    number = np.cumsum(work[order]) // _CHUNK
    cuts = [*np.flatnonzero(np.diff(number, prepend=-1.0)).tolist(), order.size]
    parts, owners, chances, likely = list[Beliefs](), [], [], []
    starts, pays, entries, done, count = [np.zeros(1, np.int64)], [], 0, 0, 0
    for low, high in pairwise(cuts):
        if stop.requested or limit.passed:
            break
        chunk = beliefs.take(order[low:high])
        start, choices = prescriptions.prescribe(chunk)
        predicted = csr_array(choices @ ahead)
        predicted.sort_indices()
        option = np.repeat(np.arange(choices.shape[0]), np.diff(predicted.indptr))
        owner, _, chance, seen = prescriptions.observe(option, predicted.indices.astype(np.int64), predicted.data)
        into, share, merged = prescriptions.merge(seen)
        head = np.repeat(reach[order[low:high]], np.diff(start))
        top = np.zeros(merged.size)
        np.maximum.at(top, into, head[owner] * chance)
        base = sum(part.size for part in parts)
        parts.append(merged)
        likely.append(top)
        owners.append((owner + count, into + base))
        chances.append((chance, share))
        starts.append(start[1:] + count)
        pays.append(np.asarray(choices @ paid))
        entries += int(seen.state.size)
        count += int(choices.shape[0])
        done = int(high)
    both = _concatenate(parts)
    into, second, following = prescriptions.merge(both)
    option = np.concatenate([owner for owner, _ in owners]) if owners else np.zeros(0, np.int64)
    middle = np.concatenate([child for _, child in owners]) if owners else np.zeros(0, np.int64)
    chance = np.concatenate([each for each, _ in chances]) if chances else np.zeros(0)
    share = np.concatenate([each for _, each in chances]) * second[middle] if chances else np.zeros(0)
    arcs = csr_array((chance * share, (option, into[middle])), shape=(count, following.size))
    reached = np.zeros(following.size)
    np.maximum.at(reached, into, np.concatenate(likely) if likely else np.zeros(0))
    num_paid = paid.shape[1]
    step = Options(
        belief=order[:done],
        start=np.concatenate(starts),
        paid=np.concatenate(pays) if pays else np.zeros((0, num_paid)),
        arcs=arcs,
        lost=np.bincount(option, weights=chance * (1.0 - share), minlength=count).astype(np.float64),
    )
    return step, following, reached, entries


def _last_options(prescriptions: Prescriptions, beliefs: Beliefs) -> Options:
    """Return the options of the last level where one action is shared: nothing follows, but they pay."""
    start, choices = prescriptions.prescribe(beliefs)
    paid = np.asarray(choices @ prescriptions.paid(prescriptions.decisions.process.horizon))
    return Options(np.arange(beliefs.size), start, paid, None, np.zeros(choices.shape[0]))


def _concatenate(parts: list[Beliefs]) -> Beliefs:
    """Return the beliefs of all parts, in order."""
    if not parts:
        return Beliefs(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    sizes = np.concatenate([np.diff(part.start) for part in parts])
    state, value = (np.concatenate([part[field] for part in parts]) for field in (1, 2))
    return Beliefs(np.concatenate(([0], np.cumsum(sizes))), state, value)


def _num_bytes(step: Options, beliefs: Beliefs) -> int:
    """Return about how much memory a level takes."""
    arcs = step.arcs.data.nbytes + step.arcs.indices.nbytes
    return int(arcs + step.paid.nbytes + 3 * step.lost.nbytes + beliefs.state.nbytes + beliefs.value.nbytes)
