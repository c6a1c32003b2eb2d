"""Figures show what they are given: their artists hold the data, their files are whole and always the same."""

from __future__ import annotations

import dataclasses
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context, rcParams
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver
from matplotlib.text import Text

import opaq
from opaq.opacity.measure import with_opacity
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts
from opaq.reports.figures.style import figure_bytes, figure_text
from opaq.reports.grid import GridView, directions
from reports.study_examples import front_of
from trials import long, part_of

GRID = "grid-last-state-4"
ODD = [
    "$x^2$",
    "a\\$b$",
    "_first",
    "<b>&",
    "x" * 200,
    "W" * 200,
    "\x1b[31m",
    "\u202eabc",
    "名前",
    "a\nb",
    r"\frac{1}{2",
]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]


def artists(figure: Figure, kind: type) -> list[Any]:
    return [artist for artist in figure.findobj(kind) if type(artist) is kind]


def inside(figure: Figure) -> bool:
    """Whether everything that is drawn lies on the page."""
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return bool(box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= width + 0.02 and box.y1 <= height + 0.02)


@pytest.fixture(scope="module")
def solution() -> opaq.Solution:
    return opaq.solve("two-sink", starts=1)


@pytest.fixture(scope="module")
def comparison() -> opaq.Comparison:
    return opaq.compare("two-sink", classes=["state", "state,time"], starts=1)


# Files


MAGIC = {".pdf": b"%PDF", ".svg": b"<?xml", ".eps": b"%!PS-Adobe-3.0 EPSF", ".png": b"\x89PNG"}


@pytest.mark.parametrize("ending", part_of([".pdf", ".svg", ".png", ".eps"], 3))
def test_the_same_figure_is_the_same_file(ending: str) -> None:
    first, second = (figure_bytes(opaq.plot_policy(GRID), ending) for _ in range(2))
    assert first == second
    assert first.startswith(MAGIC[ending])
    assert b"CreationDate" not in first
    assert b"dc:date" not in first


@long
def test_the_same_bytes_from_another_process(tmp_path: Path) -> None:
    code = f"import opaq; opaq.save_figure(opaq.plot_beliefs('graph', run=2), r'{tmp_path / 'there.svg'}')"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "there.svg").read_bytes() == figure_bytes(opaq.plot_beliefs("graph", run=2), ".svg")


@pytest.mark.parametrize(("column", "inches"), [("single", 3.4), ("double", 7.0)])
def test_a_png_has_the_size_of_its_column(tmp_path: Path, column: Any, inches: float) -> None:
    figure = opaq.plot_beliefs("graph", column=column)
    opaq.save_figure(figure, tmp_path / "figure.png", dpi=100)
    width, height = struct.unpack(">II", (tmp_path / "figure.png").read_bytes()[16:24])
    assert (width, height) == (round(100 * inches), int(100 * figure.get_size_inches()[1]))


def test_text_of_a_pdf_is_text() -> None:
    content = figure_bytes(opaq.plot_frontier([(0.0, 1.0), (1.0, 0.5)]), ".pdf")
    assert b"/Type0" in content  # a font as journals accept it, with its characters
    assert b"/Type3" not in content


def test_files_are_written_as_asked(tmp_path: Path) -> None:
    figure = opaq.plot_frontier([(0.0, 1.0)])
    with pytest.raises(opaq.InputError, match=r"the ending '.gif' is no format .*; use one of .pdf, .svg, .eps, .png"):
        opaq.save_figure(figure, tmp_path / "figure.gif")
    with pytest.raises(opaq.InputError, match="dpi: is 5; give a whole number, from 30"):
        opaq.save_figure(figure, tmp_path / "figure.png", dpi=5)
    (tmp_path / "figure.svg").write_text("mine")
    with pytest.raises(opaq.InputError, match="exists already"):
        opaq.save_figure(figure, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == "mine"
    opaq.save_figure(figure, tmp_path / "figure.svg", overwrite=True)
    assert (tmp_path / "figure.svg").read_bytes() == figure_bytes(figure, ".svg")


# Style


def test_settings_of_the_user_neither_change_nor_are_changed() -> None:
    expected = figure_bytes(opaq.plot_frontier([(0.0, 1.0), (1.0, 0.5)]), ".svg")
    with rc_context({"font.size": 20, "lines.linewidth": 9, "axes.facecolor": "red"}):
        before = dict(rcParams)
        assert figure_bytes(opaq.plot_frontier([(0.0, 1.0), (1.0, 0.5)]), ".svg") == expected
        assert dict(rcParams) == before


def test_drawing_needs_no_pyplot() -> None:
    code = (
        "import sys, opaq; print('matplotlib' in sys.modules); "
        "from opaq.reports.figures.style import figure_bytes; figure_bytes(opaq.plot_policy('two-sink'), '.pdf'); "
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


def test_without_matplotlib_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(opaq.InputError, match=r"matplotlib, which is not installed; .*pip install 'matplotlib>=3.9'"):
        opaq.plot_policy("two-sink")


def test_names_are_plain_text() -> None:
    assert figure_text("$x$") == r"\$x\$"
    assert figure_text("\x1b[31m") == r"\x1b[31m"
    assert figure_text("a\nb") == r"a\nb"
    assert figure_text("名") == r"\u540d"  # the font has no such letter
    assert figure_text("größer α") == "größer α"
    assert figure_text("x" * 200) == "x" * 14 + "…" + "x" * 13
    assert len(figure_text("abcdefgh", most=4)) == 4


def test_odd_names_break_nothing() -> None:
    states = {name: {"go": {ODD[(index + 1) % len(ODD)]: 1}} for index, name in enumerate(ODD)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {"states": ODD, "actions": ["go"], "start": ODD[0], "transitions": states},
            "observer": {"emissions": {name: {name: 1} for name in ODD}},
            "secret": {"initial_state": True},
            "horizon": 11,
        }
    )
    chart = plot_charts([Chart(ODD[0], ODD[1], [Line(name, [(0, 1), (1, 0)]) for name in ODD], title=ODD[4])])
    for figure in (
        opaq.plot_policy(problem, title=ODD[0]),
        opaq.plot_beliefs(problem),
        opaq.plot_beliefs(problem, over="states", column="double"),
        chart,
    ):
        assert inside(figure)
        for ending in part_of([".pdf", ".svg", ".png", ".eps"], 3):  # letters of EPS take two seconds
            figure_bytes(figure, ending)  # a warning about letters or mathematics would be an error
        assert r"\$x^2\$" in words(figure) + [word.strip() for word in words(figure)]


# EPS, and styles of the user


@long
def test_eps_has_pale_colours_in_place_of_transparent_ones(caplog: pytest.LogCaptureFixture) -> None:
    front = opaq.plot_frontier([(0.0, 1.0, 1.1, -0.5), (1.0, 0.5, 0.6, -0.5)])
    (fill,) = [each for each in front.axes[0].collections if each.get_alpha() is not None]
    before = fill.get_facecolor().copy()
    pictures = part_of([front, opaq.plot_policy(GRID), opaq.plot_beliefs(GRID, over="states", time=[0, 4])], 2)
    contents = [figure_bytes(figure, ".eps") for figure in pictures]
    assert caplog.messages == []  # matplotlib says where it draws something transparent as if it were solid
    assert np.array_equal(fill.get_facecolor(), before)
    for solid, share in ((before[0, :3], 0.12), (np.array([0, 0x9E, 0x73]) / 255, 0.8)):  # the fill, the tangents
        pale = " ".join(f"{part:.3f}".rstrip("0") for part in share * solid + 1 - share)
        assert f"{pale} setrgbcolor".encode() in contents[0]


def test_a_style_of_the_user_is_respected_on_request(tmp_path: Path) -> None:
    file = tmp_path / "own.mplstyle"
    file.write_text(
        "font.family: serif\naxes.prop_cycle: cycler('color', ['aa0000', '00aa00'])\nfigure.figsize: 5, 3\n"
        "axes.grid: False\nfont.size: 11\n"
    )
    points = [(0.0, 1.0, 1.1), (1.0, 0.5, 0.6)]
    plain = figure_bytes(opaq.plot_frontier(points), ".svg")
    with opaq.figure_style(file):
        figure = opaq.plot_frontier(points)
        styled = figure_bytes(figure, ".svg")
    assert figure.get_size_inches()[0] == 5
    assert figure.axes[0].lines[0].get_color() in ("aa0000", "#aa0000")
    assert not figure.axes[0].xaxis.get_gridlines()[0].get_visible()
    assert figure.axes[0].xaxis.label.get_fontfamily() == ["serif", "DejaVu Sans"]
    assert styled != plain
    assert figure_bytes(opaq.plot_frontier(points), ".svg") == plain  # only inside the block
    with opaq.figure_style("ggplot"):
        assert opaq.plot_frontier(points).axes[0].lines[0].get_color() == "#E24A33"


def test_settings_of_this_program_count_as_the_users() -> None:
    with rc_context({"lines.linewidth": 4.0}):
        assert opaq.plot_frontier([(0.0, 1.0)]).axes[0].lines[0].get_linewidth() == 1.0
        with opaq.figure_style("user"):
            assert opaq.plot_frontier([(0.0, 1.0)]).axes[0].lines[0].get_linewidth() == 4.0


def test_names_are_text_for_tex_as_well(tmp_path: Path) -> None:
    (tmp_path / "tex.mplstyle").write_text("text.usetex: True\n")
    with opaq.figure_style(tmp_path / "tex.mplstyle"):
        assert figure_text("a_b & 50% $x$") == r"a\_b \& 50\% \$x\$"
    assert figure_text("a_b") == "a_b"


@pytest.mark.parametrize(
    ("content", "words"),
    [("font.sze: 3\n", "Bad key"), ("lines.linewidth: thick\n", "thick"), (b"\xff\xfe\x00", "is no style")],
)
def test_a_style_that_is_none_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    file = tmp_path / "bad.mplstyle"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(opaq.InputError, match=words), opaq.figure_style(file):
        pass


def test_unknown_styles_are_refused_with_the_nearest() -> None:
    with pytest.raises(opaq.InputError, match="did you mean 'ggplot'"), opaq.figure_style("ggplt"):
        pass
    with pytest.raises(opaq.InputError, match="no such file"), opaq.figure_style("missing.mplstyle"):
        pass


# A study


def made_study(values: list[tuple[dict[str, Any], float]], **changes: Any) -> opaq.Study:
    target = opaq.Target.of_task(opaq.Shannon(), minimise=False)
    points = [
        opaq.StudyPoint(
            f"{index:04}",
            parameters,
            "converged",
            opacity=opaq.Amount.exact(value),
            objective=replace(target, amount=opaq.Amount.exact(value)),
            feasible=True,
            **changes,
        )
        for index, (parameters, value) in enumerate(values, start=1)
    ]
    return opaq.Study(Path("study"), "made up", tuple(points))


def test_a_study_is_drawn_by_what_varies() -> None:
    rates = [0.2, 0.5, 0.9]
    study = made_study(
        [({"class": c, "a.rate": r, "b.rate": r / 2}, 1 - r * k) for c, k in (("x", 1), ("y", 2)) for r in rates]
    )
    figure = opaq.plot_study(study)
    axes = figure.axes[0]
    assert axes.get_xlabel() == "a.rate"
    first, second = axes.lines[:2]
    assert list(first.get_xdata()) == rates
    assert list(first.get_ydata()) == pytest.approx([0.8, 0.5, 0.1])
    assert list(second.get_ydata()) == pytest.approx([0.6, 0.0, -0.8])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["class x", "class y"]
    named = opaq.plot_study(study, across="class")
    assert named.axes[0].get_xlabel() == "class"
    assert [text.get_text() for text in named.axes[0].get_xticklabels()] == ["x", "y"]
    assert len(named.axes[0].get_legend().get_texts()) == 3  # what varies together is one line
    assert inside(figure)
    with pytest.raises(opaq.InputError, match="the end of several paths"):
        opaq.plot_study(study, across="rate")
    with pytest.raises(opaq.InputError, match="no path that is varied"):
        opaq.plot_study(study, across="horizon")


def test_points_that_miss_their_task_and_bounds_are_marked() -> None:
    study = made_study([({"h": 1}, 0.5), ({"h": 2}, 0.6)], upper_bound=0.7)
    points = (study.points[0], replace(study.points[1], feasible=False))
    figure = opaq.plot_study(replace(study, points=points))
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {
        "best policy found",
        "no policy exceeds",
        "misses its task",
    }
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata()[0] for line in hollow] == [2]


def test_many_lines_are_one_of_the_best() -> None:
    study = made_study([({"h": h, "seed": s}, h + 0.1 * s) for h in (1, 2) for s in range(9)])
    axes = opaq.plot_study(study, across="h").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["other points", "the best at every value"]
    assert list(axes.lines[1].get_ydata()) == pytest.approx([1.8, 2.8])


def test_a_study_without_answers_has_no_figure() -> None:
    with pytest.raises(opaq.InputError, match="no point with an answer"):
        opaq.plot_study(opaq.Study(Path("study"), "none", (opaq.StudyPoint("0001", {"h": 1}, ""),)))


# Charts


def test_a_chart_holds_its_points_and_names_everything() -> None:
    points = [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)]
    chart = Chart(
        "time", "bits", [Line("up", points), Line("dots", points[:1], style="marks")], [LevelLine("limit", 1.5)]
    )
    figure = plot_charts([chart], title="Rise & fall")
    (axes,) = figure.axes
    up, dots, limit = axes.get_lines()
    assert up.get_xydata().tolist() == [list(point) for point in points]
    assert (up.get_marker(), dots.get_marker(), dots.get_linestyle()) == ("None", "o", "None")
    assert set(limit.get_ydata()) == {1.5}
    assert len({line.get_linestyle() for line in (up, limit)}) == 2  # differ in grey
    assert {"up", "dots", "limit", "time", "bits", "Rise & fall"} <= set(words(figure))
    assert inside(figure)


def test_a_legend_hides_no_data() -> None:
    lines = [Line(f"a rather long name of line {index}", [(0, index), (1, 9 - index)]) for index in range(6)]
    (axes,) = plot_charts([Chart("x", "y", lines)]).axes
    assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1 - 1
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [line.name for line in lines]


@pytest.mark.parametrize(("heights", "from_zero"), [((0.2, 1.0), True), ((0.9, 1.0), False), ((-1.0, 1.0), False)])
def test_amounts_are_shown_from_zero_on_where_they_begin_near_it(heights: tuple[float, ...], from_zero: bool) -> None:
    (axes,) = plot_charts([Chart("x", "y", [Line("line", list(enumerate(heights)))])]).axes
    assert (axes.get_ylim()[0] == 0.0) == from_zero


# Policies


def test_arrows_are_those_of_the_policy() -> None:
    problem = opaq.load_problem(GRID)
    figure = opaq.plot_policy(problem)
    (arrows,) = artists(figure, Quiver)
    view = GridView.of(problem)
    assert view is not None
    movable = len(view.cells) - len(view.traps)
    assert 4 * movable == arrows.N  # the uniform policy: four moves in every cell that is no trap
    assert np.hypot(arrows.U, arrows.V) == pytest.approx(0.12 + 0.24 * 0.25)
    assert {(round(x), round(y)) for x, y in arrows.XY} == {
        cell for state, cell in enumerate(view.cells) if state not in view.traps
    }
    assert words(figure).count("goal") == 2
    assert words(figure).count("C") == len(view.coverage["C"])
    assert {"start", "trap", "sensor C"} <= set(words(figure))
    assert "stay" not in words(figure)
    assert inside(figure)


def test_arrows_change_with_time_and_unlikely_actions_have_none() -> None:
    problem = opaq.load_problem(GRID)
    product = opaq.compile_problem(problem, opaq.PolicyClass(("state", "time")))
    east_then_south = np.zeros(product.process.num_slots)
    for slot, row in enumerate(product.process.row_of_slot()):
        action, time = problem.mdp.actions[product.slot_action[slot]], product.rows[row][1]
        east_then_south[slot] = float(action == ("E" if time == 0 else "S"))
    policy = product.policy(east_then_south)
    first, second = artists(opaq.plot_policy(problem, policy, time=[0, 1], column="double"), Quiver)
    assert first.N == 6  # the cells where runs begin
    assert set(np.sign(first.U).tolist()) == {1.0}
    assert set(np.sign(second.V).tolist()) == {1.0}  # down the page
    (average,) = artists(opaq.plot_policy(problem, policy), Quiver)
    assert average.N > second.N
    with pytest.raises(opaq.InputError, match="time: is 12; give a whole number, from 0 to 11"):
        opaq.plot_policy(problem, policy, time=12)


def test_a_large_grid_shows_flow() -> None:
    east = {"opaq": 1, "observer": {"emissions": {"*": "dark"}}, "secret": {"last_state": [[39, 0]]}, "horizon": 20}
    problem = opaq.build_problem(
        east | {"grid": {"size": [40, 2], "start": [0, 0], "labels": {"end": [[39, 0], [39, 1]]}}}
    )
    product = opaq.compile_problem(problem)
    actions = [problem.mdp.actions[action] for action in product.slot_action]
    policy = product.policy(np.array([float(action == "E") for action in actions]))
    figure = opaq.plot_policy(problem, policy)
    (flow,) = artists(figure, Quiver)
    assert 1 < flow.N < 20  # one for a block of cells, where runs come by
    assert (flow.U > 0).all()
    assert np.abs(flow.V).max() < 1e-9
    (shade,) = artists(figure, QuadMesh)
    visits = np.ma.filled(shade.get_array(), np.nan).reshape(2, 40)
    assert visits[0] == pytest.approx([1.0] * 21 + [0.0] * 19)  # once each, one cell further at every step
    assert visits[1] == pytest.approx(0.0)
    assert {"visited", "end"} <= set(words(figure))


def test_directions_come_from_the_model_not_from_names() -> None:
    problem = opaq.load_problem("grid-last-state")
    renamed = replace(problem.mdp, actions=tuple("vwxyz"))
    view = GridView.of(problem)
    assert view is not None
    known = dict(zip(problem.mdp.actions, directions(renamed, view), strict=True))
    assert {name: known[name] for name in "NESW"} == {"N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}
    assert [name for name in known if name not in "NESW" and known[name] == (0, 0)]
    figure = opaq.plot_policy(problem)
    (dots,) = [each for each in artists(figure, PathCollection) if len(each.get_offsets()) > 1]
    assert len(dots.get_offsets()) == len(view.cells) - len(view.traps)
    assert "stay" in words(figure)


def test_a_policy_on_no_grid_is_a_table(solution: opaq.Solution) -> None:
    figure = opaq.plot_policy("two-sink", solution.policy)
    (mesh,) = [each for each in artists(figure, QuadMesh) if each.axes is figure.axes[0]]
    row = solution.policy.rows[("q0",)]
    assert mesh.get_array()[0].tolist() == pytest.approx([row["a"], row["b"]])
    assert {"q0", "q1", "q2", "a", "b"} <= set(words(figure))
    assert inside(figure)


# Beliefs


def test_beliefs_are_those_of_the_replay() -> None:
    run = opaq.replay("graph", runs=4, seed=7)[3]
    figure = opaq.plot_beliefs("graph", run=4, seed=7)
    (mesh,) = [each for each in artists(figure, QuadMesh) if each.axes is figure.axes[0]]
    values = list(run.steps[0].belief)
    expected = [[moment.belief[value] for moment in run.steps] for value in values]
    assert np.asarray(mesh.get_array()) == pytest.approx(np.array(expected))
    above = figure.axes[0].child_axes[0]
    assert [label.get_text() for label in above.get_xticklabels()] == [moment.observation for moment in run.steps]
    (frame,) = figure.axes[0].patches
    assert (frame.get_y(), frame.get_width()) == (values.index(run.secret), len(run.steps))


def test_beliefs_of_what_was_seen_mark_nothing_as_true() -> None:
    seen = [moment.observation for moment in opaq.replay("graph", runs=1)[0].steps[:3]]
    figure = opaq.plot_beliefs("graph", observations=seen)
    assert len(figure.axes[0].patches) == 0
    assert figure.axes[0].get_xlabel() == "time"
    with pytest.raises(opaq.InputError, match="no observation 'nothing'"):
        opaq.plot_beliefs("graph", observations=["nothing"])
    with pytest.raises(opaq.InputError, match="observations: is a text; give a list"):
        opaq.plot_beliefs("graph", observations="none")


def test_beliefs_over_cells_follow_the_agent() -> None:
    problem = opaq.load_problem(GRID)
    run = opaq.replay(problem, runs=2)[1]
    figure = opaq.plot_beliefs(problem, run=2, over="states", time=[0, 3, 11], column="double")
    view = GridView.of(problem)
    assert view is not None
    boards = figure.axes[:3]
    for axes, time in zip(boards, (0, 3, 11), strict=True):
        (mesh,) = [each for each in axes.collections if type(each) is QuadMesh]
        board = np.asarray(mesh.get_array().filled(0))
        assert board.sum() == pytest.approx(1.0)
        column, row = view.cells[problem.mdp.state_index()[run.steps[time].state]]
        assert board[row, column] > 0
        agent = axes.get_lines()[-1]
        assert (agent.get_xdata()[0], agent.get_ydata()[0]) == (column, row)
        assert run.steps[time].observation in axes.get_title()
    start = boards[0].collections[0].get_array().filled(0)
    assert np.flatnonzero(start[:, 0]).size == np.count_nonzero(start)  # runs begin in the first column


def test_many_values_are_put_together() -> None:
    cells = [f"s{index:03}" for index in range(60)]
    moves = {name: {"go": dict.fromkeys(cells, 1 / 60)} for name in cells}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {"states": cells, "actions": ["go"], "start": dict.fromkeys(cells, 1 / 60), "transitions": moves},
            "observer": {"emissions": dict.fromkeys(cells, "dark")},
            "secret": {"initial_state": True},
            "horizon": 50,
        }
    )
    figure = opaq.plot_beliefs(problem)
    (mesh,) = [each for each in artists(figure, QuadMesh) if each.axes is figure.axes[0]]
    assert np.asarray(mesh.get_array()).sum(axis=0) == pytest.approx(1.0)
    assert "37 others" in words(figure)
    assert inside(figure)
    assert inside(opaq.plot_policy(problem))


# Results


def test_a_trace_is_the_solvers_own(solution: opaq.Solution) -> None:
    figure = opaq.plot_trace(solution)
    score, earned, price = figure.axes
    assert score.get_lines()[0].get_ydata().tolist() == [step.value for step in solution.trace]
    threshold = solution.measurement.threshold
    assert earned.get_lines()[0].get_ydata().tolist() == [step.slack[0] + threshold for step in solution.trace]
    assert price.get_lines()[0].get_ydata().tolist() == [step.multipliers[0] for step in solution.trace]
    assert figure_bytes(figure, ".svg") == figure_bytes(opaq.plot_trace(solution.to_dict()), ".svg")
    with pytest.raises(opaq.InputError, match="is no solution; give what opaq solve prints as JSON"):
        opaq.plot_trace({"opacity": 1})
    with pytest.raises(opaq.InputError, match=r"trace\[0\]: is 3, not a mapping; give what opaq solve prints as JSON"):
        opaq.plot_trace(solution.to_dict() | {"trace": [3]})


@pytest.mark.parametrize("point", [(float("nan"), 1.0), (0.0, float("inf"))])
def test_points_of_a_front_are_numbers(point: tuple[float, float]) -> None:
    with pytest.raises(opaq.InputError, match="does not read as points with a return and an opacity"):
        opaq.plot_frontier([(0.0, 1.0), point])


def test_sensors_that_share_a_cell_stand_side_by_side() -> None:
    sensors = {name: {"covers": [[0, 0], cell], "detects": 0.5} for name, cell in {"A": [1, 0], "B": [2, 0]}.items()}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "grid": {"size": [3, 2], "start": [[0, 0]]},
            "observer": {"sensors": sensors},
            "secret": {"last_state": [[2, 0]]},
            "horizon": 2,
        }
    )
    figure = opaq.plot_policy(problem)
    assert sorted(text for text in words(figure) if text in ("A", "B", "A,B")) == ["A", "A,B", "B"]


def test_without_requirements_there_is_the_opacity_alone(solution: opaq.Solution) -> None:
    free = {"iteration": 1, "value": 0.5, "slack": [], "multipliers": []}
    asked = {"name": "return", "value": 0.0, "threshold": None}
    answer = solution.to_dict() | {"trace": [free, free | {"iteration": 2}], "requirements": [asked]}
    figure = opaq.plot_trace(answer)
    assert [axes.get_ylabel() for axes in figure.axes] == ["opacity (bits)"]
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == [0.5, 0.5]
    with pytest.raises(opaq.InputError) as refused:
        opaq.plot_trace(answer | {"trace": [free | {"value": None}]})
    assert "float()" not in str(refused.value)


def test_a_ladder_and_its_bound(comparison: opaq.Comparison) -> None:
    certified = replace(comparison, upper_bound=0.60001)
    figure = opaq.plot_comparison(certified)
    values = [rung.measurement.opacity.value for rung in comparison.rungs]
    marks = [line.get_xdata()[0] for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert marks == values
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["state", "state, time"]
    assert "no policy exceeds 0.6001" in words(figure)  # rounded up: still a bound
    assert figure_bytes(figure, ".svg") == figure_bytes(opaq.plot_comparison(certified.to_dict()), ".svg")
    assert not any("exceeds" in word for word in words(opaq.plot_comparison(comparison)))
    certificate = opaq.certify("two-sink", comparison.rungs[1].policy, time_limit=5.0)
    *_, bound = opaq.plot_comparison(comparison, certificate).axes[0].get_lines()
    assert set(bound.get_xdata()) == {certificate.upper_bound}
    with pytest.raises(opaq.InputError, match="is no comparison; give what opaq compare prints as JSON"):
        opaq.plot_comparison({})


def test_a_class_that_misses_the_task_is_hollow(comparison: opaq.Comparison) -> None:
    answer = comparison.to_dict()
    answer["classes"][0]["feasible"] = False
    figure = opaq.plot_comparison(answer)
    faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert faces[0] == "white" != faces[1]
    assert any(word.endswith(", misses the task") for word in words(figure))


POINTS = [(0.4, 0.6, 0.65, -1.5), (0.0, 1.0, 1.0, -0.5), (0.2, 0.9, None, None)]


@pytest.mark.parametrize(
    "points",
    [
        POINTS,
        [dict(zip(("return", "opacity", "upper_bound", "slope"), point, strict=True)) for point in POINTS],
    ],
)
def test_a_front_from_tuples_and_mappings(points: Any) -> None:
    figure = opaq.plot_frontier(points, threshold=0.3)
    policies, bounds, *slopes, threshold = figure.axes[0].get_lines()
    assert policies.get_xydata().tolist() == [[0.0, 1.0], [0.2, 0.9], [0.4, 0.6]]
    assert bounds.get_xydata().tolist() == [[0.0, 1.0], [0.4, 0.65]]
    steepness = [np.diff(line.get_ydata())[0] / np.diff(line.get_xdata())[0] for line in slopes]
    assert steepness == pytest.approx([-0.5, -1.5])
    assert set(threshold.get_xdata()) == {0.3}
    assert figure_bytes(figure, ".svg") == figure_bytes(opaq.plot_frontier(POINTS, threshold=0.3), ".svg")


def test_a_front_is_drawn_on_its_own_axes() -> None:
    front = front_of("guesswork", values=(1.5,))
    front = replace(front, against="fuel", points=tuple(replace(point, value=-2.0) for point in front.points))
    for stated in (front, json.loads(json.dumps(front.to_dict()))):
        axes = opaq.plot_frontier(stated).axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("fuel", "guesswork (guesses)")
        assert axes.get_lines()[0].get_xydata().tolist() == [[-2.0, 1.5]]


def test_a_front_needs_points() -> None:
    with pytest.raises(opaq.InputError, match="points: there is none"):
        opaq.plot_frontier([])
    with pytest.raises(opaq.InputError, match="return: is missing; give points with a return and an opacity"):
        opaq.plot_frontier([{"opacity": 1}])


def test_opacity_over_time() -> None:
    figure = opaq.plot_opacity_over_time({"mine": [(0, 1.0), (1, 0.8)], "yours": [{"time": 0, "opacity": 0.9}]})
    mine, yours = figure.axes[0].get_lines()
    assert mine.get_xydata().tolist() == [[0.0, 1.0], [1.0, 0.8]]
    assert yours.get_xydata().tolist() == [[0.0, 0.9]]
    with pytest.raises(opaq.InputError, match="points: there is none"):
        opaq.plot_opacity_over_time([])


UNSURE = {
    "sampled": opaq.Amount(0.6, 0.0, 1.5, "sampled", 0.02),
    "interval": opaq.Amount.between(0.2, 1.0),
    "exact": opaq.Amount.exact(0.4),
}


def test_bars_of_a_front_are_errors_or_intervals_never_the_whole_range() -> None:
    for minimise, proven in ((False, 0.2), (True, 1.0)):
        front = front_of("opacity", minimise=minimise, values=tuple(UNSURE.values()))
        line, *bars = opaq.plot_frontier(front).axes[0].get_lines()
        assert list(line.get_ydata()) == pytest.approx([0.6, proven, 0.4])  # no middle of an interval
        assert [list(bar.get_ydata()) for bar in bars] == [pytest.approx([0.58, 0.62]), pytest.approx([0.2, 1.0])]


def test_bars_of_classes_are_errors_or_intervals_never_the_whole_range() -> None:
    comparison = opaq.compare("two-sink", classes=["state", "state,time", "memory:2"], starts=1)
    rungs = tuple(
        dataclasses.replace(rung, measurement=with_opacity(rung.measurement, amount))
        for rung, amount in zip(comparison.rungs, UNSURE.values(), strict=True)
    )
    figure = opaq.plot_comparison(dataclasses.replace(comparison, rungs=rungs))
    lines = figure.axes[0].get_lines()
    assert [list(bar.get_xdata()) for bar in lines[:4:2]] == [pytest.approx([0.58, 0.62]), pytest.approx([0.2, 1.0])]
    assert [float(mark.get_xdata()[0]) for mark in lines[1:6:2]] == pytest.approx([0.6, 0.2, 0.4])
    assert {"0.6000", "0.2000 to 1.0000", "0.4000"} <= set(words(figure))
