"""Solve to a proven gap: raise the policy and lower the bound in turns, until they are as close as asked.

The call behind `opaq.solve` and `opaq solve --gap`. From below, policies are searched by `opaq.solvers`, first of the
problem's own class, then of larger ones: with a clock, with what the secret's machine knows, and with more and more of
the last states, each begun at the best policy so far. Policies that see all states so far are as good as any that does
not see the observations, whatever it remembers or draws. From above, `opaq.certificates.certify` bounds all of them.
Work goes to the side that moved the gap most per second.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, overload

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.certificates.certify import (
    DEFAULT_TIME,
    STATE_CLASS,
    BoundTurn,
    Certificate,
    CertificateSearch,
    CertificateStart,
    CertificateStatus,
    CertifiedSolution,
    certify,
)
from opaq.certificates.decoder.ascent import Ascent
from opaq.certificates.decoder.forget import forget_observations
from opaq.certificates.decoder.search import BoundStep
from opaq.certificates.least.policy import solve_belief
from opaq.errors import BudgetError, Fault, InputError, check_types, is_flag
from opaq.load import as_problem
from opaq.model.arrays import FloatArray, SparseRows, ints
from opaq.model.conditions import (
    AutomatonState,
    BeliefNode,
    Condition,
    CurrentState,
    LastStates,
    Memory,
    MemoryNode,
    Observations,
    StartState,
    Time,
)
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import InitialState, Language, Visited
from opaq.opacity.measure import Measurement, combine_measurements, measure_product, standard_budget
from opaq.opacity.moments import concerns_moments
from opaq.opacity.policies import as_policy
from opaq.opacity.targets import is_plain
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.product.trackers import track_secret
from opaq.solvers import solve as search
from opaq.solvers.loop import Progress
from opaq.solvers.objective import Objective
from opaq.solvers.options import SolveOptions, with_solve_options
from opaq.solvers.policy_classes import class_name, contains
from opaq.solvers.solve import Solution, solve_class
from opaq.solvers.starts import approach_policy, plan_cuts
from opaq.solvers.strategy import Solver, Status
from opaq.stop import Deadline, Stop, StoppedError, interruptible
from opaq.threads import available_cores

# Of the time, for the problem's own class; where that is fine already, and the belief graph large; where the agent that
# never sees the observations is expected to fit, whose policies are better.
_FIRST_SHARE, _FIRST_LARGE_SHARE, _FIRST_UNSEEN_SHARE = 0.12, 0.6, 0.06
_TURN, _LARGE_TURN = 0.15, 0.35  # of the time left, for one turn of the policies; where the belief graph is large
_COUNTING, _MEASURING = 0.1, 0.1  # of the time left: for counting beliefs, and for measuring a policy for certain
_SHARED = 0.6  # of the time of a turn of the bound, while there are policies to search
_LEAST_TURN = 2.0  # seconds
_SEARCH_SHARE = 0.985  # of the time: what is being computed then takes a moment to end
_FINISHING, _FINISHING_SHARE = 6.0, 0.25  # seconds to judge and measure what the last search found; of all time at most
_PATIENCE = 2  # turns that a side waits at most
_LEAST_GAIN = 1e-4  # bits: a turn that gains less has found nothing
_STILL_MOVING = 0.05  # of the gap: a class whose search has moved by more in its second half is gone on with
_STILL_SHORT = 0.3  # of the gap: a class that loses more of what the agent behind the bound reaches is too coarse
_FIRST_ROUNDS = 24  # of that agent, before its policy is looked at
_MEASURED_IN = 0.6  # of the time left: the policies of a class that takes longer to measure are too large
_LONGER = 2.2  # times as long takes measuring the policies of the next finer class, about
_SLOW = 1e-5  # bits per second: a side that moves the gap by less stands still
_MOST_SLOTS = 300_000  # of a larger class
_MOST_HISTORIES, _MOST_SEQUENCES = 20e6, 40e6  # with which the agent that never sees the observations fits
_MAX_MEMORY = 4.0  # GiB, for bounds


@dataclass(frozen=True, slots=True)
class Gap:
    """How close policy and bound should come: in the unit of the uncertainty, or as a share of the bound."""

    amount: float
    relative: bool

    @classmethod
    def of(cls, given: float | str | Gap) -> Gap:
        """Read "1%", "0.01" or a number, which is in the unit of the uncertainty. Raises InputError otherwise."""
        if isinstance(given, Gap):
            return given
        match = re.fullmatch(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(%|bits?)?\s*", str(given))
        amount = math.nan
        if match is not None and not isinstance(given, bool):
            with suppress(ValueError):
                amount = float(match[1])
        if match is None or not 0.0 <= amount < math.inf:
            raise InputError([Fault("gap", f"'{given}' is no gap", "write 1% or a number of bits such as 0.01")])
        return cls(amount / 100.0, relative=True) if match[2] == "%" else cls(amount, relative=False)

    def of_bound(self, bound: float) -> float:
        """Return the gap in the unit of the uncertainty, for a bound."""
        return self.amount * abs(bound) if self.relative else self.amount


@dataclass(frozen=True, slots=True)
class GapStep:
    """Where a search to a gap stands.

    policy: what the best policy reaches for certain. bound: what none exceeds. seconds: since the call.
    work: what is being done, in words.
    """

    policy: float
    bound: float
    seconds: float
    work: str


@overload
def solve(
    problem: Problem | str | os.PathLike[str], *, gap: None = None, observation_aware: bool = False, **given: Any
) -> Solution: ...


@overload
def solve(
    problem: Problem | str | os.PathLike[str], *, gap: float | str | Gap, observation_aware: bool = False, **given: Any
) -> CertifiedSolution: ...


def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    gap: float | str | Gap | None = None,
    observation_aware: bool = False,
    on_gap: Callable[[GapStep], None] | None = None,
    **given: Any,
) -> Solution | CertifiedSolution:
    """Find the most opaque policy that meets the task; with a gap, and prove how far from the best possible it is.

    problem: an object, the name of a file, or the name of a scenario.
    gap: search all policies, not only those of the problem's class, until the answer is proven to be this close to the
        best possible: "1%" of the bound, or a number in bits. The answer is then a `CertifiedSolution`; without a
        time_limit the search takes 60 seconds at most.
    observation_aware: whether the policies that are searched and bounded may see the observations.
    on_gap: called with every `GapStep` of a search to a gap.
    given: all that a search of one class takes, as below.

    """
    check_types({"observation_aware": (observation_aware, is_flag, "True or False")})
    if gap is None:
        if observation_aware or on_gap is not None:
            idle = "observation_aware" if observation_aware else "on_gap"
            raise InputError([Fault(idle, "has no effect without a gap", "give gap, or leave it out")])
        wanted = given.get("conditions") or getattr(given.get("options"), "conditions", None)
        return _solve_by_belief(problem, **given) if wanted == BeliefNode.key else search.solve(problem, **given)
    return solve_to_gap(problem, gap=gap, observation_aware=observation_aware, on_gap=on_gap, **given)


def _solve_by_belief(
    problem: Problem | str | os.PathLike[str],
    *,
    options: SolveOptions | None = None,
    stop: Stop | None = None,
    **changes: Any,
) -> Solution:
    """Return the best policy by belief of a task that minimises, which has its own program; arguments as in `solve`."""
    searches = ("policy_class", "initial_policy", "run_folder", "on_step")
    if {changes.pop(name, None) for name in searches} != {None}:
        raise InputError([Fault("conditions", "policies by belief have a program of their own", "leave the rest out")])
    chosen = (options or SolveOptions()).with_changes(**changes)
    with interruptible(stop) as own_stop:
        return solve_belief(as_problem(problem), chosen, stop=own_stop)


def _signature() -> inspect.Signature:
    """Return the signature of `solve`: that of the search of one class, and what the gap needs."""
    shown = inspect.signature(search.solve)
    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in (
            ("gap", None, "float | str | Gap | None"),
            ("observation_aware", False, "bool"),
            ("on_gap", None, "Callable[[GapStep], None] | None"),
        )
    ]
    return shown.replace(
        parameters=[*shown.parameters.values(), *own], return_annotation="Solution | CertifiedSolution"
    )


solve.__signature__ = _signature()  # type: ignore[attr-defined]
solve.__doc__ = f"{solve.__doc__}{(search.solve.__doc__ or '').partition('scenario.')[2].strip()}"


@with_solve_options("conditions", "memory_nodes")
def solve_to_gap(
    problem: Problem | str | os.PathLike[str],
    *,
    gap: float | str | Gap,
    observation_aware: bool = False,
    options: SolveOptions | None = None,
    solver: Solver | str | None = None,
    initial_policy: Policy | str | os.PathLike[str] | None = None,
    on_step: Callable[[Progress], None] | None = None,
    on_gap: Callable[[GapStep], None] | None = None,
    stop: Stop | None = None,
    **changes: Any,
) -> CertifiedSolution:
    """Find a policy and prove that none is better by more than the gap; see `solve`, which calls it.

    The answer is the best policy and the best bound when the gap is reached, time is up (60 s unless a time limit is
    given), `stop` is requested or, without a stop, after Ctrl-C. Raises InputError when an argument does not fit.
    """
    call = Deadline()
    check_types(
        {
            "options": (options, SolveOptions, "an opaq.SolveOptions"),
            "on_step": (on_step, callable, "a function"),
            "on_gap": (on_gap, callable, "a function"),
            "stop": (stop, Stop, "an opaq.Stop"),
        },
        optional=("options", "on_step", "on_gap", "stop"),
    )
    if changes.pop("run_folder", None) is not None or changes.pop("policy_class", None) is not None:
        finding = "a search to a gap keeps no run folder, and takes its first class from the problem"
        raise InputError([Fault("gap", finding, "leave run_folder and policy_class out")])
    wanted, read = Gap.of(gap), as_problem(problem)
    named = {"solver": solver} if isinstance(solver, str) else {}
    chosen = (options or SolveOptions()).with_changes(**named, **changes)
    if solver is not None and not named:
        raise InputError([Fault("solver", "a search to a gap takes a solver by its name", "give its name")])
    first = None if initial_policy is None else as_policy(initial_policy, read, within=read.policy_class)
    deadline = call.limited_to(DEFAULT_TIME if chosen.time_limit is None else chosen.time_limit)
    with interruptible(stop) as own_stop, own_stop.limit(deadline.share(_SEARCH_SHARE)):
        return _GapSearch(read, wanted, replace(chosen, time_limit=None), own_stop, deadline, on_step, on_gap).run(
            first, aware=observation_aware
        )


@dataclass(slots=True)
class _Side:
    """One of the two sides of a search to a gap, and how it has done."""

    take: Callable[[], bool]  # takes one turn, and returns whether there is more to try
    open: bool = True
    rate: float = math.inf  # by how much it moved the gap per second, later turns weighing more
    spent: float = 0.0  # seconds
    waited: int = 0  # turns of the other side since its last one
    patience: int = _PATIENCE  # how many it waits at most

    def note(self, moved: float, seconds: float) -> None:
        """Note by how much a turn has moved the gap, and how long it took."""
        rate = moved / max(seconds, 1e-3)
        self.rate = rate if math.isinf(self.rate) else 0.5 * (self.rate + rate)
        self.spent, self.waited = self.spent + seconds, 0
        self.patience = _PATIENCE if moved > _LEAST_GAIN else 2 * self.patience


class _Taken(NamedTuple):
    """A policy of the agent that never sees the observations, as one of a class."""

    rung: int  # the index of the class
    short: float  # how much less it reaches than the agent does
    seconds: float  # for making and measuring it


@dataclass(slots=True)
class _GapSearch:
    """One search to a gap: the best policy and the bound so far, and the two sides that move them."""

    problem: Problem
    gap: Gap
    options: SolveOptions
    stop: Stop
    deadline: Deadline
    on_step: Callable[[Progress], None] | None
    on_gap: Callable[[GapStep], None] | None
    work: str = ""
    _classes: list[PolicyClass] = field(default_factory=list)  # those that are still to be searched
    _searched: list[PolicyClass] = field(default_factory=list)  # those that were
    _history_classes: list[PolicyClass] = field(default_factory=list)  # all of them, from coarse to fine
    _forgotten: int = 0  # rounds of the late agent when its policy was taken last
    _taken: _Taken | None = None  # the policy of the agent that never sees the observations, as it was taken last
    _bound_is_closed: bool = False  # whether the bound's side has nothing left to try
    _large: bool = True  # whether the belief graph is: then searches need more time, and bounds gain less
    _best: Solution = field(init=False)
    _bounds: CertificateSearch = field(init=False)

    def run(self, initial: Policy | None, *, aware: bool) -> CertifiedSolution:
        """Search until the gap is reached or time is up. initial: a policy to begin from."""
        problem, deadline = self.problem, self.deadline
        options = replace(self.options, sequences=0)
        aware = aware or any(one.sees_observations for one in problem.policy_class.conditions)
        unseen = False
        with suppress(StoppedError), self.stop.stage(deadline.share(_COUNTING)):
            process = compile_problem(problem, STATE_CLASS, stop=self.stop).process
            self._large = bool(plan_cuts(process, budget=options.budget, stop=self.stop).cuts)
            unseen = not aware and _has_few_histories(process)
        if not problem.task.minimise:
            self._classes = list(larger_classes(problem, aware=aware))
            self._history_classes = self._classes.copy()
        own_is_fine = not self._classes or contains(problem.policy_class, self._classes[0])
        share = _FIRST_LARGE_SHARE if self._large and own_is_fine else _FIRST_SHARE
        if unseen:
            share = _FIRST_SHARE if self._large else _FIRST_UNSEEN_SHARE
        if problem.task.minimise or concerns_moments(problem):
            share = 0.5
        with self.stop.part(seconds := deadline.share(share)) as part:
            self.work = class_name(problem.policy_class)
            options = replace(options, time_limit=seconds if self._large else None)
            solution = search.solve(problem, options=options, initial_policy=initial, on_step=self.on_step, stop=part)
        solution = self._meet_the_task(solution)
        if solution.status is Status.TIME_LIMIT and own_is_fine:  # its own class has more to give
            self._classes.insert(0, problem.policy_class)
        if (
            problem.task.minimise
            or concerns_moments(problem)
            or not is_plain(problem)
            or not solution.measurement.feasible
        ):
            bits = self.gap.of_bound(solution.measurement.uncertainty.upper)
            certificate = certify(
                problem, solution, gap=bits, time_limit=deadline.left or 0.0, observation_aware=aware, stop=self.stop
            )
            return self._finish(solution, certificate)
        start = CertificateStart.of(
            problem,
            solution.policy,
            solution,
            gap=self.gap.of_bound(solution.measurement.uncertainty.lower),
            deadline=deadline,
            budget=Budget(memory=round(_MAX_MEMORY * 2**30)),
            stop=self.stop,
            on_progress=self._note_bound,
        )
        if start.measurement is not None and start.measurement is not solution.measurement:  # it was an estimate
            solution = replace(solution, measurement=combine_measurements(start.measurement, solution.measurement))
        bounds = CertificateSearch.of(start, aware=aware)
        bounds.ladder.workers = self.options.workers or available_cores()
        self._best, self._bounds = solution, bounds
        status = CertificateStatus.TIME
        with suppress(StoppedError):
            status = self._close_in()
        solution = self._best
        if self.stop.interrupted:
            status = CertificateStatus.INTERRUPTED
        return self._finish(solution, bounds.certificate(status, deadline.elapsed))

    def _meet_the_task(self, solution: Solution) -> Solution:
        """Return a solution that meets the task, of a larger class where none of the problem's does; else the best."""
        options = replace(self.options, sequences=0, conditions=None, memory_nodes=None)
        while self._classes and not solution.measurement.feasible and solution.status is not Status.INFEASIBLE:
            policy_class = self._classes.pop(0)
            self.work = class_name(policy_class)
            with suppress(BudgetError, StoppedError), self.stop.stage(self.deadline.share(_TURN)):
                found = solve_class(self.problem, policy_class, options, on_step=self.on_step, stop=self.stop)
                solution = found if found.measurement.beats(solution.measurement) else solution
            if self.stop.requested:
                break
        return solution

    def _close_in(self) -> CertificateStatus:
        """Take turns of both sides until the gap is reached or both are exhausted; return how it ended.

        The next turn goes to the side that moved the gap most per second in its last turns, where neither does to the
        one that has had less time. A side that has waited for two turns, or twice as many each time it gained nothing,
        is given one.
        """
        bounds = self._bounds
        turns = bounds.choose_turns(self.deadline)
        policy, bound = _Side(self._take_policy_turn), _Side(lambda: self._take_bound_turn(turns))
        opening = 2  # turns of the bound that come first: they are cheap, and may prove the optimum at once
        while not self._reached():
            self.stop.check()
            policy.open = self._more_policies
            sides = [side for side in (policy, bound) if side.open]
            if not sides:
                break
            if bound.open and (opening or self._is_new):
                chosen, opening = bound, max(opening - 1, 0)
            elif policy.open and self._has_history_policy:
                chosen = policy if not bound.open or self._history_pays(bound.rate) else bound
            elif max(side.rate for side in sides) < _SLOW:
                chosen = min(sides, key=lambda side: side.spent)
            else:
                chosen = max(sides, key=lambda side: (side.waited >= side.patience, side.rate))
            clock, before = Deadline(), self._distance()
            chosen.open = chosen.take()
            self._bound_is_closed = not bound.open
            for side in (policy, bound):
                side.waited += 1
            chosen.note(before - self._distance() if math.isfinite(before) else 0.0, clock.elapsed)
        else:
            return CertificateStatus.GAP
        if bounds.optimum is not None and self._gap_now() <= 1e-4:
            return CertificateStatus.OPTIMUM
        return CertificateStatus.TIME if self._classes else CertificateStatus.FINEST

    def _gap_now(self) -> float:
        """Return the distance of policy and bound that is proven."""
        return self._bounds.ladder.bound - self._best.measurement.uncertainty.lower

    def _distance(self) -> float:
        """Return the distance of policy and bound as far as it is known: of a policy that is sampled, by the estimate.

        What is certain of such a policy says nothing of how good it is.
        """
        return self._bounds.ladder.bound - self._best.measurement.uncertainty.at_least

    def _reached(self) -> bool:
        """Return whether the gap is as small as asked, which the bound's side is told."""
        ladder = self._bounds.ladder
        ladder.wanted = self.gap.of_bound(ladder.bound)
        return self._gap_now() <= ladder.wanted

    def _take_bound_turn(self, turns: Iterator[BoundTurn]) -> bool:
        """Lower the bound for one turn; return whether there is more to try. Machines that do not fit take no turn."""
        bounds = self._bounds
        while (turn := next(turns, None)) is not None:
            share, count = turn.share, len(bounds.ladder.rungs)
            if turn.kind != "histories" and self._classes:
                share *= _SHARED
            ending = bounds.take_turn(turn, self.deadline.part(share))
            optimum = bounds.optimum
            if turn.kind == "histories" and optimum is not None and optimum.policy is not None:
                self._adopt(optimum.policy, optimum.measurement)
            if ending not in (None, CertificateStatus.GAP):
                return False
            if len(bounds.ladder.rungs) > count or bounds.ladder.done:
                return True
        return False

    def _take_policy_turn(self) -> bool:
        """Search one more class, from the best policy and from that of the late agent; return whether there is more.

        When all were searched, the class of the best policy is searched again. The agent that never sees the
        observations needs no search: what it does is a policy.
        """
        best = self._best
        if self._unseen is not None and self._has_history_policy:
            self._take_history_policy(self._unseen)
            return self._more_policies
        policy_class = self._classes[0] if self._classes else best.policy.policy_class
        late = self._forget(policy_class)
        warm = [best.policy] if contains(policy_class, best.policy.policy_class) else []
        warm += [late] if late is not None else []
        self.work = class_name(policy_class)
        turn = _LARGE_TURN if self._large else _TURN
        seconds, starts = max(self.deadline.share(turn) or 0.0, _LEAST_TURN), self.options.starts or 1
        seconds = min(seconds, max(self._left, _LEAST_TURN))
        options = replace(self.options, sequences=0, conditions=None, memory_nodes=None, starts=starts)
        clock, found = Deadline(seconds), None
        with suppress(BudgetError, StoppedError), self.stop.stage(seconds):
            found = solve_class(
                self.problem, policy_class, options, warm=warm, seconds=seconds, on_step=self.on_step, stop=self.stop
            )
        if found is not None:
            self._take_if_better(found)
        self.stop.check()
        gained = self._best.measurement.beats(best.measurement, margin=_LEAST_GAIN)
        trace = () if found is None else found.trace
        moved = trace[-1].value - trace[len(trace) // 2].value if trace else 0.0
        moving = abs(moved) > _STILL_MOVING * self._distance()
        if self._classes and not (clock.passed and gained and moving):  # it has settled, or time does not help it
            self._searched.append(self._classes.pop(0))
        return self._more_policies

    @property
    def _unseen(self) -> Ascent | None:
        """Return the newest search for a bound if its agent never sees the observations: its policy is one of ours."""
        newest = self._bounds.ladder.newest
        return newest if newest is not None and newest.sweeper.decisions.windows.unseen else None

    @property
    def _is_new(self) -> bool:
        """Return whether the agent that never sees the observations has made so few rounds that its policy says little.

        Where rounds take long, that is for half of the time at most.
        """
        unseen, left, seconds = self._unseen, self.deadline.left, self.deadline.seconds
        if unseen is None or unseen.rounds >= _FIRST_ROUNDS:
            return False
        return left is None or seconds is None or left > 0.5 * seconds

    @property
    def _has_history_policy(self) -> bool:
        """Return whether the agent that never sees the observations has a policy worth taking: better, or finer."""
        unseen, taken = self._unseen, self._taken
        if unseen is None or taken is None:
            return unseen is not None and bool(self._history_classes)
        if self._next_rung() > taken.rung:
            return True
        gain = unseen.value - taken.short - self._best.measurement.uncertainty.at_least
        return gain > _STILL_MOVING * self._distance() and taken.seconds < _MEASURED_IN * self._left

    def _history_pays(self, rate: float) -> bool:
        """Return whether taking that policy may gain as much as rounds can lower the bound, in all or per second.

        rate: by how much the bound has fallen per second.
        """
        unseen, taken = self._unseen, self._taken
        if unseen is None or taken is None:
            return True
        gain = unseen.value - self._best.measurement.uncertainty.at_least
        seconds = taken.seconds * _LONGER ** (self._next_rung() - taken.rung)
        return gain >= self._bounds.ladder.bound - unseen.value or gain >= rate * seconds

    def _next_rung(self) -> int:
        """Return the index of the class to take the agent's policy in.

        It becomes finer by one class, then by two at a time, while the class loses much of what is missing to the bound
        and there is time for measuring, which takes longer from class to class.
        """
        taken, last = self._taken, len(self._history_classes) - 1
        if taken is None:
            return 0
        if taken.short <= _STILL_SHORT * self._distance():
            return taken.rung
        room = math.log(max(_MEASURED_IN * self._left / max(taken.seconds, 1e-3), 1.0)) / math.log(_LONGER)
        return min(taken.rung + min(2 if taken.rung else 1, int(room)), last)

    def _take_history_policy(self, ascent: Ascent) -> None:
        """Take the policy of the agent that never sees the observations, as one of a class, if it is better."""
        clock, rung = Deadline(), self._next_rung()
        policy_class, value, short = self._history_classes[rung], ascent.value, math.inf
        self.work = class_name(policy_class)
        seconds = max(self._left, _LEAST_TURN)
        with suppress(BudgetError, StoppedError), self.stop.part(seconds) as part:
            product = compile_problem(self.problem, policy_class, stop=part)
            pi = forget_observations(ascent.sweeper, self._bounds.products.of(STATE_CLASS), product)
            if pi is None:  # as in any class: states do not tell its histories
                self._history_classes.clear()
                return
            pi = approach_policy(Objective(product, stop=part), pi, seed=self.options.seed)
            budget = standard_budget(workers=self.options.workers or available_cores())
            left = max(seconds - clock.elapsed, _LEAST_TURN)
            measurement = measure_product(product, pi, budget=budget, time=left, sequences=0, stop=part)
            short = value - measurement.uncertainty.at_least
            self._take_if_better(self._without_search(product, pi, measurement, "found with the bound"))
        self._taken = _Taken(rung, short, clock.elapsed)

    def _take_if_better(self, found: Solution) -> None:
        """Take a policy that beats the best one, once it is measured for certain.

        A search that was out of time may have estimated it. What is proven of the best policy is not given up for an
        estimate.
        """
        best = self._best.measurement
        if found.measurement.uncertainty.method != "exact" and found.measurement.beats(best):
            seconds = self.deadline.share(_MEASURING)
            budget = standard_budget(workers=self.options.workers or available_cores())
            with suppress(StoppedError), self.stop.part(seconds) as part:
                measurement = measure_product(
                    found.product, found.pi, budget=budget, time=seconds, sequences=0, stop=part
                )
                found = replace(found, measurement=combine_measurements(measurement, found.measurement))
        certain = best.uncertainty.method != "sampled"
        if found.measurement.beats(best) and not (
            certain and found.measurement.uncertainty.lower < best.uncertainty.lower
        ):
            self._take(found)

    @property
    def _left(self) -> float:
        """Return the seconds that are left for searches of policies, what may follow the last one taken off."""
        left, seconds = self.deadline.left, self.deadline.seconds
        return math.inf if left is None or seconds is None else left - min(_FINISHING, _FINISHING_SHARE * seconds)

    @property
    def _more_policies(self) -> bool:
        """Return whether there is time, and a class to search or a late agent that has become better since its turn."""
        newest = self._bounds.ladder.newest
        better = newest is not None and newest.rounds >= 2 * self._forgotten
        if self._left < _LEAST_TURN:
            return False
        if self._unseen is not None and self._history_classes and not self._bound_is_closed:
            return self._has_history_policy
        return bool(self._classes) or (better and self._best.policy.policy_class in self._searched)

    def _forget(self, policy_class: PolicyClass) -> Policy | None:
        """Return the policy of the late agent of the newest bound without what it observes, as one of a class."""
        newest = self._bounds.ladder.newest
        if newest is None or self._bounds.ladder.aware:
            return None
        self._forgotten = newest.rounds
        with suppress(BudgetError):
            product = compile_problem(self.problem, policy_class, stop=self.stop)
            pi = forget_observations(newest.sweeper, self._bounds.products.of(STATE_CLASS), product)
            return None if pi is None else product.policy(pi)
        return None

    def _adopt(self, policy: Policy, measurement: Measurement | None) -> None:
        """Take a policy that another program has found, if it is better."""
        product = compile_problem(self.problem, policy.policy_class, stop=self.stop)
        pi = product.policy_vector(policy)
        if measurement is None:
            measurement = measure_product(product, pi, sequences=0, stop=self.stop)
        if measurement.beats(self._best.measurement):
            found = self._without_search(product, pi, measurement, "found by the history program")
            self._take(replace(found, policy=policy))  # with its own rows

    def _without_search(self, product: Product, pi: FloatArray, measurement: Measurement, text: str) -> Solution:
        """Return the solution of a policy that came from elsewhere: it has no starts, no trace and no test of its own.

        pi: [slot], of the product. text: where it came from.
        """
        return replace(
            self._best, policy=product.policy(pi), product=product, pi=pi, measurement=measurement,
            status=Status.COMPLETED, status_text=text, optimality=None, starts=(), trace=(),
        )  # fmt: skip

    def _take(self, solution: Solution) -> None:
        """Make a solution the best one, and tell the bound's side."""
        self._best = solution
        bounds, lower = self._bounds, solution.measurement.uncertainty.lower
        bounds.policy, bounds.vector, bounds.measurement = solution.policy, solution.pi, solution.measurement
        if all(product is not solution.product for product in bounds.products.compiled):
            bounds.products.compiled.append(solution.product)
        bounds.ladder.achieved = bounds.ladder.known = max(bounds.ladder.known, lower)
        self._tell()

    def _note_bound(self, step: BoundStep) -> None:
        """Tell the state of the search for a bound."""
        self.work = step.machine
        self._tell()

    def _tell(self) -> None:
        """Call `on_gap` with where the search stands."""
        if self.on_gap is not None:
            lower, bound = self._best.measurement.uncertainty.lower, self._bounds.ladder.bound
            self.on_gap(GapStep(lower, bound, self.deadline.elapsed, self.work))

    def _finish(self, solution: Solution, certificate: Certificate) -> CertifiedSolution:
        """Return the answer, whose status says what is proven."""
        if self.options.sequences and not self.stop.requested and solution.measurement.opacity.method == "exact":
            with suppress(StoppedError):
                shown = measure_product(solution.product, solution.pi, sequences=self.options.sequences, stop=self.stop)
                solution = replace(solution, measurement=shown)
        certificate = replace(certificate, measurement=solution.measurement)
        distance, bound = certificate.gap, certificate.bound
        if distance is not None and distance <= self.gap.of_bound(bound):
            unit = f" {certificate.unit}" if certificate.unit else ""
            status, text = Status.PROVEN, f"{Status.PROVEN.value}: at most {_up(distance)}{unit}"
        elif not solution.measurement.feasible:
            return CertifiedSolution(replace(solution, seconds=self.deadline.elapsed), certificate)
        else:
            ended = Status.INTERRUPTED if self.stop.interrupted else Status.TIME_LIMIT
            late = self.stop.requested or self.deadline.passed or certificate.status is CertificateStatus.TIME
            status = ended if late else Status.COMPLETED
            text = f"{status.value}; the gap asked for was not reached"
            if status is Status.COMPLETED:
                text = "completed: nothing finer is left to try within the budget; the gap asked for was not reached"
        solution = replace(solution, status=status, status_text=text, seconds=self.deadline.elapsed)
        return CertifiedSolution(solution, certificate)


def _length(policy_class: PolicyClass) -> int:
    """Return how many of the last states the policies of a class look at."""
    return max((one.count for one in policy_class.conditions if isinstance(one, LastStates)), default=1)


def _up(gap: float) -> str:
    """Return a gap in two digits, rounded up."""
    if gap <= 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(gap)) - 1)
    return f"{math.ceil(gap / unit - 1e-9) * unit:.2g}"


def larger_classes(problem: Problem, *, aware: bool) -> Iterator[PolicyClass]:
    """Yield classes of policies that contain the problem's own, each larger than the one before.

    First the clock and what the secret's machine knows are added, then more and more of the last states or, where
    policies see the observations, of the last observations. Classes with too many rows are left out.
    """
    own = problem.policy_class
    known: list[Condition] = [one for one in own.conditions if not isinstance(one, CurrentState | Time | LastStates)]
    kinds = {type(one) for one in known}
    if isinstance(problem.secret, Language) and AutomatonState not in kinds:
        known.append(AutomatonState())
    if isinstance(problem.secret, InitialState) and StartState not in kinds:
        known.append(StartState())
    if isinstance(problem.secret, Visited) and MemoryNode not in kinds:
        known.append(MemoryNode(_visit_memory(problem)))
    clock = [Time()] if problem.horizon > 0 else []
    length = _length(own)
    head: Condition = CurrentState() if length == 1 else LastStates(length)
    yield PolicyClass((head, *known, *clock))
    process = compile_problem(problem, PolicyClass(("state",))).process
    actions = float(np.diff(process.row_start).mean())
    if aware:
        others = [one for one in known if not isinstance(one, Observations)]
        for count in range(1, problem.horizon + 2):
            yield PolicyClass((head, *others, Observations(count), *clock))
        return
    paths, begun = _count_paths(process, most=_MOST_SLOTS)
    for count in range(length + 1, problem.horizon + 2):
        if np.minimum(begun, paths[np.minimum(np.arange(begun.size), count - 1)]).sum() * actions > _MOST_SLOTS:
            return
        yield PolicyClass((LastStates(count), *known, *clock))


def _has_few_histories(process: HiddenProcess) -> bool:
    """Return whether the agent that never sees the observations is expected to fit, by its histories and sequences."""
    sequences = float(process.num_observations) ** (process.horizon + 1) * process.num_secrets
    return sequences <= _MOST_SEQUENCES and _count_paths(process, most=_MOST_HISTORIES)[1][-1] <= _MOST_HISTORIES


def _count_paths(process: HiddenProcess, *, most: float) -> tuple[FloatArray, FloatArray]:
    """Return [steps] how many paths of product states have so many steps, and how many of them begin at the start.

    most: what is more need not be counted to the end.
    """
    from scipy.sparse import csr_array

    size, last = process.num_states, int(process.edge_start[process.num_states])
    links = (np.ones(last), process.edge_target[:last], process.edge_start[: size + 1])
    onward, ahead = csr_array(links, shape=(size, size)), [np.ones(size)]
    for _ in range(process.horizon):
        ahead.append(np.minimum(onward @ ahead[-1], most + 1.0))
    start = np.unique(process.edge_target[last:])
    return np.array([one.sum() for one in ahead]), np.array([one[start].sum() for one in ahead])


def _visit_memory(problem: Problem) -> Memory:
    """Return a memory that knows, with the present state, whether a marked state was visited: the flag one step ago."""
    mdp = problem.mdp
    machine = track_secret(problem.secret, mdp, problem.horizon).machine
    states = np.arange(mdp.num_states)
    flags = np.stack([machine.begin(states).node, np.ones_like(states)])  # [node, state] -> flag after the state
    update_of = np.broadcast_to(flags[:, :, None], (2, mdp.num_states, len(mdp.actions)))
    start = SparseRows.from_entries(states, np.zeros_like(states), np.ones(states.size), shape=(states.size, 2))
    return Memory(("not_yet", "visited"), start, ints(update_of), SparseRows.from_dense(np.eye(2)))
