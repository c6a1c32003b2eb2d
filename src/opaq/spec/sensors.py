"""Sensors that fire independently, as they are stated in a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opaq.errors import InputError
from opaq.model.sensor_set import JOINS, NULL, Sensor, SensorSet
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Key, Plain, Record
from opaq.spec.sets import STATES
from opaq.spec.shapes import PROBABILITY, attributes, each, map_of

_DETECTS = "give the probability that it fires in its range"


def _unnamed(covers: Any, detects: float, false_alarm: float) -> Sensor:
    """A sensor whose name is the key that it stands under."""
    return Sensor("", covers, detects, false_alarm)


SENSOR: Record[Sensor] = Record(
    "sensor",
    "Sensors fire independently; the observation is the set that fired, e.g. `A+B`.",
    (
        Key("covers", STATES, "Where it can detect.", required="list the states, cells or labels in its range"),
        Key("detects", PROBABILITY, "The probability that it fires where it covers.", required=_DETECTS),
        Key("false_alarm", PROBABILITY, "The probability that it fires elsewhere.", default=0.0),
    ),
    each(_unnamed, "covers", "detects", "false_alarm"),
    attributes("covers", "detects", "false_alarm"),
)
SENSORS = map_of(SENSOR.shape, "name -> sensor")


def read_sensors(cursor: Cursor, null: str | None) -> SensorSet | None:
    """The sensors {name: {covers, detects, false_alarm}}, whose observation is `null` when none fires."""
    entries = cursor.entries()
    if entries is None:
        return None
    if not entries:
        return cursor.error("is empty", "list at least one sensor")
    for key, entry in entries.items():
        if JOINS in key:
            entry.error(f"'{key}' cannot name a sensor", f"'{JOINS}' joins the sensors that fire together")
    sensors, states = SENSORS.read(cursor), cursor.names.states
    if null in entries:
        return entries[str(null)].error("is also the name for no sensor at all", "rename it or set 'null'")
    if null is None or sensors is None or states.index is None or any(JOINS in name for name in sensors):
        return None
    named = tuple(replace(sensor, name=name) for name, sensor in sensors.items())
    try:
        return SensorSet(named, len(states), null, state_names=states.listed)
    except InputError as error:
        for fault in error.faults:
            cursor.error(fault.found, fault.advice)
    return None


def write_sensors(stated: SensorSet) -> Plain:
    """The keys that state the sensors."""
    null = {"null": stated.null} if stated.null != NULL else {}
    return {"sensors": {sensor.name: sensor for sensor in stated.sensors}} | null
