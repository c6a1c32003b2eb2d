"""A toy of every kind, added by one call of `opaq.extensions` and used from a problem file to the answer and back.

What docs/extensions.md shows runs as it stands there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import typer

import opaq
import oracles
import toys
from commands import opaq_command
from documents import DOCS, text_of
from opaq import extensions
from opaq.spec.reference import reference
from problem_examples import TWO_SINK

WAITING = """
opaq: 1
model:
  states: [q0, q1, q2]
  actions: [a, b]
  start: {q0: 1}
  transitions:
    q0: {a: {q0: 1}, b: {q1: 0.5, q2: 0.5}}
    q1: {a: {q1: 1}, b: {q0: 0.7, q1: 0.3}}
    q2: {"*": {q2: 1}}
  rewards: {q1: 1, q2: 1}
  labels: {secret: [q1]}
observer: OBSERVER
secret: SECRET
horizon: 3
task: TASK
policy: POLICY
"""
USUAL = {
    "OBSERVER": "{emissions: {q0: N, q1: {R: 0.5, N: 0.5}, q2: {B: 0.5, N: 0.5}}}",
    "SECRET": "{last_state: secret}",
    "TASK": "{return_at_least: 0.2}",
    "POLICY": "{conditions_on: [state]}",
}


@pytest.fixture(autouse=True)
def _afterwards() -> Iterator[None]:
    with extensions.temporary():
        yield


def load(folder: Path, **parts: str) -> opaq.Problem:
    """A problem file with some parts of its own, read; the schema agrees."""
    text = WAITING
    for name, part in (USUAL | parts).items():
        text = text.replace(name, part)
    file = folder / "waiting.yaml"
    file.write_text(text)
    return opaq.load_problem(file)


def check_written(problem: opaq.Problem) -> dict[str, Any]:
    """The problem as a mapping: it suits the schema and is read again as the same problem."""
    spec = opaq.problem_to_dict(problem)
    plain = json.loads(json.dumps(spec))
    jsonschema.Draft202012Validator(opaq.problem_schema()).validate(plain)
    assert opaq.build_problem(plain) == problem
    return spec


def check_solved(problem: opaq.Problem, joint: Any) -> None:
    """Solved, the figure is that of enumeration and no worse than that of the uniform policy."""
    solution = opaq.solve(problem, starts=1)
    found = solution.measurement.opacity.value
    assert found == pytest.approx(oracles.opacity(joint(problem, solution.policy)), abs=1e-9)
    assert found >= opaq.measure(problem).opacity.value - 1e-9


def test_a_secret(tmp_path: Path) -> None:
    extensions.add_secret(toys.VISITS, toys.track_visits)
    problem = load(tmp_path, SECRET="{visits: {to: secret, most: 2}}")
    assert problem.secret == toys.Visits(np.array([1]), 2)
    uniform = toys.visits_joint(problem, None)
    found = opaq.measure(problem)
    assert found.opacity.value == pytest.approx(oracles.opacity(uniform), abs=1e-12)
    assert dict(found.secret_distribution) == pytest.approx(oracles.secret_distribution(uniform))
    check_solved(problem, toys.visits_joint)
    assert check_written(problem)["secret"] == {"visits": {"to": ["q1"], "most": 2}}
    assert "| `visits` | a mapping: [visits](#visits) | Hide how often some states are visited. |" in reference()
    with pytest.raises(opaq.InputError, match=r"secret\.visits\.most: is 0, not a whole number from 1"):
        load(tmp_path, SECRET="{visits: {to: secret, most: 0}}")


def test_an_observer(tmp_path: Path) -> None:
    extensions.add_observer(toys.BREAKING, toys.track_sensor)
    problem = load(tmp_path, OBSERVER="{breaking: {bright: {q1: 0.9, q2: 0.25}, risk: {b: 0.5}}}")
    assert problem.observer.risk.tolist() == [0.0, 0.5]
    found = opaq.measure(problem).opacity.value
    assert found == pytest.approx(oracles.opacity(toys.sensor_joint(problem, None)), abs=1e-12)
    check_solved(problem, toys.sensor_joint)
    assert check_written(problem)["observer"]["breaking"]["risk"] == {"a": 0.0, "b": 0.5}
    finished = opaq.problem_to_dict(problem) | {"observer": problem.observer}
    assert opaq.build_problem(finished) == problem
    assert "| `breaking` | a mapping: [breaking](#breaking) |" in reference()
    with pytest.raises(opaq.InputError, match=r"observer\.actions: does not go with 'breaking'"):
        load(tmp_path, OBSERVER="{breaking: {bright: {q1: 0.9}, risk: {b: 0.5}}, actions: true}")


def test_what_needs_tables_refuses_other_observers(tmp_path: Path) -> None:
    extensions.add_observer(toys.BREAKING, toys.track_sensor)
    load(tmp_path, OBSERVER="{breaking: {bright: {q1: 0.9}, risk: {b: 0.5}}}")
    with pytest.raises(opaq.InputError) as refused:
        opaq.convert(tmp_path / "waiting.yaml", tmp_path / "waiting.umb")
    found = "observer: is of the kind BreakingSensor, which is no table of emissions by state"
    assert str(refused.value) == f"{found}; UMB needs one: use emissions or sensors"
    assert not (tmp_path / "waiting.umb").exists()
    opaq.convert(tmp_path / "waiting.yaml", tmp_path / "again.json")
    assert opaq.load_problem(tmp_path / "again.json").observer == opaq.load_problem(tmp_path / "waiting.yaml").observer


def two_states(problem: opaq.Problem, policy: opaq.Policy) -> opaq.Policy:
    """A policy of the previous state and the state as one of the last two states, which the oracles can follow."""
    names = problem.mdp.states
    pairs = [(name,) for name in names] + [(before, now) for before in names for now in names]
    rows = {(pair,): policy.rows.get((toys.last_but_one(pair), pair[-1])) for pair in pairs}
    return opaq.Policy(opaq.PolicyClass((opaq.LastStates(2),)), {key: row for key, row in rows.items() if row})


def test_a_condition(tmp_path: Path) -> None:
    extensions.add_condition(toys.PREVIOUS, toys.track_previous)
    problem = load(tmp_path, POLICY="{conditions_on: [previous, state]}")
    assert problem.policy_class == opaq.PolicyClass(("previous", "state"))
    check_solved(problem, lambda problem, policy: oracles.joint(problem, two_states(problem, policy)))
    assert check_written(problem)["policy"] == {"conditions_on": ["previous", "state"]}
    named = opaq.solve(replace(problem, policy_class=opaq.PolicyClass()), conditions="previous,state", starts=1)
    assert named.policy.policy_class == problem.policy_class
    opaq.save_policy(named.policy, tmp_path / "policy.json", problem=problem)
    assert opaq.load_policy(tmp_path / "policy.json", problem) == named.policy
    assert "| `previous` | the word alone | The state before the current one, - at the start. |" in reference()
    with pytest.raises(opaq.InputError, match="did you mean 'previous'"):
        load(tmp_path, POLICY="{conditions_on: [previus]}")


def collisions(joint: oracles.Joint) -> float:
    """By its definition, sequence by sequence."""
    masses = [np.array(list(each.values())) for each in oracles.posterior_masses(joint).values()]
    return sum(mass.sum() - (mass**2).sum() / mass.sum() for mass in masses)


@pytest.mark.parametrize(("objective", "best"), [("maximise", 0.19109), ("minimise", 0.0)])
def test_an_uncertainty(tmp_path: Path, objective: str, best: float) -> None:
    """The best figures are those of a fine grid of all policies."""
    extensions.add_uncertainty(toys.Collisions())
    problem = load(tmp_path, TASK=f"{{of: collisions, objective: {objective}}}")
    uniform = opaq.measure(problem).uncertainty.value
    assert uniform == pytest.approx(collisions(oracles.joint(problem)), abs=1e-12)
    solution = opaq.solve(problem, starts=1)
    found = solution.measurement.uncertainty.value
    assert found == pytest.approx(collisions(oracles.joint(problem, solution.policy)), abs=1e-9)
    assert found == pytest.approx(best, abs=5e-5)
    assert check_written(problem)["task"]["of"] == "collisions"
    assert "| `collisions` | a number | A user's own uncertainty" in reference()
    answer = f"{found:.3f}"[:4] if best else "There is nothing to hide"
    kept = ("--save-policy", tmp_path / "waiting.json")
    assert answer in opaq_command("solve", tmp_path / "waiting.yaml", "--starts", 1, "--quiet", *kept).stdout


def test_a_solver(tmp_path: Path) -> None:
    extensions.add_solver(toys.STAY)
    found = opaq.solve("graph", solver="stay", starts=2, start="uniform", run_folder=tmp_path)
    assert (found.solver, found.status, len(found.trace)) == ("stay", opaq.Status.COMPLETED, 2)
    uniform = opaq.measure("graph").opacity.value
    assert found.measurement.opacity.value == pytest.approx(uniform, abs=0.05)
    assert opaq.solve("graph", solver=toys.Stay(), starts=2, start="uniform").solver == "stay"
    assert opaq.SolveOptions(solver="stay").solver == "stay"
    shown = opaq_command("solve", "graph", "--solver", "stay", "--starts", 1, "--json", "--quiet")
    assert json.loads(shown.stdout)["solver"] == "stay"


def test_a_format_in_problem_files(tmp_path: Path) -> None:
    extensions.add_format(toys.TOY)
    (tmp_path / "sink.toy").write_text("two-sink\n")
    rest = 'observer: {emissions: {"*": dark}}\nsecret: {last_state: "q1"}\nhorizon: 2\n'
    (tmp_path / "own.yaml").write_text("opaq: 1\ntoy: sink.toy\n" + rest)
    (tmp_path / "inner.yaml").write_text("opaq: 1\nmodel: {toy: sink.toy, constants: {reward: 3}}\n" + rest)
    assert opaq.load_problem(tmp_path / "own.yaml").mdp.states == ("q0", "q1", "q2")
    assert set(opaq.load_problem(tmp_path / "inner.yaml").mdp.rewards.tolist()) == {3.0}
    assert opaq.measure(tmp_path / "own.yaml").expected_return == opaq.measure("two-sink").expected_return
    (tmp_path / "wrong.yaml").write_text("opaq: 1\nmodel: {toy: sink.toy, constants: {reward: big}}\n" + rest)
    with pytest.raises(opaq.InputError, match=r"constants\.reward: is 'big', not a number or true or false"):
        opaq.load_problem(tmp_path / "wrong.yaml")
    assert opaq.problem_schema()["properties"]["toy"]["type"] == "string"
    assert "| `toy` | a file name, relative to the problem file | The file of a toy model. |" in reference()


def test_a_format_is_converted_and_told_apart(tmp_path: Path) -> None:
    extensions.add_format(toys.TOY)
    (tmp_path / "sink.toy").write_text("two-sink\n")
    opaq.convert(tmp_path / "sink.toy", tmp_path / "sink.umb")
    assert opaq.convert(tmp_path / "sink.umb", tmp_path / "again.toy") == ("a toy holds the number of states only",)
    assert (tmp_path / "again.toy").read_bytes() == b"3"
    shown = opaq_command("convert", tmp_path / "sink.toy", tmp_path / "sink.json")
    written = json.loads((tmp_path / "sink.json").read_text())
    assert (shown.returncode, written["model"]["states"]) == (0, ["q0", "q1", "q2"])
    with pytest.raises(opaq.InputError) as caught:
        opaq.load_problem(tmp_path / "sink.toy")
    assert caught.value.faults[0].message == "is a toy model, not a problem"
    assert caught.value.example == "toy: sink.toy"


def test_a_command() -> None:
    def count(problem: str, loudly: bool = False) -> None:
        """Count the states of a problem."""
        typer.echo(f"{opaq.load_problem(problem).mdp.num_states}{'!' if loudly else ''}")

    extensions.add_command("count", count)
    shown = opaq_command("count", "two-sink", "--loudly")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "3!\n", "")
    assert "count      Count the states of a problem." in opaq_command("--help").stdout
    assert opaq_command("count", "two-sinks").returncode == 2


def test_all_of_them_together_by_every_command(tmp_path: Path) -> None:
    extensions.add_secret(toys.VISITS, toys.track_visits)
    extensions.add_observer(toys.BREAKING, toys.track_sensor)
    extensions.add_condition(toys.PREVIOUS, toys.track_previous)
    extensions.add_uncertainty(toys.Collisions())
    problem = load(
        tmp_path,
        SECRET="{visits: {to: secret, most: 2}}",
        OBSERVER="{breaking: {bright: {q1: 0.9, q2: 0.25}, risk: {b: 0.5}}}",
        TASK="{of: collisions}",
        POLICY="{conditions_on: [previous, state]}",
    )
    file, policy, table = (tmp_path / name for name in ("waiting.yaml", "policy.json", "policy.csv"))
    checked = opaq_command("check", file).stdout
    assert "observations    3: dim, bright, -" in checked
    assert "policy rows     7 (by previous, state)" in checked
    solved = json.loads(opaq_command("solve", file, "--starts", 1, "--json", "--save-policy", policy).stdout)
    measured = json.loads(opaq_command("measure", file, "--policy", policy, "--json").stdout)
    followed = two_states(problem, opaq.load_policy(policy, problem))
    exact = collisions(toys.sensor_joint(problem, followed, toys.visits))
    assert measured["objective"]["value"] == pytest.approx(exact, abs=1e-9)
    assert solved["objective"]["value"] == pytest.approx(exact, abs=1e-9)
    assert opaq_command("simulate", file, "--policy", policy).stdout.count("\nrun 1: the secret is ") == 1
    classes = opaq_command("compare", file, "--starts", 1, "--classes", "state;previous,state").stdout
    rows = re.findall(r"^(?:class +)?(previous, state|state)\b", classes, flags=re.MULTILINE)  # a block each if narrow
    assert rows == ["state", "previous, state"]
    assert opaq_command("convert", policy, table, "--problem", file).returncode == 0
    assert table.read_text().splitlines()[0].startswith("previous,state,")


TAKEN = {
    "secret: 'visited'": lambda: extensions.add_secret(
        replace(toys.VISITS, key=replace(toys.VISITS.key, name="visited")), toys.track_visits
    ),
    "secret: 'reveal'": lambda: extensions.add_secret(
        replace(toys.VISITS, key=replace(toys.VISITS.key, name="reveal")), toys.track_visits
    ),
    "observer: 'sensors'": lambda: extensions.add_observer(
        replace(toys.BREAKING, key=replace(toys.BREAKING.key, name="sensors")), toys.track_sensor
    ),
    "condition: 'time'": lambda: extensions.add_condition(replace(toys.PREVIOUS, of=opaq.Time), toys.track_previous),
    "uncertainty: 'opacity'": lambda: extensions.add_uncertainty(opaq.Shannon()),
    "solver: 'natural'": lambda: extensions.add_solver(replace(toys.STAY, name="natural")),
    "format: 'umb'": lambda: extensions.add_format(replace(toys.TOY, name="umb")),
    "format: '.umb'": lambda: extensions.add_format(replace(toys.TOY, endings=(".umb",))),
    "format: 'horizon'": lambda: extensions.add_format(replace(toys.TOY, name="horizon")),
    "command: 'solve'": lambda: extensions.add_command("solve", print),
}


@pytest.mark.parametrize("name", TAKEN)
def test_names_are_taken_once(name: str) -> None:
    with pytest.raises(opaq.InputError) as refused:
        TAKEN[name]()
    assert str(refused.value) == f"{name} is registered already; choose another name"


def test_kinds_that_could_not_be_written_are_refused() -> None:
    with pytest.raises(opaq.InputError, match="secret 'visits': has no class, or cannot be written"):
        extensions.add_secret(replace(toys.VISITS, of=None), toys.track_visits)
    with pytest.raises(opaq.InputError, match="secret 'visits': Visited is written as 'visited' already"):
        extensions.add_secret(replace(toys.VISITS, of=opaq.Visited), toys.track_visits)
    with pytest.raises(opaq.InputError, match="'scale' is no option that problem files have; use some of constants"):
        extensions.add_format(replace(toys.TOY, options=("scale",)))


def test_what_is_added_for_a_time_is_gone() -> None:
    before, page = opaq.problem_schema(), reference()
    with extensions.temporary():
        extensions.add_secret(toys.VISITS, toys.track_visits)
        extensions.add_observer(toys.BREAKING, toys.track_sensor)
        extensions.add_condition(toys.PREVIOUS, toys.track_previous)
        extensions.add_uncertainty(toys.Collisions())
        extensions.add_solver(toys.STAY)
        extensions.add_format(toys.TOY)
        extensions.add_command("count", print)
        assert opaq.problem_schema() != before
    assert (opaq.problem_schema(), reference()) == (before, page)
    for stated, words in (
        ({"secret": {"visits": {}}}, "secret.visits: unknown key"),
        ({"observer": {"breaking": {}}}, "observer.breaking: unknown key"),
        ({"policy": {"conditions_on": ["previous"]}}, "unknown condition 'previous'"),
        ({"task": {"of": "collisions"}}, "unknown uncertainty 'collisions'"),
    ):
        with pytest.raises(opaq.InputError, match=words):
            opaq.build_problem(TWO_SINK | stated)
    with pytest.raises(opaq.InputError, match="unknown condition 'previous'"):
        opaq.PolicyClass(("previous",))
    with pytest.raises(opaq.InputError, match="'stay' is not a choice"):
        opaq.SolveOptions(solver="stay")
    assert opaq_command("count").returncode == 2


# -- the page -----------------------------------------------------------------------------------------------------

EXAMPLES = dict(
    re.findall(r"^## (.*?)\n.*?^```python\n(.*?)^```", text_of(DOCS / "extensions.md"), flags=re.MULTILINE | re.DOTALL)
)


def test_the_page_has_an_example_for_every_extension_point() -> None:
    calls = {name for text in EXAMPLES.values() for name in re.findall(r"^(add_\w+)\(", text, flags=re.MULTILINE)}
    points = {name for name in extensions.__all__ if name.startswith("add_")}
    assert calls == points
    assert len(EXAMPLES) == len(points)


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_stands_alone(title: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLES[title], encoding="utf-8")
    command = [sys.executable, "-W", "error", "example.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
