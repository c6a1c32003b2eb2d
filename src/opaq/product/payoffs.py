"""The return and every further requirement of the task, over product states and slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.model.mdp import MDP
from opaq.model.problem import Problem
from opaq.product.process import Payoff
from opaq.product.requirement_tracker import RequirementTracker
from opaq.product.rows import PolicyRows

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def return_payoff(problem: Problem, mdp: MDP, *, state: IntArray, rows: PolicyRows) -> Payoff:
    """The return of the model's rewards; `mdp` is the model of choices."""
    slots = _per_slot(mdp, mdp.rewards, state, rows)
    return Payoff("return", slots, np.zeros(state.size), problem.discount, problem.task.return_at_least)


def requirement_payoffs(
    problem: Problem,
    mdp: MDP,
    trackers: Sequence[RequirementTracker],
    *,
    nodes: Sequence[IntArray | None],
    state: IntArray,
    rows: PolicyRows,
) -> tuple[Payoff, ...]:
    """What is asked for beside the return.

    mdp: the model of choices; the trackers' rewards are for the choices of the stated one.
    trackers, nodes: per requirement its tracker and the node of its machine in every product state, if it has one.
    """
    copies = mdp.num_choices // problem.mdp.num_choices
    payoffs = []
    for requirement, tracker, column in zip(problem.task.requirements, trackers, nodes, strict=True):
        rewards = np.zeros(problem.mdp.num_choices) if tracker.rewards is None else tracker.rewards
        slots = _per_slot(mdp, np.repeat(rewards, copies), state, rows)
        final = np.zeros(state.size) if tracker.worth is None or column is None else tracker.worth(column)
        payoffs.append(Payoff(tracker.name, slots, final, tracker.discount, requirement.threshold))
    return tuple(payoffs)


def _per_slot(mdp: MDP, rewards: FloatArray, state: IntArray, rows: PolicyRows) -> csr_array:
    """R(x, slot) as a sparse matrix."""
    from scipy.sparse import csr_array

    owner, choice = spread(mdp.choice_start, state)
    slot, reward = rows.slot(owner, choice), rewards[choice]
    paid = reward != 0
    return csr_array((reward[paid], (owner[paid], slot[paid])), shape=(state.size, rows.num_slots))
