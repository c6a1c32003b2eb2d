"""CONTRIBUTING.md is true: folders and files are those there are, the functions of its walk exist, so do variables."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from documents import PAGES, ROOT, links_of, name_of
from test_imports import LAYERS, SOURCE

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands under a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(text)


WALK = section("The walk of `opaq solve two-sink`")
SCRIPTS = sorted(path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py"))
STEPS = re.findall(r"`([a-z_]+(?:\.\w+)+)`", WALK)


def test_the_folders_of_the_tests_are_as_the_page_says() -> None:
    of_code, of_tests = ({file.parent.name for file in top.glob("*/*.py")} for top in (SOURCE, Path(__file__).parent))
    assert (of_code - of_tests, of_tests - of_code) == (set(), {"load", "stress"})
    assert "`tests/stress`" in section("Tests")


def test_the_parts_of_kinds_are_where_the_page_says() -> None:
    """One line for each kind, and every file or folder that it names is there."""
    text = section("Kinds of thing that can be added")
    kinds = re.findall(r"^\| (\w+) \| (?!class)", text, flags=re.MULTILINE)
    points = [name for name in import_module("opaq.extensions").__all__ if name.startswith("add_")]
    assert sorted(f"add_{kind}" for kind in kinds) == sorted(points)
    paths = re.findall(r"`(\w[\w/]*(?:/|\.py))`", text)
    assert [path for path in paths if not ((SOURCE / path).exists() or (ROOT / path).exists())] == []


def test_scripts_and_pages_name_nothing_outside_the_repository() -> None:
    climbs = [
        name_of(path)
        for path in SCRIPTS
        for index, up in re.findall(r'Path\(__file__\)\.parents\[(\d+)\]( / "\.\.")?', path.read_text(encoding="utf-8"))
        if int(index) + bool(up) >= len(path.relative_to(ROOT).parts)
    ]
    targets = [(page, page.parent / link) for page in PAGES for link, _ in links_of(page) if link]
    outside = [(name_of(page), target) for page, target in targets if not target.resolve().is_relative_to(ROOT)]
    assert (climbs, outside) == ([], [])


def test_the_variables_that_scripts_read_are_explained() -> None:
    read = {name for path in SCRIPTS for name in re.findall(r"\bOPAQ_[A-Z_]+", path.read_text(encoding="utf-8"))}
    assert "OPAQ_MODELS" in read
    assert {name for name in read if f"`{name}" not in section("Tests")} == set()


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("name", STEPS)
def test_the_walk_names_what_there_is(name: str) -> None:
    parts, depth = name.split("."), 1
    thing = import_module(f"opaq.{parts[0]}")
    while depth < len(parts) and is_module(SOURCE.joinpath(*parts[: depth + 1])):
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
