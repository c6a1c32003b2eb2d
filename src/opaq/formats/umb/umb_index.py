"""The index of a UMB file: what it declares, held against what can be read; and the variables it describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from opaq.errors import Faults
from opaq.formats.umb.umb_archive import Archive
from opaq.formats.umb.umb_values import INDEX, fields_of, readable, variable
from opaq.model.arrays import frozen

MAX_STATES = 5_000_000
_MAX_INDEX = 8 << 20
_VERSIONS = (0, 1)
_MAX_COUNT = 1 << 40
_COUNTS = ("states", "choices", "branches", "initial-states", "choice-actions", "observations", "players")
_HELPERS = {"_OutOfBoundsBit"}  # not a variable of the model


@dataclass(frozen=True, slots=True)
class Reading:
    """An archive, its index, and the warnings so far."""

    archive: Archive
    index: Mapping[str, Any]
    system: Mapping[str, Any]
    counts: Mapping[str, int]
    faults: Faults = field(default_factory=Faults)


def opened(archive: Archive) -> Reading:
    """The index of an archive; refused unless it declares a model that can be read."""
    content = archive.bytes(INDEX)
    if len(content) > _MAX_INDEX:
        archive.fail(INDEX, f"has {len(content):,} bytes; the limit is {_MAX_INDEX:,}")
    try:
        index = json.loads(bytes(content))
        json.dumps(index, ensure_ascii=False).encode()  # half a character could never be written again
    except (ValueError, RecursionError) as error:
        archive.fail(INDEX, f"is not JSON: {error}")
    if not isinstance(index, dict) or not isinstance(index.get("transition-system"), dict):
        archive.fail(INDEX, "has no transition-system")
    if index.get("format-version") not in _VERSIONS:
        archive.fail(INDEX, f"format-version {index.get('format-version')!r} is unknown", "version 1 is read here")
    system = index["transition-system"]
    counts = {name: _count(archive, system, name) for name in _COUNTS}
    if system.get("time") != "discrete":
        archive.fail(INDEX, f"time is {system.get('time')!r}", "only discrete-time models can be read")
    if counts["players"] > 1:
        archive.fail(INDEX, f"the model is a game of {counts['players']} players", "at most one player can be read")
    if not counts["states"]:
        archive.fail(INDEX, "the model has no states")
    if counts["states"] > MAX_STATES:
        archive.fail(INDEX, f"the model has {counts['states']:,} states", f"at most {MAX_STATES:,} can be read")
    return Reading(archive, index, system, counts)


def _count(archive: Archive, system: Mapping[str, Any], name: str) -> int:
    value = system.get(f"#{name}", 0)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        archive.fail(INDEX, f"transition-system.#{name} is {value!r}, not a count")
    return value


def valuations(reading: Reading, entity: str, count: int) -> dict[str, NDArray[Any]]:
    """Variable -> its value for every state (or observation)."""
    declared = mapping(reading, mapping(reading, reading.index, "valuations"), entity)
    if not declared:
        return {}
    where, member = f"valuations.{entity}", f"valuations/{entity}/valuations.bin"
    classes = declared.get("classes")
    if not isinstance(classes, list) or len(classes) != 1 or not isinstance(classes[0], dict):
        reading.faults.warn(where, "valuations of several classes are not read", "the entries are named by number")
        return {}
    fields, size = fields_of(reading.archive, classes[0].get("variables"), f"{where}.classes[0].variables")
    entries = reading.archive.array(member, "u1", count * size).reshape(count, size)
    for skipped in [entry.name for entry in fields if not readable(entry)]:
        reading.faults.warn(f"{where}.{skipped}", "variables of this type are not read")
    kept = [entry for entry in fields if readable(entry) and entry.name not in _HELPERS]
    return {entry.name: frozen(variable(entries, entry)) for entry in kept}


def mapping(reading: Reading, holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A JSON object inside another; nothing is as good as an empty one."""
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        reading.archive.fail(INDEX, f"{key} is not an object")
    return value
