"""Add kinds of your own: secrets, observers, conditions, uncertainties, solvers, formats and commands.

One call makes a kind known wherever opaq meets it: problem and policy files, their schema and reference page, the
product, the solvers and the command. A name that is taken is refused with InputError before anything is registered.
docs/extensions.md has an example of each. `__all__` also lists the classes and functions that such an extension needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from opaq.commands import COMMANDS, Command
from opaq.errors import Fault, InputError
from opaq.formats import registry
from opaq.formats.format import Export, Format
from opaq.formats.registry import FORMATS
from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.model.conditions import PLAIN, Condition
from opaq.model.mdp import MDP, Imported
from opaq.model.observer import ObserverKind
from opaq.model.secret import Secret
from opaq.model.uncertainty import UNCERTAINTIES, ExpectedLoss, Uncertainty
from opaq.product.machine import Branches, Machine, StatelessMachine, deterministic
from opaq.product.trackers import (
    ConditionTracker,
    ObserverTracker,
    SecretTracker,
    TrackerContext,
    track_condition,
    track_observer,
    track_secret,
)
from opaq.solvers.policy_classes import SIZED_CONDITIONS, SizedCondition
from opaq.solvers.registry import SOLVERS, register_solver
from opaq.solvers.strategy import Plan, PlanRequest, SolverFactory, single_round
from opaq.spec import imported_part, policy_part
from opaq.spec.cursor import Cursor, Scope
from opaq.spec.grammar import (
    NAME,
    PROBABILITY,
    Fields,
    Key,
    Kind,
    Record,
    Union,
    ValueType,
    attributes,
    build_from_keys,
    list_of,
    map_of,
    number,
    one_of,
    whole,
)
from opaq.spec.observer_part import OBSERVER
from opaq.spec.policy_part import CONDITIONS, ConditionKind
from opaq.spec.problem_part import problem_record
from opaq.spec.secret_part import SECRET
from opaq.spec.sets import STATES

__all__ = [
    "NAME",
    "PROBABILITY",
    "STATES",
    "Branches",
    "Condition",
    "ConditionKind",
    "ConditionTracker",
    "Cursor",
    "Export",
    "Fields",
    "FloatArray",
    "Format",
    "Imported",
    "IntArray",
    "Key",
    "Kind",
    "Machine",
    "ObserverKind",
    "ObserverTracker",
    "Plan",
    "PlanRequest",
    "Record",
    "Scope",
    "Secret",
    "SecretTracker",
    "SizedCondition",
    "SolverFactory",
    "SparseRows",
    "StatelessMachine",
    "TrackerContext",
    "Uncertainty",
    "ValueType",
    "add_command",
    "add_condition",
    "add_format",
    "add_observer",
    "add_secret",
    "add_solver",
    "add_uncertainty",
    "attributes",
    "build_from_keys",
    "deterministic",
    "list_of",
    "map_of",
    "number",
    "one_of",
    "single_round",
    "temporary",
    "whole",
]


def add_secret(kind: Kind[Any], track: Callable[[Any, MDP, int], SecretTracker]) -> None:
    """Add a kind of secret: a key of `secret` in problem files, and the tracker that follows it.

    kind: its key, how it is made of the keys that are there, its class (derived from Secret) and how it is written.
    track: called as track(secret, mdp, horizon); returns the machine that reads the run, and the value it ends with.
    """
    _check_kind(SECRET, kind)
    SECRET.add(kind)
    track_secret.register(kind.of, track)  # type: ignore[arg-type]


def add_observer(kind: Kind[Any], track: Callable[[Any, MDP], ObserverTracker]) -> None:
    """Add a kind of observer: a key of `observer` in problem files, and the tracker of what it sees.

    kind: its key, how it is made of the keys that are there, its class (with `observations`) and how it is written.
    track: called as track(observer, mdp); returns the machine that reads the run, and what its node and the state emit.
    """
    _check_kind(OBSERVER, kind)
    OBSERVER.add(kind)
    track_observer.register(kind.of, track)  # type: ignore[arg-type]


def add_condition(
    kind: ConditionKind,
    track: Callable[[Any, TrackerContext], ConditionTracker],
    *,
    sized: SizedCondition | None = None,
) -> None:
    """Add something that policies may look at: an entry of `conditions_on`, a key of policy rows, and its tracker.

    kind: its class (derived from Condition), and how it and the rows of a policy are written.
    track: called as track(condition, context); returns the machine that follows it, and what rows call its nodes.
    sized: for a condition that takes a number, how class names such as "last_states:2" state it.
    """
    key = kind.of.key
    _refuse_taken("condition", [key], [*CONDITIONS, "probabilities"])
    policy_part.add_condition(kind)
    track_condition.register(kind.of, track)
    if kind.value is None:
        PLAIN[key] = kind.make()
    if sized is not None:
        SIZED_CONDITIONS[key] = sized


def add_uncertainty(uncertainty: Uncertainty) -> None:
    """Add an uncertainty that a task may be about: `task: {of: NAME}`.

    uncertainty: an object of a class that derives from Uncertainty, with a name, a title, a unit and `rows`.
    """
    _refuse_taken("uncertainty", [uncertainty.name], [*UNCERTAINTIES, "loss", ExpectedLoss.name])
    UNCERTAINTIES[uncertainty.name] = uncertainty


def add_solver(factory: SolverFactory) -> None:
    """Add a solver by name, for `solve`, `compare` and the command.

    factory: its name, which starts it runs for how long, and what it can use.
    """
    register_solver(factory)


def add_format(format: Format) -> None:
    """Add a file format: for `convert` and, where it holds models, a key of problem files that names one.

    format: its name, endings, reader and writers. Its options are some of those that problem files have for models.
    """
    known = (ending for other in FORMATS.values() for ending in other.endings)
    keys = [key.name for key in problem_record().keys] if format.holds == "model" else []
    _refuse_taken("format", [format.name, *format.endings], [*FORMATS, *known, *keys])
    offered = [key.name for key in imported_part.OPTIONS]
    if unknown := [name for name in format.options if name not in offered]:
        message = f"'{unknown[0]}' is no option that problem files have"
        raise InputError([Fault(f"format '{format.name}'", message, f"use some of {', '.join(offered)}")])
    registry.register_format(format)
    if format.holds == "model" and format.reader is not None:
        imported_part.add_imported(format.name, f"The file of {format.title}.", format.options)


def add_command(name: str, command: Command) -> None:
    """Add a command, `opaq NAME`, for programs that call `opaq.cli.main.main`.

    name: what follows `opaq` on the command line.
    command: a function whose arguments are those of the command, as typer reads them, or "module:function".
    """
    _refuse_taken("command", [name], COMMANDS)
    COMMANDS[name] = command


@contextmanager
def temporary() -> Iterator[None]:
    """Undo on leaving what is added inside, for tests and notebooks."""
    registries: list[dict[Any, Any]] = [
        *(SECRET.kinds, OBSERVER.kinds, CONDITIONS, PLAIN, SIZED_CONDITIONS, UNCERTAINTIES, SOLVERS, FORMATS),
        *(imported_part.IMPORTED.kinds, imported_part.OPTIONS_OF_KIND, COMMANDS),
    ]
    before = [dict(registry) for registry in registries]
    try:
        yield
    finally:
        for registry, content in zip(registries, before, strict=True):
            registry.clear()
            registry.update(content)


def _check_kind(union: Union[Any], kind: Kind[Any]) -> None:
    """Raise InputError for a key or a class that is taken, and for a kind that could be read but not written."""
    name = kind.key.name
    _refuse_taken(union.title, [name], [key.name for key in union.record.keys])
    if kind.of is None or kind.parts is None:
        message = "has no class, or cannot be written"
        raise InputError([Fault(f"{union.title} '{name}'", message, "give the kind `of` and `parts`")])
    for other in union.kinds.values():
        if other.of is not None and issubclass(kind.of, other.of):
            message = f"{kind.of.__name__} is written as '{other.key.name}' already"
            raise InputError([Fault(f"{union.title} '{name}'", message, "give it a class of its own")])


def _refuse_taken(point: str, names: Iterable[str], taken: Iterable[str]) -> None:
    """Raise InputError if any of the names is taken; point: what is being added, for the message."""
    known = set(taken)
    for name in names:
        if name in known:
            raise InputError([Fault(point, f"'{name}' is registered already", "choose another name")])
