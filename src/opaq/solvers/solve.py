"""Maximise opacity under a task: the one call behind `opaq solve`.

    max over theta of H(Z | Y; theta)   subject to   V_i(theta) >= zeta_i for every requirement i

(the paper's opt_problem_1, for any number of requirements and any uncertainty). `solve` reads top to bottom as it runs:
`Search.prepare` compiles the problem and plans the starts, `Search.race` runs them (`opaq.solvers.race`, which runs
each by `opaq.solvers.loop`), `finish_search` polishes and judges the winner (`opaq.solvers.verdict`), and
`measure_winner` measures it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from warnings import warn

import numpy as np

from opaq.beliefs.dynamic_program import largest_return
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import EQUAL, expected_return, largest_absolute_payoff, rounding_share
from opaq.codec import Result, flat, key, live
from opaq.display import NotebookView, data_frame
from opaq.errors import BudgetError, Fault, InputError, check_numbers, check_types
from opaq.load import as_problem
from opaq.model.arrays import ContentEq, FloatArray, ShortRepr
from opaq.model.fingerprint import problem_parts
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem, Task
from opaq.opacity.amount import Amount
from opaq.opacity.exact import policy_slope
from opaq.opacity.functionals import Functional, Leaf, figure_of, may_cut
from opaq.opacity.measure import (
    Measurement,
    Mode,
    combine_measurements,
    measure_product,
    standard_budget,
    with_opacity,
)
from opaq.opacity.policies import as_policy, compile_for_policy
from opaq.opacity.targets import covert_references
from opaq.product.compile import Product, compile_problem
from opaq.simulation.runs import MOST_RUNS
from opaq.solvers.ladder import Ladder
from opaq.solvers.loop import Candidate, Progress, StartResult, has_no_secret, judge
from opaq.solvers.objective import Objective
from opaq.solvers.options import (
    Gradients,
    GradientsUsed,
    SolveOptions,
    refuse_sampled_gradients,
    with_solve_options,
)
from opaq.solvers.policy_classes import check_class, choose_class, coarser_classes, contains, has_many_optima, lift
from opaq.solvers.race import RaceResult, run_race
from opaq.solvers.registry import factory_of
from opaq.solvers.runs import finish_run, option_parts, record_question, record_run
from opaq.solvers.starts import (
    LIFTED,
    PERTURBED,
    WARM,
    Attainable,
    BeliefCount,
    Start,
    add_feasible_start,
    approach_policy,
    find_even_policy,
    find_feasible_policy,
    make_starts,
    plan_cuts,
)
from opaq.solvers.strategy import Plan, PlanRequest, Solver, SolverFactory, Status
from opaq.solvers.verdict import (
    LEAST_PROBABILITY,
    Optimality,
    Verdict,
    describe_cut,
    describe_verdict,
    judge_optimality,
    raise_probabilities,
)
from opaq.stop import Deadline, Stop, StoppedError, interruptible
from opaq.threads import available_cores

if TYPE_CHECKING:
    from pandas import DataFrame


_LEAST_SIZE = 1e-100  # of a requirement: slacks in smaller units, or their squares, would overflow
_PERTURBATION = 0.05  # share of the uniform policy in such a copy, and standard deviation of its noise
_SEARCH_SHARE = 0.96  # of the time limit; what is left is for judging and measuring the answer
_PROVING_SHARE = 0.1  # of the time of a search on samples, for measuring its answer for certain
_LEAST_SHARE, _LEAST_LARGE_SHARE = 0.5, 6.0  # seconds for a coarser class with a time limit; on a large belief graph
_FEW_BELIEFS = 2_000  # below this an evaluation takes about a millisecond, too little for threads to gain


@dataclass(frozen=True, slots=True)
class Search:
    """A compiled problem, what can be attained in it, and the plan of its starts."""

    problem: Problem
    policy_class: PolicyClass
    product: Product
    objective: Objective
    options: SolveOptions
    plan: Plan
    attainable: tuple[Attainable, ...]  # of every requirement
    counts: tuple[BeliefCount, ...]  # of the belief graphs of all views
    warm: FloatArray | None  # [slot], the policy vector that the first start begins from
    known: tuple[Start, ...] = ()  # policies that race beside the other starts; the answer is no worse than any

    @classmethod
    def prepare(
        cls,
        problem: Problem,
        policy_class: PolicyClass,
        factory: SolverFactory,
        options: SolveOptions,
        *,
        warm: Policy | None,
        counts: tuple[BeliefCount, ...] = (),
        stop: Stop,
    ) -> Search:
        """Compile the problem and plan the search.

        warm: the policy that the first start begins from. counts: of a larger class; without, beliefs are counted here.
        Raises StoppedError when `stop` is requested meanwhile.
        """
        product = compile_problem(problem, policy_class, stop=stop)
        objective = Objective(product, samples=options.samples or factory.samples, budget=options.budget, stop=stop)
        views = {id(view): view for figure in objective.figures for view in figure.views} or {0: product.process}
        counts = counts or tuple(plan_cuts(view, budget=options.budget, stop=stop) for view in views.values())
        count = max(counts, key=lambda each: each.beliefs)
        gradients = _gradients(options, factory, count)
        cuts = count.cuts if options.gradients == "auto" and factory.cuts_if_large else ()
        if cuts and not all(may_cut(figure) for figure in objective.figures):
            cuts, gradients = (), gradients if all(each.whole for each in counts) else "sampled"
        objective = replace(objective, gradients=gradients)
        attainable = tuple(_attainable(objective))
        settings = {name: getattr(options, name) for name in factory.options}
        many = has_many_optima(policy_class)
        timed = options.time_limit is not None
        request = PlanRequest(
            gradients, count.beliefs, options.starts, settings, many_optima=many, cuts=cuts, timed=timed
        )
        plan = factory.plan(request)
        return cls(
            problem=problem,
            policy_class=policy_class,
            product=product,
            objective=replace(objective, sizes=_sizes(objective, attainable)),
            options=options,
            plan=plan,
            attainable=attainable,
            counts=counts,
            warm=None if warm is None else _vector(product, warm, seed=options.seed),
        )

    def begin_from(self, policies: Sequence[Policy]) -> Search:
        """Return the search that also begins from some policies, and whose answer is not worse than any of them.

        policies: of this class, or of coarser ones: these are lifted, each with a slightly perturbed copy, since
            what is best in the coarser class may be a saddle here. Those that covert limits refer to are added: where
            they never take some action, what is seen of any other policy may be infinitely far from what they show.
        Raises InputError where this class does not contain that of a policy.
        """
        rng = np.random.default_rng(np.random.SeedSequence(self.options.seed, spawn_key=(3,)))
        process, known = self.product.process, list[Start]()
        first = sum(self.plan.waves) + self.plan.rescue  # the others keep their numbers
        references = covert_references(self.problem)
        fitting = [policy for policy in references if contains(self.policy_class, policy.policy_class)]
        for policy in (*policies, *fitting):
            same = contains(policy.policy_class, self.policy_class)
            pi = self.product.policy_vector(policy) if same else lift(policy, self.product, rng=rng)
            known.append(Start(first + len(known), WARM if same else LIFTED, process.logits(pi)))
            if not same:
                even = np.log((1.0 - _PERTURBATION) * pi + _PERTURBATION * process.uniform())
                known.append(Start(first + len(known), PERTURBED, even + _PERTURBATION * rng.normal(size=even.size)))
        return replace(self, known=tuple(known))

    @property
    def beliefs(self) -> int:
        """Return how many beliefs the graph of some policy has: what one evaluation costs."""
        return max(count.beliefs for count in self.counts)

    @property
    def impossible(self) -> bool:
        """Whether no policy at all meets some requirement."""
        return any(most.out_of_reach for most in self.attainable)

    @contextmanager
    def hold_folder(self, folder: Path | None) -> Iterator[None]:
        """Hold the folder of the run, if there is one, while it is worked on: a run is known by its parts' digests."""
        if folder is None:
            yield
            return
        parts = problem_parts(self.problem, self.policy_class)
        options = option_parts(self.objective, self.options, rounds=self.plan.rounds, warm=self.warm)
        with record_run(folder, problem=parts, options=options):
            yield

    def race(
        self, *, folder: Path | None, deadline: Deadline, on_step: Callable[[Progress], None] | None
    ) -> RaceResult:
        """Run the starts, in as many threads as the options allow, or in one where the belief graph is small.

        folder: where checkpoints are kept. deadline: of the search.
        Raises StoppedError when the stop is requested before any start begins.
        """
        options, wave = self.options, self.plan.waves[0]
        begins = make_starts(
            self.objective,
            count=sum(self.plan.waves) + self.plan.rescue,
            kind=options.start,
            seed=options.seed,
            warm=self.warm,
        )
        if options.start == "mixed":
            begins[:wave] = add_feasible_start(self.objective, begins[:wave], seed=options.seed)
        more = len(self.known)
        begins = [*begins[:1], *self.known, *begins[1:]]
        plan = replace(
            self.plan, kept=(self.plan.kept[0] + more, *self.plan.kept[1:]), waves=(wave + more, *self.plan.waves[1:])
        )
        workers = options.workers or available_cores()
        result = run_race(
            self.objective,
            plan,
            begins,
            seed=options.seed,
            folder=folder,
            workers=1 if self.beliefs <= _FEW_BELIEFS else workers,
            deadline=deadline,
            on_step=on_step,
        )
        return replace(result, made=next((begin for begin in begins if begin.kind == "feasible"), None))


def _vector(product: Product, policy: Policy, *, seed: int) -> FloatArray:
    """Return the vector [slot] of a policy of the product's class or, lifted, of a coarser one."""
    if contains(policy.policy_class, product.policy_class) or not contains(product.policy_class, policy.policy_class):
        return product.policy_vector(policy)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    return lift(policy, product, rng=rng)


def _gradients(options: SolveOptions, factory: SolverFactory, count: BeliefCount) -> Gradients:
    """Return where gradients come from: by default samples only where the budget leaves out too much."""
    if options.gradients != "auto":
        return options.gradients
    return "sampled" if factory.cuts_if_large and count.thin else "exact"


def _attainable(objective: Objective) -> Iterator[Attainable]:
    """Yield the most that any policy can reach of every requirement."""
    for payoff in objective.requirements():
        process = objective.process
        most = largest_return(process, payoff, stop=objective.stop)
        rounding = 6.0 * rounding_share(process) * largest_absolute_payoff(process, payoff)
        yield Attainable(payoff.name, most, float(payoff.threshold or 0.0), rounding)
    for limit in objective.limits:
        if limit.sign > 0:
            yield Attainable(limit.name, limit.figure.bounds[1], limit.threshold, EQUAL)


def _sizes(objective: Objective, attainable: tuple[Attainable, ...]) -> FloatArray:
    """Return [requirement]: its size, how far the largest return is from the uniform policy's or from 0; else 1."""
    process = objective.process
    uniform = [expected_return(process, process.uniform(), payoff) for payoff in objective.requirements()]
    spans = [max(abs(most.largest - mean), abs(most.largest)) for most, mean in zip(attainable, uniform, strict=False)]
    spans += [float(np.ptp(limit.figure.bounds)) for limit in objective.limits]
    return np.array([span if span > _LEAST_SIZE else 1.0 for span in spans])


_JUDGING_SECONDS = 1.0  # for making a policy after an interrupt or when time is up, and for judging it
_LAST_SECONDS, _LEAST_SECONDS = 3.0, 1.0  # for measuring the best policy then, as far as the time limit allows
_BRIEF_SECONDS = 0.5  # for that of a coarser class
_MEASURING_SEED, _MEASURING_NODES = 0x0BAD, 40_000  # beliefs in all of one graph that opacity is estimated on


def finish_search(search: Search, race: RaceResult) -> Verdict:
    """Return the best policy and what may be said of it.

    Where no start ended at a policy that meets the task, one is made for it. When the stop is requested, before or
    meanwhile, nothing more is tried.
    """
    objective = replace(search.objective, budget=race.budget or search.objective.budget)
    if race.best is not None and race.best.is_estimate:  # then all are judged by samples
        objective = replace(objective, gradients="sampled")
    best, claimed, stop = race.best, race.claimed, objective.stop
    for begin in search.known:
        if begin.kind != PERTURBED and (judged := _judge_in_time(objective, begin.theta)).beats(best):
            best, claimed = judged, Status.SETTLED
    if best is None or not best.feasible:
        theta = race.made.theta if race.made is not None else _make_policy(objective, search.options.seed)
        made = _judge_in_time(objective, theta)
        if best is not None and made.feasible:  # a search that was out of time may have come close to the task
            near = _judge_in_time(objective, _approach(objective, best.theta, search.options.seed))
            made = near if near.beats(made) else made
        best = best if best is not None and not made.beats(best) else made
        claimed = Status.EDGE
    if search.impossible and not best.feasible:
        return Verdict(best, Status.INFEASIBLE, None)
    if not stop.requested and not best.feasible:
        return Verdict(best, Status.NOT_FOUND, None)
    if not stop.requested:
        spent = 3 * sum(result.iterations for result in race.results) // 2
        with suppress(StoppedError):
            return judge_optimality(objective, best, claimed=claimed, evaluations=spent, trace=race.trace)
    why = describe_cut(best) if race.best is not None and objective.gradients != "sampled" else ""
    return Verdict(best, Status.INTERRUPTED if stop.interrupted else Status.TIME_LIMIT, None, why)


def _make_policy(objective: Objective, seed: int) -> FloatArray:
    """Return the logits [slot] of a policy made for the task; after a stop in one second, or of the uniform one.

    The search has then had no time for anything: where opacity is asked for, an even policy hides more than one that
    earns as much as it can.
    """
    if not objective.stop.requested:
        with suppress(StoppedError):
            return objective.process.logits(find_feasible_policy(objective, seed=seed).pi)
    pi, last = objective.process.uniform(), Stop()
    with suppress(StoppedError), last.limit(_JUDGING_SECONDS):
        hurried = replace(objective, stop=last)
        if objective.sign > 0:
            pi = find_even_policy(hurried, seed=seed)
        else:
            pi = find_feasible_policy(hurried, seed=seed, climb=False).pi
    return objective.process.logits(pi)


def _approach(objective: Objective, theta: FloatArray, seed: int) -> FloatArray:
    """Return logits [slot] of a policy that meets the task and is as close to another as it can be, in a second."""
    pi, last = objective.process.softmax(theta), Stop()
    with suppress(StoppedError), last.limit(_JUDGING_SECONDS):
        pi = approach_policy(replace(objective, stop=last), pi, seed=seed)
    return objective.process.logits(pi)


def _judge_in_time(objective: Objective, theta: FloatArray) -> Candidate:
    """Judge a policy; when the stop is requested, before or meanwhile, by what can be said in a second."""
    with suppress(StoppedError):
        objective.stop.check()
        return judge(objective, theta)
    last = Stop()
    with last.limit(_JUDGING_SECONDS):
        return judge(objective, theta, within=last)


def reconcile(verdict: Verdict, measurement: Measurement) -> Verdict:
    """Return the verdict that the measurement allows: a policy measured to meet the task refutes that none does.

    The search asks for half of the tolerance that measurements allow, so that a policy can lie between the two.
    """
    if measurement.feasible and verdict.status in (Status.INFEASIBLE, Status.NOT_FOUND):
        return replace(verdict, status=Status.EDGE)
    return verdict


def measure_winner(
    search: Search,
    candidate: Candidate,
    *,
    deadline: Deadline,
    workers: int = 1,
    last_seconds: float = _LAST_SECONDS,
) -> tuple[FloatArray, Measurement]:
    """Return the policy vector [slot] and its measurement; after a stop in a few seconds, and without sequences.

    deadline: of the call. workers: the most threads. last_seconds: that it may take after a stop, where the deadline
        leaves them.
    """
    objective, stop, budget = search.objective, search.objective.stop, standard_budget(workers=workers)
    pi, options, known = objective.process.softmax(candidate.theta), search.options, None
    guessed = candidate.is_estimate or objective.gradients == "sampled"
    with suppress(StoppedError):
        stop.check()
        known = measure_product(search.product, pi, budget=budget, sequences=options.sequences, stop=stop)
        if not (guessed and stop.requested):
            return pi, _sharpen(_tighten(known, candidate, objective), pi, replace(objective, stop=Stop()))
    last, left = Stop(), deadline.left
    mode: Mode = "sampled" if guessed else "auto"
    seconds = last_seconds if left is None else min(last_seconds, max(left, _LEAST_SECONDS))
    with last.limit(seconds):
        measurement = measure_product(
            search.product, pi, mode=mode, budget=budget, time=seconds, sequences=0, stop=last
        )
        if known is not None:
            measurement = combine_measurements(known, measurement)
        return pi, _sharpen(_tighten(measurement, candidate, objective), pi, replace(objective, stop=last))


def _tighten(measurement: Measurement, candidate: Candidate, objective: Objective) -> Measurement:
    """Return the measurement with an interval tightened by what the search has certified of the same policy.

    The score of a candidate on a cut belief graph is the certain side of its opacity: a lower bound where as much as
    possible is wanted, an upper one otherwise. A measurement in less time may know less.
    """
    opacity, guessed = measurement.opacity, candidate.is_estimate or objective.gradients == "sampled"
    if not _is_opacity(objective.target) or opacity.method == "exact" or guessed:
        return measurement
    bound = abs(candidate.score)
    lower, upper = (max(opacity.lower, bound), opacity.upper) if objective.sign > 0 else (opacity.lower, bound)
    if lower <= opacity.lower and upper >= opacity.upper:
        return measurement
    tighter = Amount.between(min(lower, opacity.upper), min(upper, opacity.upper))
    if opacity.method == "sampled":
        value = min(max(opacity.value, tighter.lower), tighter.upper)
        tighter = Amount(value, tighter.lower, tighter.upper, "sampled", opacity.standard_error)
    return with_opacity(measurement, tighter)


def _is_opacity(target: Functional) -> bool:
    """Return whether a task is about the opacity of one pair of secret and observer at the end of runs."""
    return isinstance(target, Leaf) and target.uncertainty.compiled == "opacity"


def _sharpen(measurement: Measurement, pi: FloatArray, objective: Objective) -> Measurement:
    """Return the measurement with an opacity estimated on thinned graphs in place of runs, where that is sharper.

    Their error is a fraction of that of as many runs: seeds and classes are compared by it. Other draws than those that
    candidates were judged by, which the best of many candidates is biased to.
    pi: [slot], the policy vector. objective: its stop ends the attempt, and then the measurement stays as it is.
    """
    opacity = measurement.opacity
    if not _is_opacity(objective.target) or opacity.method != "sampled":
        return measurement
    rng, nodes = np.random.default_rng(_MEASURING_SEED), max(_MEASURING_NODES // max(objective.process.horizon, 1), 1)
    with suppress(StoppedError):
        mean, error = objective.target.estimate(pi, nodes=nodes, rng=rng, stop=objective.stop)
        if 0.0 < error < (opacity.standard_error or 0.0):
            sharper = Amount.estimate(mean, opacity.lower, opacity.upper, standard_error=error)
            how = f"{measurement.explanation}; the opacity from graphs of {nodes:,} drawn beliefs per observation"
            return replace(with_opacity(measurement, sharper), explanation=how)
    return measurement


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartSummary(ShortRepr):
    """How one start of a search ended.

    index: its position among the starts.
    kind: where it began: "uniform", "random", "return-optimal", "secret", "program", "blended", "feasible", "warm",
        "lifted" (a policy of a coarser class), "perturbed" (one close to that) or another word of the solver.
    status: how it ended, as the status of the whole search.
    value: what its best policy reaches of what the task is about, as the solver knows it; null: it has no policy.
    standard_error: of a value that is an estimate (sampled gradients); null of others.
    feasible: whether that policy meets the task.
    hides_nothing: whether all runs of that policy have one value of the secret, so that there is nothing to hide.
    iterations: how many steps it made.
    seconds: its time.
    result: the start itself, with its policies.
    """

    index: int
    kind: str
    status: Status
    value: float | None
    standard_error: float | None
    feasible: bool
    hides_nothing: bool
    iterations: int = field(metadata=key("num_iterations"))
    seconds: float
    result: StartResult = field(metadata=live())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceStep(ContentEq):
    """One step of the start that won, in the units of the task.

    iteration: its number.
    value: what the policy reaches of what the task is about, as the solver saw it.
    slack: how far above its threshold each requirement was; below 0: missed.
    multipliers: what one more unit of each threshold would cost.
    """

    iteration: int
    value: float
    slack: FloatArray  # [requirement]
    multipliers: FloatArray  # [requirement]


@dataclass(frozen=True, slots=True, eq=False)
class Solution(NotebookView, Result):
    """The policy found and every reason to trust it, or not.

    measurement: of the policy.
    status: how the search ended.
    status_text: the status as a sentence, with the figures it rests on.
    attainable: what no policy exceeds of each requirement.
    optimality: how close the policy is to a local optimum; null where that was not tested.
    starts: every start of the search.
    trace: the start that won, step by step.
    gradients: "exact", "cut" where they are those of the heaviest beliefs alone, or "sampled" from runs.
    solver: its name.
    seed: what made the search repeatable.
    seconds: the time of the whole search.
    policy: the policy.
    product: the compiled problem.
    pi: the policy as a vector over the product's slots.
    """

    RESULT: ClassVar[str] = "solution"
    PRINTED_BY: ClassVar[str] = "solve"
    DERIVED: ClassVar[tuple[str, ...]] = ("interrupted",)

    measurement: Measurement = field(metadata=flat())
    status: Status
    status_text: str
    policy: Policy = field(metadata=live())
    attainable: tuple[Attainable, ...]
    optimality: Optimality | None
    starts: tuple[StartSummary, ...]
    trace: tuple[TraceStep, ...]
    gradients: GradientsUsed
    solver: str
    seed: int
    seconds: float
    product: Product = field(metadata=live())
    pi: FloatArray = field(metadata=live())

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM ended the search."""
        return self.status is Status.INTERRUPTED

    def __repr__(self) -> str:
        task = "feasible" if self.measurement.feasible else "infeasible"
        policy = getattr(self, "policy", None)
        rows = "" if policy is None else f", {len(policy.rows)} policy rows"
        return f"<Solution {self.status.name}: opacity {self.measurement.opacity}, {task}{rows}, by {self.solver}>"

    def to_dataframe(self) -> DataFrame:
        """The trace of the start that won, one line per step: the uncertainty, and slack and multiplier by requirement.

        `starts_to_dataframe` has one line per start.
        """
        of = self.measurement.of.name
        required = [met.name for met in self.measurement.requirements if met.threshold is not None]
        slacks, multipliers = ([f"{kind} of {name}" for name in required] for kind in ("slack", "multiplier"))
        lines = [
            {
                "iteration": step.iteration,
                of: step.value,
                **dict(zip(slacks, step.slack.tolist(), strict=True)),
                **dict(zip(multipliers, step.multipliers.tolist(), strict=True)),
            }
            for step in self.trace
        ]
        return data_frame(lines, ("iteration", of, *slacks, *multipliers))

    def starts_to_dataframe(self) -> DataFrame:
        """One line per start: where it began, how it ended, and what its best policy reaches (NaN: there is none).

        `standard_error` is that of a value that is an estimate (sampled gradients), NaN of others.
        """
        of = self.measurement.of.name
        lines = [
            {
                "start": each.index,
                "kind": each.kind,
                "status": each.status.name.lower(),
                of: math.nan if each.value is None else each.value,
                "standard_error": math.nan if each.standard_error is None else each.standard_error,
                "feasible": each.feasible,
                "iterations": each.iterations,
                "seconds": each.seconds,
            }
            for each in self.starts
        ]
        return data_frame(lines, ("start", "kind", "status", of, "standard_error", "feasible", "iterations", "seconds"))


@with_solve_options()
def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    options: SolveOptions | None = None,
    policy_class: PolicyClass | None = None,
    solver: Solver | str | None = None,
    initial_policy: Policy | str | os.PathLike[str] | None = None,
    run_folder: str | os.PathLike[str] | None = None,
    on_step: Callable[[Progress], None] | None = None,
    stop: Stop | None = None,
    **changes: Any,
) -> Solution:
    """Find the most opaque policy that meets the task (the least opaque one with task.minimise).

    problem: an object, the name of a file, or the name of a scenario.
    options: a `SolveOptions`, which has the defaults; `changes` are fields of it that are given as keywords and take
        precedence: conditions, memory_nodes, gradients, samples, starts, start, seed, max_beliefs, max_memory, mass,
        time_limit, workers, sequences, iterations, eta, kappa and exponent.
    policy_class: what the policy may look at (the problem's own class by default); in words by `conditions`
        ("state,time") and `memory_nodes` (a memory of so many nodes, free to use).
    solver: "natural", "lagrangian", "primal-dual" (the paper's), another registered name, or a strategy with its
        settings, such as `opaq.PrimalDual(eta=0.5)`. iterations, eta, kappa and exponent are settings of "primal-dual".
    gradients: "exact" on the belief graph, "sampled" from `samples` runs (natural: from 1,000 to at most 20,000;
        primal-dual: 2,000, as in the paper), or "auto" (natural): exact where the whole graph fits the budget and is
        not large; else exact on its heaviest beliefs, more of them as the search goes on; sampled only where these
        would leave out much of the probability and the whole graph does not fit.
    starts: how many starts (by default a few, and more while the best of them disagree); `start` says where they
        begin: "mixed", "random", "uniform", "return-optimal" or "secret" (where the secret itself is most uncertain);
        an `initial_policy` (or its file or name) is the first of them; one of a coarser class is lifted.
    seed: the same seed gives the same answer; `workers`: at most so many starts run at a time (every core by
        default), which changes nothing else.
    max_beliefs, max_memory (GiB), mass: how much of the belief graph may be kept; what does not fit makes scores lower
        bounds.
    time_limit: seconds, from the entry of the call, after which the best policy so far is the answer; so it is when
        `stop` is requested or, without a stop, after Ctrl-C. Only when there is no policy yet, StoppedError
        (KeyboardInterrupt after Ctrl-C) is raised.
    run_folder: keeps checkpoints and, in the end, result.json and policy.json; a solve with the same arguments and
        folder goes on where it was stopped. Where the problem is named (a file or a scenario) and everything else is
        plain data, `opaq solve --resume` goes on with it as well. An answer that cannot be written there is still
        returned, with a warning.
    sequences: how many telling observation sequences the measurement shows. on_step is called after every step.

    With the solver "natural", classes that the policy's class contains are searched before it, by the same procedure,
    and their best policies are further starts: the answer is not worse than that of a coarser class. With a time limit
    they share the first third of it.

    The answer is judged by exact evaluation. Raises InputError when an argument does not fit.
    """
    call = Deadline()
    objects = {
        "options": (options, SolveOptions, "an opaq.SolveOptions"),
        "run_folder": (run_folder, str | os.PathLike, "the name of a folder"),
        "on_step": (on_step, callable, "a function"),
        "stop": (stop, Stop, "an opaq.Stop"),
    }
    check_types(objects, optional=objects)
    named = {"solver": solver} if isinstance(solver, str) else {}
    chosen = (options or SolveOptions()).with_changes(**named, **changes)
    read = as_problem(problem)
    factory = factory_of(chosen.solver if solver is None or named else solver)
    _check(read, factory, chosen)
    wanted = choose_class(read, conditions=chosen.conditions, memory_nodes=chosen.memory_nodes)
    wanted = wanted if policy_class is None else check_class(policy_class, read)
    first = None if initial_policy is None else as_policy(initial_policy, read, within=wanted)
    path = None if run_folder is None else Path(run_folder)
    deadline = call.limited_to(chosen.time_limit)
    with interruptible(stop) as own_stop, own_stop.limit(deadline.share(_SEARCH_SHARE)):
        search = Search.prepare(read, wanted, factory, chosen, warm=first, stop=own_stop)
        named_only = isinstance(problem, str | os.PathLike) and policy_class is None and isinstance(solver, str | None)
        if path is not None and named_only and not isinstance(initial_policy, Policy):
            record_question(path, str(problem), chosen, initial_policy)
        with search.hold_folder(path):
            ladder = Ladder(own_stop)
            if factory.climbs_classes and not search.impossible:
                _climb_coarser(ladder, search, factory, path, on_step=on_step, deadline=deadline)
            rung = ladder.climb(
                wanted, lambda known: _run(search.begin_from(known), path, on_step=on_step, deadline=deadline)
            )
            solution = rung.solution
    if path is not None:
        try:
            finish_run(path, solution.to_dict(), solution.policy, problem=read)
        except InputError as error:
            warn(f"the answer of the run could not be kept: {error}", RuntimeWarning, stacklevel=2)
    return solution


def _climb_coarser(
    ladder: Ladder,
    search: Search,
    factory: SolverFactory,
    folder: Path | None,
    *,
    on_step: Callable[[Progress], None] | None,
    deadline: Deadline,
) -> None:
    """Search the classes below that of a search, coarser ones first, each by the same procedure.

    folder: of the run; the checkpoints of these classes lie in folders within. deadline: a third of what is left is
    shared evenly among them; where that is less than half a second each (six on a large belief graph), the finer ones
    are left out.
    A class that has no answer in its time, or is too large, has no place on the ladder.
    """
    stop, classes = search.objective.stop, coarser_classes(search.policy_class, search.problem)
    if deadline.left is not None:
        large = bool(search.plan.budgets) or search.objective.gradients == "sampled"
        classes = classes[: int(deadline.left / 3.0 / (_LEAST_LARGE_SHARE if large else _LEAST_SHARE))]
    for index, policy_class in enumerate(classes):
        if stop.requested:
            return

        seconds = deadline.share(1.0 / (3 * len(classes) - index))

        def run(
            known: Sequence[Policy],
            policy_class: PolicyClass = policy_class,
            index: int = index,
            seconds: float | None = seconds,
        ) -> Solution:
            call = Deadline(seconds)
            inner = Search.prepare(
                search.problem, policy_class, factory, search.options, warm=None, counts=search.counts, stop=stop
            )
            within = None if folder is None else folder / f"coarser-{index}"
            if within is not None:
                within.mkdir(exist_ok=True)
            return _run(inner.begin_from(known), within, on_step=on_step, deadline=call, coarser=True)

        with stop.stage(seconds), suppress(BudgetError, StoppedError):
            ladder.climb(policy_class, run)


def solve_class(
    problem: Problem,
    policy_class: PolicyClass,
    options: SolveOptions,
    *,
    warm: Sequence[Policy] = (),
    seconds: float | None = None,
    stop: Stop,
    on_step: Callable[[Progress], None] | None = None,
) -> Solution:
    """Find the best policy of one class, without a search of coarser classes.

    options: those that name a class or a time limit have no effect.
    warm: policies of this class or of coarser ones. Each is one of the starts, and the answer is not worse than any.
    seconds: after which the caller requests the stop, so that rounds on a large belief graph get shares of them.
    stop: when it is requested, the best policy so far is the answer. on_step: called after every step.
    Raises InputError where an argument does not fit, StoppedError when `stop` is requested before there is a policy.
    """
    factory = factory_of(options.solver)
    return solve_with(factory, problem, policy_class, options, warm=warm, seconds=seconds, stop=stop, on_step=on_step)


def solve_with(
    factory: SolverFactory,
    problem: Problem,
    policy_class: PolicyClass,
    options: SolveOptions,
    *,
    warm: Sequence[Policy],
    seconds: float | None = None,
    stop: Stop,
    on_step: Callable[[Progress], None] | None,
) -> Solution:
    """Find the best policy of one class by a given solver; otherwise as `solve_class`."""
    call = Deadline(seconds)
    _check(problem, factory, options)
    search = Search.prepare(problem, policy_class, factory, options, warm=None, stop=stop).begin_from(warm)
    return _run(search, None, on_step=on_step, deadline=call)


def _check(problem: Problem, factory: SolverFactory, options: SolveOptions) -> None:
    """Raise InputError where the solver cannot do what is wanted."""
    if options.gradients == "sampled" and factory.needs_exact:
        raise InputError([refuse_sampled_gradients(factory.name)])
    if problem.task.over == "forever":
        finding = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", finding, "write 'over: horizon', or measure a given policy")])


def _run(
    search: Search,
    folder: Path | None,
    *,
    on_step: Callable[[Progress], None] | None,
    deadline: Deadline,
    coarser: bool = False,
) -> Solution:
    """Race the starts, reach a verdict, measure the winner.

    folder: of checkpoints, None for none. deadline: of the call, for the seconds it took. Where the stop is requested
        before or during the race, the verdict makes do with what there is. coarser: whether the answer is only to
        begin finer classes from: then it is measured briefly.
    """
    race = RaceResult((), None, (), Status.INTERRUPTED)
    searching, ahead = deadline, None
    guessing = search.objective.gradients == "sampled" or None in search.plan.budgets
    if guessing and not coarser and deadline.seconds is not None:
        searching = deadline.limited_to((_SEARCH_SHARE - _PROVING_SHARE) * deadline.seconds)
        ahead = searching.left
    with search.objective.stop.stage(ahead):
        with suppress(StoppedError):  # then the verdict makes do without a race
            if not search.impossible:
                race = search.race(folder=folder, deadline=searching, on_step=on_step)
        verdict = finish_search(search, race)
    workers = search.options.workers or available_cores()
    seconds = _BRIEF_SECONDS if coarser else _LAST_SECONDS
    pi, measurement = measure_winner(
        search, verdict.candidate, workers=workers, deadline=deadline, last_seconds=seconds
    )
    verdict = reconcile(verdict, measurement)
    minimise = search.product.problem.task.minimise
    return Solution(
        status=verdict.status,
        status_text=describe_verdict(verdict, measurement, search.attainable, minimise=minimise),
        policy=search.product.policy(pi),
        measurement=measurement,
        attainable=search.attainable,
        optimality=verdict.optimality,
        starts=tuple(_summarise_start(search, result) for result in race.results),
        trace=tuple(
            TraceStep(step.iteration, _value_of_score(search, step.score), step.slack, step.multipliers)
            for step in race.trace
        ),
        gradients=_gradients_used(search, race, verdict.candidate),
        solver=search.plan.rounds[0].name,
        seed=search.options.seed,
        seconds=deadline.elapsed,
        product=search.product,
        pi=pi,
    )


def _gradients_used(search: Search, race: RaceResult, candidate: Candidate) -> GradientsUsed:
    """Return where the gradients of a search came from, in its last round."""
    if race.best is not None and race.best.is_estimate:
        return "sampled"
    cut = race.best is not None and candidate.dropped > 0.0
    return "cut" if cut and search.objective.gradients == "exact" else search.objective.gradients


def _value_of_score(search: Search, score: float) -> float:
    """Return the uncertainty that a solver's score stands for: sign x scale x score."""
    return float(search.objective.sign * search.objective.scale * score) + 0.0


def _summarise_start(search: Search, result: StartResult) -> StartSummary:
    """Return how a start ended, in the units of the task."""
    best = result.best
    return StartSummary(
        index=result.index,
        kind=result.kind,
        status=result.status,
        value=None if best is None else _value_of_score(search, best.score),
        standard_error=None if best is None else abs(_value_of_score(search, best.error)) or None,
        feasible=best is not None and best.feasible,
        hides_nothing=best is not None and best.feasible and has_no_secret(search.objective, best.theta),
        iterations=result.iterations,
        seconds=result.seconds,
        result=result,
    )


def gradient(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> dict[RowKey, dict[str, float]]:
    """Return dH(secret | observations) / d(probability): row -> action -> bits per unit of probability.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy. Where an action has
    probability 0 the slope is that at 1e-12: at 0 there may be none.
    samples: estimate it from so many runs, for problems whose belief graph does not fit; None: exact evaluation.
    seed: the same seed gives the same runs.
    budget: how large the belief graph may become; the default budget if None. Sampled runs need none.
    stop: when it is requested the work ends with StoppedError.

    Within a row only differences between actions have a meaning: moving probability d from action b to action a
    changes the opacity by d (slope of a - slope of b), to first order.
    Raises InputError when the policy does not fit, BudgetError when the whole graph does not fit the budget.
    """
    limits = {"samples": (samples, 1, MOST_RUNS), "seed": (seed, 0, 2**64)}
    check_numbers(limits, whole=tuple(limits), optional=("samples",))
    objects = {"budget": (budget, Budget, "an opaq.Budget"), "stop": (stop, Stop, "an opaq.Stop")}
    check_types(objects, optional=objects)
    product, pi = compile_for_policy(problem, policy)
    process = product.process
    pi = process.softmax(raise_probabilities(process, process.logits(pi), LEAST_PROBABILITY))
    figure, stop = figure_of(product, Task()), stop or Stop()
    if samples is not None:
        _, _, slope = figure.sample(pi, samples=samples, rng=np.random.default_rng(seed), stop=stop)
    elif isinstance(figure, Leaf):
        _, slope = policy_slope(process, pi, budget=budget, whole=True, stop=stop)
    else:
        if figure.evaluate(pi, budget=budget or Budget(), stop=stop).dropped_mass > 0.0:
            stop.check()
            raise BudgetError("the belief graph does not fit the budget; allow a larger one, or sample the gradient")
        _, slope = figure.slope(pi, budget=budget or Budget(), stop=stop)
    return product.table(slope)
