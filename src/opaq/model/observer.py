"""The eavesdropper: what it sees in every state, and the sensors that this follows from where sensors are given.

Independent sensors i that fire with probability p_i(s) give the joint observation of the set F that fired:

    E(F | s) = product over i in F of p_i(s) * product over i not in F of (1 - p_i(s)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import product
from typing import Any, Protocol

import numpy as np

from opaq.errors import Fault, Faults, InputError, escape_separator, suggestion
from opaq.model.arrays import ContentEq, FloatArray, IntArray, SparseRows, distinct, expand_rows, ints
from opaq.model.checks import Checked, Checks, ReadOnlyDict

JOINS = "+"
NULL = "null"
_MAX_OUTCOMES = 1_024  # in one state
_MAX_PAIRS = 20_000_000  # states x sensors
_MAX_ENTRIES = 20_000_000  # outcomes of all states together
_FEWER = "let fewer sensors overlap or give no false alarms"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sensor(ContentEq):
    """A sensor: fires with probability `detects` in the states that it covers and `false_alarm` elsewhere."""

    name: str
    covers: IntArray  # states, ascending
    detects: float
    false_alarm: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "covers", ints(distinct(np.asarray(self.covers, dtype=np.int64).reshape(-1))))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensorSet(ContentEq):
    """Independent sensors; the observations and the emission of an observer follow from them.

    An observation names the sensors that fired, "A+B", or is `null` where none did.

    sensors: at least one, with distinct names.
    num_states: of the model.
    null: what the observer sees where no sensor fires.
    state_names: for messages; numbers unless given.
    Raises InputError when the sensors contradict each other, are too many, or have too many joint outcomes.
    """

    sensors: tuple[Sensor, ...]
    num_states: int
    null: str = NULL
    observations: tuple[str, ...] = field(init=False)
    emission: SparseRows = field(init=False)  # [state, observation]
    state_names: InitVar[Sequence[str] | None] = None

    def __post_init__(self, state_names: Sequence[str] | None) -> None:
        faults = _faults(self)
        if faults:
            raise InputError(faults)
        observations, emission = _combine(self, state_names or range(self.num_states))
        object.__setattr__(self, "observations", observations)
        object.__setattr__(self, "emission", emission)

    def __repr__(self) -> str:
        return f"<SensorSet: {len(self.sensors)} sensors of {self.num_states} states, null '{self.null:.40}'>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sensors, as they are listed."""
        return tuple(sensor.name for sensor in self.sensors)

    def coverage(self) -> dict[str, dict[int, float]]:
        """Return sensor -> state that it covers -> probability that it fires there."""
        return {one.name: dict.fromkeys(one.covers.tolist(), float(one.detects)) for one in self.sensors}


def _faults(sensor_set: SensorSet) -> list[Fault]:
    """Return what makes the sensors unusable: names, states, rates, or their number."""
    if not sensor_set.sensors:
        return [Fault("sensors", "is empty", "list at least one sensor")]
    faults = [fault for sensor in sensor_set.sensors for fault in _sensor_faults(sensor, sensor_set)]
    names = sensor_set.names
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1) if len({*names}) < len(names) else ()
    faults += [Fault(f"sensors.{name}", "names several sensors", "rename one") for name in repeated]
    pairs = len(names) * sensor_set.num_states
    if pairs > _MAX_PAIRS:
        message = (
            f"{len(names):,} sensors for {sensor_set.num_states:,} states are {pairs:,} pairs, more than {_MAX_PAIRS:,}"
        )
        faults.append(Fault("sensors", message, "use fewer sensors, or emissions"))
    return faults


def _sensor_faults(sensor: Sensor, sensor_set: SensorSet) -> Iterable[Fault]:
    """Yield what is wrong with one sensor."""
    where = f"sensors.{sensor.name}"
    if not sensor.name or JOINS in sensor.name:
        yield Fault(where, f"'{sensor.name}' cannot name a sensor", f"'{JOINS}' joins the sensors that fire together")
    if sensor.name == sensor_set.null:
        yield Fault(where, "is also the name for no sensor at all", "rename it or set 'null'")
    if sensor.covers.size and not (sensor.covers[0] >= 0 and sensor.covers[-1] < sensor_set.num_states):
        yield Fault(f"{where}.covers", f"states are numbered from 0 to {sensor_set.num_states - 1:,}", "change it")
    for key, rate in (("detects", sensor.detects), ("false_alarm", sensor.false_alarm)):
        if not 0 <= rate <= 1:
            yield Fault(f"{where}.{key}", f"{rate} is no probability", "use a number from 0 to 1")


def _combine(sensor_set: SensorSet, states: Sequence[object]) -> tuple[tuple[str, ...], SparseRows]:
    """Return observations and emission [state, observation]; states with the same coverage share their distribution."""
    patterns, pattern_of = _patterns(sensor_set)
    _refuse_many_outcomes(patterns, pattern_of, states)
    joint = [_outcomes(pattern) for pattern in patterns]
    fired = sorted({outcome for row in joint for outcome in row}, key=lambda outcome: (len(outcome), outcome))
    column = {outcome: index for index, outcome in enumerate(fired)}
    columns = [np.array([column[outcome] for outcome in row], dtype=np.int64) for row in joint]
    starts = np.concatenate(([0], np.cumsum([row.size for row in columns])))
    owner, entry = expand_rows(starts, pattern_of)
    chances = np.array([share for row in joint for share in row.values()])
    listed = sensor_set.names
    names = tuple(JOINS.join(listed[sensor] for sensor in outcome) or sensor_set.null for outcome in fired)
    shape = (sensor_set.num_states, len(names))
    return names, SparseRows.from_entries(owner, np.concatenate(columns)[entry], chances[entry], shape=shape)


def _refuse_many_outcomes(patterns: FloatArray, pattern_of: IntArray, states: Sequence[object]) -> None:
    """Raise InputError where a state, or all of them together, would have too many joint outcomes.

    patterns: [pattern, sensor] probabilities to fire. pattern_of: [state] -> pattern. states: names, for messages.
    """
    uncertain = np.count_nonzero((patterns > 0) & (patterns < 1), axis=1)
    crowded = np.flatnonzero(2.0 ** uncertain[pattern_of] > _MAX_OUTCOMES)
    if crowded.size:
        outcomes = 2 ** int(uncertain[pattern_of[crowded[0]]])
        rest = f" ({crowded.size:,} such states)" if crowded.size > 1 else ""
        state = f"state '{states[crowded[0]]}'"
        message = f"{state} would have {outcomes:,} joint outcomes, more than {_MAX_OUTCOMES:,}{rest}"
        raise InputError([Fault("sensors", message, _FEWER)])
    total = int((2**uncertain)[pattern_of].sum())
    if total > _MAX_ENTRIES:
        message = f"all states together would have {total:,} joint outcomes, more than {_MAX_ENTRIES:,}"
        raise InputError([Fault("sensors", message, _FEWER)])


def _patterns(sensor_set: SensorSet) -> tuple[FloatArray, IntArray]:
    """Return the distinct probabilities to fire, [pattern, sensor], and [state] -> pattern.

    States are compared by which sensors cover them, packed into bits: sorting rows of numbers takes far longer.
    """
    covered = np.zeros((sensor_set.num_states, len(sensor_set.sensors)), dtype=bool)
    for index, sensor in enumerate(sensor_set.sensors):
        covered[sensor.covers, index] = True
    packed = np.packbits(covered, axis=1)
    keys = packed.view(f"V{packed.shape[1]}").reshape(-1)
    _, first, pattern_of = np.unique(keys, return_index=True, return_inverse=True)
    detects, false_alarm = np.array([(sensor.detects, sensor.false_alarm) for sensor in sensor_set.sensors]).T
    return np.where(covered[first], detects, false_alarm), pattern_of.reshape(-1)


def _outcomes(fires: FloatArray) -> dict[tuple[int, ...], float]:
    """Return every set of sensors that can fire together, with its probability; fires: [sensor]."""
    outcomes: dict[tuple[int, ...], float] = {(): 1.0}
    for sensor, chance in enumerate(fires.tolist()):
        silent = {outcome: share * (1 - chance) for outcome, share in outcomes.items() if chance < 1}
        loud = {(*outcome, sensor): share * chance for outcome, share in outcomes.items() if chance > 0}
        outcomes = silent | loud
    return outcomes


MAX_OBSERVATIONS = 5_000_000


class ObserverKind(Protocol):
    """Protocol of observers: data that name the observations.

    `opaq.product.trackers` knows how each kind is followed.
    """

    @property
    def observations(self) -> tuple[str, ...]:
        """What may be seen at one time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observer(Checked):
    """An observer of tables: sees o_t ~ E(o | s_t), and a sign of a_{t-1} beside it if it watches actions.

    observations: distinct names.
    emission: [state, observation], rows sum to 1; for every time, or for time 0 where `after_action` is given.
    action_signs, action_emission: names of the signs of actions, and the probability of each; none before the first
        action.
    after_action: E(o | a_{t-1}, s_t), where what is seen in a state depends on the action that led there.
    sensors: what the emission follows from, kept for reports; InputError when the two disagree.

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
        """Build the observer who sees which sensors fire, and what is given of the actions."""
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
            column_names = names[kind]
            if column_names is not None:
                checks.distributions(table, num_rows=None, num_columns=len(column_names), column=kind.removesuffix("s"))
        if self.sensors is not None:
            checks.type("sensors", SensorSet, "a SensorSet")
        checks.finish()
        sensors = self.sensors
        if sensors is None:
            return
        same = self.emission is sensors.emission or self.emission == sensors.emission
        if not same or self.observations != sensors.observations or self.after_action is not None:
            message = "the observations or emissions are not those of the stated sensors"
            raise InputError([Fault("observer.sensors", message, "change the sensors, or set sensors=None")])

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
        return tuple(escape_separator(name, "/") + suffix for name in self.observations for suffix in suffixes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Together(ContentEq):
    """The observer who sees what several see: one observation of each, at every time.

    names: of the problem's observers, of which some may be together themselves.
    parts: the observers at the bottom by their names, each once; a problem fills them in.
    """

    names: tuple[str, ...]
    parts: Mapping[str, ObserverKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = Checks(self, "observer.together")
        checks.names("names", kind="observer", most=MAX_OBSERVATIONS)
        checks.finish()

    def __repr__(self) -> str:
        return f"<Together: {', '.join(self.names)[:60]}>"

    @property
    def observations(self) -> tuple[str, ...]:
        """One observation of every part, such as "red & quiet"; the last part changes first."""
        shown = [
            [escape_separator(name, "&") for name in getattr(part, "seen_names", part.observations)]
            for part in self.parts.values()
        ]
        return tuple(map(" & ".join, product(*shown)))


def resolve_observers(observers: Mapping[str, Any], faults: Faults, where: str) -> dict[str, Any]:
    """Return the observers with the parts of those that are together filled in; all others stay as they are.

    faults: where unknown names and circles are noted. where: path of the observers, for messages.
    """

    def bases(name: str, above: tuple[str, ...]) -> dict[str, ObserverKind]:
        observer = observers[name]
        if not isinstance(observer, Together):
            return {name: observer}
        below: dict[str, ObserverKind] = {}
        for index, part in enumerate(observer.names):
            path = f"{where}.{name}.together[{index}]"
            if part in (*above, name):
                if not above:  # once, where the circle is entered
                    faults.error(path, f"'{part}' would see itself", "observers together may not go in a circle")
            elif part not in observers:
                if not above:
                    advice = suggestion(part, [other for other in observers if other != name], kind="observer")
                    faults.error(path, f"unknown observer '{part}'", advice)
            else:
                below |= bases(part, (*above, name))
        if not above and _closes(observer, name, observers):
            faults.error(f"{where}.{name}.together", "goes in a circle", "leave one of its observers out")
        return below

    return {
        name: replace(observer, parts=ReadOnlyDict(bases(name, ()))) if isinstance(observer, Together) else observer
        for name, observer in observers.items()
    }


def _closes(observer: Together, name: str, observers: Mapping[str, ObserverKind]) -> bool:
    """Return whether an observer is part of one of its own parts, other than directly."""
    waiting, seen = [part for part in observer.names if part != name], set[str]()
    while waiting:
        part = waiting.pop()
        below = observers.get(part)
        if part in seen or not isinstance(below, Together):
            continue
        seen.add(part)
        if name in below.names:
            return True
        waiting += below.names
    return False


def require_tables(observer: ObserverKind, *, needed_by: str) -> Observer:
    """Return the observer if it is one of tables; InputError for another kind.

    needed_by: what can only hold tables, for the message.
    """
    if isinstance(observer, Observer):
        return observer
    message = f"is of the kind {type(observer).__name__}, which is no table of emissions by state"
    raise InputError([Fault("observer", message, f"{needed_by} needs one: use emissions or sensors")])


def check_observer(
    observer: object, faults: Faults, where: str, *, num_states: int | None, num_actions: int | None
) -> None:
    """Note when an observer of tables does not fit a model.

    faults: where errors are noted. where: path of the observer, for messages.
    num_states, num_actions: of the model; None where not known. Other kinds of observers are not checked.
    """
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


def sensors_in(name: str) -> list[str]:
    """Return the sensors in the name of an observation; a name with an empty part is one sensor."""
    parts = name.split(JOINS)
    return parts if all(parts) else [name]


def quiet_observation(observer: Observer) -> str:
    """Return the observation that names no sensor: "null", else the one that most states can show."""
    names = observer.observations
    if NULL in names:
        return NULL
    states = np.bincount(observer.emission.columns, minlength=len(names))
    return names[int(states.argmax())]


def are_sensor_sets(observer: Observer) -> bool:
    """Return whether observations name sets of sensors: one is "null", or one joins a sensor that also fires alone."""
    names = set(observer.observations)
    joint = [parts for parts in map(sensors_in, names) if len(parts) > 1]
    return NULL in names or any(part in names for parts in joint for part in parts)
