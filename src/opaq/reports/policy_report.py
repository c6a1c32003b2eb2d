"""The report of one policy as an HTML page: its data measured, replayed and rendered."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError, check_numbers, check_types, is_flag
from opaq.files import write_text
from opaq.model.arrays import ContentEq
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.measure import measure_product
from opaq.product.compile import compile_problem
from opaq.reports.answers import GivenAnswers, GivenCertificate, GivenComparison, GivenSolution
from opaq.reports.limits import LIMITS
from opaq.reports.page.render import render_report
from opaq.reports.report_data import ReportInputs, report_data, with_answers
from opaq.stop import Deadline, Stop, interruptible

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


def make_report(
    problem: Problem,
    policy: Policy | None = None,
    *,
    text: str | None = None,
    solution: GivenSolution | None = None,
    certificate: GivenCertificate | None = None,
    comparison: GivenComparison | None = None,
    runs: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
    further: Callable[[], GivenAnswers] | None = None,
) -> Report:
    """Return the report of one policy; the arguments are those of `report`, for a problem that has been read.

    text: the problem's file, where there is one.
    further: called when all that `time_limit` is for is done; gives a certificate, a comparison, both or none.
    """
    deadline = Deadline(time_limit)
    limits = {"runs": (runs, 1, MOST_RUNS), "seed": (seed, 0, 2**63), "time_limit": (time_limit, 0, math.inf)}
    check_numbers(limits, whole=("runs", "seed"), optional=("runs", "time_limit"))
    answers = GivenAnswers.of(solution, certificate, comparison)
    solved = answers.solution if getattr(answers.solution, "policy", None) is not None else None  # not from a file
    if solved is not None and policy not in (None, solved.policy):
        raise InputError([Fault("policy", "is not that of the solution", "leave it out, or leave the solution out")])
    chosen = policy if solved is None else solved.policy
    tell = on_progress or (lambda words: None)
    with interruptible(stop, keep_answer=False) as stopper:
        with stopper.part(deadline.left) as limited:
            if solved is None:
                product = compile_problem(problem, None if chosen is None else chosen.policy_class, stop=limited)
                pi = product.policy_vector(chosen)
                left = deadline.share(_MEASURING)
                rng = np.random.default_rng(0)
                with limited.part(left) as measuring:  # ends before the time of the whole report does
                    measurement = measure_product(product, pi, rng=rng, time=left, stop=measuring, on_progress=tell)
            else:
                if solved.product.problem != problem:
                    finding = f"is about the problem '{solved.product.problem.name}' as it was then"
                    raise InputError([Fault("solution", finding, "give the problem that was solved")])
                product, pi, measurement = solved.product, solved.pi, solved.measurement
            tell("replaying runs")
            problem_file = _problem_text(problem) if text is None else text
            inputs = ReportInputs(product, pi, chosen, measurement, answers, problem_file)
            data = report_data(inputs, runs=runs, seed=seed, stop=limited)
        if further is not None:
            later = further()
            answers = replace(
                answers,
                certificate=later.certificate or answers.certificate,
                comparison=later.comparison or answers.comparison,
            )
            data = with_answers(data, measurement, answers)
    tell("writing the page")
    return Report(data, render_report(data))


def _problem_text(problem: Problem) -> str:
    """Return a problem made in Python as a file would state it.

    Nothing where that would be long or cannot be written.
    """
    import json

    from opaq.spec.problem_part import problem_to_dict

    if problem.mdp.transitions.values.size > LIMITS.problem_text // 20:
        return ""
    try:
        return json.dumps(problem_to_dict(problem), indent=1, ensure_ascii=False)
    except InputError:
        return ""
