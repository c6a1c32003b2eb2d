"""`opaq report` and `opaq solve --report`."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import opaq as opaq_library
from opaq import load
from opaq.cli.interrupts import interrupts
from opaq.cli.report import default_name
from opaq.reports.report_data import report_data
from opaq.solvers.compare import compare


def data_of(file: Path) -> dict:
    html = file.read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="opaq-report">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(text)


def test_the_path_is_the_answer(opaq, tmp_path: Path) -> None:
    done = opaq("report", "two-sink", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "two-sink-report.html\n", "")
    data = data_of(tmp_path / "two-sink-report.html")
    measured = json.loads(opaq("measure", "two-sink", "--json", "-q").stdout)
    assert data["opacity"] == measured["opacity"]
    assert data["problem_text"] == load.scenario_text("two-sink")
    assert [info["kind"] for info in data["run_info"]].count("sampled") == 6


def test_a_file_that_is_there_stays(opaq, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("mine")
    done = opaq("report", "two-sink", "-o", "mine.html", "-q")
    assert done.returncode == 2
    assert done.stderr == "opaq: mine.html: exists already; use --overwrite to overwrite it\n"
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert opaq("report", "two-sink", "-o", "mine.html", "-q", "--overwrite").returncode == 0
    assert data_of(tmp_path / "mine.html")["kind"] == "problem"
    assert opaq("report", "two-sink", "-o", "no/folder.html", "-q").returncode == 2
    assert opaq("report", "two-sink", "-o", ".", "-q").returncode == 2


def test_runs_seed_and_json(opaq, tmp_path: Path) -> None:
    done = opaq("report", "graph-published", "--runs", "2", "--seed", "7", "-o", "a.html", "--json", "-q")
    found = json.loads(done.stdout)
    assert found["report"] == "a.html"
    assert found["opacity"]["method"] == "exact"
    assert found["answer"].startswith("This policy hides 0.5822 of 1.474 bits")
    data = data_of(tmp_path / "a.html")
    assert [info["kind"] for info in data["run_info"]].count("sampled") == 2
    opaq("report", "graph-published", "--runs", "2", "--seed", "7", "-o", "b.html", "-q")
    assert data_of(tmp_path / "b.html")["runs"] == data["runs"]


def test_a_policy_with_its_answers(opaq, tmp_path: Path) -> None:
    solved = opaq(
        "solve", "two-sink", "--starts", "2", "--certify", "--json", "-q", "--save-policy", "p.json",
        "--run-folder", "run", "--report", "solved.html",
    )  # fmt: skip
    assert solved.returncode == 0
    (tmp_path / "s.json").write_text(solved.stdout)
    classes = ("--classes", "state;state,time", "--starts", "1", "--no-certify")
    compared = opaq("compare", "two-sink", *classes, "--json", "-q")
    (tmp_path / "c.json").write_text(compared.stdout)
    files = ("--answers", "s.json", "--answers", "c.json")
    done = opaq("report", "two-sink", "--policy", "p.json", *files, "-o", "a.html", "-q")
    assert (done.returncode, done.stdout) == (0, "a.html\n"), done.stderr
    found, direct, answer = data_of(tmp_path / "a.html"), data_of(tmp_path / "solved.html"), json.loads(solved.stdout)
    assert found["opacity"]["value"] == pytest.approx(answer["opacity"]["value"], abs=1e-12)
    assert found["solution"]["trace"] == direct["solution"]["trace"] == answer["trace"]
    assert found["certificate"]["upper_bound"] == direct["certificate"]["upper_bound"] == answer["upper_bound"]
    assert found["certificate"]["ladder"]
    assert [rung["class"] for rung in found["comparison"]["classes"]] == ["state", "state, time"]
    assert found["policy"]["given"] is True
    assert "no policy that meets the task exceeds" in found["answer"]
    assert opaq("report", "two-sink", "--answers", "run", "-o", "b.html", "-q").returncode == 0
    assert data_of(tmp_path / "b.html")["opacity"] == found["opacity"]

    assert (
        opaq("report", "two-sink", "--answers", "s.json", "-o", "c.html", "-q").returncode == 0
    )  # it holds its policy
    assert data_of(tmp_path / "c.html")["opacity"]["value"] == found["opacity"]["value"]
    without = opaq("report", "two-sink", "--answers", "s.json", "--policy", "uniform", "-o", "x.html", "-q")
    assert without.returncode == 2
    assert "opaq: s.json: is about another policy" in without.stderr
    other = opaq("report", "graph-published", "--answers", "c.json", "-o", "x.html", "-q")
    assert other.returncode == 2
    assert "opaq: c.json: is about the problem 'two-sink', not 'graph-published'" in other.stderr
    twice = opaq("report", "two-sink", "--answers", "s.json", "--answers", "s.json", "-o", "x.html", "-q")
    assert "holds a second solution" in twice.stderr
    both = opaq("report", "two-sink", "--answers", "run", "--certify", "-o", "x.html", "-q")
    assert "--certify: a certificate is given by --answers already" in both.stderr
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "holds no JSON object but a list"),
        ("{}", "holds no answer of opaq"),
        ('{"result": 3}', "bad.json: holds no answer of opaq"),
        ('{"result": "comparison"}', "bad.json: classes: is missing; give what opaq compare prints as JSON"),
        ('{"result": "run", "steps": [], "secret": ""}', "holds no answer of solve, certify or compare"),
    ],
)
def test_what_is_no_answer_is_refused(content: str, words: str, opaq, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(content)
    done = opaq("report", "two-sink", "--answers", "bad.json", "-q")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "two-sink-report.html").exists()


def test_certificate_and_comparison_are_computed_where_asked(opaq, tmp_path: Path) -> None:
    done = opaq("report", "two-sink", "--certify", "--compare", "--time-limit", "20", "-q", "-o", "a.html")
    data = data_of(tmp_path / "a.html")
    assert done.returncode == 0
    assert data["certificate"]["upper_bound"] == pytest.approx(0.5515, abs=1e-3)
    assert data["certificate"]["gap"] == pytest.approx(0.146, abs=2e-3)
    assert "state, time" in [rung["class"] for rung in data["comparison"]["classes"]]


def test_ctrl_c_while_comparing_leaves_the_comparison_out(
    opaq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        interrupts.act(signal.SIGINT)
        return compare(*arguments, **options)

    monkeypatch.setattr("opaq.reports.policy_report.compare_classes", interrupted)
    done = opaq("report", "two-sink", "--compare", "-q", "-o", "a.html")
    assert (done.returncode, done.stdout) == (130, "a.html\n")
    assert "opaq: the comparison is left out: interrupted\n" in done.stderr
    data = data_of(tmp_path / "a.html")
    assert data["comparison"] is None
    assert data["over_time"]["points"]


def test_what_there_is_no_time_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any, **options: Any) -> Any:
        data = report_data(*arguments, **options)
        sleep(2.1)  # longer than the limit of all
        return data

    monkeypatch.setattr("opaq.reports.policy_report.report_data", slowly)
    made = opaq_library.report("two-sink", certify=True, compare=True, time_limit=2.0, runs=1)
    assert made.left_out == (
        "the certificate is left out: the time limit was reached",
        "the comparison is left out: the time limit was reached",
    )
    assert made.data["certificate"] is made.data["comparison"] is None


def test_the_library_computes_what_the_command_does() -> None:
    made = opaq_library.report("two-sink", certify=True, compare=True, time_limit=20.0, runs=1)
    assert made.left_out == ()
    assert made.data["certificate"]["upper_bound"] == pytest.approx(0.5515, abs=1e-3)
    assert "state, time" in [rung["class"] for rung in made.data["comparison"]["classes"]]
    with pytest.raises(opaq_library.InputError, match="certify: has no effect for a study"):
        opaq_library.report(opaq_library.frontier("two-sink", points=2), certify=True)


def test_the_page_does_not_go_to_stdout(opaq, tmp_path: Path) -> None:
    done = opaq("report", "two-sink", "-o", "-", "-q")
    assert done.returncode == 2
    assert done.stderr.startswith("opaq: -o: '-' names no file")
    assert not (tmp_path / "-").exists()


def test_a_policy_of_another_model_names_the_option(opaq, tmp_path: Path) -> None:
    assert opaq("solve", "graph-published", "--starts", "1", "-q", "--save-policy", "p.json").returncode in (0, 3)
    done = opaq("report", "two-sink", "--policy", "p.json", "-q")
    assert "use its own problem, or give --ignore-model-mismatch" in done.stderr
    done = opaq("simulate", "two-sink", "--policy", "p.json", "-q")
    assert "use its own problem" in done.stderr
    assert "any" not in done.stderr.partition("use its own problem")[2].partition("\n")[0]


def test_a_report_that_cannot_be_written_does_not_cost_the_answer(opaq, tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text("mine")
    early = opaq("solve", "two-sink", "--starts", "1", "--json", "-q", "--report", "there.html")
    assert (early.returncode, early.stdout) == (2, "")  # said before the work, not after it
    (tmp_path / "gone").mkdir()
    from opaq.cli import solve

    def report_into_nowhere(*arguments: object, **options: object) -> None:
        (tmp_path / "gone").rmdir()
        real(*arguments, **options)

    real = solve._write_report
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "_write_report", report_into_nowhere)
        late = opaq("solve", "two-sink", "--starts", "1", "--json", "-q", "--report", "gone/r.html")
    assert late.returncode == 2
    assert json.loads(late.stdout)["status"] == "converged"
    assert "gone/r.html" in late.stderr


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("two-sink", "two-sink-report.html"),
        ("../../etc/passwd", "etc-passwd-report.html"),
        ("", "problem-report.html"),
        ("a b/c<d>\n", "a-b-c-d-report.html"),
        ("x" * 300, "x" * 100 + "-report.html"),
    ],
)
def test_the_default_name_is_a_file_here(name: str, file: str) -> None:
    assert default_name(name) == file
