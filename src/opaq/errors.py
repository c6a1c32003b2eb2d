"""Faults of inputs, reported all at once in the user's words; checks of arguments; names escaped for display.

Everything that opaq raises on purpose derives from `OpaqError`. A wrong input is an `InputError` that lists every fault
with its path, message and advice; functions collect them in `Faults` and raise once.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import UnionType


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the path where it is, what is wrong there, what to do about it, and the line in the file if known.

    option: the argument that would allow it, such as "overwrite", where the advice names one; a command line, whose
        options are written otherwise, then gives the advice in its own words.
    """

    where: str
    message: str
    advice: str = ""
    line: int | None = None
    option: str = ""

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        line = f" (line {self.line})" if self.line is not None else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{where}{self.message}{advice}{line}"


class OpaqError(Exception):
    """Base of every error opaq raises on purpose."""


class InputError(OpaqError):
    """The input is wrong; `faults` lists every reason, `source` names the file (or is empty).

    example: what could be written instead, in lines of its own.
    """

    def __init__(self, faults: list[Fault] | tuple[Fault, ...], source: str = "", *, example: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        self.example = example
        super().__init__("\n".join([*self.lines(), *example.splitlines()]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild a copied or unpickled error from its faults, not from its message."""
        return partial(type(self), example=self.example), (self.faults, self.source), self.__dict__

    def lines(self) -> list[str]:
        """Return one line per fault, each starting with the file it is in."""
        prefix = f"{self.source}: " if self.source else ""
        return [f"{prefix}{fault}" for fault in self.faults]


class BudgetError(OpaqError):
    """The work would exceed a size or memory limit; the message says which, and what to do."""


class InvariantError(OpaqError):
    """A result violates a law that holds for every input: an error in opaq, never an answer.

    E.g. an opacity above the entropy of the secret. Raised instead of returning a number that cannot be right.
    """


@dataclass(slots=True)
class Faults:
    """Collects errors and warnings while an input is read, so that all are reported together.

    Iterating gives the errors first, then the warnings.
    """

    errors: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def error(self, where: str, message: str, advice: str = "", *, option: str = "") -> None:
        """Note something that makes the input unusable.

        where: the path of the fault. message: what is wrong there. advice: what to do. option: the argument that would
            allow it.
        """
        self.errors.append(Fault(where, message, advice, option=option))

    def warn(self, where: str, message: str, advice: str = "") -> None:
        """Note something the user should know and that does not stop the work. Arguments as in `error`."""
        self.warnings.append(Fault(where, message, advice))

    def raise_if_any(self, source: str = "") -> None:
        """Raise InputError with every error noted so far; source: the name of the file."""
        if self.errors:
            raise InputError(self.errors, source)

    def __iter__(self) -> Iterator[Fault]:
        return iter([*self.errors, *self.warnings])


_FORMULA = tuple("=+-@\t\r＝＋－＠")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?")


def escape_separator(name: str, mark: str) -> str:
    """Return a name with a backslash in front of every separator and backslash in it, to be joined with others.

    The first separator without a backslash of its own then ends the name, so that different lists of names never look
    alike when joined.
    """
    return name.replace("\\", "\\\\").replace(mark, f"\\{mark}")


def escape_invisible(text: str) -> str:
    """Return the text on one line, with control, bidirectional and other invisible characters as escapes.

    Everything that Unicode calls a control (Cc, C1 included), format (Cf, the bidirectional ones included), surrogate,
    private or unassigned character and every separator but the plain space is not printable.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cut_middle(text: str, most: int, *, mark: str = "…") -> str:
    """Return a text of at most so many characters; of a longer one the middle is left out, where `mark` stands.

    Names often differ in their last characters, as paths and states do.
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}{mark}{text[len(text) - (most - len(mark) - head) :]}"


def spreadsheet_cell(text: str) -> str:
    """Return a name as a cell of a CSV file: printable, with an apostrophe in front where a formula could begin."""
    cell = escape_invisible(text)
    return f"'{cell}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else cell


def read_spreadsheet_cell(cell: str) -> str:
    """Return the text of a cell that `spreadsheet_cell` wrote, without the apostrophe in front of it."""
    return cell[1:] if cell.startswith("'") and spreadsheet_cell(cell[1:]) == cell else cell


_MOST_COMPARED = 5_000  # comparing a misspelt name with more names than this takes too long
_LONGEST_COMPARED = 100  # characters of a misspelt name
_MOST_SHOWN = 8
_MOST_SUGGESTED = 20  # faults: an input with more of them is not merely misspelt


def choose(name: str, value: object, choices: Sequence[str]) -> str:
    """Return the value if it is one of the choices; otherwise raise InputError with the choices and the nearest one.

    name: what the argument is called, for the message.
    """
    if isinstance(value, str) and value in choices:
        return str(value)
    near = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    meant = f"did you mean '{near[0]}'? " if near else ""
    given = f"'{value}'" if isinstance(value, str) else repr(value)
    raise InputError([Fault(name, f"{given} is not a choice", f"{meant}use one of {', '.join(choices)}")])


def check_numbers(
    limits: Mapping[str, tuple[Any, float, float]], *, whole: Collection[str] = (), optional: Collection[str] = ()
) -> None:
    """Raise InputError with every argument that is not a number between its limits.

    limits: name -> (value, least, most), both ends included.
    whole: names of those that must be whole numbers.
    optional: names of those that may be None, "not given".
    """
    faults = []
    for name, (value, least, most) in limits.items():
        if value is None and name in optional:
            continue
        if not (is_int(value) if name in whole else is_number(value)) or not least <= value <= most:
            kind = "a whole number" if name in whole else "a number"
            wanted = f"at least {least:g}" if most == math.inf else f"from {least:g} to {_limit(most)}"
            faults.append(Fault(name, f"is {value!r:.60}", f"give {kind}, {wanted}"))
    if faults:
        raise InputError(faults)


def check_types(
    types: Mapping[str, tuple[Any, type | UnionType | Callable[[Any], bool], str]], *, optional: Collection[str] = ()
) -> None:
    """Raise InputError with every argument that is of another type.

    types: name -> (value, type or test, what to give, in words).
    optional: names of those that may be None, "not given".
    """
    faults = []
    for name, (value, wanted, words) in types.items():
        if value is None and name in optional:
            continue
        by_type = isinstance(wanted, type) or not callable(wanted)
        if not (isinstance(value, wanted) if by_type else wanted(value)):  # type: ignore[arg-type,operator]
            faults.append(Fault(name, f"is of the type {type(value).__name__}", f"give {words}"))
    if faults:
        raise InputError(faults)


def check_path(name: str, path: object, what: str = "a file") -> None:
    """Raise InputError when an argument is not the name of a file.

    name: of the argument; what: the kind of thing it names, for the message.
    """
    check_types({name: (path, str | os.PathLike, f"the name of {what}")})


def whole_fault(value: object, *, low: int, high: int) -> str | None:
    """Return what is wrong with a value that should be a whole number from `low` to `high`; None if nothing is."""
    if not is_int(value):
        return f"is {describe_value(value)}, not a whole number"
    if not low <= int(value) <= high:  # type: ignore[call-overload]
        return f"is {value}, not a whole number from {low:,} to {high:,}"
    return None


def describe_value(value: object) -> str:
    """Return a value as messages name it.

    Short texts stand in quotes, numbers as they are, None is "empty", and containers are named by their kind.
    """
    if value is None:
        return "empty"
    if is_flag(value):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 40 else f"'{value[:37]}...'"
    if is_number(value):
        return f"{value}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "an array" if type(value).__module__ == "numpy" else f"of type {type(value).__name__}"


def list_names(names: Iterable[str]) -> str:
    """Return the first few names for a message, and how many more there are."""
    listed = list(names)
    rest = f" and {len(listed) - _MOST_SHOWN:,} more" if len(listed) > _MOST_SHOWN else ""
    return ", ".join(listed[:_MOST_SHOWN]) + rest


def suggestion(name: str, options: Iterable[str], *, kind: str, faults: Faults | None = None) -> str:
    """Return advice for an unknown name: the nearest that exists, else all of them when they are few.

    kind: what is named, in the singular. faults: noted before; with many of them nothing is suggested, since comparing
        takes time.
    """
    if faults is not None and len(faults.errors) > _MOST_SUGGESTED:
        return ""
    listed, several = list(options), f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    near = nearest(name, listed) if len(listed) <= _MOST_COMPARED and len(name) <= _LONGEST_COMPARED else []
    if near:
        return f"did you mean '{near[0]}'?"
    if not listed:
        return f"there are no {several}"
    return f"the {several} are {', '.join(listed)}" if len(listed) <= _MOST_SHOWN else ""


def nearest(name: str, options: Sequence[str]) -> list[str]:
    """Return [the option that a misspelt name was probably meant to be], [] if there is none."""
    return difflib.get_close_matches(name[:_LONGEST_COMPARED], options, n=1)


def is_flag(value: object) -> bool:
    """Return whether the value is true or false, NumPy's own included."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def is_int(value: object) -> bool:
    """Return whether the value is an integer (booleans are not)."""
    return isinstance(value, int | Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether the value is a number (booleans are not)."""
    return isinstance(value, int | float | Real) and not isinstance(value, bool)


def _limit(most: float) -> str:
    """Return a limit in words; powers of two too large to be written out as such, millions with commas."""
    power = round(math.log2(most)) if most >= 2**53 else 0
    if power and most == 2**power:
        return f"2^{power}"
    return f"{most:,.0f}" if 1e6 <= most < 1e12 else f"{most:g}"
