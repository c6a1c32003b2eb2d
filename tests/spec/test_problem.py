"""Problems told as mappings and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from opaq import load
from opaq.model.conditions import Memory
from opaq.model.problem import Problem
from opaq.spec import build_problem
from opaq.spec.problem_part import problem_to_dict
from opaq.spec.yaml import parse_yaml
from problem_examples import EXAMPLES, alike
from random_problems import random_problem


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_come_back_equal(name: str) -> None:
    problem = build_problem(EXAMPLES[name])
    told = parse_yaml(json.dumps(problem_to_dict(problem))).data
    assert alike(build_problem(told), problem)


@pytest.mark.parametrize("name", load.scenario_names())
def test_scenarios_come_back_equal(name: str) -> None:
    problem = load.load_problem(name)
    assert alike(build_problem(problem_to_dict(problem)), problem)


@pytest.mark.parametrize("seed", range(60))
def test_random_problems_come_back_equal(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed))
    again = build_problem(json.loads(json.dumps(problem_to_dict(problem))))
    assert alike(_without_memory(again), _without_memory(problem))
    assert _told(again.policy_class.memory) == pytest.approx(_told(problem.policy_class.memory), abs=1e-15)


def _without_memory(problem: Problem) -> tuple[object, ...]:
    """Memories may number equal updates differently, so they are compared by what they do."""
    labels = {label: states.tolist() for label, states in problem.mdp.labels.items()}
    mdp = problem.mdp
    arrays = (mdp.start, mdp.choice_start, mdp.choice_action, mdp.transitions, mdp.rewards)
    rest = (problem.observer, problem.secret, problem.horizon, problem.discount, problem.task)
    policy = (problem.policy_class.conditions_on, problem.policy_class.last_states)
    return (mdp.states, mdp.actions, labels, *arrays, *rest, *policy)


def _told(memory: Memory | None) -> np.ndarray:
    if memory is None:
        return np.zeros(0)
    return np.concatenate([memory.updates.dense()[memory.update_of].ravel(), memory.start.dense().ravel()])


def test_an_automaton_that_never_accepts_is_written_and_read_again() -> None:
    spec = dict(parse_yaml(load.scenario_text("two-sink")).data)
    edges = [{"from": "x", "to": "y", "when": "secret"}]
    spec["secret"] = {"automaton": {"states": ["x", "y"], "initial": "x", "accepting": [], "edges": edges}}
    problem = build_problem(spec)
    assert build_problem(problem_to_dict(problem)) == problem
