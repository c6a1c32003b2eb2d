"""Where a command meets the terminal: answers on stdout, all else on stderr, and an exit code for every end."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from opaq.errors import BudgetError, Fault, InputError, InvariantError, OpaqError, escape_invisible
from opaq.files import OVERWRITE
from opaq.stop import INTERRUPTED as STOPPED_BY_SIGNAL
from opaq.stop import StoppedError

if TYPE_CHECKING:
    from opaq.solvers.compare import Comparison
    from opaq.solvers.strategy import Status

DONE = 0
MISSES_TASK = 1
BAD_INPUT = 2
NOT_CONVERGED = 3
INTERNAL_ERROR = 70
OUTPUT_ERROR = 74
INTERRUPTED = 130  # by whatever signal; the process ends with 143 after SIGTERM
_UNFINISHED = ("SETTLED", "STOPPED", "EDGE", "TIME_LIMIT")  # names of Status
_MISSED = ("INFEASIBLE", "NOT_FOUND")
MOST_FAULTS = 200  # shown of one input

_WIDTH = 100  # columns of a page where stdout is no terminal
_NARROWEST = 40


def code_of_status(status: Status) -> int:
    """The exit code of a solve that ended in some way."""
    if status.name == "INTERRUPTED":
        return INTERRUPTED
    return NOT_CONVERGED if status.name in _UNFINISHED else MISSES_TASK if status.name in _MISSED else DONE


def code_of_comparison(comparison: Comparison) -> int:
    """130 interrupted, 1 no class meets the task, 3 not every class has a policy known to be done, 0 otherwise."""
    if comparison.interrupted:
        return INTERRUPTED
    if not any(rung.measurement.feasible for rung in comparison.rungs):
        return MISSES_TASK
    unfinished = comparison.unreached or any(code_of_status(rung.status) for rung in comparison.rungs)
    return NOT_CONVERGED if unfinished else DONE


class OutputError(OpaqError):
    """The answer could not be written to stdout."""


def run_guarded(command: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> int:
    """Run a command line and turn every way it can end into an exit code, and words where words help."""
    debug, arguments = _taken_out(arguments, "--debug")
    _open_streams()
    code = _run(command, arguments, debug)
    try:
        _flush_stdout()
    except OutputError as error:
        return _explain(error) if code == DONE else code
    return code


def _run(command: Callable[[Sequence[str]], object], arguments: Sequence[str], debug: bool) -> int:
    try:
        command(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug and sys.stderr is not None:
            traceback.print_exc()
        return _explain(error)
    return DONE


def print_answer(text: str) -> None:
    """Print what the user asked for; OutputError when it cannot be written."""
    expect_answer()
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise OutputError(f"the answer could not be written to stdout: {error.strerror or error}") from error


def expect_answer() -> None:
    """Raise OutputError if stdout is closed: better before the work than after it."""
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("stdout is closed, so that the answer would be lost; send it to /dev/null if that is meant")


def page_width() -> int:
    """The columns of the terminal that stdout is, or of a page where it is none."""
    return max(shutil.get_terminal_size((_WIDTH, 24)).columns, _NARROWEST)


def print_note(text: str) -> None:
    """Say something beside the answer; where stderr is closed or full, nothing is said."""
    if sys.stderr is None or sys.stderr.closed:
        return
    try:
        print(f"opaq: {escape_invisible(text)}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def warn(faults: Iterable[Fault], source: str) -> None:
    """Show warnings, one line each."""
    for fault in faults:
        print_note(f"{source}: warning: {fault}")


def print_faults(error: InputError) -> None:
    """Show the faults of an input, one line each, and the example if there is one."""
    lines = [line.replace(OVERWRITE, "use --overwrite to overwrite it") for line in error.lines()]
    for line in lines[:MOST_FAULTS]:
        print_note(line)
    if len(lines) > MOST_FAULTS:
        print_note(f"and {len(lines) - MOST_FAULTS:,} more faults")
    for line in error.example.splitlines():
        print(f"  {escape_invisible(line)}", file=sys.stderr)


@contextlib.contextmanager
def faults_in(source: str) -> Iterator[None]:
    """Name the file in faults that do not yet say which file they are in."""
    try:
        yield
    except InputError as error:
        raise error if error.source else InputError(error.faults, source, example=error.example) from None


def _explain(error: Exception) -> int:
    if isinstance(error, InputError):
        print_faults(error)
        return BAD_INPUT
    if isinstance(error, BudgetError):
        print_note(str(error))
        return BAD_INPUT
    if isinstance(error, OutputError):
        print_note(str(error))
        return OUTPUT_ERROR
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        print_note(f"{where}{error.strerror or error} (the system refused to read or write; --debug shows where)")
        return OUTPUT_ERROR
    if isinstance(error, StoppedError):
        interrupted = str(error) == STOPPED_BY_SIGNAL
        print_note("stopped; nothing yet" if interrupted else f"{error} before there was an answer; allow more time")
        return INTERRUPTED if interrupted else NOT_CONVERGED
    if isinstance(error, InvariantError):
        print_note(
            f"an error in opaq, not in the input: {error}; no answer is given. Please report it with the problem file"
        )
        return INTERNAL_ERROR
    if isinstance(error, MemoryError):
        print_note("out of memory")
        return INTERNAL_ERROR
    print_note(
        f"unexpected {type(error).__name__}: {error} (a fault of opaq itself; run again with --debug for details)"
    )
    return INTERNAL_ERROR


def _taken_out(arguments: Sequence[str], flag: str) -> tuple[bool, list[str]]:
    """Whether the flag stands anywhere before `--`, and the arguments without it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != flag]
    return len(kept) < end, [*kept, *arguments[end:]]


def _open_streams() -> None:
    """Keep the numbers of closed streams from files opened later, and spell out names that an encoding lacks."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush_stdout() -> None:
    """Write out what is left, as Python would on its way out, where it could not say what went wrong."""
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise OutputError(f"the answer could not be written to stdout: {error.strerror or error}") from error


def _discard(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, or Python would complain about it on its way out."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
