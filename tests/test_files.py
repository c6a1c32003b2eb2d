"""Files are whole or not there; only regular files of a limited size are read."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from opaq.errors import InputError
from opaq.files import check_writable, read_bytes, write_text


def test_written_text_is_read_back_and_nothing_else_is_left(tmp_path) -> None:
    write_text(tmp_path / "a.txt", "é\n")
    assert (tmp_path / "a.txt").read_bytes() == "é\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_an_existing_file_stays_unless_told(tmp_path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o600)
    with pytest.raises(InputError, match="overwrite=True"):
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


def test_a_check_leaves_nothing_behind(tmp_path) -> None:
    check_writable(tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.txt").write_text("old")
    check_writable(tmp_path / "a.txt", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_check_finds_what_writing_would(tmp_path) -> None:
    (tmp_path / "there.txt").write_text("old")
    cases = [
        (tmp_path / "no" / "a.txt", "does not exist"),
        (tmp_path / "there.txt" / "a.txt", "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "there.txt", "exists already"),
        ("/dev/null", "not a regular file"),
        ("/proc/a.txt", "takes no new files"),
        ("a\0b", "is not a file name"),
    ]
    for path, reason in cases:
        for attempt in (check_writable, lambda path: write_text(path, "x")):
            with pytest.raises(InputError, match=reason):
                attempt(path)


def test_a_check_finds_a_full_disk_and_a_read_only_one(tmp_path, monkeypatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        check_writable(tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []

    def read_only(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(InputError, match="may not be written; check the permissions"):
        check_writable(tmp_path / "a.txt")


def test_file_systems_that_cannot_sync_or_keep_permissions(tmp_path, monkeypatch) -> None:
    def unsupported(*_args: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", unsupported)
    monkeypatch.setattr(os, "chmod", unsupported)
    write_text(tmp_path / "a.txt", "one")
    write_text(tmp_path / "a.txt", "two", overwrite=True)
    assert (tmp_path / "a.txt").read_text() == "two"


def test_a_regular_file_is_read_whole(tmp_path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(range(256)) * 100)
    assert read_bytes(file, max_bytes=25_600) == file.read_bytes()
    with pytest.raises(InputError, match="has 25,600 bytes; the limit is 25,599; make it smaller"):
        read_bytes(file, max_bytes=25_599, advice="make it smaller")


def test_a_file_that_hides_its_size_is_limited_too() -> None:
    status = "/proc/self/status"
    if not os.path.exists(status):
        pytest.skip("needs /proc")
    assert os.stat(status).st_size == 0
    assert b"Name:" in read_bytes(status, max_bytes=100_000)
    with pytest.raises(InputError, match="has more than 10 bytes; the limit is 10"):
        read_bytes(status, max_bytes=10)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_only_regular_files_are_read_and_none_is_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cases = [
        ("/dev/zero", "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "link", "not a regular file"),
        (tmp_path / "loop", "cannot be read: Too many levels"),
        (tmp_path, "is a folder"),
        (tmp_path / "none", "no such file"),
        (tmp_path / "none" / "none", "no such file"),
        ("a\0b", "cannot be the name of a file"),
        ("\ud800", "cannot be the name of a file"),
        ("a" * 10_000, "cannot be read: File name too long"),
    ]
    for path, reason in cases:
        with pytest.raises(InputError, match=reason):
            read_bytes(path, max_bytes=100)
