"""What is still hidden as time goes on, as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opaq.choices import check_numbers
from opaq.errors import Fault, InputError
from opaq.reports.answer_data import reading
from opaq.reports.charts import Chart, Level, Line, plot_charts
from opaq.reports.figure_style import Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW = 40  # points that still get a mark each


def plot_opacity_over_time(
    points: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    secret_entropy: float | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """H(secret | o_0 .. o_t) against the time t, as a figure.

    points: tuples (time, opacity), or mappings with these keys; or name -> such points, for a line each.
    secret_entropy: H(secret), the uncertainty before observing, as a level.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when there are no points, or where matplotlib is not installed.
    """
    check_numbers({"secret_entropy": (secret_entropy, 0, math.inf)}, optional=("secret_entropy",))
    named = points if isinstance(points, Mapping) else {"opacity": points}
    lines = [_line(name, stated, index) for index, (name, stated) in enumerate(named.items())]
    if not lines or not all(line.points for line in lines):
        raise InputError([Fault("points", "there is none", "give at least one (time, opacity)")])
    levels = [] if secret_entropy is None else [Level(f"H(secret) = {secret_entropy:.4g}", secret_entropy)]
    chart = Chart("time t", "H(Z | o₀…oₜ) (bits)", lines, levels)
    return plot_charts([chart], column=column, title=title)


def _line(name: str, stated: Sequence[Any], index: int) -> Line:
    with reading("points with a time and an opacity"):
        pairs = [(each["time"], each["opacity"]) if isinstance(each, Mapping) else each for each in stated]
        points = [(float(time), float(opacity)) for time, opacity in pairs]
    return Line(name, points, style="both" if len(points) <= _FEW else "line", colour=index % 6)
