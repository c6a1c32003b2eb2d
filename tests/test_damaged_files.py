"""Damaged files of every format either load or are refused in clear words: nothing else, in little time and memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from commands import opaq_command
from stress.damage import KINDS, damage_bytes, try_damage
from trials import part_of

COUNTS = {
    "run folder": 36,
    "journal": 100,
    "prism": 6,
    "answers": 12,
}  # 30 of every other kind; half, or all
COMMANDS = ("run folder", "measured files", "answers")  # they do more than read: their memory is not counted


@pytest.mark.parametrize("kind", KINDS)
def test_every_damaged_file_loads_or_is_refused(tmp_path: Path, kind: str) -> None:
    targets, count = KINDS[kind](tmp_path), len(part_of(range(COUNTS.get(kind, 30)), COUNTS.get(kind, 30) // 4))
    for target in targets:
        target.read(target.original)
    outcomes = [try_damage(kind, targets, number, limit_memory=kind not in COMMANDS) for number in range(count)]
    assert [(number, *outcome.failures) for number, outcome in enumerate(outcomes) if outcome.failures] == []
    assert sum((kind, "refused") in outcome.tallies for outcome in outcomes) > count / 4


def test_damages_repeat_with_their_number() -> None:
    data, other = bytes(range(256)), b"another file"
    one, same = (damage_bytes(data, other, Random(1)) for _ in range(2))
    assert one == same != data


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
    done = opaq_command("solve", "--resume", tmp_path, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opaq: ")
