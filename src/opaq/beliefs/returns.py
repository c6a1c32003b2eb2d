"""Expected payoffs of a policy, exactly, their gradients, and how far rounding can put them off.

V = sum over t = 0 .. T of gamma^t E[R(x_t, a_t)] + E[final(x_T)]. One sweep forward gives P(x_t); with W_t(x) the
payoff still to come, one sweep back gives

    W_t(x) = gamma^t R_pi(x) + sum over x' of P_pi(x' | x) W_{t+1}(x'),
    dV / dP_pi(x' | x) = sum over t of P(x_t = x) W_{t+1}(x').
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.graph import ChainEdges, NumberArray
from opaq.kernel_cache import helper, kernel
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray, SparseRows, floats, ints
from opaq.product.process import HiddenProcess, Payoff
from opaq.stop import Stop


@helper
def _apply_policy(
    base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi, flow, reward
):  # fmt: skip
    """Write flow [edge], P_pi(x' | x), and reward [state], R_pi(x), of a policy vector [slot].

    Both are linear in it: base and moved by edges, paid by states, sparse rows over slots.
    """
    for edge in range(flow.size):
        total = 0.0
        for part in range(moved_start[edge], moved_start[edge + 1]):
            total += moved_share[part] * pi[moved_slot[part]]
        flow[edge] = base[edge] + total
    for state in range(reward.size):
        total = 0.0
        for part in range(paid_start[state], paid_start[state + 1]):
            total += paid_amount[part] * pi[paid_slot[part]]
        reward[state] = total


@kernel
def _forward_kernel(
    edge_start, edge_target, base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi,
    flow, reward, discount, steps, now, ahead, stop,
):  # fmt: skip
    """Return sum over t = 0 .. steps of discount^t E[R_pi(x_t)], and write the distribution of the last state.

    now: [state], becomes that distribution; ahead: [state], working memory like flow and reward. Both begin as zeros.
    stop: the byte that asks to stop; what is returned then means nothing.
    """
    size = now.size
    _apply_policy(base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi, flow, reward)
    for edge in range(edge_start[size], edge_start[size + 1]):  # the source draws the start
        now[edge_target[edge]] = base[edge]
    total, worth = 0.0, 1.0
    for _ in range(steps):
        if stop[0] != 0:
            break
        paid = 0.0
        for state in range(size):
            weight = now[state]
            if weight != 0.0:
                now[state] = 0.0  # for the step after next
                paid += weight * reward[state]
                for edge in range(edge_start[state], edge_start[state + 1]):
                    ahead[edge_target[edge]] += weight * flow[edge]
        total += worth * paid
        worth *= discount
        now, ahead = ahead, now
    paid = 0.0
    for state in range(size):
        paid += now[state] * reward[state]
        if steps % 2:  # they have changed places an odd number of times
            ahead[state] = now[state]
    return total + worth * paid


class Itinerary(NamedTuple):
    """The states that can be reached at each time, with P(x_t), and working memory for payoffs.

    Those of time t are entries first[t] .. first[t + 1] - 1 of `state` and `visit`.
    """

    first: IntArray  # [time + 1]
    state: IndexArray  # [entry]
    visit: NumberArray  # [entry]
    listed: BoolArray  # [state]: False between times
    ahead: NumberArray  # [state]: the value of every state that can be reached at the next time
    value: NumberArray  # [state]

    @classmethod
    def of(cls, process: HiddenProcess, dtype: Any, room: int) -> Itinerary:
        """Return memory for `room` entries, and numbers of this type."""
        size = process.num_states
        return cls(
            np.zeros(process.horizon + 2, np.int64),
            np.empty(room, np.uint32),
            np.empty(room, dtype),
            np.zeros(size, np.bool_),
            np.zeros(size, dtype),
            np.zeros(size, dtype),
        )


@helper
def sweep_payoff(
    start, edge_start, edge_target, flow, reward, final, discount,
    first, state_at, visit_at, listed, ahead, value, slope, paid, visits,
):  # fmt: skip
    """Write the derivatives of the expected payoff of a chain by flow and by reward, and the expected visits per state.

    One sweep forward, one back, over the states that can be reached at each time.
    start: [state] P(x_0); edges of the source are not counted. reward, final: [state], paid at every time and after the
    last one, of the number type of flow. The derivative by reward[x] is sum over t of discount^t P(x_t = x).
    Adds to slope, paid and visits. Returns whether the itinerary has room enough, and the expected payoff.
    """
    size, horizon, count = start.size, first.size - 2, 0
    for state in range(size):
        if start[state] > 0.0:
            state_at[count] = state
            visit_at[count] = start[state]
            count += 1
    first[0], first[1] = 0, count
    for time in range(horizon):  # P(x_t+1 = x') = sum over x of P(x_t = x) P_pi(x' | x)
        if count + size > state_at.size:
            return False, value[0]
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            for edge in range(edge_start[state], edge_start[state + 1]):
                target = edge_target[edge]
                if flow[edge].real == 0.0:
                    continue
                if not listed[target]:
                    listed[target] = True
                    ahead[target] = 0.0
                    state_at[count] = target
                    count += 1
                ahead[target] += visit_at[index] * flow[edge]
        first[time + 2] = count
        for index in range(first[time + 1], count):
            visit_at[index] = ahead[state_at[index]]
            listed[state_at[index]] = False
    for state in range(size):
        ahead[state] = 0.0
    for time in range(horizon, -1, -1):  # W_t(x) = gamma^t R(x) + sum over x' of P_pi(x' | x) W_t+1(x')
        worth = discount**time
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            weight = visit_at[index]
            paid[state] += worth * weight
            visits[state] += weight.real
            total = worth * reward[state]
            if time == horizon:
                total += final[state]
            else:
                for edge in range(edge_start[state], edge_start[state + 1]):
                    slope[edge] += weight * ahead[edge_target[edge]]
                    total += flow[edge] * ahead[edge_target[edge]]
            value[state] = total
        for index in range(first[time], first[time + 1]):
            ahead[state_at[index]] = value[state_at[index]]
    payoff = 0.0 * value[0]
    for index in range(first[1]):
        payoff += visit_at[index] * ahead[state_at[index]]
    return True, payoff


@kernel
def _payoff_kernel(start, moves, reward, final, discount, itinerary, slope, paid, visits):
    """Call `sweep_payoff` for a chain."""
    return sweep_payoff(
        start, moves.start, moves.target, moves.flow, reward, final, discount,
        itinerary.first, itinerary.state, itinerary.visit, itinerary.listed, itinerary.ahead, itinerary.value,
        slope, paid, visits,
    )  # fmt: skip


EQUAL = 1e-12  # of their size: a return this close to its threshold meets it
_UNIT = 2.0**-53


def transition_matrix(process: HiddenProcess, flow: Any) -> Any:
    """Return P_pi as a SciPy sparse matrix [state, next state], the source left out.

    flow: [edge], as `HiddenProcess.flow` returns it.
    """
    from scipy.sparse import csr_array

    size = process.num_states
    num_edges = int(process.edge_start[size])
    parts = (flow[:num_edges], process.edge_target[:num_edges], process.edge_start[:-1])
    return csr_array(parts, shape=(size, size))


def start_distribution(process: HiddenProcess) -> FloatArray:
    """Return [state]: P(x_0 = x)."""
    first = int(process.edge_start[process.num_states])
    start = np.zeros(process.num_states)
    start[process.edge_target[first:]] = process.edge_base[first:]
    return start


def secret_distribution(process: HiddenProcess, pi: FloatArray, *, stop: Stop | None = None) -> FloatArray:
    """Return [secret value]: the prior P(Z = z) under a policy. Raises StoppedError when `stop` is requested."""
    unpaid = SparseRows(ints(np.zeros(process.num_states + 1)), ints([]), floats([]), process.num_slots)
    _, last = _push_forward(process, pi, unpaid, 1.0, stop)
    return np.bincount(process.secret, weights=last, minlength=process.num_secrets).astype(np.float64)


def secret_slope(process: HiddenProcess, pi: Any, worth: FloatArray) -> tuple[Any, Any]:
    """Return E[worth[Z]] and its derivative [slot] by the policy vector.

    worth: [secret value].
    """
    unpaid = np.zeros(process.num_states)
    value, slope, _, _ = _differentiate(process, pi, unpaid, worth[process.secret], 1.0)
    return value, process.edge_slots.T @ slope


def expected_return(
    process: HiddenProcess, pi: FloatArray, payoff: Payoff | None = None, *, stop: Stop | None = None
) -> float:
    """Return V = sum over t = 0 .. horizon of discount^t E[R(x_t, a_t)] + E[final(x_T)].

    payoff: one of process.payoffs; the return (the first) unless given.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    payoff = payoff or process.payoffs[0]
    total, last = _push_forward(process, pi, payoff.slots, payoff.discount, stop)
    return float(total + payoff.final @ last)


def _push_forward(
    process: HiddenProcess, pi: FloatArray, paid: SparseRows, discount: float, stop: Stop | None
) -> tuple[float, FloatArray]:
    """Return the discounted sum of what is paid [state, slot], and the distribution of the last state."""
    stop, size = stop or Stop(), process.num_states
    flow, reward, last = np.empty(process.edge_base.size), np.empty(size), np.zeros(size)
    total = _forward_kernel(
        *_policy_arguments(process, pi, paid), flow, reward, discount, process.horizon, last, np.zeros(size),
        stop.cell(),
    )  # fmt: skip
    stop.check()
    return total, last


def _policy_arguments(process: HiddenProcess, pi: FloatArray, paid: SparseRows) -> tuple[Any, ...]:
    """Return what kernels take to follow a policy vector: edges, their probabilities, what is paid [state, slot]."""
    moved = process.edge_slots
    return (
        *process.edges, process.edge_base, moved.starts, moved.columns, moved.values, paid.starts, paid.columns,
        paid.values, np.array(pi, dtype=np.float64),
    )  # fmt: skip


_USUAL_ROOM = 1 << 16  # entries of an itinerary that are there from the beginning


def itinerary_room(process: HiddenProcess) -> int:
    """Return how many entries an itinerary has room for at first: all that there can be, where those are not many."""
    return min((process.horizon + 1) * process.num_states, max(4 * process.num_states, _USUAL_ROOM))


def _differentiate(
    process: HiddenProcess, pi: Any, reward: Any, final: FloatArray, discount: float
) -> tuple[Any, Any, Any, FloatArray]:
    """Return the expected payoff, its derivatives by flow [edge] and by reward [state], and the visits [state]."""
    start, chain, size = start_distribution(process), _chain(process, pi), process.num_states
    dtype = chain.flow.dtype
    reward = reward.astype(dtype, copy=False)
    room = itinerary_room(process)
    while True:
        slope, paid, visits = np.zeros(chain.flow.size, dtype), np.zeros(size, dtype), np.zeros(size)
        itinerary = Itinerary.of(process, dtype, room)
        fits, value = _payoff_kernel(start, chain, reward, final, discount, itinerary, slope, paid, visits)
        if fits:
            return value, slope, paid, visits
        room *= 2


def _chain(process: HiddenProcess, pi: Any) -> ChainEdges:
    """Return the Markov chain under a policy vector."""
    return ChainEdges(*process.edges, process.flow(pi))


def return_slope(process: HiddenProcess, pi: Any, payoff: Payoff | None = None) -> tuple[Any, Any, FloatArray]:
    """Return V, its derivative [slot] by the policy vector, and the expected visits [row] of every policy row.

    The derivative is that of V as a function of pi without the constraint that rows sum to 1: the chain rule over edges
    (edge_slots' dV/dflow) and over rewards (slots' dV/dreward). Visits are sum over t = 0 .. T of P(x_t in row), which
    natural gradients divide by.
    payoff: one of process.payoffs; the return (the first) unless given.
    """
    payoff = payoff or process.payoffs[0]
    value, slope, paid, visits = _differentiate(process, pi, payoff.slots @ pi, payoff.final, payoff.discount)
    rows = np.bincount(process.row, weights=visits, minlength=process.num_rows).astype(np.float64)
    return value, process.edge_slots.T @ slope + payoff.slots.T @ paid, rows


def return_gradient(process: HiddenProcess, theta: Any, payoff: Payoff | None = None) -> tuple[Any, Any]:
    """Return V and its gradient [slot] by softmax logits, by one backward sweep (policy gradient theorem).

    theta: [slot] logits; complex logits carry a direction, and the gradient is complex then.
    """
    pi = process.softmax(theta)
    value, slope, _ = return_slope(process, pi, payoff)
    return value, process.pull_back(pi, slope)


_FEW_STATES = 128  # dense elimination takes less time than anything else
_MOST_ROUNDS = 200  # of value iteration; sparse elimination takes about as long


def infinite_return(process: HiddenProcess, pi: FloatArray) -> float:
    """Return the discounted return of an endless run: mu (I - gamma P_pi)^-1 R_pi.

    The product must be compiled for it (task.over: forever). The system is solved by elimination; of many states value
    iteration is tried before, and its answer taken where bounds meet soon, which they do not for a discount near 1.
    Either way rounding puts the return off by at most `rounding_share` of its `absolute_payoff`.
    """
    payoff, size, start = process.payoffs[0], process.num_states, start_distribution(process)
    flow, reward = np.empty(process.edge_base.size), np.empty(size)
    policy = _policy_arguments(process, pi, payoff.slots)
    if size <= _FEW_STATES:
        _eliminate_kernel(*policy, flow, reward, payoff.discount, np.zeros((size, size)))
        return float(start @ reward)
    settled, value = _iterate_kernel(
        *policy, flow, reward, payoff.discount, start, _MOST_ROUNDS, np.zeros(size), np.empty(size)
    )
    if settled:
        return float(value)
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    system = eye_array(size, format="csc") - payoff.discount * transition_matrix(process, flow).tocsc()
    return float(start @ splu(system.tocsc()).solve(reward))


@kernel
def _eliminate_kernel(
    edge_start, edge_target, base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi,
    flow, reward, discount, system,
):  # fmt: skip
    """Solve (I - gamma P) V = R; V is written in the place of reward [state].

    Rows are diagonally dominant: without pivots nothing grows more than twofold (Higham, theorem 9.9).
    system: [state, state], zeros, working memory.
    """
    _apply_policy(base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi, flow, reward)
    size, value = reward.size, reward
    for state in range(size):
        system[state, state] = 1.0
        for edge in range(edge_start[state], edge_start[state + 1]):
            system[state, edge_target[edge]] -= discount * flow[edge]
    for pivot in range(size):
        for row in range(pivot + 1, size):
            if system[row, pivot] != 0.0:
                factor = system[row, pivot] / system[pivot, pivot]
                value[row] -= factor * value[pivot]
                for column in range(pivot + 1, size):
                    system[row, column] -= factor * system[pivot, column]
    for row in range(size - 1, -1, -1):
        for column in range(row + 1, size):
            value[row] -= system[row, column] * value[column]
        value[row] /= system[row, row]


@kernel
def _iterate_kernel(
    edge_start, edge_target, base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi,
    flow, reward, discount, start, rounds, value, ahead,
):  # fmt: skip
    """Return whether value iteration settles within some rounds, and the return it gives; write flow and reward.

    With r = R + gamma P V - V, what V misses is V* - V = (I - gamma P)^-1 r. The rows of that inverse are not negative
    and sum to 1 / (1 - gamma), so that for any V (Puterman, Markov Decision Processes, section 6.6)

        V + min r / (1 - gamma)  <=  V*  <=  V + max r / (1 - gamma).

    The return is the mean of the middle over the start. A round adds r / (1 - gamma P(x | x)) to V: what stays where it
    is takes no rounds. It has settled when max r - min r is no more than the rounding of r, u (k + 3) size for k edges
    of a state and the largest terms `size` that are added up, and these are at most 4 times the return: it is then off
    by at most 1.5 u (k + 3) size / (1 - gamma), a part of `rounding_share`.
    start: [state] P(x_0). value: [state], V at first. ahead: [state], working memory.
    """
    _apply_policy(base, moved_start, moved_slot, moved_share, paid_start, paid_slot, paid_amount, pi, flow, reward)
    most_edges, most_paid = 0, 0.0
    for state in range(value.size):
        most_edges = max(most_edges, edge_start[state + 1] - edge_start[state])
        most_paid = max(most_paid, abs(reward[state]))
    for _ in range(rounds):
        least, most, mean, largest = np.inf, -np.inf, 0.0, 0.0
        for state in range(value.size):
            stay, total = 0.0, reward[state]
            for edge in range(edge_start[state], edge_start[state + 1]):
                total += discount * flow[edge] * value[edge_target[edge]]
                if edge_target[edge] == state:
                    stay = flow[edge]
            missing = total - value[state]
            least, most = min(least, missing), max(most, missing)
            mean += start[state] * value[state]
            largest = max(largest, abs(value[state]))
            ahead[state] = value[state] + missing / (1.0 - discount * stay)
        size, middle = most_paid + 2.0 * largest, mean + 0.5 * (least + most) / (1.0 - discount)
        if most - least <= _UNIT * (most_edges + 3) * size and size <= 4.0 * abs(middle):
            return True, middle
        value, ahead = ahead, value
    return False, 0.0


def absolute_payoff(process: HiddenProcess, pi: FloatArray, payoff: Payoff, *, forever: bool = False) -> float:
    """Return E[sum over t of |discount^t R(x_t, a_t)|] + E[|final|]: the size of what is added up, whatever cancels.

    forever: for the return of an endless run.
    """
    slots = replace(payoff.slots, values=floats(np.abs(payoff.slots.values)))
    unsigned = replace(payoff, slots=slots, final=np.abs(payoff.final))
    if forever:
        return infinite_return(replace(process, payoffs=(unsigned, *process.payoffs[1:])), pi)
    return expected_return(process, pi, unsigned)


def largest_absolute_payoff(process: HiddenProcess, payoff: Payoff, *, forever: bool = False) -> float:
    """Return an upper bound of `absolute_payoff` over all policies."""
    most = float(np.abs(payoff.slots.values).max(initial=0.0))
    if forever:
        return most / (1.0 - payoff.discount)
    times = float((np.abs(payoff.discount) ** np.arange(process.horizon + 1)).sum())
    return most * times + float(np.abs(payoff.final).max(initial=0.0))


def rounding_share(process: HiddenProcess, *, forever: bool = False) -> float:
    """Return how far rounding can put a return off, as a share of `absolute_payoff`: n u for n operations.

    A term of the sum passes through the actions of a row and the sources of a state at every time, and through the sum
    over states (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    """
    actions = int(np.diff(process.row_start).max(initial=1))
    sources = int(np.bincount(process.edge_target).max(initial=1))
    times = process.num_states / (1.0 - process.payoffs[0].discount) if forever else process.horizon + 1.0
    return 1.01 * _UNIT * (times * (actions + sources + 8) + process.num_states)


def threshold_tolerance(process: HiddenProcess, payoff: Payoff, paid: float, *, forever: bool = False) -> float:
    """Return how far below its threshold a computed return may be and still meet it.

    EQUAL relative to the threshold, plus what rounding can take from the sum where payments cancel.
    paid: `absolute_payoff` of the policy. forever: for the return of an endless run.
    """
    share = min(EQUAL, 4.0 * rounding_share(process, forever=forever))
    return EQUAL * abs(payoff.threshold or 0.0) + share * paid


def largest_tolerance(process: HiddenProcess, payoff: Payoff, *, forever: bool = False) -> float:
    """Return how far below its threshold the exact return can be, for any policy whose computed return meets it."""
    paid = largest_absolute_payoff(process, payoff, forever=forever)
    return threshold_tolerance(process, payoff, paid, forever=forever) + rounding_share(process, forever=forever) * paid
