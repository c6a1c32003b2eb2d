"""Sensors that fire independently -> one observation a state: the set of those that fired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray, SparseRows, spread
from opaq.spec.cursor import at, check_keys, mapping, name, probability
from opaq.spec.names import Names, state_set

MAX_OUTCOMES = 1_024  # in one state
MAX_PAIRS = 20_000_000  # states x sensors
MAX_ENTRIES = 20_000_000  # outcomes of all states together
KEYS = ("covers", "detects", "false_alarm")
_REQUIRED = {
    "covers": "list the states, cells or labels in its range",
    "detects": "give the probability that it fires in its range",
}


@dataclass(frozen=True, slots=True)
class Sensor:
    """Fires with probability `detects` in the states it covers and `false_alarm` elsewhere."""

    name: str
    covers: IntArray
    detects: float
    false_alarm: float


def read_sensors(
    value: Any, path: str, faults: Faults, names: Names, *, null: Any
) -> tuple[tuple[str, ...], SparseRows] | None:
    """Observations and emission of sensors {name: {covers, detects, false_alarm}}."""
    quiet = name(null, path.removesuffix("sensors") + "null", faults)
    table = mapping(value, path, faults)
    if table is None:
        return None
    if not table:
        faults.error(path, "is empty", "list at least one sensor")
        return None
    read = [_read_sensor(key, spec, at(path, key), faults, names) for key, spec in table.items()]
    if quiet in table:
        faults.error(at(path, quiet), "is also the name for no sensor at all", "rename it or set 'null'")
        return None
    sensors = [sensor for sensor in read if sensor is not None]
    if quiet is None or len(sensors) < len(read) or names.states.index is None:
        return None
    return _combine(sensors, path, faults, names=tuple(names.states.index), null=quiet)


def _read_sensor(key: str, value: Any, path: str, faults: Faults, names: Names) -> Sensor | None:
    if "+" in key:
        faults.error(path, f"'{key}' cannot name a sensor", "'+' joins the sensors that fire together")
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=KEYS, required=_REQUIRED)
    covers = state_set(spec["covers"], at(path, "covers"), faults, names) if "covers" in spec else None
    detects = probability(spec["detects"], at(path, "detects"), faults) if "detects" in spec else None
    false_alarm = probability(spec.get("false_alarm", 0), at(path, "false_alarm"), faults)
    if covers is None or detects is None or false_alarm is None:
        return None
    return Sensor(key, covers, detects, false_alarm)


def _combine(
    sensors: list[Sensor], path: str, faults: Faults, *, names: tuple[str, ...], null: str
) -> tuple[tuple[str, ...], SparseRows] | None:
    """The joint outcomes; states with the same coverage share their distribution."""
    if len(sensors) * len(names) > MAX_PAIRS:
        found = f"{len(sensors):,} sensors for {len(names):,} states are {len(sensors) * len(names):,} pairs"
        faults.error(path, f"{found}, more than {MAX_PAIRS:,}", "use fewer sensors, or emissions")
        return None
    fires = _firing(sensors, num_states=len(names))
    patterns, pattern_of = np.unique(fires, axis=0, return_inverse=True)
    uncertain = np.count_nonzero((patterns > 0) & (patterns < 1), axis=1)
    crowded = np.flatnonzero(2.0 ** uncertain[pattern_of] > MAX_OUTCOMES)
    if crowded.size:
        outcomes = 2 ** int(uncertain[pattern_of[crowded[0]]])
        found = f"state '{names[crowded[0]]}' would have {outcomes:,} joint outcomes, more than {MAX_OUTCOMES:,}"
        rest = f" ({crowded.size:,} such states)" if crowded.size > 1 else ""
        faults.error(path, found + rest, "let fewer sensors overlap or give no false alarms")
        return None
    total = int((2**uncertain)[pattern_of].sum())
    if total > MAX_ENTRIES:
        found = f"all states together would have {total:,} joint outcomes, more than {MAX_ENTRIES:,}"
        faults.error(path, found, "let fewer sensors overlap or give no false alarms")
        return None
    joint = [_outcomes(pattern) for pattern in patterns]
    fired = sorted({outcome for row in joint for outcome in row}, key=lambda outcome: (len(outcome), outcome))
    column = {outcome: place for place, outcome in enumerate(fired)}
    shown = [np.array([column[outcome] for outcome in row], dtype=np.int64) for row in joint]
    starts = np.concatenate(([0], np.cumsum([row.size for row in shown])))
    states, entry = spread(starts, pattern_of.reshape(-1))
    chances = np.array([share for row in joint for share in row.values()])
    told = tuple("+".join(sensors[sensor].name for sensor in outcome) or null for outcome in fired)
    shape = (len(names), len(told))
    return told, SparseRows.from_entries(states, np.concatenate(shown)[entry], chances[entry], shape=shape)


def _firing(sensors: list[Sensor], *, num_states: int) -> FloatArray:
    """[state, sensor]: the probability to fire."""
    fires = np.empty((num_states, len(sensors)))
    for place, sensor in enumerate(sensors):
        fires[:, place] = sensor.false_alarm
        fires[sensor.covers, place] = sensor.detects
    return fires


def _outcomes(fires: FloatArray) -> dict[tuple[int, ...], float]:
    """Every set of sensors that can fire together, with its probability."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for sensor, chance in enumerate(fires.tolist()):
        silent = {outcome: share * (1 - chance) for outcome, share in found.items() if chance < 1}
        loud = {(*outcome, sensor): share * chance for outcome, share in found.items() if chance > 0}
        found = silent | loud
    return found
