"""`opaq report` for sweeps and fronts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reports.study_examples import example_study


def data_of(file: Path) -> dict:
    html = file.read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="opaq-report">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(text)


def test_a_folder_is_recognised(opaq, tmp_path: Path) -> None:
    example_study(tmp_path / "swept")
    done = opaq("report", "swept", "--points", "1", "--runs", "1", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "swept-report.html\n", "")
    data = data_of(tmp_path / "swept-report.html")
    (linked,) = [point["report"] for point in data["points"] if point["report"]]
    assert data_of(tmp_path / linked)["kind"] == "problem"
    again = opaq("report", "swept", "-q")
    assert again.returncode == 2
    assert "swept-report.html: exists already; use --overwrite to overwrite it" in again.stderr
    told = json.loads(opaq("report", "swept", "--points", "none", "--overwrite", "--json", "-q").stdout)
    assert told["counts"] == data["counts"]
    assert told["reports"]["made"] == 0


def test_a_front_with_its_policies(opaq, tmp_path: Path) -> None:
    front = opaq("frontier", "two-sink", "--points", "2", "--save-policies", "found", "--json", "-q")
    (tmp_path / "front.json").write_text(front.stdout)
    assert opaq("report", "front.json", "-o", "front.html", "--runs", "1", "-q").returncode == 0
    data = data_of(tmp_path / "front.html")
    stated = json.loads(front.stdout)
    for shown, point in zip(data["points"], stated["points"], strict=True):
        assert shown["opacity"] == point["opacity"]
        report = data_of(tmp_path / shown["report"])
        assert report["opacity"]["value"] == pytest.approx(point["opacity"]["value"], abs=1e-9)
    (tmp_path / "found").rename(tmp_path / "elsewhere")
    assert opaq("report", "front.json", "-o", "without.html", "-q").returncode == 0
    assert data_of(tmp_path / "without.html")["reports"]["made"] == 0
    assert opaq("report", "front.json", "-o", "with.html", "--policies", "elsewhere", "-q").returncode == 0
    assert data_of(tmp_path / "with.html")["reports"]["made"] == 2


def test_what_does_not_fit_is_refused(opaq, tmp_path: Path) -> None:
    example_study(tmp_path / "swept")
    done = opaq("report", "swept", "--policy", "p.json", "--certify", "--compare", "-q")
    assert done.returncode == 2
    for flag in ("--policy", "--certify", "--compare"):
        assert f"{flag}: has no effect for a study; its points have policies of their own" in done.stderr
    assert "--points: is 'some'" in opaq("report", "swept", "--points", "some", "-q").stderr
    assert "--points: has no effect for a problem" in opaq("report", "two-sink", "--points", "2", "-q").stderr
    (tmp_path / "empty").mkdir()
    assert "give the folder of a sweep" in opaq("report", "empty", "-q").stderr
    (tmp_path / "bad.json").write_text('{"result": "frontier", "points": [{"opacity": 3}]}')
    bad = opaq("report", "bad.json", "-q")
    assert bad.returncode == 2
    assert "points[0].opacity: is 3, not a mapping; give what opaq frontier prints as JSON" in bad.stderr
    assert "Traceback" not in bad.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_a_point_whose_files_are_gone_is_said(opaq, tmp_path: Path) -> None:
    example_study(tmp_path / "swept")
    (tmp_path / "swept" / "problem.yaml").unlink()
    done = opaq("report", "swept")
    assert done.returncode == 0
    assert "6 could not be made" in done.stderr
    assert "problem.yaml" in done.stderr
    assert data_of(tmp_path / "swept-report.html")["reports"]["made"] == 0


@pytest.mark.parametrize("more", [(), ("--points", "all")])
def test_what_is_not_there_is_said(opaq, more: tuple[str, ...]) -> None:
    done = opaq("report", "nosuch", *more, "-q")
    assert done.returncode == 2
    assert (
        "nosuch: there is no such file, folder or scenario; give a problem file, the folder of a sweep" in done.stderr
    )


def test_an_answer_is_not_a_problem(opaq, tmp_path: Path) -> None:
    answer = {"result": "frontier", "problem": "two-sink", "against": "return", "points": []}
    (tmp_path / "front.json").write_text(json.dumps(answer))
    done = opaq("frontier", "front.json", "-q")
    assert done.returncode == 2
    assert (
        done.stderr == "opaq: front.json: is the answer of a command (--json), not a problem; give a problem itself\n"
    )
