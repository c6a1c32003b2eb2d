"""State the question that a problem asks and the answer that a measurement gives, each as one plain sentence.

Comes in: a problem, or a measurement with its certificate. Goes out: text; names in it are escaped and cut short.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from opaq.errors import escape_invisible
from opaq.model.figures import CovertLimit, FigureLimit, UncertaintyLimit
from opaq.model.mdp import MDP
from opaq.model.observer import Observer, ObserverKind
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy
from opaq.model.secret import (
    InitialState,
    Language,
    LastState,
    Secret,
    StateAt,
    StateClasses,
    StepsAgo,
    Trajectory,
    Visited,
)
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, RequirementResult
from opaq.reports.numbers import (
    amount_phrase,
    bound_words,
    gap_words,
    number,
    shared_number,
    trivial_words,
    with_unit,
)

if TYPE_CHECKING:
    from opaq.certificates.certify import Certificate  # takes long to load, and most sentences need none

_LONGEST = 40  # characters of a name in a sentence
_SURE = 5e-6  # guess errors below are none, shares of a policy this close to a bound are all of it
_MOMENTS = {  # that a task is about
    "end": "",
    "every": "at every moment, as if it were the last, ",
    "least": "at the worst moment, as if it were the last, ",
}


def question_sentence(problem: Problem) -> str:
    """Return the question of a problem: how well the secret is hidden, from whom, and what must get done meanwhile."""
    times = "once" if problem.horizon == 0 else f"at each of {problem.horizon + 1:,} times"
    named = f" {_quote_name(problem.for_)}" if len(problem.observers) > 1 else ""
    seen = f"an observer{named} who sees {_observations(problem.observer)} {times}{_signs(problem)}"
    task = problem.task
    condition = _join_clauses(
        [*_return_clause(problem), *map(requirement_words, task.requirements), *map(_limit_words, task.limits)]
    )
    meanwhile = f", when {condition}" if condition else ""
    verb = "reveal" if problem.task.minimise else "hide"
    whom = "to" if problem.task.minimise else "from"
    secret = f"{_MOMENTS[task.when]}{secret_words(problem.secret, problem.mdp)}"
    return f"How well does the policy {verb} {secret} {whom} {seen}{meanwhile}?"


def answer_sentence(measurement: Measurement, certificate: Certificate | None = None) -> str:
    """Return a sentence on a policy: what it hides, how often the best guess is wrong, and what it earns.

    measurement: that of the policy. certificate: adds what is proven; None adds nothing.
    """
    parts = [
        *_hidden(measurement),
        *_own_uncertainty(measurement),
        *map(_requirement, measurement.requirements),
        *_proof(measurement, certificate),
    ]
    return "; ".join(part for part in parts if part) + "."


@singledispatch
def secret_words(secret: Secret, mdp: MDP) -> str:
    """Return the secret in words that follow the verb "hide"; kinds of secrets may register words of their own.

    secret: of the problem. mdp: the model, whose labels and states the words name.
    """
    return f"the secret ({type(secret).__name__})"


@secret_words.register
def _(secret: LastState, mdp: MDP) -> str:
    """Return where the run ends, or in which class of states."""
    return _state_words(secret.classes, mdp, "the run ends")


@secret_words.register
def _(secret: InitialState, mdp: MDP) -> str:
    """Return where the run starts, or in which class of states."""
    return _state_words(secret.classes, mdp, "the run starts")


@secret_words.register
def _(secret: StateAt, mdp: MDP) -> str:
    """Return where the run is at one time, or in which class of states."""
    return _state_words(secret.classes, mdp, f"the run is at time {secret.time}")


@secret_words.register
def _(secret: StepsAgo, mdp: MDP) -> str:
    """Return where the run is some steps before its end, or in which class of states."""
    steps = "1 step" if secret.steps == 1 else f"{secret.steps:,} steps"
    return _state_words(secret.classes, mdp, f"the run is {steps} before its end")


@secret_words.register
def _(secret: Visited, mdp: MDP) -> str:
    """Return whether the run visits the states, which are named by their label, or by the one state they are."""
    named = secret_label(secret, mdp) or (secret.name if secret.name in mdp.states else None)
    where = f"one of {secret.states.size:,} states" if named is None else _quote_name(named)
    return f"whether the run ever visits {where}"


@secret_words.register
def _(secret: Trajectory, mdp: MDP) -> str:
    """Return where the run is, or in which class of states, at every time."""
    when = "" if secret.classes.names == ("no", "yes") else " at every time"
    return _state_words(secret.classes, mdp, f"the run is{when}", whether="when")


@secret_words.register
def _(secret: Language, mdp: MDP) -> str:
    """Return whether the run satisfies a formula, or how far it brings the automaton."""
    if secret.reveal == "progress":
        return f"how far the run brings an automaton of {len(secret.automaton.states):,} states"
    return "whether the run satisfies a formula"


def secret_label(secret: Secret, mdp: MDP) -> str | None:
    """Return the label that is secret: whose states the secret tells from all others; None where there is none.

    Where several labels have these states, the one called as the secret (or "secret") is taken, else the first.
    """
    if isinstance(secret, Visited):
        hidden = secret.states
    else:
        classes = getattr(secret, "classes", None)
        if not isinstance(classes, StateClasses) or classes.names != ("no", "yes"):
            return None
        hidden = np.flatnonzero(classes.of_state == 1)
    same = [label for label, states in mdp.labels.items() if np.array_equal(np.sort(states), np.sort(hidden))]
    preferred = getattr(secret, "name", "secret")
    return preferred if preferred in same else next(iter(same), None)


def _limit_words(limit: FigureLimit) -> str:
    """Return the clause of a limit on a figure, "... must ..."."""
    whom = f"for {_quote_name(limit.for_)} " if limit.for_ else ""
    if isinstance(limit, CovertLimit):
        like = "a reference policy" if isinstance(limit.like, Policy) else f"the {limit.like.replace('_', '-')} policy"
        return f"what is seen {whom}must stay within {limit.threshold:.6g} bits of {like}"
    assert isinstance(limit, UncertaintyLimit)
    of = f"of {_quote_name(limit.of)} " if limit.of else ""
    return f"the opacity {of}{whom}must be {limit.direction.replace('_', ' ')} {limit.threshold:.6g} bits"


@singledispatch
def requirement_words(requirement: Requirement) -> str:
    """Return a requirement as a clause, "... must ..."; kinds of requirements may register words of their own."""
    return f"a requirement ({type(requirement).__name__}) must reach {requirement.threshold:.6g}"


@requirement_words.register
def _(requirement: ReturnAtLeast) -> str:
    """Return the clause of a threshold on a return, by the name of the reward."""
    return f"the return of {_quote_name(requirement.reward)} must be at least {requirement.threshold:.6g}"


@requirement_words.register
def _(requirement: Reach) -> str:
    """Return the clause of a probability to reach something."""
    return f"{_quote_name(requirement.name)} must be reached with probability {requirement.threshold:.6g} or more"


@requirement_words.register
def _(requirement: Satisfy) -> str:
    """Return the clause of a probability that a formula holds."""
    return f"{_quote_name(requirement.name)} must hold with probability {requirement.threshold:.6g} or more"


def _quote_name(name: str) -> str:
    """Return a name in a sentence: without invisible characters, cut to 40, in quotes."""
    text = escape_invisible(name)
    return f"“{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}”"


def _observations(observer: ObserverKind) -> str:
    """Return how many observations there are to see, in words."""
    count = len(observer.observations)
    return "the same observation" if count == 1 else f"one of {count:,} observations"


def _signs(problem: Problem) -> str:
    """Return a clause on what is seen of actions, where there are any; else nothing."""
    watches = isinstance(problem.observer, Observer) and problem.observer.action_emission is not None
    return " and a sign of every action" if watches and problem.horizon > 0 else ""


def _return_clause(problem: Problem) -> list[str]:
    """Return a clause on the threshold of the return, as a list; empty without one, and where nothing is earned."""
    threshold = problem.task.return_at_least
    if threshold is None or not problem.mdp.rewards.any():
        return []
    return [f"its return must be at least {threshold:.6g}"]


def _state_words(classes: StateClasses, mdp: MDP, verb: str, *, whether: str = "whether") -> str:
    """Return the secret that is the class of the state at one time.

    verb: such as "the run ends". whether: "when" for the class at every time.
    """
    if classes.names == ("no", "yes"):
        label = secret_label(LastState(classes), mdp)
        hidden = np.flatnonzero(classes.of_state == 1)
        name = mdp.states[hidden[0]] if label is None and hidden.size == 1 else label
        return f"{whether} {verb} in {f'one of {hidden.size:,} secret states' if name is None else _quote_name(name)}"
    every = len(classes.names) == mdp.num_states
    return f"where {verb}" if every else f"in which of {len(classes.names):,} groups of states {verb}"


def _join_clauses(clauses: list[str]) -> str:
    """Return the clauses joined by commas, the last one by "and"."""
    return " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)


def _hidden(measurement: Measurement) -> list[str]:
    """Return clauses on what the policy hides and how often the best guess is wrong.

    Where the secret has one value only, a clause that there is nothing to hide.
    """
    constant = measurement.constant_secret
    if constant is not None:
        value, runs = constant
        return [f"There is nothing to hide: the secret is {_quote_name(value)} in {runs} of this policy"]
    return [
        f"This policy hides {amount_phrase(measurement.opacity)} of {_bits(measurement.secret_entropy)} of the secret",
        _guess(measurement.guess_error),
    ]


def _guess(error: Amount) -> str:
    """Return a clause on how often the best guess is wrong."""
    if error.upper < _SURE:
        return "the observer's best guess is always right"
    return f"the observer's best guess is wrong in {_percent(error)} of the runs"


def _percent(share: Amount) -> str:
    """Return a share in percent: of an interval both ends, of an estimate its standard error too."""

    def write(value: float) -> str:
        """Return a share in percent, with three digits."""
        return f"{100 * value:.3g}%"

    if known := shared_number(share.lower, share.upper, write):
        return known
    if share.standard_error is not None:
        return f"about {write(share.value)} (± {100 * share.standard_error:.1g}%)"
    return f"at most {write(share.upper)}" if share.lower < _SURE else f"{write(share.lower)} to {write(share.upper)}"


def _own_uncertainty(measurement: Measurement) -> list[str]:
    """Return a clause on the task's objective, where that is not the opacity or the guess error of the pair alone."""
    of, figure = measurement.of, measurement.objective.figure
    amount = amount_phrase(measurement.uncertainty)
    words = with_unit(amount, of.unit) if of.unit else amount
    if figure is not None:
        return [f"{escape_invisible(figure)} {words}"]
    if of.name in ("opacity", "guess_error"):
        return []
    return [f"{of.title} {words} ({number(measurement.secret_uncertainty, 4)} unobserved)"]


def _requirement(met: RequirementResult) -> str:
    """Return a clause on whether a requirement is met; empty without a threshold."""
    if met.threshold is None:
        return ""
    verb = "meets" if met.feasible else "misses"
    value = number(met.value, 4, beside=met.threshold) if math.isfinite(met.value) else "infinite"
    asked = f"at most {met.threshold:.4g}" if met.direction == "at_most" else f"{met.threshold:.4g}"
    return f"{escape_invisible(met.name)} {value} {verb} the threshold {asked}"


def _proof(measurement: Measurement, certificate: Certificate | None) -> list[str]:
    """Return a clause on what is proven: the bound, and how close to it the policy is where it meets the task."""
    if certificate is None:
        return []
    if certificate.status.name == "INFEASIBLE":
        return ["it is proven that no policy meets the task"]
    of, bound, minimise = measurement.of, certificate.bound, certificate.minimise
    if not math.isfinite(bound):
        return []
    unit = f" {of.unit}" if of.unit else ""
    condition = " that meets the task" if any(met.threshold is not None for met in measurement.requirements) else ""
    trivial = f" ({trivial_words(minimise=minimise)})" if certificate.is_trivial else ""
    proven = f"no policy{condition} {bound_words(bound, unit=unit, minimise=minimise)}{trivial}"
    if not measurement.feasible:
        return [proven]
    reached = measurement.uncertainty
    gap = max(0.0, reached.upper - bound if minimise else bound - reached.lower)
    if gap <= 1e-3:
        return [f"{proven}, so that this one is proven optimal to within {max(gap, 1e-6):.1g}{unit}"]
    distance = gap_words(reached, bound, unit=unit, minimise=minimise)
    return [f"{proven}, so that {distance}" if distance else proven]


def _bits(value: float) -> str:
    """Return a number of bits in four digits, with its unit."""
    return with_unit(number(value, 4), "bits")
