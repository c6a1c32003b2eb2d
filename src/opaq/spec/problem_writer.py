"""A problem as the plain mapping of a problem file, in the explicit `model:` form."""

from __future__ import annotations

from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, SparseRows
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Memory, PolicyClass
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy, Task
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.spec.uncertainty_part import write_uncertainty

Plain = dict[str, Any]


def problem_to_dict(problem: Problem) -> Plain:
    """The mapping that build_problem reads back to an equal problem."""
    told: Plain = {"opaq": 1}
    if problem.name:
        told["name"] = problem.name
    told["model"] = model_to_dict(problem.mdp)
    told["observer"] = observer_to_dict(problem.observer, problem.mdp)
    told["secret"] = _secret(problem.secret, problem.mdp)
    told["horizon"] = problem.horizon
    told["discount"] = problem.discount
    if problem.task != Task():
        told["task"] = _task(problem.task, problem.mdp)
    told["policy"] = {"conditions_on": conditions_to_list(problem.policy_class, problem.mdp)}
    return told


def conditions_to_list(policy_class: PolicyClass, mdp: MDP | None) -> list[Any]:
    """What a policy conditions on; without a model the memory machine is told in arrays instead of names."""
    told: list[Any] = []
    for condition in policy_class.conditions_on:
        if condition == "last_states":
            told.append({"last_states": policy_class.last_states})
        elif condition == "memory" and policy_class.memory is not None:
            told.append({"memory": _memory(policy_class.memory, mdp)})
        else:
            told.append(condition)
    return told


def _row(table: SparseRows, index: int, names: tuple[str, ...]) -> dict[str, float]:
    columns, values = table.row(index)
    return {names[column]: value for column, value in zip(columns.tolist(), values.tolist(), strict=True)}


def _rows(table: SparseRows, given: tuple[str, ...], names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    return {name: _row(table, index, names) for index, name in enumerate(given)}


def model_to_dict(mdp: MDP) -> Plain:
    """A model in the explicit form of a problem file."""
    begun = np.flatnonzero(mdp.start)
    told: Plain = {
        "states": list(mdp.states),
        "actions": list(mdp.actions),
        "start": {mdp.states[state]: float(mdp.start[state]) for state in begun},
        "transitions": {name: _choices(mdp, state) for state, name in enumerate(mdp.states)},
    }
    rewards = _rewards(mdp, mdp.rewards)
    if rewards:
        told["rewards"] = rewards
    if mdp.named_rewards:
        told["named_rewards"] = {name: _rewards(mdp, amounts) for name, amounts in mdp.named_rewards.items()}
    if mdp.labels:
        told["labels"] = {label: _named(states, mdp) for label, states in mdp.labels.items()}
    return told


def _choices_of(mdp: MDP, state: int) -> range:
    return range(int(mdp.choice_start[state]), int(mdp.choice_start[state + 1]))


def _choices(mdp: MDP, state: int) -> dict[str, dict[str, float]]:
    return {
        mdp.actions[mdp.choice_action[choice]]: _row(mdp.transitions, choice, mdp.states)
        for choice in _choices_of(mdp, state)
    }


def _rewards(mdp: MDP, amounts: FloatArray) -> Plain:
    return {name: earned for state, name in enumerate(mdp.states) if (earned := _reward(mdp, amounts, state))}


def _reward(mdp: MDP, amounts: FloatArray, state: int) -> float | dict[str, float]:
    """One number when every action earns the same, else a number an action; 0 when there is none."""
    earned = {mdp.actions[mdp.choice_action[choice]]: float(amounts[choice]) for choice in _choices_of(mdp, state)}
    return next(iter(earned.values())) if len(set(earned.values())) == 1 else earned


def _named(states: Any, mdp: MDP) -> list[str]:
    return [mdp.states[state] for state in states]


def observer_to_dict(observer: Observer, mdp: MDP) -> Plain:
    """An observer in the explicit form of a problem file."""
    told: Plain = {
        "observations": list(observer.observations),
        "emissions": _rows(observer.emission, mdp.states, observer.observations),
    }
    if observer.action_emission is not None:
        told["signs"] = list(observer.action_signs)
        told["actions"] = _rows(observer.action_emission, mdp.actions, observer.action_signs)
    if observer.after_action is not None:
        told["after_action"] = {
            action: {
                state: _row(observer.after_action, place * mdp.num_states + number, observer.observations)
                for number, state in enumerate(mdp.states)
            }
            for place, action in enumerate(mdp.actions)
        }
    return told


def _secret(secret: Secret, mdp: MDP) -> Plain:
    match secret:
        case LastState(classes):
            return {"last_state": _classes(classes, mdp)}
        case InitialState(classes):
            return {"initial_state": _classes(classes, mdp)}
        case StateAt(time, classes):
            return {"state_at": {"time": time, "states": _classes(classes, mdp)}}
        case StepsAgo(steps, classes):
            return {"steps_ago": {"steps": steps, "states": _classes(classes, mdp)}}
        case Visited(states, name):
            return {"visited": _visited(states, name, mdp)}
        case Language(automaton, reveal):
            return {"automaton": automaton_to_dict(automaton), "reveal": reveal}


def _classes(classes: StateClasses, mdp: MDP) -> bool | dict[str, list[str]]:
    if classes.names == mdp.states and classes.of_state.tolist() == list(range(mdp.num_states)):
        return True
    return {name: _named(np.flatnonzero(classes.of_state == place), mdp) for place, name in enumerate(classes.names)}


def _visited(states: Any, name: str, mdp: MDP) -> str | list[str]:
    """The label or state the secret is named after, if it is, so that the name survives."""
    after = mdp.state_index()
    same_state = name in after and states.tolist() == [after[name]]
    same_label = name in mdp.labels and name not in after and states.tolist() == mdp.labels[name].tolist()
    return name if same_state or same_label else _named(states, mdp)


def automaton_to_dict(automaton: Automaton) -> Plain:
    """An automaton as it is written in a problem file."""
    names = automaton.states
    return {
        "states": list(names),
        "initial": names[automaton.initial],
        "accepting": [names[state] for state in sorted(automaton.accepting)],
        "edges": [
            {"from": names[edge.source], "to": names[edge.target], "when": str(edge.guard)} for edge in automaton.edges
        ],
        "reads": automaton.reads,
    }


def _task(task: Task, mdp: MDP) -> Plain:
    told: Plain = {} if task.return_at_least is None else {"return_at_least": task.return_at_least}
    told["over"] = task.over
    if task.minimise:
        told["objective"] = "minimise"
    told |= write_uncertainty(task.of)
    if task.requirements:
        told["requirements"] = [_requirement(requirement, mdp) for requirement in task.requirements]
    return told


def _requirement(requirement: Requirement, mdp: MDP) -> Plain:
    match requirement:
        case ReturnAtLeast(reward, threshold):
            return {"reward": reward, "return_at_least": threshold}
        case Reach(states, threshold, name):
            told: Plain = {"reach": _named(states, mdp), "probability_at_least": threshold}
        case Satisfy(automaton, threshold, name):
            told = {"automaton": automaton_to_dict(automaton), "probability_at_least": threshold}
    return told | ({"name": name} if name else {})


def _memory(memory: Memory, mdp: MDP | None) -> Plain:
    nodes = memory.nodes
    if memory.free:
        starts: Any = memory.start.dense().tolist() if mdp is None else _rows(memory.start, mdp.states, nodes)
        return {"nodes": list(nodes), "start" if mdp is None else "start_in": starts, "update": "free"}
    if mdp is None:
        update = memory.updates.dense()[memory.update_of]
        return {"nodes": list(nodes), "start": memory.start.dense().tolist(), "update": update.tolist()}
    starts = _rows(memory.start, mdp.states, nodes)
    rules = [rule for node in range(len(nodes)) for rule in _rules(memory, node, mdp)]
    return {"nodes": list(nodes), "start_in": starts, "update": rules}


def _rules(memory: Memory, node: int, mdp: MDP) -> list[Plain]:
    """The rules of one node: for each update the actions that share the states on which they make it."""
    told: list[Plain] = []
    updates = memory.update_of[node]  # [state, action]
    for update in np.unique(updates).tolist():
        to = _row(memory.updates, update, memory.nodes)
        if to == {memory.nodes[node]: 1.0}:
            continue  # no rule keeps the node
        actions_of: dict[tuple[int, ...], list[str]] = {}
        for action, name in enumerate(mdp.actions):
            states = tuple(np.flatnonzero(updates[:, action] == update).tolist())
            if states:
                actions_of.setdefault(states, []).append(name)
        for states, actions in actions_of.items():
            rule: Plain = {"from": memory.nodes[node], "to": to}
            if len(states) < mdp.num_states:
                rule["state"] = _named(states, mdp)
            if len(actions) < len(mdp.actions):
                rule["action"] = actions
            told.append(rule)
    return told
