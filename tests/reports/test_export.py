"""Policies as tables, induced chains as DRN, and fingerprints of models."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import opaq
from opaq.beliefs.returns import expected_return, secret_distribution
from opaq.errors import InputError
from opaq.formats.policies import chain_to_drn, policy_to_csv, policy_to_storm_scheduler, policy_to_table
from opaq.model.arrays import SparseRows, floats
from opaq.model.conditions import LastStates
from opaq.model.fingerprint import model_fingerprint
from opaq.model.policy import Policy, PolicyClass
from opaq.product.compile import compile_problem
from random_problems import random_policy, random_problem

TWO_SINKS = {
    "model": {
        "states": ["q0", "q1", "q2"],
        "actions": ["a", "b"],
        "start": {"q0": 1.0},
        "transitions": {
            "q0": {"a": {"q0": 1}, "b": {"q1": 0.5, "q2": 0.5}},
            "q1": {"*": {"q1": 1}},
            "q2": {"*": {"q2": 1}},
        },
        "rewards": {"q1": 1, "q2": 1},
        "labels": {"secret": ["q1"], "the goal": ["q1", "q2"]},
    },
    "observer": {"emissions": {"q0": {"N": 1}, "q1": {"R": 0.5, "N": 0.5}, "q2": {"B": 0.5, "N": 0.5}}},
    "secret": {"last_state": "secret"},
    "horizon": 2,
}


@pytest.fixture(scope="module")
def problem():
    return opaq.build_problem({"opaq": 1, **TWO_SINKS})


def markov(**rows: dict[str, float]) -> Policy:
    return Policy(PolicyClass(("state",)), {(state,): row for state, row in rows.items()})


def test_csv_is_exact_and_quoted() -> None:
    third = 1 / 3
    policy = Policy(PolicyClass(("last_states", "time"), 2), {(("a,b", "c"), 1): {"go": third, "stay": 1 - third}})
    header, row = csv.reader(io.StringIO(policy_to_csv(policy, ["stay", "go", "rest"])))
    assert header == ["last_states", "time", "stay", "go", "rest"]
    assert row[:2] == ["a,b > c", "1"]
    assert [float(cell) for cell in row[2:]] == [1 - third, third, 0.0]


def test_cells_cannot_be_formulas_or_control_characters() -> None:
    names = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "-1", "+2.5", "a\x1bb", "a\nb", "\u202ea"]
    policy = Policy(PolicyClass(("state",)), {(name,): {"=go": 1.0} for name in names})
    header, *rows = csv.reader(io.StringIO(policy_to_csv(policy)))
    assert header == ["state", "'=go"]
    assert [row[0] for row in rows] == [
        "'=1+1", "'+x", "'-x", "'@x", "'\\tx", "'\\rx", "-1", "+2.5", "a\\x1bb", "a\\nb", "\\u202ea",
    ]  # fmt: skip
    assert policy_to_table(policy).isascii()


def test_rows_of_several_names_differ() -> None:
    rows = {(("a > b",),): {"go": 1.0}, (("a", "b"),): {"go": 1.0}, (("a > b", "c"),): {"go": 1.0}}
    policy = Policy(PolicyClass((LastStates(2),)), rows)
    lines = policy_to_csv(policy).splitlines()
    assert lines == ["last_states,go", "a \\> b,1.0", "a > b,1.0", "a \\> b > c,1.0"]
    assert len(set(policy_to_table(policy).splitlines())) == 4


def test_table_is_aligned() -> None:
    policy = markov(q0={"a": 0.25, "b": 0.75}, vault={"a": 1.0})
    assert policy_to_table(policy, digits=2) == "state     a     b\nq0     0.25  0.75\nvault  1.00  0.00\n"


def test_a_policy_without_rows_is_a_header() -> None:
    assert policy_to_csv(markov()) == "state\n"
    assert policy_to_table(markov()) == "state\n"


def test_storm_scheduler(problem) -> None:
    policy = markov(q0={"a": 0.0, "b": 1.0}, q1={"a": 1.0}, q2={"b": 1.0})
    entries = json.loads(policy_to_storm_scheduler(policy, problem.mdp))
    assert entries == [
        {"s": 0, "c": [{"index": 1, "labels": ["b"], "prob": 1.0}]},
        {"s": 1, "c": [{"index": 2, "labels": ["a"], "prob": 1.0}]},
        {"s": 2, "c": [{"index": 5, "labels": ["b"], "prob": 1.0}]},
    ]


def test_storm_scheduler_of_a_policy_that_draws(problem) -> None:
    policy = markov(q0={"a": 0.25, "b": 0.75}, q1={"a": 1.0}, q2={"b": 1.0})
    first = json.loads(policy_to_storm_scheduler(policy, problem.mdp))[0]
    assert first["c"] == [
        {"index": 0, "labels": ["a"], "prob": 0.25},
        {"index": 1, "labels": ["b"], "prob": 0.75},
    ]


def test_storm_scheduler_refuses_what_it_cannot_say(problem) -> None:
    with pytest.raises(InputError) as caught:
        policy_to_storm_scheduler(markov(q0={"a": 0.5, "b": 0.5}), problem.mdp)
    assert [fault.where for fault in caught.value.faults] == ["policy row state=q1", "policy row state=q2"]
    with pytest.raises(InputError, match="conditions on state, time"):
        policy_to_storm_scheduler(Policy(PolicyClass(("state", "time")), {}), problem.mdp)


def test_chain_of_a_single_start(problem) -> None:
    product = compile_problem(problem)
    text = chain_to_drn(product, product.policy_vector(markov(q0={"a": 0.5, "b": 0.5})))
    assert text.startswith("@type: DTMC\n@parameters\n\n@reward_models\nreturn\n@nr_states\n3\n")
    assert "state 0 [0.0] init secret_" in text
    assert "the_goal" in text
    assert "source" not in text


def read_drn(text: str) -> tuple[np.ndarray, np.ndarray, list[set[str]]]:
    """Transitions, rewards and labels of a DRN chain."""
    size = int(text.split("@nr_states\n")[1].split()[0])
    moves, rewards, labels = np.zeros((size, size)), np.zeros(size), [set() for _ in range(size)]
    for line in text.split("@model\n")[1].splitlines():
        words = line.split()
        if words[0] == "state":
            state = int(words[1])
            rewards[state], labels[state] = float(words[2].strip("[]")), set(words[3:])
        elif words[0] != "action":
            moves[state, int(words[0])] = float(words[2])
    return moves, rewards, labels


def test_chains_have_the_return_and_secrets_of_the_policy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        problem = replace(random_problem(rng), discount=1.0)
        product = compile_problem(problem)
        pi = product.policy_vector(random_policy(rng, problem))
        moves, rewards, labels = read_drn(chain_to_drn(product, pi))
        assert moves.sum(axis=1) == pytest.approx(np.ones(len(moves)))
        mass = np.array([float("init" in marks) for marks in labels])
        assert mass.sum() == 1
        mass = mass @ moves if any("source" in marks for marks in labels) else mass
        total = mass @ rewards
        for _ in range(problem.horizon):
            mass = mass @ moves
            total += mass @ rewards
        assert total == pytest.approx(expected_return(product.process, pi), abs=1e-9)
        prior = secret_distribution(product.process, pi)
        for name, chance in zip(product.secret_values, prior, strict=True):
            mark = f"secret_{''.join(letter if letter.isalnum() else '_' for letter in name)}"
            here = np.array([mark in marks for marks in labels])
            assert mass[here].sum() == pytest.approx(chance, abs=1e-9)


def test_storm_reads_the_chain(problem, tmp_path) -> None:
    pytest.importorskip("stormpy")
    start = floats([0.5, 0.5, 0.0])
    product = compile_problem(replace(problem, mdp=replace(problem.mdp, start=start)))
    file = tmp_path / "chain.drn"
    file.write_text(chain_to_drn(product, product.policy_vector(None)))
    code = (
        "import stormpy, sys; m = stormpy.build_model_from_drn(sys.argv[1]);"
        "f = stormpy.parse_properties('P=? [F<=3 \"the_goal\"]');"
        "print(m.nr_states, stormpy.model_checking(m, f[0]).get_value(m.initial_states[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    count, chance = done.stdout.split()[-2:]
    assert int(count) == 4
    assert float(chance) == pytest.approx(0.5 + 0.5 * 0.75)


def test_fingerprint_is_the_same_everywhere(problem) -> None:
    expected = "sha256:8dbca274ca029e8bb4db3c53c9f59cf460a39e2673939b4047407008c3b903ee"
    assert model_fingerprint(problem.mdp) == expected


def test_fingerprint_ignores_rounding_and_the_order_of_entries(problem) -> None:
    mdp = problem.mdp
    table = mdp.transitions
    scaled = SparseRows(table.starts, table.columns, floats(table.values * (1 - 2e-16)), table.num_columns)
    swapped = np.concatenate((table.columns[:1], table.columns[2:0:-1], table.columns[3:]))
    other = SparseRows(table.starts, swapped, table.values, table.num_columns)
    assert model_fingerprint(replace(mdp, transitions=scaled)) == model_fingerprint(mdp)
    assert model_fingerprint(replace(mdp, transitions=other)) == model_fingerprint(mdp)
    assert model_fingerprint(replace(mdp, rewards=floats(mdp.rewards * -0.0 + mdp.rewards))) == model_fingerprint(mdp)


def test_fingerprint_sees_every_part(problem) -> None:
    mdp = problem.mdp
    table = mdp.transitions
    moved = SparseRows(table.starts, table.columns[::-1].copy(), table.values, table.num_columns)
    others = [
        replace(mdp, states=("q0", "q1", "q3")),
        replace(mdp, states=("q0q", "1", "q2")),
        replace(mdp, actions=("a", "c")),
        replace(mdp, start=floats([0.5, 0.5, 0])),
        replace(mdp, rewards=floats(mdp.rewards + 1e-6)),
        replace(mdp, transitions=moved),
        replace(mdp, labels={**mdp.labels, "secret": mdp.labels["the goal"]}),
        replace(mdp, labels={}),
    ]
    assert len({model_fingerprint(one) for one in [mdp, *others]}) == 1 + len(others)
