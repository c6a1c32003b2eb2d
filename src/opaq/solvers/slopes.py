"""How opacity changes with a policy's probabilities: the call `opaq.gradient`."""

from __future__ import annotations

import os

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.choices import check_numbers, check_types
from opaq.model.policy import Policy, RowKey
from opaq.model.problem import Problem
from opaq.opacity import sampled
from opaq.opacity.exact import policy_slope
from opaq.simulation.runs import MOST_RUNS, compiled
from opaq.solvers.optimality import LEAST_PROBABILITY, with_least
from opaq.stop import Stop


def gradient(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> dict[RowKey, dict[str, float]]:
    """dH(secret | observations) / d(probability): row -> action -> bits per unit of probability.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object or the name of a file; None is the uniform policy. Where an action has probability 0 the slope is
    that at 1e-12: at 0 there may be none.
    samples: estimate it from so many runs, for problems whose belief graph does not fit; None: exact evaluation.
    seed: the same seed gives the same runs.
    budget: how large the belief graph may become; the default budget if None. Sampled runs need none.
    stop: when it is requested the work ends with StoppedError.

    Within a row only differences between actions have a meaning: moving probability d from action b to action a
    changes the opacity by d (slope of a - slope of b), to first order.
    Raises InputError when the policy does not fit, BudgetError when the whole graph does not fit the budget.
    """
    limits = {"samples": (samples, 1, MOST_RUNS), "seed": (seed, 0, 2**64)}
    check_numbers(limits, whole=tuple(limits), optional=("samples",))
    objects = {"budget": (budget, Budget, "an opaq.Budget"), "stop": (stop, Stop, "an opaq.Stop")}
    check_types(objects, optional=objects)
    product, pi = compiled(problem, policy)
    process = product.process
    pi = process.softmax(with_least(process, process.logits(pi), LEAST_PROBABILITY))
    if samples is None:
        _, slope = policy_slope(process, pi, budget=budget, whole=True, stop=stop)
    else:
        rng = np.random.default_rng(seed)
        _, _, slope = sampled.policy_slope(process, pi, samples=samples, rng=rng, stop=stop)
    return product.table(slope)
