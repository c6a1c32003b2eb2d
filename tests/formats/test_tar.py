"""Headers of tar archives, against Python's tarfile, which knows all formats."""

from __future__ import annotations

import io
import tarfile

import pytest

from opaq.formats.umb.tar import tar_entries

NAMES = {
    tarfile.USTAR_FORMAT: ("a.bin", "b" * 100, f"{'folder/' * 20}end.bin"),
    tarfile.GNU_FORMAT: ("a.bin", "b" * 100, "b" * 101, f"{'folder/' * 60}end.bin", "ünder/é.bin"),
    tarfile.PAX_FORMAT: ("a.bin", "b" * 100, "b" * 101, f"{'folder/' * 60}end.bin", "ünder/é.bin"),
}


def pack(format: int, names: tuple[str, ...]) -> bytes:
    """An archive with a folder, and members of 0, 511, 1022, ... bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format, pax_headers={"comment": "of all"}) as archive:
        folder = tarfile.TarInfo("inside")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for count, name in enumerate(names):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = 511 * count, 1.5  # a fraction needs a pax header
            archive.addfile(entry, io.BytesIO(bytes([count + 1]) * entry.size))
    return buffer.getvalue()


@pytest.mark.parametrize("format", NAMES)
def test_entries_are_those_of_tarfile(format: int) -> None:
    content = pack(format, NAMES[format])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        expected = [(one.name, one.isreg(), one.isdir(), one.offset_data, one.size) for one in archive]
    found = [(one.name.rstrip("/"), *one[1:]) for one in tar_entries(memoryview(content))]
    assert found == expected
    assert [name for name, *_ in found] == ["inside", *NAMES[format]]


def test_links_devices_and_files_with_holes_are_no_plain_files() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            entry = tarfile.TarInfo(f"kind {kind!r}")
            entry.type, entry.linkname = kind, "x" * 200  # a long target has an extension of its own
            archive.addfile(entry)
        entry = tarfile.TarInfo("holes")
        entry.pax_headers = {"GNU.sparse.major": "1"}
        archive.addfile(entry)
    entries = list(tar_entries(memoryview(buffer.getvalue())))
    assert len(entries) == 5
    assert not any(one.is_file or one.is_folder for one in entries)


@pytest.mark.parametrize("place", [0, 124, 150, 156, 345])  # name, size, checksum, kind, first part of the name
def test_a_damaged_header_is_refused(place: int) -> None:
    content = bytearray(pack(tarfile.USTAR_FORMAT, ("a.bin", "b.bin")))
    content[512 + place] ^= 0x11
    with pytest.raises(ValueError, match="the header at byte 512 is damaged"):
        list(tar_entries(memoryview(content)))


@pytest.mark.parametrize("records", [b"13 size=-512\n", b"11 size=1_0\n", b"0 path=a\n", b"999 path=a\n", b"path"])
def test_a_damaged_pax_header_is_refused(records: bytes) -> None:
    pax, entry = tarfile.TarInfo("pax"), tarfile.TarInfo("a.bin")
    pax.type, pax.size = tarfile.XHDTYPE, len(records)
    content = pax.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0") + entry.tobuf(tarfile.USTAR_FORMAT)
    with pytest.raises(ValueError, match="a pax header is damaged"):
        list(tar_entries(memoryview(content)))


def test_an_empty_file_is_no_archive() -> None:
    with pytest.raises(ValueError, match="it is empty"):
        list(tar_entries(memoryview(b"")))
