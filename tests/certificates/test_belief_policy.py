"""Policies by belief: they have what their program proves, survive their files, and act as they are measured."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from least_oracle import least, outcomes, tiny_problem
from opaq.certificates.certify import OBSERVATIONS_ONLY, CertificateStatus
from opaq.certificates.least.policy import find_belief_policy, least_policy, solve_belief
from opaq.cli.main import main
from opaq.model.conditions import BeliefGraph, BeliefNode, Observations, projection
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.simulation.runs import simulate
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import class_name, contains, parse_class
from opaq.solvers.strategy import Status
from opaq.spec.policy_table import policy_from_dict, policy_to_dict
from opaq.stop import Deadline, Stop, StoppedError
from trials import part_of

MEMORY = 1 << 28


def best_of(problem: Problem) -> tuple[Policy, float]:
    """The policy and the bound, without limits that matter."""
    return least_policy(problem, deadline=Deadline(60.0), stop=Stop(), memory=MEMORY)


def graph_of(policy: Policy) -> BeliefGraph:
    (condition,) = policy.policy_class.conditions
    assert isinstance(condition, BeliefNode)
    return condition.graph


@pytest.mark.parametrize("number", part_of(range(40), 10))
def test_without_requirements_the_policy_has_the_bound(number: int) -> None:
    problem = tiny_problem(np.random.default_rng(number), horizon=1 + number % 3, states=2 if number % 3 == 2 else None)
    policy, bound = best_of(problem)
    measured = opaq.measure(problem, policy).uncertainty
    assert measured.method == "exact"
    assert measured.value == pytest.approx(bound, abs=1e-9)
    if problem.horizon < 3:
        assert measured.value == pytest.approx(least(problem, sees_states=False), abs=1e-9)


@pytest.mark.parametrize("number", part_of(range(40), 10))
def test_requirements_are_met_or_said_to_be_missed(number: int) -> None:
    problem = tiny_problem(np.random.default_rng(number), requirements=1 + number % 2, horizon=2, states=2)
    solution = solve_belief(problem, SolveOptions(), stop=Stop())
    thresholds = [problem.task.return_at_least, *(one.threshold for one in problem.task.requirements)]
    met = [
        value
        for value, paid in outcomes(problem, sees_states=False)
        if all(got >= asked - 1e-9 for got, asked in zip(paid, thresholds, strict=True))
    ]
    measurement = solution.measurement
    certificate = opaq.certify(replace(problem, policy_class=PolicyClass((Observations("all"),))))
    if measurement.feasible:
        assert measurement.uncertainty.value >= certificate.lower_bound - 1e-9
        assert measurement.uncertainty.value <= min(met, default=math.inf) + 0.02  # no proof: 0.01 where it is worst
        assert solution.status in (Status.CONVERGED, Status.COMPLETED)
    else:
        assert solution.status in (Status.INFEASIBLE, Status.NOT_FOUND)
        assert "misses" in solution.status_text
    if solution.status is Status.INFEASIBLE:
        assert not met
    if solution.status is Status.CONVERGED:
        assert measurement.uncertainty.value <= min(met, default=math.inf) + 1e-6
    if number % 2 == 0 and met:  # of one requirement, some deterministic policy of the program meets it
        assert measurement.feasible


def hearing(requirement: float | None = None) -> Problem:
    """Two places and a sensor that is pointed at one: pointing to the left hears more and earns less."""
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["l", "r"],
                "actions": ["listen", "work"],
                "start": {"l": 0.5, "r": 0.5},
                "transitions": {state: {"*": state} for state in ("l", "r")},
                "rewards": {"*": {"work": 1.0}},
            },
            "observer": {
                "emissions": {"*": "quiet"},
                "after_action": {
                    "listen": {"l": {"L": 0.8, "R": 0.2}, "r": {"L": 0.2, "R": 0.8}},
                },
            },
            "secret": {"initial_state": "l"},
            "horizon": 4,
            "task": {"objective": "minimise"} | ({} if requirement is None else {"return_at_least": requirement}),
        }
    )


def test_a_requirement_that_binds() -> None:
    free, bound = (
        solve_belief(hearing(), SolveOptions(), stop=Stop()),
        solve_belief(hearing(3.0), SolveOptions(), stop=Stop()),
    )
    assert free.status is Status.CONVERGED
    assert free.measurement.expected_return < 3.0
    assert bound.measurement.feasible
    assert bound.measurement.expected_return >= 3.0 - 1e-9
    assert bound.measurement.opacity.value > free.measurement.opacity.value + 0.01
    mixed = solve_belief(hearing(3.3), SolveOptions(), stop=Stop())  # no lots: 0.7219
    assert mixed.measurement.feasible
    assert mixed.measurement.opacity.value == pytest.approx(0.57798, abs=1e-4)
    missed = solve_belief(hearing(9.0), SolveOptions(), stop=Stop())
    assert missed.status is Status.INFEASIBLE
    assert "misses: return" in missed.status_text
    assert missed.measurement.expected_return == pytest.approx(5.0)  # it comes as close as any


def test_a_solution_is_written_and_shown() -> None:
    solution = solve_belief(hearing(), SolveOptions(), stop=Stop())
    assert json.loads(json.dumps(solution.to_dict()))["solver"] == "belief program"
    assert "proven" in solution.status_text
    assert class_name(solution.policy.policy_class) == "belief"
    assert "belief" in repr(solution.policy)
    certificate = opaq.certify(hearing(), solution)
    assert (certificate.scope, certificate.status) == (OBSERVATIONS_ONLY, CertificateStatus.OPTIMUM)
    assert certificate.gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_file_keeps_the_graph(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, file = hearing(), tmp_path / f"policy{suffix}"
    policy, bound = best_of(problem)
    opaq.save_policy(policy, file, problem=problem)
    again = opaq.load_policy(file, problem)
    assert again.policy_class == policy.policy_class
    assert again.rows == policy.rows
    assert opaq.measure(problem, file).opacity.value == opaq.measure(problem, policy).opacity.value
    assert policy_from_dict(policy_to_dict(policy), problem).policy_class == policy.policy_class
    source = tmp_path / "problem.yaml"
    source.write_text(json.dumps(opaq.problem_to_dict(problem)), encoding="utf-8")
    assert main(["measure", str(source), "--policy", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["opacity"]["value"] == pytest.approx(bound, abs=1e-9)
    for output in ("policy.csv", "policy.txt", "chain.drn"):
        assert main(["convert", str(file), str(tmp_path / output), "--problem", str(source)]) == 0
    assert main(["report", str(source), "--policy", str(file), "--output", str(tmp_path / "report.html")]) == 0
    assert main(["solve", str(source), "--conditions", "state,belief"]) == 2
    assert "comes from its program" in capsys.readouterr().err


def test_faults_of_files(tmp_path: Path) -> None:
    problem = hearing()
    spec = policy_to_dict(best_of(problem)[0], problem=problem)
    graph = spec["conditions_on"][0]["belief"]
    wrong = [
        ({"start": {"quiet": "b99"}}, "unknown node 'b99'"),
        ({"moves": {"b0": {"loud": "b0"}}}, "unknown observation 'loud'"),
        ({"otherwise": {"quiet": "rest"}}, "does not name the observation"),
        ({"nodes": []}, "is empty"),
    ]
    for change, message in wrong:
        with pytest.raises(opaq.InputError, match=message):
            policy_from_dict(spec | {"conditions_on": [{"belief": graph | change}]}, problem)
    with pytest.raises(opaq.InputError, match="there is no graph"):
        policy_from_dict({key: spec[key] for key in spec if key != "conditions_on"}, problem)
    own = replace(problem, policy_class=best_of(problem)[0].policy_class)
    assert policy_from_dict({key: spec[key] for key in spec if key != "conditions_on"}, own).rows
    assert parse_class("belief", own) == own.policy_class
    other = opaq.load_problem("two-sink")
    with pytest.raises(opaq.InputError, match="does not know the observation"):
        opaq.compile_problem(other, own.policy_class)


def test_an_agent_follows_the_graph() -> None:
    problem, rng = hearing(), np.random.default_rng(0)
    policy, _ = best_of(problem)
    graph, agent = graph_of(policy), opaq.Agent(problem, policy)
    for run in simulate(problem, policy, runs=40, seed=3):
        agent.start(run.states[0])
        for time, (state, seen, action) in enumerate(zip(run.states, run.observations, run.actions, strict=False)):
            node = graph.follow(tuple(run.observations[: time + 1]))
            assert agent.act(state, rng, observation=seen) == action
            assert policy.rows[node,][action] == 1.0


def test_observations_give_the_node_and_both_can_be_looked_at() -> None:
    problem = hearing()
    policy, bound = best_of(problem)
    (belief,) = policy.policy_class.conditions
    every = PolicyClass((Observations("all"),))
    assert contains(every, policy.policy_class)
    project = projection(Observations("all"), belief)
    assert project is not None
    for conditions in ((Observations("all"),), (Observations(1), belief), (belief, opaq.Time())):
        product = opaq.compile_problem(problem, PolicyClass(conditions))
        index = conditions.index(belief) if belief in conditions else None
        parts = [project(key[0]) if index is None else key[index] for key in product.rows]
        lifted = Policy(
            product.policy_class, {key: policy.rows[part,] for key, part in zip(product.rows, parts, strict=True)}
        )
        assert opaq.measure(problem, lifted).opacity.value == pytest.approx(bound, abs=1e-9)


def test_other_solvers_take_the_class() -> None:
    problem = hearing(3.0)
    start = solve_belief(problem, SolveOptions(), stop=Stop())
    solution = opaq.solve(problem, policy_class=start.policy.policy_class, initial_policy=start.policy, starts=1)
    assert solution.measurement.feasible
    assert solution.measurement.opacity.value <= start.measurement.opacity.value + 1e-9


def test_what_is_refused() -> None:
    problem = hearing()
    with pytest.raises(opaq.InputError, match="tasks that minimise"):
        best_of(replace(problem, task=Task()))
    base = opaq.problem_to_dict(problem)
    transitions = {"l": {"listen": "l", "work": "l"}, "r": {"listen": "r"}}
    with pytest.raises(opaq.InputError, match="enable different actions"):
        best_of(opaq.build_problem(base | {"model": base["model"] | {"transitions": transitions, "rewards": {}}}))
    stop = Stop()
    stop.request()
    with pytest.raises(StoppedError):
        least_policy(problem, deadline=Deadline(None), stop=stop, memory=MEMORY)


def test_a_program_that_does_not_fit_still_has_a_policy() -> None:
    base = opaq.load_problem("grid-last-state-4")
    problem = replace(base, task=Task(minimise=True))
    found = find_belief_policy(problem, deadline=Deadline(6.0), stop=Stop(), memory=1 << 20)
    assert found.bound <= found.measurement.uncertainty.upper + 1e-9
    assert found.policy.rows
