"""Requirements as trackers: rewards paid for choices, or a machine that reads the run and what its last node is worth.

A new kind of requirement is a data class derived from `Requirement` and one function registered here:

    @track_requirement.register
    def _(requirement: MyRequirement, problem: Problem) -> RequirementTracker: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy
from opaq.product.machine import Machine, VisitFlag
from opaq.product.secret_tracker import automaton_machine


@dataclass(frozen=True, slots=True)
class RequirementTracker:
    """The sum of discount^t rewards(s_t, a_t) plus worth(n_T) at the end, where n is the machine's node."""

    name: str  # of the value, as it is reported
    rewards: FloatArray | None = None  # [choice]; None: nothing is paid on the way
    discount: float = 1.0
    machine: Machine | None = None  # None: nothing is paid at the end
    worth: Callable[[IntArray], FloatArray] | None = None  # nodes -> what they are worth at the end


@singledispatch
def track_requirement(requirement: Requirement, problem: Problem) -> RequirementTracker:
    """The tracker of a requirement; every kind registers its own."""
    raise TypeError(f"no tracker is registered for requirements of type {type(requirement).__name__}")


@track_requirement.register
def _(requirement: ReturnAtLeast, problem: Problem) -> RequirementTracker:
    rewards = problem.mdp.named_rewards[requirement.reward]
    return RequirementTracker(f"return of {requirement.reward}", rewards, problem.discount)


@track_requirement.register
def _(requirement: Reach, problem: Problem) -> RequirementTracker:
    machine = VisitFlag(problem.mdp.mask(requirement.states))
    name = f"probability of reaching {requirement.name}"
    return RequirementTracker(name, machine=machine, worth=lambda nodes: nodes.astype(np.float64))


@track_requirement.register
def _(requirement: Satisfy, problem: Problem) -> RequirementTracker:
    accepting = list(requirement.automaton.accepting)

    def worth(nodes: IntArray) -> FloatArray:
        return np.isin(nodes, accepting).astype(np.float64)

    machine = automaton_machine(requirement.automaton, problem.mdp)
    return RequirementTracker(f"probability of {requirement.name}", machine=machine, worth=worth)
