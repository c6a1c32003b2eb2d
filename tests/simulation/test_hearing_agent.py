"""Agents whose policies look at observations: they are given what the observer sees, and consult the right rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import opaq
import oracles
from aware_oracles import AwareRun, LazyPolicy, aware_truth
from opaq.errors import InputError
from opaq.model.conditions import CurrentState, MemoryNode, Observations, Time
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.simulation.agent import Agent, GymAdapter, PolicyExecutor
from opaq.spec.memory_part import free_memory
from random_problems import random_problem

Rng = np.random.Generator


def alarm() -> Problem:
    """A hall with an alarm that the agent hears too: it hides after the bell and goes on in silence."""
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["0", "1"],
                "actions": ["hide", "go"],
                "start": "0",
                "transitions": {state: {"hide": {"0": 1}, "go": {"1": 1}} for state in "01"},
            },
            "observer": {"emissions": {"0": {"bell": 0.3, "silence": 0.7}, "1": {"bell": 0.6, "silence": 0.4}}},
            "secret": {"last_state": ["1"]},
            "horizon": 3,
        }
    )


def answering(*, count: int) -> Policy:
    """Hides if any of the last observations was the bell."""
    sounds = ("bell", "silence")
    windows = [(one,) for one in sounds] + ([(one, two) for one in sounds for two in sounds] if count == 2 else [])
    rows = {(state, heard): {"hide" if "bell" in heard else "go": 1.0} for state in "01" for heard in windows}
    return Policy(PolicyClass((CurrentState(), Observations(count))), rows)


def test_an_agent_acts_on_what_it_hears() -> None:
    agent = Agent(alarm(), answering(count=2))
    for _ in range(2):  # a new run begins with nothing heard
        agent.start("0")
        heard = ["silence", "bell", "silence", "silence", "bell"]
        states = ["0", "1", "0", "0", "1"]
        acted = [agent.act(state, observation=sound) for state, sound in zip(states, heard, strict=True)]
        assert acted == ["go", "hide", "hide", "go", "hide"]


def test_an_agent_has_to_hear() -> None:
    agent = Agent(alarm(), answering(count=1))
    with pytest.raises(InputError, match="looks at observations, and none is given in state '0'"):
        agent.act("0")
    with pytest.raises(InputError, match="unknown observation 'bel'; did you mean 'bell'"):
        agent.act("0", observation="bel")
    assert agent.act("0", observation="bell") == "hide"
    with pytest.raises(InputError, match="none is given in state '1'"):
        agent.act("1")
    assert agent.act("0", observation="silence") == "go"  # what failed has not changed the run


def test_who_does_not_listen_may_be_told_anything() -> None:
    agent = Agent(alarm(), Policy(PolicyClass(), {("0",): {"go": 1.0}, ("1",): {"go": 1.0}}))
    assert agent.act("0", observation="whatever") == "go"


def test_an_adapter_needs_to_know_what_is_heard() -> None:
    with pytest.raises(InputError, match="do not say what the observer sees; give seen_name"):
        GymAdapter.of(alarm(), answering(count=1))


def test_an_adapter_passes_on_what_is_heard() -> None:
    adapter = GymAdapter.of(
        alarm(), answering(count=2), state_name=lambda seen: str(seen["room"]), seen_name=lambda seen: seen["sound"]
    )
    memory, acted = None, []
    for room, sound in ((0, "silence"), (1, "bell"), (0, "silence"), (0, "silence")):
        action, memory = adapter.predict({"room": room, "sound": sound}, memory)
        acted.append(action)
    assert acted == [1, 0, 0, 1]


@pytest.mark.parametrize("count", [1, 2, "all"])
@pytest.mark.parametrize("nodes", [0, 2], ids=["no memory", "free memory"])
def test_the_row_consulted_is_the_oracles(nodes: int, count: object) -> None:
    rng = np.random.default_rng([90, nodes])
    for _ in range(4):
        problem = random_problem(rng, conditions=("state",), horizon=3, budget=400, watches_actions=bool(nodes))
        memories = (MemoryNode(free_memory(problem.mdp, nodes)),) if nodes else ()
        lazy = LazyPolicy(problem, PolicyClass((CurrentState(), Time(), Observations(count), *memories)), _even(rng))
        aware_truth(problem, lazy)
        follow(problem, lazy, rng)


def _even(rng: Rng):
    return lambda size: rng.dirichlet(np.ones(size))


def follow(problem: Problem, lazy: LazyPolicy, rng: Rng) -> None:
    """One run of the rules beside the oracle's."""
    rules, mdp = PolicyExecutor.of(problem, lazy.policy()), problem.mdp
    state = int(rng.choice(mdp.num_states, p=mdp.start))
    now, run = rules.begin(mdp.states[state], rng), AwareRun((), (), (), (), 1.0)
    for time in range(problem.horizon + 1):
        options = oracles._seen(problem, state, run.actions[-1] if run.actions else None)
        shown = options[rng.choice(len(options), p=[chance for _, chance in options])][0]
        now = rules.observe(now, "/".join(shown))
        node = now.nodes[-1] if lazy.policy_class.memory is not None else None
        run = replace(run, states=(*run.states, state), nodes=(*run.nodes, node), seen=(*run.seen, shown))
        assert rules.probabilities(now) == pytest.approx(lazy.row(run))
        now = rules.choose(now, rng)
        action = rules.model_action(now)
        columns, values = mdp.transitions.row(oracles._choice(problem, state, action))
        state = int(rng.choice(columns, p=values))
        run = replace(run, actions=(*run.actions, action))
        if time < problem.horizon:
            now = rules.move(now, mdp.states[state], rng)
