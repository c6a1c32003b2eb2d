"""Where theory promises a concave front: policy classes that contain the mixtures of their policies.

Toss a private coin at the start and follow one of two policies. Every return is the mean of the two, and since entropy
is concave, H(Z | Y) >= H(Z | Y, coin) is at least the mean. A class whose policies can do the same has a concave front.
A policy without a coin reproduces what the mixture does, step by step, if it plays P(action | what it looks at) of the
mixture, as long as what it looks at says all that matters of the past:

- all states so far, where the observer sees states only, and of the observations none or all: then runs (with what was
  seen) have the same law. With the last few observations they need not: what was seen before them tells of the coin,
  and so of the actions to come;
- all observations so far and the state, where the secret is a function of the last state alone (or of the node of the
  automaton, or the start, if the policy looks at that as well), and all that is required are returns.

The state and the time give the mixture's visits, and so its return, but not its law of observations: no promise.
"""

from __future__ import annotations

from opaq.model.conditions import AutomatonState, Condition, CurrentState, LastStates, Observations, StartState
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, ReturnAtLeast
from opaq.model.secret import InitialState, Language, LastState


def is_closed_under_mixing(problem: Problem, policy_class: PolicyClass, *, payoff: int = 0) -> bool:
    """Whether the front of a class against a payoff is concave, whatever the numbers."""
    observer = problem.observer
    states_alone = isinstance(observer, Observer) and observer.action_emission is None and observer.after_action is None
    if problem.task.minimise or not states_alone:
        return False
    return _all_states(problem, policy_class) or _all_observations(problem, policy_class)


def _all_states(problem: Problem, policy_class: PolicyClass) -> bool:
    everything = any(isinstance(one, LastStates) and one.count > problem.horizon for one in policy_class.conditions)
    seen = [one for one in policy_class.conditions if one.sees_observations]
    return everything and all(_is_everything_seen(problem, one) for one in seen)


def _is_everything_seen(problem: Problem, condition: Condition) -> bool:
    """Whether a condition holds all observations so far."""
    return isinstance(condition, Observations) and (condition.count == "all" or condition.count > problem.horizon)


def _all_observations(problem: Problem, policy_class: PolicyClass) -> bool:
    looks_at = {type(one) for one in policy_class.conditions}
    everything = any(_is_everything_seen(problem, one) for one in policy_class.conditions)
    needed = {LastState: CurrentState, Language: AutomatonState, InitialState: StartState}.get(type(problem.secret))
    returns_only = all(isinstance(one, ReturnAtLeast) for one in problem.task.requirements)
    return everything and CurrentState in looks_at and needed in looks_at and returns_only
