"""Secrets: what must stay hidden, a finite-valued function Z of the run s_0 .. s_T.

A trajectory alone has more values than can be listed: all W_0 .. W_T, W_t the class of s_t.

Each kind is plain data; the product follows it by a machine that reads the run (`opaq.product.trackers`). Values of Z
have names: those of the classes, of the automaton's states, or "yes" and "no".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from opaq.errors import Fault, Faults, InputError, escape_separator, whole_fault
from opaq.model.arrays import ContentEq, IntArray
from opaq.model.automaton import Automaton, check_guards
from opaq.model.checks import Checked, Checks
from opaq.model.mdp import MAX_STATES

MAX_TIME = 1_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateClasses(Checked):
    """A partition of the states: what about a state is secret (the state itself, or which set it is in).

    names: of the classes. of_state: [state] -> class, one entry for every state of the model.
    """

    names: tuple[str, ...]
    of_state: IntArray  # [state] -> class

    def __post_init__(self) -> None:
        checks = Checks(self, "secret.classes")
        names = checks.names("names", kind="class", most=MAX_STATES)
        if names is not None:
            of_state = checks.ints("of_state", None, most=len(names), what="class")
            if of_state is not None and not of_state.size:
                checks.error("of_state", "is empty", "give the class of every state")
        checks.finish()


class Secret(ContentEq):
    """Base of secrets; `opaq.product.trackers` knows which machine follows each kind."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LastState(Secret):
    """Z = class of s_T (paper, problem 1: last-state opacity).

    Needs no memory: the secret is a function of the last state.
    """

    classes: StateClasses

    def __post_init__(self) -> None:
        _check_classes(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InitialState(Secret):
    """Z = class of s_0 (paper, problem 2: initial-state opacity).

    The product remembers the class of the start for the whole run.
    """

    classes: StateClasses

    def __post_init__(self) -> None:
        _check_classes(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateAt(Secret):
    """Z = class of s_t for one fixed time t <= T."""

    time: int
    classes: StateClasses

    def __post_init__(self) -> None:
        _check_classes(self, "time")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepsAgo(Secret):
    """Z = class of s_{T-k}, k = `steps`."""

    steps: int
    classes: StateClasses

    def __post_init__(self) -> None:
        _check_classes(self, "steps")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Visited(Checked, Secret):
    """Z = "yes" if any of the states was visited at any time, else "no"."""

    states: IntArray
    name: str = "visited"

    def __post_init__(self) -> None:
        checks = Checks(self, "secret")
        checks.ints("states", None, most=MAX_STATES, what="state")
        checks.text("name")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trajectory(Secret):
    """Z = the classes of s_0 .. s_T, one after the other: the whole run, or what is told of it.

    Its values are too many to be listed; figures of it are sums over the moments of a run.
    """

    classes: StateClasses

    def __post_init__(self) -> None:
        _check_classes(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Language(Secret):
    """Z = the automaton's state after the run ("progress"), or whether it accepts the run ("acceptance")."""

    automaton: Automaton
    reveal: Literal["progress", "acceptance"] = "progress"

    def __post_init__(self) -> None:
        checks = Checks(self, "secret")
        checks.type("automaton", Automaton, "an Automaton")
        checks.word("reveal", ("progress", "acceptance"))
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Jointly(Secret):
    """Z = the values of several secrets at once; problem files have no word for it."""

    secrets: tuple[Secret, ...]

    def join(self, values: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return the names of all combinations of values, those of the last secret changing first."""
        shown = [[escape_separator(name, "&") for name in names] for names in values]
        return tuple(map(" & ".join, product(*shown)))


def _check_classes(secret: Secret, time: str = "") -> None:
    """Check a secret that is a class of one state of the run; time: the field that says which one, if any."""
    checks = Checks(secret, "secret")
    checks.type("classes", StateClasses, "StateClasses")
    if time:
        checks.whole(time, low=0, high=MAX_TIME)
    checks.finish()


def refuse_trajectory(secret: Secret) -> None:
    """Raise InputError for a trajectory, whose values are too many for a distribution of them."""
    if isinstance(secret, Trajectory):
        finding = "is a trajectory, whose values are too many to be listed"
        raise InputError([Fault("secret", finding, "ask about one moment: last_state, state_at, initial_state")])


def may_have_automaton(secret: Secret) -> bool:
    """Return whether a secret has an automaton, or is of a kind that is not known to have none."""
    return not isinstance(secret, LastState | InitialState | StateAt | StepsAgo | Visited | Trajectory)


def check_secret(
    secret: object,
    faults: Faults,
    where: str,
    *,
    num_states: int | None,
    labels: Collection[str] | None,
    horizon: int | None,
) -> None:
    """Note when a secret does not fit a model or a horizon.

    faults: where errors are noted. where: path of the secret, for messages.
    num_states, labels, horizon: of the problem; None where not known.
    """
    if isinstance(secret, Language):
        check_guards(secret.automaton, faults, f"{where}.automaton", labels=labels)
    elif isinstance(secret, Visited):
        if num_states is not None and secret.states.max(initial=-1) >= num_states:
            faults.error(where, f"names state {secret.states.max()}, but the model has {num_states:,}")
    elif isinstance(classes := getattr(secret, "classes", None), StateClasses):
        if num_states is not None and classes.of_state.size != num_states:
            faults.error(where, f"classes {classes.of_state.size:,} states, but the model has {num_states:,}")
        time = getattr(secret, "time", getattr(secret, "steps", 0))
        fault = None if horizon is None else whole_fault(time, low=0, high=horizon)
        if fault is not None:
            faults.error(where, fault)
