"""Run directories: every step of every start is stored so that kill -9 loses nothing."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.files import read_bytes, write_bytes
from opaq.solve.judge import Candidate
from opaq.solve.loop import Snapshot
from opaq.solve.strategy import Trace

_SECONDS_BETWEEN = 1.0
_MAX_BYTES = 1 << 30  # of a checkpoint


@dataclass(slots=True)
class Checkpoint:
    """The file of one start; written at most once a second, and always when the start ends."""

    path: Path
    template: Any  # a state of the solver, whose fields tell how to read one back
    last: float = -np.inf

    def store(self, now: Snapshot, *, final: bool) -> None:
        """Write the snapshot if it is the final one, or the last one is old enough."""
        if final or monotonic() - self.last >= _SECONDS_BETWEEN:
            write_bytes(self.path, pack(now), overwrite=True)
            self.last = monotonic()

    def load(self) -> Snapshot | None:
        """The snapshot on file, if there is one."""
        return unpack(self.path, self.template) if self.path.exists() else None


def pack(now: Snapshot) -> bytes:
    """A snapshot as bytes: plain arrays, no pickle."""
    arrays = {f"state_{field.name}": np.asarray(getattr(now.state, field.name)) for field in fields(now.state)}
    arrays["rng"] = np.frombuffer(json.dumps(now.rng.bit_generator.state).encode(), dtype=np.uint8)
    if now.best is not None:
        arrays |= {f"best_{field.name}": np.asarray(getattr(now.best, field.name)) for field in fields(now.best)}
    for field in fields(Trace):
        arrays[f"trace_{field.name}"] = np.array([getattr(trace, field.name) for trace in now.traces])
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(path: Path, template: Any) -> Snapshot:
    """A snapshot from its file."""
    try:
        with np.load(io.BytesIO(read_bytes(path, max_bytes=_MAX_BYTES)), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        state = replace(template, **{field.name: _plain(arrays[f"state_{field.name}"]) for field in fields(template)})
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(arrays["rng"].tobytes())
        best = _record(Candidate, "best", arrays) if "best_theta" in arrays else None
        columns = [arrays[f"trace_{field.name}"] for field in fields(Trace)]
        traces = [Trace(int(row[0]), float(row[1]), row[2], row[3]) for row in zip(*columns, strict=True)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        found = f"is not a checkpoint this version can read ({error})"
        raise InputError([Fault("", found, "remove the file to begin this start anew")], str(path)) from error
    return Snapshot(state, rng, best, traces)


def _plain(array: Any) -> Any:
    return array if array.ndim else array.item()


def _record(kind: Callable[..., Any], prefix: str, arrays: dict[str, Any]) -> Any:
    return kind(**{field.name: _plain(arrays[f"{prefix}_{field.name}"]) for field in fields(kind)})  # type: ignore[arg-type]
