"""Running policies: the rows consulted are the right ones, and what happens has the promised frequencies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import opaq
import oracles
from opaq.errors import InputError
from opaq.model.arrays import SparseRows, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses, Visited
from opaq.opacity.measure import measure
from opaq.simulation.agent import Agent, GymAdapter, PolicyExecutor
from random_problems import CONDITIONS, random_policy, random_problem
from trials import part_of

Rng = np.random.Generator


def next_state(mdp: MDP, state: int, action: int, rng: Rng) -> int:
    first, last = mdp.choice_start[state : state + 2]
    (choice,) = [choice for choice in range(first, last) if mdp.choice_action[choice] == action]
    columns, values = mdp.transitions.row(choice)
    return int(rng.choice(columns, p=values))


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
def test_the_row_consulted_is_the_oracles(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(8):
        problem = random_problem(rng, conditions=conditions, horizon=3)
        policy = random_policy(rng, problem, softmax=True)
        rules, mdp = PolicyExecutor.of(problem, policy), problem.mdp
        states = [int(rng.choice(mdp.num_states, p=mdp.start))]
        now = rules.begin(mdp.states[states[0]], rng)
        for _ in range(problem.horizon):
            node = now.nodes[conditions.index("memory")] if "memory" in conditions else None
            expected = oracles.action_probabilities(problem, policy, tuple(states), node)
            row = {mdp.actions.index(name): chance for name, chance in rules.probabilities(now).items() if chance > 0}
            assert row == pytest.approx(expected)
            now = rules.choose(now, rng)
            states.append(next_state(mdp, now.state, now.action, rng))
            now = rules.move(now, mdp.states[states[-1]], rng)


@pytest.mark.parametrize("conditions", [("state", "memory"), ("time", "last_states"), ("state", "automaton")])
def test_runs_have_the_promised_frequencies(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(2)
    problem = random_problem(rng, conditions=conditions, horizon=3, watches_actions=False)
    policy, runs = random_policy(rng, problem), 3000
    exact = oracles.secret_distribution(oracles.joint(problem, policy))
    agent, mdp, found = Agent(problem, policy), problem.mdp, Counter()
    for _ in range(runs):
        states = [int(rng.choice(mdp.num_states, p=mdp.start))]
        agent.start(mdp.states[states[0]], rng)
        for _ in range(problem.horizon):
            action = mdp.actions.index(agent.act(mdp.states[states[-1]], rng))
            states.append(next_state(mdp, states[-1], action, rng))
        found[oracles.secret_value(problem, tuple(states))] += 1
    for value, chance in exact.items():
        error = np.sqrt(chance * (1 - chance) / runs)
        assert abs(found[value] / runs - chance) <= 5 * error + 1e-12


@pytest.fixture
def sinks() -> Problem:
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["q0", "q1"],
                "actions": ["a", "b"],
                "start": {"q0": 1.0},
                "transitions": {"q0": {"a": {"q0": 1}, "b": {"q1": 1}}, "q1": {"*": {"q1": 1}}},
            },
            "observer": {"emissions": {"q0": {"N": 1}, "q1": {"N": 1}}},
            "secret": {"last_state": ["q1"]},
            "horizon": 2,
        }
    )


def timed(*chances: float) -> Policy:
    rows = {("q0", time): {"a": 1 - chance, "b": chance} for time, chance in enumerate(chances)}
    return Policy(PolicyClass(("state", "time")), rows)


def test_an_agent_keeps_time_and_starts_anew(sinks: Problem) -> None:
    agent, rng = Agent(sinks, timed(0, 1, 0)), np.random.default_rng(0)
    for _ in range(2):
        agent.start("q0", rng)
        assert [agent.act("q0", rng) for _ in range(5)] == ["a", "b", "a", "a", "a"]  # past the horizon: as at it


def test_an_agent_begins_by_itself(sinks: Problem) -> None:
    assert Agent(sinks, timed(1, 0, 0)).act("q0") == "b"


def test_rows_that_cannot_matter_may_be_missing(sinks: Problem) -> None:
    agent, rng = Agent(sinks, timed(1, 0, 0)), np.random.default_rng(0)
    agent.start("q0", rng)
    assert agent.act("q0", rng) == "b"
    assert agent.act("q1", rng) in ("a", "b")


def test_wrong_use_is_told(sinks: Problem) -> None:
    with pytest.raises(InputError, match="state=q0, time=1: the policy has no row"):
        Agent(sinks, timed(0.5))
    agent = Agent(sinks, timed(0, 0, 0))
    with pytest.raises(InputError, match="unknown state 'q7'"):
        agent.start("q7")
    agent.start("q0")
    with pytest.raises(InputError, match="the run began in 'q0'"):
        agent.act("q1")


def test_an_adapter_predicts_like_stable_baselines(sinks: Problem) -> None:
    adapter = GymAdapter.of(sinks, timed(0.4, 0.9, 0), rng=np.random.default_rng(0), state_name=lambda seen: f"q{seen}")
    action, state = adapter.predict(0, deterministic=True)
    assert (action, type(action)) == (0, int)
    action, state = adapter.predict(0, state, episode_start=False, deterministic=True)
    assert action == 1
    action, state = adapter.predict(0, state, episode_start=True, deterministic=True)
    assert action == 0
    actions, states = adapter.predict(np.array([0, 0]), None, np.array([True, True]), deterministic=True)
    assert actions.tolist() == [0, 0]
    actions, states = adapter.predict(np.array([0, 0]), states, np.array([False, True]), deterministic=True)
    assert actions.tolist() == [1, 0]
    drawn = [adapter.predict(0)[0] for _ in range(2000)]
    assert abs(np.mean(drawn) - 0.4) < 5 * np.sqrt(0.24 / 2000)


# -- a real environment -------------------------------------------------------------------------------------------


def lake_problem(secret: str) -> Problem:
    """FrozenLake watched by a noisy sensor that tells the upper half from the lower."""
    pytest.importorskip("gymnasium")
    from opaq.formats.gymnasium import read_gymnasium

    lake = read_gymnasium("FrozenLake-v1")
    upper = lake.variables["row"] < 2
    emission = SparseRows.from_dense(np.where(upper[:, None], [0.8, 0.2], [0.3, 0.7]))
    columns = StateClasses(("west", "east"), ints(lake.variables["col"] >= 1))
    told = Visited(lake.mdp.labels["hole"]) if secret == "hole" else LastState(columns)
    return Problem(lake.mdp, Observer(("up", "down"), emission), told, horizon=4)


def drive(problem: Problem, policy: Policy, *, runs: int, rng: Rng) -> list[tuple[str, tuple[int, ...]]]:
    """(secret, observations) of runs in the real environment; a run that is over stays where it ended."""
    import gymnasium

    environment = gymnasium.make("FrozenLake-v1")
    environment.reset(seed=7)
    adapter, emission = GymAdapter.of(problem, policy, rng=rng), problem.observer.emission.dense()
    found = []
    for _ in range(runs):
        seen, _ = environment.reset()
        memory, over, states = None, False, [int(seen)]
        while len(states) <= problem.horizon:
            if not over:
                action, memory = adapter.predict(seen, memory, episode_start=memory is None)
                seen, _, over, _, _ = environment.step(action)
            states.append(int(seen))
        observations = tuple(int(rng.random() < emission[state, 1]) for state in states)
        found.append((oracles.secret_value(problem, tuple(states)), observations))
    environment.close()
    return found


@pytest.mark.parametrize(("secret", "conditions"), part_of([("column", ("state", "time")), ("hole", ("state",))], 1))
def test_a_real_environment_gives_away_what_was_measured(secret: str, conditions: tuple[str, ...]) -> None:
    rng, runs = np.random.default_rng(4), 5000
    problem = replace(lake_problem(secret), policy_class=PolicyClass(conditions))
    policy = random_policy(rng, problem, softmax=True)
    exact = measure(problem, policy, mode="exact")
    found = drive(problem, policy, runs=runs, rng=rng)
    pairs, seen = Counter(found), Counter(observations for _, observations in found)
    values = Counter(value for value, _ in found)
    for value, chance in exact.secret_distribution.items():
        assert abs(values[value] / runs - chance) <= 5 * np.sqrt(chance * (1 - chance) / runs)
    surprise = np.array([-np.log2(pairs[pair] / seen[pair[1]]) for pair in found])
    bias = (len(pairs) - len(seen)) / (2 * runs * np.log(2))  # Miller and Madow's, for the plug-in estimate
    assert 0.1 < exact.opacity.value < 1
    assert abs(surprise.mean() + bias - exact.opacity.value) <= 5 * surprise.std() / np.sqrt(runs)


def test_a_policy_that_chooses_its_memory_is_followed() -> None:
    """A controller "a first, then b" whose update is part of its choices."""
    problem = opaq.load_problem("two-sink")
    policy_class = opaq.PolicyClass(("state", "memory"), memory=opaq.free_memory(problem.mdp, 2))
    rows = {("q0", "0"): {"a>1": 1.0}, ("q0", "1"): {"b>1": 1.0}}
    rows |= {(sink, node): {"a>1": 1.0} for sink in ("q1", "q2") for node in ("0", "1")}
    policy = opaq.Policy(policy_class, rows)
    assert opaq.measure(problem, policy).opacity.value == pytest.approx(0.5, abs=1e-12)
    agent, rng = opaq.Agent(problem, policy), np.random.default_rng(0)
    agent.start("q0", rng)
    assert [agent.act(state, rng) for state in ("q0", "q0", "q1")] == ["a", "b", "a"]
