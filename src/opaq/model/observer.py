"""What the eavesdropper sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from opaq.errors import Fault, Faults, InputError
from opaq.escapes import escape_mark
from opaq.model.arrays import SparseRows
from opaq.model.checks import Checked, Checks
from opaq.model.sensor_set import SensorSet

MAX_OBSERVATIONS = 5_000_000


class ObserverKind(Protocol):
    """What every kind of observer is: data that name the observations; `opaq.product` knows how each is followed."""

    @property
    def observations(self) -> tuple[str, ...]:
        """What may be seen at one time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observer(Checked):
    """Sees o_t ~ E(o | s_t) at every time, and, if it watches actions, a noisy sign of a_{t-1} beside it.

    With `after_action` what is seen in a state depends on the action that led there; `emission` is then for time 0.
    Sensors that are stated are kept beside the emission that follows from them; InputError when the two disagree.
    InputError lists every fault when one is made; arrays are read-only.
    """

    observations: tuple[str, ...]
    emission: SparseRows  # [state, observation]
    action_signs: tuple[str, ...] = ()
    action_emission: SparseRows | None = None  # [action, action sign]; None: actions are not seen
    after_action: SparseRows | None = None  # [action * num_states + state, observation]; None: as `emission`
    sensors: SensorSet | None = field(default=None, metadata={"decides": False})  # None: no sensors were stated

    @classmethod
    def of_sensors(
        cls, sensors: SensorSet, action_signs: tuple[str, ...] = (), action_emission: SparseRows | None = None
    ) -> Observer:
        """See which sensors fire, and what is given of the actions."""
        return cls(sensors.observations, sensors.emission, action_signs, action_emission, sensors=sensors)

    def __post_init__(self) -> None:
        checks = Checks(self, "observer")
        tables = {"emission": "observations"} | ({} if self.after_action is None else {"after_action": "observations"})
        names = {"observations": checks.names("observations", kind="observation", most=MAX_OBSERVATIONS)}
        if self.action_emission is not None:
            tables["action_emission"] = "action_signs"
            names["action_signs"] = checks.names("action_signs", kind="sign", most=MAX_OBSERVATIONS)
        elif self.action_signs != ():
            checks.error("action_signs", "are given, but not when they are shown", "give action_emission")
        for table, kind in tables.items():
            shown = names[kind]
            if shown is not None:
                checks.distributions(table, num_rows=None, num_columns=len(shown), column=kind.removesuffix("s"))
        checks.finish()
        stated = self.sensors
        if stated is None:
            return
        same = self.emission is stated.emission or self.emission == stated.emission
        if not same or self.observations != stated.observations or self.after_action is not None:
            found = "the observations or emissions are not those of the stated sensors"
            raise InputError([Fault("observer.sensors", found, "change the sensors, or set sensors=None")])

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


def check_observer(
    observer: object, faults: Faults, where: str, *, num_states: int | None, num_actions: int | None
) -> None:
    """Note when an observer of tables does not fit a model; None stands for a size that is not known."""
    if not isinstance(observer, Observer):
        return
    after, signs = observer.after_action, observer.action_emission
    if num_states is not None and observer.emission.num_rows != num_states:
        faults.error(where, f"emits in {observer.emission.num_rows:,} states, but the model has {num_states:,}")
    pairs = None if num_states is None or num_actions is None else num_states * num_actions
    if after is not None and pairs is not None and after.num_rows != pairs:
        faults.error(where, f"emits after {after.num_rows:,} pairs of action and state, but the model has {pairs:,}")
    if signs is not None and num_actions is not None and signs.num_rows != num_actions:
        faults.error(where, f"sees {signs.num_rows:,} actions, but the model has {num_actions:,}")
