"""Make the report of one policy as an HTML page: measure it, replay runs, render the data.

Comes in: a problem, a policy and answers about them. Goes out: a `Report`, which holds the data and the page.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.certificates.certify import DEFAULT_TIME
from opaq.certificates.certify import certify as prove_bound
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import BudgetError, Fault, InputError, check_numbers, check_types, is_flag
from opaq.files import write_text
from opaq.model.arrays import ContentEq
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import InitialState
from opaq.opacity.channel import bound_capacity
from opaq.opacity.measure import measure_product
from opaq.product.compile import compile_problem
from opaq.reports.answers import GivenAnswers, GivenCertificate, GivenComparison, GivenSolution
from opaq.reports.limits import LIMITS
from opaq.reports.page.render import render_report
from opaq.reports.report_data import ReportInputs, report_data, with_answers
from opaq.solvers.compare import compare as compare_classes
from opaq.stop import TIME_IS_UP, Deadline, Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_RUNS = 200
_MEASURING = 0.6  # of the time where it is limited
_MOST_PAIRS = 12  # secrets x observers up to which a page holds a page for each


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report(NotebookView, ContentEq):
    """A report: the data it shows, and the page that shows them."""

    data: Mapping[str, Any]  # docs/answers.md explains the keys
    html: str  # one file that opens offline
    left_out: tuple[str, ...] = ()  # what was asked for and is not there, with the reason

    def __repr__(self) -> str:
        """Return the title, the number of runs or points and the size of the page in one line."""
        size = len(self.html.encode()) / 1e6
        parts = "points" if self.data["kind"] == "study" else "runs"
        return f"<Report of '{self.data['title'][:40]}': {len(self.data[parts])} {parts}, {size:.2f} MB>"

    def to_dict(self) -> dict[str, Any]:
        """Return the data of the page, as they stand in it as JSON."""
        return dict(self.data)

    def to_dataframe(self) -> DataFrame:
        """Return one line per step of every run, with P(value) of the secret; of a study one line per point."""
        if self.data["kind"] == "study":
            points: list[dict[str, Any]] = [
                {name: value for name, value in point.items() if not isinstance(value, list | dict)}
                | {f"parameters.{path}": value for path, value in point["parameters"].items()}
                | {name: part["value"] for name, part in point.items() if isinstance(part, dict) and "value" in part}
                for point in self.data["points"]
            ]
            columns = tuple(dict.fromkeys(name for point in points for name in point))
            return data_frame([dict.fromkeys(columns) | point for point in points], columns)
        steps = [(number, step) for number, run in enumerate(self.data["runs"]) for step in run]
        names = posterior_columns([step["belief"] for _, step in steps])
        fixed = ("time", "state", "action", "observation")
        lines = [
            {"run": number, **{name: step[name] for name in fixed}}
            | {column: step["belief"].get(value, 0.0) for value, column in names.items()}
            for number, step in steps
        ]
        return data_frame(lines, ("run", *fixed, *names.values()))

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
    certify: bool = False,
    compare: bool = False,
) -> Report:
    """Return the report of one policy, for a problem that has been read.

    problem, policy: what the report is about; without a policy that of the solution, else the uniform one.
    text: the content of the problem's file; None writes the problem down where it is small enough.
    solution, certificate, comparison: answers to show, as in `report`.
    runs: sampled runs, 1 to 200; None leaves that to `ReportLimits`. seed: makes the runs repeatable.
    time_limit: seconds for all of it; None is no limit. Parts that are computed share what is left of it.
    stop: ends the work early; without one, Ctrl-C raises KeyboardInterrupt.
    on_progress: called with words that say how far the work is.
    certify, compare: True computes a certificate or a comparison; one that is not done in time is left out.

    Raises InputError when arguments do not fit together; StoppedError when the time was up before anything was known.
    """
    deadline = Deadline(time_limit)
    limits = {"runs": (runs, 1, MOST_RUNS), "seed": (seed, 0, 2**63), "time_limit": (time_limit, 0, math.inf)}
    check_numbers(limits, whole=("runs", "seed"), optional=("runs", "time_limit"))
    answers = GivenAnswers.of(solution, certificate, comparison)
    wanted = [kind for kind, is_wanted in {"certificate": certify, "comparison": compare}.items() if is_wanted]
    if twice := [kind for kind in wanted if getattr(answers, kind) is not None]:
        raise InputError([Fault(kind, "is given and asked for", "leave one of them out") for kind in twice])
    first = deadline.part(1.0 / (1 + len(wanted)))  # what one part does not use is shared by those to come
    solved = answers.solution if getattr(answers.solution, "policy", None) is not None else None  # not from a file
    if solved is not None and policy not in (None, solved.policy):
        raise InputError([Fault("policy", "is not that of the solution", "leave it out, or leave the solution out")])
    chosen = policy if solved is None else solved.policy
    tell = on_progress or (lambda words: None)
    with interruptible(stop, keep_answer=False) as stopper:
        with stopper.part(first.left) as limited:
            if solved is None:
                product = compile_problem(problem, None if chosen is None else chosen.policy_class, stop=limited)
                pi = product.policy_vector(chosen)
                left = first.share(_MEASURING)
                rng = np.random.default_rng(0)
                with limited.part(left) as measuring:  # ends before the time of the whole report does
                    measurement = measure_product(product, pi, rng=rng, time=left, stop=measuring, on_progress=tell)
            else:
                if solved.product.problem != problem:
                    finding = f"is about the problem '{solved.product.problem.name}' as it was then"
                    raise InputError([Fault("solution", finding, "give the problem that was solved")])
                product, pi, measurement = solved.product, solved.pi, solved.measurement
            if isinstance(problem.secret, InitialState) and measurement.opacity.method == "exact":
                tell("finding the capacity")
                with limited.part(first.share(_MEASURING)) as bounding:
                    most = bound_capacity(problem, chosen, budget=Budget(), stop=bounding)
                measurement = replace(measurement, capacity=most)
            tell("replaying runs")
            problem_file = _problem_text(problem) if text is None else text
            inputs = ReportInputs(product, pi, chosen, measurement, answers, problem_file)
            data = report_data(inputs, runs=runs, seed=seed, stop=limited)
        left_out = []
        for index, kind in enumerate(wanted):
            try:
                stopper.check()
                seconds = deadline.share(1.0 / (len(wanted) - index))
                if seconds == 0.0:
                    raise StoppedError(TIME_IS_UP)
                with stopper.part() as part:  # its time limit must not end what comes next
                    if kind == "certificate":
                        limit = DEFAULT_TIME if seconds is None else seconds
                        known = chosen if solved is None else solved
                        proven = prove_bound(
                            problem,
                            known,
                            time_limit=limit,
                            stop=part,
                            on_progress=lambda step: tell(f"certifying: bound {step.bound:.5f}, {step.machine}"),
                        )
                        answers = replace(answers, certificate=proven)
                    else:
                        ladder = compare_classes(
                            problem,
                            time_limit=seconds,
                            stop=part,
                            on_rung=lambda rung: tell(f"comparing: {rung.name} done"),
                        )
                        answers = replace(answers, comparison=ladder)
            except (StoppedError, BudgetError) as error:
                left_out.append(f"the {kind} is left out: {error}")
        data = with_answers(data, measurement, answers) if wanted else data
        pairs = dict[str, str]()
        if 1 < len(problem.figures) <= _MOST_PAIRS:
            tell("replaying runs for the other observers")
            pairs = _other_pages(inputs, runs=runs, seed=seed, stop=stopper)
    tell("writing the page")
    return Report(data, render_report(data, pairs), tuple(left_out))


def _other_pages(inputs: ReportInputs, *, runs: int | None, seed: int, stop: Stop) -> dict[str, str]:
    """Return secret and observer in words -> the page about them, empty of the own pair; those not done in time lack.

    inputs: of the report. runs, seed: as in `make_report`.
    """
    product, pages = inputs.product, dict[str, str]()
    for pair in product.problem.figures:
        title = f"{pair.of} for {pair.for_}"
        if (pair.of, pair.for_) == (product.problem.of, product.problem.for_):
            pages[title] = ""
            continue
        try:
            stop.check()
            about = compile_problem(product.problem.about(of=pair.of, for_=pair.for_), product.policy_class, stop=stop)
            measured = measure_product(about, inputs.pi, stop=stop)
            other = replace(inputs, product=about, measurement=measured, answers=GivenAnswers.of(None, None, None))
            pages[title] = render_report(report_data(other, runs=runs, seed=seed, stop=stop))
        except (StoppedError, BudgetError):
            continue
    return pages if len(pages) > 1 else {}


def _problem_text(problem: Problem) -> str:
    """Return a problem made in Python as JSON that a file could hold.

    Empty where that would be long or cannot be written.
    """
    import json

    from opaq.spec.problem_part import problem_to_dict

    if problem.mdp.transitions.values.size > LIMITS.problem_text // 20:
        return ""
    try:
        return json.dumps(problem_to_dict(problem), indent=1, ensure_ascii=False)
    except InputError:
        return ""
