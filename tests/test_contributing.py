"""CONTRIBUTING.md is true: its recipes run, its folders are those there are, the functions of its walk exist."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from test_imports import LAYERS, SOURCE

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands under a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(text)


RECIPES = dict(re.findall(r"^### (.*?)\n.*?^```python\n(.*?)^```", section("Recipes"), flags=re.MULTILINE | re.DOTALL))
WALK = section("The walk of `opaq solve two-sink`")
STEPS = re.findall(r"`([a-z_]+(?:\.\w+)+)`", WALK)


def test_there_is_a_recipe_for_every_extension_point() -> None:
    calls = {name for text in RECIPES.values() for name in re.findall(r"^(add_\w+)\(", text, flags=re.MULTILINE)}
    points = {name for name in import_module("opaq.extensions").__all__ if name.startswith("add_")}
    assert calls == points
    assert len(RECIPES) == len(points)


def test_the_folders_of_the_tests_are_as_the_page_says() -> None:
    of_code, of_tests = ({file.parent.name for file in top.glob("*/*.py")} for top in (SOURCE, Path(__file__).parent))
    assert (of_code - of_tests, of_tests - of_code) == (set(), {"load", "stress"})
    assert "`tests/stress`" in section("Tests")


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_stands_alone(title: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(RECIPES[title])
    command = [sys.executable, "-W", "error", "recipe.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", STEPS)
def test_the_walk_names_what_there_is(name: str) -> None:
    parts, depth = name.split("."), 1
    thing = import_module(f"opaq.{parts[0]}")
    while depth < len(parts) and (SOURCE.joinpath(*parts[: depth + 1]).with_suffix(".py")).is_file():
        depth += 1
        thing = import_module(".".join(["opaq", *parts[:depth]]))
    for part in parts[depth:]:
        thing = getattr(thing, part)
    assert getattr(thing, "__module__", "opaq").startswith("opaq")


def test_the_walk_visits_the_folders_a_solve_needs() -> None:
    visited = {name.partition(".")[0] for name in STEPS}
    needed = {"cli", "load", "spec", "model", "product", "beliefs", "opacity", "solvers", "reports"}
    assert needed <= visited


def test_the_folders_are_those_there_are_in_the_order_of_imports() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", section("The folders, in the order data flows"), flags=re.MULTILINE)
    packages = [part for layer in LAYERS for part in layer if (SOURCE / part / "__init__.py").is_file()]
    assert listed == packages
    assert set(packages) == {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_the_small_modules_are_named() -> None:
    text = section("The folders, in the order data flows")
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert {name for name in modules if f"`{name}`" not in text} == set()
