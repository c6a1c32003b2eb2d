"""Forward and backward sweeps over layers: a policy on entries, what it does, and how it improves.

A forward sweep gives the masses of cells q(node, z) = P(node_T, Z = z), the payoffs and how often every action is used,
all linear in the distribution of runs. A backward sweep maximises

    sum over cells of cost x q  +  sum_i multiplier_i V_i  +  penalties

over all policies that see state and machine. Where the costs satisfy f(q) <= costs . q for every q, its value less
multipliers . thresholds exceeds f of every policy that meets the thresholds: this is what a bound is made of. Costs of
a decoder r are -log2 r(z | node) for opacity; which costs are chosen decides how tight the bound is, never whether it
holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from opaq.certificates.decoder import layers as kernels
from opaq.certificates.decoder.decisions import Decisions, DecisionTable
from opaq.certificates.decoder.layers import Layer, Layers
from opaq.certificates.decoder.numbering import number_distinct
from opaq.model.arrays import FloatArray, IndexArray, IntArray, expand_rows, indices
from opaq.model.uncertainty import Cells, Uncertainty
from opaq.stop import Stop
from opaq.threads import map_in_threads

_CELLS_PER_THREAD = 1 << 18  # fewer take hardly longer than a thread does to begin
_CELLS_PER_BLOCK = 1 << 14  # the arrays that costs are computed with stay in the caches of a core


class Flow(NamedTuple):
    """The effect of a policy: linear in the distribution of runs, so that averages of flows are flows."""

    masses: FloatArray  # [cell]
    payoffs: FloatArray  # [requirement]
    used: FloatArray  # [time, (pair, action)]: how often every action is taken

    def mix(self, other: Flow, weight: float, *, into: FloatArray) -> Flow:
        """Return (1 - weight) x this + weight x other: the flow of the mixture of the two distributions of runs.

        into: [cell], where the masses are written; it may be this flow's own array.
        """
        return self.act(other, weight)._replace(masses=_mix(self.masses, other.masses, weight, into))

    def act(self, other: Flow, weight: float) -> Flow:
        """Return the payoffs and use of the mixture, with the masses of this flow.

        weight: beyond 1 it extrapolates, which gives a flow in the sense of its equations alone.
        """
        payoffs, used = (one + weight * (two - one) for one, two in zip(self[1:], other[1:], strict=True))
        return Flow(self.masses, payoffs, used)


class Costs(NamedTuple):
    """The payments of a linearised problem: their choice is the proof."""

    cells: FloatArray  # [cell]
    multipliers: FloatArray  # [requirement]
    penalty: FloatArray | None = None  # [time, (pair, action)]

    def mix(self, other: Costs, weight: float, *, into: FloatArray) -> Costs:
        """Return (1 - weight) x this + weight x other; without penalties where one of the two has none.

        Costs that are valid for a concave f form a convex set, so that mixtures with a weight in [0, 1] prove bounds
        too. into: [cell], where the costs of cells are written; it may be this one's own array.
        """
        cells = _mix(self.cells, other.cells, weight, into)
        multipliers = self.multipliers + weight * (other.multipliers - self.multipliers)
        if self.penalty is None or other.penalty is None:
            return Costs(cells, multipliers)
        return Costs(cells, multipliers, self.penalty + weight * (other.penalty - self.penalty))


class _Block(NamedTuple):
    """Some of the cells of the last nodes, with all cells of their nodes."""

    span: slice  # of all cells
    cells: Cells


@dataclass(slots=True, eq=False)
class Sweeper:
    """A policy on the entries of layers, with the memory that sweeps need."""

    decisions: Decisions
    layers: Layers
    blocks: tuple[_Block, ...]  # all cells
    stop: Stop
    root_weight: FloatArray
    acts: tuple[Layer, ...]  # the layers; the last with one entry for all that act alike: the last action hides nothing
    last_act: IntArray  # [pair] -> entry of the last of them
    policy: list[FloatArray]  # [time][(entry of `acts`, action)]
    buffer: FloatArray  # [3, state]
    workers: int  # the most threads
    plan: list[FloatArray]  # [time][(entry, action)], last [use]: how often actions are taken on average, if it is kept

    @classmethod
    def of(cls, decisions: Decisions, layers: Layers, stop: Stop, *, workers: int = 1) -> Sweeper:
        """Prepare sweeps with the uniform policy. Raises StoppedError when `stop` is requested meanwhile.

        decisions: states, actions, payoffs. layers: built of them for one machine. workers: the most threads.
        """
        moves = decisions.moves
        owner, pair = expand_rows(moves.pair_start, decisions.start_state)
        most_actions = int(np.diff(moves.choice_start).max(initial=1))
        buffer = np.zeros((3, max(decisions.process.num_states, most_actions)))
        weight = decisions.start_chance[owner] * moves.pair_chance[pair]
        last_act, example = number_distinct(moves.use_start)
        last = layers.layers[-1]
        counts = np.diff(moves.choice_start)[moves.pair_state[example]]
        menu_start = np.concatenate(([0], np.cumsum(counts)))
        alone = last._replace(node_start=np.array([0, example.size]), pair=indices(example), menu_start=menu_start)
        acts = (*layers.layers[:-1], alone)
        sweeper = cls(decisions, layers, _cut_cells(layers), stop, weight, acts, last_act, [], buffer, workers, [])
        sweeper.policy = [sweeper.policy_uniform(time) for time in range(len(acts))]
        return sweeper

    @property
    def horizon(self) -> int:
        """Return the last time, T."""
        return len(self.layers.layers) - 1

    def follow(self, used: FloatArray, *, uniform_share: float) -> None:
        """Start from a policy by time and product state, as another machine's search came to it.

        used: [time, choice of a product state], how often actions are taken (`Sweeper.used_by_state`).
        uniform_share: how much of the uniform policy is mixed in.
        """
        decisions = self.decisions
        counts = np.diff(decisions.moves.choice_start)
        for time, layer in enumerate(self.acts):
            state = decisions.moves.pair_state[layer.pair]
            first = decisions.moves.use_start[layer.pair]
            owner = np.repeat(np.arange(first.size), counts[state])
            use = first[owner] + np.arange(owner.size) - layer.menu_start[:-1][owner]
            weights = used[time][decisions.state_use[use]] + 1e-300
            totals = np.add.reduceat(weights, layer.menu_start[:-1])
            even = self.policy_uniform(time)
            self.policy[time] = (1.0 - uniform_share) * weights / totals[owner] + uniform_share * even

    def used_by_state(self, used: FloatArray) -> FloatArray:
        """Return [time, choice of a product state]: how often actions are taken. used: [time, use], of a flow."""
        size = int(self.decisions.state_use.max(initial=-1)) + 1
        return np.array([np.bincount(self.decisions.state_use, weights=row, minlength=size) for row in used])

    def soften(self, uniform_share: float) -> None:
        """Mix the policy with the uniform one: actions that became rare can come back soon.

        uniform_share: how much of the uniform policy is mixed in.
        """
        for time, policy in enumerate(self.policy):
            self.policy[time] = (1.0 - uniform_share) * policy + uniform_share * self.policy_uniform(time)

    def policy_uniform(self, time: int) -> FloatArray:
        """Return [(entry, action)]: all actions of an entry alike. Raises StoppedError when the stop is requested."""
        self.stop.check()
        return _uniform(np.diff(self.acts[time].menu_start))

    def flow(self, weight: float = 1.0) -> Flow:
        """Follow the policy forwards and return masses, payoffs and use.

        weight: of this flow in the average that `plan` is of. Raises StoppedError when the stop is requested meanwhile.
        """
        mass, used = self._follow(self.decisions.moves, self.decisions.use_choice.size, weight)
        payoffs = self._payoffs(mass, used)
        for emission in self.layers.ending:
            self.stop.check()
            mass = emission.emit(mass, workers=self.workers)
        return Flow(mass, payoffs, used)

    def keep_plan(self) -> None:
        """Keep, from the next flow on, how often actions are taken in every entry on average."""
        self.plan = [np.zeros(self.policy[time].size) for time in range(self.horizon)]
        self.plan.append(np.zeros(self.decisions.use_choice.size))

    def window_use(self) -> FloatArray:
        """Return [time, choice of a window]: how often the policy takes actions, whatever was observed.

        Windows that are alike are counted as the first of them. Raises StoppedError when the stop is requested.
        """
        moves, alike = self.decisions.moves, self.decisions.windows.alike
        counted = moves._replace(use_start=moves.choice_start[alike[moves.pair_state]])
        return self._follow(counted, int(moves.choice_start[-1]))[1]

    def _follow(self, moves: DecisionTable, num_uses: int, weight: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Follow the policy forwards; return [entry of the last layer] masses and [time, use] how often it acts so.

        moves: says where uses are counted, num_uses: how many there are. One call of `layers.forward` per time.
        weight: with which entries are counted in the plan.
        """
        layers = self.layers.layers
        mass = _sums(self.layers.root, self.root_weight, layers[0].pair.size)
        used = np.zeros((self.horizon + 1, num_uses))
        for time in range(self.horizon):
            if self.plan and weight > 0.0:
                kernels.count_use(layers[time].menu_start, mass, self.policy[time], weight, self.plan[time])
            mass = self._push(time, mass, moves, used[time])
        by_pair = _sums(layers[-1].pair, mass, moves.pair_state.size)
        owner, act = expand_rows(self.acts[-1].menu_start, self.last_act)
        use = np.repeat(moves.use_start, np.bincount(owner)) + act - self.acts[-1].menu_start[self.last_act[owner]]
        used[-1] = _sums(use, by_pair[owner] * self.policy[-1][act], num_uses)
        if self.plan and weight > 0.0:
            self.plan[-1] += weight * (used[-1] - self.plan[-1])
        return mass, used

    def decoder_costs(self, uncertainty: Uncertainty, masses: FloatArray, rounds: int) -> FloatArray:
        """Return [cell] valid costs, the closer to those at the masses [cell] the more rounds there were."""
        smoothing, layers = uncertainty.smoothing(rounds, self.layers.settled.size), self.layers
        if uncertainty.compiled == "opacity":
            costs = np.empty(masses.size)
            how = (layers.cell_start, layers.settled, masses, smoothing.uniform, smoothing.floor, costs)
            list(self._share_nodes(lambda part: kernels.charge_bits(*how, *part)))
            return costs
        return np.concatenate(
            [uncertainty.decoder_costs(masses[block.span], block.cells, smoothing) for block in self.blocks]
        )

    def total(self, uncertainty: Uncertainty, masses: FloatArray) -> float:
        """Return the uncertainty that the masses [cell] leave, summed over all nodes; no bound depends on it."""
        if uncertainty.compiled == "opacity":
            how = (self.layers.cell_start, self.layers.settled, masses)
            return math.fsum(self._share_nodes(lambda part: kernels.count_bits(*how, *part)))
        return sum(uncertainty.total(masses[block.span], block.cells) for block in self.blocks)

    def _share_nodes(self, work: Callable[[tuple[int, int]], Any]) -> Iterator[Any]:
        """Yield what is returned for parts of the end nodes: the first of each, and the one after its last.

        Parts do not depend on the number of threads, nor do sums over them.
        """
        parts = max(1, self.layers.cell_secret.size // _CELLS_PER_THREAD)
        cuts = np.linspace(0, self.layers.settled.size, parts + 1).astype(np.int64)
        return map_in_threads(work, list(pairwise(cuts.tolist())), workers=self.workers)

    def improve(self, costs: Costs, step: float) -> tuple[float, float]:
        """Take one mirror step of the policy; return the largest value of any policy with these costs, and the step's.

        The step maximises value - KL(runs of the new policy | runs of the old one) / step, which one sweep does:

            pi(a | x, n) <- pi(a | x, n) exp(step Q(x, n, a)) / normaliser,   soft(x, n) = log(normaliser) / step.

        costs: of cells, requirements and uses. step: how far the policy moves. The value returned is before the
            thresholds
        are subtracted. Raises StoppedError when the stop is requested meanwhile: the policy is then half improved.
        """
        ended = self._expect(costs.cells)
        soft_after = hard_after = ended[:0]
        for time in range(self.horizon, -1, -1):
            layer, (paid, penalty) = self.acts[time], self._paid(costs, time)
            soft, hard = np.zeros((2, layer.pair.size))
            if not kernels.improve(
                layer, self.decisions.moves, paid, penalty, soft_after, hard_after, self.policy[time], step, soft, hard,
                self.buffer, self.stop.cell(),
            ):  # fmt: skip
                self.stop.check()
            if time == self.horizon:
                soft, hard = (ended + self._end(costs, acts) for acts in (soft, hard))
            soft_after, hard_after = soft, hard
        root = self.layers.root
        return float(self.root_weight @ hard_after[root]), float(self.root_weight @ soft_after[root])

    def largest(self, costs: Costs) -> float:
        """Return the largest value that any policy reaches with these costs, by dynamic programming; the policy stays.

        Raises StoppedError when the stop is requested meanwhile.
        """
        ended = self._expect(costs.cells)
        after = ended[:0]
        for time in range(self.horizon, -1, -1):
            layer, (paid, penalty) = self.acts[time], self._paid(costs, time)
            values = np.zeros(layer.pair.size)
            if not kernels.maximise(
                layer, self.decisions.moves, paid, penalty, after, values, self.buffer, self.stop.cell()
            ):
                self.stop.check()
            after = ended + self._end(costs, values) if time == self.horizon else values
        return float(self.root_weight @ after[self.layers.root])

    def _push(self, time: int, mass: FloatArray, moves: DecisionTable, used: FloatArray) -> FloatArray:
        """Return [entry] the masses one time later and add to the use, counted as `moves` says."""
        layer, stop = self.layers.layers[time], self.stop.cell()
        after, ahead = np.zeros(self.layers.layers[time + 1].pair.size), np.zeros(self.buffer.shape[1])
        if not kernels.forward(layer, moves, mass, self.policy[time], after, used, ahead, stop):
            self.stop.check()
        return after

    def _expect(self, cells: FloatArray) -> FloatArray:
        """Return [entry of the last layer]: what the cells are worth that it comes to, on average. cells: [cell]."""
        values = cells
        for emission in reversed(self.layers.ending):
            self.stop.check()
            values = emission.expect(values, workers=self.workers)
        return values

    def _end(self, costs: Costs, acts: FloatArray) -> FloatArray:
        """Return [entry of the last layer]: what its state pays in the end, and its last action.

        acts: [entry of the last of `acts`], what last actions are worth.
        """
        by_pair = acts[self.last_act] + self.decisions.final(costs.multipliers)[self.decisions.moves.pair_state]
        return np.asarray(by_pair[self.layers.layers[-1].pair])

    def _paid(self, costs: Costs, time: int) -> tuple[FloatArray, FloatArray]:
        """Return [choice] what choices pay at a time, by the multipliers, and [(pair, action)] the penalties."""
        nothing = np.zeros(self.decisions.use_choice.size)
        penalty = nothing if costs.penalty is None else costs.penalty[time]
        return self.decisions.paid(costs.multipliers, time), penalty

    def _payoffs(self, mass: FloatArray, used: FloatArray) -> FloatArray:
        """Return [requirement]: V_i = sum over t of discount_i^t reward_i . used_t, and what the end and the tail pay.

        mass: [entry of the last layer]. used: [time, (pair, action)].
        """
        decisions = self.decisions
        if not decisions.names:
            return np.zeros(0)
        discounts = decisions.discounts ** np.arange(used.shape[0])[:, None]  # [time, requirement]
        paid = np.einsum("tk,km,tm->k", discounts, decisions.rewards[:, decisions.use_choice], used, optimize=True)
        last_state = decisions.moves.pair_state[self.layers.layers[-1].pair]
        final = decisions.finals @ _sums(last_state, mass, decisions.process.num_states)
        return np.asarray(paid + final + decisions.tails[:, decisions.use_choice] @ used[-1])


def _cut_cells(layers: Layers) -> tuple[_Block, ...]:
    """Return the cells of the last nodes in blocks of about the same size, each of whole nodes."""
    start, num_nodes = layers.cell_start, layers.settled.size
    cuts = np.searchsorted(start, np.arange(0, start[-1], _CELLS_PER_BLOCK)).tolist()
    blocks = []
    for first, end in pairwise(sorted({*cuts, num_nodes})):
        span = slice(int(start[first]), int(start[end]))
        cells = Cells.of(start[first : end + 1] - span.start, layers.cell_secret[span], layers.settled[first:end])
        blocks.append(_Block(span, cells))
    return tuple(blocks)


def _mix(one: FloatArray, two: FloatArray, weight: float, into: FloatArray) -> FloatArray:
    """Write one + weight (two - one) into an array, which may be the first, and return it."""
    kernels.mix(one, two, weight, into)
    return into


def _sums(index: IntArray | IndexArray, weights: FloatArray, size: int) -> FloatArray:
    """Return [index]: the sums of the weights that have each index below `size`."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64)


def _uniform(counts: IntArray) -> FloatArray:
    """Return 1 / count, repeated `count` times, for every count."""
    return np.repeat(1.0 / counts, counts)
