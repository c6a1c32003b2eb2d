"""Commands that are stopped at random instants: kill -9, Ctrl-C, SIGTERM. Only the command line is used."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, sleep
from typing import IO, Any

import opaq

OPAQ = (sys.executable, "-m", "opaq")
LAUNCH = 0.1  # s after Python listens to signals: before that no program of ours runs
_SIGNAL_BIT = {signal.SIGINT: 1 << (signal.SIGINT - 1)}
_NEVER = re.compile(
    r"Traceback|SystemError|Fatal Python|fault of opaq|BrokenProcessPool|Segmentation|corrupted|free\(\)"
)
_NOTHING = re.compile(r"nothing|no answer", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a command may take to say that it stops, and to stop."""

    told: float = 1.0
    ended: float = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command that was sent a signal ended."""

    number: signal.Signals
    instant: float  # when the signal was sent, after launch
    code: int
    out: str
    err: str
    told: float | None  # seconds from the signal to the first "stopping" on stderr
    ended: float  # seconds from the signal to the end
    in_time: bool  # False: the command had ended before the signal


@dataclass(frozen=True, slots=True)
class Trial:
    """One stopped command: what is wrong with how it ended, if anything."""

    kind: str
    instant: float
    result: str  # "answer", "nothing yet", "killed", "had ended"
    told: float | None
    ended: float
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """The answer of a command that is left alone, and how long it takes."""

    arguments: tuple[str, ...]
    code: int
    answer: Any
    seconds: float


def undisturbed(arguments: tuple[str, ...]) -> Undisturbed:
    """Run a command to its end."""
    begun = monotonic()
    done = _finish(*arguments)
    return Undisturbed(arguments, done.returncode, bits(done.stdout), monotonic() - begun)


def bits(text: str) -> Any:
    """A JSON answer without the times in it; None if it is not JSON."""
    try:
        return _timeless(json.loads(text))
    except json.JSONDecodeError:
        return None


def slow_measurement(folder: Path, horizon: int = 17) -> tuple[str, ...]:
    """A measurement that takes several seconds: the paper's grid, 5 actions, a longer horizon."""
    text = re.sub(r"(?m)^horizon: \d+", f"horizon: {horizon}", opaq.scenario_text("grid-last-state"))
    file = folder / "slow.yaml"
    file.write_text(text)
    return ("measure", str(file), "--json")


def kill_and_resume(reference: Undisturbed, folder: Path, rng: Random, *, processes: int) -> Trial:
    """kill -9 at random instants, resuming each time; the answer must be that of a run left alone."""
    begin = (*reference.arguments, "--run-folder", str(folder), "--workers", str(processes))
    ending = stopped(begin, signal.SIGKILL, rng.uniform(LAUNCH, reference.seconds))
    instant, arguments = ending.instant, begin
    for _ in range(rng.choice((0, 0, 1, 2))):
        arguments = _resumed(folder, begin)
        stopped(arguments, signal.SIGKILL, rng.uniform(LAUNCH, reference.seconds))
    complaints = _differs(reference, folder, begin)
    return Trial("kill -9", instant, "killed" if ending.in_time else "had ended", None, 0.0, tuple(complaints))


def interrupt_solve(
    reference: Undisturbed, folder: Path, rng: Random, number: signal.Signals, *, processes: int, patience: Patience
) -> Trial:
    """A signal at a random instant of solve; afterwards the run is resumed and must end as if left alone."""
    begin = (*reference.arguments, "--run-folder", str(folder), "--workers", str(processes))
    ending = stopped(begin, number, rng.uniform(LAUNCH, reference.seconds))
    complaints = [*_misbehaviour(ending, reference, patience), *_differs(reference, folder, begin)]
    return _trial(f"{number.name} solve", ending, complaints)


def interrupt_measure(reference: Undisturbed, rng: Random, number: signal.Signals, *, patience: Patience) -> Trial:
    """A signal at a random instant of measure."""
    ending = stopped(reference.arguments, number, rng.uniform(LAUNCH, reference.seconds))
    return _trial(f"{number.name} measure", ending, list(_misbehaviour(ending, reference, patience)))


def _trial(kind: str, ending: Ending, complaints: list[str]) -> Trial:
    result = "answer" if bits(ending.out) is not None else "nothing yet"
    if not ending.in_time:
        result = "had ended"
    return Trial(kind, ending.instant, result, ending.told, ending.ended, tuple(complaints))


def stopped(arguments: tuple[str, ...], number: signal.Signals, instant: float) -> Ending:
    """Start a command, send it a signal some seconds after launch, and read what it says."""
    process = subprocess.Popen(
        [*OPAQ, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=_environment()
    )
    out, err = _Listener(process.stdout), _Listener(process.stderr)
    _await_launch(process)
    _sleep_until(monotonic() + instant, process)
    in_time = process.poll() is None
    sent = monotonic()
    if in_time and number is signal.SIGKILL:
        process.kill()
    elif in_time:
        os.killpg(process.pid, number)  # as a terminal does: the whole group
    try:
        code = process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    ended = monotonic() - sent
    text = out.text(), err.text()
    return Ending(number, instant, code, *text, err.first_after(sent, "stopping"), ended, in_time)


def _misbehaviour(ending: Ending, reference: Undisturbed, patience: Patience) -> Iterator[str]:
    """What a stopped command did that it must not."""
    if match := _NEVER.search(ending.err):
        yield f"stderr has '{match[0]}'"
    answer = bits(ending.out)
    if not ending.in_time or (answer == reference.answer and ending.code == reference.code):
        return  # done before it could hear the signal
    if ending.code != 128 + ending.number:
        yield f"exit code {ending.code}, not {128 + ending.number}"
    if ending.out and answer is None:
        yield f"stdout is neither empty nor JSON: {ending.out[:60]!r}"
    if not ending.out and not _NOTHING.search(ending.err):
        yield "no answer, and stderr does not say that there is nothing yet"
    if min(ending.ended, ending.ended if ending.told is None else ending.told) > patience.told:
        yield "'stopping' not said" if ending.told is None else f"'stopping' said after {ending.told:.1f} s"
    if ending.ended > patience.ended:
        yield f"ended after {ending.ended:.1f} s"


def _differs(reference: Undisturbed, folder: Path, begin: tuple[str, ...]) -> Iterator[str]:
    """Resume to the end, and compare bit for bit."""
    done = _finish(*_resumed(folder, begin))
    if done.returncode != reference.code:
        yield f"resumed: exit code {done.returncode}, not {reference.code}: {done.stderr.strip()[-200:]}"
    elif bits(done.stdout) != reference.answer:
        yield f"resumed: another answer ({_first_difference(bits(done.stdout), reference.answer)})"


def _resumed(folder: Path, begin: tuple[str, ...]) -> tuple[str, ...]:
    """The command that goes on: --resume, or the beginning again if the folder holds no run yet."""
    return ("solve", "--resume", str(folder), "--json") if (folder / "run.json").exists() else begin


def _finish(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OPAQ, *arguments], capture_output=True, text=True, check=False, timeout=600, env=_environment()
    )


def _environment() -> dict[str, str]:
    """The opaq under test, also in a process that starts in another folder."""
    source = str(Path(opaq.__file__).parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


class _Listener:
    """Reads a stream in a thread and notes when what came."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._heard: list[tuple[float, bytes]] = []
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65536):
            self._heard.append((monotonic(), chunk))

    def text(self) -> str:
        """All that came, once the stream has ended."""
        self._thread.join(timeout=10)
        self._stream.close()
        return b"".join(chunk for _, chunk in self._heard).decode(errors="replace")

    def first_after(self, begun: float, word: str) -> float | None:
        """Seconds until a word was first heard."""
        told = b""
        for time, chunk in self._heard:
            told += chunk
            if word.encode() in told:
                return max(0.0, time - begun)
        return None


def _await_launch(process: subprocess.Popen[bytes]) -> None:
    """Wait until Python has its signal handlers in place (on Linux; elsewhere a moment)."""
    status = Path(f"/proc/{process.pid}/status")
    deadline = monotonic() + 10
    while monotonic() < deadline and process.poll() is None:
        if not status.exists():
            sleep(0.1)
            return
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", status.read_text())
        if caught and int(caught[1], 16) & _SIGNAL_BIT[signal.SIGINT]:
            return
        sleep(0.005)


def _sleep_until(instant: float, process: subprocess.Popen[bytes]) -> None:
    while (left := instant - monotonic()) > 0 and process.poll() is None:
        sleep(min(left, 0.05))


def _timeless(value: Any) -> Any:
    """The same without any key that tells a time taken."""
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if "second" not in key}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def _first_difference(found: Any, expected: Any, path: str = "") -> str:
    """Where two answers part."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *found]:
            if found.get(key) != expected.get(key):
                return _first_difference(found.get(key), expected.get(key), f"{path}.{key}")
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            if mine != theirs:
                return _first_difference(mine, theirs, f"{path}[{place}]")
    return f"{path.lstrip('.')}: {str(found)[:60]}, not {str(expected)[:60]}"


def survey_interrupts(options: argparse.Namespace, folder: Path) -> int:
    """Stop `solve` and `measure` at random instants, spread over the whole run, and print what was wrong.

    kill -9: the run is resumed (and sometimes killed again) until it is done; the answer must equal, bit for bit but
    for times, that of a run left alone. Ctrl-C and SIGTERM: exit code 130 and 143, the best answer so far as JSON or a
    clear "nothing yet", "stopping" on stderr within 1 s, the end within 5 s, no traceback; a resumed solve then ends
    with the same bits. Every other run uses two workers. Of each kind, trials go on until enough came before the end.
    """
    begun, rng, patience = monotonic(), Random(options.seed), Patience()
    solving = undisturbed(("solve", options.scenario, "--starts", options.starts, "--json"))
    measuring = undisturbed(slow_measurement(folder, options.horizon))
    print(f"left alone: solve {solving.seconds:.1f} s, measure {measuring.seconds:.1f} s", flush=True)

    def kill(number: int) -> Trial:
        return kill_and_resume(solving, folder / f"kill-{number}", rng, processes=1 + number % 2)

    def interrupt(sent: signal.Signals, number: int) -> Trial:
        run = folder / f"{sent.name}-{number}"
        return interrupt_solve(solving, run, rng, sent, processes=1 + number % 2, patience=patience)

    def interrupt_measuring(number: int) -> Trial:
        return interrupt_measure(measuring, rng, signal.SIGINT, patience=patience)

    trials: list[Trial] = []
    for attempt, count in (
        (kill, options.kills),
        (partial(interrupt, signal.SIGINT), options.interrupts),
        (partial(interrupt, signal.SIGTERM), options.terminations),
        (interrupt_measuring, options.measures),
    ):
        in_time = 0
        for number in range(4 * count):
            trial = attempt(number)
            trials.append(trial)
            verdict = "; ".join(trial.complaints) or "as promised"
            print(f"  {trial.kind:16} at {trial.instant:5.2f} s: {trial.result:12} {verdict}", flush=True)
            in_time += trial.result != "had ended"
            if in_time == count:
                break
    print(f"\n{'kind':16} {'trials':>7} {'failures':>9} {'slowest stopping':>17} {'slowest end':>12}  results")
    for kind in dict.fromkeys(trial.kind for trial in trials):
        mine = [trial for trial in trials if trial.kind == kind]
        stopping = max((trial.told for trial in mine if trial.told is not None), default=0.0)
        results = ", ".join(f"{count} {name}" for name, count in Counter(trial.result for trial in mine).items())
        failures, ended = sum(bool(trial.complaints) for trial in mine), max(trial.ended for trial in mine)
        print(f"{kind:16} {len(mine):7} {failures:9} {stopping:15.2f} s {ended:10.2f} s  {results}")
    failures = sum(bool(trial.complaints) for trial in trials)
    print(f"\n{len(trials)} trials, {failures} failures, {monotonic() - begun:.0f} s")
    return 1 if failures else 0
