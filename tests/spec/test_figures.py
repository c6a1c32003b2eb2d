"""Problem files with several observers and secrets: what is read, written back and refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from opaq.errors import InputError
from opaq.load import load_problem, save_policy
from opaq.model.figures import Assumption, CovertLimit, Pair, UncertaintyLimit
from opaq.model.observer import Together
from opaq.opacity.measure import measure
from opaq.opacity.policies import uniform_policy
from opaq.spec.problem_part import build_problem, problem_schema, problem_to_dict

MODEL = {
    "states": ["q0", "q1", "q2"],
    "actions": ["a", "b"],
    "start": {"q0": 1},
    "transitions": {
        "q0": {"a": {"q0": 0.5, "q1": 0.5}, "b": {"q1": 0.5, "q2": 0.5}},
        "q1": {"*": {"q1": 1}},
        "q2": {"*": {"q2": 1}},
    },
    "rewards": {"q1": 1},
}
SPEC: dict[str, Any] = {
    "opaq": 1,
    "model": MODEL,
    "observers": {
        "street": {"emissions": {"q0": "N", "q1": {"R": 0.5, "N": 0.5}, "q2": {"B": 0.5, "N": 0.5}}},
        "insider": {
            "emissions": {"q0": "x", "q1": {"x": 0.5, "y": 0.5}, "q2": "y"},
            "assumes": {"policy": "return_optimal", "surprise": 2},
        },
        "both": {"together": ["street", "insider"]},
    },
    "secrets": {"goal": {"last_state": ["q1"]}, "way": {"visited": ["q1"]}},
    "horizon": 2,
    "task": {
        "return_at_least": 0.1,
        "maximise": {"of": "goal", "for": "street"},
        "requirements": [
            {"of": "way", "for": "both", "at_least": 0.1},
            {"of": "way", "for": "insider", "at_most": 3},
            {"like": "uniform", "for": "street", "bits_at_most": 0.5},
        ],
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The file with one value changed, or taken out (None)."""
    spec = copy.deepcopy(SPEC)
    *above, last = path.split(".")
    inside = spec
    for key in above:
        inside = inside[int(key)] if isinstance(inside, list) else inside.setdefault(key, {})
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return spec


def test_what_is_read() -> None:
    problem = build_problem(SPEC)
    assert list(problem.observers) == ["street", "insider", "both"]
    assert isinstance(problem.observers["both"], Together)
    assert (problem.of, problem.for_) == ("goal", "street")
    assert problem.observer is problem.observers["street"]
    assert problem.assumptions == {"insider": Assumption("return_optimal", None, 2.0)}
    assert problem.task.pairs == (Pair("goal", "street"),)
    assert problem.task.limits == (
        UncertaintyLimit("way", "both", 0.1, "at_least"),
        UncertaintyLimit("way", "insider", 3.0, "at_most"),
        CovertLimit("uniform", "street", 0.5),
    )


@pytest.mark.parametrize(
    "task",
    [
        {},
        {"maximise": {"of": "way", "for": "both"}},
        {"minimise": {"of": "way", "for": "insider"}},
        {"maximise": {"least": [{"of": "goal", "for": "street"}, {"of": "way", "for": "both"}]}},
        {"maximise": {"mean": [{"of": "goal", "for": "street", "weight": 2}, {"of": "way", "for": "both"}]}},
        SPEC["task"],
    ],
)
def test_what_is_written_is_read_again(task: dict[str, Any]) -> None:
    spec = {**SPEC, "task": task}
    problem = build_problem(spec)
    written = problem_to_dict(problem)
    json.dumps(written)
    assert build_problem(written) == problem
    for each in (spec, written):
        jsonschema.validate(each, problem_schema())


def test_a_problem_about_another_pair_is_written_as_such() -> None:
    problem = build_problem({**SPEC, "task": {}}).about(of="way", for_="both")
    again = build_problem(problem_to_dict(problem))
    assert (again.of, again.for_) == ("way", "both")
    assert again.about(of="goal", for_="street").secret == again.secrets["goal"]


def test_one_observer_and_one_secret_are_as_they_were() -> None:
    spec = {key: value for key, value in SPEC.items() if key not in ("observers", "secrets", "task")}
    one = build_problem({**spec, "observer": SPEC["observers"]["street"], "secret": SPEC["secrets"]["goal"]})
    assert (list(one.observers), list(one.secrets)) == (["observer"], ["secret"])
    written = problem_to_dict(one)
    assert {"observer", "secret"} <= set(written)
    named = {"task": {"maximise": {}, "requirements": [{"at_least": 0.1}, {"like": "uniform", "bits_at_most": 1}]}}
    limited = build_problem({**written, **named})
    assert [limit.threshold for limit in limited.task.limits] == [0.1, 1.0]


FAULTS = {
    "task.maximise": ({"of": "gaol", "for": "stret"}, {"task.maximise.of": "gaol", "task.maximise.for": "stret"}),
    "task.maximise.of": (None, {"task.maximise.of": "there are 2 secrets"}),
    "task.maximise.least": ([], {"task.maximise.of": "does not go with 'least'"}),
    "task.objective": ("maximise", {"task.maximise": "does not go with 'objective'"}),
    "task.minimise": ({"of": "way", "for": "both"}, {"task.minimise": "does not go with 'maximise'"}),
    "task.requirements.0.at_most": (1, {"task.requirements[0]": "both"}),
    "task.requirements.0.at_least": (-1, {"task.requirements[0].at_least": "-1"}),
    "task.requirements.0.for": ("nobody", {"task.requirements[0].for": "unknown observer 'nobody'"}),
    "task.requirements.0.reach": (["q1"], {"task.requirements[0].reach": "does not go with"}),
    "task.requirements.2.bits_at_most": (None, {"task.requirements[2].bits_at_most": "is missing"}),
    "task.requirements.2.like": ("nosuch.json", {"task.requirements[2].like": "cannot be read here"}),
    "observers.both.together": (["street", "insidr"], {"observers.both.together[1]": "unknown observer 'insidr'"}),
    "observers.round": ({"together": ["round"]}, {"observers.round.together[0]": "would see itself"}),
    "observers.insider.assumes": ({"surprize": 1}, {"observers.insider.assumes.surprize": "unknown key"}),
    "observers.insider.assumes.policy": (3, {"observers.insider.assumes.policy": "is 3"}),
    "observers.insider.assumes.surprise": (-1, {"observers.insider.assumes.surprise": "-1"}),
    "observers.insider.assumes.model": (
        {"states": ["q0", "q1", "q2", "q3"], "transitions": {**MODEL["transitions"], "q3": {"*": {"q3": 1}}}},
        {"observers.insider.assumes.model": "other states"},
    ),
    "observer": ({"emissions": {"*": "x"}}, {"observers": "does not go with 'observer'"}),
    "secrets": ({}, {"secrets": "is empty"}),
    "observers": (None, {"observer": "is missing"}),
}


@pytest.mark.parametrize("path", FAULTS)
def test_faults(path: str) -> None:
    value, expected = FAULTS[path]
    with pytest.raises(InputError) as error:
        build_problem(changed(path, value))
    noted = {fault.where: fault.message for fault in error.value.faults}
    for where, words in expected.items():
        assert words in noted[where]


def test_a_weight_that_is_none_is_one_fault() -> None:
    for weight, words in ((0, "above 0"), (-1, "above 0"), ("x", "not a number")):
        with pytest.raises(InputError) as error:
            build_problem(changed("task.maximise", {"mean": [{"of": "goal", "for": "street", "weight": weight}]}))
        (fault,) = error.value.faults
        assert fault.where == "task.maximise.mean[0].weight"
        assert words in fault.message


ASSUMING = {
    "when": ({"when": "every"}, "task.when", "at the end of runs alone"),
    "guesswork": ({"of": "guesswork"}, "task.of", "is not known"),
}


@pytest.mark.parametrize("name", ASSUMING)
def test_what_an_observer_that_assumes_has_no_figure_of_is_a_fault(name: str) -> None:
    task, where, words = ASSUMING[name]
    named = {**SPEC, "task": {"maximise": {"of": "goal", "for": "insider"}, **task}}
    only = {key: value for key, value in named.items() if key not in ("observers", "secrets")}
    only |= {"observer": SPEC["observers"]["insider"], "secret": SPEC["secrets"]["goal"], "task": task}
    for spec in (named, only):
        with pytest.raises(InputError) as error:
            build_problem(spec)
        (fault,) = error.value.faults
        assert fault.where == where
        assert words in fault.message


def test_tasks_about_the_trajectory_for_an_observer_that_assumes_are_faults() -> None:
    spec = changed("secrets.way", {"trajectory": True})
    spec["task"]["maximise"] = {"least": [{"of": "goal", "for": "street"}, {"of": "way", "for": "insider"}]}
    with pytest.raises(InputError) as error:
        build_problem(spec)
    assert [fault.where for fault in error.value.faults] == ["task.maximise.least[1]", "task.limits[1]"]
    assert all("trajectory" in fault.message for fault in error.value.faults)


ASKED = {
    "guess error": ({"of": "guess_error"}, {"trajectory": True}, "task.of", "of a trajectory is not known"),
    "moments": ({"when": "every"}, {"trajectory": True}, "task.when", "all moments"),
    "one time": ({"when": "least"}, {"state_at": {"time": 1, "states": ["q1"]}}, "task.when", "about one time"),
    "loss": ({"of": {"loss": {"g": {"yes": 1}}}}, {"last_state": {"here": ["q1"]}}, "task.of.loss.g.yes", "no value"),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_secret_of_the_task_has_what_it_asks_for(name: str) -> None:
    task, secret, where, words = ASKED[name]
    spec = changed("secrets.way", secret)
    pairs = [{"of": "goal", "for": "street"}, {"of": "way", "for": "both"}]
    spec["task"] = {"maximise": {"least": pairs}, **task}
    with pytest.raises(InputError) as error:
        build_problem(spec)
    (fault,) = error.value.faults
    assert fault.where == where
    assert words in fault.message


def test_every_circle_is_one_fault_and_all_faults_come_at_once() -> None:
    spec = changed("observers.round", {"together": ["trip", "street"]})
    spec["observers"]["trip"] = {"together": ["round"]}
    spec["observers"]["insider"]["emissions"]["q1"] = {"x": 0.7}
    spec["task"]["maximise"] = {"of": "goal", "for": "nobody"}
    with pytest.raises(InputError) as error:
        build_problem(spec)
    assert [fault.where for fault in error.value.faults] == [
        "observers.insider.emissions.q1",
        "task.maximise.for",
        "observers.round.together",
        "observers.trip.together",
    ]


def test_policies_of_files_are_read_beside_the_problem(tmp_path: Path) -> None:
    plain = build_problem({**SPEC, "task": {}})
    save_policy(uniform_policy(plain), tmp_path / "old.json")
    spec = changed("observers.insider.assumes", {"policy": "old.json", "model": {"start": {"q0": 0.5, "q1": 0.5}}})
    spec["task"]["requirements"][2]["like"] = "old.json"
    (tmp_path / "problem.json").write_text(json.dumps(spec), encoding="utf-8")
    problem = load_problem(tmp_path / "problem.json")
    held = problem.assumptions["insider"]
    assert held.policy == uniform_policy(plain)
    assert held.mdp.start.tolist() == [0.5, 0.5, 0.0]
    assert problem.task.limits[2].like == held.policy
    assert build_problem(problem_to_dict(problem)) == problem
    covert = measure(problem, sequences=0).requirements[-1]
    assert covert.value == pytest.approx(0.0, abs=1e-12)
    spec["observers"]["insider"]["assumes"]["policy"] = "nosuch.json"
    spec["task"]["requirements"][2]["like"] = "neither.json"
    (tmp_path / "problem.json").write_text(json.dumps(spec), encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_problem(tmp_path / "problem.json")
    paths = [fault.where for fault in error.value.faults]
    assert paths == ["observers.insider.assumes.policy", "task.requirements[2].like"]


def test_names_of_pairs_are_checked_by_the_library_too() -> None:
    problem = build_problem({**SPEC, "task": {}})
    with pytest.raises(InputError) as error:
        problem.about(of="gaol", for_="nobody")
    assert [fault.where for fault in error.value.faults] == ["secret", "observer"]
