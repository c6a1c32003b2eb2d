"""Which sensor costs the most opacity: the one call behind `opaq sensors`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter

from threadpoolctl import threadpool_limits

from opaq.choices import check_types, is_flag
from opaq.errors import Fault, InputError
from opaq.loading.policy_files import as_policy
from opaq.loading.scenarios import as_problem
from opaq.model.content import ByContent
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.sensor_set import SensorSet
from opaq.opacity.amount import Amount
from opaq.opacity.measurement import Measurement, measure_product
from opaq.product.compile import compile_problem
from opaq.solvers.cores import available_cores
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import chosen_class, class_name
from opaq.solvers.solution import solve
from opaq.solvers.status import Status
from opaq.stop import Stop, StoppedError, on_signals
from opaq.study.sensor_channels import Change, Sensors, StatedSensors, sensors_of

REMOVED = "removed"
CHANGES = ("x0.5", "1")
_WARM_STARTS = 2  # of a search that begins at a good policy: that one, and one other
_MISSED = (Status.INFEASIBLE, Status.NOT_FOUND)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensorTrial(ByContent):
    """What a policy hides with one sensor removed, or with another rate."""

    sensor: str
    change: str  # "removed", "x0.5" or a rate
    gain: Amount  # above what is hidden with the sensors as they are
    measurement: Measurement
    policy: Policy | None  # None: the uniform policy
    status: Status | None  # of the search; None: nothing was searched
    seconds: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SensorRanking(ByContent):
    """The trials, those of the sensor first whose removal gains most.

    A gain that is only known to lie in an interval counts with the interval's lower end: what is proven.
    """

    problem: str
    policy_class: str
    fixed: bool  # whether the policy stayed the same
    null: str  # what the observer sees when no sensor fires
    base: Measurement  # with the sensors as they are
    policy: Policy | None  # the policy then; None: the uniform one
    status: Status | None
    trials: tuple[SensorTrial, ...]
    coverage: Mapping[str, Mapping[str, float]]  # sensor -> state -> how likely it fires there
    stated: SensorSet | None  # the sensors as they are stated; None: they were inferred from the observations
    seconds: float
    interrupted: bool = False
    complete: bool = True  # whether every trial was made

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
    own, begun = Stop(), perf_counter()
    with on_signals(lambda number: own.request()) if stop is None else nullcontext():
        asked = stop or own
        with asked.limit(chosen.time):
            try:
                settings = replace(chosen, time=None, sequences=0)
                ranking = _Ranking(stated, named, policy_class, fixed, settings, asked, chosen.time, begun)
                return ranking.ranked(first, tried, on_trial, on_progress or _say_nothing)
            except StoppedError:
                if not own.interrupted:
                    raise
    raise KeyboardInterrupt


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
        states = self.problem.mdp.states
        return SensorRanking(
            problem=self.problem.name,
            policy_class=class_name(self.policy_class),
            fixed=self.fixed,
            null=self.sensors.null,
            base=base.measurement,
            policy=base.policy,
            status=base.status,
            trials=_in_order(trials),
            coverage={
                sensor: {states[state]: rate for state, rate in self.sensors.coverage(sensor).items()}
                for sensor in self.sensors.names
            },
            stated=self.sensors.stated if isinstance(self.sensors, StatedSensors) else None,
            seconds=perf_counter() - self.begun,
            interrupted=self.stop.interrupted,
            complete=len(trials) == len(named),
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
