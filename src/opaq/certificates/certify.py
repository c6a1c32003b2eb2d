"""Certify: a proven bound on the opacity that any policy can reach under the task's requirements.

The call behind `opaq certify`. It climbs a ladder of observation machines, from cheap to fine; each bounds what
a decoder with that memory leaves uncertain (`opaq.certificates.decoder`), with the history program in between where the
problem is small (`opaq.certificates.history`). Where the task minimises the bound is a lower one, by programs over
beliefs (`opaq.certificates.least`). The best bound so far never gets worse.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.levels import show
from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.layers import build_layers
from opaq.certificates.decoder.machines import (
    Both,
    ObservationMachine,
    ObservationTree,
    ObservationWindow,
    belief_machine,
    rounded_belief_machine,
)
from opaq.certificates.decoder.moments import MomentsAscent, possible_bits, unsettled
from opaq.certificates.decoder.search import BoundSearch, BoundStep, first_proof
from opaq.certificates.history.program import HistoryOptimum, HistoryStatus, climb_histories
from opaq.certificates.least.graph import Prescriptions
from opaq.certificates.least.search import LeastSearch
from opaq.certificates.least.values import ProgramStack
from opaq.certificates.payoffs import find_unattainable, largest_payoffs, payoff_scales
from opaq.certificates.rounding import UNIT, outward
from opaq.codec import Result, flat, if_known, infinity, keys_of, unless
from opaq.display import NotebookView, data_frame
from opaq.errors import BudgetError, Fault, InputError, check_numbers, check_types, is_flag
from opaq.load import as_problem
from opaq.model.arrays import FloatArray, ints
from opaq.model.conditions import Observations, refines
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import Shannon, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.functionals import Functional, figure_of
from opaq.opacity.levels import Levels
from opaq.opacity.measure import Measurement, measure_product
from opaq.opacity.moments import concerns_moments
from opaq.opacity.policies import as_policy
from opaq.opacity.targets import is_plain
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.solvers.compare import Comparison
from opaq.solvers.solve import Solution
from opaq.stop import Deadline, Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame


STATE_CLASS = PolicyClass(("state",))  # what the bounded policies see at least


DEFAULT_TIME = 60.0  # seconds
_MOVE_ON = 0.1  # of the gap: a machine on which less than this is left to gain gives way to a finer one
_SCALES = (
    (64 << 20, 1_000, 0.3, 0.0, 1e6),
    (600 << 20, 8_000, 0.5, 10.0, 20e6),
    (4 << 30, 40_000, 0.6, 40.0, 25e6),
)
# bytes, nodes and share of the time of one turn; seconds that must be left, and bytes at most for each of them, since
# larger layers take long to build and more rounds to gain anything
_QUICK = 100 << 20  # bytes of layers that are built and searched within seconds
_BYTES_A_SECOND = 30e6  # for each second left, of agents that never see the observations
_LARGEST_TABLE = 40_000_000  # beliefs x observations x states, while beliefs are rounded
_SMALL = 24 << 20  # bytes of a full observation tree that is searched at once
_LEAST_SECONDS = 0.2  # for measuring, however short the time
_SHOWN_SECONDS = 5.0  # for measuring the uniform policy, which is shown where none is given
_CLOSE = 1e-4
_TOLERANCE = 1e-7  # bound and policy this close on the finest machine: nothing is left to gain


class CertificateStatus(Enum):
    """How the search for a bound ended; the value is the sentence users read."""

    GAP = "the gap asked for was reached"
    OPTIMUM = "the bound is the optimum itself, by an exact program"
    CONVERGED = "converged: the finest observation machine gives no smaller bound"
    FINEST = "nothing finer is left to try within the budget"
    TIME = "the time limit was reached: this is the best bound so far"
    INTERRUPTED = "interrupted: this is the best bound so far"
    INFEASIBLE = "no policy meets the task"


@dataclass(frozen=True, slots=True, eq=False)
class BoundTurn:
    """One part of the search for a bound: a machine and a delay, the history program, or more rounds on the best."""

    kind: Literal["machine", "histories", "resume"]
    share: float  # of the time that is left
    machine: ObservationMachine | None = None
    memory: int | None = None  # bytes; None: as much as there is
    delay: int = 0  # after how many steps the agent sees an observation
    thorough: bool = True  # whether it goes on to the last digit; else a machine gives way to a finer one where little
    # is left to gain, and the history program to others where it is large


STATES_ONLY = "any policy that does not see the observations, whatever it remembers"
ANY_POLICY = "any policy, also one that sees the observations"
OBSERVATIONS_ONLY = "any policy that sees nothing but the observations, whatever it remembers"


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(NotebookView, Result):
    """No policy in the scope exceeds the upper bound, or gets below the lower bound, while it meets the task.

    problem: the problem's name.
    of: the uncertainty that is bounded: "opacity", or what the task is about.
    unit: its unit; empty where it has none.
    upper_bound: no policy that meets the task exceeds it; proven, rounding included. null (in Python: minus infinity):
        no policy meets the task. Left out where the task minimises.
    lower_bound: of a task that minimises: no policy that meets the task gets below it; proven, rounding included. null
        (in Python: infinity): no policy meets the task. Left out where the task maximises.
    trivial_bound: what is certain without a search: of any secret with as many values, or with the same prior where the
        first state settles the secret.
    upper_bound_aware: the same for policies that see the observations; null: not looked for.
    aware: whether the bound holds for policies that see the observations.
    blind: whether the bound holds only for policies that see nothing but the observations; never where the task
        maximises.
    measurement: of the policy given, else of the uniform one; left out where there was no time for it.
    given: whether a policy was given.
    prices: requirement -> what one more unit of it costs, about.
    machine: the observation machine of the best bound.
    ladder: every observation machine that was tried, in turn.
    status: how the search for a bound ended.
    seconds: the time of the search for a bound.
    left_out: limits on figures that the bound does not use, all from above among them: it holds for policies that miss
        them, too.
    """

    RESULT: ClassVar[str] = "certificate"
    PRINTED_BY: ClassVar[str] = "certify"
    DERIVED: ClassVar[tuple[str, ...]] = ("gap", "relative_gap", "is_trivial", "scope", "status_text")

    problem: str
    of: str
    unit: str
    upper_bound: float | None = field(metadata={**infinity(-math.inf), **unless("lower_bound")})
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
    lower_bound: float | None = field(default=None, metadata={**infinity(math.inf), **if_known()})
    blind: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def status_text(self) -> str:
        """The status as a sentence."""
        return self.status.value

    @property
    def minimise(self) -> bool:
        """Whether the bound is a lower one, of a task that minimises."""
        return self.lower_bound is not None

    @property
    def bound(self) -> float:
        """The upper bound or, where the task minimises, the lower one; infinite where no policy meets the task."""
        return self.lower_bound if self.lower_bound is not None else _upper(self.upper_bound)

    @property
    def scope(self) -> str:
        """Which policies are bounded, in words."""
        return OBSERVATIONS_ONLY if self.blind else ANY_POLICY if self.aware else STATES_ONLY

    @property
    def is_trivial(self) -> bool:
        """Whether the bound says no more than the number of secret values, or their prior, does."""
        return is_trivial(self.bound, self.trivial_bound, minimise=self.minimise)

    @property
    def reached(self) -> Amount | None:
        """What the policy reaches of the uncertainty that is bounded."""
        return None if self.measurement is None else self.measurement.uncertainty

    @property
    def gap(self) -> float | None:
        """From what the policy reaches, its end that is certain, to the bound.

        Of an upper bound that is the lower end, of a lower bound the upper one. None where the policy does not meet
        the task.
        """
        if self.measurement is None or not self.measurement.feasible:
            return None
        reached = self.measurement.uncertainty
        return max(0.0, reached.upper - self.bound if self.minimise else self.bound - reached.lower)

    @property
    def relative_gap(self) -> float | None:
        """The gap as a share of the bound; None where the bound is not positive, but for a gap of 0."""
        if self.gap is None or (self.bound <= 0 and self.gap > 0):
            return None
        return self.gap / self.bound if self.gap > 0 else 0.0

    def __repr__(self) -> str:
        gap = "" if self.relative_gap is None else f", gap {self.relative_gap:.2%}"
        bound = f">= {0.0 - outward(-self.bound, 6)}" if self.minimise else f"<= {outward(self.bound, 6)}"
        return f"Certificate({self.problem!r}: {self.of} {bound}{gap}; {self.status.value})"

    def to_dataframe(self) -> DataFrame:
        """The ladder with one line per observation machine: its size, the work, and the best bound after it."""
        columns = ("machine", "entries", "rounds", "bound", "sees_observations", "seconds")
        return data_frame([{name: getattr(rung, name) for name in columns} for rung in self.ladder], columns)


@dataclass(frozen=True, slots=True)
class CertifiedSolution(NotebookView, Result):
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
        names: tuple[str, ...] = ("upper_bound", "lower_bound", "gap", "relative_gap")
        bounds = {name: proven[name] for name in names if name in proven}
        nested = {name: value for name, value in proven.items() if name not in repeated}
        return {**self.solution.to_dict(), **bounds, "certificate": nested}

    def to_dataframe(self) -> DataFrame:
        """Return the course of the search, as `Solution.to_dataframe` does; that of the bound is the certificate's."""
        return self.solution.to_dataframe()

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
    policy: Policy | Solution | str | os.PathLike[str] | None = None,
    *,
    gap: float = 0.01,
    time_limit: float = DEFAULT_TIME,
    max_memory: float = 4.0,
    observation_aware: bool = False,
    machines: tuple[ObservationMachine, ...] | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[BoundStep], None] | None = None,
) -> Certificate:
    """Prove an upper bound on the opacity (or what the task is about) of every policy that meets the task.

    Any memory is allowed: the bound is that of the best policy in the scope of the certificate, not of one class. It is
    the value of a zero-sum game between policies and decoders at some decoder: whatever costs c the decoder charges,

        H(Z | Y) of any policy that meets the task <= max over policies of E[c] + multipliers . (payoffs - thresholds),

    and the right side is found by dynamic programming. Where the task minimises, the bound is a lower one, by dynamic
    programming over the observer's beliefs. It is exact where all beliefs fit; elsewhere the observer is taken to learn
    more than it does. It holds for all policies or, where the policy's class (without a policy: the problem's) looks at
    nothing but observations, for all that do so.

    problem: an object, the name of a file, or the name of a scenario.
    policy: one to compare with: an object, a file, "uniform", "return-optimal", or the Solution of this problem, whose
        compiled problem and exact measurement are then used as they are. Measured exactly, or to an interval.
    gap: how close the bound should come to the policy's value, in its unit; the work ends there. Without a policy the
        work ends when the bound cannot fall by more than this on the finest machine that fits.
    time_limit: seconds for all of it; a problem that takes longer to compile gets the bound that needs no search.
    max_memory: the memory that may be used, in GiB; belief graphs keep to all of it.
    observation_aware: whether policies that see the observations are to be bounded; by default only where `policy` is
        one of them: without them the bound is tighter.
    machines: the observation machines to use, in this order; chosen by size unless given. Only for upper bounds.
    stop: ends the work with the best bound so far when it is requested; without one, Ctrl-C raises KeyboardInterrupt.
    on_progress: called with the state of the search now and then.
    Raises InputError for a policy that does not fit and for machines where the task minimises, BudgetError when the
    problem itself is too large, StoppedError when `stop` is requested before the problem is compiled.
    """
    deadline = Deadline(time_limit)
    check_numbers(
        {"gap": (gap, 0, math.inf), "time_limit": (time_limit, 0, math.inf), "max_memory": (max_memory, 0, 2**30)}
    )
    check_types(
        {
            "observation_aware": (observation_aware, is_flag, "True or False"),
            "machines": (machines, _are_machines, "a tuple of observation machines"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("machines", "stop", "on_progress"),
    )
    read = as_problem(problem)
    solution = policy if isinstance(policy, Solution) else None
    if solution is not None and solution.product.problem != read:
        finding = f"is about the problem '{solution.product.problem.name}' as it was then"
        raise InputError([Fault("solution", finding, "give the problem that was solved")])
    chosen = None if policy is None else policy.policy if isinstance(policy, Solution) else as_policy(policy, read)
    if read.task.minimise and machines is not None:
        finding = "observation machines bound from above, but the task minimises"
        raise InputError([Fault("machines", finding, "leave them out")])
    aware = observation_aware or (
        chosen is not None and any(one.sees_observations for one in chosen.policy_class.conditions)
    )
    scope = read.policy_class if chosen is None else chosen.policy_class
    blind = read.task.minimise and not observation_aware and sees_observations_alone(scope)
    with interruptible(stop, keep_answer=False) as own_stop:
        own_stop.check()
        if not is_plain(read):
            from opaq.certificates.figures import FigureBounds  # which builds on this module

            if machines is not None:
                finding = "bound one figure, but the task is about several, or limits some"
                raise InputError([Fault("machines", finding, "leave them out")])
            limits = {"gap": gap, "deadline": deadline, "memory": max_memory, "aware": aware}
            bounds = FigureBounds.of(read, chosen, solution, stop=own_stop, on_progress=on_progress, **limits)
            return bounds.run()
        start = CertificateStart.of(
            read,
            chosen,
            solution,
            gap=gap,
            deadline=deadline,
            budget=Budget(memory=round(max_memory * 2**30)),
            stop=own_stop,
            on_progress=on_progress or (lambda step: None),
        )
        if concerns_moments(read):
            return _certify_moments(start, machines, deadline)
        if read.task.minimise:
            return _certify_least(start, deadline, blind=blind)
        search = CertificateSearch.of(start, aware=aware)
        with own_stop.limit(deadline.left):
            status = search.run(machines, deadline)
    return search.certificate(status, deadline.elapsed)


def sees_observations_alone(policy_class: PolicyClass) -> bool:
    """Return whether all that the policies of a class look at follows from the observations so far."""
    return all(refines(Observations("all"), condition) for condition in policy_class.conditions)


def _are_machines(machines: object) -> bool:
    """Return whether an argument lists observation machines, by what they must have."""
    listed = isinstance(machines, tuple | list) and len(machines) > 0
    parts = ("name", "begin", "step")  # of the protocol ObservationMachine
    return listed and all(hasattr(one, part) for one in machines for part in parts)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, eq=False)
class _Products:
    """One problem, compiled at most once for every policy class."""

    problem: Problem
    stop: Stop
    compiled: list[Product]

    def of(self, policy_class: PolicyClass) -> Product:
        """Return the product of a class. Raises BudgetError or StoppedError as `compile_problem` does."""
        for product in self.compiled:
            if product.policy_class == policy_class:
                return product
        self.compiled.append(compile_problem(self.problem, policy_class, stop=self.stop))
        return self.compiled[-1]


@dataclass(frozen=True, slots=True, eq=False)
class CertificateStart:
    """What every certificate begins with: the compiled problem, the measured policy, and what needs no search."""

    products: _Products
    policy: Policy | None  # the one given
    vector: FloatArray | None  # [slot], that policy's, if it is known from a solution
    decisions: Decisions
    uncertainty: Uncertainty  # over the secret's values
    measurement: Measurement | None
    scales: FloatArray  # [requirement]: how far payoffs can move
    infeasible: bool  # some requirement is out of reach of every policy
    gap: float
    budget: Budget
    stop: Stop
    on_progress: Callable[[BoundStep], None]

    @classmethod
    def of(
        cls,
        problem: Problem,
        policy: Policy | None,
        solution: Solution | None,
        *,
        gap: float,
        deadline: Deadline,
        budget: Budget,
        stop: Stop,
        on_progress: Callable[[BoundStep], None],
    ) -> CertificateStart:
        """Compile the problem, measure the policy and refute the task where that needs no search.

        policy: the one given, None for none. solution: what `solve` knows of it, if it comes from there.
        Raises StoppedError when `stop` is requested before the problem is compiled.
        """
        products = _Products(problem, stop, [] if solution is None else [solution.product])
        process = products.of(STATE_CLASS).process
        decisions = Decisions.of(process, forever=problem.task.over == "forever", stop=stop)
        vector = None if solution is None else solution.pi
        measurement = None
        if solution is not None and solution.measurement.uncertainty.method == "exact":
            measurement = solution.measurement
        else:
            # The uniform policy, where none is given, is only shown: it is measured briefly, or not at all.
            share = deadline.share(0.5 if policy is not None else 0.1) or 0.0
            limit = max(share if policy is not None else min(share, _SHOWN_SECONDS), _LEAST_SECONDS)
            refused = () if policy is not None else (BudgetError,)
            with suppress(StoppedError, *refused), stop.stage(limit):
                product = products.of(problem.policy_class if policy is None else policy.policy_class)
                pi = product.policy_vector(policy) if vector is None else vector
                whole = Budget(nodes=budget.nodes, memory=budget.memory)
                measurement = measure_product(product, pi, budget=whole, sequences=0, stop=stop)
        scales, infeasible = np.ones(len(decisions.names)), False
        with suppress(StoppedError), stop.part(deadline.left) as part:  # when time is up no search follows
            largest = largest_payoffs(decisions, stop=part)
            scales = payoff_scales(process, largest)
            met = measurement is not None and measurement.feasible  # which refutes that it is infeasible
            infeasible = bool(find_unattainable(decisions, largest)) and not met
        uncertainty = problem.task.of.over(products.of(STATE_CLASS).secret_values)
        return cls(
            products, policy, vector, decisions, uncertainty, measurement, scales, infeasible, gap, budget, stop,
            on_progress,
        )  # fmt: skip

    def known(self, end: Literal["lower", "upper"]) -> float | None:
        """Return one end of what a policy that meets the task reaches, the uniform one or that given; None: none."""
        if self.measurement is None or not self.measurement.feasible:
            return None
        return self.measurement.uncertainty.lower if end == "lower" else self.measurement.uncertainty.upper


@dataclass(slots=True, eq=False)
class CertificateSearch:
    """One certificate of an upper bound in the making. The problem is compiled once per policy class."""

    products: _Products
    process: HiddenProcess  # for policies that look at the state
    policy: Policy | None  # the one given
    vector: FloatArray | None  # [slot], that policy's, if it is known from a solution
    ladder: BoundSearch
    budget: Budget
    measurement: Measurement | None
    trivial: float  # the bound that needs no search
    gap: float
    optimum: HistoryOptimum | None = None  # of the history program, once it was solved

    @classmethod
    def of(cls, start: CertificateStart, *, aware: bool) -> CertificateSearch:
        """Prove what needs no search. aware: whether policies that see the observations are to be bounded."""
        reached = start.known("lower")
        known = -math.inf if reached is None else reached
        proof = first_proof(start.decisions, start.uncertainty)
        trivial = proof.bound
        if start.infeasible:
            proof = Proof(-math.inf, proof.multipliers)
        ladder = BoundSearch(
            start.decisions,
            start.uncertainty,
            start.scales,
            aware,
            known if start.policy is not None else -math.inf,
            start.gap,
            start.budget.memory,
            start.stop,
            start.on_progress,
            proof,
            aware_bound=proof.bound,
            known=known,
        )
        process = start.decisions.process
        return cls(
            start.products, process, start.policy, start.vector, ladder, start.budget, start.measurement, trivial,
            start.gap,
        )  # fmt: skip

    def run(self, machines: tuple[ObservationMachine, ...] | None, deadline: Deadline) -> CertificateStatus:
        """Climb from machine to machine until the gap is reached, the deadline passes or none is left; say which."""
        ladder = self.ladder
        try:
            ending = self._climb(machines, deadline)
        except StoppedError:
            ending = CertificateStatus.INTERRUPTED if ladder.stop.interrupted else CertificateStatus.TIME
        return CertificateStatus.INFEASIBLE if ladder.infeasible else (CertificateStatus.GAP if ladder.done else ending)

    def _climb(self, machines: tuple[ObservationMachine, ...] | None, deadline: Deadline) -> CertificateStatus:
        """Search on one machine after the other, each for its share of the time that is left.

        machines: as given, None for those chosen by size. Returns how the search ended: OPTIMUM by the history program,
        CONVERGED or TIME on the full observation tree, which nothing is finer than, FINEST where no machine is left.
        Raises StoppedError when the stop is requested meanwhile.
        """
        if machines is None:
            turns = self.choose_turns(deadline)
        else:  # each has its share of the time that remains
            turns = (
                BoundTurn("machine", 1.0 / (len(machines) - index), machine) for index, machine in enumerate(machines)
            )
        for turn in turns:
            ending = self.take_turn(turn, deadline.part(turn.share))
            if ending is not None:
                return ending
            if self.finished and turn.kind != "machine":
                break
        return CertificateStatus.FINEST

    @property
    def finished(self) -> bool:
        """Return whether nothing is left to prove: the gap is reached, and the optimum itself would add nothing."""
        ladder = self.ladder
        return ladder.done and (ladder.infeasible or ladder.best.bound - ladder.achieved <= _CLOSE)

    @property
    def finest(self) -> float:
        """Return what may be left to gain on the last machine."""
        return max(self.gap / 20.0, _TOLERANCE)

    @property
    def tolerance(self) -> float:
        """Return what may be left to gain on one machine when a finer one takes its place: a share of the gap."""
        gap = self.ladder.best.bound - self.ladder.achieved
        return max(self.finest, _MOVE_ON * gap if math.isfinite(gap) else 0.0)

    def take_turn(self, turn: BoundTurn, deadline: Deadline) -> CertificateStatus | None:
        """Take one turn, and return how the search ended if nothing is left after it.

        deadline: of the turn. Raises StoppedError when the stop is requested meanwhile.
        """
        ladder, finest = self.ladder, self.finest
        ladder.stop.check()
        if turn.kind == "histories":  # the optimum of a small problem is cheap
            self.optimum = climb_histories(ladder, self.products.of(STATE_CLASS), deadline, quick=not turn.thorough)
            proven = self.optimum is not None and self.optimum.status is HistoryStatus.OPTIMAL
            return CertificateStatus.OPTIMUM if proven else None
        if ladder.done:
            return CertificateStatus.GAP
        if turn.machine is None:
            ladder.resume(deadline=deadline, tolerance=finest if turn.thorough else self.tolerance)
            return None
        last = isinstance(turn.machine, ObservationTree) and (
            ladder.aware or turn.delay >= max(self.process.horizon, 1)
        )
        needed = finest if last or turn.thorough else self.tolerance
        fits = ladder.climb(turn.machine, deadline=deadline, tolerance=needed, memory=turn.memory, delay=turn.delay)
        if not fits or not last:
            return None
        return CertificateStatus.CONVERGED if ladder.best.bound - ladder.reached <= finest else None

    def choose_turns(self, deadline: Deadline) -> Iterator[BoundTurn]:
        """Yield turns from cheap to fine, as the time until the deadline allows.

        First the last observation, and the history program where it is small. For policies that see the observations: a
        small full tree, two observations; then belief graphs, alone and beside longer windows; last the full tree with
        all the memory. For those that do not: `_choose_delays`. Machines that do not fit are passed over.
        """
        process, memory, stop = self.process, self.budget.memory, self.ladder.stop
        yield BoundTurn("machine", 0.05, ObservationWindow(1, process.num_observations))
        if not self.ladder.aware and process.emission.values.min() < 1.0:
            yield BoundTurn("histories", 0.25, thorough=False)
            yield from self._choose_delays(deadline)
            return
        yield BoundTurn("histories", 0.25)
        yield BoundTurn("machine", 1.0, ObservationTree(), _SMALL)
        if process.num_observations**3 < 2**62:
            yield BoundTurn("machine", 0.05, ObservationWindow(2, process.num_observations), memory // 8)
        graphs = []
        for process_of, vector, name, share in self._policies():
            try:
                graphs.append(belief_machine(process_of, vector, name=name, budget=self.budget, stop=stop))
                yield BoundTurn("machine", share, graphs[-1])
            except BudgetError:
                continue
        for length in (2, 4, 8, 16, 32):
            if length > process.horizon or process.num_observations ** (length + 1) >= 2**62:
                break
            window = ObservationWindow(length, process.num_observations)
            yield BoundTurn("machine", 0.5, Both(graphs[-1], window) if graphs else window)
        yield BoundTurn("machine", 1.0, ObservationTree())
        while not self.ladder.settled(self.finest):
            yield BoundTurn("resume", 0.2)

    def _choose_delays(self, deadline: Deadline) -> Iterator[BoundTurn]:
        """Yield machines and delays for agents that see the observations late, from cheap to fine.

        A longer delay is nearer to the agents that are bounded, a finer machine nearer to the observer; both cost
        memory and time. As long as the horizon, with the full tree, it gives the optimum itself, since the last action
        hides nothing: where that fits, nothing else is tried. Otherwise comes, on each scale, the full tree with the
        longest delay that fits, and rounded beliefs, with the longest delay that fits if that is longer. An ascent goes
        on until little of the gap is left for it to close, since finer ones are slower still.
        """
        ladder, horizon = self.ladder, self.process.horizon
        delays = sorted({*(delay for delay in (1, 2, 3, 4, 5, 6, 8, 12, 16) if delay < horizon), max(horizon, 1)})
        last, most = len(delays) - 1, self.budget.memory
        if deadline.left is not None:
            most = min(most, max(_SMALL, round(_BYTES_A_SECOND * deadline.left)))
        unseen = BoundTurn("machine", 0.1, ObservationTree(), min(most, _QUICK), thorough=False)
        fits = (yield from self._take_longest(unseen, delays, last)) > last
        yield BoundTurn("histories", 0.25)
        if not fits:
            unseen = replace(unseen, share=0.3, memory=most)
            fits = (yield from self._take_longest(unseen, delays, last)) > last
        while fits and not ladder.settled(self.finest):
            yield BoundTurn("resume", 0.2)
        if fits:
            return
        tree = rounded = 0  # how many delays, from the shortest on, need not be tried again
        for memory, nodes, share, least, bytes_a_second in _SCALES:
            if deadline.left is not None:
                if deadline.left < least:
                    break
                memory = min(memory, max(_SMALL, round(bytes_a_second * deadline.left)))
            turn = BoundTurn("machine", share, ObservationTree(), memory, thorough=False)
            tree = yield from self._take_longest(turn, delays, tree)
            for machine in self._rounded_beliefs(nodes) if tree < len(delays) else ():
                count = len(ladder.rungs)
                rounded = yield from self._take_longest(replace(turn, machine=machine), delays, max(tree, rounded))
                if len(ladder.rungs) > count:
                    break
        while not ladder.settled(self.finest):
            yield BoundTurn("resume", 0.2)

    def _take_longest(self, turn: BoundTurn, delays: list[int], first: int) -> Generator[BoundTurn, None, int]:
        """Yield turns of a machine with the longest delay that fits, and go on with it until little of the gap is left.

        first: how many delays are too short to be tried. Returns how many are from now on.
        """
        ladder = self.ladder
        for index in range(len(delays) - 1, first - 1, -1):
            count = len(ladder.rungs)
            yield replace(turn, delay=delays[index])
            if len(ladder.rungs) > count:  # it fitted
                while not ladder.settled(self.tolerance):
                    yield BoundTurn("resume", 0.2, thorough=turn.thorough)
                return index + 1
        return first

    def _rounded_beliefs(self, nodes: int) -> Iterator[ObservationMachine]:
        """Yield machines of so many rounded beliefs, and of fewer, where they can be made.

        They are those of the uniform policy: what agents gain from what a machine forgets is least where it was made
        for none of them.
        """
        process = self.process
        for most in (nodes, nodes // 4, nodes // 16):
            if most * process.num_observations * process.num_states <= _LARGEST_TABLE:
                name = f"beliefs of the uniform policy, rounded to {most:,}"
                yield rounded_belief_machine(
                    process, process.uniform(), most_nodes=most, name=name, stop=self.ladder.stop
                )

    def _policies(self) -> Iterator[tuple[HiddenProcess, FloatArray, str, float]]:
        """Yield the policies whose belief graphs are machines: the uniform one, and the one given.

        Each with the process it is a vector of, the machine's name and its share of the time that remains.
        """
        yield self.process, self.process.uniform(), "beliefs of the uniform policy", 0.85
        if self.policy is not None:
            product = self.products.of(self.policy.policy_class)
            vector = product.policy_vector(self.policy) if self.vector is None else self.vector
            yield product.process, vector, "beliefs of the policy", 0.8

    def _aware_bound(self, *, infeasible: bool) -> float | None:
        """Return the bound for policies that see the observations, None where it was not looked for."""
        if infeasible:
            return -math.inf
        heard = self.ladder.aware or any(rung.sees_observations for rung in self.ladder.rungs)
        return self.ladder.aware_bound if heard else None

    def certificate(self, status: CertificateStatus, seconds: float) -> Certificate:
        """Return what is proven by now. status: how the search ended. seconds: the time that it took."""
        ladder, problem = self.ladder, self.products.problem
        names, of = ladder.decisions.names, problem.task.of
        infeasible = status is CertificateStatus.INFEASIBLE
        return Certificate(
            problem=problem.name,
            of=of.name,
            unit=of.unit,
            upper_bound=-math.inf if infeasible else ladder.bound,
            trivial_bound=self.trivial,
            upper_bound_aware=self._aware_bound(infeasible=infeasible),
            aware=ladder.aware,
            measurement=self.measurement,
            given=self.policy is not None,
            prices=dict(zip(names, ladder.best.multipliers.tolist(), strict=True)),
            machine=ladder.machine,
            ladder=tuple(ladder.rungs),
            status=status,
            seconds=seconds,
        )


def _certify_least(start: CertificateStart, deadline: Deadline, *, blind: bool) -> Certificate:
    """Return the certificate of a task that minimises.

    blind: whether only policies that see nothing but the observations are bounded.
    """
    product, decisions, uncertainty = start.products.of(STATE_CLASS), start.decisions, start.uncertainty
    prescriptions = Prescriptions.of(product, decisions, shared=blind)
    lowest = float(uncertainty.certain.min(initial=uncertainty.highest))
    reached = start.known("upper")
    known = math.inf if reached is None else reached
    search = LeastSearch(
        prescriptions,
        ProgramStack(prescriptions, uncertainty, {}),
        start.scales,
        trivial=lowest - 4.0 * UNIT * abs(lowest),
        achieved=known if start.policy is not None else math.inf,
        known=known,
        wanted=start.gap,
        memory=start.budget.memory,
        stop=start.stop,
        on_rung=start.on_progress,
        infeasible=start.infeasible,
    )
    with start.stop.limit(deadline.left):
        try:
            if not search.done:
                search.climb(deadline)
            status = CertificateStatus.FINEST
        except StoppedError:
            status = CertificateStatus.INTERRUPTED if start.stop.interrupted else CertificateStatus.TIME
    if search.optimal:
        status = CertificateStatus.OPTIMUM
    elif search.done:
        status = CertificateStatus.GAP
    if search.infeasible:
        status = CertificateStatus.INFEASIBLE
    of = start.products.problem.task.of
    return Certificate(
        problem=start.products.problem.name,
        of=of.name,
        unit=of.unit,
        upper_bound=None,
        trivial_bound=search.trivial,
        upper_bound_aware=None,
        aware=True,
        measurement=start.measurement,
        given=start.policy is not None,
        prices=dict(zip(decisions.names, search.multipliers.tolist(), strict=True)),
        machine=search.machine,
        ladder=tuple(search.rungs),
        status=status,
        seconds=deadline.elapsed,
        lower_bound=math.inf if search.infeasible else search.bound,
        blind=blind,
    )


def _certify_moments(
    start: CertificateStart, machines: tuple[ObservationMachine, ...] | None, deadline: Deadline
) -> Certificate:
    """Return the certificate of a figure of all moments: of a trajectory, of every moment, of the least.

    It holds for all policies, also those that see the observations. Of a task that minimises only what needs no search
    is proven.
    """
    problem, product = start.products.problem, start.products.of(STATE_CLASS)
    target, of = figure_of(product, problem.task), problem.task.of
    low, high = target.bounds
    proof, known, status = Proof(high, np.zeros(len(start.decisions.names))), start.known("lower"), None
    if isinstance(problem.secret, Trajectory):
        low = 0.0
        proof = Proof(possible_bits(start.decisions), proof.multipliers)
    trivial, machine = low if problem.task.minimise else proof.bound, "number of secret values"
    rungs = list[BoundStep]()
    achieved = -math.inf if known is None or start.policy is None else known
    try:
        with start.stop.limit(deadline.left):
            for ascent in () if problem.task.minimise else _moment_ascents(start, target, machines):
                share = 0.5 if rungs or machines else 0.1  # the first machine chosen here is small
                best = _ascend_moments(ascent, proof, start, achieved, deadline.part(share))
                if best.bound < proof.bound:
                    proof, machine = best, ascent.layers.machine
                entries, rounds = ascent.layers.num_entries, ascent.rounds
                rungs.append(BoundStep(ascent.layers.machine, entries, rounds, proof.bound, True, deadline.elapsed))
                start.on_progress(rungs[-1])
                if proof.bound - achieved <= start.gap or proof.bound < low:
                    break
    except StoppedError:
        status = CertificateStatus.INTERRUPTED if start.stop.interrupted else CertificateStatus.TIME
    if start.infeasible or proof.bound < low - 1e-9:
        status, proof = CertificateStatus.INFEASIBLE, Proof(-math.inf, proof.multipliers)
    elif proof.bound - achieved <= start.gap:
        status = CertificateStatus.GAP
    lowest = math.inf if start.infeasible else low
    return Certificate(
        problem=problem.name,
        of=of.name,
        unit=of.unit,
        upper_bound=None if problem.task.minimise else proof.bound,
        trivial_bound=trivial,
        upper_bound_aware=None if problem.task.minimise else proof.bound,
        aware=True,
        measurement=start.measurement,
        given=start.policy is not None,
        prices=dict(zip(start.decisions.names, proof.multipliers.tolist(), strict=True)),
        machine=machine,
        ladder=tuple(rungs),
        status=status or CertificateStatus.FINEST,
        seconds=deadline.elapsed,
        lower_bound=lowest if problem.task.minimise else None,
    )


def _moment_ascents(
    start: CertificateStart, target: Functional, machines: tuple[ObservationMachine, ...] | None
) -> Iterator[MomentsAscent]:
    """Yield searches on one machine after the other, from cheap to fine; those that do not fit are passed over.

    Where several states have the same word, a trajectory is also bounded by that of the states themselves, of which the
    next one tells more about the one before: H(W | Y) <= H(X | Y).
    """
    decisions, problem = unsettled(start.decisions), start.products.problem
    process, multipliers = decisions.process, np.zeros(len(decisions.names))
    run = isinstance(problem.secret, Trajectory)
    weights = np.ones(process.horizon + 1) if run or not isinstance(target, Levels) else target.weights
    told = [(decisions, start.uncertainty)]
    if run and process.num_secrets < process.num_states:
        states = ints(np.arange(process.num_states))
        finer = replace(decisions, process=replace(process, secret=states, num_secrets=process.num_states))
        told.append((finer, Shannon().over([str(state) for state in states])))
    for machine in machines or _moment_machines(start, process):
        try:
            made = machine() if callable(machine) else machine
            layers = build_layers(decisions, made, memory=start.budget.memory // 8, stop=start.stop)
        except BudgetError:
            continue
        for each, leaf in told:
            ascent = MomentsAscent.of(
                each, layers, leaf, weights=weights, run=run, least=problem.task.when == "least",
                multipliers=multipliers, scales=start.scales, stop=start.stop,
            )  # fmt: skip
            yield ascent
            multipliers = ascent.multipliers


def _moment_machines(start: CertificateStart, process: HiddenProcess) -> Iterator[Any]:
    """Yield machines, or functions that make them: the last observation, belief graphs, the full tree."""
    yield ObservationWindow(1, process.num_observations)
    yield lambda: belief_machine(
        process, process.uniform(), name="beliefs of the uniform policy", budget=start.budget, stop=start.stop
    )
    if start.policy is not None:
        product = start.products.of(start.policy.policy_class)
        vector = product.policy_vector(start.policy) if start.vector is None else start.vector
        seen = show(product.process, product.process.emission, product.process.secret)
        yield lambda: belief_machine(seen, vector, name="beliefs of the policy", budget=start.budget, stop=start.stop)
    yield ObservationTree()


def _ascend_moments(
    ascent: MomentsAscent, proof: Proof, start: CertificateStart, achieved: float, deadline: Deadline
) -> Proof:
    """Make rounds until the deadline, the gap, or until little is left to gain; return the best proof.

    A bound below what a measured policy reaches was lost to rounding, and is none.
    """
    known, best = start.known("lower"), Proof(math.inf, proof.multipliers)
    while not deadline.passed or ascent.rounds < 3:
        found = ascent.round()
        if found.bound < best.bound and (known is None or found.bound >= known - 1e-9):
            best = found
        least = min(best.bound, proof.bound)
        left = _MOVE_ON * (least - achieved) if math.isfinite(achieved) else 0.0
        if least - achieved <= start.gap or best.bound - ascent.reached <= max(start.gap / 20.0, left, _TOLERANCE):
            break
    return best


def is_trivial(bound: float, trivial: float, *, minimise: bool = False) -> bool:
    """Return whether a bound says no more than the one that needs no search, up to rounding.

    minimise: whether it is a lower bound.
    """
    rounding = 1e-9 * max(1.0, abs(trivial))
    return bound <= trivial + rounding if minimise else bound >= trivial - rounding


def _upper(bound: float | None) -> float:
    """Return an upper bound; minus infinity where there is none."""
    return -math.inf if bound is None else bound


def with_bound(
    comparison: Comparison,
    problem: Problem,
    *,
    time: float,
    stop: Stop | None = None,
    on_progress: Callable[[BoundStep], None] | None = None,
) -> Comparison:
    """Return the comparison with a certified bound; without one where no class meets the task.

    A comparison whose bound was interrupted says so, and has the best bound by then, if there is one.

    problem: the problem that was compared. time: seconds for the certificate. stop, on_progress: as in `certify`.
    """
    feasible = [rung for rung in comparison.rungs if rung.measurement.feasible]
    if not feasible:
        return comparison
    sign = -1.0 if problem.task.minimise else 1.0
    best = max(feasible, key=lambda rung: sign * rung.measurement.uncertainty.lower)
    classes = [rung.policy.policy_class for rung in comparison.rungs]
    aware = any(condition.sees_observations for one in classes for condition in one.conditions)
    if problem.task.minimise:  # the bound holds for all, or for all that look at nothing but observations
        aware = not all(sees_observations_alone(one) for one in classes)
    try:
        certificate = certify(
            problem,
            best.policy,
            time_limit=time,
            observation_aware=aware,
            stop=stop,
            on_progress=on_progress,
        )
    except StoppedError:
        bounded = comparison
    else:
        bounded = replace(
            comparison,
            upper_bound=certificate.upper_bound,
            lower_bound=certificate.lower_bound,
            scope=certificate.scope,
            is_trivial=certificate.is_trivial,
        )
    return replace(bounded, interrupted=comparison.interrupted or (stop is not None and stop.interrupted))
