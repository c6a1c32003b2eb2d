"""Where a command meets the terminal: answers on stdout, all else on stderr, and an exit code for every end."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence

from opaq.errors import BudgetError, Fault, InputError
from opaq.escapes import printable

DONE = 0
BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
MOST_FAULTS = 200  # shown of one input


def run_guarded(command: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> int:
    """Run a command line and turn every way it can end into an exit code, and words where words help."""
    debug, arguments = _taken_out(arguments, "--debug")
    _tolerate_any_name()
    try:
        command(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)
    finally:
        _close_stdout()
    return DONE


def answer(text: str) -> None:
    """Print what the user asked for."""
    with contextlib.suppress(BrokenPipeError):  # the reader (`| head`) has seen enough
        print(text.removesuffix("\n"), flush=True)


def note(text: str) -> None:
    """Say something beside the answer."""
    print(f"opaq: {printable(text)}", file=sys.stderr)


def warn(faults: Iterable[Fault], source: str) -> None:
    """Show warnings, one line each."""
    for fault in faults:
        note(f"{source}: warning: {fault}")


def complain(error: InputError) -> None:
    """Show the faults of an input, one line each, and the example if there is one."""
    lines = error.lines()
    for line in lines[:MOST_FAULTS]:
        note(line)
    if len(lines) > MOST_FAULTS:
        note(f"and {len(lines) - MOST_FAULTS:,} more faults")
    for line in error.example.splitlines():
        print(f"  {printable(line)}", file=sys.stderr)


@contextlib.contextmanager
def about(source: str) -> Iterator[None]:
    """Name the file in faults that do not yet say which file they are in."""
    try:
        yield
    except InputError as error:
        raise error if error.source else InputError(error.faults, source, example=error.example) from None


def _explain(error: Exception) -> int:
    if isinstance(error, InputError):
        complain(error)
        return BAD_INPUT
    if isinstance(error, BudgetError):
        note(str(error))
        return BAD_INPUT
    if isinstance(error, MemoryError):
        note("out of memory")
        return INTERNAL_ERROR
    note(f"unexpected {type(error).__name__}: {error} (a fault of opaq itself; run again with --debug for details)")
    return INTERNAL_ERROR


def _taken_out(arguments: Sequence[str], flag: str) -> tuple[bool, list[str]]:
    """Whether the flag stands anywhere before `--`, and the arguments without it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != flag]
    return len(kept) < end, [*kept, *arguments[end:]]


def _tolerate_any_name() -> None:
    """Names a terminal's encoding lacks are spelt out rather than fatal."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _close_stdout() -> None:
    """Write out what is left; after a broken pipe, send it nowhere, or Python would complain on its way out."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
