"""How opacity changes with a policy's probabilities: the call `opaq.gradient`."""

from __future__ import annotations

import os

from opaq.beliefs.graph import Budget
from opaq.model.policy import Policy, RowKey
from opaq.model.problem import Problem
from opaq.opacity.exact import policy_slope
from opaq.simulation.runs import compiled
from opaq.solvers.optimality import LEAST_PROBABILITY, with_least


def gradient(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    budget: Budget | None = None,
) -> dict[RowKey, dict[str, float]]:
    """dH(secret | observations) / d(probability): row -> action -> bits per unit of probability, by exact evaluation.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object or the name of a file; None is the uniform policy. Where an action has probability 0 the slope is
    that at 1e-12: at 0 there may be none.
    budget: how large the belief graph may become; the default budget if None.

    Within a row only differences between actions have a meaning: moving probability d from action b to action a
    changes the opacity by d (slope of a - slope of b), to first order.
    Raises InputError when the policy does not fit, BudgetError when the whole graph does not fit the budget.
    """
    product, pi = compiled(problem, policy)
    process = product.process
    pi = process.softmax(with_least(process, process.logits(pi), LEAST_PROBABILITY))
    _, slope = policy_slope(process, pi, budget=budget, whole=True)
    return {row: dict(actions) for row, actions in product.policy(slope).rows.items()}
