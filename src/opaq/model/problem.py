"""A problem: plant, observer, secret, horizon and task, checked and ready to be compiled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, cast

from opaq.display import NotebookView
from opaq.errors import Faults, is_number, shown, suggestion
from opaq.model.arrays import ContentEq, IntArray
from opaq.model.automaton import Automaton, check_guards
from opaq.model.checks import Checked, Checks
from opaq.model.mdp import MAX_STATES, MDP
from opaq.model.observer import ObserverKind, check_observer
from opaq.model.policy import PolicyClass, check_policy_class
from opaq.model.secret import Language, Secret, Visited, check_secret, may_have_automaton
from opaq.model.uncertainty import ExpectedLoss, Shannon, Uncertainty

MAX_HORIZON = 1_000_000


class Requirement(ContentEq):
    """Something that must get done to at least `threshold`; `opaq.product` knows how each kind is followed."""

    __slots__ = ()
    threshold: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReturnAtLeast(Requirement):
    """The expected return of a named reward reaches a threshold."""

    reward: str
    threshold: float

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        checks.text("reward")
        checks.reward("threshold")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reach(Checked, Requirement):
    """Some of the states are visited within the horizon with at least this probability."""

    states: IntArray
    threshold: float
    name: str = ""

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        checks.ints("states", None, most=MAX_STATES, what="state")
        checks.probability("threshold")
        checks.text("name")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Satisfy(Requirement):
    """The run satisfies an automaton with at least this probability."""

    automaton: Automaton
    threshold: float
    name: str = ""

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        checks.type("automaton", Automaton, "an Automaton")
        checks.probability("threshold")
        checks.text("name")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Task(ContentEq):
    """What must get done: an expected return of at least `return_at_least`, over the horizon or for ever, and more.

    Within that, the policy should leave the observer as uncertain as can be (`minimise`: as certain as can be), in the
    sense of `of`: opacity, unless another uncertainty is given.
    """

    return_at_least: float | None = None
    over: Literal["horizon", "forever"] = "horizon"
    requirements: tuple[Requirement, ...] = ()
    minimise: bool = False
    of: Uncertainty = field(default_factory=Shannon)

    def __post_init__(self) -> None:
        checks, requirements = Checks(self, "task"), cast("object", self.requirements)
        if self.return_at_least is not None:
            checks.reward("return_at_least")
        checks.word("over", ("horizon", "forever"))
        checks.flag("minimise")
        if not isinstance(cast("object", self.of), Uncertainty):
            checks.error("of", f"is {shown(self.of)}, not an uncertainty", "give Shannon(), GuessError() or another")
        if not isinstance(requirements, tuple | list):
            checks.error("requirements", f"is {shown(requirements)}, not a tuple of requirements")
        else:
            checks.put("requirements", tuple(requirements))
            for index, requirement in enumerate(requirements):
                if not isinstance(requirement, Requirement):
                    checks.error(f"requirements[{index}]", f"is {shown(requirement)}, not a requirement")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Problem(NotebookView, Checked):
    """Everything the observer knows but the run itself, and what the agent is asked to do.

    Any instance is valid: InputError lists every fault when one is made, also by `dataclasses.replace`.
    """

    mdp: MDP
    observer: ObserverKind
    secret: Secret
    horizon: int
    discount: float = 1.0
    task: Task = field(default_factory=Task)
    policy_class: PolicyClass = field(default_factory=PolicyClass)
    name: str = ""

    def __post_init__(self) -> None:
        checks = Checks(self, "")
        checks.type("mdp", MDP, "an MDP")
        if not hasattr(self.observer, "observations"):
            checks.error("observer", f"is {shown(self.observer)}, not an observer")
        checks.type("secret", Secret, "a secret")
        checks.whole("horizon", low=0, high=MAX_HORIZON)
        discount = discount_fault(self.discount)
        if discount is not None:
            checks.error("discount", discount)
        else:
            checks.put("discount", float(self.discount))
        checks.type("task", Task, "a Task")
        checks.type("policy_class", PolicyClass, "a PolicyClass")
        checks.text("name")
        checks.finish()
        _check_fit(self, checks.faults)
        checks.finish()

    def __repr__(self) -> str:
        name = f" '{self.name[:40]}'" if self.name else ""
        secret, size = type(self.secret).__name__, f"{self.mdp.num_states} states, {len(self.mdp.actions)} actions"
        seen = len(self.observer.observations)
        return f"<Problem{name}: {size}, {seen} observations, secret {secret}, horizon {self.horizon}>"


def discount_fault(discount: object) -> str | None:
    """What is wrong with a discount; None if nothing is."""
    if not is_number(discount):
        return f"is {shown(discount)}, not a number"
    fits = 0 < discount <= 1  # type: ignore[operator]
    return None if fits else f"is {discount:g}, not a number above 0 and up to 1"


def check_task(
    task: Task,
    faults: Faults,
    where: str,
    *,
    num_states: int | None,
    labels: Collection[str] | None,
    rewards: Collection[str] | None,
    discount: float | None,
) -> None:
    """Note when a task does not fit a model or a discount; None stands for what is not known."""
    if task.over == "forever" and discount is not None and discount >= 1:
        faults.error(f"{where}.over", *needs_discount(discount))
    for index, requirement in enumerate(task.requirements):
        path = f"{where}.requirements[{index}]"
        check_requirement(requirement, faults, path, num_states=num_states, labels=labels, rewards=rewards)


def needs_discount(discount: float) -> tuple[str, str]:
    """What is wrong with a return that is counted for ever without a discount."""
    return "'forever' needs a discount below 1", f"the discount is {discount:g}"


def check_requirement(
    requirement: Requirement,
    faults: Faults,
    where: str,
    *,
    num_states: int | None,
    labels: Collection[str] | None,
    rewards: Collection[str] | None,
) -> None:
    """Note when a requirement does not fit a model; None stands for what is not known."""
    match requirement:
        case ReturnAtLeast(reward):
            if rewards is not None and reward not in rewards:
                advice = suggestion(reward, rewards, kind="named reward")
                faults.error(f"{where}.reward", f"unknown reward '{reward}'", advice)
        case Satisfy(automaton):
            check_guards(automaton, faults, f"{where}.automaton", labels=labels)
        case Reach(members):
            if num_states is not None and members.max(initial=-1) >= num_states:
                finding = f"names state {members.max()}, but the model has {num_states:,}"
                faults.error(f"{where}.reach", finding)


def check_uncertainty(uncertainty: Uncertainty, secret: Secret, faults: Faults, where: str) -> None:
    """Note losses for values that the secret does not have."""
    values = _secret_values(secret)
    if not isinstance(uncertainty, ExpectedLoss) or values is None:
        return
    for guess, row in uncertainty.losses:
        for value, _ in row:
            if value not in values:
                advice = suggestion(value, values, kind="value")
                faults.error(f"{where}.loss.{guess}.{value}", f"the secret has no value '{value}'", advice)


def _secret_values(secret: Secret) -> tuple[str, ...] | None:
    """The names of all values that a secret may have, where that can be told."""
    if isinstance(secret, Visited) or (isinstance(secret, Language) and secret.reveal != "progress"):
        return ("yes", "no")
    if isinstance(secret, Language):
        return secret.automaton.states
    classes = getattr(secret, "classes", None)
    return None if classes is None else tuple(classes.names)


def _check_fit(problem: Problem, faults: Faults) -> None:
    """Note where the parts of a problem do not fit each other."""
    mdp, secret, task = problem.mdp, problem.secret, problem.task
    sizes = {"num_states": mdp.num_states, "num_actions": len(mdp.actions)}
    check_observer(problem.observer, faults, "observer", **sizes)
    check_secret(secret, faults, "secret", num_states=mdp.num_states, labels=mdp.labels, horizon=problem.horizon)
    known = {"num_states": mdp.num_states, "labels": mdp.labels, "rewards": mdp.named_rewards}
    check_task(task, faults, "task", **known, discount=problem.discount)  # type: ignore[arg-type]
    check_uncertainty(task.of, secret, faults, "task.of")
    automaton = may_have_automaton(secret)
    check_policy_class(problem.policy_class, faults, "policy", **sizes, has_automaton=automaton)
