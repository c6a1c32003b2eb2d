"""Make a page about a policy or about all points of a study: the call `opaq.report`.

Comes in: a problem with its policy, or a study. Goes out: a `Report`, written to a file where one is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from opaq.errors import Fault, InputError, check_types, is_flag
from opaq.files import check_writable
from opaq.load import as_problem, problem_text
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.policies import as_policy
from opaq.reports.answers import GivenCertificate, GivenComparison, GivenSolution
from opaq.reports.policy_report import Report, make_report
from opaq.reports.study_report import Points, source_of, study_report
from opaq.stop import Stop
from opaq.study.front.frontier import Frontier
from opaq.study.sweep.study import Study


def report(
    problem: Problem | Study | Frontier | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    solution: GivenSolution | None = None,
    certificate: GivenCertificate | None = None,
    comparison: GivenComparison | None = None,
    certify: bool = False,
    compare: bool = False,
    points: Points = None,
    policies: str | os.PathLike[str] | None = None,
    runs: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Report:
    """Return a page that shows what a policy hides and gives away, or all points of a study: HTML that opens offline.

    problem: an object, the name of a file, or the name of a scenario. Or a study: what `sweep` or `frontier` returned,
        the folder of a sweep, or a file with what `opaq frontier --json` printed.
    policy: an object, a file, "uniform" or "return-optimal"; None is that of the solution, if given, else uniform.
    output: the file to write; without it, `Report.save` does. overwrite: whether it may be there already.
    solution, certificate, comparison: what `solve`, `certify` and `compare` found, objects or the mappings that their
        commands print as JSON; the report shows the search, the proof and the ladder of policy classes.
    certify, compare: whether a certificate and a comparison are computed for it, each in its share of the time that is
        left (60 s for a certificate without a limit). One of which nothing is known by then is left out, and
        `Report.left_out` says why.
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
            "certify": (certify, is_flag, "True or False"),
            "compare": (compare, is_flag, "True or False"),
            "overwrite": (overwrite, is_flag, "True or False"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("output", "policies", "stop", "on_progress"),
    )
    source = source_of(problem, policies=policies)
    answers = {"solution": solution, "certificate": certificate, "comparison": comparison}
    if source is not None:
        computed = {"certify": certify or None, "compare": compare or None}
        _refuse(
            {"policy": policy, **answers, **computed},
            "has no effect for a study",
            "its points have policies of their own",
        )
        return study_report(
            source,
            output=output,
            points=points,
            runs=runs,
            seed=seed,
            overwrite=overwrite,
            time_limit=time_limit,
            stop=stop,
            on_progress=on_progress,
        )
    _refuse({"points": points, "policies": policies}, "has no effect for a problem", "it belongs to studies")
    assert not isinstance(problem, Study | Frontier)
    if output is not None:
        check_writable(output, overwrite=overwrite)
    loaded = as_problem(problem)
    page = make_report(
        loaded,
        None if policy is None else as_policy(policy, loaded),
        text=problem_text(problem) if isinstance(problem, str | os.PathLike) else None,
        solution=solution,
        certificate=certificate,
        comparison=comparison,
        certify=certify,
        compare=compare,
        runs=runs,
        seed=seed,
        time_limit=time_limit,
        stop=stop,
        on_progress=on_progress,
    )
    if output is not None:
        page.save(output, overwrite=overwrite)
    return page


def _refuse(arguments: Mapping[str, object], finding: str, advice: str) -> None:
    """Raise InputError that lists every argument that is not None; finding, advice: the words of each fault."""
    faults = [Fault(name, finding, advice) for name, value in arguments.items() if value is not None]
    if faults:
        raise InputError(faults)
