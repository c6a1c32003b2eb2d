"""What the eavesdropper sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from opaq.errors import Fault, InputError
from opaq.escapes import escape_mark
from opaq.model.arrays import SparseRows
from opaq.model.content import ByContent
from opaq.model.sensor_set import SensorSet


class ObserverKind(Protocol):
    """What every kind of observer is: data that name the observations; `opaq.product` knows how each is followed."""

    @property
    def observations(self) -> tuple[str, ...]:
        """What may be seen at one time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observer(ByContent):
    """Sees o_t ~ E(o | s_t) at every time, and, if it watches actions, a noisy sign of a_{t-1} beside it.

    With `after_action` what is seen in a state depends on the action that led there; `emission` is then for time 0.
    Sensors that are stated are kept beside the emission that follows from them; InputError when the two disagree.
    """

    observations: tuple[str, ...]
    emission: SparseRows  # [state, observation]
    action_signs: tuple[str, ...] = ()
    action_emission: SparseRows | None = None  # [action, action sign]; None: actions are not seen
    after_action: SparseRows | None = None  # [action * num_states + state, observation]; None: as `emission`
    sensors: SensorSet | None = field(default=None, metadata={"decides": False})  # None: no sensors were stated

    def __post_init__(self) -> None:
        stated = self.sensors
        if stated is None:
            return
        same = self.emission is stated.emission or self.emission == stated.emission
        if not same or self.observations != stated.observations or self.after_action is not None:
            found = "the observations or emissions are not those of the stated sensors"
            raise InputError([Fault("observer.sensors", found, "change the sensors, or set sensors=None")])

    @classmethod
    def of_sensors(
        cls, sensors: SensorSet, action_signs: tuple[str, ...] = (), action_emission: SparseRows | None = None
    ) -> Observer:
        """See which sensors fire, and what is given of the actions."""
        return cls(sensors.observations, sensors.emission, action_signs, action_emission, sensors=sensors)

    def __repr__(self) -> str:
        also = ", sees actions" if self.action_emission is not None else ""
        after = ", after actions" if self.after_action is not None else ""
        return f"<Observer: {len(self.observations)} observations of {self.emission.num_rows} states{also}{after}>"

    @property
    def seen_names(self) -> tuple[str, ...]:
        """What may be seen at one time: an observation, or one with the sign of the last action, "o/sign".

        Where signs are seen, a slash in an observation's own name is written `\\/` and a backslash `\\\\`: the first
        plain slash begins the sign, so that no two of these names are the same.
        """
        if not self.action_signs:
            return self.observations
        suffixes = ["", *(f"/{sign}" for sign in self.action_signs)]
        return tuple(escape_mark(name, "/") + suffix for name in self.observations for suffix in suffixes)


def with_tables(observer: ObserverKind, *, needed_by: str) -> Observer:
    """The observer, if it is one of tables; InputError for another kind.

    needed_by: what can only hold tables, for the message.
    """
    if isinstance(observer, Observer):
        return observer
    found = f"is of the kind {type(observer).__name__}, which is no table of emissions by state"
    raise InputError([Fault("observer", found, f"{needed_by} needs one: use emissions or sensors")])
