"""Policy classes: by name, which contains which, the ladder for a problem, and policies lifted to larger classes.

A class is what a policy may look at, e.g. the state and the time. A class that looks at more contains those that look
at less: `lift` writes a policy of the smaller class as one of the larger that behaves the same, so that a search in
the larger class can begin there and never ends below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opaq.errors import Fault, Faults, InputError
from opaq.model.arrays import FloatArray
from opaq.model.conditions import (
    AutomatonState,
    BeliefNode,
    Condition,
    CurrentState,
    LastStates,
    MemoryNode,
    Observations,
    Projection,
    StartState,
    Time,
    projection,
    refines,
)
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.product.compile import Product
from opaq.solvers.options import MOST_FREE_NODES
from opaq.spec.cursor import Scope, read_with_faults
from opaq.spec.memory_part import free_memory
from opaq.spec.policy_part import build_policy_class, read_policy_class

_STATES = (CurrentState, LastStates)  # what coarser classes always look at


@dataclass(frozen=True, slots=True)
class SizedCondition:
    """A condition that is written with a number in the name of a class, "memory:2"."""

    unit: str  # what is counted
    most: Callable[[Problem], int]
    value: Callable[[Problem, int], object]  # what stands beside the condition's key in a problem file
    words: tuple[str, ...] = ()  # that may stand in place of the number


SIZED_CONDITIONS: dict[str, SizedCondition] = {
    LastStates.key: SizedCondition("states", lambda problem: problem.horizon + 1, lambda problem, count: count),
    MemoryNode.key: SizedCondition(
        "nodes", lambda problem: MOST_FREE_NODES, lambda problem, count: free_memory(problem.mdp, count)
    ),
    Observations.key: SizedCondition(
        "observations", lambda problem: problem.horizon + 1, lambda problem, count: count, words=("all",)
    ),
}


def class_name(policy_class: PolicyClass) -> str:
    """Return the conditions as `parse_class` reads them, e.g. "state, time" or "state, memory:2"."""
    return ", ".join(condition.label for condition in policy_class.conditions)


def has_many_optima(policy_class: PolicyClass) -> bool:
    """Return whether policies of a class often have several local optima: if their memory is free to use or random."""
    memory = policy_class.memory
    if memory is None:
        return False
    return memory.free or any(
        bool(((rows.values > 0.0) & (rows.values < 1.0)).any()) for rows in (memory.start, memory.updates)
    )


def parse_class(text: str, problem: Problem) -> PolicyClass:
    """Read a policy class from its conditions, e.g. "state,time", "last_states:2" or "state,memory:2".

    memory:N is a memory of N nodes that the policy is free to use; alone it stands for "state,memory:N".
    observations:N are the last N observations of the observer, observations:all all of them. belief is the node of the
    graph that the problem's own class has: such graphs come from the program of a task that minimises.
    Raises InputError with every fault.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) == 1 and names[0].startswith(MemoryNode.key):
        names = [CurrentState.key, *names]
    where, faults = f"policy class '{text.strip()}'", Faults()
    entries = [entry for name in names if (entry := _condition(name, problem, where, faults)) is not None]
    noted = Faults()
    read = build_policy_class(entries, problem.mdp, secret=problem.policy_secret, faults=noted) if entries else None
    faults.errors += [Fault(where, fault.message, fault.advice) for fault in noted.errors]
    faults.raise_if_any()
    if read is None:
        raise InputError([Fault(where, "names no condition", "write e.g. state,time")])
    return read


def choose_class(problem: Problem, *, conditions: str | None = None, memory_nodes: int | None = None) -> PolicyClass:
    """Return the problem's own class, or another where options say so.

    conditions: what the policy looks at instead, e.g. "state,time". memory_nodes: the size of a memory that it is free
    to use, which takes the place of any other memory. Raises InputError when the conditions do not fit.
    """
    chosen = problem.policy_class
    if conditions is not None:
        chosen = parse_class(conditions, problem)
    if memory_nodes is None:
        return chosen
    others = (condition for condition in chosen.conditions if not isinstance(condition, MemoryNode))
    return PolicyClass((*others, MemoryNode(free_memory(problem.mdp, memory_nodes))))


def _condition(name: str, problem: Problem, where: str, faults: Faults) -> object:
    """Return one condition as problem files write it; None after a fault, which is added to `faults`."""
    key, _, count = name.partition(":")
    sized = SIZED_CONDITIONS.get(key)
    if key == BeliefNode.key:
        own = next((one.graph for one in problem.policy_class.conditions if isinstance(one, BeliefNode)), None)
        if own is None:
            advice = "a task that minimises has one: solve with the conditions 'belief' alone"
            faults.error(where, "a belief class comes from its program", advice)
        return None if own is None else {key: own}
    if sized is None:
        return name
    if count in sized.words:
        return {key: count}
    most = sized.most(problem)
    if not count.isdecimal() or not 1 <= int(count) <= most:
        advice = f"say how many {sized.unit}, 1 to {most}: {key}:{min(2, most)}"
        faults.error(where, f"'{name}' needs a number", advice)
        return None
    return {key: sized.value(problem, int(count))}


def parse_classes(classes: Iterable[PolicyClass | str], problem: Problem) -> tuple[PolicyClass, ...]:
    """Return classes of which some are given by name, coarser ones first. Raises InputError with the faults of all."""
    named, faults = [], Faults()
    for given in classes:
        try:
            named.append(parse_class(given, problem) if isinstance(given, str) else check_class(given, problem))
        except InputError as error:
            faults.errors += error.faults
    names = [class_name(policy_class) for policy_class in named]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.error(f"policy class '{name}'", "is listed twice", "keep one of them")
    faults.raise_if_any()
    return sort_classes(named)


def check_class(given: object, problem: Problem) -> PolicyClass:
    """Return a policy class that is given as an object. Raises InputError where its parts do not fit the problem."""
    if not isinstance(given, PolicyClass):
        finding = f"is of the type {type(given).__name__}"
        raise InputError([Fault("policy class", finding, "give a name such as 'state,time', or a PolicyClass")])
    names = Scope.of(problem.mdp, has_automaton=isinstance(problem.policy_secret, Language))
    return read_with_faults(read_policy_class, names.cursor(given, f"policy class '{class_name(given)}'"), None)


def default_classes(problem: Problem) -> tuple[PolicyClass, ...]:
    """Return the ladder of a problem: from the state alone to a clock and free memories, with its own class."""
    known: list[Condition] = [AutomatonState()] if isinstance(problem.policy_secret, Language) else []
    known += [StartState()] if np.count_nonzero(problem.mdp.start) > 1 else []
    plain = [(CurrentState(),), *((CurrentState(), one) for one in known)]
    timed = [(*conditions, Time()) for conditions in plain] if problem.horizon > 0 else []
    nodes = (2, 3) if problem.horizon > 0 else ()
    remembering = [(CurrentState(), MemoryNode(free_memory(problem.mdp, count))) for count in nodes]
    classes = [PolicyClass(conditions) for conditions in (*plain, *timed, *remembering)]
    own = problem.policy_class
    if not any(contains(there, own) and contains(own, there) for there in classes):
        classes.append(own)
    return sort_classes(classes)


def sort_classes(classes: Sequence[PolicyClass]) -> tuple[PolicyClass, ...]:
    """Return the classes sorted: each after those that it contains, otherwise in the order given.

    Containment is a partial order: the first class that strictly contains none of those left comes next.
    """
    left, ordered = list(classes), []
    while left:
        head = next(one for one in left if not any(contains(one, other) and not contains(other, one) for other in left))
        ordered.append(head)
        left = [one for one in left if one is not head]
    return tuple(ordered)


def contains(fine: PolicyClass, coarse: PolicyClass) -> bool:
    """Return whether every policy of the coarse class is also one of the fine class, by what the two look at.

    It is where every condition of the coarse class is told by some condition of the fine one.
    """
    return all(any(refines(one, wanted) for one in fine.conditions) for wanted in coarse.conditions)


def coarser_classes(policy_class: PolicyClass, problem: Problem) -> tuple[PolicyClass, ...]:
    """Return the classes that a class contains, coarser ones first: it with conditions dropped or made coarser.

    problem: whose policies they are. `state` or `last_states` always remains; last_states:k becomes last_states:k-1 and
    in the end state, and a free memory of k nodes one of k - 1 nodes (of k / 2 where there are more than four).
    """
    listed, waiting = list[PolicyClass](), [policy_class]
    while waiting:
        for coarse in _next_coarser(waiting.pop(), problem):
            if not any(contains(coarse, known) and contains(known, coarse) for known in listed):
                listed.append(coarse)
                waiting.append(coarse)
    return sort_classes(listed)


def _next_coarser(policy_class: PolicyClass, problem: Problem) -> list[PolicyClass]:
    """Return the classes with one condition less, or with one that tells less."""
    found = list[PolicyClass]()
    for index, condition in enumerate(policy_class.conditions):
        rest = (*policy_class.conditions[:index], *policy_class.conditions[index + 1 :])
        coarser: list[tuple[Condition, ...]] = [rest]
        if isinstance(condition, LastStates) and condition.count > 1:
            one = LastStates(condition.count - 1) if condition.count > 2 else CurrentState()
            coarser.append((one, *(other for other in rest if other != one)))
        if isinstance(condition, MemoryNode) and condition.memory.free and len(condition.memory.nodes) > 2:
            count = len(condition.memory.nodes)
            smaller = count - 1 if count <= 4 else count // 2
            coarser.append((*rest, MemoryNode(free_memory(problem.mdp, smaller))))
        found += [PolicyClass(each) for each in coarser if any(isinstance(one, _STATES) for one in each)]
    return [each for each in found if contains(policy_class, each) and not contains(each, policy_class)]


def lift(policy: Policy, product: Product, *, rng: np.random.Generator) -> FloatArray:
    """Return the policy vector [slot] of `product` that behaves as the policy, whose class its own must contain.

    Rows are matched by what the coarser class looks at. Every node of a free memory copies the row of the node it
    stands for, and which of the copies comes next is drawn from `rng`: that changes nothing about the behaviour, and
    an even choice would be a saddle at which no node differs from another.
    Raises InputError when the class of the product does not contain that of the policy.
    """
    coarse, fine = policy.policy_class, product.policy_class
    if not contains(fine, coarse):
        reason = f"policies on {class_name(coarse)} are not policies on {class_name(fine)}"
        raise InputError([Fault("policy", reason)])
    key_of, row_start = _projection(fine, coarse), product.process.row_start
    names = _action_names(product, coarse)
    pi = product.process.uniform()
    for row, key in enumerate(product.rows):
        probabilities = policy.rows.get(key_of(key))
        if probabilities is not None:
            slots = slice(int(row_start[row]), int(row_start[row + 1]))
            pi[slots] = [probabilities.get(names[action], 0.0) for action in product.slot_action[slots]]
    shares = _shares(product, coarse, rng)
    return pi if shares is None else pi * shares


def _projection(fine: PolicyClass, coarse: PolicyClass) -> Callable[[RowKey], RowKey]:
    """Return the function from a row of the finer class to the row of the coarser one that it refines."""
    parts = [_part(fine, condition) for condition in coarse.conditions]
    return lambda key: tuple(project(key[index]) for index, project in parts)


def _part(fine: PolicyClass, coarse: Condition) -> tuple[int, Projection]:
    """Return which part of the finer class's keys tells a condition, and how."""
    projections = ((index, projection(condition, coarse)) for index, condition in enumerate(fine.conditions))
    return next((index, project) for index, project in projections if project is not None)


def _action_names(product: Product, coarse: PolicyClass) -> list[str]:
    """Return what the coarser policy calls each action of the product."""
    memory = product.policy_class.memory
    if memory is None or not memory.free:
        return list(product.actions)
    split = [action.rpartition(">") for action in product.actions]
    if coarse.memory is None:
        return [action for action, _, _ in split]
    stands_for = projection(MemoryNode(memory), MemoryNode(coarse.memory))
    assert stands_for is not None
    return [f"{action}>{stands_for(node)}" for action, _, node in split]


def _shares(product: Product, coarse: PolicyClass, rng: np.random.Generator) -> FloatArray | None:
    """Return [slot]: how the chance of going to a node of the coarser policy is divided among its copies.

    Nodes k, k + n, k + 2 n, .. copy node k of the coarser policy's n nodes. None where there is no free memory.
    """
    memory = product.policy_class.memory
    if memory is None or not memory.free:
        return None
    count, kept = len(memory.nodes), 1 if coarse.memory is None else len(coarse.memory.nodes)
    weights = np.exp(rng.normal(size=(product.process.num_slots // count, count)))  # slots: nodes of an action in a row
    for node in range(kept):
        weights[:, node::kept] /= weights[:, node::kept].sum(axis=1, keepdims=True)
    return weights.reshape(-1)
