"""Read PRISM, JANI and DRN models, built by Storm in a process of its own.

The name of a file comes in, an `Imported` model goes out. Storm gets a copy of the file and a request (`request.json`),
writes the model as UMB and a report beside it, and the UMB reader reads that. Limits on time and memory hold for the
process, which never outlives the call. The observables of a PRISM file name the observations.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Fault, InputError, check_numbers, check_path, check_types
from opaq.files import read_bytes
from opaq.formats.format import Format
from opaq.formats.names import entry_names
from opaq.formats.registry import FORMATS
from opaq.formats.umb.reader import deadlock_warning, read_umb
from opaq.model.arrays import FloatArray, IntArray, floats
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import Imported
from opaq.model.observer import Observer
from opaq.spec.variables import ExpressionError, evaluate
from opaq.stop import on_exit

_COMMENT = re.compile(r"//[^\n]*")
_LISTED = re.compile(r"\bobservables\b(.*?)\bendobservables\b", re.DOTALL)
_NAMED = re.compile(r'\bobservable\s*"([^"]*)"\s*=([^;]*);')
_DEFINED = re.compile(r"\b(?:const(?:\s+(?:int|double|bool))?|formula)\s+([A-Za-z_]\w*)\s*=([^;]*);")
_NAME = re.compile(r"[A-Za-z_]\w*")


def _observable_values(
    source: str, variables: Mapping[str, NDArray[Any]], constants: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Return observable -> its value in every state, read from a PRISM source.

    variables, constants: the values of the names in it.
    Raises ExpressionError if the source is beyond what is read here.
    """
    source = _COMMENT.sub("", source)
    names = _Names(dict(_DEFINED.findall(source)), {**variables, **constants})
    return {name: names.value(text) for name, text in _observables(source)}


def _observables(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the expression of every observable.

    `observables x, y endobservables` lists variables, `observable "near" = x < 2;` defines one.
    """
    for listed in _LISTED.findall(source):
        for name in _NAME.findall(listed):
            yield name, name
    yield from _NAMED.findall(source)


@dataclass(slots=True)
class _Names:
    """Formulas and constants by their definitions, evaluated when they are first needed.

    definitions: name -> expression; known: name -> value; open: the names being evaluated.
    """

    definitions: dict[str, str]
    known: dict[str, Any]
    open: set[str] = field(default_factory=set)

    def value(self, text: str) -> NDArray[Any]:
        """Return the value of an expression, after those of the definitions it uses.

        Raises ExpressionError for a circle.
        """
        for name in _NAME.findall(text):
            if name in self.known or name not in self.definitions:
                continue
            if name in self.open:
                raise ExpressionError(f"'{name}' is defined by itself")
            self.open.add(name)
            self.known[name] = self.value(self.definitions[name])
        return evaluate(text, self.known)


def _share_values(
    values: Mapping[str, NDArray[Any]], seen: NDArray[np.int64], count: int
) -> dict[str, NDArray[Any]] | None:
    """Return observable -> its value for every observation; None if two states that look alike differ in one.

    values: observable -> [state]; seen: [state] -> observation; count: how many observations there are.
    """
    present, first = np.unique(seen, return_index=True)
    if present.size != count or not values:
        return None
    shared = {name: value[first] for name, value in values.items()}
    return shared if all((shared[name][seen] == value).all() for name, value in values.items()) else None


MEMORY = 8 << 30
_PARSING = re.compile(r"Parsing error at (\d+):(\d+):(.*?)(?=, here:|$)")
_EXCEPTION = re.compile(r"\b[A-Za-z]+Exception: ")
_MAX_BYTES = 256 << 20  # of a model file
_OUT_OF_MEMORY = ("bad_alloc", "Cannot allocate", "out of memory", "MemoryError")


def read_prism(
    path: str | os.PathLike[str],
    *,
    constants: Mapping[str, bool | int | float] | None = None,
    reward: str | None = None,
    seconds: float = 600,
    memory: int = MEMORY,
) -> Imported:
    """Build a PRISM, JANI or DRN model (by the file's ending) with Storm and read it.

    path: the file; its ending says which of the three it is.
    constants: values of the constants that the file leaves open.
    reward: the reward structure to take; the first if it is None.
    seconds, memory: the time and the bytes that Storm gets.
    Raises InputError with Storm's own message.
    """
    check_path("path", path)
    check_numbers({"seconds": (seconds, 0, math.inf), "memory": (memory, 1, 2**60)}, whole=("memory",))
    arguments = {
        "constants": (constants, Mapping, "a mapping {constant: value}"),
        "reward": (reward, str, "the name of a reward structure"),
    }
    check_types(arguments, optional=arguments)
    source = os.fspath(path)
    format, constants = _format(source), constants or {}
    kind = format.name
    content = read_bytes(path, max_bytes=_MAX_BYTES)
    if importlib.util.find_spec("stormpy") is None:
        raise InputError([Fault("", f"{kind.upper()} models need stormpy", format.how_to_install)], source)
    with tempfile.TemporaryDirectory(prefix="opaq-") as folder:
        # Storm gets a copy: what is read is what was checked, and never a device or a pipe.
        (Path(folder) / f"model.{kind}").write_bytes(content)
        request = {"path": str(Path(folder) / f"model.{kind}"), "kind": kind, "constants": dict(constants)}
        report = _run(Path(folder), request | {"seconds": seconds, "memory": memory}, source)
        imported = _read(Path(folder) / "model.umb", source, reward, report)
    if kind != "prism":
        return imported
    return _name_observations(imported, content.decode("utf-8", errors="replace"), constants)


def _format(source: str) -> Format:
    """Return the format that the ending of a file names. Raises InputError when Storm does not read it."""
    formats = [FORMATS[name] for name in ("prism", "jani", "drn")]
    for format in formats:
        if source.lower().endswith(format.endings):
            return format
    endings = ", ".join(ending for format in formats for ending in format.endings)
    ending = os.path.splitext(source.lower())[1]
    raise InputError([Fault("", f"the ending '{ending}' is unknown", f"one of {endings}")], source)


def _run(folder: Path, request: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the child's report. Raises InputError for every way in which it can end badly.

    folder: where request, report and model are exchanged; source: the file that errors name.
    request: the keys `path`, `kind`, `constants`, `seconds` and `memory`, written to request.json.
    """
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    code = _child(folder, request["seconds"])
    report: dict[str, Any] = {}
    if (folder / "report.json").exists():
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    if code == 0 and "rewards" in report:
        return report
    fault = _fault(code, report.get("error", ""), folder, request)
    raise InputError([replace(fault, message=_reword(fault.message, request["path"], source))], source)


def _child(folder: Path, seconds: float) -> int | None:
    """Run the child and return its exit code; None if it had to be stopped. It never outlives this call.

    folder: has request.json, and gets all that the child prints as output.txt; seconds: how long it may run.
    """
    # -P: a file of the user's that happens to be called like a module is not imported.
    command = [sys.executable, "-P", "-m", "opaq.formats.prism.storm_child", str(folder / "request.json")]
    with open(folder / "output.txt", "wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, start_new_session=True
        )
        try:
            with on_exit(lambda: _abandon(child, folder)):
                return child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
            child.wait()


def _abandon(child: subprocess.Popen[bytes], folder: Path) -> None:
    """Leave neither child nor folder behind when this process is ended at once."""
    child.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _fault(code: int | None, message: str, folder: Path, request: Mapping[str, Any]) -> Fault:
    """Return the fault for a child that failed.

    code: its exit code; None when it ran out of time.
    message: what it reported; empty: the last line it printed is taken.
    folder: has output.txt; request: says the limits on time and memory.
    """
    if code is None:
        finding = f"Storm did not finish within {request['seconds']:g} seconds"
        return Fault("", finding, "is a variable unbounded? Else give it more time")
    output = message or _last_line(folder / "output.txt")
    if any(sign in output for sign in _OUT_OF_MEMORY) or code == -signal.SIGKILL:
        finding = f"Storm needs more than {request['memory'] / 2**30:.3g} GiB of memory"
        return Fault("", finding, "is a variable unbounded? Else raise the limit")
    if code == -signal.SIGFPE:
        return Fault("", "Storm crashed on an arithmetic fault (SIGFPE)", "look for a division by zero in the model")
    if code < 0:
        return Fault("", f"Storm crashed ({signal.Signals(-code).name}): {output or 'it said nothing'}")
    advice = "give them with constants" if output.startswith("constants without") else ""
    return Fault("", f"Storm: {output or f'exit code {code}'}", advice)


def _reword(message: str, copy: str, source: str) -> str:
    """Return what Storm said on one line, about the user's file and not about its copy, and where in it.

    copy: the file that Storm read; source: the one that the user named.
    """
    named = message.replace(copy, source).replace(os.path.basename(copy), os.path.basename(source))
    located = _PARSING.sub(lambda found: f"line {found[1]}, column {found[2]}: {found[3].strip()} ", named)
    short = _EXCEPTION.sub("", located)
    before, here, line = short.partition(", here:")
    shown = " ".join(line.replace("^", " ").split())
    return f"{' '.join(before.split())}, in: {shown}" if here and shown else " ".join(short.split())


def _last_line(output: Path) -> str:
    """Return the last line that the child printed."""
    with open(output, "rb") as file:
        file.seek(max(0, output.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _read(model: Path, source: str, reward: str | None, report: Mapping[str, Any]) -> Imported:
    """Read the UMB file that Storm wrote; faults name the file that the user knows.

    reward: the structure to take; by default the first of the source, while UMB sorts them by name.
    report: what UMB does not hold: the order of rewards, and the deadlock states.
    """
    try:
        # UMB keeps rewards by the alphabet; the first of the source is meant.
        reward_name = reward or next(iter(report["rewards"]), None)
        return _add_deadlock_rewards(read_umb(model, reward=reward_name), report["deadlocks"], reward_name)
    except InputError as error:
        # The user never saw the members of the file in between.
        faults = [replace(fault, where="" if fault.where.endswith(".bin") else fault.where) for fault in error.faults]
        raise InputError(faults, source) from None


def _add_deadlock_rewards(imported: Imported, deadlocks: Mapping[str, Any], reward_name: str | None) -> Imported:
    """Return the model with the rewards of deadlock states, which Storm leaves out and PRISM counts.

    They are added to the loops that Storm gave these states, with a warning that names them.
    deadlocks: `states` and `rewards` of the report, {} for none; `rewards` is None where they are not known.
    reward_name: the structure that is the model's own reward.
    """
    if not deadlocks:
        return imported
    mdp, state_rewards = imported.mdp, deadlocks["rewards"]
    names = [mdp.states[state] for state in deadlocks["states"]]
    finding = deadlock_warning(names)
    if state_rewards is None:
        finding = finding.replace("where the state's reward is earned", "where Storm counts no reward")
    warnings = (*imported.warnings, Fault("deadlocks", finding))
    if not state_rewards:
        return replace(imported, warnings=warnings)
    choices = mdp.choice_start[deadlocks["states"]]
    rewards = {
        name: _add_rewards(amounts, choices, state_rewards.get(name)) for name, amounts in imported.rewards.items()
    }
    own = _add_rewards(mdp.rewards, choices, state_rewards.get(reward_name))
    return replace(imported, mdp=replace(mdp, rewards=own), rewards=rewards, warnings=warnings)


def _add_rewards(amounts: FloatArray, choices: IntArray, more: Sequence[float] | None) -> FloatArray:
    """Return the rewards of choices with `more` added to some. Raises InputError when one grows too large.

    amounts: [choice]; choices: those that get more; more: one number for each of them, None for nothing.
    """
    if more is None:
        return amounts
    total = amounts.copy()
    total[choices] += more
    wrong = np.flatnonzero(~(np.abs(total) <= MAX_REWARD))
    if wrong.size:
        finding = f"the reward of a deadlock state is {total[wrong[0]]:g}, not a finite number up to {MAX_REWARD:g}"
        raise InputError([Fault("", finding, "scale the rewards down")])
    return floats(total)


def _name_observations(imported: Imported, text: str, constants: Mapping[str, Any]) -> Imported:
    """Return the model with observations named by the values of the observables, where the source gives them.

    text: the PRISM source; constants: the values of those it leaves open.
    Where the values cannot be told, a warning says so and the names stay.
    """
    if imported.observer is None:
        return imported
    seen, count = imported.observer.emission.columns, len(imported.observer.observations)
    try:
        values = _share_values(_observable_values(text, imported.variables, constants), seen, count)
    except (ExpressionError, RecursionError):
        values = None
    if values is None:
        finding = f"the values of the observables could not be told: observations are named o0 to o{count - 1}"
        return replace(imported, warnings=(*imported.warnings, Fault("observables", finding)))
    names = entry_names(values, count, prefix="o")
    return replace(imported, observer=Observer(observations=names, emission=imported.observer.emission))
