"""What an observer believes after every beginning of every observation sequence, by enumeration of runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

import numpy as np

import oracles
from opaq.beliefs.graph import Graph
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.product.compile import Product
from opaq.product.process import Pairs
from random_problems import random_policy, random_problem
from stress.extremes import Case, extreme_model

Prefix = tuple[str, ...]  # one name per observation
LOST = 1e-250  # below this the enumeration itself underflows: what it says of a prefix is not compared


@cache
def ordinary(number: int) -> tuple[Problem, Policy]:
    """A random problem and a policy of its class: number N is always the same."""
    rng = np.random.default_rng([number, 0xBE1])
    problem = random_problem(rng)
    return problem, random_policy(rng, problem)


@cache
def extreme(number: int) -> tuple[Problem, Policy]:
    """The same with probabilities from 5e-324 to 1."""
    return extreme_model(Case.of(number))


@dataclass(slots=True)
class Believed:
    """P(prefix and the model's state now), and P(prefix and the secret in the end)."""

    state: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    secret: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def probability(self) -> float:
        """P(prefix)."""
        return sum(self.state.values())


def enumerate_prefixes(problem: Problem, policy: Policy | None = None) -> dict[Prefix, Believed]:
    """Every sequence o_0 .. o_t of positive probability, for every t up to the horizon."""
    believed: dict[Prefix, Believed] = defaultdict(Believed)
    for run in oracles.enumerate_runs(problem, policy):
        secret = oracles.secret_value(problem, run.states)
        for sequence, chance in oracles.observation_sequences(problem, run):
            names = tuple("/".join(parts) for parts in sequence)
            for time, state in enumerate(run.states):
                believed[names[: time + 1]].state[state] += run.probability * chance
                believed[names[: time + 1]].secret[secret] += run.probability * chance
    return dict(believed)


@dataclass(frozen=True, slots=True)
class Walk:
    """Where each prefix leads in a belief graph that kept its levels."""

    node: dict[Prefix, tuple[int, int]]  # (level, node)
    settled: dict[Prefix, str]  # the secret, where the sequence settles it and the graph ends


def walk(product: Product, graph: Graph) -> Walk:
    """Follow every path from the root by the observations on its way; what begins with a settled prefix is left out."""
    nodes: dict[Prefix, tuple[int, int]] = {(): (0, 0)}
    settled: dict[Prefix, str] = {}
    before = {0: [()]}  # node of the level -> the prefixes that lead there
    for depth, level in enumerate(graph.levels[1:], start=1):
        after: dict[int, list[Prefix]] = defaultdict(list)
        for node, prefixes in before.items():
            for child in level.arcs.child[level.arcs.start[node] : level.arcs.start[node + 1]]:
                name = product.observations[level.nodes.observation[child]]
                after[int(child)] += [(*prefix, name) for prefix in prefixes]
            for arc in np.flatnonzero(level.known.node == node):
                name = product.observations[level.known.observation[arc]]
                value = product.secret_values[level.known.value[arc]]
                settled |= {(*prefix, name): value for prefix in prefixes}
        nodes |= {prefix: (depth, child) for child, prefixes in after.items() for prefix in prefixes}
        before = after
    return Walk(nodes, settled)


def beginning(walked: Walk, prefix: Prefix) -> Prefix | None:
    """The beginning of a prefix at which the secret was settled, if there is one."""
    return next((prefix[:length] for length in range(1, len(prefix) + 1) if prefix[:length] in walked.settled), None)


def named_pairs(product: Product) -> Pairs:
    """The pairs of a graph that keeps observations apart that say the same."""
    return Pairs.of(product.process.emission, product.process.secret, merged=False)


def belief_by_state(product: Product, graph: Graph, level: int, node: int) -> dict[int, float]:
    """P(model state) at a node."""
    nodes = graph.levels[level].nodes
    share: dict[int, float] = defaultdict(float)
    for entry in range(nodes.start[node], nodes.start[node + 1]):
        state = named_pairs(product).state[nodes.pair[entry]]
        share[int(product.state_of[state])] += float(nodes.belief[entry])
    return share
