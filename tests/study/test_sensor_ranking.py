"""Sensors removed and changed, against problem files edited by hand and the laws of coarser observers."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import yaml

import opaq
from opaq.load import problem_text
from opaq.model.conditions import CurrentState, Observations
from opaq.model.policy import PolicyClass
from opaq.opacity.amount import Amount
from opaq.opacity.measure import with_opacity
from opaq.opacity.policies import as_policy
from opaq.reports.layout import render_text
from opaq.reports.text.sensors import ranking_page
from opaq.solvers.solve import solve
from opaq.study.sensors import Change, SensorRanking, _gain, _sort_trials, find_sensors
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
        assert trial.gain.value == pytest.approx(told.opacity.value - ranking.base.opacity.value, abs=1e-12)


def test_what_sensors_cover_is_what_the_file_says() -> None:
    ranking = opaq.sensors(opaq.build_problem(OVERLAPPING), fixed=True, null="quiet")
    assert ranking.coverage["A"] == pytest.approx({"(1,0)": 0.8, "(1,1)": 0.8})
    assert ranking.coverage["B"] == pytest.approx({"(1,1)": 0.6, "(2,0)": 0.6, "(2,1)": 0.6})
    assert ranking.coverage["C"] == pytest.approx({"(2,1)": 0.9})


def test_the_sensor_that_costs_most_comes_first() -> None:
    ranking = opaq.sensors(opaq.build_problem(GRID), fixed=True)
    costs = [cost.value for cost in ranking.costs.values()]
    assert costs == sorted(costs, reverse=True)
    assert [trial.change for trial in ranking.trials[:3]] == ["removed", "x0.5", "1"]
    assert set(ranking.costs) == set("ABCDE")
    assert [each["sensor"] for each in ranking.to_dict()["sensors"]] == list(ranking.costs)
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
            assert trial.gain.value >= -1e-9, trial


def _least_rate(problem: opaq.Problem, sensor: str) -> float:
    emission = problem.observer.emission.dense()
    named = [sensor in name.split("+") for name in problem.observer.observations]
    return float(emission[:, named].sum(axis=1).min())


def test_changed_observers_are_still_distributions() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        problem = random_problem(rng, watches_actions=False)
        sensors = find_sensors(problem.observer)
        for name in sensors.names:
            for change in ("x0.3", "x7", "1", "0.4"):
                changed = sensors.with_rate(name, Change.parse(change))
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
        sensors = find_sensors(problem.observer)
        observer = (
            sensors.without(trial.sensor)
            if trial.change == "removed"
            else sensors.with_rate(trial.sensor, Change.parse(trial.change))
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

    ranking = opaq.sensors(opaq.build_problem(GRID), fixed=True, stop=stop, on_trial=noted, workers=1)
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
    assert "no policy meets the task with the sensors as they are" in render_text(ranking_page(ranking))
    assert "ended before" not in render_text(ranking_page(ranking))


LINE = {  # three states; what the sensors are is for each test to say
    "opaq": 1,
    "model": {
        "states": ["s0", "s1", "s2"],
        "actions": ["a"],
        "start": "s0",
        "transitions": {
            "s0": {"a": {"s0": 0.3, "s1": 0.4, "s2": 0.3}},
            "s1": {"a": {"s1": 0.5, "s2": 0.5}},
            "s2": {"a": {"s2": 0.6, "s0": 0.4}},
        },
    },
    "secret": {"last_state": ["s1"]},
    "horizon": 3,
}
EVERYWHERE = {"covers": ["s0", "s1", "s2"], "detects": 1}
STATED = {
    "one sure sensor covers everything": {"A": EVERYWHERE, "B": {"covers": ["s1"], "detects": 0.6, "false_alarm": 0.1}},
    "two sure sensors": {"A": EVERYWHERE, "B": {"covers": ["s1"], "detects": 1}},
    "a sure one alone": {"A": {"covers": ["s1", "s2"], "detects": 1}},
    "the same range twice": {"A": {"covers": ["s1"], "detects": 0.5}, "B": {"covers": ["s1"], "detects": 0.5}},
    "as often elsewhere": {"A": {"covers": ["s1"], "detects": 0.3, "false_alarm": 0.3}},
    "more often elsewhere": {"A": {"covers": ["s1"], "detects": 0.1, "false_alarm": 0.6}},
    "never": {"A": {"covers": ["s1"], "detects": 0}, "B": {"covers": [], "detects": 0.4}, "C": EVERYWHERE},
}


@pytest.mark.parametrize("null", [None, "quiet", "Z"])
@pytest.mark.parametrize("sensors", STATED.values(), ids=STATED)
def test_stated_sensors_keep_their_names_ranges_and_rates(sensors: dict, null: str | None) -> None:
    stated = LINE | {"observer": {"sensors": sensors} | ({} if null is None else {"null": null})}
    problem = opaq.build_problem(stated)
    ranking = opaq.sensors(problem, fixed=True, changes=["x0.5", "0.9"])
    assert {name: dict(covers) for name, covers in ranking.coverage.items()} == {
        name: dict.fromkeys(sensor["covers"], sensor["detects"]) for name, sensor in sensors.items()
    }
    assert ranking.null == (null or "null")
    told = {each["sensor"]: each for each in ranking.to_dict()["sensors"]}
    assert {name: told[name]["detects"] for name in sensors} == {name: one["detects"] for name, one in sensors.items()}
    assert "inferred" not in render_text(ranking_page(ranking))
    assert len(ranking.trials) == 3 * len(sensors)
    for trial in ranking.trials:
        if trial.change == "removed" and len(sensors) == 1:
            alone = LINE | {"observer": {"emissions": {"*": {"none": 1}}}}
        else:
            alone = opaq.problem_to_dict(edited(stated, trial.sensor, trial.change))
        by_hand = opaq.measure(opaq.build_problem(alone)).opacity.value
        assert trial.measurement.opacity.value == pytest.approx(by_hand, abs=1e-12), trial


def test_sensors_of_emissions_are_inferred_and_that_is_said() -> None:
    ranking = opaq.sensors("two-sink", fixed=True, changes=[])
    assert not ranking.stated
    assert ranking.to_dict()["stated"] is False
    assert "no sensors are stated: names, ranges and rates are inferred from the observations" in render_text(
        ranking_page(ranking)
    )


def test_stated_sensors_have_their_own_null() -> None:
    problem = opaq.build_problem(LINE | {"observer": {"sensors": STATED["two sure sensors"], "null": "quiet"}})
    with pytest.raises(opaq.InputError, match=r"'A' is not what .* that is 'quiet'"):
        opaq.sensors(problem, null="A")


def with_gains(*amounts: Amount) -> SensorRanking:
    """A ranking of sensors A, B, ... of a grid, each of which was only removed, with these opacities left."""
    ranking = opaq.sensors(opaq.build_problem(GRID), fixed=True, changes=[])
    trials = []
    for trial, amount in zip(sorted(ranking.trials, key=lambda each: each.sensor), amounts, strict=False):
        measurement = with_opacity(trial.measurement, amount)
        gain = _gain(measurement, ranking.base, never_less=True)
        trials.append(dataclasses.replace(trial, measurement=measurement, gain=gain))
    costs = {trial.sensor: trial.gain for trial in trials}
    sensors = tuple(dataclasses.replace(each, cost=costs.get(each.name)) for each in ranking.sensors)
    return dataclasses.replace(ranking, trials=_sort_trials(trials), sensors=sensors)


def test_an_interval_that_says_nothing_is_no_gain() -> None:
    nothing, tight = Amount.between(0.0, 1.5), Amount.between(0.20, 0.21)
    sampled = Amount(0.15, 0.0, 1.5, "sampled", 0.01)
    ranking = with_gains(nothing, tight, sampled, Amount.exact(0.11))
    base = ranking.base.opacity.value
    assert list(ranking.costs) == ["B", "C", "D", "A"]  # by what is proven or estimated, not by middles
    told = {each["sensor"]: each for each in ranking.to_dict()["sensors"]}
    assert (told["A"]["cost"]["lower"], told["A"]["cost"]["upper"]) == pytest.approx((0.0, 1.5 - base))
    assert told["A"]["cost"]["method"] == "interval"
    assert told["C"]["cost"]["value"] == pytest.approx(0.15 - base)
    assert told["C"]["cost"]["standard_error"] == 0.01
    page = render_text(ranking_page(ranking))
    assert f"[+0.0000, {1.5 - base:+.4f}]" in page
    assert f"{0.15 - base:+.4f} ± 0.01" in page
    assert f"{0.75 - base:+.5f}" not in page
    assert "gains in brackets are known to lie between the two; they are ranked by the lower end" in page


def test_a_gain_is_as_uncertain_as_both_of_its_ends() -> None:
    exact, sampled = Amount.exact(0.5), Amount(0.7, 0.1, 1.0, "sampled", 0.03)
    assert Amount.exact(0.7).minus(exact) == Amount.exact(0.7 - 0.5)
    assert sampled.minus(exact) == Amount(0.7 - 0.5, 0.1 - 0.5, 0.5, "sampled", 0.03)
    assert sampled.minus(Amount(0.7, 0.0, 1.0, "sampled", 0.04)).standard_error == pytest.approx(0.05)
    assert sampled.minus(Amount.between(0.2, 0.4)) == Amount.between(0.1 - 0.4, 0.8)


def test_a_search_begins_from_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    from opaq.study import sensors as module

    begun = []
    search = module.solve

    def watch(problem, **options):
        begun.append(options["initial_policy"])
        return search(problem, **options)

    monkeypatch.setattr(module, "solve", watch)
    best = opaq.solve("two-sink", starts=2).policy
    options = opaq.SolveOptions(starts=1)
    ranking = opaq.sensors("two-sink", initial_policy=best, changes=[], options=options)
    assert begun[0] == best
    assert ranking.base.opacity >= opaq.measure("two-sink", best).opacity.value - 1e-9
    table = ranking.to_dataframe()
    assert table["gain"].tolist() == [trial.gain.value for trial in ranking.trials]
    opaq.sensors("two-sink", initial_policy="return-optimal", changes=[], options=options)
    assert begun[3] == opaq.return_optimal_policy(opaq.load_problem("two-sink"))
    with pytest.raises(opaq.InputError, match="initial_policy: has no effect on a policy that is fixed"):
        opaq.sensors("two-sink", fixed=True, initial_policy=best)
    with pytest.raises(opaq.InputError, match="both say where the search begins"):
        opaq.sensors("two-sink", best, initial_policy=best)


def test_searches_that_were_too_short_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a sensor no less can be hidden than with half its rate; a search that ends below has missed it."""
    problem, searched = opaq.build_problem(OVERLAPPING), solve
    halved = find_sensors(problem.observer).with_rate("A", Change.parse("x0.5"))

    def hurry(changed: opaq.Problem, **given: object) -> opaq.Solution:
        """Search one trial, and take the uniform policy for all others."""
        solution = searched(changed, **given)  # type: ignore[arg-type]
        if changed.observer == halved:
            return solution
        uniform = as_policy("uniform", changed, within=given["policy_class"])  # type: ignore[arg-type]
        return dataclasses.replace(solution, policy=uniform, measurement=opaq.measure(changed, uniform))

    assert opaq.sensors(problem, changes=["x0.5"]).broken_laws == ()
    monkeypatch.setattr("opaq.study.sensors.solve", hurry)
    ranking = opaq.sensors(problem, changes=["x0.5"])
    assert [(law.point, law.other) for law in ranking.broken_laws] == [("A removed", "A x0.5")]
    hidden = {trial.change: trial.measurement.opacity.value for trial in ranking.trials if trial.sensor == "A"}
    assert hidden["removed"] < hidden["x0.5"]
    assert "a law is broken: A removed reaches" in " ".join(render_text(ranking_page(ranking)).split())
    assert SensorRanking.from_dict(ranking.to_dict()).broken_laws == ranking.broken_laws
