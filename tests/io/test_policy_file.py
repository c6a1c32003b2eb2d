"""Policies come back from files as they were."""

from __future__ import annotations

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
        opaq.scenarios.text("two-sink").replace("b: {q1: 0.5, q2: 0.5}", "b: {q1: 0.6, q2: 0.4}")
    )
    other = opaq.load_problem(tmp_path / "other.yaml")
    with pytest.raises(opaq.InputError, match=r"another model.*\(line 4\)"):
        opaq.load_policy(file, other)
    assert dict(opaq.load_policy(file, other, any_model=True).rows) == dict(policy.rows)
