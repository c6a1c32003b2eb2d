"""Checkpoints: every step of every start is stored so that kill -9 loses nothing, and read back with suspicion."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.files import read_bytes, write_bytes
from opaq.solvers.judge import Candidate
from opaq.solvers.loop import Snapshot
from opaq.solvers.strategy import Trace

CHECKPOINT_FORMAT = 3  # a checkpoint of another format is not read

_SECONDS_BETWEEN = 1.0
_LIMIT = 1 << 30  # bytes
_RNG_LIMIT = 1000  # bytes of a generator's state
_SEAL = f"opaq-checkpoint {CHECKPOINT_FORMAT} sha256:".encode()
_HEX = 64  # digits of the checksum that end the file

Arrays = dict[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """The file of one start; written at most once a second, and always when the start ends."""

    path: Path
    template: Any  # a state of the solver: the fields, shapes and types of what is read back
    last: float = -np.inf

    def store(self, now: Snapshot, *, final: bool) -> str:
        """Write the snapshot if it is the final one, or the last one is old enough.

        Returns why it could not be written, or nothing: the work goes on without it.
        """
        if not final and monotonic() - self.last < _SECONDS_BETWEEN:
            return ""
        self.last = monotonic()
        try:
            write_bytes(self.path, pack(now), overwrite=True)
        except InputError as error:
            return "; ".join(error.lines())
        return ""

    def load(self) -> Snapshot | None:
        """The snapshot on file, if there is one."""
        return unpack(self.path, self.template) if self.path.exists() else None


def pack(now: Snapshot) -> bytes:
    """A snapshot as bytes: an uncompressed .npz of plain arrays, no pickle, whose comment ends in its checksum."""
    arrays = {f"state_{field.name}": np.asarray(getattr(now.state, field.name)) for field in fields(now.state)}
    arrays["rng"] = np.frombuffer(json.dumps(now.rng.bit_generator.state).encode(), dtype=np.uint8)
    if now.best is not None:
        arrays |= {f"best_{field.name}": np.asarray(getattr(now.best, field.name)) for field in fields(now.best)}
    for field in fields(Trace):
        arrays[f"trace_{field.name}"] = np.array([getattr(trace, field.name) for trace in now.traces])
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = _SEAL + b"0" * _HEX
    content = buffer.getvalue()[:-_HEX]
    return content + _checksum(content)


def unpack(path: Path, template: Any) -> Snapshot:
    """A snapshot from its file; nothing in it is believed. Raises InputError when it is not what `pack` wrote."""
    content = read_bytes(path, max_bytes=_LIMIT, advice="no run writes so much; remove it")
    try:
        return unpacked(content, template)
    except Exception as error:  # whatever bytes may provoke in the readers of zip, npy and json
        found = f"is damaged or not a checkpoint of this run ({str(error)[:200] or type(error).__name__})"
        raise InputError([Fault("", found, "remove the file to begin this start anew")], str(path)) from None


def unpacked(content: bytes, template: Any) -> Snapshot:
    """A snapshot from the bytes of `pack`. Raises ValueError, or what bytes may provoke, when they are not."""
    _check_seal(content)
    return _snapshot(_arrays(content), template)


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _check_seal(content: bytes) -> None:
    if content[-_HEX - len(_SEAL) : -_HEX] != _SEAL:
        raise ValueError("it is cut off, or of another format")
    if content[-_HEX:] != _checksum(content[:-_HEX]):
        raise ValueError("its checksum is wrong")


def _arrays(content: bytes) -> Arrays:
    """Every member, none of which may be compressed or lie about its size: together they fit the file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(content):
            raise ValueError("its members are larger than the file")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it holds a member twice")
        return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}


def _array(content: bytes) -> Any:
    """One .npy member; its size is checked before anything is allocated."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it holds an array of another format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    body = content[file.tell() :]
    if dtype.kind not in "fiub" or fortran or prod(shape) * dtype.itemsize != len(body):
        raise ValueError("it holds an array of the wrong type or size")
    return np.frombuffer(body, dtype=dtype).reshape(shape).copy()


def _snapshot(arrays: Arrays, template: Any) -> Snapshot:
    expected = {f"state_{field.name}" for field in fields(template)} | {
        f"trace_{field.name}" for field in fields(Trace)
    }
    best_names = {f"best_{field.name}" for field in fields(Candidate)}
    if set(arrays) not in (expected | {"rng"}, expected | {"rng"} | best_names):
        raise ValueError("its fields are not those of this solver")
    values = {
        field.name: _like(arrays, f"state_{field.name}", getattr(template, field.name)) for field in fields(template)
    }
    theta, multipliers = template.theta, template.multipliers
    best = None
    if best_names <= set(arrays):
        likeness = Candidate(theta, 0.0, multipliers)
        best = Candidate(
            *(_like(arrays, f"best_{field.name}", getattr(likeness, field.name)) for field in fields(Candidate))
        )
    return Snapshot(replace(template, **values), _generator(arrays["rng"]), best, _traces(arrays, multipliers.size))


def _like(arrays: Arrays, name: str, model: Any) -> Any:
    """A field with the shape and kind of its model; infinite only if the model is, and never NaN."""
    found, wanted = arrays[name], np.asarray(model)
    if found.shape != wanted.shape or found.dtype.kind != wanted.dtype.kind:
        raise ValueError(f"{name} is {_kind(found)}, expected {_kind(wanted)}")
    if np.isnan(found).any() or (np.isinf(found).any() and np.isfinite(wanted).all()):
        raise ValueError(f"{name} is not finite")
    return found if found.ndim else found.item()


def _kind(array: Any) -> str:
    return f"{array.dtype} {array.shape}"


def _traces(arrays: Arrays, num_requirements: int) -> list[Trace]:
    columns = [arrays[f"trace_{field.name}"] for field in fields(Trace)]
    length = columns[0].shape[0] if columns[0].ndim == 1 else -1
    wide = (length, num_requirements) if length else (0,)
    if length < 0 or [column.shape for column in columns] != [(length,), (length,), wide, wide]:
        raise ValueError("the columns of its trace do not fit together")
    if (length and columns[0].dtype.kind != "i") or not all(np.isfinite(column).all() for column in columns):
        raise ValueError("its trace is not finite")
    return [Trace(int(row[0]), float(row[1]), row[2], row[3]) for row in zip(*columns, strict=True)]


def _generator(stored: Any) -> np.random.Generator:
    """A generator in the stored state, which must be one of the default generator."""
    if stored.dtype != np.uint8 or stored.ndim != 1 or stored.size > _RNG_LIMIT:
        raise ValueError("the state of its random numbers is not one")
    state = json.loads(stored.tobytes())
    rng = np.random.default_rng(0)
    if not isinstance(state, Mapping) or _outline(state) != _outline(rng.bit_generator.state):
        raise ValueError("the state of its random numbers is not one")
    rng.bit_generator.state = state
    return rng


def _outline(state: Any) -> Any:
    """Names and types, without the numbers."""
    if isinstance(state, Mapping):
        return {name: _outline(value) for name, value in state.items()}
    return state if isinstance(state, str) else type(state)
