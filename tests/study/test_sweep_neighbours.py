"""Points of a sweep hand each other their policies: along which axes, which fit, and that no point stays behind."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import opaq
from opaq.solvers.options import SolveOptions
from opaq.spec.policy_table import policy_to_dict
from opaq.study.sweep.plan import read_plan
from opaq.study.sweep.points import check_points
from opaq.study.workers.executor import Ended
from opaq.study.workers.neighbours import fit_policies
from opaq.study.workers.task import PointAnswer
from stress.sweep_audit import audit
from study.inline_executor import InlineExecutor
from trials import long

GRID: dict[str, Any] = {
    "opaq": 1,
    "grid": {
        "width": 3,
        "height": 3,
        "slip": 0.1,
        "start": [[0, 0], [0, 2]],
        "rewards": {"goal": 1},
        "labels": {"goal": [[2, 1]]},
    },
    "observer": {
        "sensors": {
            "A": {"covers": [[1, 0], [1, 1]], "detects": 0.5},
            "B": {"covers": [[1, 2]], "detects": 0.8},
        }
    },
    "secret": {"initial_state": True},
    "horizon": 4,
    "task": {"return_at_least": 0.8},
    "policy": {"conditions_on": ["state"]},
}
RATE = "observer.sensors.A.detects"
RATES = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]


def plan_over(**over: Any) -> dict[str, Any]:
    return {"opaq-sweep": 1, "problem": GRID, "over": over, "solve": {"starts": 1}}


def before(**over: Any) -> list[tuple[int, ...]]:
    return [point.before for point in check_points(read_plan(plan_over(**over)))]


def problem_at(rate: float, **changes: Any) -> opaq.Problem:
    sensors = {**GRID["observer"]["sensors"], "A": {"covers": [[1, 0], [1, 1]], "detects": rate}}
    return opaq.build_problem(GRID | {"observer": {"sensors": sensors}} | changes)


def poor_answer(rate: float) -> PointAnswer:
    """The answer of a search that found the worst policy of all that meet the task."""
    problem = problem_at(rate)
    found = opaq.solve(problem, starts=1)
    policy = opaq.solve(replace(problem, task=replace(problem.task, minimise=True)), starts=1).policy
    poor = replace(found, policy=policy, measurement=opaq.measure(problem, policy))
    assert poor.measurement.opacity.value < found.measurement.opacity.value - 0.01
    return PointAnswer(poor.to_dict(), policy_to_dict(policy, problem=problem), seconds=1.0, versions={})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> opaq.Study:
    return opaq.sweep(plan_over(**{RATE: RATES}), output=tmp_path_factory.mktemp("alone"), executor=InlineExecutor())


def test_points_are_neighbours_along_every_axis_but_seeds_and_options() -> None:
    assert before(**{RATE: [0.9, 0.5, 0.7]}) == [(2,), (), (1,)]
    assert before(**{RATE: [0.5, 0.6], "horizon": [3, 4]}) == [(), (0,), (0,), (1, 2)]
    assert before(seed=[0, 1, 2]) == [()] * 3
    assert before(**{"solve.starts": [1, 2]}) == [()] * 2
    assert before(**{"solve.conditions": ["state", "state,time"]}) == [(), (0,)]
    assert before(**{"grid.rewards": [{"goal": 1}, {"goal": 2}]}) == [(), (0,)]
    assert before(**{"task.return_at_least": [0.2, 0.4]}) == [(1,), ()]  # the harder task first


def test_points_with_other_states_are_no_neighbours() -> None:
    assert before(**{"grid.width": [3, 4]}) == [()] * 2


def test_without_warm_nobody_is_a_neighbour() -> None:
    assert [point.before for point in check_points(read_plan(plan_over(**{RATE: RATES}) | {"warm": False}))] == [()] * 6


def test_opacity_does_not_rise_with_the_rate_of_a_sensor(alone: opaq.Study) -> None:
    values = [point.opacity.value for point in alone.points]
    assert all(one >= other - 1e-6 for one, other in pairwise(values))
    assert [point.warm_from for point in alone.points] == [None, "0001", "0002", None, "0004", "0005"]


@pytest.mark.parametrize(("index", "source", "status"), [(0, "0002", "converged"), (5, "0005", "completed")])
def test_a_point_behind_its_neighbour_is_improved(
    alone: opaq.Study, tmp_path: Path, index: int, source: str, status: str
) -> None:
    poor = Ended(0, "answered", poor_answer(RATES[index]))
    executor = InlineExecutor(lambda count: poor if count == index + 1 else None)
    study = opaq.sweep(plan_over(**{RATE: RATES}), output=tmp_path, executor=executor)
    assert executor.solved == [*range(6)]
    point = study.points[index]
    assert (point.warm_from, point.status, point.feasible) == (source, status, True)
    assert [each.opacity.value for each in study.points] == pytest.approx(
        [each.opacity.value for each in alone.points], abs=2e-4
    )
    problem = problem_at(RATES[index])
    policy = opaq.load_policy(tmp_path / str(point.policy_file), problem)
    assert opaq.measure(problem, policy).opacity.value == pytest.approx(point.opacity.value, abs=1e-12)
    assert study.answer(point)["status"] == status
    assert opaq.load_study(tmp_path).points == study.points
    assert audit(tmp_path) == []


@long
def test_improvements_survive_an_end_in_the_middle(alone: opaq.Study, tmp_path: Path) -> None:
    poor = Ended(0, "answered", poor_answer(RATES[0]))
    plan = plan_over(**{RATE: RATES})
    opaq.sweep(plan, output=tmp_path / "whole", executor=InlineExecutor(lambda count: poor if count == 1 else None))
    for last in (6, 8, 13):
        stop, folder = opaq.Stop(), tmp_path / f"after {last}"

        def end(count: int, stop: opaq.Stop = stop, last: int = last) -> Ended | None:
            if count == last:
                stop.request()
            return poor if count == 1 else None

        assert opaq.sweep(plan, output=folder, executor=InlineExecutor(end), stop=stop).interrupted
        rest = InlineExecutor()
        opaq.sweep(plan, output=folder, executor=rest)
        assert rest.solved == []
        assert audit(folder, tmp_path / "whole") == []
        again = InlineExecutor()
        opaq.sweep(plan, output=folder, executor=again)
        assert again.begun == []


def test_a_later_pass_that_fails_leaves_the_answer_and_is_repaired_by_retry(tmp_path: Path) -> None:
    plan, late = plan_over(**{RATE: RATES[:3]}), Ended(0, "late", None, "it took longer than 1 s")
    opaq.sweep(plan, output=tmp_path / "alone", executor=InlineExecutor())
    said: list[str] = []
    study = opaq.sweep(
        plan,
        output=tmp_path / "late",
        executor=InlineExecutor(lambda count: late if count == 4 else None),
        on_progress=lambda progress: said.append(progress.message),
    )
    assert not study.failed
    assert [words for words in said if words] == [
        f"point 0002 ({RATE} 0.6) failed to try its neighbours' policies, and keeps its own: it took longer than 1 s"
    ]
    again = InlineExecutor()
    opaq.sweep(plan, output=tmp_path / "late", executor=again, retry=True)
    assert again.begun
    assert again.solved == []
    assert audit(tmp_path / "late", tmp_path / "alone") == []


def test_only_policies_that_fit_and_meet_the_task_are_used() -> None:
    problem = problem_at(0.5)
    solved = policy_to_dict(opaq.solve(problem, starts=1).policy, problem=problem)
    other = problem_at(0.9)
    (fitting,) = fit_policies(other, SolveOptions(), {"0001": solved})
    assert fitting.point == "0001"
    assert opaq.measure(other, fitting.policy).feasible
    assert fit_policies(problem_at(0.9, task={"return_at_least": 0.95}), SolveOptions(), {"0001": solved}) == []
    wide = problem_at(0.9, grid=GRID["grid"] | {"height": 4})
    assert fit_policies(wide, SolveOptions(), {"0001": solved}) == []


def test_a_policy_of_a_coarser_class_is_lifted_and_one_of_a_finer_is_not_used() -> None:
    problem = problem_at(0.5)
    coarse = opaq.solve(problem, starts=1)
    (lifted,) = fit_policies(
        problem, SolveOptions(conditions="state,time"), {"0001": policy_to_dict(coarse.policy, problem=problem)}
    )
    assert lifted.product.policy_class.conditions_on == ("state", "time")
    assert opaq.measure(problem, lifted.policy).opacity.value == pytest.approx(coarse.measurement.opacity.value)
    fine = policy_to_dict(lifted.policy, problem=problem)
    assert fit_policies(problem, SolveOptions(), {"0001": fine}) == []


def test_rows_of_other_times_do_not_fit(tmp_path: Path) -> None:
    plan = plan_over(horizon=[3, 4, 5]) | {"solve": {"starts": 1, "conditions": "state,time"}}
    study = opaq.sweep(plan, output=tmp_path, executor=InlineExecutor())
    assert [point.status == "failed" for point in study.points] == [False] * 3
    assert study.points[1].warm_from is None  # a policy for three times says nothing of the fourth
