"""Pages that are made from the code, the gallery and the figures of the concepts are as the code makes them now."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import opaq
from commands import opaq_command
from documents import DOCS, ROOT, text_of
from opaq.commands import COMMANDS

matplotlib = pytest.importorskip("matplotlib")


def module_of(file: Path) -> ModuleType:
    """A script of docs/, imported."""
    spec = importlib.util.spec_from_file_location(f"docs_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GALLERY = module_of(DOCS / "gallery.py")


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python docs/generate.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_on_its_page(command: str) -> None:
    page = text_of(DOCS / "reference" / "commands.md")
    (section,) = re.findall(rf"^## opaq {command}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", opaq_command(command, "--help").stdout, flags=re.MULTILINE))
    assert {"--help"} <= options
    assert {option for option in options if not re.search(rf"`[^`]*{option}\b", section)} == set()


def test_every_public_name_is_on_its_page() -> None:
    pages = [text_of(file) for file in (DOCS / "reference" / "api").glob("*.md")]
    entries = [name for page in pages for name in re.findall(r"^::::\{py:\w+\} (\w+)", page, flags=re.MULTILINE)]
    assert sorted(entries) == sorted(set(opaq.__all__) - {"__version__"})
    listed = re.findall(r"<opaq\.(\w+)>", text_of(DOCS / "reference" / "api.md"))
    assert sorted(listed) == sorted(entries)


def test_the_gallery_has_every_problem_there_is() -> None:
    examples = {file.stem for file in (ROOT / "examples").glob("*.yaml")}
    figures = json.loads(GALLERY.FIGURES.read_text(encoding="utf-8"))
    assert set(figures) == {*opaq.scenario_names(), *examples} == set(GALLERY.TEXTS)
    assert [name for name, it in figures.items() if it["status"] != "converged"] == ["warehouse"]  # as the page says
    assert text_of(DOCS / "gallery.md") == GALLERY.page(figures), "run: python docs/gallery.py --page"
    assert [name for name in figures if not (GALLERY.FOLDER / f"{name}.png").is_file()] == []
    assert sum(file.stat().st_size for file in GALLERY.FOLDER.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", ["two-sink", "graph", "battery", "courier", "hallway", "machine", "patrol", "tiger"])
def test_the_gallery_tells_what_is_measured(name: str) -> None:
    figures = json.loads(GALLERY.FIGURES.read_text(encoding="utf-8"))[name]
    measured = opaq.measure(GALLERY.source_of(name), sequences=0)
    assert measured.opacity.value == pytest.approx(figures["uniform"], abs=1e-9)
    assert figures["uniform"] <= figures["opacity"] <= figures["bound"] + 1e-9 or not measured.feasible


def test_the_concepts_quote_what_was_computed() -> None:
    figures = json.loads((DOCS / "pictures" / "concepts.json").read_text(encoding="utf-8"))
    page = text_of(DOCS / "concepts.md")
    assert [name for name, figure in figures.items() if figure not in page] == []
    assert {key: figures[key] for key in ("with_clock", "b_at_1")} == {"with_clock": "0.5515", "b_at_1": "0.78"}
    with matplotlib.rc_context():  # the module chooses how matplotlib draws
        again = module_of(DOCS / "pictures" / "concepts.py").clock(draw=False)
    assert again == {key: figures[key] for key in again}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """All of it but running the tutorials, which test_docs.py does.

    Every page is read and its references are looked up; some are written, for most of the time goes into the theme's
    navigation beside each page and into the index of the search, which says that it is not whole then.
    """
    pytest.importorskip("myst_nb")
    options = ["-q", "-n", "-D", "nb_execution_mode=off", "-d", tmp_path / "trees"]
    some = [DOCS / name for name in ("index.md", "start.md", "contributing.md", "changelog.md", "gallery.md")]
    for builder, sources in (("dummy", []), ("html", [*some, *(DOCS / "tutorials").iterdir()])):
        command = [sys.executable, "-m", "sphinx", "-b", builder, *options, DOCS, tmp_path / "site", *sources]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        warnings = [line for line in done.stderr.splitlines() if "the index will be incomplete" not in line]
        assert (done.returncode, warnings) == (0, [])
    pages = {str(page.relative_to(tmp_path / "site")) for page in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "start.html", "contributing.html", "changelog.html", "gallery.html"} <= pages
    assert len([page for page in pages if page.startswith("tutorials/")]) >= 4
