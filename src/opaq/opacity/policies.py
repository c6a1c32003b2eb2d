"""Name policies: the uniform one, the one that earns most, and those of files.

A word, a file or a policy comes in, a policy for a problem goes out.
"""

from __future__ import annotations

import os

import numpy as np

from opaq.beliefs.dynamic_program import StateActions, greedy_policy, largest_return
from opaq.beliefs.returns import expected_return, largest_tolerance
from opaq.errors import Fault, InputError
from opaq.load import POLICY_NAMES, as_problem, load_policy
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

UNIFORM, RETURN_OPTIMAL = POLICY_NAMES
_SETTLED = 1e-12  # relative: policy iteration ends when no action gains more
_MOST_ROUNDS = 1_000  # of policy iteration, which takes a few


def as_policy(policy: object, problem: Problem, *, within: PolicyClass | None = None) -> Policy:
    """Return the policy itself, that of a file, or one by its name, for a problem.

    policy: an opaq.Policy, the name of a policy file, "uniform" or "return-optimal" (a file of such a name is called
        "./uniform").
    problem: what it is for. A finished policy is not compared with it.
    within: the class that a search of such policies needs "return-optimal" in; None: as `return_optimal_policy` says.
    Raises InputError for anything else, and as `load_policy` does.
    """
    if isinstance(policy, Policy):
        return policy
    if policy == UNIFORM:
        return uniform_policy(problem)
    if policy == RETURN_OPTIMAL:
        return return_optimal_policy(problem, within=within)
    if isinstance(policy, str | os.PathLike):
        return load_policy(policy, problem)
    finding = f"is of the type {type(policy).__name__}"
    advice = f"give a Policy, the name of a file, '{RETURN_OPTIMAL}', or nothing for the uniform policy"
    raise InputError([Fault("policy", finding, advice)])


def compile_for_policy(problem: object, policy: object) -> tuple[Product, FloatArray]:
    """Compile a problem for a policy, each given in any way, and return the policy as a vector [slot] of the product.

    problem: an object, the name of a file, or the name of a scenario. policy: as for `as_policy`, or
    None for the uniform policy of the problem's own class. Raises InputError when one of them does not fit.
    """
    read = as_problem(problem)
    chosen = None if policy is None else as_policy(policy, read)
    product = compile_problem(read, None if chosen is None else chosen.policy_class)
    return product, product.policy_vector(chosen)


def locate_policy(policy: str | os.PathLike[str] | None) -> str | None:
    """Return how a policy is named in every folder: a file by its whole path, a word as it is, None as None."""
    return policy if policy in (None, *POLICY_NAMES) else os.path.abspath(policy)


def uniform_policy(problem: Problem | str | os.PathLike[str]) -> Policy:
    """Return the policy of the problem's own class that takes every enabled action alike.

    problem: an object, the name of a file, or the name of a scenario.
    """
    product = compile_problem(as_problem(problem))
    return product.policy(product.process.uniform())


def return_optimal_policy(problem: Problem | str | os.PathLike[str], *, within: PolicyClass | None = None) -> Policy:
    """Return a policy that earns the most return that any policy can.

    problem: an object, the name of a file, or the name of a scenario.
    within: a class to stay in: where it holds no such policy, the one returned earns much, but less.

    It is of the problem's own class where that holds one, else it looks at state and time: there the dynamic program's
    policy is the best of all. A return for ever has a best policy that looks at the state alone. Of actions that earn
    the same it takes the first. Raises InputError where the model has no rewards.
    """
    problem = as_problem(problem)
    if not np.any(problem.mdp.rewards):
        finding = "the model has no rewards, so that every policy earns the same"
        raise InputError([Fault(RETURN_OPTIMAL, finding, f"state rewards, or take {UNIFORM} or a file")])
    if problem.task.over == "forever":
        product = compile_problem(problem, PolicyClass(("state",)))
        return product.policy(_best_for_ever(product.process))
    for policy_class in (problem.policy_class, PolicyClass(("state", "time"))) if within is None else (within,):
        product = compile_problem(problem, policy_class)
        process = product.process
        pi = greedy_policy(process, process.payoffs[0], weighting="visits", stop=Stop())
        lost = largest_return(process) - expected_return(process, pi)
        if lost <= largest_tolerance(process, process.payoffs[0]):
            break
    return product.policy(pi)


def _best_for_ever(process: HiddenProcess) -> FloatArray:
    """Return the policy vector [slot] that earns most for ever, by policy iteration.

    The value of a policy solves V = r + discount P V; the next policy takes what is best in r + discount P V.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import splu

    choices, payoff = StateActions.of(process), process.payoffs[0]
    paid, ahead, states = choices.paid(payoff), choices.ahead, process.num_states
    head = choices.first - process.row_start[process.row]
    slots = choices.greedy(paid)
    for _ in range(_MOST_ROUNDS):
        system = eye_array(states, format="csc") - payoff.discount * ahead[head + slots].tocsc()
        value = splu(system.tocsc()).solve(paid[head + slots])
        values = paid + payoff.discount * (ahead @ value)
        if float((choices.best(values) - value).max()) <= _SETTLED * float(np.abs(value).max()):
            break
        slots = choices.greedy(values)
    counts = np.bincount(slots, minlength=process.num_slots).astype(np.float64)
    return np.asarray(counts / np.repeat(np.add.reduceat(counts, process.row_start[:-1]), np.diff(process.row_start)))
