"""Expected return of a policy, exactly, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess


def moves(process: HiddenProcess, flow: Any) -> Any:
    """P_pi as a sparse matrix [state, next state], the source left out."""
    from scipy.sparse import csr_array

    size = process.num_states
    num_edges = int(process.edge_start[size])
    parts = (flow[:num_edges], process.edge_target[:num_edges], process.edge_start[:-1])
    return csr_array(parts, shape=(size, size))


def start_distribution(process: HiddenProcess) -> FloatArray:
    """P(x_0 = x)."""
    first = int(process.edge_start[process.num_states])
    start = np.zeros(process.num_states)
    start[process.edge_target[first:]] = process.edge_base[first:]
    return start


def distributions(process: HiddenProcess, pi: Any) -> list[Any]:
    """P(x_t = x) for t = 0 .. horizon."""
    onward = moves(process, process.flow(pi)).T.tocsr()
    found = [start_distribution(process)]
    for _ in range(process.horizon):
        found.append(onward @ found[-1])
    return found


def secret_distribution(process: HiddenProcess, pi: FloatArray) -> FloatArray:
    """P(Z = z)."""
    onward = moves(process, process.flow(pi)).T.tocsr()
    now = start_distribution(process)
    for _ in range(process.horizon):
        now = onward @ now
    return np.bincount(process.secret, weights=now, minlength=process.num_secrets).astype(np.float64)


def expected_return(process: HiddenProcess, pi: FloatArray) -> float:
    """V = sum over t = 0 .. horizon of discount^t E[R(x_t, a_t)]."""
    onward = moves(process, process.flow(pi)).T.tocsr()
    reward = process.reward_slots @ pi
    now, total = start_distribution(process), 0.0
    for time in range(process.horizon + 1):
        total += process.discount**time * float(reward @ now)
        now = onward @ now if time < process.horizon else now
    return total


def return_gradient(process: HiddenProcess, theta: Any) -> tuple[Any, Any]:
    """V and its gradient with respect to softmax logits, by one backward sweep (policy gradient theorem)."""
    pi = process.softmax(theta)
    flow = process.flow(pi)
    onward, reward = moves(process, flow), process.reward_slots @ pi
    visits = distributions(process, pi)
    owner = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    inner = int(process.edge_start[process.num_states])
    slope, paid = np.zeros(flow.size, flow.dtype), np.zeros(process.num_states, flow.dtype)
    value = np.zeros(process.num_states, flow.dtype)
    for time in range(process.horizon, -1, -1):
        weight = process.discount**time
        if time < process.horizon:
            slope[:inner] += visits[time][owner[:inner]] * value[process.edge_target[:inner]]
            value = onward @ value
        value = value + weight * reward
        paid += weight * visits[time]
    towards = process.edge_slots.T @ slope + process.reward_slots.T @ paid
    return visits[0] @ value, process.pull_back(pi, towards)


def infinite_return(process: HiddenProcess, pi: FloatArray) -> float:
    """The discounted return of an endless run; the product must be compiled for it (task.over: forever)."""
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    system = eye_array(process.num_states, format="csc") - process.discount * moves(process, process.flow(pi)).tocsc()
    return float(start_distribution(process) @ splu(system.tocsc()).solve(process.reward_slots @ pi))
