"""Tables as heat: a colour for every number from 0 to 1, and the number where it can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.reports.figure_style import fitting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NUMBERS = 260  # cells that still get their number
_MOST_TICKS = 40
_DARK = 0.55  # numbers are white from here on


def draw_table(
    axes: Axes, values: FloatArray, *, rows: Sequence[str], columns: Sequence[str], cmap: str, longest: float = 0.9
) -> Any:
    """Values [row, column], the first row on top; NaN is left empty. The mesh, for a colour bar."""
    num_rows, num_columns = values.shape
    lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4} if values.size <= 4000 else {}
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), cmap=cmap, vmin=0.0, vmax=1.0, **lines)
    axes.set_ylim(num_rows, 0)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    name_ticks(axes.yaxis, rows, longest=longest)
    name_ticks(axes.xaxis, columns, longest=longest)
    if values.size <= _MOST_NUMBERS and num_columns <= 16:
        _write_numbers(axes, values)
    return mesh


def name_ticks(axis: Any, names: Sequence[str], *, longest: float = 0.9) -> None:
    """Names at the middle of the cells, upright along x where they are long; every so many where there are many.

    longest: inches for a name.
    """
    every = -(-len(names) // _MOST_TICKS)
    kept = range(0, len(names), every)
    labels = [fitting(names[index], inches=longest) for index in kept]
    room = 30 / max(1, len(labels))  # characters for each name along x, about
    upright = axis.axis_name == "x" and max((len(label) for label in labels), default=0) > max(1.0, room)
    axis.set_ticks([index + 0.5 for index in kept], labels, rotation=90 if upright else 0)


def _write_numbers(axes: Axes, values: FloatArray) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value) and value >= 0.005:
            text = "1" if value >= 0.995 else f"{value:.2f}".removeprefix("0")
            colour = "white" if value > _DARK else "#333333"
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=5.5, color=colour)
