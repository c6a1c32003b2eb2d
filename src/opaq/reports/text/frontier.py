"""Make the page of a front: its points as a table, and its shape.

Comes in: a `Frontier`. Goes out: a `Page`.
"""

from __future__ import annotations

from collections.abc import Sequence

from opaq.reports.layout import Notes, Page, TextTable
from opaq.reports.numbers import amount_cell, bound_cell, number
from opaq.study.front.frontier import Frontier, FrontierPoint


def frontier_page(frontier: Frontier) -> Page:
    """Return the page of a front: one line for every point, what no policy exceeds, its shape, and what is missing.

    Columns of the requirement, the objective and the bound are there where they say something new.
    """
    title = f"Front of {frontier.problem}"
    if not frontier.points:
        return Page("", (Notes(("no policy was found that meets the other requirements",), rest=""),), title)
    notes = [f"no policy has more than {number(frontier.largest)} ({frontier.against})", _shape(frontier)]
    if not frontier.complete:
        notes.append("the work was ended before all points were found")
    value = () if frontier.against == "return" else (frontier.against,)
    objective = frontier.points[0].measurement.objective
    own = () if objective.title in ("opacity", "guess error") else (objective.title,)
    bound = ("bound",) if any(point.bound is not None for point in frontier.points) else ()
    head = ("at least", *value, "return", "opacity", *own, *bound, "guess error", "slope", "seconds", "status")
    rows = tuple(_row(frontier, point, head) for point in frontier.points)
    return Page("", (TextTable(head, rows, range(len(head) - 1), notes=tuple(notes)),), title)


def _row(frontier: Frontier, point: FrontierPoint, head: Sequence[str]) -> tuple[str, ...]:
    """Return the line of one point; head: the titles of the columns that the table has."""
    cells = {
        "at least": "any" if point.threshold is None else number(point.threshold, beside=frontier.largest),
        point.measurement.objective.title: amount_cell(point.measurement.uncertainty),
        "return": number(point.expected_return, beside=frontier.largest),
        "opacity": amount_cell(point.opacity),
        "bound": bound_cell(point.bound, trivial=point.is_trivial, minimise=frontier.objective.minimise),
        "guess error": amount_cell(point.guess_error),
        "slope": "" if point.slope is None else number(point.slope, 4),
        "seconds": f"{point.seconds:.1f}",
        "status": _status(point),
    }
    cells.setdefault(frontier.against, number(point.value, beside=frontier.largest))
    return tuple(cells[name] for name in head)


def _shape(frontier: Frontier) -> str:
    """Return whether the front is concave (of a task that reveals: convex), and what theory says of that."""
    dents = frontier.not_concave
    if frontier.objective.minimise:
        return _convex(dents)
    promised = "as theory says for this class" if frontier.concave_by_theory else "which theory does not promise here"
    if not dents:
        return f"concave up to 1e-3, {promised}"
    listed = ", ".join(f"{point.value:.4g} (by {point.shortfall:.2g})" for point in dents)
    advice = (
        "though theory promises none: more starts may help" if frontier.concave_by_theory else "tossing a coin pays"
    )
    return f"not concave at {listed}: mixtures of other points hide more, {advice}"


def _convex(dents: Sequence[FrontierPoint]) -> str:
    """Return whether the front of a task that is to reveal is convex; dents: the points where it is not.

    Mixtures of policies lie on a straight line only where the observer sees the coin.
    """
    if not dents:
        return "convex up to 1e-3, which theory does not promise here"
    listed = ", ".join(f"{point.value:.4g} (by {point.shortfall:.2g})" for point in dents)
    return f"not convex at {listed}: tossing a coin that the observer sees would reveal more there"


def _status(point: FrontierPoint) -> str:
    """Return how the search of a point ended, and that it misses the task where it does."""
    words = "as the next point" if point.carried else point.status.name.lower().replace("_", " ")
    return words if point.measurement.feasible else f"{words}, MISSES the task"
