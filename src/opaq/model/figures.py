"""Figures that tasks name: a secret and an observer each, limits on them, and what observers take for granted.

A problem has named secrets and named observers; a figure is one pair of them. An observer that assumes filters with a
policy, or a model, of its own: the runs come from the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from opaq.errors import describe_value, is_number
from opaq.model.arrays import ContentEq
from opaq.model.checks import Checks
from opaq.model.mdp import MDP
from opaq.model.policy import Policy

NamedPolicy = Literal["uniform", "return_optimal"]
POLICY_WORDS: tuple[str, ...] = get_args(NamedPolicy)
SECRET_NAME, OBSERVER_NAME = "secret", "observer"  # of the only one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pair(ContentEq):
    """A secret and an observer by their names, with a weight in means.

    of, for_: empty where the problem has one only.
    """

    of: str = ""
    for_: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        checks = Checks(self, "figure")
        checks.text("of")
        checks.text("for_")
        if not is_number(self.weight) or not 0.0 < self.weight < float("inf"):
            checks.error("weight", f"is {describe_value(self.weight)}, not a number above 0")
        checks.finish()


class FigureLimit(ContentEq):
    """Base of requirements on figures, which are measured on belief graphs."""

    __slots__ = ()
    for_: str
    threshold: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UncertaintyLimit(FigureLimit):
    """What an observer is left with of a secret, in bits, is at least, or at most, the threshold."""

    of: str
    for_: str
    threshold: float
    direction: Literal["at_least", "at_most"]

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        checks.text("of")
        checks.text("for_")
        _check_bits(self, checks)
        checks.word("direction", ("at_least", "at_most"))
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CovertLimit(FigureLimit):
    """What an observer sees is distributed as under a reference policy, up to so many bits of relative entropy.

    like: the reference: a policy, "uniform" or "return_optimal".
    for_: the observer; empty where there is one only.
    threshold: D(P(Y) || P_like(Y)) may be at most this.
    """

    like: Policy | NamedPolicy
    for_: str
    threshold: float

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        _check_policy(self.like, checks, "like")
        checks.text("for_")
        _check_bits(self, checks)
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assumption(ContentEq):
    """What an observer takes for granted: its filter runs on this, whatever is true.

    policy: a policy, "uniform" or "return_optimal" (of the assumed model).
    mdp: the model; None: the true one.
    surprise: bits that observations count which it holds impossible; None: log2 of the number of secret values.
    """

    policy: Policy | NamedPolicy = "uniform"
    mdp: MDP | None = None
    surprise: float | None = None

    def __post_init__(self) -> None:
        checks = Checks(self, "assumes")
        _check_policy(self.policy, checks, "policy")
        if self.mdp is not None:
            checks.type("mdp", MDP, "an MDP")
        if self.surprise is not None and not (is_number(self.surprise) and 0.0 <= self.surprise < float("inf")):
            checks.error("surprise", f"is {describe_value(self.surprise)}, not a number of bits")
        checks.finish()


def _check_policy(policy: object, checks: Checks, field: str) -> None:
    """Note what is neither a policy nor the word for one."""
    if not isinstance(policy, Policy) and policy not in POLICY_WORDS:
        checks.error(field, f"is {describe_value(policy)}, not a Policy or {' or '.join(map(repr, POLICY_WORDS))}")


def _check_bits(limit: FigureLimit, checks: Checks) -> None:
    """Note a threshold that is no number of bits."""
    threshold = cast("object", limit.threshold)
    if not is_number(threshold) or not 0.0 <= limit.threshold < float("inf"):
        checks.error("threshold", f"is {describe_value(threshold)}, not a number of bits")
