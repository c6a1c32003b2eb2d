"""Models of other files in problem files, and what is laid over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opaq.errors import Fault, Faults, InputError
from opaq.formats.umb.reader import write_umb
from opaq.load import load_problem
from opaq.model.mdp import Imported
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.spec import build_mdp, build_observer
from opaq.spec.imported_part import imported_plant
from opaq.spec.observer_part import ANY_OBSERVER
from opaq.spec.sets import read_states
from problem_examples import check_faults

TIGER = """\
discount: 0.95
values: reward
states: left right
actions: listen open
observations: roar growl
start: uniform
T: listen
identity
T: open
uniform
O: listen
0.85 0.15
0.15 0.85
O: open
uniform
R: listen : * : * : * -1
R: open : left : * : * 10
"""
REST: dict[str, Any] = {"opaq": 1, "observer": {"from": "model"}, "secret": {"initial_state": True}, "horizon": 2}
HOA = 'HOA: v1\nStates: 2\nStart: 0\nAP: 1 "near"\nAcceptance: 1 Inf(0)\n--BODY--\n' + (
    "State: 0\n[0] 1\n[!0] 0\nState: 1 {0}\n[t] 1\n--END--\n"
)


def chain() -> Imported:
    """Four states in a row with two variables; the file shows the parity."""
    matrix = np.eye(4)[[1, 2, 3, 3]]
    mdp = build_mdp(
        states=["s0", "s1", "s2", "s3"],
        actions=["go"],
        start="s0",
        transitions={"go": matrix},
        labels={"last": ["s3"]},
    )
    observer = build_observer(mdp, emissions={"s0": "even", "s1": "odd", "s2": "even", "s3": "odd"})
    variables = {"x": np.arange(4), "high": np.arange(4) >= 2}
    return Imported(mdp, observer, variables, {"steps": np.ones(4)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiger.pomdp").write_text(TIGER)
    (tmp_path / "near.hoa").write_text(HOA)
    found = chain()
    write_umb(tmp_path / "chain.umb", found.mdp, observer=found.observer, variables=found.variables)
    return tmp_path


def load(folder: Path, spec: dict[str, Any], faults: Faults | None = None) -> Problem:
    (folder / "problem.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return load_problem(folder / "problem.yaml", faults=faults)


def faults_of(folder: Path, spec: dict[str, Any]) -> tuple[Fault, ...]:
    with pytest.raises(InputError) as caught:
        load(folder, spec)
    return caught.value.faults


@pytest.mark.parametrize("model", [{"model": {"pomdp": "tiger.pomdp"}}, {"pomdp": "tiger.pomdp"}])
def test_a_model_from_another_file(folder: Path, model: dict[str, Any]) -> None:
    problem = load(folder, REST | model)
    assert problem.mdp.states == ("left", "right")
    assert problem.discount == 0.95
    assert problem.observer.after_action is not None
    assert load(folder, REST | model | {"discount": 0.5}).discount == 0.5


def test_start_labels_and_rewards_are_laid_over(folder: Path) -> None:
    model = {
        "umb": "chain.umb",
        "start": {"where": "!high"},
        "labels": {"near": {"where": "x + 1 < 3"}, "ends": ["last", "x=0,high=false"]},
        "rewards": {"near": 2, "*": {"go": -1}},
        "named_rewards": {"fuel": {"*": -1}},
    }
    names = [f"x={x},high={'true' if x > 1 else 'false'}" for x in range(4)]
    found = chain()
    write_umb(
        folder / "chain.umb",
        dataclasses.replace(found.mdp, states=tuple(names)),
        variables=found.variables,
        overwrite=True,
    )
    problem = load(folder, REST | {"model": model, "observer": {"variables": ["high"]}})
    mdp = problem.mdp
    assert mdp.start.tolist() == [0.5, 0.5, 0, 0]
    assert {label: states.tolist() for label, states in mdp.labels.items()} == {
        "last": [3],
        "near": [0, 1],
        "ends": [0, 3],
    }
    assert mdp.rewards.tolist() == [2, 2, -1, -1]
    assert mdp.named_rewards["fuel"].tolist() == [-1] * 4
    assert problem.observer.observations == ("high=false", "high=true")


def test_positions_come_from_variables_or_are_laid_over(folder: Path) -> None:
    found = chain()
    variables = {"x": np.arange(4), "y": np.array([0, 0, 1, 1]), "bx": np.arange(4) * 2, "brow": np.arange(4)}
    write_umb(folder / "placed.umb", found.mdp, observer=found.observer, variables=variables)

    def positions(**more: Any) -> Any:
        return load(folder, REST | {"model": {"umb": "placed.umb", **more}}).mdp.positions.tolist()

    assert positions() == [[0, 0], [1, 0], [2, 1], [3, 1]]
    assert positions(positions=["bx", "brow"]) == [[0, 0], [2, -1], [4, -2], [6, -3]]  # rows count down
    assert positions(positions={name: [1, 2] for name in found.mdp.states}) == [[1, 2]] * 4
    for wrong, path in ((["x", "z"], "positions[1]"), (["x"], "positions"), ({"s0": [0, 0]}, "positions")):
        (fault,) = faults_of(folder, REST | {"model": {"umb": "placed.umb", "positions": wrong}})
        assert fault.where == f"model.{path}"


def test_the_rewards_of_the_file_can_be_required() -> None:
    mdp = imported_plant(chain()).mdp
    assert mdp is not None
    assert mdp.named_rewards["steps"].tolist() == [1] * 4


def test_expressions_may_stand_wherever_states_do(folder: Path) -> None:
    spec = {
        "model": {"umb": "chain.umb"},
        "observer": {"sensors": {"A": {"covers": {"where": "high"}, "detects": 0.5}}},
        "secret": {"last_state": {"low": {"where": "x = 0"}, "high": {"where": "high"}}},
        "task": {"requirements": [{"reach": {"where": "x = 2"}, "probability_at_least": 0.5}]},
    }
    problem = load(folder, REST | spec)
    assert problem.observer.emission.dense()[2].tolist() == [0.5, 0.5]
    assert problem.secret.classes.of_state.tolist() == [0, 2, 1, 1]
    assert problem.task.requirements[0].states.tolist() == [2]


def test_an_automaton_of_its_own_file(folder: Path) -> None:
    model = {"umb": "chain.umb", "labels": {"near": {"where": "x < 2"}}}
    problem = load(folder, REST | {"model": model, "secret": {"automaton": {"file": "near.hoa"}}})
    assert isinstance(problem.secret, Language)
    assert len(problem.secret.automaton.states) == 2


def observer_of(spec: dict[str, Any], imported: Imported | None = None) -> Observer:
    cursor = imported_plant(imported or chain()).scope.cursor(spec, "observer")
    found = ANY_OBSERVER.read(cursor)
    assert [str(fault) for fault in cursor.faults] == []
    assert found is not None
    return found


def test_sharing_and_noise() -> None:
    assert observer_of({"from": "model"}).observations == ("even", "odd")
    kept = observer_of({"from": "model", "noise": {"keep": 0.9}})
    assert kept.emission.dense()[0] == pytest.approx([0.9, 0.1])
    lost = observer_of({"from": "model", "noise": {"odd": {"odd": 0.5, "lost": 0.5}}})
    assert lost.observations == ("even", "odd", "lost")
    assert lost.emission.dense()[:2] == pytest.approx(np.array([[1, 0, 0], [0, 0.5, 0.5]]))
    shared = observer_of(
        {"variables": ["x"], "share": {"far": ["x=2", "x=3"]}, "noise": {"far": {"far": 0.5, "x=0": 0.5}}}
    )
    assert shared.observations == ("x=0", "x=1", "far")
    assert shared.emission.dense()[3] == pytest.approx([0.5, 0, 0.5])
    assert observer_of({"variables": ["x", "high"]}).observations[0] == "x=0,high=false"
    assert observer_of({"from": "model", "actions": True}).action_signs == ("go",)


def test_the_blank_of_time_0_is_not_noisy(folder: Path) -> None:
    problem = load(folder, REST | {"pomdp": "tiger.pomdp", "observer": {"from": "model", "noise": {"keep": 0.8}}})
    observer = problem.observer
    blank = observer.observations.index("start")
    assert observer.emission.dense()[:, blank].tolist() == [1, 1]
    assert observer.after_action is not None
    assert observer.after_action.dense()[:, blank].tolist() == [0] * 4
    assert observer.after_action.dense()[0, 0] == pytest.approx(0.8 * 0.85 + 0.2 * 0.15)


def test_noise_never_helps_the_observer(folder: Path) -> None:
    import opaq

    opacity = [
        opaq.measure(
            load(folder, REST | {"pomdp": "tiger.pomdp", "observer": {"from": "model", "noise": {"keep": keep}}})
        ).opacity.value
        for keep in (1, 0.9, 0.7, 0.5)
    ]
    assert opacity == sorted(opacity)
    assert opacity[-1] == pytest.approx(1)


FAULTS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"model": {"umb": "none.umb"}}, [("model.umb", "none.umb: ")]),
    ({"model": {"umb": 3.5}}, [("model.umb", "not a name")]),
    ({"model": {"umb": "chain.umb", "constants": {}}}, [("model.constants", "unknown key")]),
    ({"model": {"umb": "chain.umb", "pomdp": "x"}}, [("model", "has 'umb' and 'pomdp'")]),
    ({"model": {"umb": "chain.umb", "reward": "none"}}, [("model.umb", "chain.umb: ")]),
    ({"model": {"umb": "chain.umb", "start": "s9"}}, [("model.start", "unknown")]),
    (
        {"model": {"umb": "chain.umb", "labels": {"a": {"where": "y = 1"}}}},
        [("model.labels.a.where", "at character 1")],
    ),
    ({"model": {"umb": "chain.umb", "labels": {"a": {"where": "x"}}}}, [("model.labels.a.where", "is a number")]),
    ({"model": {"umb": "chain.umb", "labels": {"a&": "s1"}}}, [("model.labels.a&", "cannot name")]),
    ({"model": {"umb": "chain.umb", "rewards": {"s9": 1}}}, [("model.rewards.s9", "unknown")]),
    ({"pomdp": "tiger.pomdp", "observer": {"variables": ["x"]}}, [("observer.variables[0]", "unknown")]),
    (
        {"pomdp": "tiger.pomdp", "secret": {"visited": {"where": "x = 1"}}},
        [("secret.visited.where", "the model has no")],
    ),
    ({"umb": "chain.umb", "observer": {"from": "file"}}, [("observer.from", "not 'model'")]),
    ({"umb": "chain.umb", "observer": {"from": "model", "keep": 1}}, [("observer.keep", "unknown key")]),
    (
        {"umb": "chain.umb", "observer": {"from": "model", "variables": ["x"]}},
        [("observer", "has 'from' and 'variables'")],
    ),
    (
        {"umb": "chain.umb", "observer": {"from": "model", "share": {"odd": ["even"], "o": ["evn"]}}},
        [("observer.share.o[0]", "unknown"), ("observer.share.odd", "stays")],
    ),
    (
        {"umb": "chain.umb", "observer": {"from": "model", "share": {"a": ["even"], "b": ["even"]}}},
        [("observer.share.b[0]", "shared under")],
    ),
    (
        {"umb": "chain.umb", "observer": {"from": "model", "noise": {"keep": 2}}},
        [("observer.noise.keep", "probability 2")],
    ),
    (
        {"umb": "chain.umb", "observer": {"from": "model", "noise": {"x": "y"}}},
        [("observer.noise.x", "unknown")],
    ),
    ({"umb": "chain.umb", "secret": {"automaton": {"file": "a.txt"}}}, [("secret.automaton.file", "ending")]),
    ({"umb": "chain.umb", "secret": {"automaton": {"file": "a.hoa"}}}, [("secret.automaton.file", "no such file")]),
    ({"gymnasium": "os:system"}, [("gymnasium", "os:system: ")]),
    ({"prism": "x.prism", "pomdp": "tiger.pomdp"}, [("", "has 'prism' and 'pomdp'")]),
    (
        {"grid": {"size": [2, 1], "start": [[0, 0]]}, "observer": {"from": "model"}},
        [("observer.from", "needs a model")],
    ),
    (
        {"umb": "none.umb", "horizon": -1, "secret": {"visted": "a"}},
        [("umb", "none.umb"), ("horizon", "not a whole number"), ("secret.visted", "unknown key")],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), FAULTS)
def test_faults(folder: Path, edits: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    check_faults(faults_of(folder, REST | edits), expected)


def test_sentences(folder: Path, golden: Callable[[str, Iterable[str]], None]) -> None:
    golden("models of other files", [str(fault) for edits, _ in FAULTS for fault in faults_of(folder, REST | edits)])


def test_warnings_of_the_file_are_passed_on(folder: Path) -> None:
    (folder / "tiger.pomdp").write_text(TIGER.replace("0.85 0.15\n0.15", "0.850004 0.15\n0.15"))
    faults = Faults()
    load(folder, REST | {"pomdp": "tiger.pomdp"}, faults)
    (warning,) = faults.warnings
    assert warning.where == "pomdp"
    assert "tiger.pomdp: line" in warning.message


def test_expressions_may_stand_in_lists() -> None:
    cursor = imported_plant(chain()).scope.cursor([{"where": "x > 2"}, "s0"], "p")
    states = read_states(cursor)
    assert states is not None
    assert states.tolist() == [0, 3]


def test_gymnasium(folder: Path) -> None:
    pytest.importorskip("gymnasium")
    model = {"gymnasium": "FrozenLake-v1", "options": {"is_slippery": False}, "labels": {"top": {"where": "row = 0"}}}
    problem = load(folder, REST | {"model": model, "observer": {"variables": ["col"]}})
    assert problem.mdp.labels["top"].tolist() == [0, 1, 2, 3]
    assert problem.observer.observations == ("col=0", "col=1", "col=2", "col=3")
