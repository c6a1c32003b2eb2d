"""Guessing the run: the most likely trajectory and every moment, against enumeration of all runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.model.arrays import ints
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity import guessing
from opaq.product.compile import compile_problem
from random_problems import random_policy, random_problem


def enumerated(problem: Problem, policy: Policy, class_of: np.ndarray) -> tuple[float, float]:
    """P(best trajectory right) and the expected share of moments guessed right."""
    joint = oracles.run_joint(problem, policy, lambda states: tuple(class_of[list(states)].tolist()))
    right, times = 1.0 - oracles.guess_error(joint), problem.horizon + 1
    masses: dict[object, float] = defaultdict(float)
    for (words, seen), chance in joint.items():
        for time, word in enumerate(words):
            masses[word, (seen, time)] += chance
    return right, _share(masses, times)


def _share(masses: dict[object, float], times: int) -> float:
    best: dict[object, float] = defaultdict(float)
    for (_, key), chance in masses.items():
        best[key] = max(best[key], chance)
    return sum(best.values()) / times


def some_cases(seed: int, count: int) -> list[tuple]:
    rng, cases = np.random.default_rng(seed), []
    for number in range(count):
        problem = random_problem(rng, budget=1500)
        class_of = np.arange(problem.mdp.num_states) if number % 2 else rng.integers(2, size=problem.mdp.num_states)
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        process = replace(
            product.process,
            secret=ints(class_of[product.state_of]),
            num_secrets=int(class_of.max()) + 1,
        )
        cases.append((process, product.policy_vector(policy), *enumerated(problem, policy, class_of)))
    return cases


def test_best_guesses_against_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "_MOST_SEARCHED", 2_000)
    for process, pi, right, share in some_cases(51, 40):
        guess = guessing.guess_run(process, pi, samples=100, rng=np.random.default_rng(0))
        assert guess.right.value == pytest.approx(right, abs=1e-12)
        assert guess.share.value == pytest.approx(share, abs=1e-12)


def test_sampled_guesses_within_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "_MOST_SEQUENCES", 0)
    monkeypatch.setattr(guessing, "_MOST_VECTORS", 0)
    off = []
    for process, pi, right, share in some_cases(52, 12):
        guess = guessing.guess_run(process, pi, samples=300, rng=np.random.default_rng(1))
        assert guess.right.method == guess.share.method == "sampled"
        off.append((guess.right.value - right) / max(guess.right.standard_error, 1e-9))
        off.append((guess.share.value - share) / max(guess.share.standard_error, 1e-9))
    assert np.abs(off).max() < 4.5


def test_likeliest_path_has_the_largest_probability() -> None:
    rng = np.random.default_rng(53)
    for _ in range(10):
        problem = random_problem(rng, conditions=("state",), watches_actions=False)
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        pi, states = product.policy_vector(policy), np.arange(problem.mdp.num_states)
        joint = oracles.run_joint(problem, policy, tuple)
        _, seen = max(joint, key=lambda key: joint[key])
        numbers = [problem.observer.observations.index(shown[0]) for shown in seen]
        (path,) = guessing.likeliest_paths(product.process, pi, [np.array(numbers)])
        best = max(chance for (_, sequence), chance in joint.items() if sequence == seen)
        assert joint[tuple(states[product.state_of[path]].tolist()), seen] == pytest.approx(best, rel=1e-9)


def test_candidates_that_are_let_go_leave_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "_MOST_SEARCHED", 2_000)
    monkeypatch.setattr(guessing, "_MOST_CANDIDATES", 1)
    open_cases = 0
    for process, pi, right, _ in some_cases(52, 40):
        guess = guessing.guess_run(process, pi, samples=100, rng=np.random.default_rng(0)).right
        assert guess.lower - 1e-12 <= right <= guess.upper + 1e-12
        open_cases += guess.method != "exact"
    assert open_cases > 0
