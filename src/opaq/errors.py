"""What is wrong with an input, said once, all of it, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding: where it is, what was found there, what to do about it."""

    where: str
    found: str
    advice: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        line = f" (line {self.line})" if self.line is not None else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{place}{self.found}{advice}{line}"


class OpaqError(Exception):
    """Base of every error opaq raises on purpose."""


class InputError(OpaqError):
    """The input is wrong; `faults` lists every reason, `source` names the file (or is empty).

    `example` shows what could be written instead, in lines of its own.
    """

    def __init__(self, faults: list[Fault] | tuple[Fault, ...], source: str = "", *, example: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        self.example = example
        super().__init__("\n".join([*self.lines(), *example.splitlines()]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again from its faults when it is copied or unpickled, not from its message."""
        return partial(type(self), example=self.example), (self.faults, self.source), self.__dict__

    def lines(self) -> list[str]:
        """One line a fault, each starting with the file it is in."""
        prefix = f"{self.source}: " if self.source else ""
        return [f"{prefix}{fault}" for fault in self.faults]


class BudgetError(OpaqError):
    """The work would exceed a size or memory limit; the message says which and what to do."""


class InvariantError(OpaqError):
    """A result violates a law that holds for every input: an error in opaq, never an answer."""


@dataclass(slots=True)
class Faults:
    """Collects errors and warnings while an input is read, so that all are reported together."""

    errors: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def error(self, where: str, found: str, advice: str = "") -> None:
        """Note something that makes the input unusable."""
        self.errors.append(Fault(where, found, advice))

    def warn(self, where: str, found: str, advice: str = "") -> None:
        """Note something the user should know and that does not stop the work."""
        self.warnings.append(Fault(where, found, advice))

    def raise_if_any(self, source: str = "") -> None:
        """Raise InputError with every error noted so far."""
        if self.errors:
            raise InputError(self.errors, source)

    def __iter__(self) -> Iterator[Fault]:
        return iter([*self.errors, *self.warnings])
