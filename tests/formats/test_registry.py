"""One registry: every table of endings comes from it, and a new format needs nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opaq
from opaq.errors import InputError
from opaq.formats import registry
from opaq.formats.registry import FORMATS, Export, Format, ReaderOption, format_of, formats_of, register_format
from opaq.model.imported import Imported
from opaq.reports.conversion import convert
from opaq.spec.imported_part import IMPORTED


def read_toy(path: str, *, constants: dict[str, float] | None = None) -> Imported:
    """The model of the bundled scenario that the file names; its reward may be replaced."""
    import dataclasses

    import numpy as np

    mdp = opaq.load_problem(Path(path).read_text().strip()).mdp
    reward = (constants or {}).get("reward")
    return Imported(mdp if reward is None else dataclasses.replace(mdp, rewards=np.full(mdp.num_choices, reward)))


def toy_of_model(imported: Imported, export: Export) -> bytes:
    export.notes.append("a toy holds the number of states only")
    return str(imported.mdp.num_states).encode()


@pytest.fixture
def toy() -> Iterator[Format]:
    format = Format(
        "toy",
        "a toy model",
        "model",
        (".toy",),
        f"{__name__}:read_toy",
        {"model": f"{__name__}:toy_of_model"},
        options=(ReaderOption("constants", "values", "reward: what every choice earns"),),
        example="toy: FILE",
    )
    yield register_format(format)
    del FORMATS["toy"]
    IMPORTED.kinds.pop("toy", None)


def test_a_new_format_is_read_by_problem_files(toy: Format, tmp_path: Path) -> None:
    (tmp_path / "sink.toy").write_text("two-sink\n")
    rest = 'observer: {emissions: {"*": dark}}\nsecret: {last_state: "q1"}\nhorizon: 2\n'
    (tmp_path / "own.yaml").write_text("opaq: 1\ntoy: sink.toy\n" + rest)
    (tmp_path / "inner.yaml").write_text("opaq: 1\nmodel: {toy: sink.toy, constants: {reward: 3}}\n" + rest)
    states = opaq.load_problem("two-sink").mdp.states
    assert opaq.load_problem(tmp_path / "own.yaml").mdp.states == states
    assert set(opaq.load_problem(tmp_path / "inner.yaml").mdp.rewards.tolist()) == {3.0}
    (tmp_path / "wrong.yaml").write_text("opaq: 1\nmodel: {toy: sink.toy, constants: {reward: big}}\n" + rest)
    with pytest.raises(InputError, match=r"constants\.reward: is 'big', not a number or true or false"):
        opaq.load_problem(tmp_path / "wrong.yaml")


def test_a_new_format_is_converted_and_told_apart(toy: Format, tmp_path: Path) -> None:
    (tmp_path / "sink.toy").write_text("two-sink\n")
    convert(tmp_path / "sink.toy", tmp_path / "sink.umb")
    assert convert(tmp_path / "sink.umb", tmp_path / "again.toy") == ("a toy holds the number of states only",)
    count = opaq.load_problem("two-sink").mdp.num_states
    assert (tmp_path / "again.toy").read_bytes() == str(count).encode()
    with pytest.raises(InputError) as caught:
        opaq.load_problem(tmp_path / "sink.toy")
    assert caught.value.faults[0].found == "is a toy model, not a problem"
    assert caught.value.example == "toy: sink.toy"


def test_names_and_endings_are_taken_once(toy: Format) -> None:
    for name, ending in (("toy", ".other"), ("other", ".toy"), ("other", ".umb")):
        with pytest.raises(ValueError, match="registered already"):
            register_format(Format(name, "a thing", "other", (ending,)))
    assert "other" not in FORMATS


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
        assert callable(registry._loaded(path))


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
