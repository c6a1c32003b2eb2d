"""One registry: every table of endings comes from it (a new format: tests/test_extensions.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from opaq.formats.registry import FORMATS, format_of, formats_of
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


def test_problem_files_know_the_same_models() -> None:
    assert [format.name for format in formats_of("model")] == list(IMPORTED.kinds)


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
            ", ".join(format.options),
        )
        for format in FORMATS.values()
        if format.reader or format.writers
    }
