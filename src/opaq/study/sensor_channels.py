"""The sensors of an observer, and the observer with one of them removed or changed.

Sensors that are stated are changed as in the file: one is taken out, or its rate of detection is another one.

Where only a table of emissions is stated, its observations are read as sets of sensors: "A+B" names two, and one
observation, the null, names none; each other one is a sensor of its own. The null is the one given, else "null", else
the one that most states can show. Removing a sensor takes its name out of every observation: "A+B" becomes "B", and "A"
the null. That merges observations, whatever the table, so that a policy that stays the same never hides less. Changing
a rate moves probability between the observations with the sensor and those without it, where it covers: elsewhere false
alarms stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.arrays import BoolArray, FloatArray, IntArray, SparseRows
from opaq.model.observer import Observer, ObserverKind, with_tables
from opaq.model.sensor_names import quiet_observation, sensors_in
from opaq.model.sensor_set import JOINS, Sensor, SensorSet

_EQUAL = 1e-12  # rates this close are the same


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to the rate of a sensor where it covers: it is multiplied, at most to 1, or set."""

    text: str  # "x0.5" or "0.9"
    factor: float | None = None
    rate: float | None = None

    @classmethod
    def of(cls, text: str) -> Change:
        """From "x0.5", which multiplies, or "0.9", which sets. Raises InputError."""
        word = str(text).strip()
        multiplies = word.startswith("x")
        try:
            number = float(word.removeprefix("x"))
        except ValueError:
            number = float("nan")
        if not (0.0 <= number <= (1e6 if multiplies else 1.0)):
            raise InputError([Fault("changes", f"'{word[:40]}' is no change of a rate", "write x0.5, or 0.9")])
        return cls(word, number, None) if multiplies else cls(word, None, number)

    def applied(self, rates: FloatArray) -> FloatArray:
        """The new rates."""
        return np.full_like(rates, self.rate) if self.factor is None else np.minimum(1.0, self.factor * rates)


class Sensors(Protocol):
    """The sensors of an observer, each of which can be removed or changed."""

    @property
    def observer(self) -> Observer:
        """The observer as it is."""

    @property
    def null(self) -> str:
        """What is seen when no sensor fires."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sensors."""

    def coverage(self, sensor: str) -> dict[int, float]:
        """Return the states that the sensor covers, and how likely it fires in each of them."""

    def without(self, sensor: str) -> Observer:
        """Return the observer that lacks one sensor."""

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """Return the observer one of whose sensors detects more, or less, where it covers."""


def sensors_of(observer: ObserverKind, *, null: str | None = None) -> Sensors:
    """The sensors that are stated or, where none are, those that the names of the observations tell.

    Raises InputError for an observer that is no table, and for a null that it does not have.
    """
    tables = with_tables(observer, needed_by="a ranking of sensors")
    if tables.sensors is None:
        return InferredSensors.of(tables, _null(tables, null))
    if null not in (None, tables.sensors.null):
        found = f"'{null}' is not what the stated sensors show when none fires"
        raise InputError([Fault("null", found, f"that is '{tables.sensors.null}': leave it out")])
    return StatedSensors(tables, tables.sensors)


@dataclass(frozen=True, slots=True, eq=False)
class StatedSensors:
    """Sensors as they are stated; what they show follows from them."""

    observer: Observer
    stated: SensorSet

    @property
    def null(self) -> str:
        """What is seen when no sensor fires."""
        return self.stated.null

    @property
    def names(self) -> tuple[str, ...]:
        """The sensors, as they are listed."""
        return self.stated.names

    def coverage(self, sensor: str) -> dict[int, float]:
        """State that it covers -> its rate."""
        return self.stated.coverage()[sensor]

    def without(self, sensor: str) -> Observer:
        """The observer that lacks one sensor."""
        left = tuple(each for each in self.stated.sensors if each.name != sensor)
        if left:
            return self._seeing(left)
        blind = SparseRows.from_dense(np.ones((self.stated.num_states, 1)))
        return replace(self.observer, observations=(self.null,), emission=blind, sensors=None)

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """The observer one of whose sensors detects more, or less, where it covers; false alarms stay."""
        return self._seeing(
            replace(each, detects=float(change.applied(np.array([each.detects]))[0])) if each.name == sensor else each
            for each in self.stated.sensors
        )

    def _seeing(self, sensors: Iterable[Sensor]) -> Observer:
        stated = replace(self.stated, sensors=tuple(sensors))
        return Observer.of_sensors(stated, self.observer.action_signs, self.observer.action_emission)


@dataclass(frozen=True, slots=True, eq=False)
class InferredSensors:
    """A table of emissions read as sensors: those that the names of its observations tell."""

    observer: Observer
    null: str
    fired: tuple[frozenset[str], ...]  # [observation]: the sensors that it names
    names: tuple[str, ...]

    @classmethod
    def of(cls, tables: Observer, quiet: str) -> InferredSensors:
        """From a table and the observation that names no sensor."""
        fired = tuple(frozenset(sensors_in(name)) if name != quiet else frozenset() for name in tables.observations)
        names = dict.fromkeys(part for name in tables.observations if name != quiet for part in sensors_in(name))
        return cls(tables, quiet, fired, tuple(names))

    def coverage(self, sensor: str) -> dict[int, float]:
        """State -> how likely the sensor fires there, where that is more than its rate of false alarms."""
        rates = self._rates(self.observer.emission, sensor)
        covered = self._covered(self.observer.emission, sensor)
        return {int(state): float(rates[state]) for state in np.flatnonzero(covered)}

    def without(self, sensor: str) -> Observer:
        """The observer that lacks one sensor."""
        left = dict.fromkeys(self._named(fired - {sensor}) for fired in self.fired)
        position = {name: index for index, name in enumerate(left)}
        column = np.array([position[self._named(fired - {sensor})] for fired in self.fired], dtype=np.int64)

        def merged(table: SparseRows) -> SparseRows:
            shape = (table.num_rows, len(left))
            return SparseRows.from_entries(table.row_of_entry(), column[table.columns], table.values, shape=shape)

        return self._changed(tuple(left), merged)

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """The observer one of whose sensors detects more, or less, where it covers."""
        rest, loud = self._without_it(sensor)

        def moved(table: SparseRows) -> SparseRows:
            rows, width = table.row_of_entry(), len(self.fired)
            groups, group = np.unique(rows * width + rest[table.columns], return_inverse=True)
            total = np.bincount(group, weights=table.values)
            fires = np.bincount(group, weights=table.values * loud[table.columns])
            partner = np.full(groups.size, -1)
            partner[group[loud[table.columns]]] = table.columns[loud[table.columns]]
            row = groups // width
            share = fires / total
            changes = self._covered(table, sensor)[row] & (fires > 0)
            share = np.where(changes, change.applied(share), share)
            entries = (
                np.concatenate((row, row[partner >= 0])),
                np.concatenate((groups % width, partner[partner >= 0])),
                np.concatenate((total * (1.0 - share), (total * share)[partner >= 0])),
            )
            return SparseRows.from_entries(*entries, shape=(table.num_rows, width))

        return self._changed(self.observer.observations, moved)

    def _without_it(self, sensor: str) -> tuple[IntArray, BoolArray]:
        """[observation]: the observation that lacks the sensor, and whether this one names it."""
        position = {fired: index for index, fired in enumerate(self.fired)}
        rest = [position.get(fired - {sensor}, index) for index, fired in enumerate(self.fired)]
        loud = [sensor in fired and fired - {sensor} in position for fired in self.fired]
        return np.array(rest, dtype=np.int64), np.array(loud, dtype=bool)

    def _rates(self, table: SparseRows, sensor: str) -> FloatArray:
        """[row]: how likely the sensor fires."""
        loud = np.array([sensor in fired for fired in self.fired])
        weights = table.values * loud[table.columns]
        return np.bincount(table.row_of_entry(), weights=weights, minlength=table.num_rows).astype(np.float64)

    def _covered(self, table: SparseRows, sensor: str) -> BoolArray:
        """[row]: whether it fires more often than where it fires least; everywhere if it is the same everywhere."""
        rates = self._rates(table, sensor)
        least = float(self._rates(self.observer.emission, sensor).min(initial=1.0))
        above = rates > least + _EQUAL
        return above if above.any() else rates > 0

    def _named(self, fired: frozenset[str]) -> str:
        """The observation that names some sensors, in the order in which they are listed."""
        return JOINS.join(name for name in self.names if name in fired) or self.null

    def _changed(self, names: tuple[str, ...], change: Callable[[SparseRows], SparseRows]) -> Observer:
        after = self.observer.after_action
        return replace(
            self.observer,
            observations=names,
            emission=change(self.observer.emission),
            after_action=None if after is None else change(after),
        )


def _null(observer: Observer, given: str | None) -> str:
    names = observer.observations
    if given is not None:
        if given not in names:
            raise InputError([Fault("null", f"'{given}' is no observation", f"there are {', '.join(names[:8])}")])
        return given
    return quiet_observation(observer)
