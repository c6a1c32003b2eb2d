"""A part of benchmarks/trust_corrupt.py: damaged runs, policies and archives give one clear error, or an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from stress.corruption import Originals, say, try_damage


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return Originals.make(tmp_path_factory.mktemp("originals"))


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_damage_is_told_in_a_line(originals: Originals, tmp_path: Path, first: int) -> None:
    tried = [try_damage(originals, number, tmp_path) for number in range(first, first + 20)]
    assert [f"{one.number} {one.file} {one.damage}: {one.complaint}" for one in tried if one.complaint] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "opaq-run", "version": 1}',
        '{"format": "opaq-run", "version": 1, "problem": 3, "options": []}',
        '{"format": "opaq-run", "version": 1, "problem": "two-sink", "options": {"starts": -1}}',
        '{"format": "opaq-run", "version": ' + "9" * 5000 + "}",
        "[" * 100_000,
        "\x00\x01",
    ],
    ids=range(9),
)
def test_a_run_file_that_says_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    said = say("solve", "--resume", str(tmp_path), "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("opaq: ")
