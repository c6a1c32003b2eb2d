"""A problem: plant, observer, secret, horizon and task, checked and ready to be compiled.

maximise over policies  H(Z | o_0 .. o_T)   subject to   V >= return_at_least, and every further requirement.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, cast

from opaq.display import NotebookView
from opaq.errors import Faults, describe_value, is_number, suggestion
from opaq.model.arrays import ContentEq, IntArray
from opaq.model.automaton import Automaton, check_guards
from opaq.model.checks import Checked, Checks
from opaq.model.mdp import MAX_STATES, MDP
from opaq.model.observer import ObserverKind, check_observer
from opaq.model.policy import PolicyClass, check_policy_class
from opaq.model.secret import (
    Language,
    Secret,
    StateAt,
    StepsAgo,
    Trajectory,
    Visited,
    check_secret,
    may_have_automaton,
)
from opaq.model.uncertainty import ExpectedLoss, Shannon, Uncertainty

MAX_HORIZON = 1_000_000


class Requirement(ContentEq):
    """Base of requirements V >= threshold; `opaq.product.trackers` knows how each kind is followed."""

    __slots__ = ()
    threshold: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReturnAtLeast(Requirement):
    """The expected discounted return of a named reward is at least `threshold`."""

    reward: str
    threshold: float

    def __post_init__(self) -> None:
        checks = Checks(self, "requirement")
        checks.text("reward")
        checks.reward("threshold")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reach(Checked, Requirement):
    """Some of the states are visited within the horizon with probability at least `threshold`."""

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
    """The run is accepted by an automaton with probability at least `threshold`."""

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
    """The requirements that a policy must meet, and the observer's uncertainty that it maximises.

    return_at_least: threshold of the expected return; None: no such requirement.
    over: whether the return is counted over t = 0 .. horizon or for ever.
    requirements: further ones.
    minimise: make the observer as certain as can be instead.
    of: the uncertainty; opacity (Shannon) unless given.
    when: the uncertainty after the last observation ("end"), that of every moment, of the secret's value then given
        what was seen by then, discounted and summed up ("every"), or the least of all moments ("least").
    """

    return_at_least: float | None = None
    over: Literal["horizon", "forever"] = "horizon"
    requirements: tuple[Requirement, ...] = ()
    minimise: bool = False
    of: Uncertainty = field(default_factory=Shannon)
    when: Literal["end", "every", "least"] = "end"

    def __post_init__(self) -> None:
        checks, requirements = Checks(self, "task"), cast("object", self.requirements)
        if self.return_at_least is not None:
            checks.reward("return_at_least")
        checks.word("over", ("horizon", "forever"))
        checks.flag("minimise")
        checks.word("when", ("end", "every", "least"))
        if not isinstance(cast("object", self.of), Uncertainty):
            checks.error(
                "of", f"is {describe_value(self.of)}, not an uncertainty", "give Shannon(), GuessError() or another"
            )
        if not isinstance(requirements, tuple | list):
            checks.error("requirements", f"is {describe_value(requirements)}, not a tuple of requirements")
        else:
            checks.put("requirements", tuple(requirements))
            for index, requirement in enumerate(requirements):
                if not isinstance(requirement, Requirement):
                    checks.error(f"requirements[{index}]", f"is {describe_value(requirement)}, not a requirement")
        checks.finish()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Problem(NotebookView, Checked):
    """Everything the observer knows but the run itself, and what the agent is asked to do.

    mdp, observer, secret: the plant, who watches, and what must stay hidden.
    horizon: T transitions, so T + 1 states s_0 .. s_T and observations o_0 .. o_T.
    discount: gamma of the return, in (0, 1].
    task: what the policy must achieve; nothing unless given.
    policy_class: what policies look at unless a call says otherwise; the state unless given.
    name: for reports.

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
            checks.error("observer", f"is {describe_value(self.observer)}, not an observer")
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
    """Return what is wrong with a discount; None if nothing is."""
    if not is_number(discount):
        return f"is {describe_value(discount)}, not a number"
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
    """Note when a task does not fit a model or a discount.

    faults: where errors are noted. where: path of the task, for messages.
    num_states, labels, rewards: of the model; discount: of the problem; None where not known.
    """
    if task.over == "forever" and discount is not None and discount >= 1:
        faults.error(f"{where}.over", *needs_discount(discount))
    for index, requirement in enumerate(task.requirements):
        path = f"{where}.requirements[{index}]"
        check_requirement(requirement, faults, path, num_states=num_states, labels=labels, rewards=rewards)


def needs_discount(discount: float) -> tuple[str, str]:
    """Return the message and the advice for a return that is counted for ever without a discount."""
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
    """Note when a requirement does not fit a model: unknown rewards or labels, states beyond the model's.

    faults: where errors are noted. where: path of the requirement, for messages.
    num_states, labels, rewards: of the model; None where not known.
    """
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


def check_moments(task: Task, secret: Secret, faults: Faults, where: str) -> None:
    """Note a task about moments, or about an uncertainty, that its secret has not.

    where: path of the task, for messages.
    """
    if isinstance(secret, Trajectory):
        if task.when != "end":
            faults.error(f"{where}.when", "a trajectory is the secret of all moments together", "leave it out")
        if not isinstance(task.of, Shannon):
            faults.error(f"{where}.of", f"the {task.of.title} of a trajectory is not known", "leave it out: opacity")
    elif task.when != "end" and isinstance(secret, StateAt | StepsAgo):
        finding = "the secret is about one time, and has no value at the others"
        faults.error(f"{where}.when", finding, "use last_state, visited, a language or initial_state")
    elif task.when != "end" and isinstance(task.of, ExpectedLoss):
        faults.error(f"{where}.when", "expected losses are known at the end of runs alone", "leave it out")


def _secret_values(secret: Secret) -> tuple[str, ...] | None:
    """Return the names of all values that a secret may have; None where only its tracker knows."""
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
    check_moments(task, secret, faults, "task")
    automaton = may_have_automaton(secret)
    check_policy_class(problem.policy_class, faults, "policy", **sizes, has_automaton=automaton)
