"""The data of a study's page: the points of a sweep or of a front in one shape (docs/answers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opaq.reports.layout import axis_title
from opaq.reports.measurement_text import amount_to_dict
from opaq.reports.report_data import FORMAT, VERSION
from opaq.reports.study_sentences import (
    answer_of_front,
    answer_of_sweep,
    hidden_in,
    hidden_value,
    question_of_front,
    question_of_sweep,
)
from opaq.version import __version__

Study = Any  # an opaq.study.sweep.study.Study; reports know no study, only what they are given

_FEASIBLE = "feasible"
_CLOSE = 1e-4  # of the range of returns
_ROUNDING = 1e-7  # of their size
_FIGURES = {  # key of a figure -> its title; the order is that of the table
    "opacity": "opacity (bits)",
    "uncertainty": "hidden",
    "upper_bound": "bound",
    "value": "reached",
    "return": "return",
    "guess_error": "guess error",
    "slope": "slope",
    "seconds": "seconds",
    "status": "status",
}


def sweep_page_data(study: Study, *, minimise: bool = False) -> dict[str, Any]:
    """The object that the page of a sweep shows; its keys are a promise (docs/answers.md).

    minimise: whether what its tasks are about is to be small.
    """
    points = [_sweep_point(point, study.of) for point in study.points]
    shown = {
        "title": f"Sweep of {study.problem}",
        "problem": study.problem,
        "source": "sweep",
        "parameters": list(study.parameters),
        "against": "return",
        "of": study.of,
        "minimise": minimise,
        "interrupted": study.interrupted,
    }
    return _page_data(shown, points, question=question_of_sweep, answer=answer_of_sweep)


def front_page_data(front: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a front, from what `opaq frontier --json` prints."""
    digits = max(2, len(str(len(front["points"]))))
    points = [
        _front_point(point, f"{number:0{digits}}", front) for number, point in enumerate(front["points"], start=1)
    ]
    shown = {
        "title": f"Front of {front['problem']}",
        "problem": front["problem"],
        "source": "frontier",
        "parameters": ["threshold"],
        "against": front["against"],
        "of": front["of"],
        "minimise": bool(front.get("minimise")),
        "interrupted": front["interrupted"],
        "largest": front["largest"],
        "policy_class": front["policy_class"],
        "complete": front["complete"],
        "concave_by_theory": front["concave_by_theory"],
    }
    return _page_data(shown, points, question=question_of_front, answer=answer_of_front)


def with_reports(data: Mapping[str, Any], files: Mapping[int, str], *, text: str) -> dict[str, Any]:
    """The data with the links to the reports of single points.

    files: index of a point -> its report, relative to the page. text: which points have none, and why.
    """
    points = [{**point, "report": files.get(index)} for index, point in enumerate(data["points"])]
    return {**data, "points": points, "reports": {"made": len(files), "text": text}}


def _page_data(shown: dict[str, Any], points: list[dict[str, Any]], *, question: Any, answer: Any) -> dict[str, Any]:
    sign = -1.0 if shown["minimise"] else 1.0
    data = {
        "format": FORMAT,
        "version": VERSION,
        "opaq": __version__,
        "kind": "study",
        **shown,
        "counts": _counts(points),
        "columns": _columns(shown, points),
        "best": _best(points, sign),
        "front": _front_of(points, sign),
        "reports": {"made": 0, "text": ""},
        "points": points,
    }
    return {**data, "question": question(data), "answer": answer(data)}


def _sweep_point(point: Any, of: str) -> dict[str, Any]:
    objective = None if point.objective is None else amount_to_dict(point.objective)
    return {
        "point": point.name,
        "parameters": dict(point.parameters),
        "outcome": _outcome(point.status, point.feasible),
        "status": point.status,
        "opacity": None if point.opacity is None else amount_to_dict(point.opacity),
        **({} if of == "opacity" else {"uncertainty": objective}),
        "return": _finite(point.expected_return),
        "guess_error": _finite(point.guess_error),
        "upper_bound": _finite(point.upper_bound),
        "gap": _finite(point.gap),
        "seconds": _finite(point.seconds),
        "error": point.error or None,
        "report": None,
    }


def _front_point(point: Mapping[str, Any], name: str, front: Mapping[str, Any]) -> dict[str, Any]:
    own = {} if front["against"] == "return" else {"value": _finite(point["value"])}
    other = {} if front["of"] == "opacity" else {"uncertainty": point["uncertainty"]}
    status = "as the next point" if point["carried"] else point["status"]
    return {
        "point": name,
        "parameters": {"threshold": point["threshold"]},
        "outcome": _outcome(point["status"], point["feasible"]),
        "status": status,
        "opacity": dict(point["opacity"]),
        **other,
        **own,
        "return": _finite(point["return"]),
        "guess_error": _finite(point["guess_error"]),
        "upper_bound": _finite(point["bound"]),
        "bound_is_trivial": bool(point.get("bound_is_trivial")),
        "slope": _finite(point["slope"]),
        "seconds": _finite(point["seconds"]),
        "error": None,
        "report": None,
    }


def _outcome(status: str, feasible: bool | None) -> str:
    """What became of a point, in one word: feasible, infeasible, failed or unfinished."""
    if not status:
        return "unfinished"
    if status == "failed":
        return "failed"
    return _FEASIBLE if feasible and status not in ("infeasible", "not_found") else "infeasible"


def _counts(points: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    outcomes = [point["outcome"] for point in points]
    rest = {kind: outcomes.count(kind) for kind in ("infeasible", "failed", "unfinished")}
    return {"points": len(points), "done": len(points) - rest["failed"] - rest["unfinished"], **rest}


def _columns(shown: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the table shows beside the name: the parameters, then every figure that some point has."""
    titles = {**_FIGURES, "value": shown["against"], "uncertainty": axis_title(shown["of"])}
    twice = "uncertainty" if shown["of"] == "guess_error" else ""
    stated = {path: [each["parameters"].get(path) for each in points] for path in shown["parameters"]}
    varied = [
        {"key": path, "title": path, "parameter": True, "numeric": _numeric(values)} for path, values in stated.items()
    ]
    figures = [
        {"key": key, "title": titles[key], "parameter": False, "numeric": key != "status"}
        for key in _FIGURES
        if key != twice
        if key == "status" or any(each.get(key) is not None for each in points)
    ]
    return varied + figures


def _numeric(values: Iterable[Any]) -> bool:
    stated = [value for value in values if value is not None]
    return bool(stated) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in stated)


def _best(points: Sequence[Mapping[str, Any]], sign: float) -> int | None:
    """The point that hides most and meets its task; the one that hides least where the sign is negative."""
    done = [index for index, point in enumerate(points) if point["outcome"] == _FEASIBLE and hidden_in(point)]
    return max(done, key=lambda index: sign * hidden_value(points[index], minimise=sign < 0), default=None)


def _front_of(points: Sequence[Mapping[str, Any]], sign: float) -> list[int]:
    """The points that no other one exceeds in return and what is hidden alike, by return.

    Returns that are closer than searches meet their thresholds count as one.
    """
    known = [
        (point["return"], sign * hidden_value(point, minimise=sign < 0), index)
        for index, point in enumerate(points)
        if point["outcome"] == _FEASIBLE and hidden_in(point) and point["return"] is not None
    ]
    returns = [earned for earned, *_ in known]
    spread = max(returns) - min(returns) if returns else 0.0
    close = math.inf if spread <= _ROUNDING * max(1.0, *map(abs, returns)) else _CLOSE * spread
    front: list[tuple[float, float, int]] = []
    for each in sorted(known, key=lambda each: (-each[0], -each[1], each[2])):
        if not front or each[1] > front[-1][1]:
            if front and front[-1][0] - each[0] <= close:
                front.pop()
            front.append(each)
    return [index for *_, index in reversed(front)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
