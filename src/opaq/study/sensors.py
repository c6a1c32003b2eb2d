"""The cost of each sensor in opacity: the one call behind `opaq sensors`.

First the sensors of an observer, each of which can be removed or given another rate: as they are stated, or inferred
from the names of the observations. Then the ranking: the problem is solved with the sensors as they are, and once more
for every trial, and the gain of a trial is what is hidden more than before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.codec import Result, flat, key, live
from opaq.display import NotebookView, data_frame
from opaq.errors import Fault, InputError, is_flag
from opaq.model.arrays import BoolArray, ContentEq, FloatArray, SparseRows
from opaq.model.observer import (
    JOINS,
    Observer,
    ObserverKind,
    Sensor,
    SensorSet,
    quiet_observation,
    require_tables,
    sensors_in,
)
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, measure_product
from opaq.opacity.policies import as_policy
from opaq.product.compile import compile_problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import class_name
from opaq.solvers.solve import solve
from opaq.solvers.strategy import Status
from opaq.stop import Deadline, Stop, StoppedError, interruptible
from opaq.study.arguments import read_arguments
from opaq.study.sweep.laws import BrokenLaw, LawAnswer, compare_answers
from opaq.threads import available_cores

if TYPE_CHECKING:
    from pandas import DataFrame

_EQUAL = 1e-12  # rates this close are the same


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the rate of a sensor where it covers: it is multiplied, at most to 1, or set."""

    text: str  # "x0.5" or "0.9"
    factor: float | None = None  # None: the rate is set
    rate: float | None = None  # None: the rate is multiplied

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read "x0.5", which multiplies, or "0.9", which sets. Raises InputError for any other text."""
        word = str(text).strip()
        multiplies = word.startswith("x")
        try:
            number = float(word.removeprefix("x"))
        except ValueError:
            number = float("nan")
        if not (0.0 <= number <= (1e6 if multiplies else 1.0)):
            raise InputError([Fault("changes", f"'{word[:40]}' is no change of a rate", "write x0.5, or 0.9")])
        return cls(word, number, None) if multiplies else cls(word, None, number)

    def apply(self, rates: FloatArray) -> FloatArray:
        """Return the new rates, in [0, 1]."""
        return np.full_like(rates, self.rate) if self.factor is None else np.minimum(1.0, self.factor * rates)


class Sensors(Protocol):
    """The sensors of an observer, each of which can be removed or changed.

    A sensor fires in a state with some probability, its rate; it covers the states where it fires more often than by
    false alarm.
    """

    @property
    def observer(self) -> Observer:
        """The observer as it is."""

    @property
    def null(self) -> str:
        """The observation when no sensor fires."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sensors."""

    def coverage(self, sensor: str) -> dict[int, float]:
        """Return the states that a sensor covers: number of the state -> the rate there."""

    def without(self, sensor: str) -> Observer:
        """Return the observer that lacks one sensor."""

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """Return the observer one of whose sensors detects more, or less, where it covers."""


def find_sensors(observer: ObserverKind, *, null: str | None = None) -> Sensors:
    """Return the sensors that are stated or, where none are, those that the names of the observations tell.

    null: the observation when no sensor fires; None: as it is stated, or as `quiet_observation` tells it.
    Raises InputError for an observer that is no table, and for a null that it does not have.
    """
    tables = require_tables(observer, needed_by="a ranking of sensors")
    if tables.sensors is not None:
        if null not in (None, tables.sensors.null):
            reason = f"'{null}' is not what the stated sensors show when none fires"
            raise InputError([Fault("null", reason, f"that is '{tables.sensors.null}': leave it out")])
        return _StatedSensors(tables, tables.sensors)
    names = tables.observations
    if null is not None and null not in names:
        raise InputError([Fault("null", f"'{null}' is no observation", f"there are {', '.join(names[:8])}")])
    quiet = quiet_observation(tables) if null is None else null
    fired = tuple(frozenset(sensors_in(name)) if name != quiet else frozenset() for name in names)
    sensors = dict.fromkeys(part for name in names if name != quiet for part in sensors_in(name))
    return _InferredSensors(tables, quiet, fired, tuple(sensors))


@dataclass(frozen=True, slots=True, eq=False)
class _StatedSensors:
    """Sensors as they are stated; the observations and their probabilities follow from them."""

    observer: Observer
    sensor_set: SensorSet

    @property
    def null(self) -> str:
        """The observation when no sensor fires."""
        return self.sensor_set.null

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sensors, as they are listed."""
        return self.sensor_set.names

    def coverage(self, sensor: str) -> dict[int, float]:
        """Return the states that a sensor covers: number of the state -> the rate there."""
        return self.sensor_set.coverage()[sensor]

    def without(self, sensor: str) -> Observer:
        """Return the observer that lacks one sensor; without the last one it always sees the same."""
        left = tuple(each for each in self.sensor_set.sensors if each.name != sensor)
        if left:
            return self._observe(left)
        blind = SparseRows.from_dense(np.ones((self.sensor_set.num_states, 1)))
        return replace(self.observer, observations=(self.null,), emission=blind, sensors=None)

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """Return the observer one of whose sensors detects more, or less, where it covers; false alarms stay."""
        return self._observe(
            replace(each, detects=float(change.apply(np.array([each.detects]))[0])) if each.name == sensor else each
            for each in self.sensor_set.sensors
        )

    def _observe(self, sensors: Iterable[Sensor]) -> Observer:
        """Return the observer who has these sensors; what it sees of the actions stays."""
        changed = replace(self.sensor_set, sensors=tuple(sensors))
        return Observer.of_sensors(changed, self.observer.action_signs, self.observer.action_emission)


@dataclass(frozen=True, slots=True, eq=False)
class _InferredSensors:
    """A table of emissions read as sensors: those that the names of its observations tell.

    "A+B" names the two that fired. A sensor is removed by merging the observations that differ in it alone; its rate
    is changed by moving probability between them.
    """

    observer: Observer
    null: str
    fired: tuple[frozenset[str], ...]  # [observation]: the sensors that it names
    names: tuple[str, ...]

    def coverage(self, sensor: str) -> dict[int, float]:
        """Return the states that a sensor covers: number of the state -> the rate there."""
        rates = self._rates(self.observer.emission, sensor)
        covers = self._covers(self.observer.emission, sensor)
        return {int(state): float(rates[state]) for state in np.flatnonzero(covers)}

    def without(self, sensor: str) -> Observer:
        """Return the observer that lacks one sensor."""
        left = dict.fromkeys(self._observation(fired - {sensor}) for fired in self.fired)
        position = {name: index for index, name in enumerate(left)}
        column = np.array([position[self._observation(fired - {sensor})] for fired in self.fired], dtype=np.int64)

        def merge(table: SparseRows) -> SparseRows:
            """Add up the columns of observations that differ in the sensor alone."""
            shape = (table.num_rows, len(left))
            return SparseRows.from_entries(table.row_of_entry(), column[table.columns], table.values, shape=shape)

        return self._with_tables(tuple(left), merge)

    def with_rate(self, sensor: str, change: Change) -> Observer:
        """Return the observer one of whose sensors detects more, or less, where it covers.

        Of all that is seen with the same other sensors, the share with this one is its rate there: the change applies
        to it, and the sum stays.
        """
        position = {fired: index for index, fired in enumerate(self.fired)}
        partners = [position.get(fired - {sensor}, index) for index, fired in enumerate(self.fired)]
        rest = np.array(partners, dtype=np.int64)  # [observation]: the one that lacks the sensor
        names_it = [sensor in fired and fired - {sensor} in position for fired in self.fired]
        loud = np.array(names_it, dtype=bool)  # [observation]: whether it names the sensor and has a partner

        def move(table: SparseRows) -> SparseRows:
            """Move probability between each observation that names the sensor and the one that lacks it.

            A row and an observation without the sensor make a group, whose total stays; the share of the observation
            with the sensor is changed where the sensor covers.
            """
            rows, width = table.row_of_entry(), len(self.fired)
            groups, group = np.unique(rows * width + rest[table.columns], return_inverse=True)
            total = np.bincount(group, weights=table.values)
            fires = np.bincount(group, weights=table.values * loud[table.columns])
            partner = np.full(groups.size, -1)
            partner[group[loud[table.columns]]] = table.columns[loud[table.columns]]
            row = groups // width
            share = fires / total
            changes = self._covers(table, sensor)[row] & (fires > 0)
            share = np.where(changes, change.apply(share), share)
            entries = (
                np.concatenate((row, row[partner >= 0])),
                np.concatenate((groups % width, partner[partner >= 0])),
                np.concatenate((total * (1.0 - share), (total * share)[partner >= 0])),
            )
            return SparseRows.from_entries(*entries, shape=(table.num_rows, width))

        return self._with_tables(self.observer.observations, move)

    def _rates(self, table: SparseRows, sensor: str) -> FloatArray:
        """Return [row]: how likely a sensor fires there."""
        loud = np.array([sensor in fired for fired in self.fired])
        weights = table.values * loud[table.columns]
        return np.bincount(table.row_of_entry(), weights=weights, minlength=table.num_rows).astype(np.float64)

    def _covers(self, table: SparseRows, sensor: str) -> BoolArray:
        """Return [row]: whether a sensor fires there more often than by false alarm.

        Its rate of false alarms is the least rate of all states; where it is the same everywhere, so is its coverage.
        """
        rates = self._rates(table, sensor)
        least = float(self._rates(self.observer.emission, sensor).min(initial=1.0))
        above = rates > least + _EQUAL
        return above if above.any() else rates > 0

    def _observation(self, fired: frozenset[str]) -> str:
        """Return the name of the observation when some sensors fire, in the order in which they are listed."""
        return JOINS.join(name for name in self.names if name in fired) or self.null

    def _with_tables(self, names: tuple[str, ...], change: Callable[[SparseRows], SparseRows]) -> Observer:
        """Return the observer with other observations and every one of its tables changed."""
        after = self.observer.after_action
        return replace(
            self.observer,
            observations=names,
            emission=change(self.observer.emission),
            after_action=None if after is None else change(after),
        )


_REMOVED = "removed"
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
    broken_laws: pairs of trials whose answers cannot both be the best: the search of one of them was too short.
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
    broken_laws: tuple[BrokenLaw, ...] = ()

    @property
    def coverage(self) -> Mapping[str, Mapping[str, float]]:
        """Sensor -> state -> how likely it fires there."""
        return {sensor.name: sensor.covers for sensor in self.sensors}

    @property
    def costs(self) -> dict[str, Amount]:
        """Sensor -> what its removal gains, those that cost most first."""
        return {trial.sensor: trial.gain for trial in self.trials if trial.change == _REMOVED}

    def to_dataframe(self) -> DataFrame:
        """Return one line per trial: the sensor, its change, what that gains, and what the policy hides and earns."""
        gains = ("gain", "gain_lower", "gain_upper")
        columns = ("sensor", "change", *gains, self.base.of.name, "return", "status", "seconds")
        lines = [
            {
                "sensor": trial.sensor,
                "change": trial.change,
                "gain": float(trial.gain),
                "gain_lower": trial.gain.lower,
                "gain_upper": trial.gain.upper,
                self.base.of.name: float(trial.measurement.uncertainty),
                "return": trial.measurement.expected_return,
                "status": None if trial.status is None else trial.status.name.lower(),
                "seconds": trial.seconds,
            }
            for trial in self.trials
        ]
        return data_frame(lines, columns)

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
    initial_policy: Policy | str | os.PathLike[str] | None = None,
    conditions: str | None = None,
    options: SolveOptions | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int | None = None,
    stop: Stop | None = None,
    on_trial: Callable[[SensorTrial], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> SensorRanking:
    """Return what each sensor costs in opacity: each one removed, each one's rate changed.

    problem: an object, the name of a file, or the name of a scenario. Its observer must be one of tables.
    policy: an object, a file, "uniform" or "return-optimal". With `fixed` it stays the same and is only measured
        (None: the uniform policy); otherwise it is where the first search begins, as `initial_policy` is.
    fixed: whether the policy stays the same. By default the problem is solved, and solved again for every trial,
        beginning at the policy of the sensors as they are.
    changes: what happens to the rate at which a sensor detects where it covers: "x0.5" multiplies it, at most to 1,
        "0.9" sets it. Every sensor is removed in any case.
    null: the observation when no sensor fires, for observers of which only emissions are stated: their sensors are
        inferred from the names of the observations, where "A+B" names the two that fired. "null" by default or, if
        there is none of that name, the observation that most states can show. Stated sensors have their own.
    initial_policy: where the first search begins; any policy that `policy` may be, in its place and without `fixed`.
    conditions: what the policies look at that are searched; the problem's own class by default.
    options: a `SolveOptions` for every search; the keywords take precedence over it.
    time_limit: seconds for all of it; the trials there are by then are the answer. So they are when `stop` is
        requested or, without a stop, after Ctrl-C.
    workers: at most so many trials at a time (one per core by default), which changes nothing else.
    seed: the same seed gives the same answer.
    on_trial: called with every trial that is done. on_progress: called with words that say how far the work is.

    Raises InputError when an argument does not fit, StoppedError when there was no time for the first policy.
    """
    call = Deadline()
    problem, chosen, policy_class = read_arguments(
        problem,
        {
            "fixed": (fixed, is_flag, "True or False"),
            "changes": (changes, _are_texts, "a list of changes, such as 'x0.5'"),
            "null": (null, lambda name: name is None or isinstance(name, str), "the name of an observation"),
        },
        options=options,
        changes={"conditions": conditions, "time_limit": time_limit, "workers": workers, "seed": seed},
        stop=stop,
        callbacks={"on_trial": on_trial, "on_progress": on_progress},
    )
    rate_changes = [Change.parse(change) for change in ([changes] if isinstance(changes, str) else changes)]
    if initial_policy is not None and (fixed or policy is not None):
        finding = "has no effect on a policy that is fixed" if fixed else "and policy both say where the search begins"
        raise InputError([Fault("initial_policy", finding, "leave it out" if fixed else "give one of them")])
    given = policy if initial_policy is None else initial_policy
    first = None if given is None else as_policy(given, problem, within=None if fixed else policy_class)
    if fixed and first is not None:
        policy_class = first.policy_class
    if problem.task.over == "forever" and not fixed:
        reason = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", reason, "write 'over: horizon', or keep the policy fixed")])
    if fixed and any(condition.sees_observations for condition in policy_class.conditions):
        reason = "looks at the observations, which change with the sensors"
        raise InputError([Fault("policy", reason, "let a policy be searched for every trial")])
    sensors = find_sensors(problem.observer, null=null)
    deadline = call.limited_to(chosen.time_limit)
    with interruptible(stop) as stop, stop.limit(deadline.left):
        settings = replace(chosen, time_limit=None, sequences=0)
        ranking = _Ranking(problem, sensors, policy_class, fixed, settings, stop, deadline)
        return ranking.rank(first, rate_changes, on_trial, on_progress or (lambda text: None))


def _are_texts(texts: object) -> bool:
    """Return whether an argument is one text, or a sequence of texts."""
    return isinstance(texts, str) or (isinstance(texts, Sequence) and all(isinstance(one, str) for one in texts))


@dataclass(frozen=True, slots=True)
class _Answer:
    """A policy against one observer, and what it hides."""

    measurement: Measurement
    policy: Policy | None  # None: the uniform policy
    status: Status | None  # of the search; None: nothing was searched
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """A ranking in the making: what every trial has in common."""

    problem: Problem
    sensors: Sensors
    policy_class: PolicyClass
    fixed: bool
    options: SolveOptions  # of every search
    stop: Stop
    deadline: Deadline  # of the whole ranking

    def rank(
        self,
        policy: Policy | None,
        changes: Sequence[Change],
        on_trial: Callable[[SensorTrial], None] | None,
        on_progress: Callable[[str], None],
    ) -> SensorRanking:
        """Return the ranking, with as many trials as there was time for.

        policy: the one that is measured or begun from. changes: of every sensor, beside its removal.
        """
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
            sensors=self._rank(_sort_trials(trials)),
            trials=_sort_trials(trials),
            stated=isinstance(self.sensors, _StatedSensors),
            seconds=self.deadline.elapsed,
            interrupted=self.stop.interrupted,
            complete=len(trials) == len(named),
            broken_laws=() if self.fixed else self._find_broken_laws(trials, base.measurement),
        )

    def _find_broken_laws(self, trials: Sequence[SensorTrial], base: Measurement) -> tuple[BrokenLaw, ...]:
        """Return the pairs of trials of one sensor, or of a trial and the sensors as they are, that break a law.

        Without a sensor the observer sees a garbled version of what it sees with it, and so it does with a lower rate,
        unless that is below the rate of false alarms. Where sensors are inferred only removals are compared. Policies
        that look at the observations are others for another observer.
        """
        if any(condition.sees_observations for condition in self.policy_class.conditions):
            return ()
        listed = self.sensors.sensor_set.sensors if isinstance(self.sensors, _StatedSensors) else ()
        stated, broken = {each.name: each for each in listed}, list[BrokenLaw]()
        for sensor in self.sensors.names:
            rates = list[tuple[float, LawAnswer]]()  # what detects less often sees no more; -inf without the sensor
            own, name = stated.get(sensor), "the sensors as they are"
            rates.append(
                (math.inf if own is None else own.detects, LawAnswer(name, name, name, base.objective, base.feasible))
            )
            for trial in trials:
                if trial.sensor != sensor or (own is None and trial.change != _REMOVED):
                    continue
                rate, name = -math.inf, f"{sensor} {trial.change}"
                if own is not None and trial.change != _REMOVED:
                    rate = float(Change.parse(trial.change).apply(np.array([own.detects]))[0])
                    if rate < own.false_alarm:
                        continue
                rates.append(
                    (rate, LawAnswer(name, name, name, trial.measurement.objective, trial.measurement.feasible))
                )
            for (low, less), (high, more) in permutations(rates, 2):
                law = compare_answers(less, more) if low <= high else None
                broken += [] if law is None else [law]
        return tuple(broken)

    def _rank(self, trials: Sequence[SensorTrial]) -> tuple[RankedSensor, ...]:
        """Return the sensors in the order of the trials, then those without one."""
        costs = {trial.sensor: trial.gain for trial in trials if trial.change == _REMOVED}
        states = self.problem.mdp.states
        listed = self.sensors.sensor_set.sensors if isinstance(self.sensors, _StatedSensors) else ()
        by_name = {each.name: each for each in listed}
        return tuple(
            RankedSensor(
                name=sensor,
                covers={states[state]: rate for state, rate in self.sensors.coverage(sensor).items()},
                detects=by_name[sensor].detects if sensor in by_name else None,
                false_alarm=by_name[sensor].false_alarm if sensor in by_name else None,
                cost=costs.get(sensor),
            )
            for sensor in dict.fromkeys([*costs, *self.sensors.names])
        )

    def _trials(
        self, named: list[tuple[str, Change | None]], base: _Answer, on_progress: Callable[[str], None]
    ) -> Iterator[SensorTrial]:
        """Yield the trials, as many at a time as there are cores; None of a sensor's changes stands for its removal."""
        at_once = self.options.workers or available_cores()
        with ThreadPoolExecutor(at_once) as pool:
            for done in range(0, len(named), at_once):
                if self.stop.requested:
                    return
                batch, left = named[done : done + at_once], len(named) - done
                on_progress(f"{done} of {len(named)} trials | {', '.join(sensor for sensor, _ in batch)}")
                seconds = self._share(max(1.0, left / at_once))
                futures = [pool.submit(self._trial, *each, base=base, seconds=seconds) for each in batch]
                yield from (trial for trial in (each.result() for each in futures) if trial is not None)

    def _trial(self, sensor: str, change: Change | None, *, base: _Answer, seconds: float | None) -> SensorTrial | None:
        """Make one trial in some seconds (None: without a limit); None where there was no time for it."""
        sensors = self.sensors
        observer = sensors.without(sensor) if change is None else sensors.with_rate(sensor, change)
        try:
            with self.stop.part(seconds) as stop:
                answer = self._answer(observer, base.policy, stop, first=False)
        except StoppedError:
            return None
        return SensorTrial(
            sensor=sensor,
            change=_REMOVED if change is None else change.text,
            gain=_gain(answer.measurement, base.measurement, never_less=self.fixed and change is None),
            measurement=answer.measurement,
            policy=answer.policy,
            status=answer.status,
            seconds=answer.seconds,
        )

    def _answer(self, observer: Observer, policy: Policy | None, stop: Stop, *, first: bool) -> _Answer:
        """Measure a policy against an observer or, where it is not fixed, search a better one from there.

        first: whether these are the sensors as they are, whose search has all cores; those of the trials have one each
        and few starts, because they begin at a good policy, which also stays where they end with a worse one.
        """
        trial, problem = Deadline(), replace(self.problem, observer=observer)
        # A policy that looks at observations means nothing with other sensors; no search begins from the uniform one.
        usable = (
            self.fixed
            if policy is None
            else not any(condition.sees_observations for condition in policy.policy_class.conditions)
        )
        kept: Measurement | None = None
        if usable and (self.fixed or not first):
            product = compile_problem(problem, None if policy is None else policy.policy_class, stop=stop)
            kept = measure_product(product, product.policy_vector(policy), sequences=0, stop=stop)
        if self.fixed and kept is not None:
            return _Answer(kept, policy, None, trial.elapsed)
        options = self.options if first else replace(self.options, starts=self.options.starts or _WARM_STARTS)
        solution = solve(
            problem,
            policy_class=self.policy_class,
            options=replace(options, workers=None if first else 1),
            initial_policy=policy if usable else None,
            stop=stop,
        )
        seconds, status = trial.elapsed, solution.status
        if kept is not None and self._is_better(kept, solution.measurement):
            return _Answer(kept, policy, status, seconds)
        return _Answer(solution.measurement, solution.policy, status, seconds)

    def _is_better(self, one: Measurement, other: Measurement) -> bool:
        """Return whether one measurement is better than another for the task, by what is sure of it."""
        if one.feasible != other.feasible:
            return one.feasible
        if self.problem.task.minimise:
            return one.uncertainty.at_most < other.uncertainty.at_most
        return one.uncertainty.at_least > other.uncertainty.at_least

    def _share(self, parts: float) -> float | None:
        """Return seconds for the next of so many parts of the work: its share of what is left, and a half more."""
        return self.deadline.share(1.5 / parts)


def _gain(measurement: Measurement, base: Measurement, *, never_less: bool) -> Amount:
    """Return how much more a trial hides than the sensors as they are do.

    never_less: whether the policy is the same and only observations were merged, so that it cannot be less.
    """
    gain = measurement.uncertainty.minus(base.uncertainty)
    if gain.method != "interval" or not never_less or gain.lower >= 0:
        return gain
    return Amount.between(0.0, max(0.0, gain.upper))


def _sort_trials(trials: Sequence[SensorTrial]) -> tuple[SensorTrial, ...]:
    """Sort trials by what the removal of their sensor is sure to gain; within a sensor as they were made."""
    gains = {trial.sensor: trial.gain.at_least for trial in trials if trial.change == _REMOVED}
    return tuple(sorted(trials, key=lambda trial: -gains.get(trial.sensor, float("-inf"))))
