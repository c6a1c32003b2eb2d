"""`opaq convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opaq as library
from opaq import load
from opaq.formats.umb.reader import read_umb
from opaq.load import convert
from opaq.spec.problem_part import problem_to_dict
from problem_examples import alike


@pytest.mark.parametrize("ending", ["yaml", "json"])
@pytest.mark.parametrize("name", load.scenario_names())
def test_problems_come_back_equal(tmp_path: Path, name: str, ending: str) -> None:
    file = tmp_path / f"out.{ending}"
    assert convert(name, file) == ()
    assert alike(library.load_problem(file), library.load_problem(name))


def test_the_way_through_umb(opaq, tmp_path: Path) -> None:
    done = opaq("convert", "two-sink", "two-sink.umb")
    assert (done.returncode, done.stdout) == (0, "")
    assert "secret, horizon, task and policy class are left out" in done.stderr
    assert done.stderr.endswith("opaq: wrote two-sink.umb\n")
    done = opaq("convert", "two-sink.umb", "back.yaml")
    assert "the model is no problem yet: add secret and horizon" in done.stderr
    text = (tmp_path / "back.yaml").read_text() + "secret: {last_state: secret}\nhorizon: 2\n"
    (tmp_path / "whole.yaml").write_text(text)
    again, problem = library.load_problem(tmp_path / "whole.yaml"), library.load_problem("two-sink")
    assert again.mdp.states == problem.mdp.states
    assert library.measure(again).opacity.value == library.measure(problem).opacity.value
    done = opaq("convert", "two-sink.umb", "back.yaml")
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert opaq("convert", "two-sink.umb", "back.yaml", "--overwrite").returncode == 0


def test_drawings_and_automata(opaq, tmp_path: Path) -> None:
    assert opaq("convert", "graph", "graph.dot").returncode == 0
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    assert opaq("convert", "graph", "graph.hoa").returncode == 0
    for source, target in (("graph.hoa", "a.dot"), ("a.dot", "b.json"), ("graph.hoa", "c.yaml")):
        assert opaq("convert", source, target).returncode == 0
    assert json.loads((tmp_path / "b.json").read_text())["states"] == ["q0", "q1", "q2", "q3"]
    done = opaq("convert", "two-sink", "two-sink.hoa")
    assert (done.returncode, done.stderr) == (
        2,
        "opaq: two-sink: secret: has no automaton; only languages become HOA files\n",
    )


def test_policies(opaq, tmp_path: Path) -> None:
    problem = library.load_problem("two-sink")
    product = library.compile_problem(problem)
    library.save_policy(product.policy(product.policy_vector(None)), tmp_path / "policy.json", problem=problem)
    done = opaq("convert", "policy.json", "policy.csv")
    assert (done.returncode, done.stderr) == (
        2,
        "opaq: policy.json: is a policy; give the problem it is for with --problem\n",
    )
    for ending in ("csv", "txt", "drn", "storm.json", "yaml"):
        assert opaq("convert", "policy.json", f"policy.{ending}", "--problem", "two-sink").returncode == 0
    assert (tmp_path / "policy.csv").read_text().startswith("state,a,b\nq0,0.5,0.5\n")
    for source in ("policy.csv", "policy.storm.json", "policy.yaml"):
        assert opaq("convert", source, "again.json", "--problem", "two-sink", "--overwrite").returncode == 0
        assert (tmp_path / "again.json").read_text() == (tmp_path / "policy.json").read_text()
    done = opaq("convert", "policy.json", "policy.umb", "--problem", "two-sink")
    assert "a policy cannot become '.umb'; it can become .yaml, .yml, .json, .csv, .txt, .storm.json" in done.stderr


def test_what_goes_nowhere(opaq, tmp_path: Path) -> None:
    assert "a problem cannot become '.png'" in opaq("convert", "two-sink", "x.png").stderr
    assert opaq("convert", "none.umb", "x.yaml").returncode == 2
    assert "NAME=VALUE" in opaq("convert", "two-sink", "x.yaml", "--constant", "N").stderr
    assert "only PRISM and JANI models have constants" in opaq("convert", "graph", "x.yaml", "--constant", "N=1").stderr
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written_is_told_before_the_source_is_read(opaq) -> None:
    done = opaq("convert", "none.umb", "missing/x.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opaq: missing/x.yaml: the folder ")


def test_a_problem_told_twice_is_the_same(tmp_path: Path) -> None:
    convert("graph", tmp_path / "one.yaml")
    convert(tmp_path / "one.yaml", tmp_path / "two.json")
    told = json.loads((tmp_path / "two.json").read_text())
    assert told == json.loads(json.dumps(problem_to_dict(library.load_problem("graph"))))
    convert("graph", tmp_path / "graph.umb")
    assert read_umb(tmp_path / "graph.umb").mdp.states == library.load_problem("graph").mdp.states
