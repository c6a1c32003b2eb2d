"""Paths into a problem file, such as `task.requirements.0.probability_at_least`: what stands there is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opaq.choices import shown
from opaq.errors import Fault, InputError

_INDEX = re.compile(r"\[(\d+)\]")
_THRESHOLD = re.compile(r"task\.(requirements\.\d+\.)?(return_at_least|probability_at_least)")
_REQUIREMENTS = "task.requirements"
KEEP = "keep"  # a sensor as the problem file has it


def normal_path(path: str) -> str:
    """A path in one spelling: `requirements[0]` becomes `requirements.0`, and `seed` is an option of the solve."""
    spelled = _INDEX.sub(r".\1", path)
    return "solve.seed" if spelled == "seed" else spelled


def is_threshold(path: str) -> bool:
    """Whether a path names the threshold of a task: points that differ in it alone lie on one front."""
    return _THRESHOLD.fullmatch(normal_path(path)) is not None


def overlap(one: str, other: str) -> bool:
    """Whether a change at one path would undo a change at the other."""
    first, second = f"{normal_path(one)}.", f"{normal_path(other)}."
    return first.startswith(second) or second.startswith(first)


def changed(spec: Any, path: str, value: Any) -> Any:
    """A copy of what a problem file says with another value at a path; None takes out what is there.

    Mappings that are missing on the way are made. Raises InputError where the path leads nowhere. Keys may hold dots:
    the longest key that is there counts.
    """
    return _put(spec, normal_path(path), value, "")


def with_sensor(spec: Any, name: str, change: Any) -> Any:
    """A copy with one sensor as it was ("keep"), without it (None), or with some of its keys changed."""
    path = f"observer.sensors.{name}"
    if change == KEEP:
        return spec
    before = _value_at(spec, ("observer", "sensors", name))
    if isinstance(before, Mapping) and isinstance(change, Mapping):
        return changed(spec, path, {**before, **change})
    if before is None and change is None:
        raise InputError([Fault(path, "there is no such sensor to remove")])
    return changed(spec, path, change)


def _value_at(spec: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        spec = spec.get(key) if isinstance(spec, Mapping) else None
    return spec


def _put(holder: Any, rest: str, value: Any, before: str) -> Any:
    if isinstance(holder, list):
        return _put_item(holder, rest, value, before)
    if not isinstance(holder, Mapping):
        raise InputError([Fault(f"{before}.{rest}", f"{before} is {shown(holder)}, which has no keys")])
    key, rest = _key(holder, rest)
    path = f"{before}.{key}" if before else str(key)
    if rest:
        inner = holder.get(key)
        if inner is None and path == _REQUIREMENTS and rest.split(".")[0].isdigit():
            found = f"the problem file has no {path}, and so no entry '{rest.split('.')[0]}'"
            raise InputError([Fault(f"{path}.{rest}", found, "add the requirement there, or vary the whole list")])
        return {**holder, key: _put({} if inner is None else inner, rest, value, path)}
    return {**holder, key: value} if value is not None else {name: held for name, held in holder.items() if name != key}


def _put_item(holder: list[Any], rest: str, value: Any, before: str) -> list[Any]:
    key, _, rest = rest.partition(".")
    if not key.isdigit() or int(key) >= len(holder):
        found = f"{before} is a list of {len(holder)}, which has no entry '{key}'"
        raise InputError([Fault(f"{before}.{key}", found, "entries count from 0")])
    index = int(key)
    new = [_put(holder[index], rest, value, f"{before}.{key}")] if rest else [] if value is None else [value]
    return [*holder[:index], *new, *holder[index + 1 :]]


def _key(holder: Mapping[Any, Any], rest: str) -> tuple[Any, str]:
    """The key that a path begins with, as it is spelled there, and what is left of the path."""
    names = {str(key): key for key in holder}
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in names:
            return names[name], ".".join(parts[count:])
    return parts[0], ".".join(parts[1:])
