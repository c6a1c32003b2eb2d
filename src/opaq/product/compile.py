"""Model x machines -> one hidden process over the reachable product states, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from opaq.choices import check_types
from opaq.errors import Faults
from opaq.model.arrays import IntArray
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.model.policy import PolicyClass, check_policy_class
from opaq.model.problem import Problem
from opaq.model.secret import may_have_automaton
from opaq.product.assemble import assemble
from opaq.product.compiled import Product
from opaq.product.condition_tracker import ConditionTracker, Setting, rank, track_condition
from opaq.product.explore import ProductStates, explore
from opaq.product.joint_choices import choice_model, condition_machine, free_memory_of, reads_actions
from opaq.product.machine import OBSERVER, SECRET, Machine
from opaq.product.payoffs import requirement_payoffs, return_payoff
from opaq.product.process import Payoff
from opaq.product.requirement_tracker import RequirementTracker, track_requirement
from opaq.product.rows import PolicyRows, policy_rows
from opaq.product.secret_tracker import SecretTracker
from opaq.stop import Stop

__all__ = ["Product", "compile_problem"]


def compile_problem(problem: Problem, policy_class: PolicyClass | None = None, *, stop: Stop | None = None) -> Product:
    """Compile a problem for policies of a class.

    policy_class: what the policies look at; the problem's own class unless given.
    stop: asked for now and then; never unless given.
    Raises BudgetError when the product is too large, StoppedError when `stop` is requested meanwhile.
    """
    check_types(
        {
            "problem": (problem, Problem, "an opaq.Problem"),
            "policy_class": (policy_class, PolicyClass, "an opaq.PolicyClass"),
            "stop": (stop, Stop, "an opaq.Stop"),
        },
        optional=("policy_class", "stop"),
    )
    if policy_class is None:
        policy_class = problem.policy_class
    else:
        _check_class(policy_class, problem)
    plan = _Plan.of(problem, policy_class)
    mdp, observer = choice_model(problem.mdp, plan.memory), plan.setting.observer
    states = explore(mdp, plan.machines(), depth=_depth(problem), stop=stop or Stop())
    followed = zip(plan.conditions, plan.condition_parts(), strict=True)
    looked_at = [condition.nodes(states.nodes[part]) for condition, part in followed]
    rows = policy_rows(mdp, states.state, looked_at, words=[one.word for one in plan.conditions])
    secret, secret_values = _secret(plan.setting.secret, states.nodes[SECRET], states.state)
    process = assemble(
        states,
        rows,
        emission=observer.emission(states.nodes[OBSERVER], states.state),
        secret=secret,
        payoffs=_payoffs(plan, mdp, states, rows),
        horizon=problem.horizon,
    )
    return Product(
        problem=problem,
        policy_class=policy_class,
        process=process,
        state_of=states.state,
        rows=rows.keys,
        actions=mdp.actions,
        slot_action=rows.slot_action,
        observations=observer.observations,
        secret_values=secret_values,
    )


def _check_class(policy_class: PolicyClass, problem: Problem) -> None:
    """Raise InputError when a class does not fit the model or the secret."""
    sizes = {"num_states": problem.mdp.num_states, "num_actions": len(problem.mdp.actions)}
    faults = Faults()
    check_policy_class(policy_class, faults, "policy", **sizes, has_automaton=may_have_automaton(problem.secret))
    faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The trackers of a problem and a policy class, and the parts of the product that they need."""

    setting: Setting
    policy_class: PolicyClass
    conditions: tuple[ConditionTracker, ...]
    requirements: tuple[RequirementTracker, ...]
    memory: Memory | None  # whose next node the policy chooses

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass) -> _Plan:
        setting = Setting.of(problem, policy_class)
        conditions = tuple(track_condition(one, setting) for one in policy_class.conditions)
        requirements = tuple(track_requirement(one, problem) for one in problem.task.requirements)
        return cls(setting, policy_class, conditions, requirements, free_memory_of(conditions))

    def machines(self) -> dict[str, Machine]:
        """What the secret, the observer, the policy and the task need, and no more: part -> machine."""
        setting = self.setting
        stated = {SECRET: setting.secret.machine, OBSERVER: setting.observer.machine}
        required = zip(self.requirement_parts(), self.requirements, strict=True)
        watching = {part: one.machine for part, one in required if one.machine is not None}
        return {
            **{part: reads_actions(machine, self.memory) for part, machine in stated.items()},
            **self._condition_machines(),
            **{part: reads_actions(machine, self.memory) for part, machine in watching.items()},
        }

    def _condition_machines(self) -> dict[str, Machine]:
        """The machines of the conditions that no other part follows, in an order of their own."""
        followed = zip(self.policy_class.conditions, self.condition_parts(), self.conditions, strict=True)
        own = [(rank(condition), part, one) for condition, part, one in followed if one.part is None]
        return {part: condition_machine(one, self.memory) for _, part, one in sorted(own, key=itemgetter(0))}

    def condition_parts(self) -> list[str]:
        """Per condition the part of the product that follows it."""
        return [one.part or f"condition {index}" for index, one in enumerate(self.conditions)]

    def requirement_parts(self) -> list[str]:
        """Per requirement the part of the product that follows it, if it has a machine."""
        return [f"requirement {index}" for index, _ in enumerate(self.requirements)]


def _depth(problem: Problem) -> int | None:
    """How many steps of the product matter: the horizon, or all when the return is counted for ever."""
    return None if problem.task.over == "forever" else problem.horizon


def _secret(tracker: SecretTracker, nodes: IntArray, states: IntArray) -> tuple[IntArray, tuple[str, ...]]:
    """The secret value of every product state, numbered among those that occur."""
    occurring, numbered = np.unique(tracker.value(nodes, states), return_inverse=True)
    return numbered.reshape(-1), tuple(tracker.values[value] for value in occurring)


def _payoffs(plan: _Plan, mdp: MDP, states: ProductStates, rows: PolicyRows) -> tuple[Payoff, ...]:
    """The return first, then the other requirements."""
    problem, state = plan.setting.problem, states.state
    nodes = [states.nodes.get(part) for part in plan.requirement_parts()]
    further = requirement_payoffs(problem, mdp, plan.requirements, nodes=nodes, state=state, rows=rows)
    return return_payoff(problem, mdp, state=state, rows=rows), *further
