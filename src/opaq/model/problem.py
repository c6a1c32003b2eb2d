"""A problem: plant, observer, secret, horizon and task, checked and ready to be compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.secret import Secret
from opaq.model.uncertainty import Shannon, Uncertainty


@dataclass(frozen=True, slots=True)
class ReturnAtLeast:
    """The expected return of a named reward reaches a threshold."""

    reward: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Reach:
    """Some of the states are visited within the horizon with at least this probability."""

    states: IntArray
    threshold: float
    name: str = ""


@dataclass(frozen=True, slots=True)
class Satisfy:
    """The run satisfies an automaton with at least this probability."""

    automaton: Automaton
    threshold: float
    name: str = ""


Requirement = ReturnAtLeast | Reach | Satisfy


@dataclass(frozen=True, slots=True)
class Task:
    """What must get done: an expected return of at least `return_at_least`, over the horizon or for ever, and more.

    Within that, the policy should leave the observer as uncertain as can be (`minimise`: as certain as can be), in the
    sense of `of`: opacity, unless another uncertainty is given.
    """

    return_at_least: float | None = None
    over: Literal["horizon", "forever"] = "horizon"
    requirements: tuple[Requirement, ...] = ()
    minimise: bool = False
    of: Uncertainty = field(default_factory=Shannon)


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything the observer knows but the run itself, and what the agent is asked to do."""

    mdp: MDP
    observer: Observer
    secret: Secret
    horizon: int
    discount: float = 1.0
    task: Task = field(default_factory=Task)
    policy_class: PolicyClass = field(default_factory=PolicyClass)
    name: str = ""
