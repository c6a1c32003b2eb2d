"""Files are whole or not there."""

from __future__ import annotations

import os
import stat

import pytest

from opaq.errors import InputError
from opaq.files import write_text


def test_written_text_is_read_back_and_nothing_else_is_left(tmp_path) -> None:
    write_text(tmp_path / "a.txt", "é\n")
    assert (tmp_path / "a.txt").read_bytes() == "é\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_an_existing_file_stays_unless_told(tmp_path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o600)
    with pytest.raises(InputError, match="--force"):
        write_text(file, "new")
    assert file.read_text() == "old"
    write_text(file, "new", overwrite=True)
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def broken(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(InputError, match="No space left"):
        write_text(file, "new", overwrite=True)
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_is_followed(tmp_path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "new", overwrite=True)
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_places_that_cannot_be_written(tmp_path) -> None:
    missing = tmp_path / "no" / "a.txt"
    cases = [(missing, "does not exist"), (tmp_path, "is a folder"), ("/dev/null", "not a regular file")]
    for path, reason in cases:
        with pytest.raises(InputError, match=reason):
            write_text(path, "x", overwrite=True)
