"""A policy shown: what `opaq.report` makes of a problem."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError, check_numbers, check_types, is_flag
from opaq.files import check_writable, write_text
from opaq.load import as_policy, as_problem, problem_text
from opaq.model.arrays import ContentEq
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.measure import Measurement, measure_product
from opaq.product.compile import Product, compile_problem
from opaq.reports.given_answers import GivenAnswers
from opaq.reports.page.render import render_report
from opaq.reports.report_data import ReportInputs, report_data, with_answers
from opaq.reports.report_limits import LIMITS
from opaq.stop import Deadline, Stop, interruptible

Answer = Any  # of a solver or a certificate, or its JSON; reports know only what they are given

MOST_RUNS = 200
_MEASURING = 0.6  # of the time where it is limited


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report(ContentEq):
    """A report: the data it shows, and the page that shows them."""

    data: Mapping[str, Any]  # docs/answers.md explains the keys
    html: str  # one file that opens offline

    def __repr__(self) -> str:
        size = len(self.html.encode()) / 1e6
        parts = "points" if self.data["kind"] == "study" else "runs"
        return f"<Report of '{self.data['title'][:40]}': {len(self.data[parts])} {parts}, {size:.2f} MB>"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the page to a file in one step; an existing file stays unless `overwrite`."""
        check_types(
            {
                "path": (path, str | os.PathLike, "the name of a file"),
                "overwrite": (overwrite, is_flag, "True or False"),
            }
        )
        write_text(path, self.html, overwrite=overwrite)


def report_of_policy(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    solution: Answer | None = None,
    certificate: Answer | None = None,
    comparison: Answer | None = None,
    runs: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Report:
    """The report of one policy: the arguments are those of `report`."""
    if output is not None:
        check_writable(output, overwrite=overwrite)
    stated = as_problem(problem)
    made = make_report(
        stated,
        None if policy is None else as_policy(policy, stated),
        text=problem_text(problem) if isinstance(problem, str | os.PathLike) else None,
        solution=solution,
        certificate=certificate,
        comparison=comparison,
        runs=runs,
        seed=seed,
        time_limit=time_limit,
        stop=stop,
        on_progress=on_progress,
    )
    if output is not None:
        made.save(output, overwrite=overwrite)
    return made


def make_report(
    problem: Problem,
    policy: Policy | None = None,
    *,
    text: str | None = None,
    solution: Answer | None = None,
    certificate: Answer | None = None,
    comparison: Answer | None = None,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
    further: Callable[[], Mapping[str, Answer]] | None = None,
) -> Report:
    """The same for a problem that has been read; `text` is its file, where there is one.

    further: called when all that `time_limit` is for is done; gives a certificate, a comparison, both or none, by name.
    """
    deadline = Deadline(time_limit)
    limits = {"runs": (runs, 1, MOST_RUNS), "seed": (seed, 0, 2**63), "time_limit": (time_limit, 0, math.inf)}
    check_numbers(limits, whole=("runs", "seed"), optional=("runs", "time_limit"))
    answers = GivenAnswers.of(solution, certificate, comparison)
    chosen = _policy(policy, solution)
    tell = on_progress or (lambda words: None)
    with interruptible(stop, keep_answer=False) as asked:
        with asked.part(deadline.left) as limited:
            product, pi = _compile(problem, chosen, solution, limited)
            measurement = _measure(product, pi, solution, time=deadline.share(_MEASURING), stop=limited, tell=tell)
            tell("replaying runs")
            stated = _problem_text(problem) if text is None else text
            inputs = ReportInputs(product, pi, chosen, measurement, answers, stated)
            data = report_data(inputs, runs=runs, seed=seed, stop=limited)
        if further is not None:
            given = {"solution": solution, "certificate": certificate, "comparison": comparison}
            data = with_answers(data, measurement, GivenAnswers.of(**{**given, **further()}))
    tell("writing the page")
    return Report(data, render_report(data))


def _policy(policy: Policy | None, solution: Answer | None) -> Policy | None:
    """The policy to show: as given, or the solution's."""
    found = getattr(solution, "policy", None)
    if not isinstance(found, Policy):
        return policy
    if policy is not None and found != policy:
        raise InputError([Fault("policy", "is not that of the solution", "leave it out, or leave the solution out")])
    return found


def _compile(problem: Problem, policy: Policy | None, solution: Answer | None, stop: Stop) -> tuple[Product, Any]:
    """The product and the policy vector; those of a solution need not be made again."""
    product = getattr(solution, "product", None)
    if isinstance(product, Product):
        if product.problem != problem:
            found = f"is about the problem '{product.problem.name}' as it was then"
            raise InputError([Fault("solution", found, "give the problem that was solved")])
        return product, solution.pi if solution is not None else None
    product = compile_problem(problem, None if policy is None else policy.policy_class, stop=stop)
    return product, product.policy_vector(policy)


def _measure(
    product: Product,
    pi: Any,
    solution: Answer | None,
    *,
    time: float | None,
    stop: Stop,
    tell: Callable[[str], None],
) -> Measurement:
    """The measurement of a solution, or a new one."""
    found = getattr(solution, "measurement", None)
    if isinstance(found, Measurement):
        return found
    rng = np.random.default_rng(0)
    with stop.part(time) as measuring:  # ends before the time of the whole report does
        return measure_product(product, pi, rng=rng, time=time, stop=measuring, on_progress=tell)


def _problem_text(problem: Problem) -> str:
    """A problem made in Python as a file would state it; nothing where that would be long or cannot be written."""
    import json

    from opaq.spec.problem_part import problem_to_dict

    if problem.mdp.transitions.values.size > LIMITS.problem_text // 20:
        return ""
    try:
        return json.dumps(problem_to_dict(problem), indent=1, ensure_ascii=False)
    except InputError:
        return ""
