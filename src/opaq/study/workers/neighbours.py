"""Policies that points of a sweep hand to each other: which fit another point's problem, and whether they are better.

Comes in: the problem of a point and the policies of its neighbours, as in policy files. Goes out: those that fit and
meet its task, as policies of its own class, and the answer that the best of them leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.errors import InputError
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.measure import evaluate_requirements, measure_product
from opaq.opacity.policies import as_policy
from opaq.product.compile import Product, compile_problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import choose_class, class_name, lift
from opaq.solvers.solve import Solution, solve
from opaq.solvers.strategy import Status
from opaq.spec.policy_table import policy_from_dict
from opaq.stop import Stop, StoppedError

_MARGIN = 1e-6  # by which a neighbour's policy must be better: what searches leave open
_SPAWN_KEY = 4  # of the random numbers that lift a policy to a free memory


@dataclass(frozen=True, slots=True, eq=False)
class FittingPolicy:
    """The policy of a neighbour that meets the task of a point."""

    point: str  # the name of the neighbour
    pi: FloatArray  # [slot] of the point's product
    product: Product  # of the point

    @property
    def policy(self) -> Policy:
        """The policy in the rows of the point's own class."""
        return self.product.policy(self.pi)


def fit_policies(problem: Problem, options: SolveOptions, neighbours: Mapping[str, Any]) -> list[FittingPolicy]:
    """Return the policies of neighbours that can be followed in a problem and meet its task, in their order.

    problem: of the point. options: of its solve, which may name a policy class. neighbours: name -> policy file, or the
    word for a policy. One of a class that the point's contains is lifted; one whose rows or actions do not fit is left
    out.
    """
    own_class = choose_class(problem, conditions=options.conditions, memory_nodes=options.memory_nodes)
    product = compile_problem(problem, own_class)
    rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(_SPAWN_KEY,)))
    fitting = []
    for name, content in neighbours.items():
        try:
            if isinstance(content, str):
                policy = as_policy(content, problem, within=own_class)
            else:
                policy = policy_from_dict(content, problem, ignore_model_mismatch=True)
            same = class_name(policy.policy_class) == class_name(product.policy_class)
            pi = product.policy_vector(policy if same else product.policy(lift(policy, product, rng=rng)))
        except InputError:
            continue
        if all(met.feasible for met in evaluate_requirements(product, pi)):
            fitting.append(FittingPolicy(name, pi, product))
    return fitting


def improve_solution(
    problem: Problem, options: SolveOptions, fitting: Sequence[FittingPolicy], *, own: Mapping[str, Any], search: bool
) -> tuple[Solution, str] | None:
    """Return a better answer by a neighbour's policy, and the name of that neighbour; None where no policy is better.

    fitting: policies that meet the task. own: the answer so far, as JSON. search: whether to search once more, from
    the best policy alone. Where the search ends below that policy, or there is none, the policy itself is the answer.
    Half of the time limit is for measuring.
    """
    seconds = None if options.time_limit is None else 0.5 * options.time_limit
    best, before = None, Solution.from_dict(own)
    known = before.measurement
    for neighbour in fitting:
        stop, share = Stop(), None if seconds is None else seconds / len(fitting)
        with suppress(StoppedError), stop.limit(share):
            measured = measure_product(
                neighbour.product, neighbour.pi, sequences=options.sequences, time=share, stop=stop
            )
            if not measured.beats(known, margin=_MARGIN):
                continue
            best, known = neighbour, measured
    if best is None:
        return None
    solution = before
    if search:
        hurried = replace(options, time_limit=seconds, starts=1)
        solution = solve(problem, options=hurried, initial_policy=best.policy, stop=Stop())
        if not known.beats(solution.measurement):
            return solution, best.point
    text = f"the policy of point {best.point}, which hides more here than what was found; convergence is not tested"
    taken = replace(
        solution,
        measurement=known,
        status=Status.COMPLETED,
        status_text=text,
        optimality=None,
        policy=best.policy,
        product=best.product,
        pi=best.pi,
    )
    return taken, best.point
