"""Print answers on stdout and all else on stderr, and turn every way a command can end into an exit code.

Comes in: text, faults, whatever a command raises. Goes out: lines on the two streams, and one of the codes below.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from opaq.errors import BudgetError, Fault, InputError, InvariantError, OpaqError, escape_invisible
from opaq.stop import INTERRUPTED as STOPPED_BY_SIGNAL
from opaq.stop import StoppedError

DONE = 0
MISSES_TASK = 1
BAD_INPUT = 2
NOT_CONVERGED = 3
INTERNAL_ERROR = 70
OUTPUT_ERROR = 74
INTERRUPTED = 130  # by whatever signal; the process ends with 143 after SIGTERM
MOST_FAULTS = 200  # shown of one input

_WIDTH = 100  # columns of a page where stdout is no terminal
_NARROWEST = 40

# The advice of faults whose option is written otherwise on a command line.
_ADVICE = {
    "overwrite": "use --overwrite to overwrite it",
    "resume": "use --resume to go on with it, or another folder",
}


class OutputError(OpaqError):
    """Raised when the answer could not be written to stdout: it is closed, full or gone."""


def run_guarded(command: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code, whatever way it ends, with words where words help.

    command: called with the arguments. arguments: those after the program's name; `--debug`, which may stand anywhere
    before `--`, is not handed on: it shows where an error came from.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != "--debug"]
    _open_streams()
    code = _run(command, [*kept, *arguments[end:]], debug=len(kept) < end)
    try:
        _flush_stdout()
    except OutputError as error:
        return _explain(error) if code == DONE else code
    return code


def _run(command: Callable[[Sequence[str]], object], arguments: Sequence[str], *, debug: bool) -> int:
    """Call the command and return its exit code, whatever it raises.

    arguments: handed to the command. debug: True prints the traceback of an error before its explanation.
    """
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


def print_answer(text: str) -> bool:
    """Print what the user asked for, and nothing else, on stdout; return whether there is still a reader.

    A reader that has gone (`| head`) is no error. Raises OutputError when the answer cannot be written.
    """
    expect_answer()
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        _discard(sys.stdout)
        return False
    except OSError as error:
        _discard(sys.stdout)
        raise OutputError(f"the answer could not be written to stdout: {error.strerror or error}") from error
    return True


def expect_answer() -> None:
    """Raise OutputError if stdout is closed: better before the work than after it.

    Commands call it before they read anything; one that is meant to have no answer sends it to /dev/null.
    """
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("stdout is closed, so that the answer would be lost; send it to /dev/null if that is meant")


def page_width() -> int:
    """Return the columns of the terminal that stdout is, at least 40; 100 where it is none."""
    return max(shutil.get_terminal_size((_WIDTH, 24)).columns, _NARROWEST)


def help_width() -> int:
    """Return the columns of help texts: those of the terminal, from 40 to 80."""
    return min(page_width(), 80)


def print_note(text: str) -> None:
    """Print a line beside the answer, on stderr, after the program's name.

    Characters that steer a terminal are escaped; where stderr is closed or full, nothing happens.
    """
    if sys.stderr is None or sys.stderr.closed:
        return
    try:
        print(f"opaq: {escape_invisible(text)}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def warn(faults: Iterable[Fault], source: str) -> None:
    """Print warnings on stderr, one line each; source: the file that they are about."""
    for fault in faults:
        print_note(f"{source}: warning: {fault}")


def print_faults(error: InputError) -> None:
    """Print the faults of an input on stderr, one line each, and the example if there is one.

    Advice that names an argument of the library is given in the words of the command line. At most MOST_FAULTS lines.
    """
    prefix = f"{error.source}: " if error.source else ""
    for fault in error.faults[:MOST_FAULTS]:
        worded = replace(fault, advice=_ADVICE[fault.option]) if fault.option in _ADVICE else fault
        print_note(f"{prefix}{worded}")
    if len(error.faults) > MOST_FAULTS:
        print_note(f"and {len(error.faults) - MOST_FAULTS:,} more faults")
    for line in error.example.splitlines():
        print(f"  {escape_invisible(line)}", file=sys.stderr)


@contextlib.contextmanager
def faults_in(source: str) -> Iterator[None]:
    """Name the file `source` in faults of the block that do not yet say which file they are in."""
    try:
        yield
    except InputError as error:
        raise error if error.source else InputError(error.faults, source, example=error.example) from None


def _explain(error: Exception) -> int:
    """Print what went wrong on stderr, and return the exit code for it.

    error: anything that a command raised. 2 for bad input and for problems that are too large, 3 when the time was up,
    70 for an error of opaq or too little memory, 74 for a file or stdout that the system refused, 130 for a signal.
    """
    if isinstance(error, ExceptionGroup):  # of InputErrors: several files, or options and files
        return max(map(_explain, error.exceptions))
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


def _open_streams() -> None:
    """Give closed streams a number, so that files opened later do not get it, and set how stdout spells names.

    A name that the encoding of stdout lacks is written with backslashes.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    raw = sys.stdout.buffer
    if sys.stdout is sys.__stdout__ and isinstance(
        raw, io.RawIOBase
    ):  # PYTHONUNBUFFERED; a signal would then cut a long answer short
        encoding = sys.stdout.encoding
        sys.stdout.detach()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding)
    sys.stdout.reconfigure(errors="backslashreplace")


def _flush_stdout() -> None:
    """Write out what stdout still holds, as Python would on its way out, where it could not say what went wrong.

    A reader that has gone is no error. Raises OutputError for any other failure.
    """
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
    """Send what a stream still holds nowhere, or Python would complain about it on its way out.

    stream: stdout or stderr; later writes to it go nowhere as well.
    """
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
