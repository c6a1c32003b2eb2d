"""Values of belief programs for given multipliers: least uncertainty, and what the policy that has it pays.

For multipliers l >= 0 of the requirements V_i >= c_i every policy that meets them has

    f  >=  f - sum_i l_i (V_i - c_i)  >=  min over all policies of f - sum_i l_i V_i,  plus sum_i l_i c_i.

The minimum is the program of `graph` with what choices pay subtracted. Beside every value stands what the minimising
policy pays, which is minus the slope of the minimum by l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opaq.certificates.least.graph import BeliefProgram, Beliefs, Prescriptions
from opaq.certificates.rounding import most_paid, sum_error
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.uncertainty import Uncertainty
from opaq.stop import Stop

_ROWS_OFF = 1e-13  # of its size and of the scale: more than an uncertainty's `rows` may be off
_ROWS_AT_A_TIME = 4096
_TIE = 1e-12


class Values(NamedTuple):
    """Lower bounds of V_t from some beliefs or states on, and what the policies behind them pay from there on."""

    least: FloatArray  # [belief or state]
    paid: FloatArray  # [belief or state, requirement]


class LeastValue(NamedTuple):
    """A lower bound for all policies that meet the requirements.

    bound: rounding included. uncertainty: what the minimising policy itself has; slack: [requirement] by how much it
    exceeds the thresholds. Both are of a policy only where every program behind them is whole.
    """

    bound: float
    multipliers: FloatArray  # [requirement]
    uncertainty: float
    slack: FloatArray  # [requirement]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramStack:
    """Programs from known states, by how many steps are left, and the one from the start, where there is one.

    An observer that also learns the state at time T - k is left with sum over x of P(x_{T-k} = x) V_{T-k}(x) at least,
    where V_{T-k}(x) is the least uncertainty from x on: so any program from known states bounds all policies, and
    values the beliefs that another program leaves unexpanded.
    """

    prescriptions: Prescriptions
    uncertainty: Uncertainty
    known: dict[int, tuple[IntArray, BeliefProgram]]  # steps left -> states, and the program from them on
    top: BeliefProgram | None = None

    def evaluate(self, multipliers: FloatArray, *, stop: Stop) -> LeastValue:
        """Return the lower bound by these multipliers. Raises StoppedError when `stop` is requested meanwhile."""
        decisions = self.prescriptions.decisions
        known = self._state_values(multipliers, stop)
        if self.top is None:
            chance, state = decisions.start_chance, decisions.start_state
            least, paid = float(chance @ known[0].least[state]), chance @ known[0].paid[state]
        else:
            root, *_ = self.sweep(self.top, known, multipliers, stop)
            least, paid = float(root.least[0]), root.paid[0]
        total = least + float(multipliers @ decisions.thresholds)
        slack = paid - decisions.thresholds
        return LeastValue(total - self._rounding(multipliers), multipliers, total + float(multipliers @ slack), slack)

    def choose(self, multipliers: FloatArray, *, stop: Stop) -> list[IntArray]:
        """Return per level of the program from the start [expanded] the options of the minimising policy.

        multipliers: [requirement]. Raises StoppedError when `stop` is requested meanwhile.
        """
        assert self.top is not None
        _, chosen = self.sweep(self.top, self._state_values(multipliers, stop), multipliers, stop)
        return chosen

    def _state_values(self, multipliers: FloatArray, stop: Stop) -> dict[int, Values]:
        """Return time -> the values U_t [state] from known states on: by programs where there are some, and else by

            U_t(x) = min over a of sum over x' of P(x' | x, a) U_{t+1}(x') - what a pays,

        which lets the observer learn the state at the next time too.
        """
        decisions = self.prescriptions.decisions
        process, choices = decisions.process, decisions.choices
        known = dict[int, Values]()
        ends, ahead = np.append(choices.first, choices.state.size), choices.ahead
        for time in range(process.horizon, -1, -1):
            stop.check()
            paid = self.prescriptions.paid(time)  # [choice, requirement]
            least = -(paid @ multipliers)
            if time == process.horizon:
                best = _first_least(least, ends)
                last = self.uncertainty.certain[process.secret] - multipliers @ decisions.finals
                known[time] = Values(least[best] + last, paid[best] + decisions.finals.T)
                continue
            least = least + ahead @ known[time + 1].least
            best = _first_least(least, ends)
            known[time] = Values(least[best], paid[best] + ahead[best] @ known[time + 1].paid)
            if process.horizon - time in self.known:
                states, program = self.known[process.horizon - time]
                root, *_ = self.sweep(program, known, multipliers, stop)
                better = root.least > known[time].least[states]
                known[time].least[states[better]] = root.least[better]
                known[time].paid[states[better]] = root.paid[better]
        return known

    def sweep(
        self, program: BeliefProgram, known: dict[int, Values], multipliers: FloatArray, stop: Stop
    ) -> tuple[Values, list[IntArray]]:
        """Return the values of a program's roots, and per level [expanded] the options that have them.

        known: time -> U_t. One sweep back over the levels. Raises StoppedError when `stop` is requested meanwhile.
        """
        levels, process = program.levels, self.prescriptions.decisions.process
        chosen = list[IntArray]()
        values = self._last_values(program, known[process.horizon], multipliers, chosen)
        for index in range(process.horizon - program.first - 1, -1, -1):
            stop.check()
            beliefs, options, time = levels[index], program.options[index], program.first + index
            lowest = float(known[time + 1].least.min())
            least = options.arcs @ values.least + options.lost * lowest - options.paid @ multipliers
            best = _first_least(least, options.start)
            paid = options.paid[best] + options.arcs[best] @ values.paid
            values = _relax(Values(least[best], paid), options.belief, beliefs, known[time])
            chosen.append(best)
        root = Values(program.root @ values.least, program.root @ values.paid)
        missing = 1.0 - np.asarray(program.root.sum(axis=1)).reshape(-1)  # what merging took away
        lost = np.maximum(missing, 0.0) * float(known[program.first].least.min())
        return Values(root.least + np.minimum(lost, 0.0), root.paid), chosen[::-1]

    def _last_values(
        self, program: BeliefProgram, last: Values, multipliers: FloatArray, chosen: list[IntArray]
    ) -> Values:
        """Return the values of the last level: the uncertainty, less what the last choices pay."""
        decisions, beliefs = self.prescriptions.decisions, program.levels[-1]
        uncertainty = self._uncertainties(beliefs)
        if self.prescriptions.shared:
            options = program.options[-1]
            best = _first_least(-(options.paid @ multipliers), options.start)
            paid = options.paid[best] + beliefs.sums(decisions.finals.T)
            chosen.append(best)
        else:
            paid = beliefs.sums(last.paid)
        return Values(uncertainty - paid @ multipliers, paid)

    def _uncertainties(self, beliefs: Beliefs) -> FloatArray:
        """Return [belief]: f of the masses of the secret's values."""
        process, amounts = self.prescriptions.decisions.process, np.zeros(beliefs.size)
        for low in range(0, beliefs.size, _ROWS_AT_A_TIME):
            part = beliefs.take(np.arange(low, min(low + _ROWS_AT_A_TIME, beliefs.size)))
            owner = np.repeat(np.arange(part.size), np.diff(part.start))
            cell = owner * process.num_secrets + process.secret[part.state]
            masses = np.bincount(cell, weights=part.value, minlength=part.size * process.num_secrets)
            masses = masses.reshape(part.size, process.num_secrets)
            values = np.broadcast_to(np.arange(process.num_secrets), masses.shape)
            amounts[low : low + part.size] = self.uncertainty.rows(masses, values)[0]
        return amounts

    def _rounding(self, multipliers: FloatArray) -> float:
        """Return how far above the true minimum rounding can have put the computed one.

        As in `rounding`: every term of the minimum passes through a bounded number of operations. That beliefs are
        rounded themselves is no other matter: masses are sums of products of what is not negative, so that their
        relative errors are small, and V(b) >= c V(b') + (1 - c) min U for c = min b / b'.
        """
        decisions, moves = self.prescriptions.decisions, self.prescriptions.decisions.moves
        programs = [program for _, program in self.known.values()] + ([] if self.top is None else [self.top])
        widest = max((program.widest for program in programs), default=1)
        branches = int(np.diff(moves.branch_start).max(initial=1))
        emitted = decisions.process.num_observations
        operations = (decisions.process.horizon + 2) * (4 * widest + branches + emitted + len(decisions.names) + 16)
        operations += decisions.start_state.size + decisions.process.num_secrets
        size = max(abs(self.uncertainty.highest), float(np.abs(self.uncertainty.certain).max(initial=0.0)))
        magnitude = size + most_paid(decisions, multipliers)
        return sum_error(4 * operations, magnitude) + _ROWS_OFF * (size + self.uncertainty.scale)


def _first_least(values: FloatArray, start: IntArray) -> IntArray:
    """Return [group]: the first of the smallest values of every group start[n] .. start[n + 1] - 1; none is empty."""
    if start.size == 1:
        return np.zeros(0, np.int64)
    least = np.minimum.reduceat(values, start[:-1])
    tied = np.flatnonzero(values == np.repeat(least, np.diff(start)))
    _, first = np.unique(np.searchsorted(start, tied, side="right"), return_index=True)
    return tied[first]


def _relax(expanded: Values, chosen: IntArray, beliefs: Beliefs, known: Values) -> Values:
    """Return the values of all beliefs of a level: those that were expanded, and sums over known states elsewhere.

    Both are lower bounds, so that the larger counts; up to rounding it is the expanded one, which belongs to a policy.
    expanded: of the beliefs `chosen`. known: U_t.
    """
    least, paid = beliefs.sums(known.least), beliefs.sums(known.paid)
    better = expanded.least >= least[chosen] - _TIE * np.maximum(1.0, np.abs(least[chosen]))
    least[chosen[better]] = expanded.least[better]
    paid[chosen[better]] = expanded.paid[better]
    return Values(least, paid)
