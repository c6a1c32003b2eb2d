"""One point of a sweep as plain data, and the one function that solves it in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opaq.study.sweep_plan import SweepPlan
from opaq.study.sweep_points import SweepPoint, refuse_changed, spec_of

GRACE = 5.0  # seconds beyond its limit that a point has to come to its end, before its worker is ended


def task_of(plan: SweepPlan, point: SweepPoint, *, time: float | None, warm: Any) -> dict[str, Any]:
    """All that solving a point takes, as plain data; `warm` is the content of a policy file, or None."""
    options = {**point.options, "processes": 1}
    limits = [limit for limit in (time, options.get("time")) if limit is not None]
    return {
        "kind": "point",
        "problem": spec_of(plan, point.parameters),
        "fingerprint": point.fingerprint,
        "folder": str(plan.folder.absolute()),
        "options": options | {"time": min(limits, default=None)},
        "certify": plan.certify,
        "warm": warm,
    }


def limit_of(task: Mapping[str, Any]) -> float | None:
    """Seconds after which the worker of a task is ended; None: never."""
    time = task["options"]["time"]
    return None if time is None else time + task["certify"] + GRACE


def solve_point(task: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one point: plain data in, plain data out, and nothing else.

    Raises InputError when its problem is not the one that was checked before the sweep began.
    """
    from opaq.loading.sources import FolderSources
    from opaq.reports.certificate_text import certificate_figures
    from opaq.reports.solution_text import solution_to_dict
    from opaq.solvers.options import SolveOptions
    from opaq.solvers.solution import solve
    from opaq.spec.policy_table import policy_from_dict, policy_to_dict
    from opaq.spec.problem_part import build_problem
    from opaq.stop import Stop

    problem = build_problem(task["problem"], sources=FolderSources(Path(task["folder"])))
    options = SolveOptions.from_dict(task["options"])
    refuse_changed(problem, options, task["fingerprint"])
    warm = None if task["warm"] is None else policy_from_dict(task["warm"], problem)
    solution = solve(problem, options=options, warm=warm, stop=Stop())
    figures: dict[str, Any] = {}
    if task["certify"] > 0 and solution.measurement.feasible:
        from opaq.certificates.certificate import certify

        figures = certificate_figures(certify(problem, solution.policy, time=task["certify"], stop=Stop()))
    return {
        "answer": solution_to_dict(solution) | figures,
        "policy": policy_to_dict(solution.policy, problem=problem),
    }
