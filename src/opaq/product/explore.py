"""Breadth-first exploration of the reachable states of model x machines, with every branch between them.

A product state (s, n_1, .., n_k) is one 64-bit code in mixed radix, numbered in the order of discovery; a level of the
search is a few array operations over all its states, branches and machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.mdp import MDP
from opaq.product.machine import MAX_EDGES, STATE, Machine
from opaq.stop import Stop

_MAX_STATES = 5_000_000


class Transitions(NamedTuple):
    """Branches between product states: each is one outcome of one choice."""

    source: IntArray  # [branch] product state
    choice: IntArray  # [branch] model choice
    target: IntArray  # [branch] product state
    probability: FloatArray  # [branch]


@dataclass(frozen=True, slots=True)
class ProductStates:
    """Reachable product states and every branch between them."""

    nodes: Mapping[str, IntArray]  # part -> [product state]: the model's state (part STATE), or the machine's node
    start: tuple[IntArray, FloatArray]  # product states and their probabilities
    transitions: Transitions

    @property
    def state(self) -> IntArray:
        """[product state] -> model state."""
        return self.nodes[STATE]


def explore(mdp: MDP, parts: Mapping[str, Machine], *, depth: int | None, stop: Stop) -> ProductStates:
    """Explore from the start, one array operation per level, and return states and branches.

    parts: the machines that run beside the model, by name; their order decides how product states are numbered.
    depth: how many steps are followed; None: until nothing new is reached (returns that are counted for ever).
    stop: checked once per level.
    Raises BudgetError when more than 5 million states or 30 million branches are reached, StoppedError when `stop` is
    requested meanwhile.
    """
    machines = list(parts.values())
    sizes = [mdp.num_states, *(machine.size for machine in machines)]
    if math.prod(sizes) > 2**62:
        advice = "ask for fewer last_states or observations"
        raise BudgetError(f"the policy remembers too much for a model this size; {advice}")
    branches_of = np.diff(mdp.transitions.starts[mdp.choice_start])  # [state] -> branches out of it
    number: dict[int, int] = {}
    components, start_probability = _begin(mdp, machines)
    frontier, start = _register(number, _encode(components, sizes))
    nothing = np.zeros(0, dtype=np.int64)
    codes, levels, num_edges = [frontier], [Transitions(nothing, nothing, nothing, np.zeros(0))], 0
    while frontier.size and (depth is None or len(levels) <= depth):
        stop.check()
        offset = len(number) - frontier.size
        components = _decode(frontier, sizes)
        _check_size(len(number), num_edges + int(branches_of[components[0]].sum()))
        case, choice, targets, probability = _successors(mdp, machines, components)
        num_edges += case.size
        frontier, target = _register(number, _encode(targets, sizes))
        codes.append(frontier)
        levels.append(Transitions(case + offset, choice, target, probability))
        _check_size(len(number), num_edges)
    nodes = dict(zip([STATE, *parts], _decode(np.concatenate(codes), sizes), strict=True))
    transitions = Transitions(*(np.concatenate(column) for column in zip(*levels, strict=True)))
    return ProductStates(nodes, (start, start_probability), transitions)


def _check_size(num_states: int, num_edges: int) -> None:
    """Raise BudgetError before memory is taken for a product beyond the limits."""
    if num_states > _MAX_STATES or num_edges > MAX_EDGES:
        raise BudgetError(
            f"the product of model, secret and policy memory has at least {num_states:,} states and {num_edges:,} "
            f"transitions; the limits are {_MAX_STATES:,} and {MAX_EDGES:,}; use a shorter horizon or a policy that "
            "remembers less"
        )


def _begin(mdp: MDP, machines: Sequence[Machine]) -> tuple[list[IntArray], FloatArray]:
    """Return every way a run can start: components [part][case] and P(case) = start[s_0] x machines' start branches."""
    state = np.flatnonzero(mdp.start)
    components, probability = [state], mdp.start[state]
    for machine in machines:
        branches = machine.begin(components[0])
        components = [*(part[branches.case] for part in components), branches.node]
        probability = probability[branches.case] * branches.probability
    return components, probability


def _successors(
    mdp: MDP, machines: Sequence[Machine], components: list[IntArray]
) -> tuple[IntArray, IntArray, list[IntArray], FloatArray]:
    """Return every branch out of some product states: (case, choice, components of the target, probability).

    components: [part][case], the model's state first. The probability is P(s' | s, a) times those of the machines'
        branches; the policy is not part of it.
    """
    case, choice = expand_rows(mdp.choice_start, components[0])
    owner, entry = expand_rows(mdp.transitions.starts, choice)
    case, choice = case[owner], choice[owner]
    targets, probability = [mdp.transitions.columns[entry]], mdp.transitions.values[entry]
    for machine, nodes in zip(machines, components[1:], strict=True):
        branches = machine.step(nodes[case], components[0][case], mdp.choice_action[choice], targets[0])
        case, choice = case[branches.case], choice[branches.case]
        targets = [*(part[branches.case] for part in targets), branches.node]
        probability = probability[branches.case] * branches.probability
    return case, choice, targets, probability


def _encode(components: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """Return one whole number per product state: mixed radix over its components, the model's state first."""
    code = components[0]
    for part, size in zip(components[1:], sizes[1:], strict=True):
        code = code * size + part
    return code


def _decode(codes: IntArray, sizes: Sequence[int]) -> list[IntArray]:
    """Return the components [part][case] of product states from their codes; the inverse of `_encode`."""
    parts = []
    for size in reversed(sizes[1:]):
        codes, part = np.divmod(codes, size)
        parts.append(part)
    return [codes, *reversed(parts)]


def _register(number: dict[int, int], codes: IntArray) -> tuple[IntArray, IntArray]:
    """Number the codes that are new: return (new codes in ascending order, [case] -> number of its code).

    number: code -> number, extended in place.
    """
    distinct, inverse = np.unique(codes, return_inverse=True)
    known = len(number)
    numbers = np.array([number.setdefault(code, len(number)) for code in distinct.tolist()], dtype=np.int64)
    return distinct[numbers >= known], numbers[inverse]
