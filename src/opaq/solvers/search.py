"""From a problem and options to the outcome of all starts: compile, see what is attainable, race."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opaq.beliefs.returns import expected_return, most_paid_in_all, rounding_share
from opaq.model.arrays import FloatArray
from opaq.model.fingerprint import problem_parts
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.product.compile import Product, compile_problem
from opaq.solvers.attainable import Attainable, largest_return
from opaq.solvers.cores import available_cores
from opaq.solvers.factory import Plan, PlanRequest, SolverFactory
from opaq.solvers.feasible import with_feasible_start
from opaq.solvers.loop import Progress
from opaq.solvers.objective import Objective
from opaq.solvers.options import Gradients, SolveOptions
from opaq.solvers.policy_classes import has_many_optima
from opaq.solvers.pool import StartRunner, ThreadRunner
from opaq.solvers.race import Outcome, run_race
from opaq.solvers.run_record import option_parts, recorded_run
from opaq.solvers.starts import Start, graph_size, starts
from opaq.stop import Stop

_LEAST_SIZE = 1e-100  # of a requirement: slacks in smaller units, or their squares, would overflow
_FEW_BELIEFS = 2_000  # below this an evaluation takes about a millisecond, too little for threads to gain


@dataclass(frozen=True, slots=True)
class Search:
    """A compiled problem, what is attainable in it, and how its starts are run."""

    problem: Problem
    policy_class: PolicyClass
    product: Product
    objective: Objective
    options: SolveOptions
    plan: Plan
    attainable: tuple[Attainable, ...]
    beliefs: int  # of the graph of some policy
    warm: FloatArray | None  # a policy vector

    @classmethod
    def prepare(
        cls,
        problem: Problem,
        policy_class: PolicyClass,
        factory: SolverFactory,
        options: SolveOptions,
        *,
        warm: Policy | None,
        stop: Stop,
    ) -> Search:
        """Compile the problem and plan the search. Raises StoppedError when asked to stop meanwhile."""
        product = compile_problem(problem, policy_class, stop=stop)
        beliefs, whole = graph_size(product.process, budget=options.budget, stop=stop)
        gradients = _gradients(options, factory, whole=whole)
        objective = Objective(
            product,
            gradients=gradients,
            samples=options.samples or factory.samples,
            budget=options.budget,
            stop=stop,
        )
        attainable = tuple(_attainable(objective))
        settings = {name: getattr(options, name) for name in factory.options}
        many = has_many_optima(policy_class)
        plan = factory.plan(PlanRequest(gradients, beliefs, options.num_starts, settings, many_optima=many))
        return cls(
            problem=problem,
            policy_class=policy_class,
            product=product,
            objective=replace(objective, sizes=_sizes(objective, attainable)),
            options=options,
            plan=plan,
            attainable=attainable,
            beliefs=beliefs,
            warm=None if warm is None else product.policy_vector(warm),
        )

    @property
    def impossible(self) -> bool:
        """Whether no policy at all meets some requirement."""
        return any(most.out_of_reach for most in self.attainable)

    @contextmanager
    def recorded(self, folder: Path | None) -> Iterator[None]:
        """Hold the folder of the run, if there is one, while it is worked on."""
        parts = problem_parts(self.problem, self.policy_class)
        options = option_parts(self.objective, self.options, rounds=self.plan.rounds, warm=self.warm)
        with recorded_run(folder, problem=parts, options=options):
            yield

    def race(
        self, *, folder: Path | None, runner: StartRunner | None = None, on_step: Callable[[Progress], None] | None
    ) -> Outcome:
        """Run the starts, in threads unless there is a runner. Raises StoppedError when asked to stop before."""
        return run_race(
            self.objective,
            self.plan,
            self._starts(),
            seed=self.options.seed,
            folder=folder,
            runner=runner or self._threads(),
            on_step=on_step,
        )

    def _threads(self) -> ThreadRunner:
        workers = available_cores() if self.options.processes is None else self.options.processes
        return ThreadRunner(1 if self.beliefs <= _FEW_BELIEFS else workers)

    def _starts(self) -> list[Start]:
        """The starts of all waves; among mixed ones of the first wave is one that meets the task, if it can be."""
        options, wave = self.options, self.plan.waves[0]
        begins = starts(
            self.objective, count=sum(self.plan.waves), kind=options.start, seed=options.seed, warm=self.warm
        )
        if options.start == "mixed":
            begins[:wave] = with_feasible_start(self.objective, begins[:wave], seed=options.seed)
        return begins


def _gradients(options: SolveOptions, factory: SolverFactory, *, whole: bool) -> Gradients:
    if options.gradients != "auto":
        return options.gradients
    return "sampled" if factory.samples_if_large and not whole else "exact"


def _attainable(objective: Objective) -> Iterator[Attainable]:
    for payoff in objective.requirements():
        process = objective.process
        most = largest_return(process, payoff, stop=objective.stop)
        rounding = 6.0 * rounding_share(process) * most_paid_in_all(process, payoff)
        yield Attainable(payoff.name, most, float(payoff.threshold or 0.0), rounding)


def _sizes(objective: Objective, attainable: tuple[Attainable, ...]) -> FloatArray:
    """The size of each requirement: how far the largest return is from the uniform policy's or from 0; else 1."""
    process = objective.process
    uniform = [expected_return(process, process.uniform(), payoff) for payoff in objective.requirements()]
    spans = [max(abs(most.largest - mean), abs(most.largest)) for most, mean in zip(attainable, uniform, strict=True)]
    return np.array([span if span > _LEAST_SIZE else 1.0 for span in spans])
