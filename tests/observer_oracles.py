"""Brute force for several observers and secrets: laws of (secret value, what an observer sees), run by run.

Nothing here is shared with the engine but the names of what a problem states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf, log2

import numpy as np

import oracles
import random_problems
from aware_oracles import LazyPolicy, enumerate_aware
from opaq.model.figures import Assumption
from opaq.model.observer import Together
from opaq.model.policy import Policy
from opaq.model.problem import Problem

Rng = np.random.Generator


def add_others(rng: Rng, problem: Problem, *, secret: str = "initial_state") -> Problem:
    """The problem with a second observer, both together, and a second secret."""
    watched = random_problems._observer(rng, problem.mdp, bool(rng.random() < 0.3))
    observers = {"street": problem.observer, "insider": watched, "both": Together(("street", "insider"))}
    secrets = {"first": problem.secret, "second": random_problems._secret(rng, secret, problem.mdp, problem.horizon)}
    return replace(problem, observers=observers, secrets=secrets, of="first", for_="street")


def _bases(problem: Problem, name: str) -> list[str]:
    observer = problem.observers[name]
    return list(observer.parts) if isinstance(observer, Together) else [name]


def _runs(problem: Problem, policy: Policy | LazyPolicy | None) -> Iterator[tuple[oracles.Run, object]]:
    """Every run, with what the first observer saw where the policy looks at it."""
    first = next(name for name, secret in problem.secrets.items() if secret is problem.policy_secret)
    about = problem.about(of=first, for_=next(iter(problem.observers)))
    if isinstance(policy, LazyPolicy):
        for run in enumerate_aware(about, policy):
            yield run, run.seen
    else:
        for run in oracles.enumerate_runs(about, policy):
            yield run, None


def joint(problem: Problem, of: str, for_: str, policy: Policy | LazyPolicy | None) -> oracles.Joint:
    """P(Z = z, Y = y) of a secret and an observer; y has one sequence per observer that it is made of."""
    mass: oracles.Joint = defaultdict(float)
    names, about = _bases(problem, for_), {name: problem.about(of=of, for_=name) for name in _bases(problem, for_)}
    first = next(iter(problem.observers))
    for run, seen in _runs(problem, policy):
        value = oracles.secret_value(problem.about(of=of), run.states)
        each = [
            [(seen, 1.0)]
            if seen is not None and name == first
            else list(oracles.observation_sequences(about[name], run))
            for name in names
        ]
        for drawn in product(*each):
            chance = run.probability
            for _, weight in drawn:
                chance *= weight
            mass[value, tuple(sequence for sequence, _ in drawn)] += chance
    return {key: chance for key, chance in mass.items() if chance > 0}


def believed(
    problem: Problem, of: str, for_: str, policy: Policy | LazyPolicy | None, expected: Policy | None
) -> tuple[float, float, float, float]:
    """Cross-entropy, guess error, P(impossible) and P(excluded value) of an observer that assumes."""
    assumption: Assumption = problem.assumptions[for_]
    true = joint(problem, of, for_, policy)
    mdp = problem.mdp if assumption.mdp is None else assumption.mdp
    held = joint(replace(problem, mdp=mdp, assumptions={}), of, for_, expected)
    seen, prior = oracles.sequence_probabilities(held), oracles.secret_distribution(held)
    possible = _occurring(problem, of)
    surprise = log2(len(possible)) if assumption.surprise is None else assumption.surprise
    bits = wrong = impossible = excluded = 0.0
    for (value, sequence), chance in true.items():
        if sequence not in seen:
            impossible += chance
            bits += chance * surprise
            wrong += chance * (value != _likeliest(prior))
            continue
        belief = {name: held.get((name, sequence), 0.0) / seen[sequence] for name in prior}
        if belief.get(value, 0.0) == 0.0:
            excluded += chance
            bits = inf
        else:
            bits -= chance * log2(belief[value])
        wrong += chance * (value != _likeliest(belief))
    return bits, wrong, impossible, excluded


def _likeliest(belief: dict[str, float]) -> str | None:
    """The one likeliest value; None on a tie, which tests leave out."""
    best = max(belief.values())
    top = [name for name, chance in belief.items() if chance > best - 1e-12]
    return top[0] if len(top) == 1 else None


def has_ties(problem: Problem, of: str, for_: str, expected: Policy | None) -> bool:
    """Whether an observer that assumes has sequences after which two values are equally likely."""
    assumption = problem.assumptions[for_]
    mdp = problem.mdp if assumption.mdp is None else assumption.mdp
    held = joint(replace(problem, mdp=mdp, assumptions={}), of, for_, expected)
    by_sequence: dict[object, dict[str, float]] = defaultdict(dict)
    for (value, sequence), chance in held.items():
        by_sequence[sequence][value] = chance / oracles.sequence_probabilities(held)[sequence]
    priors = [oracles.secret_distribution(held), *by_sequence.values()]
    return any(_likeliest(belief) is None for belief in priors)


def _occurring(problem: Problem, of: str) -> set[str]:
    """The values of a secret over all product states that the engine can reach: those of prefixes of runs."""
    from opaq.product.compile import compile_problem

    return set(compile_problem(problem.about(of=of)).secret_values)


def relative_entropy(true: oracles.Joint, reference: oracles.Joint) -> float:
    """D(P(Y) || P_reference(Y)) in bits."""
    one, other = oracles.sequence_probabilities(true), oracles.sequence_probabilities(reference)
    return sum(inf if y not in other else chance * log2(chance / other[y]) for y, chance in one.items())
