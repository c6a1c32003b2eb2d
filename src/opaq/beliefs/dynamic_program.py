"""The largest return of a hidden process, by backward induction over its states, and policies that earn much.

With what a choice (x, a) pays at time t, r_t(x, a), and the worth f(x) of the last state,

    Q_T(x, a) = r_T(x, a),                          V_T(x) = f(x) + max_a Q_T(x, a),
    Q_t(x, a) = r_t(x, a) + sum_x' P(x' | x, a) V_{t+1}(x'),   V_t(x) = max_a Q_t(x, a).

V_0 is reached by a policy that sees the product state and the time, and exceeded by none, whatever it remembers: so no
policy of any class returns more than the mean of V_0 over the start. Solvers begin from it, tasks are refuted by it and
certificates are scaled by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from opaq.beliefs.returns import start_distribution
from opaq.kernel_cache import kernel
from opaq.model.arrays import FloatArray, IntArray, SparseRows, expand_rows
from opaq.product.process import HiddenProcess, Payoff
from opaq.stop import Stop

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TIE = 1e-12  # of the largest value, and at most absolute: choices this close to the best are equally good
_LARGEST_TABLE = 50_000_000  # entries of a table of decisions over states and times
_SETTLED = 1e-12  # relative: value iteration ends when values change by less
_PADDING = 1e-9  # relative; far more than value iteration rounds
_MOST_ROUNDS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class StateActions:
    """Every choice, a pair (product state, slot of its policy row), laid out state by state, slots in order."""

    state: IntArray  # [choice]
    slot: IntArray  # [choice] -> slot of the policy vector
    moves: SparseRows  # [choice, state]: P(x' | x, a)
    first: IntArray  # [state] -> its first choice

    @classmethod
    def of(cls, process: HiddenProcess) -> StateActions:
        """Lay out the choices of a process."""
        counts = np.diff(process.row_start)[process.row]
        state = np.repeat(np.arange(process.num_states), counts)
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        slot = np.arange(state.size) - np.repeat(first - process.row_start[process.row], counts)
        inner = np.arange(process.edge_start[process.num_states])  # the edges that do not begin at the start
        owner = np.repeat(np.arange(process.num_states), np.diff(process.edge_start[:-1]))
        edge, entry = expand_rows(process.edge_slots.starts, inner)
        source = owner[edge]
        choice = first[source] + process.edge_slots.columns[entry] - process.row_start[process.row[source]]
        shape = (state.size, process.num_states)
        moves = SparseRows.from_entries(
            choice, process.edge_target[edge], process.edge_slots.values[entry], shape=shape
        )
        return cls(state, slot, moves, first)

    @property
    def ahead(self) -> csr_array:
        """`moves` as a matrix of SciPy, made anew whenever it is read."""
        return self.moves.scipy()

    def paid(self, payoff: Payoff) -> FloatArray:
        """Return [choice]: what every choice pays of a payoff, not discounted."""
        state = payoff.slots.row_of_entry()
        amounts = np.zeros(self.state.size)
        amounts[self.first[state] + payoff.slots.columns - self.slot[self.first[state]]] = payoff.slots.values
        return amounts

    def best(self, values: FloatArray) -> FloatArray:
        """Return [state]: the largest of the values [choice] of its choices."""
        return np.asarray(np.maximum.reduceat(values, self.first))

    def greedy(self, values: FloatArray) -> IntArray:
        """Return [state]: the slot of its first best choice for the values [choice]."""
        tie = _TIE * min(1.0, float(np.abs(values).max(initial=0.0)))
        top = values >= np.repeat(self.best(values), np.diff(np.append(self.first, values.size))) - tie
        best = np.flatnonzero(top)
        _, earliest = np.unique(self.state[best], return_index=True)
        return self.slot[best[earliest]]


def best_values(
    choices: StateActions,
    paid: Callable[[int], FloatArray],
    final: FloatArray,
    *,
    horizon: int,
    stop: Stop | None = None,
    on_values: Callable[[FloatArray], None] | None = None,
) -> FloatArray:
    """Return [state]: V_0, the most that any policy earns from a state on. The one dynamic program for returns.

    paid: t -> [choice], r_t with its discount and any weights. final: [state], f.
    on_values: called with Q_t [choice] for t = horizon, ..., 0, for what depends on the best choices.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    values, moves = paid(horizon), choices.moves.multiplier()
    if on_values is not None:
        on_values(values)
    value = final + choices.best(values)
    for time in range(horizon - 1, -1, -1):
        if stop is not None:
            stop.check()
        values = paid(time) + moves @ value
        if on_values is not None:
            on_values(values)
        value = choices.best(values)
    return value


def largest_return(process: HiddenProcess, payoff: Payoff | None = None, *, stop: Stop | None = None) -> float:
    """Return max V over all policies, history-dependent ones included: no policy of any class does better.

    payoff: what is earned; the return of the model (the first payoff) unless given.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    payoff, stop, size = payoff or process.payoffs[0], stop or Stop(), process.num_states
    moved, paid, value = process.edge_slots, payoff.slots, np.array(payoff.final)
    num_choices = int((process.row_start[1:] - process.row_start[:-1])[process.row].sum())
    num_parts = int(moved.starts[process.edge_start[size]])
    _largest_values(
        *process.edges, moved.starts, moved.columns, moved.values, process.row, process.row_start,
        paid.starts, paid.columns, paid.values, payoff.discount, process.horizon, value, np.empty(size),
        np.empty(size + 1, np.uint32), np.empty(num_choices + 1, np.uint32), np.empty(num_choices),
        np.empty(num_parts, np.uint32), np.empty(num_parts), stop.cell(),
    )  # fmt: skip
    stop.check()
    return float(start_distribution(process) @ value)


@kernel
def _largest_values(
    edge_start, edge_target, moved_start, moved_slot, moved_share, row_of, row_start, paid_start, paid_slot,
    paid_amount, discount, horizon, value, ahead, choice_start, part_start, reward, part_target, part_share, stop,
):  # fmt: skip
    """Turn what the last states are worth, `value` [state], into the most that any policy earns from a state on.

    The dynamic program of `best_values` for payments that are only discounted, straight from the edges of a process,
    which are laid out by choices first: every step then reads memory in order.
    Working memory: ahead [state], choice_start [state + 1], part_start [choice + 1], reward [choice], part_target and
    part_share [part].
    """
    choice, count = 0, 0
    for state in range(value.size):
        first, last = row_start[row_of[state]], row_start[row_of[state] + 1]
        choice_start[state] = choice
        for slot in range(first, last):
            part_start[choice], reward[choice] = count, 0.0
            for edge in range(edge_start[state], edge_start[state + 1]):
                for part in range(moved_start[edge], moved_start[edge + 1]):
                    if moved_slot[part] == slot:
                        part_target[count], part_share[count] = edge_target[edge], moved_share[part]
                        count += 1
            choice += 1
        for part in range(paid_start[state], paid_start[state + 1]):
            reward[choice_start[state] + paid_slot[part] - first] = paid_amount[part]
    choice_start[value.size], part_start[choice] = choice, count
    worth = discount ** np.float64(horizon)  # of a payment at that time
    for state in range(value.size):
        best = -np.inf
        for choice in range(choice_start[state], choice_start[state + 1]):
            best = max(best, worth * reward[choice])
        value[state] += best
    for time in range(horizon - 1, -1, -1):
        if stop[0] != 0:
            return
        value, ahead = ahead, value
        worth = discount ** np.float64(time)
        for state in range(value.size):
            best = -np.inf
            for choice in range(choice_start[state], choice_start[state + 1]):
                total = 0.0  # sum over x' of P(x' | x, a) V_t+1(x')
                for part in range(part_start[choice], part_start[choice + 1]):
                    total += part_share[part] * ahead[part_target[part]]
                best = max(best, total + worth * reward[choice])
            value[state] = best
    if horizon % 2:  # they have changed places an odd number of times
        for state in range(value.size):
            ahead[state] = value[state]


def greedy_policy(
    process: HiddenProcess, payoff: Payoff, *, weighting: Literal["times", "visits"], stop: Stop
) -> FloatArray:
    """Return a policy vector that earns much: every row mixes what the dynamic program's policy plays in its states.

    weighting: "times" counts every (state, time) of a row once; "visits" counts it as often as the dynamic program's
        policy comes there, and rows that it never visits as "times" does. Where rows tell product states and times
        apart, "visits" is the dynamic program's policy itself, and earns the largest return.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    choices, discount = StateActions.of(process), payoff.discount
    paid = choices.paid(payoff)
    counts, slots_at = np.zeros(process.num_slots), list[IntArray]()  # backwards in time
    stored = weighting == "visits" and process.num_states * (process.horizon + 1) <= _LARGEST_TABLE

    def count(values: FloatArray) -> None:
        stop.check()
        slots = choices.greedy(values)
        np.add.at(counts, slots, 1.0)
        if stored:
            slots_at.append(slots)

    best_values(choices, lambda time: discount**time * paid, payoff.final, horizon=process.horizon, on_values=count)
    by_times = np.asarray(counts / _row_sums(process, counts))
    if not stored:
        return by_times
    head, ahead = choices.first - process.row_start[process.row], choices.ahead
    played, now = np.zeros(process.num_slots), start_distribution(process)
    for slots in reversed(slots_at):
        stop.check()
        np.add.at(played, slots, now)
        now = ahead[head + slots].T @ now
    totals = _row_sums(process, played)
    return np.where(totals > 0, played / np.where(totals > 0, totals, 1.0), by_times)


def _row_sums(process: HiddenProcess, values: FloatArray) -> FloatArray:
    """Return [slot]: the sum of the values over the row of the slot."""
    return np.repeat(np.add.reduceat(values, process.row_start[:-1]), np.diff(process.row_start))


def bound_endless_return(choices: StateActions, payoff: Payoff, *, after: int, stop: Stop) -> FloatArray:
    """Return [choice]: an upper bound on what can be earned after a choice at the time `after`, for ever.

    Value iteration from above: V = max_a r + discount P V from V = max r / (1 - discount) downwards, so that every
    iterate is a bound; the last is padded by far more than rounding can have taken from it.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    discount, paid = payoff.discount, choices.paid(payoff)
    most = float(paid.max(initial=0.0)) / (1.0 - discount)
    size = float(np.abs(paid).max(initial=0.0)) / (1.0 - discount)
    value, moves = np.full(choices.first.size, most), choices.moves.multiplier()
    for _ in range(_MOST_ROUNDS):
        stop.check()
        lower = np.minimum(choices.best(paid + discount * (moves @ value)), value)
        change, value = float((value - lower).max(initial=0.0)), lower
        if change <= _SETTLED * size:
            break
    padded = value + _PADDING * size
    return np.asarray(discount ** (after + 1) * (moves @ padded))
