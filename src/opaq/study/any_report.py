"""Pages of anything: the call `opaq.report`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from opaq.errors import Fault, InputError, check_types, is_flag
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.report_page import Report, report_of_policy
from opaq.stop import Stop
from opaq.study.front.frontier import Frontier
from opaq.study.study_report import Points, study_report
from opaq.study.study_sources import source_of
from opaq.study.sweep.study import Study

Answer = Any  # of a solver or a certificate, or its JSON


def report(
    problem: Problem | Study | Frontier | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    solution: Answer | None = None,
    certificate: Answer | None = None,
    comparison: Answer | None = None,
    points: Points = None,
    policies: str | os.PathLike[str] | None = None,
    runs: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Report:
    """A page that shows what a policy hides and gives away, or all points of a study: HTML that opens offline.

    problem: an object, the name of a file, or the name of a scenario. Or a study: what `sweep` or `frontier` returned,
        the folder of a sweep, or a file with what `opaq frontier --json` printed.
    policy: an object or the name of a file; None is that of the solution, if one is given, else the uniform policy.
    output: the file to write; without it, `Report.save` does. overwrite: whether it may be there already.
    solution, certificate, comparison: what `solve`, `certify` and `compare` found, objects or the mappings that their
        commands print as JSON; the report shows the search, the proof and the ladder of policy classes.
    points: of a study, which points get a report of their own, in the folder NAME-points beside the file: "all",
        "none", or how many of those with the highest opacity (40 unless given). policies: the folder with the policies
        of a front that is in a file, where it does not name them itself.
    runs: how many sampled runs are replayed (6, fewer where they are long, unless given; at most 200); the most
        revealing and the most confusing observations are replayed beside them. seed: makes the runs repeatable.
    time_limit: seconds for all of it (600 for a study unless given); what is not done by then is left out. `stop`
        does the same when it is requested; without one, Ctrl-C raises KeyboardInterrupt, for a study after the page
        is written.
    on_progress: called with words that say how far the work is.

    Raises InputError when an argument does not fit, when an answer is about another problem or policy, and when the
    file cannot be written; StoppedError when the time was up before anything was known.
    """
    check_types(
        {
            "output": (output, str | os.PathLike, "the name of a file"),
            "policies": (policies, str | os.PathLike, "the name of a folder"),
            "overwrite": (overwrite, is_flag, "True or False"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("output", "policies", "stop", "on_progress"),
    )
    shared = {
        "runs": runs,
        "seed": seed,
        "overwrite": overwrite,
        "time_limit": time_limit,
        "stop": stop,
        "on_progress": on_progress,
    }
    answers = {"solution": solution, "certificate": certificate, "comparison": comparison}
    source = source_of(problem, policies=policies)
    if source is not None:
        _refuse({"policy": policy, **answers}, "has no effect for a study", "its points have policies of their own")
        return study_report(source, output=output, points=points, **shared)  # type: ignore[arg-type]
    _refuse({"points": points, "policies": policies}, "has no effect for a problem", "it belongs to studies")
    assert not isinstance(problem, Study | Frontier)
    return report_of_policy(problem, policy, output=output, **answers, **shared)  # type: ignore[arg-type]


def _refuse(arguments: dict[str, object], found: str, advice: str) -> None:
    faults = [Fault(name, found, advice) for name, value in arguments.items() if value is not None]
    if faults:
        raise InputError(faults)
