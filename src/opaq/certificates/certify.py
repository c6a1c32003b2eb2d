"""Certify: a proven upper bound on the opacity that any policy can reach under the task's requirements."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import EQUAL, expected_return, most_paid_in_all
from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.decoders import decoder_of, has_certificate
from opaq.certificates.decoder.machines import (
    Both,
    ObservationMachine,
    ObservationTree,
    ObservationWindow,
    belief_machine,
)
from opaq.certificates.decoder.search import BoundSearch, BoundStep, first_proof
from opaq.certificates.history.program import HistoryStatus
from opaq.certificates.history.step import climb_histories
from opaq.certificates.rounding import outward, slack
from opaq.codec import Result, flat, infinity, keys_of
from opaq.display import NotebookView, data_frame
from opaq.errors import BudgetError, Fault, InputError, check_numbers, check_types, is_flag
from opaq.load import as_policy, as_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, measure
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.solvers.compare import Comparison
from opaq.solvers.solve import Solution
from opaq.stop import Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame


_LEAST_SCALE = 1e-6
_LEAST_SPAN = 1e-100  # squares of smaller scales underflow


def largest_payoffs(decisions: Decisions, *, stop: Stop) -> FloatArray:
    """[requirement]: the most that any policy reaches of each alone, by dynamic programming over states.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    return np.array([_largest(decisions, unit, stop) for unit in np.eye(len(decisions.names))])


def payoff_scales(process: HiddenProcess, largest: FloatArray) -> FloatArray:
    """[requirement]: how far above the uniform policy's the payoffs can be; never 0."""
    asked = [payoff for payoff in process.payoffs if payoff.threshold is not None]
    usual = np.array([expected_return(process, process.uniform(), payoff) for payoff in asked])
    paid = np.array([most_paid_in_all(process, payoff) for payoff in asked])
    scales = np.maximum(np.abs(largest - usual), _LEAST_SCALE * np.abs(largest) + EQUAL * paid)
    return np.where(scales > _LEAST_SPAN, scales, 1.0)


def unattainable(decisions: Decisions, largest: FloatArray) -> tuple[str, ...]:
    """The requirements that no policy meets, whatever rounding does to the largest payoffs."""
    nothing, units = np.zeros(0), np.eye(len(decisions.names))
    rounding = np.array([slack(decisions, nothing, unit, None) for unit in units])
    short = largest + rounding < decisions.thresholds
    return tuple(name for name, missed in zip(decisions.names, short, strict=True) if missed)


def _largest(decisions: Decisions, weights: FloatArray, stop: Stop) -> float:
    from scipy.sparse import csr_array

    moves, process = decisions.moves, decisions.process
    shape = (moves.branch_start.size - 1, process.num_states)
    ahead = csr_array((moves.branch_chance, moves.branch_target.astype(np.int64), moves.branch_start), shape=shape)
    heads = moves.choice_start[:-1]
    paid = decisions.paid(weights, process.horizon)
    value = decisions.final(weights) + np.maximum.reduceat(paid, heads)
    for time in range(process.horizon - 1, -1, -1):
        stop.check()
        value = np.maximum.reduceat(decisions.paid(weights, time) + ahead @ value, heads)
    return float(decisions.start_chance @ value[decisions.start_state])


DEFAULT_TIME = 60.0  # seconds
_SMALL = 24 << 20  # bytes of a full observation tree that is searched at once
_LEAST_SECONDS = 0.2  # for measuring, however short the time
_SHOWN_SECONDS = 5.0  # for measuring the uniform policy, which is shown where none is given
_CLOSE = 1e-4
_TOLERANCE = 1e-7  # bound and policy this close on the finest machine: nothing is left to gain


class CertificateStatus(Enum):
    """How the search for a bound ended; the value is the sentence users read."""

    GAP = "the gap asked for was reached"
    OPTIMUM = "the bound is the optimum itself, by the history program"
    CONVERGED = "converged: the finest observation machine gives no smaller bound"
    FINEST = "no finer observation machine is left to try within the budget"
    TIME = "the time limit was reached: this is the best bound so far"
    INTERRUPTED = "interrupted: this is the best bound so far"
    INFEASIBLE = "no policy meets the task"


_Turn = tuple[ObservationMachine | None, float, int | None]  # machine, share of the time that remains, memory limit
STATES_ONLY = "any policy that does not see the observations, whatever it remembers"
ANY_POLICY = "any policy, also one that sees the observations"


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(NotebookView, Result):
    """No policy in the scope exceeds the upper bound while it meets the task.

    problem: the problem's name.
    of: the uncertainty that is bounded: "opacity", or what the task is about.
    unit: its unit; empty where it has none.
    upper_bound: no policy that meets the task exceeds it; proven, rounding included. null (in Python: minus infinity):
        no policy meets the task.
    trivial_bound: what is certain without a search, of any secret with as many values.
    upper_bound_aware: the same for policies that see the observations; null: not looked for.
    aware: whether the bound holds for policies that see the observations.
    measurement: of the policy given, else of the uniform one; left out where there was no time for it.
    given: whether a policy was given.
    prices: requirement -> what one more unit of it costs, about.
    machine: the observation machine of the best bound.
    ladder: every observation machine that was tried, in turn.
    status: how the search for a bound ended.
    seconds: the time of the search for a bound.
    """

    RESULT: ClassVar[str] = "certificate"
    PRINTED_BY: ClassVar[str] = "certify"
    DERIVED: ClassVar[tuple[str, ...]] = ("gap", "relative_gap", "is_trivial", "scope", "status_text")

    problem: str
    of: str
    unit: str
    upper_bound: float = field(metadata=infinity(-math.inf))
    trivial_bound: float = field(metadata=infinity(math.inf))
    upper_bound_aware: float | None
    aware: bool
    measurement: Measurement | None = field(metadata=flat())
    given: bool
    prices: Mapping[str, float]
    machine: str
    ladder: tuple[BoundStep, ...]
    status: CertificateStatus
    seconds: float

    @property
    def status_text(self) -> str:
        """The status as a sentence."""
        return self.status.value

    @property
    def scope(self) -> str:
        """Which policies are bounded, in words."""
        return ANY_POLICY if self.aware else STATES_ONLY

    @property
    def is_trivial(self) -> bool:
        """Whether the bound says no more than the number of secret values does."""
        return is_trivial(self.upper_bound, self.trivial_bound)

    @property
    def reached(self) -> Amount | None:
        """What the policy reaches of the uncertainty that is bounded."""
        return None if self.measurement is None else self.measurement.uncertainty

    @property
    def gap(self) -> float | None:
        """From what the policy reaches, its lower end, to the bound; None where the policy does not meet the task."""
        if self.measurement is None or not self.measurement.feasible:
            return None
        return max(0.0, self.upper_bound - self.measurement.uncertainty.lower)

    @property
    def relative_gap(self) -> float | None:
        """The gap as a share of the bound; None where the bound is not positive, but for a gap of 0."""
        if self.gap is None or (self.upper_bound <= 0 and self.gap > 0):
            return None
        return self.gap / self.upper_bound if self.gap > 0 else 0.0

    def __repr__(self) -> str:
        gap = "" if self.relative_gap is None else f", gap {self.relative_gap:.2%}"
        return f"Certificate({self.problem!r}: {self.of} <= {outward(self.upper_bound, 6)}{gap}; {self.status.value})"

    def to_dataframe(self) -> DataFrame:
        """The ladder with one line per observation machine: its size, the work, and the best bound after it."""
        columns = tuple(field.name for field in fields(BoundStep))
        return data_frame([{name: getattr(rung, name) for name in columns} for rung in self.ladder], columns)


@dataclass(frozen=True, slots=True)
class CertifiedSolution(Result):
    """A policy that was found, and what is proven about it.

    solution: as `solve` found it.
    certificate: of the same policy; its measurement is that of the solution.
    """

    RESULT: ClassVar[str] = Solution.RESULT  # the same keys, and some more
    PRINTED_BY: ClassVar[str] = Solution.PRINTED_BY

    solution: Solution
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the solution, the bound and the gaps, and the rest of the certificate in `certificate`."""
        proven = replace(self.certificate, measurement=self.solution.measurement).to_dict()
        repeated = keys_of(Measurement) - {"seconds"}
        bounds = {name: proven[name] for name in ("upper_bound", "gap", "relative_gap")}
        nested = {name: value for name, value in proven.items() if name not in repeated}
        return {**self.solution.to_dict(), **bounds, "certificate": nested}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "") -> CertifiedSolution:
        """Return what `to_dict` wrote. Raises InputError with every key of the first part that does not fit."""
        solution = Solution.from_dict(data, source=source)
        nested = data.get("certificate")
        if not isinstance(nested, Mapping):
            raise InputError([Fault("certificate", "is missing or no mapping", "certify the solution")], source)
        measured = {name: data[name] for name in keys_of(Measurement) if name in data}
        return cls(solution, Certificate.from_dict({**measured, **nested}, source=source))


def certify(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    gap: float = 0.01,
    time: float = DEFAULT_TIME,
    budget: Budget | None = None,
    aware: bool = False,
    machines: tuple[ObservationMachine, ...] | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[BoundStep], None] | None = None,
) -> Certificate:
    """An upper bound on the opacity (or what the task is about) of every policy that meets the task, with any memory.

    problem: an object, the name of a file, or the name of a scenario.
    policy: one to compare with, an object or the name of a file; measured exactly, or to an interval.
    gap: how close the bound should come to the policy's value, in its unit; the work ends there. Without a policy the
        work ends when the bound cannot fall by more than this on the finest machine that fits.
    time: seconds for all of it; a problem that takes longer to compile gets the bound that needs no search.
    budget: the memory that may be used; belief graphs keep to all of it.
    aware: whether policies that see the observations are to be bounded; by default only where `policy` is one of them:
        without them the bound is tighter.
    machines: the observation machines to use, in this order; chosen by size unless given.
    stop: ends the work with the best bound so far when it is requested; without one, Ctrl-C raises KeyboardInterrupt.
    on_progress: called with the state of the search now and then.
    Raises InputError for tasks that minimise (the argument bounds from above only), for uncertainties that have no
    certificate and for a policy that does not fit, BudgetError when the problem itself is too large, StoppedError when
    `stop` is requested before the problem is compiled.
    """
    check_numbers({"gap": (gap, 0, math.inf), "time": (time, 0, math.inf)})
    check_types(
        {
            "budget": (budget, Budget, "an opaq.Budget"),
            "aware": (aware, is_flag, "True or False"),
            "machines": (machines, _are_machines, "a tuple of observation machines"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("budget", "machines", "stop", "on_progress"),
    )
    begun = perf_counter()
    stated = as_problem(problem)
    chosen = None if policy is None else as_policy(policy, stated)
    check_certifiable(stated)
    aware = aware or (chosen is not None and any(one.sees_observations for one in chosen.policy_class.conditions))
    with interruptible(stop, keep_answer=False) as asked:
        search = _CertificateSearch.of(
            stated,
            chosen,
            gap=gap,
            deadline=begun + time,
            budget=budget or Budget(),
            aware=aware,
            stop=asked,
            on_progress=on_progress or _say_nothing,
        )
        with asked.limit(max(begun + time - perf_counter(), 0.0)):
            status = search.run(machines, deadline=begun + time)
    return search.certificate(status, perf_counter() - begun)


def _are_machines(machines: object) -> bool:
    listed = isinstance(machines, tuple | list) and len(machines) > 0
    parts = ("name", "begin", "step")  # of the protocol ObservationMachine
    return listed and all(hasattr(one, part) for one in machines for part in parts)  # type: ignore[attr-defined]


def _say_nothing(rung: BoundStep) -> None:
    """For callers who do not listen."""


def check_certifiable(problem: Problem) -> None:
    """Raise InputError where there can be no certificate, whatever the policy.

    problem: the problem.
    """
    decoder_of(problem.task.of, ("",))
    if problem.task.minimise:
        found = "asks for as little as possible; only the most that policies can reach has a certificate"
        raise InputError([Fault("task.objective", found, "write 'objective: maximise'")])


@dataclass(slots=True, eq=False)
class _CertificateSearch:
    """One certificate in the making."""

    product: Product
    policy: Policy | None
    ladder: BoundSearch
    budget: Budget
    measurement: Measurement | None
    shift: float  # what the decoder's figures exceed the uncertainty by
    trivial: float  # the decoder's figure that is certain without a search
    gap: float

    @classmethod
    def of(
        cls,
        problem: Problem,
        policy: Policy | None,
        *,
        gap: float,
        deadline: float,
        budget: Budget,
        aware: bool,
        stop: Stop,
        on_progress: Callable[[BoundStep], None],
    ) -> _CertificateSearch:
        time = deadline - perf_counter()
        product = compile_problem(problem, PolicyClass(("state",)), stop=stop)
        decisions = Decisions.of(product.process, forever=problem.task.over == "forever", stop=stop)
        decoder, shift = decoder_of(problem.task.of, product.secret_values)
        measurement = _measure_policy(problem, policy, budget, stop, time=time)
        known = measurement.uncertainty.lower + shift if measurement is not None and measurement.feasible else -math.inf
        achieved = known if policy is not None else -math.inf
        proof = first_proof(decisions, decoder)
        trivial = proof.bound
        scales = np.ones(len(decisions.names))
        with suppress(StoppedError), stop.part(deadline - perf_counter()) as part:  # when time is up no search follows
            largest = largest_payoffs(decisions, stop=part)
            scales = payoff_scales(product.process, largest)
            if unattainable(decisions, largest) and known == -math.inf:  # a policy that meets the task refutes it
                proof = Proof(-math.inf, proof.multipliers)
        ladder = BoundSearch(decisions, decoder, scales, aware, achieved, gap, budget.memory, stop, on_progress, proof,
                        aware_bound=proof.bound, known=known)  # fmt: skip
        return cls(product, policy, ladder, budget, measurement, shift, trivial, gap)

    def run(self, machines: tuple[ObservationMachine, ...] | None, *, deadline: float) -> CertificateStatus:
        """Climb from machine to machine."""
        ladder = self.ladder
        try:
            ending = self._climb(machines, deadline)
        except StoppedError:
            ending = CertificateStatus.INTERRUPTED if ladder.stop.interrupted else CertificateStatus.TIME
        return CertificateStatus.INFEASIBLE if ladder.infeasible else (CertificateStatus.GAP if ladder.done else ending)

    def _climb(self, machines: tuple[ObservationMachine, ...] | None, deadline: float) -> CertificateStatus:
        ladder = self.ladder
        tolerance = max(self.gap / 20.0, _TOLERANCE)
        climbs = self._chosen() if machines is None else _in_turn(machines)
        for machine, share, memory in climbs:
            close = ladder.best.bound - ladder.achieved <= _CLOSE  # the optimum of a small problem is cheap
            if ladder.done and (machine is not None or ladder.infeasible or close):
                break
            if machine is None:
                optimum = climb_histories(ladder, self.product.problem, seconds=share * (deadline - perf_counter()))
                if optimum is not None and optimum.status is HistoryStatus.OPTIMAL:
                    return CertificateStatus.OPTIMUM
                continue
            fits = ladder.climb(
                machine, seconds=share * (deadline - perf_counter()), tolerance=tolerance, memory=memory
            )
            if fits and isinstance(machine, ObservationTree):  # nothing is finer
                return (
                    CertificateStatus.CONVERGED
                    if ladder.best.bound - ladder.reached <= tolerance
                    else CertificateStatus.TIME
                )
        return CertificateStatus.FINEST

    def _chosen(self) -> Iterator[_Turn]:
        """From cheap to fine; no machine stands for the history program."""
        process, memory, stop = self.product.process, self.budget.memory, self.ladder.stop
        yield ObservationWindow(1, process.num_observations), 0.05, None
        yield None, 0.5, None
        yield ObservationTree(), 1.0, _SMALL
        if process.num_observations**3 < 2**62:
            yield ObservationWindow(2, process.num_observations), 0.05, memory // 8
        graphs = []
        for product, vector, name, share in self._policies():
            try:
                graphs.append(belief_machine(product.process, vector, name=name, budget=self.budget, stop=stop))
                yield graphs[-1], share, None
            except BudgetError:
                continue
        for length in (2, 4, 8, 16, 32):
            if length > process.horizon or process.num_observations ** (length + 1) >= 2**62:
                break
            window = ObservationWindow(length, process.num_observations)
            yield Both(graphs[-1], window) if graphs else window, 0.5, None
        yield ObservationTree(), 1.0, None

    def _policies(self) -> Iterator[tuple[Product, np.ndarray, str, float]]:
        """Whose belief graphs are machines: the uniform policy's, and that of the policy given."""
        uniform = self.product.process.uniform()
        yield self.product, uniform, "beliefs of the uniform policy", 0.85
        if self.policy is not None:
            product = compile_problem(self.product.problem, self.policy.policy_class, stop=self.ladder.stop)
            yield product, product.policy_vector(self.policy), "beliefs of the policy", 0.8

    def _aware_bound(self, *, infeasible: bool) -> float | None:
        """The bound for policies that see the observations, if it was looked for."""
        if infeasible:
            return -math.inf
        heard = self.ladder.aware or any(rung.sees_observations for rung in self.ladder.rungs)
        return _less(self.ladder.aware_bound, self.shift) if heard else None

    def certificate(self, status: CertificateStatus, seconds: float) -> Certificate:
        """What is proven by now."""
        ladder = self.ladder
        names, of = ladder.decisions.names, self.product.problem.task.of
        infeasible = status is CertificateStatus.INFEASIBLE
        return Certificate(
            problem=self.product.problem.name,
            of=of.name,
            unit=of.unit,
            upper_bound=-math.inf if infeasible else _less(ladder.bound, self.shift),
            trivial_bound=_less(self.trivial, self.shift),
            upper_bound_aware=self._aware_bound(infeasible=infeasible),
            aware=ladder.aware,
            measurement=self.measurement,
            given=self.policy is not None,
            prices=dict(zip(names, ladder.best.multipliers.tolist(), strict=True)),
            machine=ladder.machine,
            ladder=tuple(replace(rung, bound=_less(rung.bound, self.shift)) for rung in ladder.rungs),
            status=status,
            seconds=seconds,
        )


def _in_turn(machines: tuple[ObservationMachine, ...]) -> Iterator[_Turn]:
    """Given machines, each with its share of the time that remains."""
    for index, machine in enumerate(machines):
        yield machine, 1.0 / (len(machines) - index), None


def is_trivial(bound: float, trivial: float) -> bool:
    """Whether a bound says no more than the one that needs no search, up to rounding."""
    return bound >= trivial - 1e-9 * max(1.0, abs(trivial))


def _less(bound: float, shift: float) -> float:
    """The bound of the uncertainty itself, rounded up."""
    return bound if shift == 0.0 else math.nextafter(bound - shift, math.inf)


def _measure_policy(
    problem: Problem, policy: Policy | None, budget: Budget, stop: Stop, *, time: float
) -> Measurement | None:
    """What the policy reaches, else the uniform one, which is only shown: None if that takes too long."""
    limit = max(0.5 * time if policy is not None else min(0.1 * time, _SHOWN_SECONDS), _LEAST_SECONDS)
    refused = () if policy is not None else (BudgetError,)
    with suppress(StoppedError, *refused), stop.stage(limit):
        return measure(problem, policy, nodes=budget.nodes, memory=budget.memory, sequences=0, stop=stop)
    return None


def with_bound(
    comparison: Comparison,
    problem: Problem,
    *,
    time: float,
    stop: Stop | None = None,
    on_progress: Callable[[BoundStep], None] | None = None,
) -> Comparison:
    """The comparison with a certified bound; without one where the task minimises, is met by no class, or
    is about an uncertainty that has no certificate.

    A comparison whose bound was interrupted says so, and has the best bound by then, if there is one.

    problem: the problem that was compared. time: seconds for the certificate. stop, on_progress: as in `certify`.
    """
    feasible = [rung for rung in comparison.rungs if rung.measurement.feasible]
    if problem.task.minimise or not has_certificate(problem.task.of) or not feasible:
        return comparison
    best = max(feasible, key=lambda rung: rung.measurement.uncertainty.lower)
    conditions = [one for rung in comparison.rungs for one in rung.policy.policy_class.conditions]
    try:
        certificate = certify(
            problem,
            best.policy,
            time=time,
            aware=any(condition.sees_observations for condition in conditions),
            stop=stop,
            on_progress=on_progress,
        )
    except StoppedError:
        bounded = comparison
    else:
        bounded = replace(
            comparison,
            upper_bound=certificate.upper_bound,
            scope=certificate.scope,
            is_trivial=certificate.is_trivial,
        )
    return replace(bounded, interrupted=comparison.interrupted or (stop is not None and stop.interrupted))
