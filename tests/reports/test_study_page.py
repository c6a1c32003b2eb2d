"""The page of a sweep or a front: its data are those of the journal and the front, its links lead to reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import opaq
from opaq.codec import decode
from opaq.errors import Faults, InputError
from opaq.opacity.amount import Amount
from opaq.reports.layout import render_text
from opaq.reports.page.cards import study_cards
from opaq.reports.page.render import render_study
from opaq.reports.study_page import StudyPage
from opaq.reports.text.study import short_names, study_page
from opaq.study.sweep.study import StudyPoint
from reports.study_examples import PLAN, example_study, front_of, front_page_data, hostile_data, unsure_front
from study.inline_executor import InlineExecutor


def data_in(file: Path) -> dict[str, Any]:
    html = file.read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/json" id="opaq-report">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(text)


def test_the_figures_are_those_of_the_journal(tmp_path: Path) -> None:
    study = example_study(tmp_path / "study")
    data = opaq.report(study).data
    told = study.to_dict()
    assert data["counts"] == told["counts"]
    assert (data["format"], data["kind"], data["source"]) == ("opaq-report", "study", "sweep")
    for shown, row in zip(data["points"], told["points"], strict=True):
        same = ("point", "parameters", "return", "guess_error", "upper_bound", "status", "seconds", "error")
        assert {key: shown[key] for key in same} == {key: row[key] for key in same}
        assert shown["opacity"] == row["opacity"]
    assert [point["feasible"] for point in data["points"]] == [True, True, False] * 2
    assert data["points"][data["best"]]["opacity"]["value"] == max(
        point.opacity.value for point in study.points if point.status not in ("infeasible", "not_found")
    )
    assert data["answer"].startswith("6 points: 6 done (2 infeasible).")


def test_a_sweep_and_its_points(tmp_path: Path) -> None:
    study = example_study(tmp_path / "study")
    page = tmp_path / "study.html"
    made = opaq.report(tmp_path / "study", output=page, points=3, runs=1)
    data = data_in(page)
    assert data == made.data
    linked = [index for index, point in enumerate(data["points"]) if point["report"]]
    order = sorted(
        range(6), key=lambda index: (not data["points"][index]["feasible"], -study.points[index].opacity.value)
    )
    assert linked == sorted(order[:3])
    assert sorted(path.name for path in (tmp_path / "study-points").iterdir()) == [
        Path(data["points"][index]["report"]).name for index in linked
    ]
    for index in linked:
        point = data_in(tmp_path / data["points"][index]["report"])
        assert point["kind"] == "problem"
        assert point["opacity"]["value"] == pytest.approx(study.points[index].opacity.value, abs=1e-9)
        assert point["measurement"]["horizon"] == study.points[index].parameters["horizon"]
        assert point["solution"]["status"] == study.points[index].status
    assert "3 of 6 points have a report of their own" in data["reports"]["text"]
    assert "3 left out" in data["reports"]["text"]
    assert set(re.findall(r"https?://[^'\"]+", page.read_text())) == {"http://www.w3.org/2000/svg"}


def test_what_is_there_stays(tmp_path: Path) -> None:
    study = example_study(tmp_path / "study")
    (tmp_path / "study-points").mkdir()
    (tmp_path / "study-points" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        opaq.report(study, output=tmp_path / "study.html")
    assert not (tmp_path / "study.html").exists()
    opaq.report(study, output=tmp_path / "study.html", points="none")
    assert data_in(tmp_path / "study.html")["reports"]["made"] == 0
    with pytest.raises(InputError, match="exists already"):
        opaq.report(study, output=tmp_path / "study.html", points="none")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy": "p.json"}, "policy: has no effect for a study"),
        ({"certificate": {}, "solution": {}}, "solution: has no effect for a study"),
        ({"points": "some"}, "points: is 'some'"),
        ({"points": True}, "points: is 'True'"),
        ({"points": -1}, "points: is '-1'"),
    ],
)
def test_what_does_not_fit_a_study(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        opaq.report(example_study(tmp_path / "study"), **arguments)


def test_a_problem_has_no_points() -> None:
    with pytest.raises(InputError, match="points: has no effect for a problem"):
        opaq.report("two-sink", points="all")


def test_a_front_and_its_points(tmp_path: Path) -> None:
    front = opaq.frontier("two-sink", points=3)
    stated = json.loads(json.dumps(front.to_dict()))
    data = opaq.report(front, output=tmp_path / "front.html", runs=1).data
    assert data == data_in(tmp_path / "front.html")
    assert data["source"] == "frontier"
    for shown, point in zip(data["points"], stated["points"], strict=True):
        assert shown["parameters"] == {"threshold": point["threshold"]}
        same = ("return", "opacity", "guess_error", "slope", "seconds")
        assert {key: shown[key] for key in same} == {key: point[key] for key in same}
        assert shown["upper_bound"] == point["upper_bound"]
        report = data_in(tmp_path / shown["report"])
        assert report["opacity"]["value"] == pytest.approx(point["opacity"]["value"], abs=1e-9)
        (met,) = [each for each in report["measurement"]["requirements"] if each["name"] == "return"]
        assert met["threshold"] == point["threshold"]
    assert data["front"] == [index for index in range(3) if not stated["points"][index]["carried"]]


def test_the_front_of_a_sweep_is_not_dominated(tmp_path: Path) -> None:
    data = opaq.report(example_study(tmp_path / "study")).data
    points = data["points"]
    pairs = {
        index: (point["return"], point["opacity"]["value"]) for index, point in enumerate(points) if point["feasible"]
    }
    close = 1e-4 * (max(pairs.values())[0] - min(pairs.values())[0])
    beaten = {
        one
        for one, (earned, hidden) in pairs.items()
        for other, (more, further) in pairs.items()
        if other != one and more >= earned - close and further >= hidden
    }
    assert set(data["front"]) == set(pairs) - beaten


def test_no_name_breaks_out_of_the_page() -> None:
    data = hostile_data()
    html = render_study(data)
    assert html.count("<script") == 3
    assert "<img" not in html
    (text,) = re.findall(r'id="opaq-report">(.*?)</script>', html, flags=re.DOTALL)
    assert json.loads(text) == data


def test_data_of_another_version_are_explained() -> None:
    html = render_study({**hostile_data(), "version": 2})
    assert "data of version 2" in html


def page_of_data(data: dict[str, Any]) -> StudyPage:
    page = decode(StudyPage, data, faults=Faults())
    assert page is not None
    return page


def test_a_front_speaks_of_what_its_task_is_about() -> None:
    data = front_page_data(front_of("guesswork"))
    assert data["question"] == "How large can the guesswork of yard be for how much return?"
    assert data["answer"] == (
        "2 points, from guesswork 1 guesses at a return of 0 to guesswork 0.4 guesses at a return of 1."
    )
    assert data["points"][data["best"]]["objective"]["value"] == 1.0
    assert {column["key"]: column["title"] for column in data["columns"]}["objective"] == "guesswork (guesses)"
    assert [card.title for card in study_cards(page_of_data(data))][1] == "Highest guesswork"
    assert "0.123" not in render_study(data).split('<script type="application/json"')[0]


def test_middles_of_intervals_are_no_findings_of_a_front() -> None:
    front = unsure_front()
    data = front_page_data(front)
    assert data["points"][data["best"]]["opacity"]["value"] == 0.6
    assert data["answer"].startswith("3 points, from about 0.6 (± 0.02) bits at")
    highest = study_cards(page_of_data(data))[1]
    assert highest.value == "0.600"
    assert "some only within intervals" in highest.how
    turned = front_page_data(replace(front, points=front.points[1:]))
    assert turned["answer"].startswith("2 points, from between 0 and 1.5 bits at")
    assert study_cards(page_of_data(turned))[1].value == "0.400"


def test_one_point_is_no_range() -> None:
    data = front_page_data(front_of("expected_loss", values=(0.4,)))
    assert data["answer"] == "1 point, expected loss 0.4 at a return of 0."


def test_the_page_of_a_task_that_reveals() -> None:
    data = front_page_data(front_of("opacity", minimise=True))
    assert "What is revealed, and what it costs" in render_study(data)
    assert [card.title for card in study_cards(page_of_data(data))][1] == "Lowest opacity"


def test_a_sweep_about_another_uncertainty_shows_it(tmp_path: Path) -> None:
    plan = {**PLAN, "over": {"task.of": ["guesswork"], "task.return_at_least": [1.4, 1.7]}}
    study = opaq.sweep(plan, output=tmp_path / "study", executor=InlineExecutor())
    for point, row in zip(study.points, study.to_dict()["points"], strict=True):
        assert row["objective"] == study.answer(point)["objective"]
        assert row["objective"]["of"] == "guesswork"
    assert "of,objective,objective_lower,objective_upper" in (tmp_path / "study" / "results.csv").read_text()
    assert "guesswork" in render_text(study_page(study)).splitlines()[0]
    data = opaq.report(study).data
    assert data["objective"] == {"direction": "maximise", "of": "guesswork"}
    best = max(point.objective.amount.value for point in study.points)
    assert data["points"][data["best"]]["objective"]["value"] == best
    assert "Guesswork " in data["answer"]
    assert opaq.load_study(tmp_path / "study").rows() == study.rows()


def wide_study() -> opaq.Study:
    paths = ("horizon", "task.return_at_least", "task.requirements.0.return_at_least", "observer.sensors.A.detects")
    amount = Amount(0.812345678, 0.8, 0.82, "exact")
    points = [
        StudyPoint(f"{number:04}", dict.fromkeys(paths, 0.25), "stopped", opacity=amount, expected_return=1.23456789)
        for number in (1, 2)
    ]
    return opaq.Study(Path("study"), "yard", tuple(points))


@pytest.mark.parametrize("width", [80, 100])
def test_a_table_of_many_parameters_fits_the_page(width: int) -> None:
    lines = render_text(study_page(wide_study(), width=width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split()[:3] == ["point", "opacity", "return"]
    assert lines[1].startswith("0001   0.812346")
    assert "stopped" in lines[1]
    words = " ".join(" ".join(lines).split())
    assert "task.return_at_least 0.25" in words or "requirements.0.return_at_least 0.25" in words


def test_paths_are_shortened_as_far_as_they_stay_apart() -> None:
    paths = ("horizon", "task.return_at_least", "task.requirements.0.return_at_least", "a.detects")
    assert list(short_names(paths).values()) == ["horizon", "task.return_at_least", "0.return_at_least", "detects"]
