"""Every example is a fine problem; those that need other files or packages are skipped, by name, without them."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import jsonschema
import pytest

import opaq
from opaq.errors import Faults
from opaq.io.schema import problem_schema
from opaq.io.yaml import load_yaml
from opaq.opacity.operators import secret_posterior, sequence_probability

FOLDER = Path(__file__).parent.parent / "examples"
MODELS = FOLDER.parent.parent / "shared" / "models"
NEEDS = {
    "hallway": ["pomdp/hallway.pomdp"],
    "tiger": ["pomdp/tiger.95.pomdp"],
    "machine": ["pomdp/machine.pomdp"],
    "cryptographers": ["prism/crypt4.prism"],
}
PACKAGES = {"frozen-lake": "gymnasium", "cryptographers": "stormpy"}
NAMES = ("courier", "cryptographers", "frozen-lake", "hallway", "machine", "patrol", "tiger")


def load(name: str) -> opaq.Problem:
    for file in NEEDS.get(name, []):
        if not (MODELS / file).is_file():
            pytest.skip(f"{file} is not there")
    if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    return opaq.load_problem(FOLDER / f"{name}.yaml")


def test_all_are_listed() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.yaml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_takes_them(name: str) -> None:
    jsonschema.Draft202012Validator(problem_schema()).validate(load_yaml(FOLDER / f"{name}.yaml").data)


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_measured(name: str) -> None:
    problem = load(name)
    assert problem.name == name
    found = opaq.measure(problem, sequences=0)
    assert 0 <= found.opacity.lower <= found.opacity.upper <= found.secret_entropy + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_solved(name: str) -> None:
    problem = load(name)
    solution = opaq.solve(problem, num_starts=1, processes=1)
    assert solution.measurement.feasible
    assert solution.measurement.opacity.lower > 0.1


def test_the_warnings_are_those_of_the_files() -> None:
    load("machine")
    faults = Faults()
    opaq.load_problem(FOLDER / "machine.yaml", faults=faults)
    assert ["rows of O miss the sum 1" in fault.found for fault in faults.warnings] == [True]


def test_cryptographers_learn_nothing_about_who_pays() -> None:
    """Given that the fourth did not pay, all it sees leaves the other three as likely as before."""
    problem = load("cryptographers")
    found = opaq.measure(problem)
    assert found.opacity.lower == pytest.approx(math.log2(3), abs=1e-9)
    assert found.leakage.upper == pytest.approx(0, abs=1e-9)
    product = opaq.compile_problem(problem)
    pi = product.policy_vector(None)
    sightings = [*found.revealing, *found.confusing]
    assert sightings
    for seen in sightings:
        posterior = secret_posterior(product, pi, seen.observations)
        assert sequence_probability(product, pi, seen.observations) > 0
        assert [posterior[payer] for payer in ("first", "second", "third")] == pytest.approx([1 / 3] * 3)


def test_a_cryptographer_who_hears_whether_its_guess_is_right_learns_something(tmp_path: Path) -> None:
    """The model's own observations tell whether a guess was right, from time 8 on: one guess of three."""
    load("cryptographers")
    text = (FOLDER / "cryptographers.yaml").read_text(encoding="utf-8").replace("../../shared/models", str(MODELS))
    start, end = text.index("observer:"), text.index("secret:")
    for horizon, learns in ((7, False), (8, True)):
        changed = f"{text[:start]}observer: {{from: model}}\n{text[end:]}".replace("horizon: 7", f"horizon: {horizon}")
        (tmp_path / "hears.yaml").write_text(changed)
        leakage = opaq.measure(opaq.load_problem(tmp_path / "hears.yaml"), sequences=0).leakage
        assert (leakage.lower > 1e-6) == learns
