"""One registry: every table of endings comes from it (a new format: tests/test_extensions.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opaq.formats import registry
from opaq.formats.registry import FORMATS, Format, format_of, formats_of
from opaq.spec.imported_part import IMPORTED


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.PRISM", "prism"),
        ("x.storm.json", "scheduler"),
        ("x.json", "json"),
        ("x.gv", "dot"),
        ("umb", None),
        ("x.unheard", None),
        ("", None),
    ],
)
def test_the_longest_ending_counts(path: str, name: str | None) -> None:
    format = format_of(path)
    assert (None if format is None else format.name) == name


@pytest.mark.parametrize("format", FORMATS.values(), ids=lambda format: format.name)
def test_every_reader_and_writer_is_there(format: Format) -> None:
    for path in filter(None, (format.reader, *format.writers.values())):
        assert callable(registry._load_attribute(path))


def test_problem_files_know_the_same_models() -> None:
    assert [format.name for format in formats_of("model")] == list(IMPORTED.kinds)


def test_the_registry_is_light() -> None:
    code = "import sys, opaq.formats.registry; print([name for name in ('numpy', 'yaml') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_lists_every_format() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "overview.md").read_text(encoding="utf-8")
    listed = {}
    for line in page.splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            listed[cells[0]] = (cells[1], cells[2], cells[4], cells[5])
    assert listed == {
        format.name: (
            ", ".join(format.endings) or "an id",
            format.holds,
            ", ".join(format.writers),
            ", ".join(option.name for option in format.options),
        )
        for format in FORMATS.values()
        if format.reader or format.writers
    }
