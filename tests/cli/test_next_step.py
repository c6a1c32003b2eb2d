"""The next useful command: on stderr, quoted, with the user's own arguments, and one that runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from opaq import load
from opaq.cli.next_step import command_line

FEW = ("--starts", "1")


def following(stderr: str) -> list[str]:
    """The command after "next:", as a shell splits it."""
    (line,) = [line for line in stderr.splitlines() if line.startswith("opaq: next: ")]
    program, *words = shlex.split(line.removeprefix("opaq: next: "))
    assert program == "opaq"
    return words


def test_one_command_leads_to_the_next(opaq, tmp_path: Path) -> None:
    (tmp_path / "my problem.yaml").write_text(load.scenario_text("two-sink"))
    first = following(opaq("measure", "my problem.yaml").stderr)
    assert first == ["solve", "my problem.yaml"]
    second = following(opaq(*first, *FEW).stderr)
    assert second == ["certify", "my problem.yaml", "--policy", "my problem.policy.json"]
    done = opaq(*second)
    assert following(done.stderr) == ["compare", "my problem.yaml"]  # a clock would come closer to the bound
    third = following(opaq("compare", "my problem.yaml", "--classes", "state; state,time", *FEW).stderr)
    assert third == ["solve", "my problem.yaml", "--conditions", "state,time"]
    close = following(opaq(*third, "--certify", *FEW).stderr)
    assert close[0] in ("report", "simulate")
    assert close[1:] == ["my problem.yaml", "--policy", "my problem.policy-2.json"]
    assert following(opaq("simulate", "my problem.yaml", *close[2:]).stderr)[0] == "measure"
    assert following(opaq("measure", "my problem.yaml", *close[2:]).stderr)[0] == "certify"


def test_limits_are_repeated_where_the_next_command_takes_them(opaq) -> None:
    given = ["--time-limit", "30", "--seed", "3", "--max-memory", "0.5"]
    limits = ["--time-limit", "30", "--max-memory", "0.5"]
    solved = opaq("solve", "two-sink", *FEW, *given)
    assert following(solved.stderr) == ["certify", "two-sink", "--policy", "two-sink.policy.json", *limits]
    assert f"opaq compare two-sink {' '.join(limits)} --seed 3" in solved.stderr  # beside it, what a clock may help
    measured = opaq("measure", "two-sink", *given)
    assert following(measured.stderr) == ["solve", "two-sink", *limits, "--seed", "3"]
    simulated = opaq("simulate", "two-sink", "--policy", "uniform", "--seed", "5", "--runs", "1")
    assert following(simulated.stderr) == ["measure", "two-sink", "--policy", "uniform", "--seed", "5"]
    assert following(opaq("simulate", "two-sink", "--runs", "1").stderr) == ["measure", "two-sink"]


def test_the_policy_of_a_run_is_in_its_folder(opaq, tmp_path: Path) -> None:
    words = following(opaq("solve", "two-sink", *FEW, "--run-folder", "a run").stderr)
    assert words == ["certify", "two-sink", "--policy", "a run/policy.json"]
    assert opaq(*words, "-q").returncode == 0
    assert not list(tmp_path.glob("*.json"))


def test_policies_in_a_folder(opaq) -> None:
    given = ["compare", "two-sink", "--classes", "state; memory:2", *FEW, "--no-certify"]
    words = following(opaq(*given, "--save-policies", "out").stderr)
    assert words == ["certify", "two-sink", "--policy", "out/state-memory-2.json"]
    words = following(opaq(*given).stderr)
    assert words == ["compare", "two-sink", "--classes", "state,memory:2", "--save-policies", "policies"]
    assert opaq(*words, *FEW, "-q", "--no-certify").returncode == 0


@pytest.mark.parametrize("command", ["measure", "solve", "certify", "compare", "simulate"])
def test_not_where_it_is_not_asked_for(opaq, command: str) -> None:
    few = FEW if command in ("solve", "compare") else ()
    for arguments in (("--json",), ("--quiet",)):
        assert "next:" not in opaq(command, "two-sink", *few, *arguments).stderr


def test_tasks_that_minimise(opaq, tmp_path: Path) -> None:
    text = load.scenario_text("two-sink").replace("return_at_least: 0}", "objective: minimise}")
    (tmp_path / "least.yaml").write_text(text)
    words = following(opaq("solve", "least.yaml", *FEW).stderr)
    assert words[0] == "certify"
    assert opaq(*words, "-q").returncode == 0
    assert following(opaq("solve", "least.yaml", *FEW, "--certify").stderr)[0] in ("report", "simulate")


def test_odd_names_are_quoted() -> None:
    assert command_line("measure", "a'b.yaml", policy=None) == """opaq measure 'a'"'"'b.yaml'"""
    assert (
        command_line("measure", "-x.yaml", ignore_model_mismatch=True, quiet=False)
        == "opaq measure ./-x.yaml --ignore-model-mismatch"
    )


PROBLEM = """\
opaq: 1
model:
  states: [q0, q1, q2]
  actions: [a, b]
  start: q0
  transitions: {q0: {a: q0, b: {q1: 0.5, q2: 0.5}}, q1: {"*": q1}, q2: {"*": q2}}
  labels: {secret: [q1]}
observer:
  emissions: {q0: n, q1: n, q2: n}
secret: {last_state: secret}
horizon: 2
"""


def test_nothing_is_offered_where_nothing_can_improve(opaq, tmp_path: Path) -> None:
    (tmp_path / "hidden.yaml").write_text(PROBLEM)
    (tmp_path / "minimised.yaml").write_text(PROBLEM + "task: {objective: minimise}\n")
    assert "a clock may help" in opaq("solve", "two-sink", *FEW).stderr
    for name in ("hidden.yaml", "minimised.yaml"):
        done = opaq("solve", name, *FEW)
        assert done.returncode == 0
        assert "opaq: next:" in done.stderr
        assert "clock" not in done.stderr


def test_a_minimum_is_not_called_a_maximum(opaq, tmp_path: Path) -> None:
    (tmp_path / "minimised.yaml").write_text(PROBLEM + "task: {objective: minimise}\n")
    page = " ".join(opaq("solve", "minimised.yaml", *FEW, "-q").stdout.split())
    assert "a local minimum has none below 0" in page
    assert "maximum" not in page
    assert "no direction curves downwards" in page
