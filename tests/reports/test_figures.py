"""Pictures are well-formed, finite and show what they are given."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from opaq.reports import svg
from opaq.reports.figures import Chart, Level, Line, render_charts, ticks
from opaq.reports.grid_figure import GridFigure, render_grid

SPACE = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def chart(**changes: object) -> Chart:
    given = {
        "title": "Rise & fall <1>",
        "x_label": "time",
        "y_label": "bits",
        "lines": [Line("up", [(0.0, 0.0), (1.0, 2.0)]), Line("dots", [(0.5, 1.0)], style="marks", colour=1)],
        "levels": [Level("limit", 1.5)],
    }
    return Chart(**(given | changes))  # type: ignore[arg-type]


def parsed(picture: str) -> ElementTree.Element:
    assert not re.search(r"\b(nan|inf)\b", picture)
    return ElementTree.fromstring(picture)


def words(root: ElementTree.Element) -> list[str]:
    return [found.text or "" for found in root.iter(f"{SPACE}text")]


def numbers(path: ElementTree.Element) -> list[float]:
    return [float(found) for found in NUMBER.findall(path.attrib["d"])]


def test_a_chart_is_well_formed_and_names_everything() -> None:
    root = parsed(render_charts([chart()]))
    assert {"Rise & fall <1>", "time", "bits", "up", "dots", "limit"} <= set(words(root))


def test_everything_drawn_lies_on_the_page() -> None:
    root = parsed(render_charts([chart(), chart()]))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for path in root.iter(f"{SPACE}path"):
        places = numbers(path)
        assert all(0 <= x <= width for x in places[::2])
        assert all(0 <= y <= height for y in places[1::2])


def test_higher_values_are_drawn_higher() -> None:
    root = parsed(render_charts([chart(lines=[Line("up", [(0.0, 0.0), (1.0, 2.0)])], levels=[])]))
    (line,) = [path for path in root.iter(f"{SPACE}path") if path.attrib.get("stroke-linejoin") and len(numbers(path))
               and numbers(path)[1] != numbers(path)[3]]  # fmt: skip
    left, low, right, high = numbers(line)
    assert left < right
    assert high < low  # pixels count downwards


def test_a_long_line_is_thinned_and_keeps_its_shape() -> None:
    points = [(float(place), math.sin(place / 500)) for place in range(5000)]
    picture = render_charts([chart(lines=[Line("wave", points)], levels=[])])
    assert len(picture) < 40_000
    assert "wave" in words(parsed(picture))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_cannot_be_drawn(value: float) -> None:
    with pytest.raises(ValueError, match="cannot show"):
        svg.element("circle", r=value)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.0959, 0.907), (-3, 7), (1, 20), (0, 5000), (1e-6, 3e-6), (0.5, 0.5)]
)
def test_ticks_are_round_and_enclose_the_data(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 3 <= len(found) <= 12
    steps = {round((after - before) / (found[1] - found[0]), 6) for before, after in itertools.pairwise(found)}
    assert steps == {1.0}


def test_a_flat_line_still_has_axes() -> None:
    root = parsed(render_charts([chart(lines=[Line("flat", [(0.0, 0.5), (1.0, 0.5)])], levels=[])]))
    assert words(root).count("0.4") == 2  # a tick of either axis


def test_a_grid_shows_sensors_marks_and_likely_actions_only() -> None:
    figure = GridFigure(
        "Two cells & a wall",
        width=3,
        height=1,
        free={(0, 0), (1, 0)},
        traps={(1, 0)},
        starts={(0, 0)},
        marks={"goal": {(1, 0)}},
        sensors={"A": {(1, 0)}},
        actions={(0, 0): {"E": 0.9, "stay": 0.1, "N": 0.0}, (1, 0): {"E": 1.0}},
    )
    root = parsed(render_grid(figure))
    assert {"A", "goal", "×", "Two cells & a wall"} <= set(words(root))
    assert len(list(root.iter(f"{SPACE}circle"))) == 1  # stay
    assert len(list(root.iter(f"{SPACE}path"))) == 2  # the shaft and the head of one arrow; a trap has none


def test_png_when_the_extra_is_there() -> None:
    pytest.importorskip("resvg_py")
    assert svg.svg_to_png(render_charts([chart()])).startswith(b"\x89PNG")


def test_png_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(svg.RasteriserError, match=r"opaq\[figures\]"):
        svg.svg_to_png("<svg/>")
