"""Policy classes by name, which of them contain which, and the ladder of classes that suits a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from opaq.errors import Fault, Faults, InputError
from opaq.model.arrays import SparseRows
from opaq.model.policy import CONDITIONS, Memory, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.solvers.options import MOST_FREE_NODES
from opaq.spec.memory_part import free_memory
from opaq.spec.policy_part import build_policy_class

_COUNTED = {"memory": "nodes", "last_states": "states"}  # conditions that are written with a number, "memory:2"


def class_name(policy_class: PolicyClass) -> str:
    """The conditions as they are read by `named_class`, e.g. "state, time" or "state, memory:2"."""
    memory = policy_class.memory
    counts = {"last_states": policy_class.last_states, "memory": len(memory.nodes) if memory and memory.free else 0}
    return ", ".join(f"{name}:{counts[name]}" if counts.get(name) else name for name in policy_class.conditions_on)


def named_class(text: str, problem: Problem) -> PolicyClass:
    """A policy class from its conditions, e.g. "state,time", "last_states:2" or "state,memory:2".

    memory:N is a memory of N nodes that the policy is free to use; alone it stands for "state,memory:N".
    Raises InputError with every fault.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) == 1 and names[0].startswith("memory"):
        names = ["state", *names]
    where, faults = f"policy class '{text.strip()}'", Faults()
    entries = [entry for name in names if (entry := _condition(name, problem, where, faults)) is not None]
    found = Faults()
    read = build_policy_class(entries, problem.mdp, secret=problem.secret, faults=found) if entries else None
    faults.errors += [Fault(where, fault.found, fault.advice) for fault in found.errors]
    faults.raise_if_any()
    if read is None:
        raise InputError([Fault(where, "names no condition", "write e.g. state,time")])
    return read


def chosen_class(problem: Problem, *, conditions: str | None = None, memory_nodes: int | None = None) -> PolicyClass:
    """The problem's own class, with other conditions ("state,time") or a memory of some nodes, free to use."""
    stated = problem.policy_class
    if conditions is not None:
        stated = build_policy_class(conditions.split(","), problem.mdp, secret=problem.secret)
    if memory_nodes is None:
        return stated
    wanted = (*(name for name in stated.conditions_on if name != "memory"), "memory")
    return replace(stated, conditions_on=wanted, memory=free_memory(problem.mdp, memory_nodes))


def _condition(name: str, problem: Problem, where: str, faults: Faults) -> object:
    """One condition as problem files state it; None after a fault."""
    kind, _, count = name.partition(":")
    if kind not in _COUNTED:
        return name
    most = MOST_FREE_NODES if kind == "memory" else problem.horizon + 1
    if not count.isdecimal() or not 1 <= int(count) <= most:
        advice = f"say how many {_COUNTED[kind]}, 1 to {most}: {kind}:{min(2, most)}"
        faults.error(where, f"'{name}' needs a number", advice)
        return None
    return {kind: free_memory(problem.mdp, int(count)) if kind == "memory" else int(count)}


def named_classes(classes: Iterable[PolicyClass | str], problem: Problem) -> tuple[PolicyClass, ...]:
    """Classes of which some are given by name, coarser ones first; InputError lists the faults of all."""
    found, faults = [], Faults()
    for given in classes:
        try:
            found.append(named_class(given, problem) if isinstance(given, str) else checked_class(given, problem))
        except InputError as error:
            faults.errors += error.faults
    names = [class_name(policy_class) for policy_class in found]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.error(f"policy class '{name}'", "is listed twice", "keep one of them")
    faults.raise_if_any()
    return in_order(found)


def checked_class(given: object, problem: Problem) -> PolicyClass:
    """A policy class as an object, if it is one whose parts fit the problem; InputError otherwise."""
    if not isinstance(given, PolicyClass):
        found = f"is of the type {type(given).__name__}"
        raise InputError([Fault("policy class", found, "give a name such as 'state,time', or a PolicyClass")])
    if not isinstance(given.conditions_on, tuple) or not all(isinstance(name, str) for name in given.conditions_on):
        found = f"conditions_on is {given.conditions_on!r:.60}"
        raise InputError([Fault("policy class", found, "give a tuple of names, e.g. ('state', 'time')")])
    where = f"policy class '{', '.join(given.conditions_on)}'"
    faults = Faults()
    for name in (name for name in given.conditions_on if name not in CONDITIONS):
        faults.error(where, f"unknown condition '{name}'", f"use some of {', '.join(CONDITIONS)}")
    if ("memory" in given.conditions_on) != isinstance(given.memory, Memory):
        faults.error(where, "memory and the condition 'memory' go together", "give both or neither")
    if "last_states" in given.conditions_on and not given.last_states >= 1:
        faults.error(where, f"last_states is {given.last_states}", "say how many states, at least 1")
    if "automaton" in given.conditions_on and not isinstance(problem.secret, Language):
        faults.error(where, "the secret has no automaton to look at", "leave out 'automaton'")
    faults.raise_if_any()
    return given


def default_classes(problem: Problem) -> tuple[PolicyClass, ...]:
    """From the state alone to a clock and free memories, and the problem's own class among them."""
    known = ["automaton"] if isinstance(problem.secret, Language) else []
    known += ["start"] if np.count_nonzero(problem.mdp.start) > 1 else []
    plain = [("state",), *(("state", name) for name in known)]
    timed = [(*conditions, "time") for conditions in plain] if problem.horizon > 0 else []
    classes = [PolicyClass(conditions) for conditions in (*plain, *timed)]
    nodes = (2, 3) if problem.horizon > 0 else ()
    classes += [PolicyClass(("state", "memory"), memory=free_memory(problem.mdp, count)) for count in nodes]
    own = problem.policy_class
    if not any(contains(there, own) and contains(own, there) for there in classes):
        classes.append(own)
    return in_order(classes)


def in_order(classes: Sequence[PolicyClass]) -> tuple[PolicyClass, ...]:
    """The same classes, each after those that it contains; otherwise in the order given."""
    left, ordered = list(classes), []
    while left:
        head = next(one for one in left if not any(contains(one, other) and not contains(other, one) for other in left))
        ordered.append(head)
        left = [one for one in left if one is not head]
    return tuple(ordered)


def contains(fine: PolicyClass, coarse: PolicyClass) -> bool:
    """Whether every policy of the coarse class is also one of the fine class, by what the two look at."""
    shown = {*fine.conditions_on} | ({"state"} if "last_states" in fine.conditions_on else set())
    wanted = {*coarse.conditions_on} - {"memory"}
    return wanted <= shown and coarse.last_states <= fine.last_states and _holds(fine.memory, coarse.memory)


def _holds(fine: Memory | None, coarse: Memory | None) -> bool:
    """Whether a memory can do what another does: the same machine, or a free one of at least as many nodes.

    Node n of the larger free memory stands for node n modulo the size of the smaller one.
    """
    if coarse is None:
        return True
    if fine is None or fine.free != coarse.free:
        return False
    if coarse.free:
        size = len(coarse.nodes)
        nodes = fine.start.columns % size
        return len(fine.nodes) >= size and _same(_folded(fine.start, nodes, size), coarse.start)
    return (
        fine.nodes == coarse.nodes
        and _same(fine.start, coarse.start)
        and np.array_equal(fine.update_of, coarse.update_of)
        and _same(fine.updates, coarse.updates)
    )


def _folded(rows: SparseRows, columns: object, num_columns: int) -> SparseRows:
    return SparseRows.from_entries(rows.row_of_entry(), columns, rows.values, shape=(rows.num_rows, num_columns))


def _same(one: SparseRows, other: SparseRows) -> bool:
    return all(
        np.array_equal(mine, theirs)
        for mine, theirs in (
            (one.starts, other.starts),
            (one.columns, other.columns),
            (one.values, other.values),
        )
    )
