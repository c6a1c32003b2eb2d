"""Observations of which no sensors are stated, read as sets of sensors.

"A+B" names two that fired, and one observation, the null, names none.
"""

from __future__ import annotations

import numpy as np

from opaq.model.observer import Observer
from opaq.model.sensor_set import JOINS, NULL


def sensors_in(name: str) -> list[str]:
    """The sensors in the name of an observation; a name with an empty part is one sensor."""
    parts = name.split(JOINS)
    return parts if all(parts) else [name]


def quiet_observation(observer: Observer) -> str:
    """The observation that names no sensor: "null", else the one that most states can show."""
    names = observer.observations
    if NULL in names:
        return NULL
    states = np.bincount(observer.emission.columns, minlength=len(names))
    return names[int(states.argmax())]


def are_sensor_sets(observer: Observer) -> bool:
    """Whether the names tell: one is "null", or one joins a sensor that also fires alone."""
    names = set(observer.observations)
    joint = [parts for parts in map(sensors_in, names) if len(parts) > 1]
    return NULL in names or any(part in names for parts in joint for part in parts)
