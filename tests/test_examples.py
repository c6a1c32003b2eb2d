"""Every example runs from the repository alone."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import jsonschema
import pytest

import opaq
from commands import opaq_command
from opaq.opacity.filtering import secret_posterior, sequence_probability
from opaq.spec.problem_part import problem_schema
from opaq.spec.yaml import load_yaml

FOLDER = Path(__file__).parent.parent / "examples"
NAMES = ("courier", "crowds", "cryptographers", "frozen-lake", "hallway", "machine", "patrol", "tiger")


def load(name: str) -> opaq.Problem:
    return opaq.load_problem(FOLDER / f"{name}.yaml")


def test_all_are_listed() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.yaml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_takes_them(name: str) -> None:
    jsonschema.Draft202012Validator(problem_schema()).validate(load_yaml(FOLDER / f"{name}.yaml").data)


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_checked_and_measured_in_a_fresh_clone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the folder on its own: nothing outside it is needed."""
    shutil.copytree(FOLDER, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for command in (["check"], ["measure", "--quiet", "--json"]):
        done = opaq_command(*command, f"examples/{name}.yaml")
        assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["problem"] == name
    assert 0 <= told["opacity"]["lower"] <= told["opacity"]["upper"] <= told["secret_entropy"] + 1e-9


def test_every_model_belongs_to_an_example() -> None:
    told = "".join((FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in NAMES)
    assert [file.name for file in (FOLDER / "models").iterdir() if f"models/{file.name}" not in told] == []


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_solved(name: str) -> None:
    problem = load(name)
    solution = opaq.solve(problem, starts=1, workers=1)
    assert solution.measurement.feasible
    assert solution.measurement.opacity.lower > 0.1


def test_cryptographers_learn_nothing_about_who_pays() -> None:
    """Given that the fourth did not pay, all it sees leaves the other three as likely as before."""
    problem = load("cryptographers")
    found = opaq.measure(problem)
    assert found.opacity.lower == pytest.approx(math.log2(3), abs=1e-9)
    assert found.leakage.upper == pytest.approx(0, abs=1e-9)
    product = opaq.compile_problem(problem)
    pi = product.policy_vector(None)
    sequences = [*found.revealing, *found.confusing]
    assert sequences
    for seen in sequences:
        posterior = secret_posterior(product, pi, seen.observations)
        assert sequence_probability(product, pi, seen.observations) > 0
        assert [posterior[payer] for payer in ("first", "second", "third")] == pytest.approx([1 / 3] * 3)


def test_a_watcher_who_sees_one_more_coin_learns_something(tmp_path: Path) -> None:
    """With coin2, coin3 and says3 the watcher knows whether the third has paid: 1.585 bits become 2/3."""
    shutil.copytree(FOLDER / "models", tmp_path / "models")
    text = (FOLDER / "cryptographers.yaml").read_text(encoding="utf-8").replace("[step, coin3,", "[step, coin2, coin3,")
    (tmp_path / "more.yaml").write_text(text)
    found = opaq.measure(opaq.load_problem(tmp_path / "more.yaml"), sequences=0)
    assert found.opacity.value == pytest.approx(2 / 3, abs=1e-9)
