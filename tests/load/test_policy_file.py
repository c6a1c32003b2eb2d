"""Policies come back from files as they were."""

from __future__ import annotations

import json

import pytest

import opaq


@pytest.mark.parametrize("name", ["two-sink", "graph", "grid-last-state"])
def test_a_saved_policy_is_read_back(tmp_path, name: str) -> None:
    problem = opaq.load_problem(name)
    product = opaq.compile_problem(problem)
    policy = product.policy(product.policy_vector(None))
    opaq.save_policy(policy, tmp_path / "policy.json")
    again = opaq.load_policy(tmp_path / "policy.json", problem)
    assert again.policy_class == policy.policy_class
    assert dict(again.rows) == dict(policy.rows)


def test_an_existing_policy_stays_unless_told(tmp_path) -> None:
    product = opaq.compile_problem(opaq.load_problem("two-sink"))
    policy, file = product.policy(product.policy_vector(None)), tmp_path / "policy.json"
    opaq.save_policy(policy, file)
    with pytest.raises(opaq.InputError, match="exists already"):
        opaq.save_policy(policy, file)
    opaq.save_policy(policy, file, overwrite=True)


@pytest.mark.parametrize("text", ["[]", "3", "rows: 1"])
def test_what_is_no_policy_file(tmp_path, text: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(opaq.InputError) as caught:
        opaq.load_policy(file, opaq.load_problem("two-sink"))
    assert all(line.startswith(str(file)) for line in caught.value.lines())


def test_a_saved_policy_says_its_model(tmp_path) -> None:
    problem = opaq.load_problem("two-sink")
    product = opaq.compile_problem(problem)
    policy, file = product.policy(product.policy_vector(None)), tmp_path / "policy.json"
    opaq.save_policy(policy, file, problem=problem)
    assert dict(opaq.load_policy(file, problem).rows) == dict(policy.rows)
    (tmp_path / "other.yaml").write_text(
        opaq.scenario_text("two-sink").replace("b: {q1: 0.5, q2: 0.5}", "b: {q1: 0.6, q2: 0.4}")
    )
    other = opaq.load_problem(tmp_path / "other.yaml")
    with pytest.raises(opaq.InputError, match=r"another model.*\(line 4\)"):
        opaq.load_policy(file, other)
    assert dict(opaq.load_policy(file, other, ignore_model_mismatch=True).rows) == dict(policy.rows)


def test_a_policy_for_another_model_is_one_fault(tmp_path) -> None:
    graph, grid = opaq.load_problem("graph"), opaq.load_problem("grid-last-state")
    product = opaq.compile_problem(grid)
    policy, file = product.policy(product.policy_vector(None)), tmp_path / "policy.json"
    for problem, any_model in ((grid, False), (None, False), (None, True)):
        opaq.save_policy(policy, file, problem=problem, overwrite=True)
        with pytest.raises(opaq.InputError) as caught:
            opaq.load_policy(file, graph, ignore_model_mismatch=any_model)
        (line,) = caught.value.lines()
        assert "another model" in line
        assert "unknown states ((0,0), (1,0), " in line
        assert "unknown actions (N, E, S, W, stay)" in line


def test_a_few_misspelt_names_are_told_one_by_one(tmp_path) -> None:
    rows = [{"state": "q0", "probabilities": {"a": 1}}, {"state": "q9", "probabilities": {"c": 1}}]
    (tmp_path / "policy.json").write_text(json.dumps({"format": "opaq-policy", "version": 1, "rows": rows}))
    with pytest.raises(opaq.InputError) as caught:
        opaq.load_policy(tmp_path / "policy.json", opaq.load_problem("two-sink"))
    assert len(caught.value.faults) == 2


def test_missing_rows_are_one_fault(tmp_path) -> None:
    product = opaq.compile_problem(opaq.load_problem("grid-last-state"))
    policy = product.policy(product.policy_vector(None))
    kept = {key: row for place, (key, row) in enumerate(policy.rows.items()) if place < 2}
    with pytest.raises(opaq.InputError) as caught:
        product.policy_vector(opaq.Policy(policy.policy_class, kept))
    (line,) = caught.value.lines()
    assert "policy: has no row for " in line
    assert line.count("state=") == 5
    assert line.endswith(" and 24 more; add the rows")
