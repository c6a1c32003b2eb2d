"""The search for a lower bound: programs from cheap to fine, and for each the multipliers that make its bound largest.

First the program from the start, if it is small: then it is exact. Otherwise programs from known states, with 1, 2, ..
steps left, and at last the program from the start with all that is left of time and memory, whose unexpanded beliefs
those before bound. The best bound so far never gets worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from opaq.certificates.decoder.search import BoundStep
from opaq.certificates.least.graph import BeliefProgram, Prescriptions, Roots, build_program
from opaq.certificates.least.values import LeastValue, ProgramStack
from opaq.model.arrays import FloatArray
from opaq.stop import Deadline, Stop

_SMALL = 1_000_000  # entries of a program from the start that is expanded at once
_AGREEMENT = 1e-9  # between bounds and measurements
_MOST_CUTS = 80  # multipliers that are tried on one program
_FIRST_PRICE = 10.0  # the largest multiplier that is tried first, in units of uncertainty per scale of the payoff
_LARGEST_PRICE = 1e7
_SETTLED = 1e-10  # multipliers are as good as any when the cuts allow no more than this above the best bound
_GROWTH = 0.7  # of the time that is left: a program that is foretold to take more is not begun
SEES_ALL, SEES_OBSERVATIONS = "beliefs and prescriptions", "beliefs and actions"


def find_multipliers(
    evaluate: Callable[[FloatArray], LeastValue],
    start: FloatArray,
    *,
    units: FloatArray,
    ceiling: float,
    on_value: Callable[[LeastValue], None],
) -> None:
    """Raise the bound over multipliers >= 0 by cutting planes: it is concave, and the slack is minus its slope.

    evaluate: multipliers [requirement] -> the bound by them. start: where to begin.
    units: [requirement] what a multiplier of 1 means. ceiling: the bound need not exceed it: then nothing is feasible.
    on_value: called with every value; any of them is a proof.
    """
    values = [evaluate(start)]
    on_value(values[0])
    box = _FIRST_PRICE
    for _ in range(_MOST_CUTS if start.size else 0):
        best = max(each.bound for each in values)
        if best > ceiling:
            return
        point, above = _highest_of_cuts(values, units, box)
        if bool((point >= 0.999 * box).any()) and box < _LARGEST_PRICE:
            box = min(10.0 * box, _LARGEST_PRICE)
        elif above - best <= _SETTLED * max(1.0, abs(best)):
            return
        values.append(evaluate(point * units))
        on_value(values[-1])


def _highest_of_cuts(values: list[LeastValue], units: FloatArray, box: float) -> tuple[FloatArray, float]:
    """Return the multipliers [requirement], in units, where the least of all cuts is highest, and how high it is.

    The cut of a value: bound - slack . (multipliers - its own).
    """
    from scipy.optimize import linprog

    slopes = np.array([-each.slack * units for each in values])
    heights = np.array([each.bound + float(each.slack @ each.multipliers) for each in values])
    bounds = [(0.0, box)] * units.size + [(None, None)]
    rows = np.hstack((-slopes, np.ones((len(values), 1))))
    answer = linprog(np.append(np.zeros(units.size), -1.0), A_ub=rows, b_ub=heights, bounds=bounds)
    if answer.x is None:  # no cut is steeper than rounding
        return np.asarray(values[-1].multipliers / units), -math.inf
    return np.asarray(np.clip(answer.x[:-1], 0.0, box)), float(answer.x[-1])


@dataclass(slots=True, eq=False)
class LeastSearch:
    """The best lower bound so far.

    trivial: the bound that needs no search. achieved: what a given policy has, or inf; wanted: the gap between that and
    the bound that is good enough. known: what a measured policy that meets the task has: no proof can be above.
    """

    prescriptions: Prescriptions
    stack: ProgramStack
    scales: FloatArray  # [requirement]: how far payoffs can move
    trivial: float
    achieved: float
    known: float
    wanted: float
    memory: int
    stop: Stop
    on_rung: Callable[[BoundStep], None]
    bound: float = -math.inf
    multipliers: FloatArray = field(default_factory=lambda: np.zeros(0))
    attained: float = math.inf  # the least of policies of a whole program that meet the requirements
    infeasible: bool = False
    machine: str = "certain secret"
    rungs: list[BoundStep] = field(default_factory=list)
    _clock: Deadline = field(default_factory=Deadline)

    def __post_init__(self) -> None:
        self.bound = self.trivial
        self.multipliers = np.zeros(self.scales.size)

    @property
    def done(self) -> bool:
        """Return whether the gap is small enough, or no policy meets the task."""
        return self.infeasible or self.achieved - self.bound <= self.wanted

    @property
    def optimal(self) -> bool:
        """Return whether a policy of a whole program has the bound itself."""
        return self.attained - self.bound <= 1e-7

    def climb(self, deadline: Deadline) -> bool:
        """Search program by program until the gap is small enough or nothing finer fits.

        Returns whether the program from the start is whole. Raises StoppedError when the stop is requested meanwhile;
        the best bound so far is then there.
        """
        horizon = self.prescriptions.decisions.process.horizon
        self._weigh("known state", deadline)
        if self.done or not self._expand_start(deadline, share=0.3, most_entries=_SMALL) or self.done:
            return self.stack.top is not None and self.stack.top.whole
        self._climb_known_states(horizon, deadline)
        if not self.done:
            self._expand_start(deadline, share=0.8, most_entries=math.inf)
        return self.stack.top is not None and self.stack.top.whole

    def _expand_start(self, deadline: Deadline, *, share: float, most_entries: float) -> bool:
        """Expand the program from the start; returns whether something was left out."""
        decisions = self.prescriptions.decisions
        roots = (np.zeros_like(decisions.start_state), decisions.start_state, decisions.start_chance)
        name = SEES_OBSERVATIONS if self.prescriptions.shared else SEES_ALL
        program = self._build(roots, 0, deadline.part(share), name, most_entries=most_entries)
        self.stack = replace(self.stack, top=program)
        self._weigh(name, deadline)
        return not program.whole

    def _climb_known_states(self, horizon: int, deadline: Deadline) -> None:
        """Expand programs from known states with more and more steps left, while the next one fits the time."""
        process = self.prescriptions.decisions.process
        states = np.flatnonzero(process.settled < 0)
        last, growth = 0.0, 2.0
        for left in range(1, horizon + 1):
            if self.done or not states.size or (deadline.left is not None and last * growth > _GROWTH * deadline.left):
                return
            clock, before = Deadline(), self._num_entries(left - 1)
            name = f"the state {left} step{'s' if left > 1 else ''} before the end"
            program = self._build(states, horizon - left, deadline.part(0.5), name)
            self.stack = replace(self.stack, known={**self.stack.known, left: (states, program)})
            self._weigh(name, deadline)
            last, growth = clock.elapsed, max(2.0, program.num_entries / max(before, 1))
            if not program.whole:
                return

    def _num_entries(self, left: int) -> int:
        """Return the size of the program from known states with so many steps left."""
        return self.stack.known[left][1].num_entries if left in self.stack.known else 0

    def _build(
        self, roots: Roots, first: int, deadline: Deadline, name: str, most_entries: float = math.inf
    ) -> BeliefProgram:
        """Expand a program within its share of time and memory."""
        self.stop.check()
        return build_program(
            self.prescriptions,
            roots,
            first=first,
            deadline=deadline,
            memory=self.memory // 2,
            most_entries=most_entries,
            stop=self.stop,
            on_level=lambda time, entries: self.on_rung(self._rung(name, entries, 0)),
        )

    def _weigh(self, name: str, deadline: Deadline) -> None:
        """Look for the best multipliers on the programs there are, and note what they prove.

        Raises StoppedError when the stop is requested before there is a bound from these programs.
        """
        rounds, top = 0, self.stack.top
        exact, uncertainty = top is not None and top.whole, self.stack.uncertainty
        ceiling = uncertainty.highest + _AGREEMENT * max(1.0, abs(uncertainty.highest))

        def take(value: LeastValue) -> None:
            nonlocal rounds
            rounds += 1
            if value.bound > ceiling and self.known == math.inf:
                self.infeasible = True
            if self.bound < value.bound <= self.known + _AGREEMENT:
                self.bound, self.multipliers, self.machine = value.bound, value.multipliers, name
            if exact and bool((value.slack >= -_AGREEMENT * np.maximum(self.scales, 1.0)).all()):
                self.attained = min(self.attained, value.uncertainty)

        units = max(uncertainty.highest - self.trivial, 1e-12) / self.scales
        entries = 0 if top is None else top.num_entries
        entries += sum(program.num_entries for _, program in self.stack.known.values())
        try:
            find_multipliers(
                lambda multipliers: self.stack.evaluate(multipliers, stop=self.stop),
                self.multipliers,
                units=units,
                ceiling=ceiling,
                on_value=take,
            )
        finally:
            if rounds:
                self.rungs.append(self._rung(name, entries, rounds))
                self.on_rung(self.rungs[-1])

    def _rung(self, name: str, entries: int, rounds: int) -> BoundStep:
        """Return the state of the search as a step of the certificate."""
        return BoundStep(name, entries, rounds, None, True, self._clock.elapsed, self.bound)
