"""The Pareto front of opacity against a requirement: the one call behind `opaq frontier`.

First the two ends are solved: the most opaque policy of all, and the most opaque one that earns all that can be earned.
Then thresholds between them, a pair at a time, where `placement` expects most to be learned, each begun from its
neighbours' policies. At last points that lie below the mixtures of others are searched once more, and no point stays
below one of a higher threshold, whose policy meets its requirement, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from threadpoolctl import threadpool_limits

from opaq.certificates.certify import Certificate, certify, is_trivial
from opaq.codec import Result, flat, if_known, infinity, live
from opaq.display import NotebookView, data_frame
from opaq.errors import Fault, InputError, check_numbers, is_flag
from opaq.model.arrays import ContentEq, FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.uncertainty import Uncertainty
from opaq.opacity.amount import Amount, Target
from opaq.opacity.measure import Measurement
from opaq.opacity.policies import as_policy
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import class_name
from opaq.solvers.strategy import Status
from opaq.stop import TIME_IS_UP, Deadline, Stop, StoppedError, interruptible
from opaq.study.arguments import read_arguments
from opaq.study.front.placement import FrontSample, is_closed_under_mixing, next_thresholds, shortfalls
from opaq.study.front.search import FEW_BELIEFS, FrontSearch, FrontSolution, with_threshold
from opaq.threads import available_cores

if TYPE_CHECKING:
    from pandas import DataFrame

_CONCAVE = 1e-3  # bits that a point may lie below the others' mixtures and still count as on a concave front
_MOST_POINTS = 1_000
_SIDE_BY_SIDE = 2  # points solved together, on any machine: the same points everywhere
_END = 1e-6  # of its size: how far below the largest attainable value the last point is asked for
_FOR_ENDS = 0.4  # of the time: all other points begin from them
_DENT = 1e-4  # bits: points further below the others' mixtures are searched once more
_CERTIFYING = 0.5  # of the time, where there is a limit
_CERTIFY_SECONDS = 60.0  # per point, where there is none

_Job = tuple[float | None, list[FloatArray]]  # a threshold and the policies to begin from


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FrontierPoint(ContentEq):
    """The most opaque policy found that reaches a threshold.

    threshold: what was asked; null for the first point, of which nothing is asked: the most opaque policy of all.
    value: what the policy reaches of the requirement.
    measurement: of the policy.
    policy: the policy.
    slope: what one more unit of threshold changes: minus the multiplier; null: not known.
    status: how the search ended, as in a solution.
    status_text: the status as a sentence.
    seconds: its time.
    carried: whether the policy is that of the next point, which was better.
    shortfall: how far the point lies below the mixtures of others; 0 on a concave front (of a task that minimises:
        above them, 0 on a convex front).
    certificate: the proof of the bound.
    upper_bound: what no policy exceeds at this threshold; null where none was certified.
    lower_bound: of a task that minimises: what no policy gets below; left out where none was certified.
    is_trivial: whether the bound says no more than the number of secret values does.
    policy_file: the file of its policy; null where there is none.
    """

    threshold: float | None
    value: float
    measurement: Measurement = field(metadata=flat())
    policy: Policy = field(metadata=live())
    slope: float | None
    status: Status
    status_text: str
    seconds: float
    carried: bool = False
    shortfall: float = 0.0
    certificate: Certificate | None = field(default=None, metadata=live())
    upper_bound: float | None = None
    is_trivial: bool = False
    policy_file: str | None = None
    lower_bound: float | None = field(default=None, metadata=if_known())

    @property
    def bound(self) -> float | None:
        """The bound of either kind; None where none was certified."""
        return self.upper_bound if self.lower_bound is None else self.lower_bound

    @property
    def opacity(self) -> Amount:
        """H(secret | observations) of the policy."""
        return self.measurement.opacity

    @property
    def expected_return(self) -> float:
        """The return of the policy."""
        return self.measurement.expected_return

    @property
    def guess_error(self) -> Amount:
        """How often the best guess of the secret is wrong."""
        return self.measurement.guess_error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frontier(NotebookView, ContentEq, Result):
    """The front, by threshold: what is hidden never rises along it.

    problem: the problem's name.
    against: the requirement whose threshold varies, as a measurement names it.
    policy_class: what the policies look at.
    objective: what the task is about; of one that is to be small the front rises, and a smooth one is convex.
    largest: what no policy exceeds of the requirement; null where there is no limit.
    points: by threshold; none where no policy is found that meets the other requirements.
    concave_by_theory: whether the class contains the mixtures of its policies, so that the front must be concave.
    seed: what made the searches repeatable.
    seconds: the time of the whole front.
    interrupted: whether Ctrl-C or SIGTERM ended the work.
    complete: whether all points asked for are there.
    problem_file: what the problem was read from: a file or the name of a scenario; null where that is not known.
    stated: the problem itself, with its own threshold.
    """

    RESULT: ClassVar[str] = "frontier"
    PRINTED_BY: ClassVar[str] = "frontier"

    problem: str
    against: str
    policy_class: str
    objective: Target
    largest: float = field(metadata=infinity(math.inf))
    points: tuple[FrontierPoint, ...]
    concave_by_theory: bool
    seed: int
    seconds: float
    interrupted: bool = False
    complete: bool = True
    problem_file: str | None = None
    stated: Problem | None = field(default=None, metadata=live())

    @property
    def of(self) -> Uncertainty:
        """What the task is about."""
        return self.objective.of

    def to_dataframe(self) -> DataFrame:
        """Return one line per point: its threshold, what its policy reaches and hides, and how the search ended."""
        lines = [
            {
                "threshold": point.threshold,
                "value": point.value,
                "opacity": float(point.opacity),
                "opacity_lower": point.opacity.lower,
                "opacity_upper": point.opacity.upper,
                self.of.name: float(point.measurement.uncertainty),
                "return": point.expected_return,
                "guess_error": float(point.guess_error),
                "bound": point.bound,
                "slope": point.slope,
                "feasible": point.measurement.feasible,
                "status": point.status.name.lower(),
                "seconds": point.seconds,
            }
            for point in self.points
        ]
        fixed = ("threshold", "value", "opacity", "opacity_lower", "opacity_upper")
        rest = ("return", "guess_error", "bound", "slope", "feasible", "status", "seconds")
        return data_frame(lines, tuple(dict.fromkeys((*fixed, self.of.name, *rest))))

    @property
    def not_concave(self) -> tuple[FrontierPoint, ...]:
        """The points that lie more than 1e-3 below the mixtures of others."""
        return tuple(point for point in self.points if point.shortfall > _CONCAVE)

    def __repr__(self) -> str:
        outer = (*self.points[:1], *self.points[-1:])
        ends = [f"{point.measurement.uncertainty} at {point.value:.4g}" for point in outer]
        front = f"{len(self.points)} points{', ' if ends else ''}{' to '.join(ends)}"
        return f"<Frontier of '{self.problem:.40}' against {self.against:.40}: {front}>"


def policy_file_name(number: int) -> str:
    """Return the file for the policy of a point, by its position on the front, from 1."""
    return f"point-{number:02d}.json"


def frontier(
    problem: Problem | str | os.PathLike[str],
    *,
    against: str | None = None,
    initial_policy: Policy | str | os.PathLike[str] | None = None,
    points: int = 12,
    conditions: str | None = None,
    certify: bool = False,
    options: SolveOptions | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int | None = None,
    stop: Stop | None = None,
    on_point: Callable[[FrontierPoint], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Frontier:
    """Return the Pareto front of opacity against the requirement that the task has, or against another one.

    problem: an object, the name of a file, or the name of a scenario. Its own threshold for `against` is not used;
        all other requirements hold at every point.
    against: "return", or a requirement as it is named in the task or in a measurement; by default the return where the
        task asks for one or for nothing, else the first requirement that it has.
    initial_policy: a policy to begin from: an object, a file, "uniform" or "return-optimal". Every search begins there,
        too; one of a coarser class is lifted.
    points: how many, the ends included: the most opaque policy of all, and the largest value attainable. The others go
        where the tangents and the chords of the points so far differ most.
    conditions: what the policies look at ("state,time"); the problem's own class by default.
    certify: prove at every point what no policy exceeds there, up to 60 s for each (half of `time_limit`, if
        there is one).
    options: a `SolveOptions` for every point; the keywords take precedence over it.
    time_limit: seconds for all of it; the points there are by then are the answer. So they are when `stop` is requested
        or, without a stop, after Ctrl-C. StoppedError (KeyboardInterrupt after Ctrl-C) only if there is none yet.
    workers: at most so many points at a time (two by default, if there are the cores), which changes nothing else.
    seed: the same seed gives the same points.
    on_point: called with every point when it is found (its figures may improve later, when its neighbours are known).
    on_progress: called with words that say how far the work is; from several threads.

    There are no points when no policy is found that meets the other requirements. Raises InputError when an argument
    does not fit.
    """
    check_numbers({"points": (points, 2, _MOST_POINTS)}, whole=("points",))
    call = Deadline()
    problem, chosen, policy_class = read_arguments(
        problem,
        {
            "against": (against, lambda name: name is None or isinstance(name, str), "the name of a requirement"),
            "certify": (certify, is_flag, "True or False"),
        },
        options=options,
        changes={"conditions": conditions, "time_limit": time_limit, "workers": workers, "seed": seed},
        stop=stop,
        callbacks={"on_point": on_point, "on_progress": on_progress},
    )
    if problem.task.over == "forever":
        reason = "a front needs a return over the horizon"
        raise InputError([Fault("task.over", reason, "write 'over: horizon'")])
    deadline = call.limited_to(chosen.time_limit)
    with interruptible(stop) as stop, stop.limit(deadline.left):
        settings = replace(chosen, time_limit=None, sequences=0)
        warm = None if initial_policy is None else as_policy(initial_policy, problem, within=policy_class)
        search = FrontSearch.prepare(problem, policy_class, settings, against=against, warm=warm, stop=stop)
        front = _Front(search, points, stop, deadline, certify, on_point, on_progress)
        return replace(front.solve(), stated=problem)


@dataclass(slots=True, eq=False)
class _Front:
    """A front in the making.

    The points that are solved, by threshold, and the steps that add and improve them; `solve` takes them all. Each step
    ends early when the work is asked to stop, and the points so far are the front.
    """

    search: FrontSearch
    count: int  # points that are wanted, the ends included
    stop: Stop
    deadline: Deadline  # of the whole front
    certify: bool
    on_point: Callable[[FrontierPoint], None] | None
    on_progress: Callable[[str], None] | None
    solved: list[FrontSolution] = field(default_factory=list)  # by threshold
    carried: set[int] = field(default_factory=set)  # positions whose policy is that of the next point
    one_point: bool = False  # the most opaque policy also earns all that can be earned: there is nothing between

    def solve(self) -> Frontier:
        """Return the front, with as many points as there was time for."""
        with threadpool_limits(1):  # sums over several threads round differently
            self._solve_ends()
            self._solve_between()
            self._resolve_dents()
        self._make_monotone()
        points = [
            replace(self._point(each), shortfall=shortfall, carried=index in self.carried)
            for index, (each, shortfall) in enumerate(zip(self.solved, self._shortfalls(), strict=True))
        ]
        points = self._certify_points(points) if self.certify else points
        search = self.search
        problem, policy_class = search.search.problem, search.search.policy_class
        return Frontier(
            problem=problem.name,
            against=search.name,
            policy_class=class_name(policy_class),
            objective=Target.of_task(problem.task.of, minimise=problem.task.minimise),
            largest=search.largest,
            points=tuple(points),
            concave_by_theory=is_closed_under_mixing(problem, policy_class),
            seed=search.search.options.seed,
            seconds=self.deadline.elapsed,
            interrupted=self.stop.interrupted,
            complete=len(points) == self.count or self.one_point,
        )

    def _solve_ends(self) -> None:
        """Solve for the most opaque policy of all, and the most opaque one that earns (nearly) all that can be earned.

        Raises StoppedError when there was no time for the first.
        """
        search = self.search
        top = max(search.largest - _END * search.size, search.least)
        first, last = self._solve_batch([(None, []), (top, [])])
        if first is None or (self.stop.requested and not first.measurement.feasible):
            raise StoppedError(self.stop.reason or TIME_IS_UP)  # that of the first point alone may be up
        if not first.measurement.feasible:
            return
        self._keep([first])
        if last is not None and not last.measurement.feasible and not self.stop.requested:
            reached = max(
                last.value - _END * search.size, search.least
            )  # the most that policies of this class are found to reach
            (better,) = self._solve_batch([(reached, [last.pi])])
            if better is not None and better.measurement.feasible:
                last = replace(better, seconds=last.seconds + better.seconds)
            else:
                last = search.ask_for_own_value(last)
        if last is None or not last.measurement.feasible:
            return
        if last.value > first.value + _END * search.size:
            self._keep([last])
        else:
            self.one_point = True

    def _solve_between(self) -> None:
        """Solve for thresholds between those that are known, until there are enough or nothing is left between."""
        while 2 <= len(self.solved) < self.count and not self.stop.requested:
            sign = self.search.sign
            known = [
                FrontSample(_position(each), each.score, None if each.slope is None else sign * each.slope)
                for each in self.solved
            ]
            chosen = next_thresholds(known, min(_SIDE_BY_SIDE, self.count - len(self.solved)))
            if not chosen:
                return
            batch = self._solve_batch([(threshold, self._initial_policies(threshold)) for threshold in chosen])
            kept = [each for each in batch if each is not None and self._is_worth_keeping(each)]
            if not kept:
                return
            self._keep(kept)

    def _is_worth_keeping(self, solved: FrontSolution) -> bool:
        """Return whether a point is one: a search that had no time may know nothing better than the next point."""
        if solved.status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            return solved.measurement.feasible
        above = [each.score for each in self.solved if _position(each) > _position(solved)]
        return solved.measurement.feasible and solved.score > max(above, default=-math.inf)

    def _resolve_dents(self) -> None:
        """Solve once more for points below the mixtures of others, from the neighbours that are known by now."""
        dented = [each for each, below in zip(self.solved, self._shortfalls(), strict=True) if below > _DENT]
        for first in range(0, len(dented), _SIDE_BY_SIDE):
            if self.stop.requested:
                return
            pair = [each for each in dented[first : first + _SIDE_BY_SIDE] if each.threshold is not None]
            jobs = [(each.threshold, self._initial_policies(_position(each), without=each)) for each in pair]
            for before, after in zip(pair, self._solve_batch(jobs), strict=True):
                if after is not None and after.measurement.feasible and after.score > before.score:
                    after = replace(after, seconds=before.seconds + after.seconds)
                    self.solved[self.solved.index(before)] = after

    def _make_monotone(self) -> None:
        """Give points below one of a higher threshold its policy: what reaches more also reaches less."""
        for index in range(len(self.solved) - 2, -1, -1):
            here, above = self.solved[index], self.solved[index + 1]
            if above.score > here.score:
                self.solved[index] = replace(above, threshold=here.threshold, slope=0.0, seconds=here.seconds)
                self.carried.add(index)

    def _solve_batch(self, jobs: Sequence[_Job]) -> list[FrontSolution | None]:
        """Solve for several thresholds side by side; None where there was no time for anything.

        Where there is a limit, they get their share of the time that is left, and a half more.
        """
        limit = self.deadline.seconds  # what certificates will need is kept for them
        searching = self.deadline.limited_to(None if limit is None else limit * (1.0 - _CERTIFYING * self.certify))
        share = 1.5 * len(jobs) / max(self.count - len(self.solved), 1) if self.solved else _FOR_ENDS
        seconds = searching.share(share)

        def report_progress(threshold: float | None) -> None:
            """Tell how many points are done and which threshold is searched, where somebody listens."""
            if self.on_progress is not None:
                what = "any" if threshold is None else f"at least {threshold:.4g}"
                self.on_progress(f"{len(self.solved)} of {self.count} points | {self.search.name} {what}")

        def run(job: _Job) -> FrontSolution | None:
            """Return the best policy for one threshold, in the seconds of the batch; None where there was no time."""
            threshold, policies = job
            with self.stop.part(seconds) as stop:
                try:
                    return self.search.solve(
                        threshold,
                        policies,
                        stop=stop,
                        seed=len(self.solved),
                        on_step=lambda step: report_progress(threshold),
                    )
                except StoppedError:
                    return None

        cores = self.search.search.options.workers or available_cores()
        if min(cores, len(jobs)) < 2 or self.search.search.beliefs <= FEW_BELIEFS:
            return [run(job) for job in jobs]
        with ThreadPoolExecutor(min(cores, len(jobs))) as pool:
            return list(pool.map(run, jobs))

    def _initial_policies(self, threshold: float, *, without: FrontSolution | None = None) -> list[FloatArray]:
        """Return policies to begin from: one between the neighbours that reaches the threshold, and the two themselves.

        The one that the caller gave comes after them. without: the point itself where it is searched once more; its own
        policy is the last one then.
        """
        others = [each for each in self.solved if each is not without]
        left = max((each for each in others if _position(each) <= threshold), key=_position, default=others[0])
        right = min((each for each in others if _position(each) > threshold), key=_position, default=others[-1])
        mixed = self.search.mixture(left, right, threshold)
        further = [self.search.search.warm, None if without is None else without.pi]
        return [mixed, right.pi, left.pi, *(pi for pi in further if pi is not None)]

    def _keep(self, solutions: Sequence[FrontSolution]) -> None:
        """Add points, and tell the caller of them."""
        self.solved = sorted([*self.solved, *solutions], key=_position)
        for each in solutions:
            if self.on_point is not None:
                self.on_point(self._point(each))

    def _shortfalls(self) -> list[float]:
        """Return how far each point lies below the mixtures of the others, in bits: where a search may have missed."""
        return shortfalls([(_position(each), each.score) for each in self.solved])

    def _point(self, solved: FrontSolution) -> FrontierPoint:
        """Return a solution as a point of the front, without what only the whole front tells."""
        return FrontierPoint(
            threshold=solved.threshold,
            value=solved.value,
            measurement=solved.measurement,
            policy=self.search.search.product.policy(solved.pi),
            slope=solved.slope,
            status=solved.status,
            status_text=solved.status_text,
            seconds=solved.seconds,
        )

    def _certify_points(self, points: list[FrontierPoint]) -> list[FrontierPoint]:
        """Return the points with their bounds: what no policy exceeds at a threshold, none exceeds at a higher one.

        The same holds of what no policy gets below, where the task minimises.
        """
        minimise = self.search.search.problem.task.minimise
        best, bounded = -math.inf if minimise else math.inf, []
        for number, point in enumerate(points):
            certificate = None if self.stop.requested else self._certify_point(point, number, len(points))
            if certificate is not None:
                best = (max if minimise else min)(best, certificate.bound)
            bound = best if abs(best) < math.inf else None
            trivial = (
                bound is not None
                and certificate is not None
                and is_trivial(bound, certificate.trivial_bound, minimise=minimise)
            )
            upper, lower = (None, bound) if minimise else (bound, None)
            bounded.append(
                replace(point, certificate=certificate, upper_bound=upper, lower_bound=lower, is_trivial=trivial)
            )
        return bounded

    def _certify_point(self, point: FrontierPoint, number: int, count: int) -> Certificate | None:
        """Return the certificate of one of `count` points, in its share of the time; None if there was too little."""
        if self.on_progress is not None:
            self.on_progress(f"certifying point {number + 1} of {count}")
        left = self.deadline.share(1.0 / (count - number))
        seconds = _CERTIFY_SECONDS if left is None else min(left, _CERTIFY_SECONDS)
        problem = with_threshold(self.search.search.problem, self.search.payoff, point.threshold)
        try:
            with self.stop.part() as stop:
                return certify(problem, point.policy, time_limit=seconds, stop=stop)
        except StoppedError:
            return None


def _position(solved: FrontSolution) -> float:
    """Return where a point stands: the threshold, or what the most opaque policy reaches without one."""
    return solved.value if solved.threshold is None else solved.threshold
