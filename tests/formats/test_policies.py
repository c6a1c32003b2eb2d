"""Policies as tables and as schedulers of Storm: what is written is read back, and every fault has its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from opaq import Policy, PolicyClass
from opaq.beliefs.returns import expected_return
from opaq.errors import Faults
from random_problems import random_policy, random_problem

TWO_SINK = opaq.load_problem("two-sink")


def write(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


CLASSES = ("state",), ("state", "time"), ("time",), ("start", "state"), ("last_states",), ("state", "automaton")


@pytest.mark.parametrize("conditions", CLASSES)
def test_tables_of_any_class(conditions: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for number in range(4):
        problem = random_problem(rng, conditions=conditions)
        policy = random_policy(rng, problem)
        file = tmp_path / f"{number}.csv"
        opaq.save_policy(policy, file, problem=problem)
        assert dict(opaq.load_policy(file, problem).rows) == {
            key: {action: row.get(action, 0.0) for action in {a for each in policy.rows.values() for a in each}}
            for key, row in policy.rows.items()
        }


def test_odd_names_survive_a_table(tmp_path: Path) -> None:
    states = ["=1+1", "a > b", "x\\", "(0,1)", "'q'", "tab\there"]
    spec = {
        "opaq": 1,
        "model": {
            "states": states,
            "actions": ["-go", "start"],
            "start": "a > b",
            "transitions": {state: {"*": dict.fromkeys(states, 1 / 6)} for state in states},
        },
        "observer": {"emissions": dict.fromkeys(states, "n")},
        "secret": {"last_state": ["x\\"]},
        "horizon": 1,
    }
    problem = opaq.build_problem(spec)
    for policy_class in (PolicyClass(("state", "start")), PolicyClass(("last_states",), last_states=2)):
        product = opaq.compile_problem(problem, policy_class)
        rng = np.random.default_rng(0)
        policy = product.policy(product.process.softmax(rng.normal(size=product.process.num_slots)))
        opaq.save_policy(policy, tmp_path / "odd.csv", problem=problem, overwrite=True)
        assert dict(opaq.load_policy(tmp_path / "odd.csv", problem).rows) == dict(policy.rows)


def test_tables_as_people_have_them(tmp_path: Path) -> None:
    long = "state,action,probability\nq0,a,0.25\nq0,b,0.75\nq1,a,1\nq2,b,1\n"
    wide = "state;a;b\nq0;1/4;3/4\n\nq1;1;\nq2;;1\n"
    tabs = "state\ta\tb\nq0\t0.25\t0.75\nq1\t1\t0\nq2\t0\t1\n"
    for text in (long, wide, tabs):
        rows = opaq.load_policy(write(tmp_path, "p.csv", text), TWO_SINK).rows
        assert {key: {a: p for a, p in row.items() if p} for key, row in rows.items()} == {
            ("q0",): {"a": 0.25, "b": 0.75},
            ("q1",): {"a": 1.0},
            ("q2",): {"b": 1.0},
        }
    frame = opaq.solve(TWO_SINK, starts=1, conditions="state,time").policy
    frame.to_dataframe().to_csv(tmp_path / "pandas.csv", index=False)
    assert opaq.load_policy(tmp_path / "pandas.csv", TWO_SINK) == frame


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [("", "is empty", 1)]),
        ("a,b\n1,0\n", [("", "the head is 'a, b'", 1)]),
        ("state,a,a\nq0,1,0\n", [("a", "two columns", 1)]),
        ("state,a,b\nq0,1\nq1,0,1,0\n", [("", "has 2 cells", 2), ("", "has 4 cells", 3)]),
        ("state,a,b\nq0,x,1\n", [("rows[0].probabilities.a", "'x'", 2)]),
        ("state,a,b\nq0,1,0\nq9,1,0\nq1,0.5,0.6\n", [("rows[1].state", "q9", 3), ("rows[2].probabilities", "1.1", 4)]),
        ("state,a,b\nq0,1,0\nq0,1,0\n", [("rows[1]", "repeats", 3)]),
        ("memory,a,b\nm,1,0\n", [("memory", "does not hold the machine", 1)]),
    ],
)
def test_faults_of_tables_have_their_lines(text: str, faults: list[tuple[str, str, int]], tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError) as caught:
        opaq.load_policy(write(tmp_path, "p.csv", text), TWO_SINK)
    assert caught.value.source.endswith("p.csv")
    found = [(fault.where, fault.message, fault.line) for fault in caught.value.faults]
    assert len(found) == len(faults), found
    for (where, message, line), (path, word, number) in zip(found, faults, strict=True):
        assert (where.replace(".", "").replace("[", "").replace("]", ""), line) == (
            path.replace(".", "").replace("[", "").replace("]", ""),
            number,
        )
        assert word in message


def test_a_table_is_no_problem(tmp_path: Path) -> None:
    file = write(tmp_path, "p.csv", "state,a,b\nq0,1,0\n")
    with pytest.raises(opaq.InputError, match="is a table, not a problem"):
        opaq.load_problem(file)


PRISM = """\
mdp
module walk
  x : [0..4] init 0;
  y : bool init false;
  [slow] x<4 -> 0.9: (x'=x+1) + 0.1: (x'=x);
  [fast] x<3 -> 0.5: (x'=x+2) + 0.3: (x'=0) + 0.2: (x'=x) & (y'=true);
  [] x=4 -> true;
  [] x=2 -> (x'=0);
  [] x=2 -> 0.5: (x'=3) + 0.5: (x'=1);
endmodule
label "goal" = x=4;
rewards "steps" x<4 : 1; endrewards
"""


@pytest.mark.parametrize("whole", [True, False])
def test_schedulers_that_storm_wrote_earn_what_storm_says(whole: bool, tmp_path: Path) -> None:
    stormpy = pytest.importorskip("stormpy")
    path = str(write(tmp_path, "walk.prism", PRISM))
    program = stormpy.parse_prism_program(path)
    formula = stormpy.parse_properties('R{"steps"}min=? [F "goal"]', program)[0]
    raw = getattr(formula, "raw_formula", None) or formula.get_raw_formula()
    options = stormpy.BuilderOptions() if whole else stormpy.BuilderOptions([raw])
    options.set_build_state_valuations(True)
    options.set_build_choice_labels(True)
    options.set_build_all_reward_models(True)
    options.set_build_all_labels(True)
    model = stormpy.build_model(program, options=options)
    result = stormpy.model_checking(model, formula, extract_scheduler=True)
    scheduler = result.scheduler if hasattr(result, "scheduler") else result.get_scheduler()
    text = scheduler.to_json_str(model, skip_dont_care_states=True)
    initial = model.initial_states[0]
    least = result.get_value(initial) if hasattr(result, "get_value") else result.at(initial)

    spec = "opaq: 1\nprism: walk.prism\nobserver: {variables: [y]}\nsecret: {last_state: goal}\nhorizon: 400\n"
    problem = opaq.load_problem(write(tmp_path, "walk.yaml", spec))
    policy = opaq.load_policy(write(tmp_path, "storm.json", text), problem)
    product = opaq.compile_problem(problem, policy.policy_class)
    steps = expected_return(product.process, product.policy_vector(policy))
    assert steps == pytest.approx(least, abs=1e-6)  # Storm's own precision
    uniform = opaq.compile_problem(problem)
    assert expected_return(uniform.process, uniform.process.uniform()) > least + 0.1  # else the test would tell nothing


def entry(state: object, *choices: dict) -> dict:
    return {"s": state, "c": list(choices)}


def choice(index: int | None, label: str | None, share: float = 1.0) -> dict:
    named = {} if label is None else {"labels": [label]}
    return ({} if index is None else {"index": index}) | named | {"prob": share}


def load(tmp_path: Path, entries: list, faults: Faults | None = None) -> Policy:
    return opaq.load_policy(write(tmp_path, "s.json", json.dumps(entries)), TWO_SINK, faults=faults)


def test_schedulers_by_number_by_name_and_by_label(tmp_path: Path) -> None:
    expected = {("q0",): {"b": 1.0}, ("q1",): {"a": 1.0}, ("q2",): {"a": 0.5, "b": 0.5}}
    halves = choice(4, "a", 0.5), choice(5, "b", 0.5)
    numbered = [entry(0, choice(1, "b")), entry(1, choice(2, None)), entry(2, *halves)]
    named = [entry("q0", choice(None, "b")), entry("q1", choice(None, "a")), entry("q2", *halves)]
    moved = [entry(0, choice(7, "b")), entry(1, choice(8, "a")), entry(2, choice(9, "a", 0.5), choice(10, "b", 0.5))]
    for entries in (numbered, named, moved):
        rows = load(tmp_path, entries).rows
        assert {key: {a: p for a, p in row.items() if p} for key, row in rows.items()} == expected


def test_states_that_do_not_matter_are_told(tmp_path: Path) -> None:
    faults = Faults()
    policy = load(tmp_path, [entry(0, choice(0, "a")), {"s": 1, "c": "undefined"}], faults)
    assert dict(policy.rows[("q1",)]) == {"a": 0.5, "b": 0.5}
    assert len(faults.warnings) == 1
    assert "says nothing of q1, q2" in faults.warnings[0].message.replace("'", "")


@pytest.mark.parametrize(
    ("entries", "where", "words"),
    [
        ([entry(7, choice(0, "a"))], "0.s", "is no state of the model"),
        ([entry({"x": 1}, choice(0, "a"))], "0.s", "is no state of the model"),
        ([entry(0, choice(0, "a")), entry(0, choice(0, "a"))], "1.s", "is there twice"),
        ([entry(0, choice(0, "a")) | {"m": 1}], "0.m", "has a memory"),
        ([entry(0, choice(0, "c"))], "0.c.0", "tells no choice of state 'q0'"),
        ([entry(0, choice(9, None))], "0.c.0", "tells no choice of state 'q0'"),
        ([entry(0, {"index": 0, "prob": "many"})], "0.c.0", "tells no choice"),
    ],
)
def test_faults_of_schedulers(entries: list, where: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError) as caught:
        load(tmp_path, entries)
    (fault,) = caught.value.faults
    assert (fault.where, fault.line) == (where, 1)
    assert words in fault.message


def test_probabilities_of_a_scheduler_are_checked(tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match="sum"):
        load(tmp_path, [entry(0, choice(0, "a", 0.5), choice(1, "b", 0.4))])


def test_a_problem_that_is_saved_is_the_same(tmp_path: Path) -> None:
    for name in ("graph", "grid-last-state-4"):
        problem = opaq.load_problem(name)
        for ending in ("yaml", "json"):
            opaq.save_problem(problem, tmp_path / f"p.{ending}", overwrite=True)
            again = opaq.load_problem(tmp_path / f"p.{ending}")
            assert replace(again, name=problem.name).mdp == problem.mdp
            assert opaq.problem_to_dict(again) == opaq.problem_to_dict(problem)
    with pytest.raises(opaq.InputError, match=r"cannot become '\.csv'"):
        opaq.save_problem(problem, tmp_path / "p.csv")
    with pytest.raises(opaq.InputError):
        opaq.save_problem(problem, tmp_path / "p.json")  # it is there
