"""Opacity, payoffs and visits of one policy after the other, with their slopes, in one compiled call each.

A solver asks for all of them at every iteration. Here one call does what `FrozenGraph.sweep` and `returns.return_slope`
do, the same operations in the same order, without the interpreter in between: so that several starts run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.frozen import Buffers, FrozenGraph, clear_adjoints, entropy_step, sweep_backward, sweep_forward
from opaq.beliefs.returns import Itinerary, itinerary_room, start_distribution, sweep_payoff
from opaq.kernel_cache import kernel
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, indices
from opaq.product.process import Payoff
from opaq.stop import Stop


class _Slots(NamedTuple):
    """How edges and rewards follow from the policy vector, by sparse rows, and what payoffs are."""

    edge_start: IndexArray  # [edge + 1]
    edge_slot: IndexArray
    edge_value: FloatArray
    base: FloatArray  # [edge]
    positive: BoolArray  # [edge]: which flows are positive
    reward_start: IndexArray  # [payoff x state + 1]
    reward_slot: IndexArray
    reward_value: FloatArray
    final: FloatArray  # [payoff, state]
    discount: FloatArray  # [payoff]
    start: FloatArray  # [state]: P(x_0)
    row: IndexArray  # [state] -> policy row


class _Results(NamedTuple):
    """What a call writes, and working memory by edges and states."""

    slope: FloatArray  # [slot]: d opacity / d pi
    payoffs: FloatArray  # [payoff]
    payoff_slopes: FloatArray  # [payoff, slot]
    visits: FloatArray  # [row]: the expected visits of every policy row
    flow: FloatArray  # [edge]
    edge_slope: FloatArray  # [edge]
    slot_part: FloatArray  # [slot]
    reward: FloatArray  # [state]
    paid: FloatArray  # [state]
    state_visits: FloatArray  # [state]


_FITS, _OTHER_SHAPE, _NO_ROOM = 0, 1, 2


@kernel
def _evaluate(pi, slots, shape, links, edges, weights, buffers, itinerary, results, stop):
    """Write value and slope of opacity, payoffs with their slopes, and visits; return what came of it, and opacity.

    _OTHER_SHAPE: the frozen graph does not fit the policy. _NO_ROOM: the itinerary is too short.
    """
    slot_start, slot_of, slot_value, base, positive = (
        slots.edge_start, slots.edge_slot, slots.edge_value, slots.base, slots.positive,
    )  # fmt: skip
    reward_start, reward_slot, reward_value = slots.reward_start, slots.reward_slot, slots.reward_value
    finals, discounts, start, rows = slots.final, slots.discount, slots.start, slots.row
    flow, edge_slope, slope, slot_part = results.flow, results.edge_slope, results.slope, results.slot_part
    payoffs, payoff_slopes, visits = results.payoffs, results.payoff_slopes, results.visits
    reward, paid, state_visits = results.reward, results.paid, results.state_visits
    entry_start, entry_state, emission, arc_start = shape.entry_start, shape.state, shape.emission, shape.arc_start
    arc_child, first_leaf, edge_start, edge_target = shape.child, shape.first_leaf, edges.start, edges.target
    belief, mass, adjoint = buffers.belief, buffers.mass, buffers.adjoint
    for edge in range(flow.size):  # P_pi(x' | x) = base + sum over slots of M pi
        total = 0.0
        for part in range(slot_start[edge], slot_start[edge + 1]):
            total += slot_value[part] * pi[slot_of[part]]
        flow[edge] = base[edge] + total
        edge_slope[edge] = 0.0
        if (flow[edge] > 0.0) != positive[edge]:
            return _OTHER_SHAPE, 0.0
    fits = sweep_forward(
        entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow, weights,
        belief, mass, buffers.filled, buffers.projection, buffers.predicted, stop,
    )  # fmt: skip
    if not fits:
        return _OTHER_SHAPE, 0.0
    value = entropy_step(
        entry_start, entry_state, first_leaf, shape.cell_start, shape.cell,
        links.start, links.cell, links.observation, links.part_start, links.part_link, links.part_value, flow,
        belief, mass, adjoint, buffers.cell_mass, buffers.surprise, buffers.chance, buffers.link_chance,
        buffers.link_slope, edge_slope, stop,
    )  # fmt: skip
    clear_adjoints(entry_start, first_leaf, adjoint)
    sweep_backward(
        entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow,
        belief, mass, adjoint, buffers.expected, edge_slope, stop,
    )  # fmt: skip
    for slot in range(slope.size):
        slope[slot] = 0.0
    for edge in range(flow.size):
        for part in range(slot_start[edge], slot_start[edge + 1]):
            slope[slot_of[part]] += slot_value[part] * edge_slope[edge]
    for payoff in range(discounts.size):
        first = payoff * start.size
        for state in range(start.size):
            total = 0.0
            for part in range(reward_start[first + state], reward_start[first + state + 1]):
                total += reward_value[part] * pi[reward_slot[part]]
            reward[state], paid[state], state_visits[state] = total, 0.0, 0.0
        for edge in range(flow.size):
            edge_slope[edge] = 0.0
        enough, payoffs[payoff] = sweep_payoff(
            start, edge_start, edge_target, flow, reward, finals[payoff], discounts[payoff],
            itinerary.first, itinerary.state, itinerary.visit, itinerary.listed, itinerary.ahead, itinerary.value,
            edge_slope, paid, state_visits,
        )  # fmt: skip
        if not enough:
            return _NO_ROOM, 0.0
        for slot in range(slope.size):  # by edges, and by what actions pay
            payoff_slopes[payoff, slot] = 0.0
            slot_part[slot] = 0.0
        for edge in range(flow.size):
            for part in range(slot_start[edge], slot_start[edge + 1]):
                payoff_slopes[payoff, slot_of[part]] += slot_value[part] * edge_slope[edge]
        for state in range(start.size):
            for part in range(reward_start[first + state], reward_start[first + state + 1]):
                slot_part[reward_slot[part]] += reward_value[part] * paid[state]
        for slot in range(slope.size):
            payoff_slopes[payoff, slot] += slot_part[slot]
        if payoff == 0:
            for row in range(visits.size):
                visits[row] = 0.0
            for state in range(start.size):
                visits[rows[state]] += state_visits[state]
    return _FITS, value


class PolicySlopes(NamedTuple):
    """Opacity, payoffs and visits of a policy; the arrays are the caller's."""

    opacity: float
    slope: FloatArray  # [slot], by probabilities
    payoffs: FloatArray  # [payoff]
    payoff_slopes: FloatArray  # [payoff, slot], by probabilities
    visits: FloatArray  # [row]


@dataclass(slots=True, eq=False)
class PolicyEvaluator:
    """Evaluates policies on one frozen graph, with the memory that this takes; one thread at a time may use it."""

    graph: FrozenGraph
    payoffs: Sequence[Payoff]  # at least one
    _slots: _Slots = field(init=False)
    _buffers: Buffers = field(init=False)
    _itinerary: Itinerary = field(init=False)

    def __post_init__(self) -> None:
        process, rewards = self.graph.process, [payoff.slots for payoff in self.payoffs]
        ends = np.concatenate(([0], np.cumsum([matrix.values.size for matrix in rewards])))
        starts = [matrix.starts[:-1] + end for matrix, end in zip(rewards, ends, strict=False)]
        self._slots = _Slots(
            indices(process.edge_slots.starts),
            indices(process.edge_slots.columns),
            process.edge_slots.values,
            process.edge_base,
            self.graph.positive,
            indices(np.concatenate((*starts, ends[-1:]))),
            indices(np.concatenate([matrix.columns for matrix in rewards])),
            np.concatenate([matrix.values for matrix in rewards]),
            np.stack([payoff.final for payoff in self.payoffs]),
            np.array([payoff.discount for payoff in self.payoffs], dtype=np.float64),
            start_distribution(process),
            indices(process.row),
        )
        self._buffers = self.graph.buffers()
        self._itinerary = Itinerary.of(process, np.float64, itinerary_room(process))

    def evaluate(self, pi: FloatArray, *, stop: Stop) -> PolicySlopes | None:
        """Return opacity, payoffs and visits with their slopes; None where the graph's shape does not fit the policy.

        pi: [slot], the policy vector. Raises StoppedError when `stop` is requested meanwhile.
        """
        graph, process = self.graph, self.graph.process
        results = self._results()
        while True:
            outcome, value = _evaluate(
                pi, self._slots, graph.shape, graph.links, process.edges, graph.weights, self._buffers, self._itinerary,
                results, stop.cell(),
            )  # fmt: skip
            stop.check()
            if outcome != _NO_ROOM:
                break
            self._itinerary = Itinerary.of(process, np.float64, 2 * self._itinerary.state.size)
        if outcome == _OTHER_SHAPE:
            return None
        return PolicySlopes(value, results.slope, results.payoffs, results.payoff_slopes, results.visits)

    def _results(self) -> _Results:
        """Return new arrays for the results of one call."""
        process, count = self.graph.process, len(self.payoffs)
        slots, states, edges = process.num_slots, process.num_states, process.edge_target.size
        sizes: list[Any] = [slots, count, (count, slots), process.num_rows, edges, edges, slots, states, states, states]
        return _Results(*(np.empty(size) for size in sizes))
