"""An observer whose observations are drawn as part of the run, so that the policy may look at them.

Any observer's tracker is wrapped: its machine draws o_t ~ E(o | n_t, s_t) on entering s_t, the first state included,
and keeps the last few. The observer sees the same as before, o_t being the newest that was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import IntArray, SparseRows
from opaq.product.machine import Branches, Window, draw
from opaq.product.observer_tracker import ObserverTracker


def recorded(observer: ObserverTracker, length: int) -> ObserverTracker:
    """The same observer, its last `length` observations kept in the product."""
    window = Window(length, len(observer.observations))

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        shape = (nodes.size, window.num_things)
        return SparseRows.from_entries(np.arange(nodes.size), window.newest(nodes), np.ones(nodes.size), shape=shape)

    return ObserverTracker(ObservationRecorder(observer, window), observer.observations, emission, window)


@dataclass(frozen=True, slots=True)
class ObservationRecorder:
    """Node: that of the observer's own machine times the number of windows, plus the window of what was drawn."""

    observer: ObserverTracker
    window: Window

    @property
    def size(self) -> int:
        """Nodes of the machine times windows; a memoryless machine's node is not kept."""
        return self.window.size * (1 if self.observer.memoryless else self.observer.machine.size)

    def begin(self, states: IntArray) -> Branches:
        """The machine's start, and o_0."""
        moved = self.observer.machine.begin(states)
        return self._seen(moved, states, np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The machine's step, and o_{t+1}."""
        held, windows = np.divmod(nodes, self.window.size)
        moved = self.observer.machine.step(held, source, action, target)
        return self._seen(moved, target, windows)

    def _seen(self, moved: Branches, states: IntArray, windows: IntArray) -> Branches:
        """Every observation of the states entered, `windows` being what was kept before."""
        shown = self._drawn(moved.node, states[moved.case])
        case, held = moved.case[shown.case], moved.node[shown.case]
        after = self.window.append(windows[case], shown.node)
        kept = after if self.observer.memoryless else held * self.window.size + after
        return Branches(case, kept, moved.probability[shown.case] * shown.probability)

    def _drawn(self, nodes: IntArray, states: IntArray) -> Branches:
        """Every observation; each distinct (node, state) is asked about once."""
        num_states = int(states.max(initial=0)) + 1
        pairs, row = np.unique(nodes * num_states + states, return_inverse=True)
        table = self.observer.emission(*np.divmod(pairs, num_states))
        advice = "use a shorter horizon or let the policy look at fewer observations"
        return draw(table, row.reshape(-1), what="the observations that the policy looks at", advice=advice)
