"""Plans: every fault at once with its line, the points they make, and what is changed where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import opaq
from opaq.load import FolderSources
from opaq.spec.problem_part import build_problem
from opaq.study.sweep.plan import SweepPlan, SweepPoint, change_at_path, plan_schema, read_plan, with_sensor
from opaq.study.sweep.points import check_plan, check_points, options_with, spec_with

GRID = "grid-last-state-4"


def problem_of(plan: SweepPlan, point: SweepPoint) -> opaq.Problem:
    return build_problem(spec_with(plan.problem, point.parameters), sources=FolderSources(plan.folder))


def points_of(**plan: Any) -> list[Any]:
    return check_points(read_plan({"opaq-sweep": 1, "problem": "two-sink", **plan}))


def faults_of(text: str, tmp_path: Path) -> list[str]:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    with pytest.raises(opaq.InputError) as refused:
        check_points(read_plan(file))
    assert refused.value.source == str(file)
    return [str(fault) for fault in refused.value.faults]


def test_a_value_is_changed_where_its_path_leads() -> None:
    spec = {"task": {"requirements": [{"reach": "x"}, {"reach": "y"}]}, "rewards": {"a.b": 1, 7: 2}}
    assert change_at_path(spec, "task.requirements[1].reach", "z")["task"]["requirements"] == [
        {"reach": "x"},
        {"reach": "z"},
    ]
    assert change_at_path(spec, "task.requirements.0", None)["task"]["requirements"] == [{"reach": "y"}]
    assert change_at_path(spec, "rewards.a.b", 3)["rewards"] == {"a.b": 3, 7: 2}
    assert change_at_path(spec, "rewards.7", 3)["rewards"] == {"a.b": 1, 7: 3}
    assert change_at_path(spec, "policy.conditions_on", ["state"])["policy"] == {"conditions_on": ["state"]}
    assert "task" not in change_at_path(spec, "task", None)
    assert spec["rewards"] == {"a.b": 1, 7: 2}


@pytest.mark.parametrize("path", ["task.requirements.2.reach", "task.requirements.x", "task.over.deep"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    spec = {"task": {"requirements": [{"reach": "x"}, {"reach": "y"}], "over": "horizon"}}
    with pytest.raises(opaq.InputError, match=r"has no entry|has no keys"):
        change_at_path(spec, path, 1)


def test_sensors_are_kept_changed_removed_and_added() -> None:
    sensor = {"covers": [[3, 1]], "detects": 0.7}
    spec = {"observer": {"sensors": {"A": sensor, "B": sensor}}}

    def sensors(name: str, change: Any) -> Any:
        return with_sensor(spec, name, change)["observer"]["sensors"]

    assert sensors("A", "keep") == {"A": sensor, "B": sensor}
    assert sensors("A", {"detects": 0.9})["A"] == {"covers": [[3, 1]], "detects": 0.9}
    assert sensors("A", None) == {"B": sensor}
    assert sensors("C", sensor) == {"A": sensor, "B": sensor, "C": sensor}
    with pytest.raises(opaq.InputError, match="no such sensor"):
        sensors("C", None)


def test_the_points_are_the_product_and_the_list() -> None:
    plan = {"over": {"horizon": [2, 3], "seed": [0, 1]}, "points": [{"horizon": 5}, {"horizon": 2, "seed": 1}]}
    points = points_of(**plan, solve={"starts": 1})
    assert [dict(point.parameters) for point in points] == [
        {"horizon": 2, "seed": 0},
        {"horizon": 2, "seed": 1},
        {"horizon": 3, "seed": 0},
        {"horizon": 3, "seed": 1},
        {"horizon": 5},
    ]
    assert [options_with({}, point.parameters).get("seed") for point in points] == [0, 1, 0, 1, None]
    assert options_with({"starts": 1}, points[0].parameters) == {"starts": 1, "seed": 0}
    assert len({point.fingerprint for point in points}) == 5


def test_the_problem_of_a_point_is_what_the_plan_says() -> None:
    plan = read_plan(
        {
            "opaq-sweep": 1,
            "problem": GRID,
            "over": {"policy.conditions_on": [["state", "time"]], "task.return_at_least": [None]},
            "sensors": {"A": [None, {"covers": [[0, 0]]}, "keep"]},
        }
    )
    without, moved, kept = (problem_of(plan, point) for point in check_points(plan))
    assert without.policy_class.conditions_on == ("state", "time")
    assert without.task.return_at_least is None
    assert without.observer != moved.observer != kept.observer
    assert kept.observer == opaq.load_problem(GRID).observer
    spec = yaml.safe_load(opaq.scenario_text(GRID))
    del spec["observer"]["sensors"]["A"]
    assert without.observer == opaq.build_problem(spec).observer


def test_paths_in_the_problem_stay_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    spec = yaml.safe_load(opaq.scenario_text("two-sink"))
    automaton = "digraph { init [shape=point]; init -> a; a -> b [label=secret]; b [shape=doublecircle] }"
    (tmp_path / "inner" / "reached.dot").write_text(automaton)
    spec["secret"] = {"automaton": {"file": "reached.dot"}}
    (tmp_path / "inner" / "problem.yaml").write_text(yaml.safe_dump(spec))
    (tmp_path / "plan.yaml").write_text("{opaq-sweep: 1, problem: inner/problem.yaml, over: {horizon: [1, 2]}}")
    plan = read_plan(tmp_path / "plan.yaml")
    assert [problem_of(plan, point).horizon for point in check_points(plan)] == [1, 2]


def test_thresholds_are_linked_from_the_highest_down() -> None:
    def warm(**over: Any) -> list[int | None]:
        return [point.warm_from for point in points_of(over=over)]

    path = "task.return_at_least"
    assert warm(**{path: [0.1, 0.2]}) == [None, None]  # side by side
    assert warm(**{path: [0.1, 0.3, 0.2, 0.4]}) == [2, 3, None, None]
    assert warm(**{path: [0.1, 0.2, 0.3], "horizon": [2, 3]}) == [None, None, 4, 5, None, None]
    assert warm(horizon=[2, 3, 4]) == [None, 0, None]
    long = warm(**{path: [0.01 * count for count in range(40)]})
    assert sum(before is None for before in long) == 5
    assert [point.warm_from for point in points_of(over={path: [0.1, 0.2, 0.3]}, warm=False)] == [None] * 3


def test_every_fault_of_a_plan_is_said_with_its_line(tmp_path: Path) -> None:
    text = """\
opaq-sweep: 2
problem: two-sink
ower: {}
over:
  horizon: []
  seed: [1, 1]
  solve.seed: [1]
  solve.workers: [2]
solve: {num_stats: 3, workers: 4}
time_limit: -1
"""
    assert faults_of(text, tmp_path) == [
        "ower: unknown key; the keys here are opaq-sweep, problem, over, sensors, together, points, solve, certify, "
        "time_limit, warm, initial_policy (line 3)",
        "opaq-sweep: is 2, a format this version does not read; write 1 (line 1)",
        "over.horizon: is empty; list at least one value (line 5)",
        "over.seed[1]: 1 is listed twice; keep one of them (line 6)",
        "solve.workers: belongs to the run, not to the plan; say it where the sweep is run (line 9)",
        "solve.num_stats: is no option of a solve; there are " + ", ".join(opaq.SolveOptions().to_dict()) + " (line 9)",
        "time_limit: is -1, not a number from 0.001 to 1e+08 (line 10)",
        "over.solve.workers: belongs to the run, not to the plan; say it where the sweep is run (line 8)",
        "over.solve.seed: changes what 'seed' changes; keep one of them (line 7)",
    ]


def test_the_faults_of_all_points_are_said_once_each(tmp_path: Path) -> None:
    text = """\
opaq-sweep: 1
problem: two-sink
over:
  horizon: [2, -1, 3]
  policy.conditions_on: [[state], [stat]]
  solve.starts: [1, 0]
"""
    said = faults_of(text, tmp_path)
    first = 'point 0002 (horizon 2, policy.conditions_on ["state"], solve.starts 0): solve.starts: '
    assert said[0].startswith(first)
    assert said[0].endswith("(and in 5 other points); give a whole number, from 1 to 10000 (line 6)")
    assert any("unknown condition 'stat'" in line and "(line 5)" in line for line in said)
    assert any("horizon: is -1" in line and "(line 4)" in line for line in said)
    assert len(said) == 3


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"over": {"seed": [0, -1]}}, r"point 0002 \(seed -1\): seed: is -1; give a whole number, from 0 to 2\^64"),
        ({"over": {"horizn": [3, 4]}}, r"unknown key \(and in 1 other point\); did you mean 'horizon'\?"),
        ({"over": {"task.retrn_at_least": [3]}}, r"unknown key; did you mean 'task.return_at_least'\?"),
        (
            {"over": {"task.requirements.0.return_at_least": [1]}},
            "the problem file has no task.requirements, and so no entry '0'",
        ),
        ({"over": {"horizon": [2]}, "certify": "maybe"}, "certify: is 'maybe', not true, false or seconds"),
        (
            {"over": {"solve.solver": ["natural", "primal-dual"]}, "solve": {"iterations": 9}},
            r"point 0001 \(solve.solver natural\): solve.iterations: has no effect with the solver natural",
        ),
    ],
)
def test_faults_name_what_the_plan_says(plan: dict[str, Any], words: str) -> None:
    with pytest.raises(opaq.InputError, match=words):
        points_of(**plan)


def test_a_problem_file_is_not_a_plan(tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(opaq.scenario_text("two-sink"))
    with pytest.raises(opaq.InputError, match="is a problem, not the plan of a sweep; a plan names it"):
        read_plan(tmp_path / "problem.yaml")
    with pytest.raises(opaq.InputError, match="plan: is of the type int"):
        read_plan(3)
    with pytest.raises(opaq.InputError, match=r"problem: .*missing.yaml: no such file"):
        read_plan({"opaq-sweep": 1, "problem": "missing.yaml", "over": {"horizon": [1]}})
    with pytest.raises(opaq.InputError, match="has no points"):
        read_plan({"opaq-sweep": 1, "problem": "two-sink"})


def test_the_schema_says_what_the_reader_says() -> None:
    validator = jsonschema.Draft202012Validator(plan_schema())
    plan = {"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [2, 3]}, "sensors": {"A": ["keep", None]}}
    validator.validate(plan | {"certify": True, "time_limit": 5, "warm": False, "solve": {}, "points": [{"seed": 1}]})
    for wrong in ({"over": {"horizon": 3}}, {"sensors": {"A": [3]}}, {"points": [{}]}, {"extra": 1}, {"opaq-sweep": 2}):
        assert not validator.is_valid(plan | wrong)


def test_paths_that_vary_together_are_one_axis() -> None:
    pairs = [(2, 0.9), (3, 0.8)]
    varied = [{"horizon": horizon, "discount": discount} for horizon, discount in pairs]
    points = points_of(together=varied, over={"seed": [0, 1]})
    assert [tuple(point.parameters.values()) for point in points] == [
        (seed, *pair) for seed in (0, 1) for pair in pairs
    ]
    assert [point.before for point in points] == [(), (0,), (), (2,)]
    alone = points_of(together=[{"horizon": 2, "discount": 0.9}])
    assert [dict(point.parameters) for point in alone] == [{"horizon": 2, "discount": 0.9}]


def test_what_varies_together_names_the_same_paths_and_no_others(tmp_path: Path) -> None:
    faults = faults_of(
        "opaq-sweep: 1\nproblem: two-sink\nover: {horizon: [2, 3]}\ntogether:\n"
        "  - {horizon: 2, discount: 0.9}\n  - {horizon: 3}\n  - {horizon: 2, discount: 0.9}\n  - 7\n",
        tmp_path,
    )
    assert any("together[3]" in fault and "mapping" in fault for fault in faults)
    faults = faults_of(
        "opaq-sweep: 1\nproblem: two-sink\nover: {horizon: [2, 3]}\ntogether:\n"
        "  - {horizon: 2, discount: 0.9}\n  - {horizon: 3}\n  - {horizon: 2, discount: 0.9}\n",
        tmp_path,
    )
    assert any("changes what 'horizon' changes" in fault for fault in faults)
    assert any("together[1]: lacks 'discount', unlike the others" in fault and "(line 6)" in fault for fault in faults)
    assert any("together[2]" in fault and "listed twice" in fault for fault in faults)


def test_faults_of_the_plan_do_not_hide_those_of_its_points(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        "opaq-sweep: 1\nproblem: two-sink\nover:\n  horizon: [2, -1]\n  seed: []\nsolve: {strts: 2}\nwarmth: 1\n"
    )
    with pytest.raises(opaq.InputError) as refused:
        check_plan(file)
    where = [fault.where for fault in refused.value.faults]
    assert set(where[:3]) == {"warmth", "over.seed", "solve.strts"}
    assert where[3] == "point 0002 (horizon -1): horizon"
    assert refused.value.faults[3].line == 4


def test_long_values_are_cut_in_the_middle() -> None:
    point = SweepPoint(0, "0001", {"problem": "a" * 50 + "b" * 50})
    assert point.words == f"problem {'a' * 30}...{'b' * 27}"
