"""Random small problems and policies of every kind, built straight from the data types."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import numpy as np

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.automaton import Automaton, Edge, parse_guard
from opaq.model.conditions import Memory
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem, Task
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.model.uncertainty import Uncertainty

Rng = np.random.Generator

SECRETS = ("last_state", "initial_state", "state_at", "steps_ago", "visited", "progress", "acceptance")
LANGUAGES = ("progress", "acceptance")
CONDITIONS = (
    ("state",),
    ("state", "time"),
    ("time", "state"),
    ("state", "start"),
    ("last_states",),
    ("state", "memory"),
    ("memory",),
    ("time",),
    ("state", "automaton"),
    ("time", "last_states"),
    ("start", "state", "memory"),
    ("state", "time", "automaton"),
    ("automaton", "state", "memory"),
    ("state", "start", "time"),
)
GUARDS = ("p", "q", "!p", "!q", "p & q", "p | q", "p & !q", "true", "!(p | q)")


def random_problem(
    rng: Rng,
    *,
    secret: str | None = None,
    conditions: tuple[str, ...] | None = None,
    horizon: int | None = None,
    watches_actions: bool | None = None,
    budget: int = 4000,
) -> Problem:
    """A problem with at most `budget` (run, observation sequence) pairs; what is not asked for is drawn."""
    conditions = conditions or _draw_conditions(rng, secret)
    secret = secret or str(rng.choice(LANGUAGES if "automaton" in conditions else SECRETS))
    watched = bool(rng.random() < 0.3) if watches_actions is None else watches_actions
    asked = horizon
    while True:
        mdp = _mdp(rng, alike=not {"state", "last_states"} & set(conditions))
        horizon = int(rng.choice(5, p=[0.1, 0.2, 0.25, 0.25, 0.2])) if asked is None else asked
        problem = Problem(
            mdp,
            _observer(rng, mdp, watched),
            _secret(rng, secret, mdp, horizon),
            horizon,
            discount=1.0 if rng.random() < 0.5 else float(rng.uniform(0.3, 1)),
            task=Task(float(rng.normal())) if rng.random() < 0.5 else Task(),
            policy_class=_policy_class(rng, mdp, conditions),
        )
        # Constant secrets are worth a test now and then, not most of the time.
        if num_pairs(problem) <= budget and (rng.random() < 0.1 or not _is_constant(problem)):
            return problem


def random_policy(rng: Rng, problem: Problem, *, softmax: bool = False) -> Policy:
    """A policy of the problem's class with a row for every key that could occur; softmax: no exact zeros."""
    rows = {key: _row(rng, enabled_at(problem, key), softmax) for key in possible_keys(problem)}
    return Policy(problem.policy_class, rows)


def possible_keys(problem: Problem) -> list[RowKey]:
    """Every consistent key of the problem's policy class, reachable or not."""
    policy_class = problem.policy_class
    values = [_values(problem, name) for name in policy_class.conditions_on]
    return [key for key in product(*values) if _consistent(dict(zip(policy_class.conditions_on, key, strict=True)))]


def _draw_conditions(rng: Rng, secret: str | None) -> tuple[str, ...]:
    fitting = [c for c in CONDITIONS if secret is None or secret in LANGUAGES or "automaton" not in c]
    return fitting[rng.integers(len(fitting))]


def _values(problem: Problem, condition: str) -> list[object]:
    states = problem.mdp.states
    match condition:
        case "time":
            return list(range(problem.horizon + 1))
        case "automaton":
            return list(problem.secret.automaton.states)
        case "memory":
            return list(problem.policy_class.memory.nodes)
        case "last_states":
            lengths = range(1, min(problem.policy_class.last_states, problem.horizon + 1) + 1)
            return [names for length in lengths for names in product(states, repeat=length)]
    return list(states)


def _consistent(key: dict[str, object]) -> bool:
    if "state" in key and "last_states" in key:
        return key["last_states"][-1] == key["state"]
    return True


def enabled_at(problem: Problem, key: RowKey) -> list[str]:
    """The actions enabled where a key can occur (all states are alike if the key names none)."""
    named = dict(zip(problem.policy_class.conditions_on, key, strict=True))
    state = named.get("state") or named.get("last_states", problem.mdp.states)[-1]
    index = problem.mdp.states.index(state)
    first, last = problem.mdp.choice_start[index : index + 2]
    names = [problem.mdp.actions[action] for action in problem.mdp.choice_action[first:last]]
    memory = problem.policy_class.memory
    return (
        [f"{name}>{node}" for name in names for node in memory.nodes] if memory is not None and memory.free else names
    )


def _row(rng: Rng, actions: list[str], softmax: bool) -> dict[str, float]:
    if softmax or rng.random() < 0.5:
        weights = np.exp(rng.normal(size=len(actions)))
    else:
        weights = rng.random(len(actions)) * (rng.random(len(actions)) < 0.5)
        weights[rng.integers(len(actions))] += 1
    # Actions of probability 0 are sometimes written down and sometimes left out: both mean the same.
    shares = dict(zip(actions, (weights / weights.sum()).tolist(), strict=True))
    return shares if rng.random() < 0.5 else {action: share for action, share in shares.items() if share > 0}


def _mdp(rng: Rng, *, alike: bool) -> MDP:
    num_states, num_actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    enabled = [_subset(rng, num_actions) for _ in range(num_states)]
    if alike:
        enabled = [enabled[0]] * num_states
    num_choices = sum(len(actions) for actions in enabled)
    return MDP(
        states=tuple(f"s{i}" for i in range(num_states)),
        actions=tuple("abc"[:num_actions]),
        start=floats(_shares(rng, num_states, _subset(rng, num_states, least=1 + int(rng.random() < 0.7)))),
        choice_start=ints(np.cumsum([0, *map(len, enabled)])),
        choice_action=ints(np.concatenate(enabled)),
        transitions=SparseRows.from_dense(
            [_shares(rng, num_states, _targets(rng, num_states)) for _ in range(num_choices)]
        ),
        rewards=floats(np.where(rng.random(num_choices) < 0.4, 0, rng.normal(size=num_choices))),
        labels={label: ints(some_states(rng, num_states)) for label in ("p", "q")},
    )


def some_states(rng: Rng, num_states: int) -> np.ndarray:
    """The states of a label: mostly some but not all."""
    return np.sort(rng.permutation(num_states)[: rng.choice([0, num_states // 2, num_states - 1], p=[0.1, 0.5, 0.4])])


def _targets(rng: Rng, num_states: int) -> np.ndarray:
    return rng.permutation(num_states)[: rng.choice([1, 2, 3], p=[0.3, 0.5, 0.2])]


def _subset(rng: Rng, size: int, *, least: int = 1) -> np.ndarray:
    """Some of 0..size-1, ascending."""
    return np.sort(rng.permutation(size)[: rng.integers(least, size + 1)])


def _shares(rng: Rng, size: int, support: np.ndarray | None = None) -> np.ndarray:
    """A distribution over 0..size-1 that is 0 outside the support (drawn if not given)."""
    support = _subset(rng, size) if support is None else support
    shares = np.zeros(size)
    # Equal shares make beliefs that are exactly proportional, which an engine may merge.
    shares[support] = 1.0 if rng.random() < 0.5 else rng.uniform(0.05, 1, size=support.size)
    return shares / shares.sum()


def _observer(rng: Rng, mdp: MDP, watched: bool) -> Observer:
    observations = tuple("wxyz"[: rng.integers(2, 5)])
    size = len(observations)
    if rng.random() < 0.25:
        emission = np.eye(size)[rng.integers(size, size=mdp.num_states)]
    else:
        emission = np.array([_shares(rng, size, rng.permutation(size)[: rng.integers(1, 4)]) for _ in mdp.states])
    if not watched:
        return Observer(observations, SparseRows.from_dense(emission))
    exact = rng.random() < 0.5
    signs = np.eye(len(mdp.actions)) if exact else np.array([_shares(rng, 2) for _ in mdp.actions])
    names = tuple(f"sign{i}" for i in range(signs.shape[1]))
    return Observer(observations, SparseRows.from_dense(emission), names, SparseRows.from_dense(signs))


def _secret(rng: Rng, kind: str, mdp: MDP, horizon: int) -> Secret:
    match kind:
        case "last_state":
            return LastState(_classes(rng, mdp))
        case "initial_state":
            return InitialState(_classes(rng, mdp))
        case "state_at":
            return StateAt(int(rng.integers(0, horizon + 1)), _classes(rng, mdp))
        case "steps_ago":
            return StepsAgo(int(rng.integers(0, horizon + 1)), _classes(rng, mdp))
        case "visited":
            return Visited(ints([rng.integers(mdp.num_states)] if rng.random() < 0.8 else _subset(rng, mdp.num_states)))
    return Language(random_automaton(rng), kind)


def _classes(rng: Rng, mdp: MDP) -> StateClasses:
    if rng.random() < 0.4:
        return StateClasses(mdp.states, ints(np.arange(mdp.num_states)))
    size = int(rng.choice([1, 2, 3], p=[0.1, 0.6, 0.3]))
    return StateClasses(tuple(f"class{i}" for i in range(size)), ints(rng.integers(size, size=mdp.num_states)))


def random_automaton(rng: Rng) -> Automaton:
    size = int(rng.integers(2, 5))
    sources = [state for state in range(size) for _ in range(rng.choice(3, p=[0.1, 0.5, 0.4]))]
    edges = [Edge(s, int(rng.integers(size)), parse_guard(str(rng.choice(GUARDS)))) for s in sources]
    return Automaton(
        states=tuple(f"q{i}" for i in range(size)),
        initial=int(rng.integers(size)),
        accepting=frozenset(np.flatnonzero(rng.random(size) < 0.5).tolist()),
        edges=tuple(edges),
        reads="entered" if rng.random() < 0.5 else "left",
    )


def _policy_class(rng: Rng, mdp: MDP, conditions: tuple[str, ...]) -> PolicyClass:
    return PolicyClass(
        conditions,
        last_states=int(rng.integers(1, 4)) if "last_states" in conditions else 0,
        memory=_memory(rng, mdp) if "memory" in conditions else None,
    )


def _memory(rng: Rng, mdp: MDP) -> Memory:
    size, num_updates = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    if rng.random() < 0.5:
        start, updates = (np.eye(size)[rng.integers(size, size=rows)] for rows in (mdp.num_states, num_updates))
    else:
        start = np.array([_shares(rng, size) for _ in mdp.states])
        updates = np.array([_shares(rng, size) for _ in range(num_updates)])
    return Memory(
        nodes=tuple(f"m{i}" for i in range(size)),
        start=SparseRows.from_dense(start),
        update_of=ints(rng.integers(num_updates, size=(size, mdp.num_states, len(mdp.actions)))),
        updates=SparseRows.from_dense(updates),
    )


def _is_constant(problem: Problem) -> bool:
    """Whether the first few hundred runs all have the same secret."""
    runs = islice(oracles.enumerate_runs(problem), 300)
    return len({oracles.secret_value(problem, run.states) for run in runs}) == 1


def num_pairs(problem: Problem) -> int:
    """At most how many (run, observation sequence) pairs there are: paths counted state by state."""
    mdp, observer = problem.mdp, problem.observer
    first = shown = np.diff(observer.emission.starts)
    if observer.after_action is not None:
        shown = np.diff(observer.after_action.starts).reshape(-1, mdp.num_states).max(axis=0)
    signs = 1 if observer.action_emission is None else int(np.diff(observer.action_emission.starts).max())
    memory = problem.policy_class.memory
    nodes = 1
    if memory is not None:
        nodes = len(memory.nodes) if memory.free else int(np.diff(memory.updates.starts).max())
    moves = np.zeros((mdp.num_states, mdp.num_states), dtype=int)
    for choice, state in enumerate(mdp.choice_state()):
        moves[state, mdp.transitions.row(choice)[0]] += signs * nodes
    paths = (mdp.start > 0) * first * (1 if memory is None else int(np.diff(memory.start.starts).max()))
    for _ in range(problem.horizon):
        paths = (paths @ moves) * shown
    return int((paths * np.diff(mdp.choice_start)).sum())


def with_emission(problem: Problem, emission: np.ndarray, observations: tuple[str, ...] | None = None) -> Problem:
    """The same problem before another observer."""
    observer = replace(
        problem.observer,
        emission=SparseRows.from_dense(emission),
        observations=observations or problem.observer.observations,
    )
    return replace(problem, observer=observer)


def channel_problem(prior: np.ndarray, channel: np.ndarray, of: Uncertainty) -> Problem:
    """One observation of a secret: a channel from secret values to observations."""
    size, columns = channel.shape
    names = tuple("uvwxy"[:size])
    mdp = MDP(
        states=names,
        actions=("a",),
        start=floats(prior),
        choice_start=ints(np.arange(size + 1)),
        choice_action=ints(np.zeros(size)),
        transitions=SparseRows.from_dense(np.eye(size)),
        rewards=floats(np.zeros(size)),
        labels={},
    )
    observer = Observer(tuple(f"o{column}" for column in range(columns)), SparseRows.from_dense(channel))
    return Problem(mdp, observer, InitialState(StateClasses(names, ints(np.arange(size)))), 0, task=Task(of=of))
