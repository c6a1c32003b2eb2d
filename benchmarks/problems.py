"""Problems for the benchmarks of `solve` and `solve --gap`: random small ones, and medium ones of several kinds.

`random_problem(seed)` has 10 to 60 product states, noisy observations, one of several secrets and a requirement that
binds: half-way between what the uniform policy earns and the most that can be earned. `MEDIUM` are grids, gridless
models and models of Gymnasium and PRISM whose belief graphs have about 10^4 to 10^6 beliefs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import opaq
from opaq.beliefs.dynamic_program import largest_return
from opaq.beliefs.returns import expected_return
from opaq.model.policy import PolicyClass
from opaq.product.compile import compile_problem

MODELS = Path(__file__).parent / "models"
Spec = dict[str, Any]


def random_problem(seed: int, *, hard: bool = False) -> opaq.Problem:
    """Return a problem of 10 to 60 product states whose requirement binds; the same seed gives the same problem.

    hard: with horizons up to 9 (else 7) and up to 5 observations (else 4): millions of observation sequences.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(19,)))
    while True:
        spec = {"name": f"random-{seed}", **_random_spec(rng, hard=hard)}
        problem = opaq.build_problem(spec)
        process = compile_problem(problem, PolicyClass(("state",))).process
        if not 10 <= process.num_states <= 60:
            continue
        usual = expected_return(process, process.uniform(), process.payoffs[0])
        most = largest_return(process, process.payoffs[0])
        spec["task"] = {"return_at_least": round(usual + 0.5 * (most - usual), 4)}
        return opaq.build_problem(spec)


def _random_spec(rng: np.random.Generator, *, hard: bool) -> Spec:
    """Return the spec of a random model with an observer, a secret and a horizon, without a task."""
    num_states, num_observations = int(rng.integers(6, 16)), int(rng.integers(3, 6 if hard else 5))
    states, actions = [f"s{k}" for k in range(num_states)], ["a", "b", "c"][: int(rng.integers(2, 4))]
    transitions = {}
    for state in states:
        transitions[state] = {}
        for action in actions:
            targets = rng.choice(num_states, size=int(rng.integers(1, 4)), replace=False)
            chances = rng.dirichlet(np.ones(targets.size) * 2.0)
            transitions[state][action] = {states[t]: float(p) for t, p in zip(targets, chances, strict=True)}
    emissions = {}
    for index, state in enumerate(states):
        shown, sharp = index % num_observations, float(rng.choice([0.5, 0.7, 0.9]))
        others = rng.choice(num_observations, size=2, replace=False)
        row = {f"o{shown}": sharp}
        for other in others:
            row[f"o{other}"] = row.get(f"o{other}", 0.0) + (1.0 - sharp) / 2
        emissions[state] = row
    labels = {name: sorted(rng.choice(states, size=max(1, num_states // 4), replace=False).tolist()) for name in "pq"}
    secret = [
        {"last_state": "p"},
        {"initial_state": True},
        {"visited": "p"},
        {"ltlf": "F(p & F q)", "reveal": "progress"},
        {"ltlf": "F(p & F q)", "reveal": "acceptance"},
        {"last_state": {"one": "p", "two": "q"}},
    ][int(rng.integers(6))]
    if "two" in str(secret):
        labels["q"] = [state for state in labels["q"] if state not in labels["p"]] or [
            state for state in states if state not in labels["p"]
        ][:1]
        secret = {"last_state": {"one": labels["p"], "two": labels["q"]}}
    starts = rng.choice(states, size=int(rng.integers(1, 4)), replace=False).tolist()
    if "initial_state" in secret and len(starts) < 2:
        starts = states[:3]
    return {
        "opaq": 1,
        "model": {
            "states": states,
            "actions": actions,
            "start": starts,
            "transitions": transitions,
            "rewards": dict.fromkeys(rng.choice(states, size=2, replace=False).tolist(), 1),
            "labels": labels,
        },
        "observer": {"emissions": emissions},
        "secret": secret,
        "horizon": int(rng.integers(4, 10 if hard else 8)),
        "policy": {"conditions_on": ["state"]},
    }


def grid(
    size: int, horizon: int, secret: Spec, *, sensors: int = 4, detects: float = 0.7, task: float = 0.3, seed: int = 0
) -> Spec:
    """Return a square grid with walls, traps, goals and sensors drawn from the seed; secrets use its labels."""
    rng = np.random.default_rng(seed)
    cells = [[column, row] for column in range(size) for row in range(size)]
    inner = [cell for cell in cells if cell[0] > 0]
    order = rng.permutation(len(inner))
    drawn = iter([inner[k] for k in order])
    walls, traps = [next(drawn) for _ in range(size // 3)], [next(drawn) for _ in range(size // 4)]
    goals, hidden, keys = ([next(drawn) for _ in range(count)] for count in (2, 3, 2))
    covers = {}
    for index in range(sensors):
        x, y = (int(value) for value in rng.integers(1, size - 1, size=2))
        block = [[x + i, y + j] for i in (0, 1) for j in (0, 1)]
        covers["ABCDEFGH"[index]] = {"covers": [cell for cell in block if cell not in walls], "detects": detects}
    return {
        "opaq": 1,
        "grid": {
            "size": [size, size], "walls": walls, "traps": traps, "slip": 0.1, "stay": False,
            "start": {"column": 0}, "rewards": {"goal": 1},
            "labels": {"goal": goals, "hidden": hidden, "key": keys},
        },
        "observer": {"sensors": covers},
        "secret": secret,
        "horizon": horizon,
        "task": {"return_at_least": task},
        "policy": {"conditions_on": ["state"]},
    }  # fmt: skip


def _cliff() -> Spec:
    """Return CliffWalking with a camera and a microphone: was row 2 visited?"""
    return {
        "opaq": 1,
        "model": {
            "gymnasium": "CliffWalking-v1",
            "labels": {"two": {"where": "row = 2"}, "left": {"where": "col <= 5"}, "low": {"where": "row >= 2"}},
        },
        "observer": {"sensors": {"camera": {"covers": "left", "detects": 0.8},
                                 "microphone": {"covers": "low", "detects": 0.5}}},
        "secret": {"visited": "two"},
        "horizon": 20,
        "task": {"requirements": [{"reach": "goal", "probability_at_least": 0.5}]},
    }  # fmt: skip


def _frozen() -> Spec:
    """Return a slippery 8 x 8 FrozenLake: which side was the walker on in the middle of the run?"""
    return {
        "opaq": 1,
        "model": {
            "gymnasium": "FrozenLake-v1", "options": {"map_name": "8x8"},
            "labels": {"right": {"where": "col >= 4"}, "low": {"where": "row >= 4"}},
        },
        "observer": {"sensors": {"camera": {"covers": "right", "detects": 0.6},
                                 "steps": {"covers": "low", "detects": 0.6}}},
        "secret": {"visited": "right"},
        "horizon": 16,
        "task": {"requirements": [{"reach": "low", "probability_at_least": 0.3}]},
    }  # fmt: skip


def _ring() -> Spec:
    """Return a random chain of 80 states with blurred observations; the secret is where it started."""
    rng = np.random.default_rng(5)
    states = [f"s{k}" for k in range(80)]
    transitions = {
        state: {
            action: {
                states[int(t)]: float(p)
                for t, p in zip(rng.choice(80, 2, replace=False), rng.dirichlet([2.0, 2.0]), strict=True)
            }
            for action in "abc"
        }
        for state in states
    }
    emissions = {state: {f"o{k % 6}": 0.6, f"o{(k + 1) % 6}": 0.2, "none": 0.2} for k, state in enumerate(states)}
    return {
        "opaq": 1,
        "model": {"states": states, "actions": list("abc"), "start": states[:4], "transitions": transitions,
                  "rewards": dict.fromkeys(states[::9], 1), "labels": {"p": states[::7]}},
        "observer": {"emissions": emissions},
        "secret": {"initial_state": True},
        "horizon": 7,
        "task": {"return_at_least": 1.5},
    }  # fmt: skip


_LTLF = {"ltlf": "F(key & F goal)", "reveal": "acceptance"}
MEDIUM: dict[str, Callable[[], Spec]] = {
    "grid-8-ltlf": lambda: grid(8, 16, _LTLF, seed=1),
    "grid-8-last": lambda: grid(8, 14, {"last_state": "hidden"}, seed=2),
    "grid-8-start": lambda: grid(8, 12, {"initial_state": True}, sensors=3, seed=3),
    "grid-8-visited": lambda: grid(8, 15, {"visited": "hidden"}, sensors=5, seed=4),
    "grid-10-last": lambda: grid(10, 16, {"last_state": "hidden"}, seed=5),
    "grid-10-ltlf": lambda: grid(10, 14, _LTLF, sensors=5, seed=6),
    "grid-12-last": lambda: grid(12, 16, {"last_state": "hidden"}, sensors=5, task=0.15, seed=7),
    "grid-12-visited": lambda: grid(12, 14, {"visited": "hidden"}, task=0.15, seed=8),
    "cliff": _cliff,
    "frozen-lake-8": _frozen,
    "random-80": _ring,
    "carry": lambda: {"file": str(MODELS / "carry.yaml")},
}


def medium_problem(name: str) -> opaq.Problem:
    """Return one of the medium problems by its name."""
    spec = MEDIUM[name]()
    if "file" in spec:
        return opaq.load_problem(spec["file"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(yaml.safe_dump(spec))
        return opaq.load_problem(file)
