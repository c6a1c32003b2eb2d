"""The record of a run (run.json): which problem, which options, which opaq; a run goes on only with the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.files import read_bytes, write_text
from opaq.lock import locked
from opaq.model.arrays import FloatArray
from opaq.model.fingerprint import Parts, digest
from opaq.solvers.objective import Objective
from opaq.solvers.options import SolveOptions
from opaq.solvers.run_files import CHECKPOINT_FORMAT
from opaq.solvers.strategy import Solver
from opaq.version import __version__

RECORD_FILE = "run.json"
_FORMAT, _VERSION = "opaq-run", 2
_LIMIT = 1 << 20
_NEW_FOLDER = "restore what was changed, or use another folder for a new run"

# When the first differs, the others differ with it and say nothing new.
_IMPLIED = {
    "number of states": (
        "names of the states",
        "start distribution",
        "enabled actions",
        "transitions",
        "rewards",
        "labels",
        "number of observations",
        "observer",
        "secret",
        "further requirements of the task",
        "policy class",
    ),
    "number of actions": ("names of the actions", "enabled actions", "transitions", "rewards", "policy class"),
    "number of observations": ("observer",),
    "kind of secret": ("secret",),
    "conditions of the policy": ("policy class",),
}
_SINGULAR = ("start distribution", "observer", "secret", "policy class")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run is about. A command writes `asked` before the problem is compiled; the rest comes with the solve."""

    problem: Parts | None = None
    options: Parts | None = None
    asked: Mapping[str, Any] | None = None  # {"problem": source, "options": {...}} in the command's words
    opaq: tuple[str, ...] = (__version__,)  # every version that worked on the run, the last one last
    checkpoints: int = CHECKPOINT_FORMAT

    def text(self) -> str:
        """As it is written, with a checksum of all the rest."""
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return json.dumps(content | {"checksum": _checksum(content)}, indent=1) + "\n"

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The record of a folder. Raises InputError when there is none, or it is damaged or of another format."""
        path = folder / RECORD_FILE
        if not path.exists():
            raise InputError([Fault("", f"holds no run: there is no {RECORD_FILE}")], str(folder))
        try:
            content = json.loads(
                read_bytes(path, max_bytes=_LIMIT, advice="no run writes so much; remove it"),
                parse_constant=_refuse_constant,
            )
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise ValueError("no run is described in it")
        except (ValueError, RecursionError) as error:
            raise _damaged(path, str(error)) from None
        if content.get("version") != _VERSION:
            found = f"was written in format {content.get('version')!r}, this opaq reads format {_VERSION}"
            raise InputError([Fault("", found, "begin the run again in another folder")], str(path))
        if content.pop("checksum", None) != _checksum(content):
            raise _damaged(path, "its checksum is wrong")
        try:
            return _checked(content)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, str(error)) from None


def option_parts(
    objective: Objective, options: SolveOptions, *, rounds: tuple[Solver, ...], warm: FloatArray | None
) -> Parts:
    """The options that decide the answer, flat; `warm` is a policy vector or None."""
    parts = _solver_parts(rounds) | {"gradients": objective.gradients}
    if objective.gradients == "sampled":
        parts["samples"] = int(objective.samples)
    parts |= {"starts": options.num_starts, "start": options.start, "seed": int(options.seed)}
    parts["warm policy"] = None if warm is None else digest(np.asarray(warm))
    budget = objective.budget
    return parts | {f"budget.{field.name}": _plain(getattr(budget, field.name)) for field in fields(budget)}


def _solver_parts(rounds: tuple[Solver, ...]) -> Parts:
    """The settings of a solver, which its rounds share but for the number of steps."""
    first: Any = rounds[0]
    parts: Parts = {"solver": first.name}
    if len(rounds) > 1:
        parts["solver.rounds"] = ", ".join(str(each.max_steps) for each in rounds)
    names = [field.name for field in fields(first)] if is_dataclass(first) else []
    kept = [name for name in names if len(rounds) == 1 or name != "max_steps"]
    return parts | {f"solver.{name}": _plain(getattr(first, name)) for name in kept}


@contextmanager
def recorded_run(folder: Path | None, *, problem: Parts, options: Parts) -> Iterator[None]:
    """Hold the folder of a run while it is worked on: a new one is recorded, an old one must be the same run.

    Raises InputError with everything that differs, when checkpoints lie there without a record, or when another
    process holds the folder. Without a folder nothing is kept.
    """
    if folder is None:
        yield
        return
    make_folder(folder)
    with locked(folder):
        exists = (folder / RECORD_FILE).exists()
        record = RunRecord.read(folder) if exists else RunRecord()
        if record.problem is None or record.options is None:
            refuse_stray_checkpoints(folder)
            _write(folder, replace(record, problem=problem, options=options))
        else:
            _refuse_differences(folder, record, problem, options)
            if record.opaq[-1] != __version__:
                _write(folder, replace(record, opaq=(*record.opaq, __version__)))
        yield


def begin_run(folder: Path, asked: Mapping[str, Any]) -> None:
    """Record what a command asks, in a folder that holds no run yet."""
    make_folder(folder)
    with locked(folder):
        if (folder / RECORD_FILE).exists():
            found = "holds a run already"
            raise InputError([Fault("", found, "go on with it, or use another folder")], str(folder))
        refuse_stray_checkpoints(folder)
        _write(folder, RunRecord(asked=asked))


def make_folder(folder: Path) -> None:
    """Make the folder of a run if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError([Fault("", f"cannot be made: {reason or error}")], str(folder)) from None


def refuse_stray_checkpoints(folder: Path) -> None:
    """Checkpoints without a record may be of any problem."""
    stray = sorted(path.name for path in folder.glob("start-*.npz"))
    if stray:
        found = f"holds checkpoints ({stray[0]}{', ...' if len(stray) > 1 else ''}) but no record of their problem"
        raise InputError([Fault("", found, "remove them, or use another folder")], str(folder))


def differences(was: Parts, now: Parts) -> list[str]:
    """What of a problem differs, in words."""
    different = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    implied = {name for cause in different for name in _IMPLIED.get(cause, ())}
    return [_difference(name, was.get(name), now.get(name)) for name in different if name not in implied]


def option_differences(was: Parts, now: Parts) -> list[str]:
    """What of the options differs, in words; another solver has other parameters, which need no mention."""
    was = {name: value for name, value in was.items() if not _redundant(name, value)}
    different = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    if "solver" in different:
        different = [name for name in different if not name.startswith("solver.")]
    return [_option_difference(name, was.get(name), now.get(name)) for name in different]


def _redundant(name: str, value: Any) -> bool:
    """What runs of opaq 0.1.0 also recorded, though it follows from the problem and from the other options."""
    return name == "solver.scales" or (name == "solver.rounds" and "," not in str(value))


def _difference(name: str, was: Any, now: Any) -> str:
    if _is_digest(was) or _is_digest(now):
        return f"the {name} {'differs' if name in _SINGULAR else 'differ'}"
    then, today = ("were", "are") if name.startswith("conditions") else ("was", "is")
    return f"the {name} {then} {_word(was)} and {today} {_word(now)}"


def _option_difference(name: str, was: Any, now: Any) -> str:
    if _is_digest(was) and _is_digest(now):
        return f"{name}: another one in the run than now"
    return f"{name}: {_word(was)} in the run, {_word(now)} now"


def _refuse_differences(folder: Path, record: RunRecord, problem: Parts, options: Parts) -> None:
    if record.checkpoints != CHECKPOINT_FORMAT:
        found = f"its checkpoints were written by opaq {record.opaq[-1]} in format {record.checkpoints}"
        advice = f"opaq {__version__} reads format {CHECKPOINT_FORMAT}; go on with that version, or begin a new run"
        raise InputError([Fault("", found, advice)], str(folder))
    found_all = differences(record.problem or {}, problem) + option_differences(record.options or {}, options)
    if found_all:
        faults = [Fault("", f"the run is of something else: {found}") for found in found_all]
        faults[-1] = replace(faults[-1], advice=_NEW_FOLDER)
        raise InputError(faults, str(folder))


def _write(folder: Path, record: RunRecord) -> None:
    write_text(folder / RECORD_FILE, record.text(), overwrite=True)


def _checked(content: dict[str, Any]) -> RunRecord:
    asked = content["asked"]
    if asked is not None:
        if not isinstance(asked, dict) or not isinstance(asked.get("problem"), str):
            raise ValueError("asked.problem is not a text")
        asked = {"problem": asked["problem"], "options": _parts("asked.options", asked.get("options"))}
    versions, checkpoints = content["opaq"], content["checkpoints"]
    if not isinstance(versions, list) or not versions or not all(isinstance(each, str) for each in versions):
        raise ValueError("opaq is not a list of versions")
    if type(checkpoints) is not int:
        raise ValueError("checkpoints is not a format number")
    return RunRecord(
        None if content["problem"] is None else _parts("problem", content["problem"]),
        None if content["options"] is None else _parts("options", content["options"]),
        asked,
        tuple(versions),
        checkpoints,
    )


def _parts(where: str, value: Any) -> Parts:
    if not isinstance(value, dict) or not all(
        each is None or isinstance(each, str | int | float) for each in value.values()
    ):
        raise ValueError(f"{where} does not hold names and plain values")
    return value


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _damaged(path: Path, reason: str) -> InputError:
    found = f"is damaged ({reason[:200]})"
    return InputError([Fault("", found, "begin the run again in another folder")], str(path))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else digest(value)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("sha256:")


def _word(value: Any) -> str:
    return (
        "none"
        if value is None
        else "another"
        if _is_digest(value)
        else f"{value:.17g}"
        if isinstance(value, float)
        else str(value)
    )
