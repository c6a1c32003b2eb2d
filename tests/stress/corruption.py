"""Damaged files fed to the command line, in this process: an exit code that is promised, and one clear line.

Damage number N of a folder is always the same. Only the command line is used, not what the files hold.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import opaq
from opaq.cli.main import app
from opaq.cli.shell import run_guarded
from opaq.formats.umb.reader import write_umb
from stress.interrupts import bits

PROMISED = (0, 1, 2, 3)
_UMB_PROBLEM = """opaq: 1
umb: model.umb
observer: {emissions: {"*": {u: 0.5, v: 0.5}}}
secret: {last_state: [q1]}
horizon: 2
"""
_NUMBERS = (b"1e999", b"-1", b"nan", b"9" * 400, b"1e-400", b"NaN", b"Infinity", b"null", b"true", b'"x"', b"[]", b"{}")


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """What came of one damaged file."""

    number: int
    file: str
    damage: str
    said: Said
    same_answer: bool  # whether the answer is that of the undamaged file

    @property
    def complaint(self) -> str:
        """What is wrong, or nothing."""
        code, err = self.said.code, self.said.err
        if code not in PROMISED or "Traceback" in err or "fault of opaq" in err:
            return f"exit code {code}: {err.strip()[-300:]}"
        if code == 2 and (self.said.out or not _one_clear_message(err)):
            return f"exit code 2 without a clear line: {err[:300]!r}"
        return ""


def say(*arguments: str) -> Said:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_guarded(lambda kept: app(args=kept, prog_name="opaq"), arguments)
    return Said(code, out.getvalue(), err.getvalue())


def _one_clear_message(err: str) -> bool:
    """Every line is opaq's own, and there are few."""
    lines = [line for line in err.splitlines() if "warning" not in line]
    return 1 <= len(lines) <= 30 and all(line.startswith("opaq: ") and len(line) < 1000 for line in lines)


@dataclass(frozen=True, slots=True)
class Originals:
    """Undamaged files, and what is answered to them."""

    folder: Path  # run/ (a finished run), begun/ (the same without its result), policy.json, model.umb
    answers: dict[str, Any]  # what is answered to "solve --resume" and "measure" of each, without times

    @classmethod
    def make(cls, folder: Path) -> Originals:
        """A real run, a policy and a model archive."""
        run, policy, umb = folder / "run", folder / "policy.json", folder / "model.umb"
        done = say(
            "solve", "two-sink", "--starts", "2", "--run-folder", str(run), "--save-policy", str(policy), "--json"
        )
        assert done.code == 0, done.err
        problem = opaq.load_problem("two-sink")
        write_umb(umb, problem.mdp, observer=problem.observer)
        (folder / "umb.yaml").write_text(_UMB_PROBLEM)
        shutil.copytree(run, folder / "begun")
        (folder / "begun" / "result.json").unlink(missing_ok=True)
        undamaged = cls(folder, {})
        for file, command in undamaged.targets():
            copy = folder.parent / f"{folder.name}-copy"
            shutil.copytree(file.parent, copy)
            undamaged.answers[file.name] = bits(say(*command(copy)).out)
            assert undamaged.answers[file.name] is not None, file
            shutil.rmtree(copy)
        return undamaged

    def targets(self) -> list[tuple[Path, Callable[[Path], tuple[str, ...]]]]:
        """Every file worth damaging, with the command that reads it (given the folder it lies in)."""

        def resume(folder: Path) -> tuple[str, ...]:
            return ("solve", "--resume", str(folder), "--json")

        def measure(folder: Path) -> tuple[str, ...]:
            return ("measure", "two-sink", "--policy", str(folder / "policy.json"), "--json")

        def load(folder: Path) -> tuple[str, ...]:
            return ("measure", str(folder / "umb.yaml"), "--json")

        runs = [file for name in ("run", "begun") for file in sorted((self.folder / name).rglob("*")) if file.is_file()]
        resumed = [(file, resume) for file in runs if file.stat().st_size]
        return [*resumed, (self.folder / "policy.json", measure), (self.folder / "model.umb", load)]


def try_damage(originals: Originals, number: int, scratch: Path) -> Damaged:
    """Damage one file of a copy and run the command that reads it."""
    rng = Random(number)
    targets = originals.targets()
    file, command = targets[number % len(targets)]
    others = [other.read_bytes() for other, _ in targets]
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    if file.parent == originals.folder:
        copy.mkdir(parents=True)
        for name in ("policy.json", "model.umb", "umb.yaml"):
            shutil.copy(originals.folder / name, copy / name)
    else:
        shutil.copytree(file.parent, copy)
    name, damage = rng.choice(DAMAGES)
    (copy / file.name).write_bytes(damage(rng, file.read_bytes(), rng.choice(others)))
    said = say(*command(copy))
    same = bits(said.out) == originals.answers[file.name]
    return Damaged(number, f"{file.parent.name}/{file.name}", name, said, same)


def _flip(rng: Random, data: bytes, other: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 30))):
        if found:
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def _truncate(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.choice((0, 1, rng.randrange(len(data) + 1), max(0, len(data) - 1)))]


def _insert(rng: Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 4, 100))) + data[at:]


def _zero(rng: Random, data: bytes, other: bytes) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 16, 512, 4096))
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def _swap(rng: Random, data: bytes, other: bytes) -> bytes:
    size = rng.choice((1, 8, 64))
    one, two = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    first, second = data[one : one + size], data[two : two + size]
    found = bytearray(data)
    found[two : two + size], found[one : one + size] = first, second
    return bytes(found)


def _exchange(rng: Random, data: bytes, other: bytes) -> bytes:
    return other


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _random(rng: Random, data: bytes, other: bytes) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 100, len(data))))


def _nest(rng: Random, data: bytes, other: bytes) -> bytes:
    depth = rng.choice((50, 2_000, 100_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * depth + b"1" + (closing * depth if rng.random() < 0.7 else b"")
    at = data.find(b": ", rng.randrange(len(data) + 1))
    return data[: at + 2] + deep + data[at + 2 :] if at >= 0 and rng.random() < 0.7 else deep


def _number(rng: Random, data: bytes, other: bytes) -> bytes:
    """Another number, or none, in place of one."""
    places = [at for at in range(len(data)) if data[at : at + 1].isdigit() and not data[at - 1 : at].isdigit()]
    if not places:
        return _flip(rng, data, other)
    at = end = rng.choice(places)
    while data[end : end + 1].isdigit():
        end += 1
    return data[:at] + rng.choice(_NUMBERS) + data[end:]


DAMAGES: tuple[tuple[str, Callable[[Random, bytes, bytes], bytes]], ...] = (
    ("bit flips", _flip),
    ("truncation", _truncate),
    ("insertion", _insert),
    ("zero block", _zero),
    ("swapped blocks", _swap),
    ("another file", _exchange),
    ("spliced with another file", _splice),
    ("random bytes", _random),
    ("deep nesting", _nest),
    ("odd number", _number),
)
