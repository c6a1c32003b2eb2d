"""Which sensor costs the most opacity: the one call behind `opaq sensors`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import ClassVar, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.codec import Result, flat, key, live
from opaq.display import NotebookView
from opaq.errors import Fault, InputError, check_types, is_flag
from opaq.load import as_policy, as_problem
from opaq.model.arrays import BoolArray, ContentEq, FloatArray, IntArray, SparseRows
from opaq.model.observer import (
    JOINS,
    Observer,
    ObserverKind,
    Sensor,
    SensorSet,
    quiet_observation,
    sensors_in,
    with_tables,
)
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, measure_product
from opaq.product.compile import compile_problem
from opaq.solvers.options import SolveOptions, available_cores
from opaq.solvers.policy_classes import chosen_class, class_name
from opaq.solvers.solve import solve
from opaq.solvers.strategy import Status
from opaq.stop import Stop, StoppedError, interruptible

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


REMOVED = "removed"
CHANGES = ("x0.5", "1")
_WARM_STARTS = 2  # of a search that begins at a good policy: that one, and one other
_MISSED = (Status.INFEASIBLE, Status.NOT_FOUND)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensorTrial(ContentEq):
    """What a policy hides with one sensor removed, or with another rate.

    sensor: which one.
    change: "removed", "x0.5" (times its rate) or a rate.
    gain: how much more is hidden than with the sensors as they are.
    measurement: of the policy.
    policy: the policy; None in Python: the uniform one.
    status: how the search ended, as in a solution; null: nothing was searched.
    seconds: its time.
    """

    sensor: str
    change: str
    gain: Amount
    measurement: Measurement = field(metadata=flat())
    policy: Policy | None = field(metadata=live())
    status: Status | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankedSensor(ContentEq):
    """One sensor, and what it costs.

    name: the sensor.
    covers: state -> how likely it fires there.
    detects: its rate, as stated; null: it was inferred from the observations.
    false_alarm: its rate elsewhere, as stated; null: it was inferred.
    cost: what its removal gains; null where that was not tried.
    """

    name: str = field(metadata=key("sensor"))
    covers: Mapping[str, float]
    detects: float | None = None
    false_alarm: float | None = None
    cost: Amount | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensorRanking(NotebookView, ContentEq, Result):
    """The trials, those of the sensor first whose removal gains most.

    A gain that is only known to lie in an interval counts with the interval's lower end: what is proven.

    problem: the problem's name.
    policy_class: what the policies look at.
    fixed: whether the policy stayed the same.
    null: what the observer sees when no sensor fires.
    stated: whether the problem states its sensors; else they are inferred from the observations.
    base: the measurement with the sensors as they are.
    policy: the policy then; None in Python: the uniform one.
    status: how the search for it ended; null: nothing was searched.
    sensors: every sensor, the one that costs most first.
    trials: every trial, those of the sensor that costs most first.
    seconds: the time of all of it.
    interrupted: whether Ctrl-C or SIGTERM ended the work.
    complete: whether every trial was made.
    """

    RESULT: ClassVar[str] = "sensors"
    PRINTED_BY: ClassVar[str] = "sensors"

    problem: str
    policy_class: str
    fixed: bool
    null: str
    stated: bool
    base: Measurement
    policy: Policy | None = field(metadata=live())
    status: Status | None
    sensors: tuple[RankedSensor, ...]
    trials: tuple[SensorTrial, ...]
    seconds: float
    interrupted: bool = False
    complete: bool = True

    @property
    def coverage(self) -> Mapping[str, Mapping[str, float]]:
        """Sensor -> state -> how likely it fires there."""
        return {sensor.name: sensor.covers for sensor in self.sensors}

    @property
    def costs(self) -> dict[str, Amount]:
        """Sensor -> what its removal gains, those that cost most first."""
        return {trial.sensor: trial.gain for trial in self.trials if trial.change == REMOVED}

    def __repr__(self) -> str:
        costs = ", ".join(f"{name:.20} {cost}" for name, cost in list(self.costs.items())[:4])
        return f"<SensorRanking of '{self.problem:.40}': {len(self.costs)} sensors; {costs:.80}>"


def sensors(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    fixed: bool = False,
    changes: Sequence[str] = CHANGES,
    null: str | None = None,
    conditions: str | None = None,
    options: SolveOptions | None = None,
    time: float | None = None,
    processes: int | None = None,
    seed: int | None = None,
    stop: Stop | None = None,
    on_trial: Callable[[SensorTrial], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> SensorRanking:
    """What each sensor costs in opacity: each one removed, each one's rate changed.

    problem: an object, the name of a file, or the name of a scenario. Its observer must be one of tables.
    policy: an object or the name of a file. With `fixed` it stays the same and is only measured (None: the uniform
        policy); otherwise it is where the first search begins.
    fixed: whether the policy stays the same. By default the problem is solved, and solved again for every trial,
        beginning at the policy of the sensors as they are.
    changes: what happens to the rate at which a sensor detects where it covers: "x0.5" multiplies it, at most to 1,
        "0.9" sets it. Every sensor is removed in any case.
    null: the observation when no sensor fires, for observers of which only emissions are stated: their sensors are
        inferred from the names of the observations, where "A+B" names the two that fired. "null" by default or, if
        there is none of that name, the observation that most states can show. Stated sensors have their own.
    conditions: what the policies look at that are searched; the problem's own class by default.
    options: a `SolveOptions` for every search; the keywords take precedence over it.
    time: seconds for all of it; the trials there are by then are the answer. So they are when `stop` is requested or,
        without a stop, after Ctrl-C.
    processes: at most so many trials at a time (one per core by default), which changes nothing else.
    seed: the same seed gives the same answer.
    on_trial: called with every trial that is done. on_progress: called with words that say how far the work is.

    Raises InputError when an argument does not fit, StoppedError when there was no time for the first policy.
    """
    check_types(
        {
            "fixed": (fixed, is_flag, "True or False"),
            "changes": (changes, _are_texts, "a list of changes, such as 'x0.5'"),
            "null": (null, str, "the name of an observation"),
            "options": (options, SolveOptions, "an opaq.SolveOptions"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_trial": (on_trial, callable, "a function"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("null", "options", "stop", "on_trial", "on_progress"),
    )
    tried = [Change.of(change) for change in ([changes] if isinstance(changes, str) else changes)]
    chosen = (options or SolveOptions()).changed(conditions=conditions, time=time, processes=processes, seed=seed)
    stated = as_problem(problem)
    first = None if policy is None else as_policy(policy, stated)
    policy_class = chosen_class(stated, conditions=chosen.conditions, memory_nodes=chosen.memory_nodes)
    if fixed and first is not None:
        policy_class = first.policy_class
    _check(stated, policy_class, fixed)
    named = sensors_of(stated.observer, null=null)
    begun = perf_counter()
    with interruptible(stop) as asked, asked.limit(chosen.time):
        settings = replace(chosen, time=None, sequences=0)
        ranking = _Ranking(stated, named, policy_class, fixed, settings, asked, chosen.time, begun)
        return ranking.ranked(first, tried, on_trial, on_progress or _say_nothing)


def _check(problem: Problem, policy_class: PolicyClass, fixed: bool) -> None:
    if problem.task.over == "forever" and not fixed:
        found = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", found, "write 'over: horizon', or keep the policy fixed")])
    if fixed and any(condition.sees_observations for condition in policy_class.conditions):
        found = "looks at the observations, which change with the sensors"
        raise InputError([Fault("policy", found, "let a policy be searched for every trial")])


def _are_texts(texts: object) -> bool:
    return isinstance(texts, str) or (isinstance(texts, Sequence) and all(isinstance(one, str) for one in texts))


def _say_nothing(text: str) -> None:
    """For callers who do not listen."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one observer leaves hidden."""

    measurement: Measurement
    policy: Policy | None
    status: Status | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """How every trial is made."""

    problem: Problem
    sensors: Sensors
    policy_class: PolicyClass
    fixed: bool
    options: SolveOptions
    stop: Stop
    time: float | None
    begun: float

    def ranked(
        self,
        policy: Policy | None,
        changes: Sequence[Change],
        on_trial: Callable[[SensorTrial], None] | None,
        on_progress: Callable[[str], None],
    ) -> SensorRanking:
        named = [(sensor, change) for sensor in self.sensors.names for change in (None, *changes)]
        on_progress("the sensors as they are")
        with self.stop.part(self._share(1 + len(named))) as stop:
            base = self._answer(self.sensors.observer, policy, stop, first=True)
        trials: list[SensorTrial] = []
        wanted = named if base.status not in _MISSED else []
        with threadpool_limits(1):  # sums over several threads round differently
            for trial in self._trials(wanted, base, on_progress):
                trials.append(trial)
                if on_trial is not None:
                    on_trial(trial)
        return SensorRanking(
            problem=self.problem.name,
            policy_class=class_name(self.policy_class),
            fixed=self.fixed,
            null=self.sensors.null,
            base=base.measurement,
            policy=base.policy,
            status=base.status,
            sensors=self._rank(_in_order(trials)),
            trials=_in_order(trials),
            stated=isinstance(self.sensors, StatedSensors),
            seconds=perf_counter() - self.begun,
            interrupted=self.stop.interrupted,
            complete=len(trials) == len(named),
        )

    def _rank(self, trials: Sequence[SensorTrial]) -> tuple[RankedSensor, ...]:
        """The sensors in the order of the trials, then those without one."""
        costs = {trial.sensor: trial.gain for trial in trials if trial.change == REMOVED}
        states = self.problem.mdp.states
        listed = self.sensors.stated.sensors if isinstance(self.sensors, StatedSensors) else ()
        stated = {each.name: each for each in listed}
        return tuple(
            RankedSensor(
                name=sensor,
                covers={states[state]: rate for state, rate in self.sensors.coverage(sensor).items()},
                detects=stated[sensor].detects if sensor in stated else None,
                false_alarm=stated[sensor].false_alarm if sensor in stated else None,
                cost=costs.get(sensor),
            )
            for sensor in dict.fromkeys([*costs, *self.sensors.names])
        )

    def _trials(
        self, named: list[tuple[str, Change | None]], base: _Answer, on_progress: Callable[[str], None]
    ) -> Iterator[SensorTrial]:
        """The trials, as many at a time as there are cores."""
        at_once = self.options.processes or available_cores()
        with ThreadPoolExecutor(at_once) as pool:
            for done in range(0, len(named), at_once):
                if self.stop.requested:
                    return
                batch, left = named[done : done + at_once], len(named) - done
                on_progress(f"{done} of {len(named)} trials | {', '.join(sensor for sensor, _ in batch)}")
                seconds = self._share(max(1.0, left / at_once))
                made = [pool.submit(self._trial, *each, base=base, seconds=seconds) for each in batch]
                yield from (trial for trial in (each.result() for each in made) if trial is not None)

    def _trial(self, sensor: str, change: Change | None, *, base: _Answer, seconds: float | None) -> SensorTrial | None:
        sensors = self.sensors
        observer = sensors.without(sensor) if change is None else sensors.with_rate(sensor, change)
        try:
            with self.stop.part(seconds) as stop:
                answer = self._answer(observer, base.policy, stop, first=False)
        except StoppedError:
            return None
        return SensorTrial(
            sensor=sensor,
            change=REMOVED if change is None else change.text,
            gain=_gain(answer.measurement, base.measurement, never_less=self.fixed and change is None),
            measurement=answer.measurement,
            policy=answer.policy,
            status=answer.status,
            seconds=answer.seconds,
        )

    def _answer(self, observer: Observer, policy: Policy | None, stop: Stop, *, first: bool) -> _Answer:
        """The policy measured or, where it is not fixed, a better one searched from there."""
        begun, problem = perf_counter(), replace(self.problem, observer=observer)
        kept = self._measured(problem, policy, stop) if self._stays(policy) and (self.fixed or not first) else None
        if self.fixed and kept is not None:
            return _Answer(kept, policy, None, perf_counter() - begun)
        options = self.options if first else replace(self.options, num_starts=self.options.num_starts or _WARM_STARTS)
        solution = solve(
            problem,
            policy_class=self.policy_class,
            options=replace(options, processes=None if first else 1),
            warm=policy if self._stays(policy) else None,
            stop=stop,
        )
        seconds, status = perf_counter() - begun, solution.status
        if kept is not None and self._better(kept, solution.measurement):
            return _Answer(kept, policy, status, seconds)
        return _Answer(solution.measurement, solution.policy, status, seconds)

    def _stays(self, policy: Policy | None) -> bool:
        """Whether a policy means the same with other sensors, so that it can be measured or begun from."""
        if policy is None:
            return self.fixed
        return not any(condition.sees_observations for condition in policy.policy_class.conditions)

    @staticmethod
    def _measured(problem: Problem, policy: Policy | None, stop: Stop) -> Measurement:
        product = compile_problem(problem, None if policy is None else policy.policy_class, stop=stop)
        return measure_product(product, product.policy_vector(policy), sequences=0, stop=stop)

    def _better(self, one: Measurement, other: Measurement) -> bool:
        if one.feasible != other.feasible:
            return one.feasible
        if self.problem.task.minimise:
            return one.uncertainty.at_most < other.uncertainty.at_most
        return one.uncertainty.at_least > other.uncertainty.at_least

    def _share(self, parts: float) -> float | None:
        """Seconds for the next of so many parts of the work, and a half more."""
        if self.time is None:
            return None
        left = max(0.0, self.begun + self.time - perf_counter())
        return min(left, 1.5 * left / parts)


def _gain(measurement: Measurement, base: Measurement, *, never_less: bool) -> Amount:
    """How much more is hidden than before.

    never_less: whether the policy is the same and only observations were merged, so that it cannot be less.
    """
    gain = measurement.uncertainty.minus(base.uncertainty)
    if gain.method != "interval" or not never_less or gain.lower >= 0:
        return gain
    return Amount.between(0.0, max(0.0, gain.upper))


def _in_order(trials: Sequence[SensorTrial]) -> tuple[SensorTrial, ...]:
    """By what the removal of their sensor is known to gain; within a sensor as they were made."""
    gains = {trial.sensor: trial.gain.at_least for trial in trials if trial.change == REMOVED}
    return tuple(sorted(trials, key=lambda trial: -gains.get(trial.sensor, float("-inf"))))
