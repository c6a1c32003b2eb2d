"""Laws between the points of a sweep: what is broken is said, what is no law is not; paths that vary together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount, Target
from opaq.reports.layout import render_text
from opaq.reports.study_page import StudyPage
from opaq.reports.text.study import study_page
from opaq.study.sweep.laws import find_broken_laws
from opaq.study.sweep.study import StudyPoint
from study.inline_executor import InlineExecutor

PROBLEM = {
    "opaq": 1,
    "model": {
        "states": ["s", "left", "right"],
        "actions": ["l", "r"],
        "start": {"s": 1},
        "transitions": {
            "s": {"l": "left", "r": {"right": 0.8, "left": 0.2}},
            "left": {"*": "right"},
            "right": {"*": "left"},
        },
        "rewards": {"right": 1},
    },
    "observer": {"sensors": {"A": {"covers": ["left"], "detects": 0.5}, "B": {"covers": ["right"], "detects": 0.5}}},
    "secret": {"last_state": ["left"]},
    "horizon": 1,
    "task": {"return_at_least": 0.1},
}
RATE, THRESHOLD = "observer.sensors.A.detects", "task.return_at_least"


def made(*values: tuple[dict[str, Any], float], minimise: bool = False) -> list[StudyPoint]:
    """Points with these parameters and values."""
    return [
        StudyPoint(
            f"{index:04}",
            parameters,
            "converged",
            opacity=Amount.exact(value),
            objective=Target.of_task(Shannon(), minimise=minimise, amount=Amount.exact(value)),
            feasible=True,
        )
        for index, (parameters, value) in enumerate(values, start=1)
    ]


def broken(points: list[StudyPoint], problem: dict[str, Any] | None = None, **options: Any) -> list[tuple[str, str]]:
    return [(law.point, law.other) for law in find_broken_laws(points, problem or PROBLEM, **options)]


def test_a_better_sensor_never_hides_more() -> None:
    assert broken(made(({RATE: 0.2}, 0.5), ({RATE: 0.6}, 0.4), ({RATE: 0.9}, 0.3))) == []
    assert broken(made(({RATE: 0.2}, 0.4), ({RATE: 0.6}, 0.5))) == [("0001", "0002")]
    assert broken(made(({RATE: 0.6}, 0.5), ({RATE: 0.2}, 0.4))) == [("0002", "0001")]
    assert broken(made(({RATE: 0.2}, 0.5 - 1e-7), ({RATE: 0.6}, 0.5))) == []  # what searches leave open


def test_what_is_revealed_at_least_does_not_rise_with_the_rate_either() -> None:
    points = made(({RATE: 0.2}, 0.4), ({RATE: 0.6}, 0.5), minimise=True)
    assert broken(points) == [("0002", "0001")]  # the better sensor's answer is too large
    assert "more than the 0.4 bits of point 0001" in find_broken_laws(points, PROBLEM)[0].text


def test_an_easier_task_never_hides_less() -> None:
    assert broken(made(({THRESHOLD: 0.2}, 0.4), ({THRESHOLD: 0.6}, 0.5))) == [("0001", "0002")]
    assert broken(made(({THRESHOLD: 0.2}, 0.5), ({THRESHOLD: 0.6}, 0.4))) == []
    assert broken(made(({THRESHOLD: None}, 0.4), ({THRESHOLD: 0.6}, 0.5))) == [("0001", "0002")]
    assert broken(made(({THRESHOLD: 0.2}, 0.5), ({THRESHOLD: 0.6}, 0.4), minimise=True)) == [("0001", "0002")]


def test_sensors_taken_out_or_changed_by_name() -> None:
    values = [({"sensors.A": None}, 0.3), ({"sensors.A": "keep"}, 0.4), ({"sensors.A": {"detects": 0.4}}, 0.5)]
    assert sorted(broken(made(*values))) == [("0001", "0002"), ("0001", "0003")]
    moved = [({"sensors.A": {"covers": ["s"]}}, 0.3), ({"sensors.A": "keep"}, 0.4)]
    assert broken(made(*moved)) == []  # neither sees a garbled version of what the other sees


def test_a_sensor_with_more_false_alarms_than_detections_keeps_to_no_law() -> None:
    alarms = json.loads(json.dumps(PROBLEM))
    alarms["observer"]["sensors"]["A"]["false_alarm"] = 0.5
    points = made(({RATE: 0.2}, 0.1), ({RATE: 0.5}, 0.5))  # at 0.5 it tells nothing
    assert broken(points, alarms) == []
    assert broken(made(({RATE: 0.6}, 0.1), ({RATE: 0.9}, 0.5)), alarms) == [("0001", "0002")]


def test_rates_that_rise_together() -> None:
    other = "observer.sensors.B.detects"
    rising = made(({RATE: 0.2, other: 0.3}, 0.1), ({RATE: 0.4, other: 0.6}, 0.2))
    assert broken(rising, together=(RATE, other)) == [("0001", "0002")]
    crossed = made(({RATE: 0.2, other: 0.6}, 0.1), ({RATE: 0.4, other: 0.3}, 0.2))
    assert broken(crossed, together=(RATE, other)) == []


def test_what_differs_in_more_is_not_compared() -> None:
    assert broken(made(({"horizon": 1}, 0.1), ({"horizon": 2}, 0.2))) == []
    assert broken(made(({"seed": 0, RATE: 0.2}, 0.1), ({"seed": 1, RATE: 0.6}, 0.2))) == []
    assert broken(made(({"solve.conditions": "state"}, 0.1), ({"solve.conditions": "state, time"}, 0.2))) == []
    hearing = {**PROBLEM, "policy": {"conditions_on": ["state", "observations"]}}
    assert broken(made(({RATE: 0.2}, 0.1), ({RATE: 0.6}, 0.2)), hearing) == []  # it sees more with a better sensor


def test_intervals_and_estimates_break_a_law_only_where_it_is_sure() -> None:
    points = made(({RATE: 0.2}, 0.4), ({RATE: 0.6}, 0.5))
    for amount in (Amount.between(0.3, 0.55), Amount.estimate(0.4, 0, 1, standard_error=0.05)):
        assert points[0].objective is not None
        points[0] = replace(points[0], objective=replace(points[0].objective, amount=amount))
        assert broken(points) == []


def test_a_point_without_a_policy_where_its_neighbour_has_one() -> None:
    first, second = made(({THRESHOLD: 0.2}, 0.4), ({THRESHOLD: 0.6}, 0.3))
    laws = find_broken_laws([replace(first, feasible=False), second], PROBLEM)
    assert "has no policy that meets its task" in laws[0].text
    assert broken([first, replace(second, feasible=False)]) == []


def test_garbling_lowers_no_opacity_of_any_policy() -> None:
    """The law itself, by measuring: random policies under two rates."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        low, high = np.sort(rng.uniform(0.1, 1, 2))
        problems = []
        for rate in (low, high):
            spec = json.loads(json.dumps(PROBLEM))
            spec["observer"]["sensors"]["A"] |= {"detects": float(rate), "false_alarm": 0.1}
            problems.append(opaq.build_problem(spec))
        share = float(rng.random())
        rows = {(state,): {"l": share, "r": 1 - share} for state in ("s", "left", "right")}
        policy = opaq.Policy(problems[0].policy_class, rows)
        worse, better = (opaq.measure(problem, policy).opacity.value for problem in problems)
        assert worse >= better - 1e-12


def test_a_study_says_which_law_its_short_searches_break(tmp_path: Path) -> None:
    plan = {
        "opaq-sweep": 1,
        "problem": PROBLEM,
        "over": {RATE: [0.2, 0.9]},
        "solve": {"starts": 1},
    }
    study = opaq.sweep(plan, output=tmp_path / "study", executor=InlineExecutor())
    assert study.broken_laws == ()
    points = tuple(made(({RATE: 0.2}, 0.4), ({RATE: 0.9}, 0.5)))
    laws = find_broken_laws(points, PROBLEM)
    short = replace(study, points=points, broken_laws=laws)
    assert opaq.Study.from_dict(short.to_dict()).broken_laws == laws
    assert f"a law is broken: {laws[0].text}" in render_text(study_page(short), width=1000)
    assert StudyPage.of_sweep(short).warnings == (f"A law is broken: {laws[0].text}.",)
    assert opaq.load_study(tmp_path / "study").broken_laws == ()


def test_points_that_vary_together_hand_each_other_their_policies(tmp_path: Path) -> None:
    other = "observer.sensors.B.detects"
    plan = {
        "opaq-sweep": 1,
        "problem": PROBLEM,
        "together": [{RATE: rate, other: rate} for rate in (0.2, 0.5, 0.9)],
        "over": {"horizon": [1, 2]},
        "solve": {"starts": 1},
    }
    study = opaq.sweep(plan, output=tmp_path / "study", executor=InlineExecutor())
    assert [dict(point.parameters) for point in study.points] == [
        {"horizon": horizon, RATE: rate, other: rate} for horizon in (1, 2) for rate in (0.2, 0.5, 0.9)
    ]
    assert study.points[1].warm_from == "0001"
    values = [point.opacity.value for point in study.points if point.opacity is not None]
    assert values[:3] == sorted(values[:3], reverse=True)
    again = opaq.sweep(plan, output=tmp_path / "study", executor=InlineExecutor())
    assert again.points == study.points
    changed = {**plan, "together": [{RATE: rate, other: rate} for rate in (0.2, 0.5, 0.8)]}
    with pytest.raises(opaq.InputError, match="together"):
        opaq.sweep(changed, output=tmp_path / "study", executor=InlineExecutor())
