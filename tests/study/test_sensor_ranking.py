"""Sensors removed and changed, against problem files edited by hand and the laws of coarser observers."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import yaml

import opaq
from opaq.loading.scenarios import problem_text
from opaq.model.conditions import CurrentState, Observations
from opaq.model.policy import PolicyClass
from opaq.reports.sensor_text import ranking_to_dict, render_ranking
from opaq.study.sensor_channels import Change, Sensors
from random_problems import random_policy, random_problem

GRID = yaml.safe_load(problem_text("grid-last-state-4"))
GRID["task"] = {}
OVERLAPPING = {  # on a grid of 3 x 2 cells; B sees most cells, and both give false alarms
    "opaq": 1,
    "grid": {"width": 3, "height": 2, "start": [0, 0], "slip": 0.1, "labels": {"secret": [[2, 1], [1, 0]]}},
    "observer": {
        "sensors": {
            "A": {"covers": [[1, 0], [1, 1]], "detects": 0.8, "false_alarm": 0.05},
            "B": {"covers": [[1, 1], [2, 0], [2, 1]], "detects": 0.6, "false_alarm": 0.1},
            "C": {"covers": [[2, 1]], "detects": 0.9},
        },
        "null": "quiet",
    },
    "secret": {"last_state": "secret"},
    "horizon": 4,
}


def edited(stated: dict, sensor: str, change: str) -> opaq.Problem:
    """The problem with one sensor removed, or with another rate, as a user would write it."""
    stated = copy.deepcopy(stated)
    sensors = stated["observer"]["sensors"]
    if change == "removed":
        del sensors[sensor]
    elif change.startswith("x"):
        sensors[sensor]["detects"] = min(1.0, sensors[sensor]["detects"] * float(change[1:]))
    else:
        sensors[sensor]["detects"] = float(change)
    return opaq.build_problem(stated)


@pytest.mark.parametrize(("stated", "null"), [(GRID, None), (OVERLAPPING, "quiet")], ids=["grid", "overlapping"])
def test_every_trial_is_the_file_edited_by_hand(stated: dict, null: str | None) -> None:
    changes = ["x0.5", "x1.2", "1", "0.3"]
    ranking = opaq.sensors(opaq.build_problem(stated), fixed=True, changes=changes, null=null)
    assert len(ranking.trials) == 5 * len(stated["observer"]["sensors"])
    for trial in ranking.trials:
        told = opaq.measure(edited(stated, trial.sensor, trial.change))
        assert trial.measurement.opacity.value == pytest.approx(told.opacity.value, abs=1e-12), trial
        assert trial.gain == pytest.approx(told.opacity.value - ranking.base.opacity.value, abs=1e-12)


def test_what_sensors_cover_is_what_the_file_says() -> None:
    ranking = opaq.sensors(opaq.build_problem(OVERLAPPING), fixed=True, null="quiet")
    assert ranking.coverage["A"] == pytest.approx({"(1,0)": 0.8, "(1,1)": 0.8})
    assert ranking.coverage["B"] == pytest.approx({"(1,1)": 0.6, "(2,0)": 0.6, "(2,1)": 0.6})
    assert ranking.coverage["C"] == pytest.approx({"(2,1)": 0.9})


def test_the_sensor_that_costs_most_comes_first() -> None:
    ranking = opaq.sensors(opaq.build_problem(GRID), fixed=True)
    costs = list(ranking.costs.values())
    assert costs == sorted(costs, reverse=True)
    assert [trial.change for trial in ranking.trials[:3]] == ["removed", "x0.5", "1"]
    assert set(ranking.costs) == set("ABCDE")
    assert [each["sensor"] for each in ranking_to_dict(ranking)["sensors"]] == list(ranking.costs)
    assert all(trial.status is None for trial in ranking.trials)


@pytest.mark.parametrize("seed", range(12))
def test_a_policy_that_stays_the_same_never_hides_less_from_fewer_or_weaker_sensors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, budget=1500)
    policy = random_policy(rng, problem)
    ranking = opaq.sensors(problem, policy, fixed=True, changes=["x0.5", "0"])
    for trial in ranking.trials:
        assert trial.measurement.expected_return == ranking.base.expected_return
        silent = _least_rate(problem, trial.sensor) == 0
        if trial.change == "removed" or silent:  # one that gives false alarms may tell more when it detects less
            assert trial.gain >= -1e-9, trial


def _least_rate(problem: opaq.Problem, sensor: str) -> float:
    emission = problem.observer.emission.dense()
    named = [sensor in name.split("+") for name in problem.observer.observations]
    return float(emission[:, named].sum(axis=1).min())


def test_changed_observers_are_still_distributions() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        problem = random_problem(rng, watches_actions=False)
        sensors = Sensors.of(problem.observer)
        for name in sensors.names:
            for change in ("x0.3", "x7", "1", "0.4"):
                changed = sensors.with_rate(name, Change.of(change))
                assert changed.emission.row_sums() == pytest.approx(1.0)
                assert changed.observations == problem.observer.observations
            assert sensors.without(name).emission.row_sums() == pytest.approx(1.0)


def test_what_is_seen_after_actions_changes_as_well() -> None:
    stated = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    stated["observer"] |= {"after_action": {"b": {"q0": {"N": 1}, "q1": {"R": 1}, "q2": {"B": 0.9, "N": 0.1}}}}
    ranking = opaq.sensors(opaq.build_problem(stated), fixed=True, changes=[])
    after = stated["observer"]["after_action"]["b"] | {"q1": {"N": 1}}
    emissions = stated["observer"]["emissions"] | {"q1": {"N": 1}}
    stated["observer"] |= {"emissions": emissions, "after_action": {"b": after}}
    (trial,) = [trial for trial in ranking.trials if trial.sensor == "R"]
    told = opaq.measure(opaq.build_problem(stated))
    assert trial.measurement.opacity.value == pytest.approx(told.opacity.value, abs=1e-12)


def test_every_trial_is_solved_again() -> None:
    ranking = opaq.sensors("two-sink", changes=["x0.5"])
    assert not ranking.fixed
    assert ranking.base.opacity.value == pytest.approx(0.408835, abs=1e-5)
    problem = opaq.load_problem("two-sink")
    for trial in ranking.trials:
        sensors = Sensors.of(problem.observer)
        observer = (
            sensors.without(trial.sensor)
            if trial.change == "removed"
            else sensors.with_rate(trial.sensor, Change.of(trial.change))
        )
        changed = dataclasses.replace(problem, observer=observer)
        alone = opaq.solve(changed).measurement.opacity.value
        assert trial.measurement.opacity.value == pytest.approx(alone, abs=1e-4)
        assert trial.measurement.opacity.value >= opaq.measure(changed, ranking.policy).opacity.value


def test_policies_that_look_at_observations_are_searched_but_not_kept() -> None:
    problem = opaq.load_problem("two-sink")
    aware = dataclasses.replace(problem, policy_class=PolicyClass(conditions=(CurrentState(), Observations(1))))
    with pytest.raises(opaq.InputError, match="change with the sensors"):
        opaq.sensors(aware, fixed=True)
    ranking = opaq.sensors(aware, changes=[])
    assert ranking.complete
    assert len(ranking.trials) == 2


def test_a_request_to_stop_leaves_the_trials_so_far() -> None:
    stop, seen = opaq.Stop(), []

    def noted(trial: opaq.SensorTrial) -> None:
        seen.append(trial)
        stop.request()

    ranking = opaq.sensors(opaq.build_problem(GRID), fixed=True, stop=stop, on_trial=noted, processes=1)
    assert ranking.interrupted
    assert not ranking.complete
    assert len(ranking.trials) == len(seen) == 1


@pytest.mark.parametrize("change", ["half", "x-1", "1.5", "nan", ""])
def test_changes_that_are_none_are_refused(change: str) -> None:
    with pytest.raises(opaq.InputError, match="is no change of a rate"):
        opaq.sensors("two-sink", changes=[change])


def test_an_unknown_null_is_refused() -> None:
    with pytest.raises(opaq.InputError, match="'dark' is no observation"):
        opaq.sensors("two-sink", null="dark")


def test_a_task_that_no_policy_meets_is_said() -> None:
    stated = GRID | {"task": {"return_at_least": 1e6}}
    ranking = opaq.sensors(opaq.build_problem(stated))
    assert "no policy meets the task with the sensors as they are" in render_ranking(ranking)
    assert "ended before" not in render_ranking(ranking)
