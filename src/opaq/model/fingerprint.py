"""Fingerprints of problems and models, part by part, so that a difference can be named.

Floats enter with 40 of their 53 bits, so that two platforms that round the last bits differently agree. Used to refuse
a run folder of another problem (`problem_parts`) and to recognise the model that a policy file was made for
(`model_fingerprint`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from opaq.model.mdp import MDP
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.uncertainty import Shannon

_BITS = 40  # of a float's 53: what two machines may round differently does not count

Parts = dict[str, Any]  # the name of a part, in words -> a number, a short text, or a digest


def digest(value: Any) -> str:
    """Return "sha256:..." of any value made of dataclasses, arrays, mappings, sequences, names and numbers.

    Fields with metadata {"decides": False} do not count. Raises TypeError for other kinds of values.
    """
    return _hash(b"opaq-1", _pieces(value))


def _hash(version: bytes, pieces: Iterable[bytes]) -> str:
    """Return "sha256:..." over pieces of bytes, each behind its length so that pieces cannot run into each other."""
    content = hashlib.sha256(version)
    for piece in pieces:
        content.update(len(piece).to_bytes(8, "little"))
        content.update(piece)
    return f"sha256:{content.hexdigest()}"


def problem_parts(problem: Problem, policy_class: PolicyClass | None = None) -> Parts:
    """Return all that decides the answer to a problem, by part; the problem's name does not count.

    Numbers are kept as they are, everything else as a digest. Keys read as in "the horizon was 12 and is 11", "the
    transitions differ". policy_class: the problem's own unless given.
    """
    mdp, observer, task = problem.mdp, problem.observer, problem.task
    policy_class = policy_class or problem.policy_class
    several = {"observers": problem.observers, "secrets": problem.secrets, "about": (problem.of, problem.for_)}
    named = several if len(problem.figures) > 1 else {}
    asked = {"pairs": task.pairs, "taken": task.taken, "limits": task.limits, "assumptions": problem.assumptions}
    stated = named | {key: value for key, value in asked.items() if value and value != "mean"}
    return {
        "horizon": problem.horizon,
        "discount": float(problem.discount),
        "number of states": mdp.num_states,
        "number of actions": len(mdp.actions),
        "names of the states": digest(mdp.states),
        "names of the actions": digest(mdp.actions),
        "start distribution": digest(mdp.start),
        "enabled actions": digest((mdp.choice_start, mdp.choice_action)),
        "transitions": digest(mdp.transitions),
        "rewards": digest((mdp.rewards, mdp.named_rewards)),
        "labels": digest({label: np.sort(states) for label, states in mdp.labels.items()}),
        "number of observations": len(observer.observations),
        "observer": digest(observer),
        "kind of secret": type(problem.secret).__name__,
        "secret": digest(problem.secret),
        "least return asked for": None if task.return_at_least is None else float(task.return_at_least),
        "return's horizon": task.over,
        "direction of the search": _direction(task),
        **({} if task.when == "end" else {"moments that the task is about": task.when}),
        "further requirements of the task": digest(task.requirements),
        "conditions of the policy": ", ".join(policy_class.conditions_on),
        "policy class": digest(policy_class),
    } | ({"observers, secrets and figures": digest(stated)} if stated else {})


def _direction(task: Task) -> str:
    """Return what is maximised or minimised, in words; losses by their digest."""
    of: Any = task.of
    if of == Shannon():
        return "least opaque" if task.minimise else "most opaque"
    state = f" ({digest(of)})" if is_dataclass(of) and fields(of) else ""
    return f"{'least' if task.minimise else 'most'} {task.of.title}{state}"


def _pieces(value: Any) -> Iterator[bytes]:
    """Yield a value as pieces of bytes; every kind of value begins with its own mark."""
    if is_dataclass(value) and not isinstance(value, type):
        yield f"data {type(value).__name__}".encode()
        for field in (each for each in fields(value) if each.metadata.get("decides", True)):
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        yield f"array {value.shape}".encode()
        yield _floats(value) if value.dtype.kind == "f" else _whole(value)
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key in sorted(value, key=str):
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif isinstance(value, tuple | list | frozenset | set):
        yield f"sequence {len(value)}".encode()
        for item in sorted(value) if isinstance(value, frozenset | set) else value:
            yield from _pieces(item)
    elif isinstance(value, float | np.floating):
        yield b"float"
        yield _floats(np.array([value]))
    else:
        yield _atom(value)


def _atom(value: Any) -> bytes:
    """Return a single value as bytes."""
    if value is None or isinstance(value, bool | int | np.integer | np.bool_):
        return f"plain {value if value is None else int(value)}".encode()
    if isinstance(value, str):
        return b"text " + value.encode("utf-8", "surrogatepass")
    raise TypeError(f"no fingerprint of a {type(value).__name__}")


def _whole(values: Any) -> bytes:
    """Return whole numbers as little-endian 64-bit bytes."""
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def _floats(values: Any) -> bytes:
    """Return floats as bytes: rounded numbers, and a mark per number for NaN (1), infinity (2) and -infinity (3)."""
    values = np.asarray(values, dtype=np.float64) + 0.0
    finite = np.isfinite(values)
    odd = np.where(finite, 0, np.where(np.isnan(values), 1, np.where(values > 0, 2, 3)))
    return _round_floats(np.where(finite, values, 0.0)) + _whole(odd)


def model_fingerprint(mdp: MDP) -> str:
    """Return "sha256:..." over names, start, transitions, rewards and labels; the same on every platform."""
    return _hash(b"opaq-model-1", _model_pieces(mdp))


def _model_pieces(mdp: MDP) -> Iterable[bytes]:
    """Yield every part of a model in a fixed order, as bytes."""
    yield from _names(mdp.states)
    yield from _names(mdp.actions)
    yield _round_floats(mdp.start)
    yield _whole(mdp.choice_start)
    yield _whole(mdp.choice_action)
    row, column, value = mdp.transitions.row_of_entry(), mdp.transitions.columns, mdp.transitions.values
    order = np.lexsort((column, row))
    kept = order[value[order] != 0]
    yield _whole(row[kept])
    yield _whole(column[kept])
    yield _round_floats(value[kept])
    yield _round_floats(mdp.rewards)
    for reward in sorted(mdp.named_rewards):
        yield reward.encode("utf-8", "surrogatepass")
        yield _round_floats(mdp.named_rewards[reward])
    yield b"labels"
    for label in sorted(mdp.labels):
        yield label.encode("utf-8", "surrogatepass")
        yield _whole(np.sort(mdp.labels[label]))


def _names(names: tuple[str, ...]) -> Iterable[bytes]:
    """Yield how many names there are, then each of them."""
    yield len(names).to_bytes(8, "little")
    yield from (name.encode("utf-8", "surrogatepass") for name in names)


def _round_floats(values: Any) -> bytes:
    """Return finite floats as whole numbers of 40 bits and exponents; -0.0 is 0.0."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64) + 0.0)
    whole = np.rint(mantissa * 2.0**_BITS).astype(np.int64)
    carried = np.abs(whole) == 2**_BITS
    whole, exponent = np.where(carried, whole // 2, whole), np.where(carried, exponent + 1, exponent)
    return _whole(whole) + _whole(np.where(whole == 0, 0, exponent))
