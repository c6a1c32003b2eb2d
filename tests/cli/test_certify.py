"""`opaq certify`, `opaq solve --certify` and the last line of `opaq compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opaq import load

GRAPH = 1.13657947  # the optimum of graph-published over all policies that see the states


def test_the_bound_alone(opaq) -> None:
    done = opaq("certify", "graph-published", "--json", "-q")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["upper_bound"] == pytest.approx(GRAPH, abs=2e-4)
    assert found["upper_bound"] >= GRAPH - 1e-8
    assert found["opacity"]["method"] == "exact"  # of the uniform policy
    assert found["gap"] == pytest.approx(GRAPH - found["opacity"]["lower"], abs=2e-4)
    assert found["status"] == "optimum"
    assert found["prices"]["return"] == pytest.approx(0.631, abs=0.01)


def test_a_policy_beside_the_bound(opaq, tmp_path: Path) -> None:
    solved = opaq("solve", "graph-published", "--save-policy", "p.json", "--starts", "2", "-q", "--json")
    done = opaq("certify", "graph-published", "--policy", "p.json", "--json", "-q")
    found = json.loads(done.stdout)
    assert found["opacity"] == json.loads(solved.stdout)["opacity"]
    assert found["gap"] == found["upper_bound"] - found["opacity"]["lower"] > 0
    page = opaq("certify", "graph-published", "--policy", "p.json", "-q", COLUMNS="100").stdout
    sentence = " ".join(page.split())
    assert "No policy can exceed 1.1366 bits: this one is at most 0.4% below the bound." in sentence
    assert "One more unit of return costs 0.63 bits." in sentence
    assert max(map(len, page.splitlines())) <= 100


def test_solve_and_certify_in_one_go(opaq) -> None:
    done = opaq("solve", "two-sink", "--conditions", "state,time", "--certify", "--json", "-q")
    found = json.loads(done.stdout)
    assert found["status"] == "converged"
    assert "not proven" not in found["status_text"]
    assert 0 <= found["gap"] <= 1e-4
    assert found["certificate"]["ladder"][-1]["upper_bound"] == found["upper_bound"]
    page = opaq("solve", "two-sink", "--conditions", "state,time", "--certify", "-q", COLUMNS="120").stdout
    assert "this policy is optimal to within" in " ".join(page.split())


def test_compare_ends_with_the_bound(opaq) -> None:
    classes = ["--classes", "state; state,time", "--starts", "2", "-q"]
    page = opaq("compare", "two-sink", *classes, COLUMNS="200").stdout
    *_, bound, _, scope = page.splitlines()
    assert bound.split() == ["any", "policy", "<=", "0.55147", "certified", "bound"]
    assert scope == "the bound holds for any policy that does not see the observations, whatever it remembers"
    assert json.loads(opaq("compare", "two-sink", *classes, "--no-certify", "--json").stdout)["upper_bound"] is None


def test_a_task_that_no_policy_meets_and_one_that_minimises(opaq, tmp_path: Path) -> None:
    text = load.scenario_text("two-sink")
    (tmp_path / "hard.yaml").write_text(text.replace("return_at_least: 0}", "return_at_least: 9}"))
    (tmp_path / "least.yaml").write_text(text.replace("return_at_least: 0}", "objective: minimise}"))
    hard = opaq("certify", "hard.yaml", "--json", "-q")
    assert (hard.returncode, json.loads(hard.stdout)["upper_bound"]) == (1, None)
    assert "No policy meets the task." in opaq("certify", "hard.yaml", "-q").stdout
    for command in (["certify", "least.yaml"], ["solve", "least.yaml", "--certify", "--starts", "1"]):
        done = opaq(*command, "-q", "--json")
        found = json.loads(done.stdout)
        assert (done.returncode, found["lower_bound"], "upper_bound" in found) == (0, 0.0, False)
        assert {"gap", "relative_gap"} <= found.keys()
        proven = found.get("certificate", found)
        assert proven["ladder"][-1]["lower_bound"] == 0.0
        assert proven["scope"] == "any policy, also one that sees the observations"
    assert "No policy can get below 0.0000 bits" in opaq("certify", "least.yaml", "-q").stdout
    compared = json.loads(opaq("compare", "least.yaml", "-q", "--json", "--starts", "1").stdout)
    assert (compared["upper_bound"], compared["lower_bound"]) == (None, 0.0)


def test_policies_that_see_the_observations(opaq) -> None:
    aware = json.loads(
        opaq("certify", "graph-published", "--observation-aware", "--json", "-q", "--time-limit", "20").stdout
    )
    assert 1.1474 <= aware["upper_bound"] <= 1.1490
    assert "sees the observations" in aware["scope"]
    assert not any(rung["machine"].startswith("history") for rung in aware["ladder"])


def test_little_time_still_gives_a_bound(opaq) -> None:
    found = json.loads(opaq("certify", "grid-last-state-4", "--json", "-q", "--time-limit", "0.001").stdout)
    assert 0.97 <= found["upper_bound"] <= 1.0000001
    assert found["status"] == "time"


def test_another_uncertainty(opaq, tmp_path: Path) -> None:
    text = load.scenario_text("two-sink").replace("return_at_least: 0}", "return_at_least: 0, of: guess_error}")
    (tmp_path / "guess.yaml").write_text(text)
    found = json.loads(opaq("certify", "guess.yaml", "--json", "-q").stdout)
    assert found["of"] == "guess_error"
    assert found["upper_bound"] == pytest.approx(0.25, abs=2e-4)
    assert found["gap"] == pytest.approx(found["upper_bound"] - found["guess_error"]["value"], abs=1e-12)


def test_the_bound_of_another_measure_stands_in_its_column(opaq, tmp_path: Path) -> None:
    text = load.scenario_text("two-sink")
    loss = '{loss: {g: {"yes": -1}}}'
    classes = ["--classes", "state,time", "--starts", "2", "-q", "--time-limit", "20"]
    for of, column in (("guess_error", "guess error"), ("guesswork", "guesswork"), (loss, "expected loss")):
        (tmp_path / "p.yaml").write_text(text.replace("return_at_least: 0}", f"return_at_least: 0, of: {of}}}"))
        done = opaq("compare", "p.yaml", *classes, COLUMNS="220")
        _, head, line, last, _ = [line for line in done.stdout.splitlines() if line]
        at = head.index(column) + len(column)
        reached, bound = float(line[:at].split()[-1]), float(last[:at].split()[-1])
        assert reached <= bound + 1e-5, (of, done.stdout)


def test_losses_below_zero_have_no_relative_gap(opaq, tmp_path: Path) -> None:
    losses = '{g: {"no": -1, "yes": 1}, h: {"no": 1, "yes": -1}}'
    text = load.scenario_text("two-sink").replace(
        "return_at_least: 0}", f"return_at_least: 0, of: {{loss: {losses}}}}}"
    )
    (tmp_path / "p.yaml").write_text(text)
    found = json.loads(opaq("certify", "p.yaml", "--json", "-q", "--time-limit", "5").stdout)
    assert found["upper_bound"] < 0 < found["gap"]
    assert found["relative_gap"] is None
