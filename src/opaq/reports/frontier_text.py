"""Fronts as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opaq.reports.layout import WIDTH, plain_table, short_amount, short_bound, wrap_lines
from opaq.reports.measurement_text import amount_to_dict

Frontier = Any  # an opaq.study.front.frontier.Frontier; reports know no study, only what they are given


def frontier_to_dict(
    frontier: Frontier, *, problem_file: str | None = None, policy_files: Sequence[str] = ()
) -> dict[str, Any]:
    """The front as plain data; its keys are a promise (docs/answers.md).

    problem_file: what the problem was read from. policy_files: where the policies of the points are, if anywhere.
    """
    files = dict(enumerate(policy_files))
    return {
        "problem": frontier.problem,
        "problem_file": problem_file,
        "against": frontier.against,
        "policy_class": frontier.policy_class,
        "of": frontier.of.name,
        "minimise": _minimises(frontier),
        "largest": frontier.largest,
        "seed": frontier.seed,
        "seconds": frontier.seconds,
        "interrupted": frontier.interrupted,
        "complete": frontier.complete,
        "concave_by_theory": frontier.concave_by_theory,
        "points": [
            _point_to_dict(point) | {"policy_file": files.get(index)} for index, point in enumerate(frontier.points)
        ],
    }


def _point_to_dict(point: Any) -> dict[str, Any]:
    measurement = point.measurement
    return {
        "threshold": point.threshold,
        "value": point.value,
        "return": point.expected_return,
        "opacity": amount_to_dict(point.opacity),
        "guess_error": point.guess_error.value,
        "uncertainty": amount_to_dict(measurement.uncertainty),
        "slope": point.slope,
        "status": point.status.name.lower(),
        "status_text": point.status_text,
        "feasible": measurement.feasible,
        "carried": point.carried,
        "shortfall": point.shortfall,
        "bound": point.bound,
        "bound_is_trivial": point.bound_is_trivial,
        "seconds": point.seconds,
    }


def frontier_head(frontier: Frontier) -> tuple[str, ...]:
    """The columns."""
    value = () if frontier.against == "return" else (frontier.against,)
    own = () if frontier.of.name in ("opacity", "guess_error") else (frontier.of.title,)
    bound = ("bound",) if any(point.bound is not None for point in frontier.points) else ()
    return ("at least", *value, "return", "opacity", *own, *bound, "guess error", "slope", "seconds", "status")


def frontier_rows(frontier: Frontier) -> list[tuple[str, ...]]:
    """The lines of the table, each with the cells of its head."""
    head = frontier_head(frontier)
    rows = []
    for point in frontier.points:
        cells = {
            "at least": "any" if point.threshold is None else f"{point.threshold:.6g}",
            frontier.of.title: short_amount(point.measurement.uncertainty),
            "return": f"{point.expected_return:.6g}",
            "opacity": short_amount(point.opacity),
            "bound": short_bound(point.bound, trivial=point.bound_is_trivial),
            "guess error": short_amount(point.guess_error),
            "slope": "" if point.slope is None else f"{point.slope + 0.0:.4g}",
            "seconds": f"{point.seconds:.1f}",
            "status": _status(point),
        }
        cells.setdefault(frontier.against, f"{point.value:.6g}")
        rows.append(tuple(cells[name] for name in head))
    return rows


def number_columns(frontier: Frontier) -> range:
    """The columns that are aligned to the right: all but the last."""
    return range(len(frontier_head(frontier)) - 1)


def render_frontier(frontier: Frontier, *, width: int = WIDTH) -> str:
    """The front as a table, one line for every point, and what is to be said about it."""
    rows = frontier_rows(frontier)
    lines = plain_table(frontier_head(frontier), rows, numbers=number_columns(frontier), width=width) if rows else []
    return "\n".join(lines + frontier_notes(frontier, width=width))


def frontier_notes(frontier: Frontier, *, width: int = WIDTH) -> list[str]:
    """What no policy exceeds, whether the front is concave (convex where the task is to reveal), what is missing."""
    if not frontier.points:
        return wrap_lines("no policy was found that meets the other requirements", width=width)
    notes = [f"no policy earns more than {frontier.largest:.6g} ({frontier.against})", _shape(frontier)]
    if not frontier.complete:
        notes.append("the work was ended before all points were found")
    return [line for text in notes for line in wrap_lines(text, rest="  ", width=width)]


def _shape(frontier: Frontier) -> str:
    dents = frontier.not_concave
    if _minimises(frontier):
        return _convex(dents)
    promised = "as theory says for this class" if frontier.concave_by_theory else "which theory does not promise here"
    if not dents:
        return f"concave up to 1e-3, {promised}"
    listed = ", ".join(f"{point.value:.4g} (by {point.shortfall:.2g})" for point in dents)
    advice = (
        "though theory promises none: more starts may help" if frontier.concave_by_theory else "tossing a coin pays"
    )
    return f"not concave at {listed}: mixtures of other points hide more, {advice}"


def _convex(dents: Sequence[Any]) -> str:
    """Of a task that is to reveal: mixtures are seen through only where the observer sees the coin."""
    if not dents:
        return "convex up to 1e-3, which theory does not promise here"
    listed = ", ".join(f"{point.value:.4g} (by {point.shortfall:.2g})" for point in dents)
    return f"not convex at {listed}: tossing a coin that the observer sees would reveal more there"


def _minimises(frontier: Frontier) -> bool:
    return frontier.stated is not None and frontier.stated.task.minimise


def _status(point: Any) -> str:
    words = "as the next point" if point.carried else point.status.name.lower().replace("_", " ")
    return words if point.measurement.feasible else f"{words}, MISSES the task"
