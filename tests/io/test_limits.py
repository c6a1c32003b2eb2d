"""Small inputs that ask for much: each is refused with the number, in little time and memory."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

import opaq
from opaq.errors import BudgetError, InputError
from opaq.io.umb import read_umb

REST: dict[str, Any] = {"opaq": 1, "observer": {"from": "model"}, "secret": {"initial_state": True}, "horizon": 2}


def written(folder: Path, text: str) -> Path:
    (folder / "problem.yaml").write_text(text)
    return folder / "problem.yaml"


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
@pytest.mark.parametrize("kind", ["umb", "pomdp", "prism", "jani", "drn"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [("/dev/zero", "not a regular file"), ("pipe", "not a regular file"), (".", "is a folder"), ("none", "no such")],
)
def test_models_are_regular_files(tmp_path: Path, kind: str, target: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / f"model.{kind}").symlink_to(target)
    rest = "observer: {from: model}\nsecret: {initial_state: true}\nhorizon: 2\n"
    file = written(tmp_path, f"opaq: 1\n{kind}: model.{kind}\n{rest}")
    with pytest.raises(InputError, match=reason) as caught:
        opaq.load_problem(file)
    assert f"{kind}: model.{kind}: " in str(caught.value)


@pytest.mark.parametrize("kind", ["umb", "pomdp"])
def test_impossible_names_are_faults(tmp_path: Path, kind: str) -> None:
    rest = "observer: {from: model}\nsecret: {initial_state: true}\nhorizon: 2\n"
    with pytest.raises(InputError, match="cannot be the name of a file"):
        opaq.load_problem(written(tmp_path, f'opaq: 1\n{kind}: "x\\0y.{kind}"\n{rest}'))


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_problems_policies_and_automata_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.hoa").symlink_to("/dev/zero")
    problem = opaq.scenarios.text("two-sink").replace("last_state: secret", "automaton: {file: zero.hoa}")
    for path in (tmp_path / "pipe.yaml", "/dev/zero"):
        with pytest.raises(InputError, match="not a regular file"):
            opaq.load_problem(path)
        with pytest.raises(InputError, match="not a regular file"):
            opaq.load_policy(path, opaq.load_problem("two-sink"))
    with pytest.raises(InputError, match="zero.hoa: cannot be read: it is a device"):
        opaq.load_problem(written(tmp_path, problem))


@pytest.mark.parametrize("compress", [gzip.compress, pytest.importorskip("lzma").compress])
def test_a_bomb_is_stopped_while_it_unfolds(tmp_path: Path, compress: Any) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("zeros.bin")
        entry.size = 200_000_000
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    file = tmp_path / "bomb.umb"
    file.write_bytes(compress(buffer.getvalue()))
    with pytest.raises(InputError, match=r"more than 67,108,864 bytes once decompressed; store it without"):
        read_umb(file)
