"""`opaq frontier`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opaq as library
from commands import opaq_command
from opaq.reports.layout import render_text
from opaq.reports.text.frontier import frontier_page

POINT = {
    "threshold", "value", "return", "opacity", "guess_error", "objective", "slope", "status", "status_text",
    "feasible", "carried", "shortfall", "policy_file", "upper_bound", "is_trivial", "seconds",
}  # fmt: skip


def test_the_table() -> None:
    done = opaq_command("frontier", "two-sink", "--points", 3)
    assert done.returncode == 0
    head, *lines, largest, shape = done.stdout.splitlines()
    assert head.split() == ["at", "least", "return", "opacity", "guess", "error", "slope", "seconds", "status"]
    assert [line.split()[0] for line in lines] == ["any", "1.36466", "2"]
    assert lines[0].split()[1:3] == ["1.13729", "0.40883"]
    assert largest == "no policy has more than 2 (return)"
    assert shape == "concave up to 1e-3, which theory does not promise here"
    assert "opaq: 2: 0.2500 bits" in done.stderr


def test_json_and_policies(tmp_path: Path) -> None:
    done = opaq_command(
        "frontier", "two-sink", "--points", 3, "--json", "-q", "--save-policies", tmp_path / "front", "--certify"
    )
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert set(told) == {
        "result", "problem", "against", "policy_class", "objective", "largest", "seed", "seconds",
        "interrupted", "complete", "concave_by_theory", "points", "problem_file",
    }  # fmt: skip
    assert all(set(point) >= POINT for point in told["points"])
    assert all(point["upper_bound"] >= point["opacity"]["value"] - 1e-9 for point in told["points"])
    for number, point in enumerate(told["points"], start=1):
        measured = library.measure("two-sink", tmp_path / "front" / f"point-{number:02d}.json")
        assert measured.opacity.value == pytest.approx(point["opacity"]["value"], abs=1e-9)
    assert "wrote 3 policies to" in done.stderr


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "point-02.json").write_text("mine")
    done = opaq_command("frontier", "two-sink", "--points", 3, "--save-policies", tmp_path)
    assert done.returncode == 2
    assert "point-02.json: exists already" in done.stderr
    assert (tmp_path / "point-02.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--against", "speed"), "no requirement is called 'speed'"), (("--conditions", "mood"), "mood")],
)
def test_bad_input(options: tuple[str, ...], words: str) -> None:
    done = opaq_command("frontier", "two-sink", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_requirements_that_nobody_meets(tmp_path: Path) -> None:
    stated = library.problem_to_dict(library.load_problem("two-sink"))
    stated["task"] = {"requirements": [{"reach": ["q1"], "probability_at_least": 0.99}]}
    (tmp_path / "p.json").write_text(json.dumps(stated))
    done = opaq_command("frontier", tmp_path / "p.json", "--points", 3, "--against", "return")
    assert done.returncode == 1
    assert done.stdout == "no policy was found that meets the other requirements\n"


def test_dents_and_other_requirements_are_said() -> None:
    from dataclasses import replace

    front = library.frontier("two-sink", points=3)
    dented = replace(front, points=(front.points[0], replace(front.points[1], shortfall=0.01), front.points[2]))
    shown = render_text(frontier_page(dented), width=200)
    assert "not concave at 1.365 (by 0.01): mixtures of other points hide more" in shown
    other = render_text(frontier_page(replace(front, against="probability of x", complete=False)), width=200)
    assert "probability of x" in other.splitlines()[0]
    assert "ended before all points were found" in other
    assert dented.to_dict()["points"][1]["shortfall"] == 0.01


@pytest.mark.parametrize(
    "command",
    [("frontier", "two-sink", "--points", "2"), ("compare", "two-sink", "--classes", "state", "--starts", "1")],
)
def test_a_table_for_a_paper(opaq, command: tuple[str, ...]) -> None:
    done = opaq(*command, "--format", "latex", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("% needs \\usepackage{booktabs}\n")
    assert done.stdout.count("\\begin{table}") == done.stdout.count("\\end{table}") == 1
    both = opaq(*command, "--format", "latex", "--json", "-q")
    assert (both.returncode, both.stdout) == (2, "")
