"""A problem: plant, observer, secret, horizon and task, checked and ready to be compiled.

maximise over policies  H(Z | o_0 .. o_T)   subject to   V >= return_at_least, and every further requirement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from opaq.display import NotebookView
from opaq.errors import Faults, describe_value, is_number, suggestion
from opaq.model.arrays import ContentEq, IntArray
from opaq.model.automaton import Automaton, check_guards
from opaq.model.checks import Checked, Checks, ReadOnlyDict
from opaq.model.figures import OBSERVER_NAME, SECRET_NAME, Assumption, CovertLimit, FigureLimit, Pair
from opaq.model.mdp import MAX_STATES, MDP
from opaq.model.observer import ObserverKind, check_observer, resolve_observers
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
from opaq.model.uncertainty import ExpectedLoss, GuessError, Shannon, Uncertainty

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
    pairs: the figures that it is about, each a secret and an observer; () is the pair that the problem is about.
    taken: their weighted mean, or the least of them.
    limits: requirements on figures.
    when: the uncertainty after the last observation ("end"), that of every moment, of the secret's value then given
        what was seen by then, discounted and summed up ("every"), or the least of all moments ("least").
    """

    return_at_least: float | None = None
    over: Literal["horizon", "forever"] = "horizon"
    requirements: tuple[Requirement, ...] = ()
    minimise: bool = False
    of: Uncertainty = field(default_factory=Shannon)
    when: Literal["end", "every", "least"] = "end"
    pairs: tuple[Pair, ...] = ()
    taken: Literal["mean", "least"] = "mean"
    limits: tuple[FigureLimit, ...] = ()

    def __post_init__(self) -> None:
        checks, requirements = Checks(self, "task"), cast("object", self.requirements)
        if self.return_at_least is not None:
            checks.reward("return_at_least")
        checks.word("over", ("horizon", "forever"))
        checks.flag("minimise")
        checks.word("when", ("end", "every", "least"))
        checks.word("taken", ("mean", "least"))
        for name, kind, words in (("pairs", Pair, "a Pair"), ("limits", FigureLimit, "a limit of a figure")):
            listed = getattr(self, name)
            if not isinstance(listed, tuple):
                checks.error(name, f"is {describe_value(listed)}, not a tuple")
                continue
            for index, each in enumerate(listed):
                if not isinstance(each, kind):
                    checks.error(f"{name}[{index}]", f"is {describe_value(each)}, not {words}")
        if self.minimise and self.taken == "least":
            checks.error("taken", "the least of several figures cannot be minimised", "minimise one, or their mean")
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
    observers, secrets: all of them by their names; those of one only are called "observer" and "secret". Policies that
        look at observations see those of the first observer, and `automaton` is that of the first secret that has one.
    of, for_: the names of `secret` and `observer`, the pair that answers are about.
    assumptions: observer -> what it takes for granted; others know model and policy.

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
    observers: Mapping[str, ObserverKind] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    of: str = SECRET_NAME
    for_: str = OBSERVER_NAME
    assumptions: Mapping[str, Assumption] = field(default_factory=dict)

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
        checks.text("of")
        checks.text("for_")
        _check_named(self, checks)
        checks.finish()
        observers = resolve_observers({**self.observers, self.for_: self.observer}, checks.faults, "observers")
        checks.put("observers", ReadOnlyDict(observers))
        checks.put("secrets", ReadOnlyDict({**self.secrets, self.of: self.secret}))
        checks.put("assumptions", ReadOnlyDict(self.assumptions))
        checks.put("observer", observers[self.for_])
        checks.finish()
        _check_fit(self, checks.faults)
        checks.finish()

    @property
    def policy_secret(self) -> Secret:
        """The secret whose automaton policies may look at: the first that may have one, else the first."""
        return next(filter(may_have_automaton, self.secrets.values()), next(iter(self.secrets.values())))

    @property
    def policy_observer(self) -> str:
        """The name of the observer whose observations policies may look at: the first."""
        return next(iter(self.observers))

    @property
    def figures(self) -> tuple[Pair, ...]:
        """Every secret with every observer, by their names."""
        return tuple(Pair(of, for_) for of in self.secrets for for_ in self.observers)

    def complete(self, pair: Pair) -> Pair:
        """Return a pair whose names are stated: those left out are of the only secret, or the only observer."""
        return replace(pair, of=pair.of or next(iter(self.secrets)), for_=pair.for_ or next(iter(self.observers)))

    def about(self, *, of: str | None = None, for_: str | None = None) -> Problem:
        """Return the same problem about another secret or another observer, by their names: answers are about these.

        Raises InputError with every name that the problem does not have.
        """
        faults = Faults()
        of, for_ = self.of if of is None else of, self.for_ if for_ is None else for_
        for kind, name, known in (("secret", of, self.secrets), ("observer", for_, self.observers)):
            if name not in known:
                faults.error(kind, f"there is no {kind} '{name}'", suggestion(name, known, kind=kind))
        faults.raise_if_any()
        if (of, for_) == (self.of, self.for_):
            return self
        return replace(self, of=of, for_=for_, secret=self.secrets[of], observer=self.observers[for_])

    def __repr__(self) -> str:
        name = f" '{self.name[:40]}'" if self.name else ""
        secret, size = type(self.secret).__name__, f"{self.mdp.num_states} states, {len(self.mdp.actions)} actions"
        seen = len(self.observer.observations)
        return f"<Problem{name}: {size}, {seen} observations, secret {secret}, horizon {self.horizon}>"


def _check_named(problem: Problem, checks: Checks) -> None:
    """Note observers, secrets and assumptions that are no mappings, or hold something else."""
    kinds: dict[str, tuple[Any, str]] = {"secrets": (Secret, "a secret"), "assumptions": (Assumption, "an Assumption")}
    for field_name in ("observers", *kinds):
        named = getattr(problem, field_name)
        if not isinstance(named, Mapping):
            checks.error(field_name, f"is {describe_value(named)}, not a mapping by names")
            continue
        for name, one in named.items():
            kind, words = kinds.get(field_name, (object, "an observer"))
            if not isinstance(one, kind) or (kind is object and not hasattr(one, "observations")):
                checks.error(f"{field_name}.{name}", f"is {describe_value(one)}, not {words}")


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


def check_figures(
    task: Task,
    assumptions: Mapping[str, Assumption],
    faults: Faults,
    where: str,
    *,
    secrets: Mapping[str, object],
    observers: Mapping[str, object],
) -> None:
    """Note names of secrets and observers in a task that a problem does not have, or leaves out where it has several.

    where: path of the task, for messages. What an observer that assumes has no figure of is noted too.
    """
    known = {"of": ("secret", secrets), "for": ("observer", observers)}
    stated: list[tuple[str, Pair | FigureLimit, tuple[str, ...]]]
    several = f"{where}.maximise.{task.taken}"
    stated = [(f"{several}[{index}]", pair, ("of", "for")) for index, pair in enumerate(task.pairs)]
    if len(task.pairs) == 1:
        stated = [(f"{where}.maximise", task.pairs[0], ("of", "for"))]
    stated += [
        (f"{where}.limits[{index}]", limit, ("for",) if isinstance(limit, CovertLimit) else ("of", "for"))
        for index, limit in enumerate(task.limits)
    ]
    for path, figure, keys in stated:
        for key in keys:
            kind, names = known[key]
            name = getattr(figure, "for_" if key == "for" else key)
            if name and name not in names:
                faults.error(f"{path}.{key}", f"there is no {kind} '{name}'", suggestion(name, names, kind=kind))
            elif not name and len(names) > 1:
                faults.error(f"{path}.{key}", f"is missing, and there are {len(names)} {kind}s", f"name the {kind}")
        of, for_ = getattr(figure, "of", None), figure.for_ or next(iter(observers), "")
        secret = None if of is None else secrets.get(of or next(iter(secrets), ""))
        if isinstance(secret, Trajectory) and for_ in assumptions:
            finding = "the cross-entropy of a trajectory is not known, and the observer assumes"
            faults.error(path, finding, "name another secret, or an observer without 'assumes'")
    believed = [pair.for_ or next(iter(observers), "") for pair in task.pairs or (Pair(),)]
    if not any(name in assumptions for name in believed):
        return
    if not isinstance(task.of, Shannon | GuessError):
        finding = f"the {task.of.title} of an observer that assumes is not known"
        faults.error(f"{where}.of", finding, "use opacity, which is its cross-entropy, or guess_error")
    if task.when != "end":
        finding = "what an observer that assumes is left with is known at the end of runs alone"
        faults.error(f"{where}.when", finding, "leave it out")


def _check_assumptions(problem: Problem, faults: Faults) -> None:
    """Note assumptions of observers that do not exist, or about a model of other states or actions."""
    for name, assumption in problem.assumptions.items():
        where, mdp = f"observers.{name}.assumes", assumption.mdp
        if name not in problem.observers:
            faults.error(where, f"there is no observer '{name}'", suggestion(name, problem.observers, kind="observer"))
        if mdp is not None and (mdp.states != problem.mdp.states or mdp.actions != problem.mdp.actions):
            finding = "has other states or actions than the true model"
            faults.error(f"{where}.model", finding, "an assumed model has the same, with other probabilities")


def _secret_values(secret: Secret) -> tuple[str, ...] | None:
    """Return the names of all values that a secret may have; None where only its tracker knows."""
    if isinstance(secret, Visited) or (isinstance(secret, Language) and secret.reveal != "progress"):
        return ("yes", "no")
    if isinstance(secret, Language):
        return secret.automaton.states
    classes = getattr(secret, "classes", None)
    return None if classes is None else tuple(classes.names)


def _path(kind: str, name: str, named: Mapping[str, object]) -> str:
    """Return the path of a secret or an observer: the key of the only one, or the one among several."""
    return kind if len(named) == 1 and name == kind else f"{kind}s.{name}"


def _check_fit(problem: Problem, faults: Faults) -> None:
    """Note where the parts of a problem do not fit each other."""
    mdp, task = problem.mdp, problem.task
    sizes = {"num_states": mdp.num_states, "num_actions": len(mdp.actions)}
    for name, observer in problem.observers.items():
        check_observer(observer, faults, _path("observer", name, problem.observers), **sizes)
    for name, each in problem.secrets.items():
        path = _path("secret", name, problem.secrets)
        check_secret(each, faults, path, num_states=mdp.num_states, labels=mdp.labels, horizon=problem.horizon)
    _check_assumptions(problem, faults)
    names: dict[str, Any] = {"secrets": problem.secrets, "observers": problem.observers}
    check_figures(task, problem.assumptions, faults, "task", **names)
    known = {"num_states": mdp.num_states, "labels": mdp.labels, "rewards": mdp.named_rewards}
    check_task(task, faults, "task", **known, discount=problem.discount)  # type: ignore[arg-type]
    for name in dict.fromkeys([problem.of, *(problem.complete(pair).of for pair in task.pairs)]):
        if (asked := problem.secrets.get(name)) is not None:
            check_uncertainty(task.of, asked, faults, "task.of")
            check_moments(task, asked, faults, "task")
    automaton = any(map(may_have_automaton, problem.secrets.values()))
    check_policy_class(problem.policy_class, faults, "policy", **sizes, has_automaton=automaton)
