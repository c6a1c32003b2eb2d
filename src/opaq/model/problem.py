"""A problem: plant, observer, secret, horizon and task, checked and ready to be compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from opaq.display import Displayed
from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.content import ByContent
from opaq.model.mdp import MDP
from opaq.model.observer import ObserverKind
from opaq.model.policy import PolicyClass
from opaq.model.secret import Secret
from opaq.model.uncertainty import Shannon, Uncertainty


class Requirement(ByContent):
    """Something that must get done to at least `threshold`; `opaq.product` knows how each kind is followed."""

    __slots__ = ()
    threshold: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReturnAtLeast(Requirement):
    """The expected return of a named reward reaches a threshold."""

    reward: str
    threshold: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reach(Requirement):
    """Some of the states are visited within the horizon with at least this probability."""

    states: IntArray
    threshold: float
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Satisfy(Requirement):
    """The run satisfies an automaton with at least this probability."""

    automaton: Automaton
    threshold: float
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Task(ByContent):
    """What must get done: an expected return of at least `return_at_least`, over the horizon or for ever, and more.

    Within that, the policy should leave the observer as uncertain as can be (`minimise`: as certain as can be), in the
    sense of `of`: opacity, unless another uncertainty is given.
    """

    return_at_least: float | None = None
    over: Literal["horizon", "forever"] = "horizon"
    requirements: tuple[Requirement, ...] = ()
    minimise: bool = False
    of: Uncertainty = field(default_factory=Shannon)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Problem(Displayed, ByContent):
    """Everything the observer knows but the run itself, and what the agent is asked to do."""

    mdp: MDP
    observer: ObserverKind
    secret: Secret
    horizon: int
    discount: float = 1.0
    task: Task = field(default_factory=Task)
    policy_class: PolicyClass = field(default_factory=PolicyClass)
    name: str = ""

    def __repr__(self) -> str:
        name = f" '{self.name[:40]}'" if self.name else ""
        secret, size = type(self.secret).__name__, f"{self.mdp.num_states} states, {len(self.mdp.actions)} actions"
        seen = len(self.observer.observations)
        return f"<Problem{name}: {size}, {seen} observations, secret {secret}, horizon {self.horizon}>"
