"""Draw the course of a solve: what the solver gained, what it earned, what that cost.

Comes in: a `Solution`. Goes out: a matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opaq.errors import check_types
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts
from opaq.reports.figures.style import Column
from opaq.reports.numbers import figure_title
from opaq.solvers.solve import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_trace(
    solution: Solution | Mapping[str, Any], *, column: Column = "single", title: str | None = None
) -> Figure:
    """Draw the course of the start that won: score, return and multipliers against the iteration.

    The score is the solver's own, an estimate where gradients are sampled; the polish of its policy is not part of it.

    solution: a `Solution`, or the answer of `opaq solve` as a mapping, as its JSON holds it.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when the mapping is no such answer, or where matplotlib is not installed.
    """
    solution = Solution.from_dict(solution) if isinstance(solution, Mapping) else solution
    check_types({"solution": (solution, Solution, "an opaq.Solution")})
    return plot_charts(_trace_charts(solution), column=column, title=title)


def _trace_charts(solution: Solution) -> list[Chart]:
    """Return charts of the start that won, against the iteration: its value, its requirements and its multipliers.

    One requirement is shown as its value beside the threshold, several as their slacks; without any, the value is all.
    """
    steps, estimated = solution.trace, "estimated " if solution.gradients == "sampled" else ""
    iterations = [float(step.iteration) for step in steps]

    def draw(name: str, values: Iterable[float], **look: Any) -> Line:
        """Return a line of values, one per step, against the iteration; look: further fields of the line."""
        return Line(name, list(zip(iterations, values, strict=True)), **look)

    name = solution.measurement.of.name
    of = f"{estimated}{name.replace('_', ' ')}"
    score = Chart("iteration", f"{estimated}{figure_title(name)}", [draw(of, [step.value for step in steps])])
    count = len(steps[0].slack) if steps else 0
    if count == 0:
        return [score]
    required = [met for met in solution.measurement.requirements if met.threshold is not None]
    named = len(required) == count
    names = [met.name for met in required] if named else [f"requirement {number}" for number in range(1, count + 1)]

    def lines(rows: Sequence[Sequence[float]]) -> list[Line]:
        """Return one line per requirement; rows: [step][requirement]."""
        columns = zip(*rows, strict=True)
        return [
            draw(name, values, colour=(1 + index) % 6)
            for index, (name, values) in enumerate(zip(names, columns, strict=True))
        ]

    if named and count == 1:  # the value itself beside its threshold
        threshold = required[0].threshold or 0.0
        level = LevelLine(f"threshold: {threshold:g}", threshold)
        values = [float(step.slack[0]) + threshold for step in steps]
        earned = Chart("iteration", names[0], [draw(names[0], values, colour=2)], [level])
    else:
        slacks = lines([step.slack.tolist() for step in steps])
        earned = Chart("iteration", "slack", slacks, [LevelLine("met from here on", 0.0)])
    return [score, earned, Chart("iteration", "multiplier", lines([step.multipliers.tolist() for step in steps]))]
