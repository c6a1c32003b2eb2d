"""Compare what classes of policies can hide: the one call behind `opaq compare`.

Classes are solved from coarse to fine; the best policy of a coarser class, lifted, is one of the starts of a finer one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from opaq.codec import Result, flat, if_known, key, live
from opaq.display import NotebookView, data_frame
from opaq.errors import BudgetError, Fault, InputError, check_types
from opaq.load import as_problem
from opaq.model.arrays import ContentEq
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.amount import Target
from opaq.opacity.measure import Measurement
from opaq.opacity.targets import is_plain, target_title
from opaq.product.compile import compile_problem
from opaq.solvers.ladder import Ladder
from opaq.solvers.loop import Progress
from opaq.solvers.options import SolveOptions, with_solve_options
from opaq.solvers.policy_classes import (
    class_name,
    coarser_classes,
    contains,
    default_classes,
    parse_classes,
    sort_classes,
)
from opaq.solvers.registry import factory_of
from opaq.solvers.solve import Solution, solve_with
from opaq.solvers.strategy import Solver, SolverFactory, Status
from opaq.stop import Deadline, Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClassResult(ContentEq):
    """The best policy found of one class.

    name: what the class looks at, such as "state, time".
    policy: the policy.
    measurement: of the policy.
    status: how the search ended, as in a solution.
    status_text: the status as a sentence.
    num_rows: rows of the policy.
    num_starts: starts of the search.
    seconds: its time.
    warm_from: the coarser class whose policy was one of the starts; null: none was.
    carried: whether that policy is the answer, because the search found none better.
    conditions_on: what its policies look at, as a problem file names it.
    """

    name: str = field(metadata=key("class"))
    policy: Policy = field(metadata=live())
    measurement: Measurement = field(metadata=flat())
    status: Status
    status_text: str
    num_rows: int
    num_starts: int
    seconds: float
    warm_from: str | None = None
    carried: bool = False
    conditions_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreached:
    """A class without an answer.

    name: what the class looks at.
    reason: why there is none.
    """

    name: str = field(metadata=key("class"))
    reason: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(NotebookView, ContentEq, Result):
    """A ladder of policy classes, coarser ones first.

    problem: the problem's name.
    objective: what the task is about.
    rungs: the best policy found of every class that has an answer, coarser classes first.
    unreached: the classes without an answer.
    seed: what made the searches repeatable.
    seconds: the time of all of it.
    interrupted: whether Ctrl-C or SIGTERM ended the work.
    upper_bound: what no policy in `scope` exceeds of what the task is about; null where none was certified.
    lower_bound: of a task that minimises: what no policy in `scope` gets below; left out where none was certified.
    scope: which policies the bound holds for; empty without one.
    is_trivial: whether the bound says no more than the number of secret values does.
    problem_file: what the problem was read from; null where that is not known.
    """

    RESULT: ClassVar[str] = "comparison"
    PRINTED_BY: ClassVar[str] = "compare"

    problem: str
    objective: Target
    rungs: tuple[ClassResult, ...] = field(metadata=key("classes"))
    unreached: tuple[Unreached, ...]
    seed: int
    seconds: float
    interrupted: bool = False
    upper_bound: float | None = None
    scope: str = ""
    is_trivial: bool = False
    problem_file: str | None = None
    lower_bound: float | None = field(default=None, metadata=if_known())

    @property
    def minimise(self) -> bool:
        """Whether the task asks for as little as possible."""
        return self.objective.minimise

    @property
    def bound(self) -> float | None:
        """The upper bound or, where the task minimises, the lower one; None where none was certified."""
        return self.lower_bound if self.minimise else self.upper_bound

    def __repr__(self) -> str:
        rungs = ", ".join(f"{rung.name} {rung.measurement.opacity.value:.4g}" for rung in self.rungs[:4])
        more = f" and {len(self.rungs) - 4} more" if len(self.rungs) > 4 else ""
        return f"<Comparison of '{self.problem:.40}': {rungs:.100}{more}; {len(self.unreached)} unreached>"

    def to_dataframe(self) -> DataFrame:
        """Return one line per class that has an answer, coarser ones first.

        Figures with the ends of their intervals.
        """
        lines = [
            {
                "class": rung.name,
                "opacity": rung.measurement.opacity.value,
                "opacity_lower": rung.measurement.opacity.lower,
                "opacity_upper": rung.measurement.opacity.upper,
                rung.measurement.of.name: rung.measurement.uncertainty.value,
                "return": rung.measurement.expected_return,
                "guess_error": rung.measurement.guess_error.value,
                "feasible": rung.measurement.feasible,
                "rows": rung.num_rows,
                "starts": rung.num_starts,
                "seconds": rung.seconds,
                "status": rung.status.name.lower(),
                "warm_from": rung.warm_from,
                "carried": rung.carried,
            }
            for rung in self.rungs
        ]
        return data_frame(lines, tuple(lines[0]) if lines else ("class", "opacity"))


@with_solve_options("conditions", "memory_nodes")
def compare(
    problem: Problem | str | os.PathLike[str],
    *,
    classes: Sequence[PolicyClass | str] | None = None,
    options: SolveOptions | None = None,
    solver: Solver | str | None = None,
    on_step: Callable[[str, Progress], None] | None = None,
    on_rung: Callable[[ClassResult], None] | None = None,
    stop: Stop | None = None,
    **changes: Any,
) -> Comparison:
    """Find the best policy of every class in a ladder, each search beginning from the best coarser policy as well.

    problem: an object, the name of a file, or the name of a scenario.
    classes: policy classes or their names, such as "state,time", "last_states:2" or "memory:2" (a memory of two nodes,
    free to use). By default: the state, with the automaton of a language secret or the start where there are several,
    each of these with a clock, free memories of 2 and 3 nodes, and the problem's own class.
    options, solver: as in `solve`, for every class; so are `changes`, fields of `SolveOptions` that take precedence:
        gradients, samples, starts, start, seed, max_beliefs, max_memory, mass, workers, sequences, iterations, eta,
        kappa and exponent.
    time_limit: seconds for the whole ladder; each class may use its share of what is left. When time is over, `stop` is
    requested or, without a stop, after Ctrl-C, the answer is what there is: a class whose search was ended tells the
    best policy so far, and `unreached` names those that were not begun. StoppedError (KeyboardInterrupt after Ctrl-C)
    is raised only when there is no policy at all.
    on_step is called after every step with the name of the class (of one that contains it, where the class is below
    those that are compared), on_rung with every class that is done.

    A class that contains another never comes out below it: if its search ends lower, it keeps the coarser policy.
    Raises InputError when an argument does not fit.
    """
    objects = {
        "classes": (classes, (str | PolicyClass | Sequence), "a list of policy classes or their names"),
        "options": (options, SolveOptions, "an opaq.SolveOptions"),
        "on_step": (on_step, callable, "a function"),
        "on_rung": (on_rung, callable, "a function"),
        "stop": (stop, Stop, "an opaq.Stop"),
    }
    call = Deadline()
    check_types(objects, optional=objects)
    chosen = (options or SolveOptions()).with_changes(**changes)
    read = as_problem(problem)
    listed = [classes] if isinstance(classes, str | PolicyClass) else classes
    wanted = default_classes(read) if listed is None else parse_classes(listed, read)
    _check(read, wanted)
    with interruptible(stop) as own_stop:
        comparison = _Comparison(
            read, own_stop, factory_of(chosen.solver if solver is None else solver), chosen, on_step
        )
        return comparison.run(wanted, call.limited_to(chosen.time_limit), on_rung)


def _check(problem: Problem, classes: Sequence[PolicyClass]) -> None:
    """Raise InputError where there is no class, or one whose rows would be shared by states with other actions."""
    if not classes:
        raise InputError([Fault("classes", "is empty", "name at least one, e.g. 'state'")])
    for policy_class in classes:
        if not {"state", "last_states"} & {*policy_class.conditions_on}:
            compile_problem(problem, policy_class)


@dataclass(slots=True)
class _Comparison:
    """One comparison: how each class is searched, and what there is so far."""

    problem: Problem
    stop: Stop
    factory: SolverFactory
    options: SolveOptions
    on_step: Callable[[str, Progress], None] | None
    rungs: list[ClassResult] = field(default_factory=list)
    unreached: list[Unreached] = field(default_factory=list)

    def run(
        self, classes: Sequence[PolicyClass], deadline: Deadline, on_rung: Callable[[ClassResult], None] | None
    ) -> Comparison:
        """Search class by class, coarser ones first; each may use its share of the time that is left.

        Classes below those that are asked for are searched too, as `solve` does, and not reported.
        """
        ladder, wanted = Ladder(self.stop), self._with_coarser(classes)
        with self.stop.limit(deadline.left):
            for index, policy_class in enumerate(wanted):
                asked = any(policy_class is each for each in classes)
                named = policy_class if asked else next(each for each in classes if contains(each, policy_class))
                if self.stop.requested:
                    self._give_up(policy_class, self.stop.reason, asked=asked)
                    continue
                with self.stop.stage(deadline.share(1.0 / (len(wanted) - index))):
                    rung = self._try(ladder, policy_class, self._report(named), asked=asked)
                if rung is not None and asked:
                    self.rungs.append(rung)
                    if on_rung is not None:
                        on_rung(rung)
            if not self.rungs and self.stop.requested:
                raise StoppedError(self.stop.reason)
            return Comparison(
                problem=self.problem.name,
                rungs=tuple(self.rungs),
                unreached=tuple(self.unreached),
                seed=self.options.seed,
                seconds=deadline.elapsed,
                interrupted=self.stop.interrupted,
                objective=Target.of_task(
                    self.problem.task.of,
                    minimise=self.problem.task.minimise,
                    figure=None if is_plain(self.problem) else target_title(self.problem),
                ),
            )

    def _with_coarser(self, classes: Sequence[PolicyClass]) -> tuple[PolicyClass, ...]:
        """Return the classes and those below them that `solve` would search too, coarser ones first."""
        every = list(classes)
        for policy_class in classes if self.factory.climbs_classes else ():
            every += [
                coarse
                for coarse in coarser_classes(policy_class, self.problem)
                if not any(contains(coarse, known) and contains(known, coarse) for known in every)
            ]
        return sort_classes(every)

    def _give_up(self, policy_class: PolicyClass, reason: str, *, asked: bool) -> None:
        """Note that a class has no answer, if one was asked for."""
        if asked:
            self.unreached.append(Unreached(class_name(policy_class), reason))

    def _report(self, policy_class: PolicyClass) -> Callable[[Progress], None] | None:
        """Return what is called after every step, with the name of a class that was asked for."""
        name, on_step = class_name(policy_class), self.on_step
        return None if on_step is None else lambda progress: on_step(name, progress)

    def _try(
        self,
        ladder: Ladder,
        policy_class: PolicyClass,
        report: Callable[[Progress], None] | None,
        *,
        asked: bool,
    ) -> ClassResult | None:
        """Return the answer of one class; None when it has no policy yet at its end, or is too large."""
        name, options = class_name(policy_class), replace(self.options, sequences=0)

        def search(known: Sequence[Policy]) -> Solution:
            return solve_with(
                self.factory, self.problem, policy_class, options, warm=known, stop=self.stop, on_step=report
            )

        try:
            rung = ladder.climb(policy_class, search)
        except (BudgetError, StoppedError) as error:
            self._give_up(policy_class, str(error), asked=asked)
            return None
        solution = rung.solution
        return ClassResult(
            name=name,
            policy=solution.policy,
            measurement=solution.measurement,
            status=solution.status,
            status_text=solution.status_text,
            num_rows=solution.product.process.num_rows,
            num_starts=len(solution.starts),
            seconds=rung.seconds,
            warm_from=rung.warm_from,
            carried=rung.carried,
            conditions_on=solution.policy.policy_class.conditions_on,
        )
