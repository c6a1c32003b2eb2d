"""A grid and a policy on it as a picture: cells, sensors, and an arrow for every likely action."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from opaq.reports.svg import COLOURS, FAINT, INK, document, element, path, text

Cell = tuple[int, int]  # column, row; row 0 on top

_SIDE, _EDGE, _HEAD = 84, 24, 52
_LEAST = 0.02  # an action less likely than this is not drawn
_AIM: Mapping[str, tuple[float, float]] = {"N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}
_SENSORS = ("#cfe3f3", "#fbd9c5", "#cdebdf", "#e3d6ef", "#f3ecc2", "#dddddd")  # pale, so that arrows stay readable


@dataclass(frozen=True, slots=True)
class GridFigure:
    """What the picture shows."""

    title: str
    width: int
    height: int
    free: Collection[Cell]  # all other cells are walls
    traps: Collection[Cell] = ()
    starts: Collection[Cell] = ()
    marks: Mapping[str, Collection[Cell]] = field(default_factory=dict)  # word -> cells it is written in
    sensors: Mapping[str, Collection[Cell]] = field(default_factory=dict)
    actions: Mapping[Cell, Mapping[str, float]] = field(default_factory=dict)


def render_grid(figure: GridFigure) -> str:
    """The picture as SVG."""
    width, height = figure.width * _SIDE + 2 * _EDGE, figure.height * _SIDE + _HEAD + 46
    cells = [_cell(figure, (column, row)) for row in range(figure.height) for column in range(figure.width)]
    legend = "arrows: likely actions, the darker the likelier; dot: stay; thick frame: start; ×: trap; letter: sensor"
    return document(
        width,
        height,
        text(figure.title, _EDGE, 32, size=15, font_weight="bold"),
        *cells,
        text(legend, _EDGE, height - 18, size=9.5),
        title=figure.title,
    )


def _cell(figure: GridFigure, cell: Cell) -> str:
    left, top = _EDGE + cell[0] * _SIDE, _HEAD + cell[1] * _SIDE
    if cell not in figure.free:
        return element("rect", x=left, y=top, width=_SIDE, height=_SIDE, fill="#4a4a4a")
    sensor = next((name for name, cells in figure.sensors.items() if cell in cells), None)
    fill = "#ffffff" if sensor is None else _SENSORS[list(figure.sensors).index(sensor) % len(_SENSORS)]
    pieces = [element("rect", x=left, y=top, width=_SIDE, height=_SIDE, fill=fill, stroke=FAINT)]
    if cell in figure.starts:
        inner = {"x": left + 2.5, "y": top + 2.5, "width": _SIDE - 5, "height": _SIDE - 5}
        pieces.append(element("rect", **inner, fill="none", stroke=COLOURS[2], stroke_width=2.5))
    if sensor is not None:
        pieces.append(text(sensor, left + _SIDE - 7, top + 15, size=11, anchor="end", fill="#666666"))
    words = ", ".join(word for word, cells in figure.marks.items() if cell in cells)
    if words:
        pieces.append(text(words, left + 7, top + 15, size=10.5, fill=COLOURS[1], font_weight="bold"))
    centre = (left + _SIDE / 2, top + _SIDE / 2 + 7)
    if cell in figure.traps:
        return element("g", *pieces, text("×", centre[0], centre[1] + 12, size=34, anchor="middle", fill="#999999"))
    chosen = sorted(figure.actions.get(cell, {}).items(), key=lambda item: item[1])
    pieces += [_action(centre, name, chance) for name, chance in chosen if chance >= _LEAST]
    return element("g", *pieces)


def _action(centre: tuple[float, float], name: str, chance: float) -> str:
    strength = {"opacity": 0.25 + 0.75 * chance}
    x, y = centre
    if name not in _AIM:
        return element("circle", cx=x, cy=y, r=2.0 + 5.0 * chance, fill=INK, **strength)
    right, down = _AIM[name]
    reach = 13 + 15 * chance
    tip = (x + right * reach, y + down * reach)
    back = (x + right * (reach - 7), y + down * (reach - 7))
    wing = 4.5
    head = [(back[0] - down * wing, back[1] - right * wing), tip, (back[0] + down * wing, back[1] + right * wing)]
    width = 1.0 + 1.6 * chance
    return element(
        "g",
        path([(x + right * 6, y + down * 6), tip], stroke=INK, stroke_width=width),
        path(head, stroke=INK, stroke_width=width),
        **strength,
    )
