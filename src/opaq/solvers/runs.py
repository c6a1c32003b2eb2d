"""Run folders: the record of a run and one checkpoint per start, so that kill -9 loses nothing.

A folder holds `run.json`, which says by digests which problem is solved with which options, and files
`start-INDEX-ROUND.npz` with the state of every start (those of coarser classes in folders `coarser-N`); a command also
keeps the problem's text and, in the end, `result.json` and `policy.json`. Nothing that is read back is believed: a file
is checked against its checksum and against the shapes that this run would write.

A checkpoint holds the solver's state, the state of its random numbers, the best policy and the history of the start:
all that its future depends on, so that a resumed run ends with the same numbers as one that was never stopped. A run is
resumed only with the same problem and the same options, compared part by part, so that a message can name what differs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.files import lock_folder, read_bytes, write_bytes, write_text
from opaq.load import problem_text, save_policy
from opaq.model.arrays import FloatArray
from opaq.model.fingerprint import Parts, digest
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.policies import locate_policy
from opaq.solvers.loop import Candidate, SolverCheckpoint
from opaq.solvers.objective import Objective
from opaq.solvers.options import OPTIONS, SolveOptions
from opaq.solvers.strategy import Solver, Trace
from opaq.version import __version__

_CHECKPOINT_FORMAT = 5  # a checkpoint of another format is not read

_SECONDS_BETWEEN = 1.0
_LIMIT = 1 << 30  # bytes
_RNG_LIMIT = 1000  # bytes of a generator's state
_SEAL = f"opaq-checkpoint {_CHECKPOINT_FORMAT} sha256:".encode()
_HEX = 64  # digits of the checksum that end the file

Arrays = dict[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """The checkpoint file of one start; written at most once a second, and always when the start ends."""

    path: Path
    template: Any  # a state of the solver: the fields, shapes and types of what is read back
    last: float = -np.inf

    def store(self, now: SolverCheckpoint, *, final: bool) -> str:
        """Write the checkpoint if it is the final one, or the last one is old enough.

        now: the start as it is. final: whether it ends here.
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

    def load(self) -> SolverCheckpoint | None:
        """Return the checkpoint on file, if there is one. Raises InputError when it is damaged."""
        return _unpack(self.path, self.template) if self.path.exists() else None


def pack(now: SolverCheckpoint) -> bytes:
    """Return a checkpoint as bytes: an uncompressed .npz of plain arrays, no pickle, that ends in its checksum.

    Members are state_NAME, best_NAME and trace_NAME for the fields of these objects, and rng, the generator's state as
    JSON. The comment of the zip archive, its last bytes, is the seal and the SHA-256 of all before.
    """
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


def _unpack(path: Path, template: Any) -> SolverCheckpoint:
    """Read a checkpoint from its file.

    template: a state of the solver, whose fields, shapes and types the file must have.
    Raises InputError when it is not what `pack` wrote.
    """
    content = read_bytes(path, max_bytes=_LIMIT, advice="no run writes so much; remove it")
    try:
        _check_seal(content)
        return _checkpoint(_arrays(content), template)
    except Exception as error:  # whatever bytes may provoke in the readers of zip, npy and json
        finding = f"is damaged or not a checkpoint of this run ({str(error)[:200] or type(error).__name__})"
        raise InputError([Fault("", finding, "remove the file to begin this start anew")], str(path)) from None


def _checksum(content: bytes) -> bytes:
    """Return the SHA-256 of all before it, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest().encode()


def _check_seal(content: bytes) -> None:
    """Raise ValueError unless a file ends in the seal of this format and the checksum of the rest."""
    if content[-_HEX - len(_SEAL) : -_HEX] != _SEAL:
        raise ValueError("it is cut off, or of another format")
    if content[-_HEX:] != _checksum(content[:-_HEX]):
        raise ValueError("its checksum is wrong")


def _arrays(content: bytes) -> Arrays:
    """Read every member, none of which may be compressed or lie about its size: together they fit the file.

    Raises ValueError otherwise, and where a member occurs twice.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(content):
            raise ValueError("its members are larger than the file")
        if len({member.filename for member in members}) < len(members):
            raise ValueError("it holds a member twice")
        return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}


def _array(content: bytes) -> Any:
    """Read one .npy member; its size is checked before anything is allocated.

    Raises ValueError unless it is an array of format 1.0 in C order, of floats, whole numbers or flags, of its full
    length.
    """
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it holds an array of another format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    body = content[file.tell() :]
    if dtype.kind not in "fiub" or fortran or prod(shape) * dtype.itemsize != len(body):
        raise ValueError("it holds an array of the wrong type or size")
    return np.frombuffer(body, dtype=dtype).reshape(shape).copy()


def _checkpoint(arrays: Arrays, template: Any) -> SolverCheckpoint:
    """Build a checkpoint from the arrays of a file. Raises ValueError when they are not those of this solver."""
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
    return SolverCheckpoint(
        replace(template, **values), _generator(arrays["rng"]), best, _traces(arrays, multipliers.size)
    )


def _like(arrays: Arrays, name: str, model: Any) -> Any:
    """Return a field that has the shape and kind of its model: infinite only if the model is, and never NaN.

    name: of the field, for the message. Raises ValueError otherwise. Scalars are returned as Python numbers.
    """
    read, wanted = arrays[name], np.asarray(model)
    if read.shape != wanted.shape or read.dtype.kind != wanted.dtype.kind:
        raise ValueError(f"{name} is {read.dtype} {read.shape}, expected {wanted.dtype} {wanted.shape}")
    if np.isnan(read).any() or (np.isinf(read).any() and np.isfinite(wanted).all()):
        raise ValueError(f"{name} is not finite")
    return read if read.ndim else read.item()


def _traces(arrays: Arrays, num_requirements: int) -> list[Trace]:
    """Return the history of a start, whose columns must be finite and fit together.

    num_requirements: the width of slacks and multipliers. Raises ValueError otherwise.
    """
    columns = [arrays[f"trace_{field.name}"] for field in fields(Trace)]
    length = columns[0].shape[0] if columns[0].ndim == 1 else -1
    wide = (length, num_requirements) if length else (0,)
    if length < 0 or [column.shape for column in columns] != [(length,), (length,), wide, wide]:
        raise ValueError("the columns of its trace do not fit together")
    if (length and columns[0].dtype.kind != "i") or not all(np.isfinite(column).all() for column in columns):
        raise ValueError("its trace is not finite")
    return [Trace(int(row[0]), float(row[1]), row[2], row[3]) for row in zip(*columns, strict=True)]


def _generator(stored: Any) -> np.random.Generator:
    """Return a generator in the stored state, which must be one of the default generator."""
    if stored.dtype != np.uint8 or stored.ndim != 1 or stored.size > _RNG_LIMIT:
        raise ValueError("the state of its random numbers is not one")
    state = json.loads(stored.tobytes())
    rng = np.random.default_rng(0)
    if not isinstance(state, Mapping) or _outline(state) != _outline(rng.bit_generator.state):
        raise ValueError("the state of its random numbers is not one")
    rng.bit_generator.state = state
    return rng


def _outline(state: Any) -> Any:
    """Return names and types of a generator's state, without the numbers."""
    if isinstance(state, Mapping):
        return {name: _outline(value) for name, value in state.items()}
    return state if isinstance(state, str) else type(state)


RECORD_FILE = "run.json"
PROBLEM_FILE = "problem.yaml"
RESULT_FILE = "result.json"
POLICY_FILE = "policy.json"

# What of the options is recorded: those that decide the answer, and the file of the policy to begin from.
_UNRECORDED = ("time_limit", "workers", "mass", "sequences")
RECORDED_OPTIONS = (*(name for name in OPTIONS if name not in _UNRECORDED), "initial_policy")

_FORMAT, _VERSION = "opaq-run", 2
_MAX_RECORD_BYTES = 1 << 20
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
    """The problem and the options of a run, by digest.

    A command writes `asked` before the problem is compiled; the rest comes with the solve.
    """

    problem: Parts | None = None
    options: Parts | None = None
    asked: Mapping[str, Any] | None = None  # {"problem": source, "options": {...}} in the command's words
    opaq: tuple[str, ...] = (__version__,)  # every version that worked on the run, the last one last
    checkpoints: int = _CHECKPOINT_FORMAT

    def text(self) -> str:
        """Return the record as it is written, with a checksum of all the rest."""
        content = {"format": _FORMAT, "version": _VERSION} | asdict(self)
        return json.dumps(content | {"checksum": _record_checksum(content)}, indent=1) + "\n"

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Read the record of a folder. Raises InputError when there is none, or it is damaged or of another format."""
        path = folder / RECORD_FILE
        if not path.exists():
            raise InputError([Fault("", f"holds no run: there is no {RECORD_FILE}")], str(folder))
        try:
            content = json.loads(
                read_bytes(path, max_bytes=_MAX_RECORD_BYTES, advice="no run writes so much; remove it"),
                parse_constant=_refuse_constant,
            )
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise ValueError("no run is described in it")
        except (ValueError, RecursionError) as error:
            raise _damaged_file(path, str(error)) from None
        if content.get("version") != _VERSION:
            finding = f"was written in format {content.get('version')!r}, this opaq reads format {_VERSION}"
            raise InputError([Fault("", finding, "begin the run again in another folder")], str(path))
        if content.pop("checksum", None) != _record_checksum(content):
            raise _damaged_file(path, "its checksum is wrong")
        try:
            return _check_content(content)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged_file(path, str(error)) from None


def option_parts(
    objective: Objective, options: SolveOptions, *, rounds: tuple[Solver, ...], warm: FloatArray | None
) -> Parts:
    """Return the options that decide the answer, flat: what a run is resumed with must be the same.

    rounds: the solver of every round. warm: the policy vector [slot] that the first start begins from, if one is given.
    """
    parts = _solver_parts(rounds) | {"gradients": objective.gradients}
    if objective.gradients == "sampled":
        parts["samples"] = int(objective.samples)
    parts |= {"starts": options.starts, "start": options.start, "seed": int(options.seed)}
    parts["warm policy"] = None if warm is None else digest(np.asarray(warm))
    budget = objective.budget
    return parts | {f"budget.{field.name}": _plain(getattr(budget, field.name)) for field in fields(budget)}


def _solver_parts(rounds: tuple[Solver, ...]) -> Parts:
    """Return the settings of a solver, which its rounds share but for the number of steps."""
    first: Any = rounds[0]
    parts: Parts = {"solver": first.name}
    if len(rounds) > 1:
        parts["solver.rounds"] = ", ".join(str(each.max_steps) for each in rounds)
    names = [field.name for field in fields(first)] if is_dataclass(first) else []
    unrecorded = getattr(first, "unrecorded", ()) + (() if len(rounds) == 1 else ("max_steps",))
    kept = [name for name in names if name not in unrecorded]
    return parts | {f"solver.{name}": _plain(getattr(first, name)) for name in kept}


@contextmanager
def record_run(folder: Path, *, problem: Parts, options: Parts) -> Iterator[None]:
    """Hold the folder of a run while it is worked on: a new one is recorded, an old one must be the same run.

    problem, options: parts by name, as plain values or digests (`option_parts`).
    Raises InputError with everything that differs, when checkpoints lie there without a record, or when another
    process holds the folder.
    """
    _make_folder(folder)
    with lock_folder(folder):
        exists = (folder / RECORD_FILE).exists()
        record = RunRecord.read(folder) if exists else RunRecord()
        if record.problem is None or record.options is None:
            _refuse_stray_checkpoints(folder)
            _write(folder, replace(record, problem=problem, options=options))
        else:
            _refuse_differences(folder, record, problem, options)
            if record.opaq[-1] != __version__:
                _write(folder, replace(record, opaq=(*record.opaq, __version__)))
        yield


def begin_run(folder: Path, source: str, options: Mapping[str, Any]) -> None:
    """Record what is to be solved in a folder that holds no run yet, and copy the problem's text there.

    source: a problem file or the name of a scenario; options: a value, or None, for each of RECORDED_OPTIONS.
    `read_run` gives them back. Raises InputError when the folder holds a run, or cannot be written.
    """
    _refuse_run(folder)  # before it is locked: who works on a run also holds one
    _make_folder(folder)
    with lock_folder(folder):
        _refuse_run(folder)
        _refuse_stray_checkpoints(folder)
        path = str(Path(source).absolute()) if Path(source).exists() else source
        asked = {**options, "initial_policy": locate_policy(options.get("initial_policy"))}
        _write(folder, RunRecord(asked={"problem": path, "options": asked}))
    write_text(folder / PROBLEM_FILE, problem_text(source), overwrite=True)


def record_question(
    folder: Path, source: str, options: SolveOptions, initial_policy: str | os.PathLike[str] | None
) -> None:
    """Record what is to be solved, as `begin_run` does, in a folder that holds no run yet; nothing where one does.

    source, initial_policy: names of files (or of a scenario). options: of the solve.
    """
    if (folder / RECORD_FILE).exists():
        return
    values: dict[str, Any] = {name: value for name, value in options.to_dict().items() if name in RECORDED_OPTIONS}
    begin_run(folder, source, values | {"initial_policy": initial_policy})


def _refuse_run(folder: Path) -> None:
    """Raise InputError where a folder holds a run already."""
    if (folder / RECORD_FILE).exists():
        advice = "go on with it, or use another folder"
        raise InputError([Fault("", "holds a run already", advice, option="resume")], str(folder))


def read_run(folder: Path) -> tuple[str, Mapping[str, Any], str]:
    """Return the problem's source and the options that `begin_run` recorded, and the version that last worked on it.

    Raises InputError when there is no such run, when `solve` alone began it (its record then has no options in words),
    or when the options are not all there and valid.
    """
    record = RunRecord.read(folder)
    if record.asked is None:
        advice = "go on with it as it was begun: opaq.solve(..., run_folder=...)"
        raise InputError([Fault("", "was begun by a program, not by this command", advice)], str(folder))
    options = record.asked["options"]
    wrong = sorted(set(options) ^ set(RECORDED_OPTIONS))
    if not isinstance(options.get("initial_policy"), str | None):
        wrong.append("initial_policy")
    try:
        options_of_record(options)
    except InputError as error:
        wrong += [fault.where for fault in error.faults]
    if wrong:
        finding = f"its record does not hold the options of this version ({', '.join(wrong)})"
        raise InputError([Fault("", finding, "begin the run again in another folder")], str(folder))
    return record.asked["problem"], options, record.opaq[-1]


def options_of_record(options: Mapping[str, Any]) -> SolveOptions:
    """Return recorded options as those of a solve; None stands for the default. Raises InputError with every fault."""
    given = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    return SolveOptions.from_dict(given)


def finish_run(folder: Path, answer: Mapping[str, Any], policy: Policy, *, problem: Problem) -> None:
    """Keep the answer of a run, as plain data, and the policy that it is about. Raises InputError if it cannot.

    answer: what goes to result.json. policy: goes to policy.json. problem: whose names the policy uses.
    """
    save_policy(policy, folder / POLICY_FILE, problem=problem, overwrite=True)
    write_text(folder / RESULT_FILE, json.dumps(answer, indent=1) + "\n", overwrite=True)


def _make_folder(folder: Path) -> None:
    """Make the folder of a run if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError([Fault("", f"cannot be made: {reason or error}")], str(folder)) from None


def _refuse_stray_checkpoints(folder: Path) -> None:
    """Raise InputError where there are checkpoints without a record: they may be of any problem."""
    stray = sorted(str(path.relative_to(folder)) for path in folder.rglob("start-*.npz"))
    if stray:
        finding = f"holds checkpoints ({stray[0]}{', ...' if len(stray) > 1 else ''}) but no record of their problem"
        raise InputError([Fault("", finding, "remove them, or use another folder")], str(folder))


def describe_differences(was: Parts, now: Parts) -> list[str]:
    """Describe what differs between two problems, one sentence each; what follows from another difference is left out.

    was, now: parts of the two, by name.
    """
    different = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    implied = {name for cause in different for name in _IMPLIED.get(cause, ())}
    return [_difference(name, was.get(name), now.get(name)) for name in different if name not in implied]


def _option_differences(was: Parts, now: Parts) -> list[str]:
    """Describe what differs between two sets of options; another solver's other settings need no mention."""
    was = {name: value for name, value in was.items() if not _redundant(name, value)}
    different = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    if "solver" in different:
        different = [name for name in different if not name.startswith("solver.")]
    return [_option_difference(name, was.get(name), now.get(name)) for name in different]


def _redundant(name: str, value: Any) -> bool:
    """Return whether a part follows from the problem and from other options, though runs of 0.1.0 recorded it."""
    return name == "solver.scales" or (name == "solver.rounds" and "," not in str(value))


def _difference(name: str, was: Any, now: Any) -> str:
    """Describe how one part of a problem differs: by its values, or where it is a digest only that it does."""
    if _is_digest(was) or _is_digest(now):
        return f"the {name} {'differs' if name in _SINGULAR else 'differ'}"
    then, today = ("were", "are") if name.startswith("conditions") else ("was", "is")
    return f"the {name} {then} {_word(was)} and {today} {_word(now)}"


def _option_difference(name: str, was: Any, now: Any) -> str:
    """Describe how one option differs."""
    if _is_digest(was) and _is_digest(now):
        return f"{name}: another one in the run than now"
    return f"{name}: {_word(was)} in the run, {_word(now)} now"


def _refuse_differences(folder: Path, record: RunRecord, problem: Parts, options: Parts) -> None:
    """Raise InputError with all that differs between the run in a folder and what is to be solved."""
    if record.checkpoints != _CHECKPOINT_FORMAT:
        finding = f"its checkpoints were written by opaq {record.opaq[-1]} in format {record.checkpoints}"
        advice = f"opaq {__version__} reads format {_CHECKPOINT_FORMAT}; go on with that version, or begin a new run"
        raise InputError([Fault("", finding, advice)], str(folder))
    differing = describe_differences(record.problem or {}, problem) + _option_differences(record.options or {}, options)
    if differing:
        faults = [Fault("", f"the run is of something else: {one}") for one in differing]
        faults[-1] = replace(faults[-1], advice=_NEW_FOLDER)
        raise InputError(faults, str(folder))


def _write(folder: Path, record: RunRecord) -> None:
    """Write the record of a run in one step: whoever reads finds the old one or the new one."""
    write_text(folder / RECORD_FILE, record.text(), overwrite=True)


def _check_content(content: dict[str, Any]) -> RunRecord:
    """Return the record that a file holds. Raises ValueError, KeyError or TypeError when it is none."""
    question = content["asked"]
    if question is not None:
        if not isinstance(question, dict) or not isinstance(question.get("problem"), str):
            raise ValueError("asked.problem is not a text")
        question = {"problem": question["problem"], "options": _parts("asked.options", question.get("options"))}
    versions, checkpoints = content["opaq"], content["checkpoints"]
    if not isinstance(versions, list) or not versions or not all(isinstance(each, str) for each in versions):
        raise ValueError("opaq is not a list of versions")
    if type(checkpoints) is not int:
        raise ValueError("checkpoints is not a format number")
    return RunRecord(
        None if content["problem"] is None else _parts("problem", content["problem"]),
        None if content["options"] is None else _parts("options", content["options"]),
        question,
        tuple(versions),
        checkpoints,
    )


def _parts(where: str, value: Any) -> Parts:
    """Return a mapping from names to plain values. Raises ValueError, naming `where`, when it is none."""
    if not isinstance(value, dict) or not all(
        each is None or isinstance(each, str | int | float) for each in value.values()
    ):
        raise ValueError(f"{where} does not hold names and plain values")
    return value


def _record_checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record without its checksum, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python reads in JSON."""
    raise ValueError(f"{name} is not a number")


def _damaged_file(path: Path, reason: str) -> InputError:
    """Return the error to raise for a record that cannot be believed."""
    finding = f"is damaged ({reason[:200]})"
    return InputError([Fault("", finding, "begin the run again in another folder")], str(path))


def _plain(value: Any) -> Any:
    """Return a value that JSON has as it is, and the digest of any other."""
    return value if value is None or isinstance(value, bool | int | float | str) else digest(value)


def _is_digest(value: Any) -> bool:
    """Return whether a recorded value stands for one that is not written out."""
    return isinstance(value, str) and value.startswith("sha256:")


def _word(value: Any) -> str:
    """Return a recorded value as people read it."""
    if value is None:
        return "none"
    if _is_digest(value):
        return "another"
    return f"{value:.17g}" if isinstance(value, float) else str(value)
