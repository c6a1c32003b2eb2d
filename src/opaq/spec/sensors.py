"""Sensors that fire independently -> one observation per state: the set of those that fired."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, SparseRows, spread
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Key, Record
from opaq.spec.sets import STATES
from opaq.spec.shapes import PROBABILITY, each, map_of

MAX_OUTCOMES = 1_024  # in one state
MAX_PAIRS = 20_000_000  # states x sensors
MAX_ENTRIES = 20_000_000  # outcomes of all states together
_DETECTS = "give the probability that it fires in its range"
_FEWER = "let fewer sensors overlap or give no false alarms"


class Sensor(NamedTuple):
    """Fires with probability `detects` in the states it covers and `false_alarm` elsewhere."""

    covers: IntArray
    detects: float
    false_alarm: float


SENSOR: Record[Sensor] = Record(
    "sensor",
    "Sensors fire independently; the observation is the set that fired, e.g. `A+B`.",
    (
        Key("covers", STATES, "Where it can detect.", required="list the states, cells or labels in its range"),
        Key("detects", PROBABILITY, "The probability that it fires where it covers.", required=_DETECTS),
        Key("false_alarm", PROBABILITY, "The probability that it fires elsewhere.", default=0.0),
    ),
    each(Sensor, "covers", "detects", "false_alarm"),
)
SENSORS = map_of(SENSOR.shape, "name -> sensor")


def combined(cursor: Cursor, null: str | None) -> tuple[tuple[str, ...], SparseRows] | None:
    """Observations and emission of sensors {name: {covers, detects, false_alarm}}."""
    entries = cursor.entries()
    if entries is None:
        return None
    if not entries:
        return cursor.error("is empty", "list at least one sensor")
    for key, entry in entries.items():
        if "+" in key:
            entry.error(f"'{key}' cannot name a sensor", "'+' joins the sensors that fire together")
    sensors = SENSORS.read(cursor)
    if null in entries:
        return entries[str(null)].error("is also the name for no sensor at all", "rename it or set 'null'")
    if null is None or sensors is None or cursor.names.states.index is None:
        return None
    return _combine(cursor, sensors, null)


def _combine(cursor: Cursor, sensors: dict[str, Sensor], null: str) -> tuple[tuple[str, ...], SparseRows] | None:
    """The joint outcomes; states with the same coverage share their distribution."""
    count = len(cursor.names.states)
    if len(sensors) * count > MAX_PAIRS:
        pairs = f"{len(sensors):,} sensors for {count:,} states are {len(sensors) * count:,} pairs"
        return cursor.error(f"{pairs}, more than {MAX_PAIRS:,}", "use fewer sensors, or emissions")
    patterns, pattern_of = _patterns(sensors, num_states=count)
    if _too_many(cursor, patterns, pattern_of):
        return None
    joint = [_outcomes(pattern) for pattern in patterns]
    fired = sorted({outcome for row in joint for outcome in row}, key=lambda outcome: (len(outcome), outcome))
    column = {outcome: index for index, outcome in enumerate(fired)}
    columns = [np.array([column[outcome] for outcome in row], dtype=np.int64) for row in joint]
    starts = np.concatenate(([0], np.cumsum([row.size for row in columns])))
    states, entry = spread(starts, pattern_of)
    chances = np.array([share for row in joint for share in row.values()])
    listed = tuple(sensors)
    names = tuple("+".join(listed[sensor] for sensor in outcome) or null for outcome in fired)
    shape = (count, len(names))
    return names, SparseRows.from_entries(states, np.concatenate(columns)[entry], chances[entry], shape=shape)


def _too_many(cursor: Cursor, patterns: FloatArray, pattern_of: IntArray) -> bool:
    """Whether a state, or all of them together, would have too many joint outcomes."""
    uncertain = np.count_nonzero((patterns > 0) & (patterns < 1), axis=1)
    crowded = np.flatnonzero(2.0 ** uncertain[pattern_of] > MAX_OUTCOMES)
    if crowded.size:
        outcomes = 2 ** int(uncertain[pattern_of[crowded[0]]])
        state = f"state '{cursor.names.states.listed[crowded[0]]}'"
        rest = f" ({crowded.size:,} such states)" if crowded.size > 1 else ""
        cursor.error(f"{state} would have {outcomes:,} joint outcomes, more than {MAX_OUTCOMES:,}{rest}", _FEWER)
        return True
    total = int((2**uncertain)[pattern_of].sum())
    finding = f"all states together would have {total:,} joint outcomes, more than {MAX_ENTRIES:,}"
    return cursor.beyond(total, MAX_ENTRIES, finding, _FEWER)


def _patterns(sensors: dict[str, Sensor], *, num_states: int) -> tuple[FloatArray, IntArray]:
    """[pattern, sensor]: the probabilities to fire that occur, and the pattern of every state.

    States are compared by which sensors cover them, packed into bits: sorting rows of numbers takes far longer.
    """
    covered = np.zeros((num_states, len(sensors)), dtype=bool)
    for index, sensor in enumerate(sensors.values()):
        covered[sensor.covers, index] = True
    packed = np.packbits(covered, axis=1)
    keys = packed.view(f"V{packed.shape[1]}").reshape(-1)
    _, first, pattern_of = np.unique(keys, return_index=True, return_inverse=True)
    detects, false_alarm = (np.array([getattr(one, rate) for one in sensors.values()]) for rate in Sensor._fields[1:])
    return np.where(covered[first], detects, false_alarm), pattern_of.reshape(-1)


def _outcomes(fires: FloatArray) -> dict[tuple[int, ...], float]:
    """Every set of sensors that can fire together, with its probability."""
    outcomes: dict[tuple[int, ...], float] = {(): 1.0}
    for sensor, chance in enumerate(fires.tolist()):
        silent = {outcome: share * (1 - chance) for outcome, share in outcomes.items() if chance < 1}
        loud = {(*outcome, sensor): share * chance for outcome, share in outcomes.items() if chance > 0}
        outcomes = silent | loud
    return outcomes
