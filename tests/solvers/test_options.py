"""Options of a solve as data, and solvers by name."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from opaq.solvers.options import OPTIONS, default_of
from opaq.solvers.registry import SOLVERS
from opaq.solvers.runs import RECORD_FILE, RunRecord

NUMBERS = [name for name, each in OPTIONS.items() if each.metadata["least"] is not None]


def test_they_survive_json() -> None:
    options = opaq.SolveOptions(solver="primal-dual", eta=0.5, conditions="state,time", starts=3, time_limit=2.5)
    assert opaq.SolveOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options
    assert opaq.SolveOptions.from_dict({}) == opaq.SolveOptions()


def test_every_number_has_limits() -> None:
    words = {"solver", "gradients", "start", "conditions"}
    assert {each.name for each in fields(opaq.SolveOptions)} - words == set(NUMBERS)


def test_every_option_has_a_help_and_a_place_in_the_signature_of_solve() -> None:
    assert all(each.metadata["help"] for each in OPTIONS.values())
    assert OPTIONS.keys() <= inspect.signature(opaq.solve).parameters.keys()
    with pytest.raises(opaq.InputError, match="tims_limit: is no option of a solve; there are solver, gradients"):
        opaq.solve("two-sink", tims_limit=3)


def test_all_faults_are_told_at_once() -> None:
    data = {
        "solver": "natrual",
        "seeds": 1,
        "seed": "1",
        "starts": 0,
        "time_limit": None,
        "conditions": 3,
        "max_beliefs": None,
    }
    with pytest.raises(opaq.InputError) as refused:
        opaq.SolveOptions.from_dict(data | {"samples": 2.5, "workers": True})
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "seeds", "solver", "conditions", "max_beliefs", "samples", "starts", "seed", "workers"
    ]  # fmt: skip
    assert lines[0].startswith("seeds: is no option of a solve; there are solver, gradients, ")
    assert lines[1] == "solver: 'natrual' is not a choice; did you mean 'natural'? use one of " + ", ".join(SOLVERS)


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_limits_hold(name: str) -> None:
    least, most = (OPTIONS[name].metadata[end] for end in ("least", "most"))
    solver = next((each.name for each in SOLVERS.values() if name in each.options), default_of("solver"))
    for value in (least - 1, *([] if most == np.inf else [most * 2 + 1])):
        with pytest.raises(opaq.InputError, match=f"{name}: is"):
            opaq.SolveOptions(**{"solver": solver, name: value})
    fine = opaq.SolveOptions(**{"solver": solver, name: least})
    assert getattr(fine, name) == least


def test_keywords_take_precedence_over_options() -> None:
    options = opaq.SolveOptions(solver="primal-dual", iterations=3, starts=2, seed=5, sequences=0)
    found = opaq.solve("two-sink", options=options, seed=6, iterations=4)
    assert (found.solver, found.seed, len(found.starts), len(found.trace)) == ("primal-dual", 6, 2, 4)
    assert found.measurement.revealing == ()


def test_options_and_keywords_give_the_same_bits() -> None:
    one = opaq.solve("graph", options=opaq.SolveOptions(starts=2, start="random", seed=3))
    two = opaq.solve("graph", starts=2, start="random", seed=3)
    assert np.array_equal(one.pi, two.pi)


def test_conditions_and_memory_in_words() -> None:
    timed = opaq.solve("two-sink", conditions="state,time", starts=1)
    assert timed.policy.policy_class == opaq.PolicyClass(("state", "time"))
    remembered = opaq.solve("two-sink", options=opaq.SolveOptions(memory_nodes=2, starts=1))
    assert remembered.policy.policy_class.conditions_on == ("state", "memory")
    with pytest.raises(opaq.InputError, match="unknown condition 'tme'"):
        opaq.solve("two-sink", conditions="tme")


def test_runs_of_the_first_release_go_on(tmp_path: Path) -> None:
    """Their records also held the scales of the requirements, and the rounds of solvers that have one."""
    arguments = {"starts": 2, "seed": 1, "run_folder": tmp_path}
    for options, more in (
        ({"solver": "natural"}, {"solver.scales": "sha256:3dd7"}),
        ({"solver": "primal-dual", "iterations": 3}, {"solver.rounds": "3"}),
    ):
        for file in (path for path in tmp_path.rglob("*") if path.is_file()):
            file.unlink()
        whole = opaq.solve("graph", **arguments, **options)
        record = RunRecord.read(tmp_path)
        assert more.keys().isdisjoint(record.options)
        (tmp_path / RECORD_FILE).write_text(replace(record, options=record.options | more).text())
        again = opaq.solve("graph", **arguments, **options)
        assert np.array_equal(again.pi, whole.pi)
