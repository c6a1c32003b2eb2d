"""Climb classes of policies, coarser ones first: what `solve` and `compare` share.

The best policies of the classes just below a class, lifted, are among its starts. Where a search ends below a coarser
class all the same, for lack of time or by the noise of samples, the coarser policy is the answer: a class that contains
another never comes out below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from opaq.model.policy import Policy, PolicyClass
from opaq.solvers.policy_classes import class_name, contains, lift
from opaq.solvers.strategy import Status
from opaq.stop import Deadline, Stop

if TYPE_CHECKING:
    from opaq.opacity.measure import Measurement
    from opaq.solvers.solve import Solution

_ROUNDING = 1e-9  # of what is maximised: a policy is not carried for less


@dataclass(frozen=True, slots=True)
class Rung:
    """The answer of one class."""

    policy_class: PolicyClass
    solution: Solution
    seconds: float
    warm_from: str | None  # the best coarser class, if there is one
    carried: bool  # whether its policy is the answer


@dataclass(slots=True)
class Ladder:
    """The answers so far, by class."""

    stop: Stop
    rungs: list[Rung] = field(default_factory=list)

    def climb(self, policy_class: PolicyClass, search: Callable[[Sequence[Policy]], Solution]) -> Rung:
        """Search one class, and keep its answer.

        search: finds the best policy of the class, beginning from policies of coarser classes as well. What it raises
            is passed on, and then there is no answer.
        """
        call, below = Deadline(), self._below(policy_class)
        solution = search([rung.solution.policy for rung in _highest(below)])
        best = _best(below)
        carried = best is not None and _is_better(best.solution.measurement, solution.measurement)
        if best is not None and carried:
            solution = self._carry(best, solution)
        name = None if best is None else class_name(best.policy_class)
        rung = Rung(policy_class, solution, call.elapsed, name, carried)
        self.rungs.append(rung)
        return rung

    def _below(self, policy_class: PolicyClass) -> list[Rung]:
        """Return the answers of the classes that a class contains."""
        return [rung for rung in self.rungs if contains(policy_class, rung.policy_class)]

    def _carry(self, below: Rung, solution: Solution) -> Solution:
        """Return the answer of a coarser class as that of a finer one; it behaves the same, so its measurement holds.

        solution: of the finer class, which is worse.
        """
        rng = np.random.default_rng(np.random.SeedSequence(solution.seed, spawn_key=(3,)))
        pi, status = lift(below.solution.policy, solution.product, rng=rng), Status.COMPLETED
        if self.stop.requested:
            status = Status.INTERRUPTED if self.stop.interrupted else Status.TIME_LIMIT
        name = class_name(below.policy_class)
        return replace(
            solution,
            policy=solution.product.policy(pi),
            pi=pi,
            measurement=below.solution.measurement,
            status=status,
            status_text=f"the policy on {name}, for the search found none better: {below.solution.status_text}",
            optimality=None,
        )


def _highest(rungs: list[Rung]) -> list[Rung]:
    """Return the answers whose classes are contained in no other."""
    return [
        rung
        for rung in rungs
        if not any(other is not rung and contains(other.policy_class, rung.policy_class) for other in rungs)
    ]


def _best(rungs: list[Rung]) -> Rung | None:
    """Return the best answer, of equal ones the first; None where there is none."""
    best: Rung | None = None
    for rung in rungs:
        if best is None or rung.solution.measurement.beats(best.solution.measurement):
            best = rung
    return best


def _is_better(coarse: Measurement, fine: Measurement) -> bool:
    """Return whether a policy of a coarser class is better than one of a finer class, by more than rounding."""
    minimise = coarse.objective.minimise
    gain = coarse.uncertainty.score(minimise=minimise) - fine.uncertainty.score(minimise=minimise)
    return coarse.beats(fine) and (gain > _ROUNDING or coarse.feasible != fine.feasible)
