"""Read the arguments of commands: every fault at once, in opaq's words, each with the value that was given.

Comes in: the function of a command, and the words after its name. Goes out: a command as typer takes it, whose options
say what they take, and whose mistakes are faults as those of files are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, cast, get_args, get_origin

import typer
from typer.core import TyperCommand

from opaq.errors import Fault, InputError, check_numbers, choose, nearest

_P = ParamSpec("_P")
_T = TypeVar("_T")
POLICY = "POLICY"  # how the help calls one: a file, or a name
PROBLEM = "PROBLEM"  # how the help calls the argument that is a problem
_TAKES = {"time_limit": "SECONDS", "max_memory": "GIB", "width": "BITS", "gap": "BITS", "solver": "NAME"}
_LONGEST = 28  # characters of the choices beside an option; longer ones are listed in its help


def flag(name: str) -> str:
    """Return an option as it is written on the command line: "--time-limit" for "time_limit"."""
    return f"--{name.replace('_', '-')}"


# ---- what options take


def make_command(name: str, command: Callable[..., Any], **style: Any) -> Command:
    """Return a function as click takes a command: each option says what it takes, and its values are read here.

    name: of the command. command: a function whose parameters are annotated for typer. style: options of typer.Typer.
    """
    signature = inspect.signature(command, eval_str=True)
    options = [_word_option(each.name, each.annotation) for each in signature.parameters.values()]

    def run(**arguments: Any) -> None:
        """Run the command with the arguments that were read."""
        command(**arguments)

    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        for each, (annotation, _) in zip(signature.parameters.values(), options, strict=True)
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    run.__annotations__ = {}
    alone = typer.Typer(add_completion=False, **style)
    alone.command(name=name, cls=Command)(run)
    made: Any = typer.main.get_command(alone)
    made.readers = {each: read for each, (_, read) in zip(signature.parameters, options, strict=True) if read}
    return cast(Command, made)


def _word_option(name: str, annotation: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the annotation of a parameter, with what it takes in words and how a shell completes it, and its reader.

    name: of the parameter. The reader turns what is written into the value. Flags, and parameters without typer's
    annotation, have none: typer reads them.
    """
    if get_origin(annotation) is not Annotated:
        return annotation, None
    kind, info = annotation.__origin__, copy(annotation.__metadata__[0])
    kinds = [each for each in get_args(kind) if each is not NoneType] if NoneType in get_args(kind) else [kind]
    taken = kinds[0]
    # typer keeps the first name of an annotated option in `default`
    names = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
    shown = next((each for each in names if each.startswith("--")), flag(name))
    if isinstance(info, typer.models.ArgumentInfo):
        shown = info.metavar or name
    choices = [each.value for each in taken] if inspect.isclass(taken) and issubclass(taken, Enum) else []
    choices = choices or (list(get_args(taken)) if get_origin(taken) is Literal else [])
    read = _PLAIN_READERS.get(taken)
    if choices:
        given = "|".join(choices)
        if len(given) > _LONGEST:
            given, info.help = "NAME", f"{info.help} One of {', '.join(choices)}."
        read = _choice_reader(shown, choices, taken)
        info.autocompletion = lambda incomplete: [each for each in choices if each.startswith(incomplete)]
    elif taken in (int, float):
        given = _TAKES.get(name, "N" if taken is int else "NUMBER")
        least, most = (-math.inf if info.min is None else info.min), (math.inf if info.max is None else info.max)
        read = _number_reader(shown, taken, least, most)
        if most < math.inf:
            info.help = f"{info.help} From {least:,} to {most:,}."
        info.min = info.max = None
    else:
        given = "FILE" if taken is Path else _TAKES.get(name, "TEXT")
    if taken is not bool:
        info.metavar = info.metavar or given
    if info.metavar in _COMPLETED:
        info.autocompletion = _COMPLETED[info.metavar]
    return Annotated[kind, info], read


_PLAIN_READERS: dict[Any, Callable[[Any], Any]] = {str: str, Path: Path, list[str]: list}


def _number_reader(shown: str, kind: Any, least: float, most: float) -> Callable[[Any], Any]:
    """Return a function that reads a number from `least` to `most`; shown: the option. It raises InputError."""

    def read(text: Any) -> Any:
        """Return the number that the text is; what is a number already, a default, stays as it is."""
        try:
            value = kind(text)
        except ValueError:
            value = text
        check_numbers({shown: (value, least, most)}, whole=(shown,) if kind is int else ())
        return value

    return read


def _choice_reader(shown: str, choices: Sequence[str], kind: Any) -> Callable[[Any], Any]:
    """Return a function that reads one of the choices; kind: a class of choices, or a Literal. It raises InputError."""

    def read(text: Any) -> Any:
        """Return the choice of this name."""
        chosen = choose(shown, str(text), choices)
        return chosen if get_origin(kind) is Literal else kind(chosen)

    return read


def complete_problem(incomplete: str) -> list[str]:
    """Return the scenarios, and the problem files in this folder, whose names begin so."""
    from opaq.load import scenario_names

    return [name for name in [*_list_files("yaml", "yml", "json"), *scenario_names()] if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Return the policies that have names, and the policy files in this folder, whose names begin so."""
    from opaq.load import POLICY_NAMES

    return [name for name in [*_list_files("json", "csv"), *POLICY_NAMES] if name.startswith(incomplete)]


def _list_files(*endings: str) -> list[str]:
    """Return the names of the files in this folder that have one of the endings."""
    return [path.name for ending in endings for path in sorted(Path().glob(f"*.{ending}"))]


_COMPLETED = {PROBLEM: complete_problem, POLICY: complete_policy}  # what an option takes -> how a shell completes it


# ---- all faults of a command line


class Command(TyperCommand):
    """A command whose arguments are read with every fault at once, and whose help is whole."""

    readers: Mapping[str, Callable[[Any], Any]]  # parameter -> what turns its text into its value; flags have none

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command's name into `ctx.params`, and return those that are left, which are none.

        ctx: click's context of the command. Raises InputError with every fault of them, and of the files they name.
        """
        if ctx.resilient_parsing:  # a shell asks how a line could go on
            rest: list[str] = super().parse_args(ctx, args)
            return rest
        settle_flags(self, ctx)
        kept, faults = drop_unknown(self, ctx, args)
        given, rest, _ = self.make_parser(ctx).parse_args(args=kept)
        parameters: list[Any] = self.get_params(ctx)
        for parameter in sorted(parameters, key=lambda each: not each.is_eager):
            try:
                self._read_parameter(ctx, parameter, given)
            except InputError as error:
                faults += error.faults
        faults += [Fault("", f"'{word}' is one argument too many", "leave it out") for word in rest]
        if faults:
            takes_problem = any(str(each.metavar).startswith(PROBLEM) for each in parameters)
            checks = Checks(InputError(faults))
            if takes_problem:
                checks.run(read_named_files, ctx.params)
            checks.raise_if_any()
        return []

    def _read_parameter(self, ctx: Any, parameter: Any, given: Mapping[str, Any]) -> None:
        """Put the value of a parameter into `ctx.params`; raises InputError where it is missing or cannot be read."""
        read = self.readers.get(parameter.name)
        if read is None:
            parameter.handle_parse_result(ctx, given, [])
            return
        value, _ = parameter.consume_value(ctx, given)
        if parameter.required and parameter.value_is_missing(value):
            name = parameter.metavar if parameter.param_type_name == "argument" else max(parameter.opts, key=len)
            raise InputError([Fault(name.strip("[]"), "is missing", f"give {_lower_first(parameter.help)}")])
        ctx.params[parameter.name] = None if value is None else read(value)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what the usage shows after the command's name; arguments that may be left out stand in brackets."""
        pieces = ["[OPTIONS]"]
        parameters: list[Any] = self.get_params(ctx)
        for each in parameters:
            if each.param_type_name == "argument":
                name = each.metavar.strip("[]")
                pieces.append(name if each.required else f"[{name}]")
        return pieces

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole; limit: of click, not used."""
        return " ".join((self.help or "").split("\n\n")[0].split())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options to click's formatter."""
        parameters: list[Any] = self.get_params(ctx)
        arguments = [(each.metavar.strip("[]"), each.help) for each in parameters if each.param_type_name == "argument"]
        options = [each.get_help_record(ctx) for each in parameters if each.param_type_name == "option"]
        for title, rows in {"Arguments": arguments, "Options": options}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=min(30, formatter.width // 3))


def settle_flags(command: Any, ctx: Any) -> None:
    """Let the flags that typer adds to a command (--help and the like) be False, not None, where they are not given.

    ctx: click's. To read a None, or the value of an option, typer loads pydantic, a tenth of a short command.
    """
    for each in command.get_params(ctx):
        if not each.expose_value and each.default is None:  # a command does not get them
            each.default = False


def drop_unknown(command: Any, ctx: Any, words: Sequence[str]) -> tuple[list[str], list[Fault]]:
    """Return the words of a command line without those that are no options, or lack their value, and faults for these.

    command: click's, with its parameters. A word after a misspelt option goes with it if it would be the value of the
    one that was probably meant. Of a group of commands only what stands before the first name is looked at.
    """
    options = {name: each for each in command.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
    kept: list[str] = []
    faults: list[Fault] = []
    index = 0
    while index < len(words):
        word = words[index]
        name, equals, _ = word.partition("=")
        index += 1
        if word == "--" or (not ctx.allow_interspersed_args and not word.startswith("-")):
            return [*kept, word, *words[index:]], faults
        if len(word) < 2 or not word.startswith("-"):
            kept.append(word)
            continue
        if not word.startswith("--"):  # short options, several of which may stand together
            name, equals = word[:2], word[2:]
        known = options.get(name)
        meant = nearest(name, [each for each in options if each.startswith("--")]) if known is None else []
        taken = known or (options[meant[0]] if meant else None)
        wants_value = taken is not None and not (taken.is_flag or taken.count) and not equals
        has_value = wants_value and index < len(words) and (known is not None or not words[index].startswith("-"))
        value = [words[index]] if has_value else []
        index += len(value)
        if known is None:
            advice = f"did you mean {meant[0]}?" if meant else f"{ctx.command_path} --help lists the options"
            faults.append(Fault(name, f"is not an option of {ctx.command_path}", advice))
        elif wants_value and not has_value:
            faults.append(Fault(name, "lacks its value", f"give it after {name}: {known.metavar}"))
        elif known.is_flag and equals and word.startswith("--"):
            faults.append(Fault(name, f"takes no value, and has '{word.partition('=')[2]}'", f"write {name} alone"))
        else:
            kept += [word, *value]
    return kept, faults


def read_named_files(arguments: Mapping[str, Any]) -> None:
    """Read the problem and the policy that arguments of a command name, if they do; raises InputError.

    arguments: by name, without those that could not be read.
    """
    source, policy = arguments.get("source"), arguments.get("policy_file") or arguments.get("initial_policy")
    if isinstance(source, str) and not Path(source).is_dir():
        from opaq.cli.session import read_inputs

        read_inputs(source, policy, ignore_model_mismatch=arguments.get("ignore_model_mismatch"), quiet=True)


class Checks:
    """Checks of a command before its work, whose faults are shown together: `run` each, `read` what others need."""

    def __init__(self, *errors: InputError) -> None:
        """Begin with errors that were found before."""
        self._errors = list(errors)

    def run(self, check: Callable[_P, object], *arguments: _P.args, **options: _P.kwargs) -> None:
        """Call a function, and keep the InputError that it raises."""
        try:
            check(*arguments, **options)
        except InputError as error:
            self._errors.append(error)

    def read(self, read: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
        """Return what a function returns; where it raises InputError, raise all errors, since checks need its value."""
        try:
            return read(*arguments, **options)
        except InputError as error:
            self._errors.append(error)
            self.raise_if_any()
            raise

    def raise_if_any(self) -> None:
        """Raise the error that was found, or all of them as a group, if there are several."""
        if len(self._errors) > 1:
            raise ExceptionGroup("the input is wrong in several ways", self._errors)
        if self._errors:
            raise self._errors[0]


def _lower_first(text: str) -> str:
    """Return a sentence without its full stop, to go on with in another one."""
    return text[:1].lower() + text[1:].rstrip(".")
