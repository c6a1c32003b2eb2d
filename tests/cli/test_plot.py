"""`opaq plot`."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import opaq as library
from opaq.reports.figures.style import figure_bytes
from study.inline_executor import InlineExecutor


def test_a_figure_is_the_librarys_and_its_path_is_the_answer(opaq, tmp_path: Path) -> None:
    done = opaq("plot", "beliefs", "graph", "--run", "3", "--seed", "2", "--time", "0,2", "-o", "beliefs.pdf")
    assert (done.returncode, done.stdout, done.stderr) == (0, "beliefs.pdf\n", "")
    figure = library.plot_beliefs("graph", run=3, seed=2, time=[0, 2])
    assert (tmp_path / "beliefs.pdf").read_bytes() == figure_bytes(figure, ".pdf")


def test_a_policy_file_and_the_options_of_the_page(opaq, tmp_path: Path) -> None:
    policy = library.solve("two-sink", conditions="state,time", starts=1).policy
    library.save_policy(policy, tmp_path / "policy.json", problem=library.load_problem("two-sink"))
    page = ["--column", "double", "--title", "Two sinks", "--dpi", "50"]
    done = opaq("plot", "policy", "two-sink", "--policy", "policy.json", "--time", "1", *page, "-o", "p.png")
    assert (done.returncode, done.stdout) == (0, "p.png\n")
    content = (tmp_path / "p.png").read_bytes()
    assert struct.unpack(">I", content[16:20]) == (350,)
    figure = library.plot_policy("two-sink", policy, time=[1], column="double", title="Two sinks")
    assert content == figure_bytes(figure, ".png", dpi=50)


def test_answers_of_other_commands(opaq, tmp_path: Path) -> None:
    solved = opaq("solve", "two-sink", "--starts", "1", "--run-folder", "kept", "--json", "-q")
    (tmp_path / "solve.json").write_text(solved.stdout)
    compared = opaq("compare", "two-sink", "--classes", "state; state,time", "--starts", "1", "--json", "-q")
    (tmp_path / "compare.json").write_text(compared.stdout)
    front = library.frontier("two-sink", points=2).to_dict()
    (tmp_path / "front.json").write_text(json.dumps(front))
    for what, source in (
        ("trace", "solve.json"),
        ("trace", "kept"),
        ("ladder", "compare.json"),
        ("frontier", "front.json"),
    ):
        done = opaq("plot", what, "--answer", source, "-o", f"{what}-{source}.svg")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{what}-{source}.svg\n", "")
    done = opaq("plot", "ladder", "--answer", "solve.json", "-o", "x.svg")
    assert "opaq: solve.json: is the answer of solve, not of compare; make the file with" in done.stderr
    drawn = {file.name: file.read_bytes() for file in tmp_path.glob("*.svg")}
    assert drawn["trace-solve.json.svg"] == drawn["trace-kept.svg"]
    assert drawn["trace-kept.svg"] == figure_bytes(library.plot_trace(json.loads(solved.stdout)), ".svg")
    assert drawn["ladder-compare.json.svg"] == figure_bytes(
        library.plot_comparison(json.loads(compared.stdout)), ".svg"
    )
    assert drawn["frontier-front.json.svg"] == figure_bytes(library.plot_frontier(front), ".svg")
    named = opaq("plot", "trace", "two-sink", "--answer", "solve.json", "-o", "named.svg")
    assert named.returncode == 0
    titled = library.plot_trace(json.loads(solved.stdout), title="two-sink")
    assert (tmp_path / "named.svg").read_bytes() == figure_bytes(titled, ".svg")


def test_nothing_is_overwritten_unless_asked(opaq, tmp_path: Path) -> None:
    (tmp_path / "p.svg").write_text("mine")
    done = opaq("plot", "policy", "two-sink", "-o", "p.svg")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "opaq: p.svg: exists already; use --overwrite to overwrite it\n"
    assert (tmp_path / "p.svg").read_text() == "mine"
    assert opaq("plot", "policy", "two-sink", "-o", "p.svg", "--overwrite").returncode == 0
    assert (tmp_path / "p.svg").read_bytes() == figure_bytes(library.plot_policy("two-sink"), ".svg")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ["policy", "two-sink", "-o", "x.gif"],
            "x.gif: the ending '.gif' is no format of figures; use one of .pdf, .svg, .eps, .png",
        ),
        (["policy", "two-sink", "-o", "x"], "x: has no ending; use one of .pdf, .svg, .eps, .png"),
        (["policy", "two-sink", "-o", "no/x.pdf"], "does not exist; create it first"),
        (["policy", "-o", "x.pdf"], "PROBLEM: is missing; give a problem file or the name of a scenario"),
        (
            ["policy", "two-sink", "--run", "2", "-o", "x.pdf"],
            "--run: has no effect with policy; it belongs to beliefs",
        ),
        (
            ["policy", "two-sink", "--time", "9", "-o", "x.pdf"],
            "opaq: --time: is 9; give a whole number, from 0 to 2",
        ),
        (
            ["beliefs", "two-sink", "--time", "0,9", "-o", "x.pdf"],
            "opaq: --time: is 9; give a whole number, from 0 to 2",
        ),
        (["policy", "two-sink", "--time", "now", "-o", "x.pdf"], "--time: 'now' is no list of times; write them as"),
        (["policy", "two-sinks", "-o", "x.pdf"], "no scenario is called 'two-sinks'; did you mean 'two-sink'"),
        (["policy", "two-sink", "--dpi", "99", "-o", "x.pdf"], "--dpi: has no effect on .pdf; it belongs to .png"),
        (["trace", "two-sink", "-o", "x.pdf"], "--answer: is missing; make the file first: opaq solve PROBLEM --json"),
        (
            ["trace", "--policy", "p.json", "-o", "x.pdf"],
            "--policy: has no effect with trace; it belongs to policy, beliefs",
        ),
        (["trace", "--answer", "nowhere.json", "-o", "x.pdf"], "nowhere.json: no such file"),
        (["trace", "--answer", "text.json", "-o", "x.pdf"], "text.json: is not JSON"),
        (["trace", "--answer", "list.json", "-o", "x.pdf"], "list.json: holds no JSON object but a list"),
        (
            ["ladder", "--answer", "other.json", "-o", "x.pdf"],
            "other.json: holds no answer of opaq; give what opaq prints with --json",
        ),
        (
            ["frontier", "--answer", "other.json", "-o", "x.pdf"],
            "other.json: holds no answer of opaq; give what opaq prints with --json",
        ),
        (["trace", "--answer", ".", "-o", "x.pdf"], "holds no result.json"),
    ],
)
def test_faults_are_named_and_nothing_is_written(opaq, tmp_path: Path, arguments: list[str], fault: str) -> None:
    for name, text in {"text.json": "opacity 1", "list.json": "[]", "other.json": "{}"}.items():
        (tmp_path / name).write_text(text)
    done = opaq("plot", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert fault in done.stderr
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_read_back_is_what_the_library_gives() -> None:
    """JSON keeps every digit, so that figures from files and from objects are the same."""
    solution = library.solve("two-sink", starts=1)
    comparison = library.compare("two-sink", classes=["state"], starts=1)
    for draw, thing, told in (
        (library.plot_trace, solution, solution.to_dict()),
        (library.plot_comparison, comparison, comparison.to_dict()),
    ):
        assert figure_bytes(draw(thing), ".svg") == figure_bytes(draw(json.loads(json.dumps(told))), ".svg")


def test_a_sweep_is_drawn_from_its_folder(opaq, tmp_path: Path) -> None:
    plan = {
        "opaq-sweep": 1,
        "problem": "two-sink",
        "over": {"horizon": [2, 3], "task.return_at_least": [1.0, 1.2]},
        "solve": {"starts": 1},
    }
    study = library.sweep(plan, output=tmp_path / "study", executor=InlineExecutor())
    done = opaq("plot", "study", "study", "-o", "study.eps", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "study.eps\n", "")
    assert (tmp_path / "study.eps").read_bytes() == figure_bytes(library.plot_study(study), ".eps")
    across = opaq("plot", "study", "study", "--across", "return_at_least", "-o", "across.svg", "-q")
    assert across.returncode == 0
    other = library.plot_study(study, across="task.return_at_least")
    assert (tmp_path / "across.svg").read_bytes() == figure_bytes(other, ".svg")
    for given, words in (
        (["study"], "FOLDER: is missing"),
        (["study", "nowhere"], "nowhere: holds no journal.sqlite"),
        (["study", "study", "--across", "x"], "--across: 'x' is no path that is varied"),
        (["policy", "two-sink", "--across", "x"], "--across: has no effect with policy"),
    ):
        refused = opaq("plot", *given, "-o", "x.pdf", "-q")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_a_style_is_used_on_request(opaq, tmp_path: Path) -> None:
    (tmp_path / "own.mplstyle").write_text("font.family: serif\n")
    for style in ("own.mplstyle", "ggplot", "user"):
        done = opaq("plot", "policy", "two-sink", "--style", style, "-o", f"{style}.svg", "-q")
        assert (done.returncode, done.stderr) == (0, "")
    plain = figure_bytes(library.plot_policy("two-sink"), ".svg")
    assert (tmp_path / "user.svg").read_bytes() == plain  # nothing of the user's own differs here
    assert (tmp_path / "own.mplstyle.svg").read_bytes() != plain
    refused = opaq("plot", "policy", "two-sink", "--style", "ggplt", "-o", "x.svg", "-q")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--style: 'ggplt' is no style of matplotlib, nor a file; did you mean 'ggplot'?" in refused.stderr
