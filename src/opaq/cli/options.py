"""Declare the options that several commands share, once; and find given ones without an effect beside the others.

Comes in: the fields of SolveOptions, and the options of a command. Goes out: types that typer reads, and faults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, get_type_hints

import typer

from opaq.cli.arguments import POLICY as POLICY
from opaq.cli.arguments import flag as flag
from opaq.errors import Fault, InputError
from opaq.solvers.options import OPTIONS, SolveOptions

_LARGEST_SHOWN = 10_000  # larger limits are left to the library: in the help they would be noise
_LEAST = 0.001  # seconds, or GiB
_KINDS = get_type_hints(SolveOptions)


def _declare_option(name: str) -> Any:
    """Return the type and the option of one field of SolveOptions, with its limits, its help and its default.

    name: of the field. None stands for "not given", so that the default stays the library's. Upper limits above 10,000
    are left to the library as well: in the help they would be noise.
    """
    declared = OPTIONS[name]
    least, most = declared.metadata["least"], declared.metadata["most"]
    most = most if least is not None and most <= _LARGEST_SHOWN else None
    least = _LEAST if name in ("time_limit", "max_memory") else least
    text, default = declared.metadata["help"], declared.default
    text = text if default is None or "default" in text else f"{text} (default: {default})"
    return Annotated[_KINDS[name] | None, typer.Option(min=least, max=most, help=f"{text}.")]


class Format(StrEnum):
    """The forms of a table, as `--format` names them: for people to read, or a `table` of LaTeX with booktabs."""

    TEXT = "text"
    LATEX = "latex"


def refuse_two_formats(form: Format, *, as_json: bool) -> None:
    """Raise InputError where both a format and JSON are asked for."""
    if as_json and form is not Format.TEXT:
        raise InputError([Fault("--format", "has no effect with --json", "leave one of them out")])


def takes_solve_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command options of a solve; it receives them as keywords, None where not given.

    names: fields of SolveOptions, in the order of the help. They stand before those that the help of every command
        lists last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Give the command a signature with these options, which typer reads; the function itself stays the same."""
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_declare_option(name))
            for name in names
        ]
        first = [each for each in own if each.name not in _LAST]
        last = [each for each in own if each.name in _LAST]
        ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*first, *added, *last)]
        command.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        return command

    return decorate


_LAST = ("overwrite", "grid", "grid_time", "form", "as_json", "quiet")  # options that the help lists after all others


_NAMES = "uniform, return-optimal or a file"

# Of every command that computes.
ProblemName = Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")]
PolicyName = Annotated[
    str | None,
    typer.Option("--policy", metavar=POLICY, help=f"The policy: {_NAMES} (default: uniform)."),
]
InitialPolicy = Annotated[str | None, typer.Option(metavar=POLICY, help=f"A policy to begin from: {_NAMES}.")]
OfSecret = Annotated[
    str | None,
    typer.Option("--of", metavar="NAME", help="The secret that the answer is about, where there are several."),
]
ForObserver = Annotated[
    str | None,
    typer.Option("--for", metavar="NAME", help="The observer that the answer is about, where there are several."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
TableFormat = Annotated[
    Format, typer.Option("--format", help="How to print the answer: text, or latex for a table of a paper.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite files that exist.")]
IgnoreModelMismatch = Annotated[
    bool, typer.Option("--ignore-model-mismatch", help="Take a policy made for another model.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, and no next command.")]
MaxBeliefs = Annotated[int | None, typer.Option(min=1, help="The most beliefs to keep at a time.")]
MaxMemory = Annotated[float | None, typer.Option(min=_LEAST, help="The most memory for beliefs, in GiB.")]
Grid = Annotated[bool, typer.Option("--grid", help="Draw the policy on the grid, as arrows.")]
GridTime = Annotated[int | None, typer.Option(min=0, help="Draw the arrows of this time, not of the whole run.")]


def time_limit(text: str) -> Any:
    """Return the option for a time limit, in seconds, of 0.001 or more; text: its help, what happens in the end."""
    return typer.Option(min=_LEAST, help=text)


def drop_unset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given; the others are left to the library, where their defaults are."""
    return {name: value for name, value in options.items() if value is not None}


def find_idle_options(
    options: Mapping[str, Any], *, belongs_to: Mapping[str, str], chosen: str, used: Collection[str] = ()
) -> list[Fault]:
    """Return a fault for every option that was given but has no effect beside what was chosen.

    options: option -> its value, None where not given. belongs_to: option -> what it is for, in words.
    chosen: the choice that makes options idle, in words. used: those that it does use.
    """
    return [
        Fault(flag(name), f"has no effect with {chosen}", f"it belongs to {purpose}")
        for name, purpose in belongs_to.items()
        if options.get(name) is not None and name not in used
    ]


@contextmanager
def name_option(name: str) -> Iterator[None]:
    """Name an option as the command line writes it in faults of the block that are about it: they are no file's."""
    try:
        yield
    except InputError as error:
        if not all(fault.where == name for fault in error.faults):
            raise
        raise InputError([replace(fault, where=flag(name)) for fault in error.faults]) from None
