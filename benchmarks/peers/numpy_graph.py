"""Peer: the merged belief graph in plain vectorised NumPy, dense products between groups of nodes.

The nodes of a level are grouped by their last observation. A group keeps one belief over the states that can show this
observation a row, so that a level step is one small dense product a group. Proportional beliefs are merged by
rounding a random projection of them. One backward sweep yields the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.peers.paper_grid import Scenario, softmax

DIGITS = 12  # two beliefs whose projections agree to this many decimals are one node


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one level that share their last observation."""

    beliefs: np.ndarray  # [node, track * supported state], each row sums to 1
    masses: np.ndarray  # [node]


@dataclass(frozen=True, slots=True)
class Link:
    """Where the nodes of one group go under one next observation."""

    source: int  # the group's observation
    target: int  # the next observation
    parents: np.ndarray  # [child] -> node of the source group
    nodes: np.ndarray  # [child] -> node of the target group


@dataclass(frozen=True, slots=True)
class Operators:
    """The observable operators cut down to the supports, one matrix a (group, next observation)."""

    support: list[np.ndarray]  # observation -> the states that can show it
    steps: dict[tuple[int, int], np.ndarray]  # (observation, next observation) -> [state, next state]


def gradient(scenario: Scenario, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Opacity in bits and its gradient [state, action]."""
    policy = softmax(theta)
    chain = np.einsum("ij,ijk->ik", policy, scenario.transitions)
    operators = _operators(scenario, chain)
    levels, links = _forward(scenario, operators)
    value, adjoints = _leaves(scenario, operators, levels[-1])
    chain_gradient = _backward(scenario, operators, levels=levels, links=links, adjoints=adjoints)
    return value, _through_softmax(scenario, policy, chain_gradient)


def num_nodes(scenario: Scenario, theta: np.ndarray) -> int:
    """The size of the graph, all levels together."""
    chain = np.einsum("ij,ijk->ik", softmax(theta), scenario.transitions)
    levels, _ = _forward(scenario, _operators(scenario, chain))
    return sum(len(group.masses) for level in levels for group in level.values())


def _operators(scenario: Scenario, chain: np.ndarray) -> Operators:
    support = [np.flatnonzero(column) for column in scenario.emission.T]
    tracks = np.eye(len(scenario.start))
    steps = {
        (seen, shown): np.kron(tracks, chain[np.ix_(support[seen], support[shown])])
        * np.tile(scenario.emission[support[shown], shown], len(tracks))
        for seen in range(len(support))
        for shown in range(len(support))
    }
    return Operators(support, {pair: step for pair, step in steps.items() if step.any()})


def _forward(scenario: Scenario, operators: Operators) -> tuple[list[dict[int, Group]], list[list[Link]]]:
    """Every level's groups by observation, and the links between consecutive levels."""
    rng = np.random.default_rng(0)
    projections = [rng.random(len(scenario.start) * len(states)) for states in operators.support]
    levels = [_first_level(scenario, operators)]
    links = []
    for _ in range(scenario.horizon):
        level, level_links = _next_level(levels[-1], operators, projections)
        levels.append(level)
        links.append(level_links)
    return levels, links


def _first_level(scenario: Scenario, operators: Operators) -> dict[int, Group]:
    level = {}
    for shown, states in enumerate(operators.support):
        belief = (scenario.start[:, states] * scenario.emission[states, shown]).ravel()
        if belief.sum() > 0:
            level[shown] = Group(belief[None] / belief.sum(), belief.sum(keepdims=True))
    return level


def _next_level(
    level: dict[int, Group], operators: Operators, projections: list[np.ndarray]
) -> tuple[dict[int, Group], list[Link]]:
    following = {}
    links = []
    for shown in range(len(operators.support)):
        sources = [seen for seen in level if (seen, shown) in operators.steps]
        pushed = [_pushed(level[seen], operators.steps[seen, shown]) for seen in sources]
        if not any(len(parents) for parents, _, _ in pushed):
            continue
        beliefs = np.concatenate([beliefs for _, beliefs, _ in pushed])
        masses = np.concatenate([masses for _, _, masses in pushed])
        kept, nodes = _merged(beliefs, projections[shown])
        following[shown] = Group(beliefs[kept], np.bincount(nodes, weights=masses))
        parts = np.split(nodes, np.cumsum([len(parents) for parents, _, _ in pushed])[:-1])
        links += [
            Link(seen, shown, parents, part) for seen, (parents, _, _), part in zip(sources, pushed, parts, strict=True)
        ]
    return following, links


def _pushed(group: Group, step: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The children of positive probability: their parents, normalised beliefs and masses."""
    beliefs = group.beliefs @ step
    sums = beliefs.sum(axis=1)
    parents = np.flatnonzero(sums)
    if len(parents) < len(sums):
        beliefs, sums = beliefs[parents], sums[parents]
    beliefs /= sums[:, None]
    return parents, beliefs, group.masses[parents] * sums


def _merged(beliefs: np.ndarray, projection: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row a distinct belief, and the node of every row."""
    keys = np.rint((beliefs @ projection) * 10.0**DIGITS).astype(np.int64)
    _, kept, nodes = np.unique(keys, return_index=True, return_inverse=True)
    return kept, nodes


def _leaves(scenario: Scenario, operators: Operators, level: dict[int, Group]) -> tuple[float, dict[int, np.ndarray]]:
    """Opacity, and the adjoint -log2 P(z(x) | y) of every leaf."""
    readout = scenario.readout
    value = 0.0
    adjoints = {}
    for shown, group in level.items():
        cut = readout[:, :, operators.support[shown]].reshape(len(readout), -1)
        posterior = group.beliefs @ cut.T
        bits = -np.log2(np.where(posterior > 0, posterior, 1))
        value += float(group.masses @ (posterior * bits).sum(axis=1))
        adjoints[shown] = bits @ cut
    return value, adjoints


def _backward(
    scenario: Scenario,
    operators: Operators,
    *,
    levels: list[dict[int, Group]],
    links: list[list[Link]],
    adjoints: dict[int, np.ndarray],
) -> np.ndarray:
    """The gradient by the chain [state, next state]; adjoints do not depend on a belief's scale."""
    totals = {pair: np.zeros_like(step) for pair, step in operators.steps.items()}
    for level, level_links in zip(reversed(levels[:-1]), reversed(links), strict=True):
        pulled = {seen: np.zeros_like(group.beliefs) for seen, group in level.items()}
        weighted = {seen: group.beliefs * group.masses[:, None] for seen, group in level.items()}
        for link in level_links:
            pair = (link.source, link.target)
            adjoint = adjoints[link.target][link.nodes]
            every = len(link.parents) == len(weighted[link.source])
            parents = slice(None) if every else link.parents
            pulled[link.source][parents] += adjoint @ operators.steps[pair].T
            totals[pair] += weighted[link.source][parents].T @ adjoint
        adjoints = pulled
    return _onto_chain(scenario, operators, totals)


def _onto_chain(scenario: Scenario, operators: Operators, totals: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Sum the operators' gradients over tracks and observations onto the chain they share."""
    result = np.zeros((scenario.num_states, scenario.num_states))
    tracks = len(scenario.start)
    for (seen, shown), total in totals.items():
        rows, columns = operators.support[seen], operators.support[shown]
        shared = np.einsum("kikj->ij", total.reshape(tracks, len(rows), tracks, len(columns)))
        result[np.ix_(rows, columns)] += shared * scenario.emission[columns, shown]
    return result


def _through_softmax(scenario: Scenario, policy: np.ndarray, chain_gradient: np.ndarray) -> np.ndarray:
    choice = np.einsum("ijk,ik->ij", scenario.transitions, chain_gradient)
    return policy * (choice - (policy * choice).sum(axis=1, keepdims=True))
