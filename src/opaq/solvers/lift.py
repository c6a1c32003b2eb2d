"""A policy of one class as a policy of a class that contains it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.model.conditions import Condition, MemoryNode, Projection, projection
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.product.compile import Product
from opaq.solvers.policy_classes import class_name, contains


def lift(policy: Policy, product: Product, *, rng: np.random.Generator) -> FloatArray:
    """The policy vector of `product` that behaves as the policy, whose class its own must contain.

    Rows are matched by what the coarser class looks at. Every node of a free memory copies the row of the node it
    stands for, and which of the copies comes next is drawn from `rng`: that changes nothing about the behaviour, and
    an even choice would be a saddle at which no node differs from another.
    Raises InputError when the class of the product does not contain that of the policy.
    """
    coarse, fine = policy.policy_class, product.policy_class
    if not contains(fine, coarse):
        reason = f"policies on {class_name(coarse)} are not policies on {class_name(fine)}"
        raise InputError([Fault("policy", reason)])
    key_of, row_start = _projection(fine, coarse), product.process.row_start
    names = _action_names(product, coarse)
    pi = product.process.uniform()
    for row, key in enumerate(product.rows):
        probabilities = policy.rows.get(key_of(key))
        if probabilities is not None:
            slots = slice(int(row_start[row]), int(row_start[row + 1]))
            pi[slots] = [probabilities.get(names[action], 0.0) for action in product.slot_action[slots]]
    shares = _shares(product, coarse, rng)
    return pi if shares is None else pi * shares


def _projection(fine: PolicyClass, coarse: PolicyClass) -> Callable[[RowKey], RowKey]:
    """From a row of the finer class to the row of the coarser one that it refines."""
    parts = [_part(fine, condition) for condition in coarse.conditions]
    return lambda key: tuple(project(key[index]) for index, project in parts)


def _part(fine: PolicyClass, coarse: Condition) -> tuple[int, Projection]:
    """Which part of the finer class's keys tells a condition, and how."""
    projections = ((index, projection(condition, coarse)) for index, condition in enumerate(fine.conditions))
    return next((index, project) for index, project in projections if project is not None)


def _action_names(product: Product, coarse: PolicyClass) -> list[str]:
    """What the coarser policy calls each action of the product."""
    memory = product.policy_class.memory
    if memory is None or not memory.free:
        return list(product.actions)
    split = [action.rpartition(">") for action in product.actions]
    if coarse.memory is None:
        return [action for action, _, _ in split]
    stands_for = projection(MemoryNode(memory), MemoryNode(coarse.memory))
    assert stands_for is not None
    return [f"{action}>{stands_for(node)}" for action, _, node in split]


def _shares(product: Product, coarse: PolicyClass, rng: np.random.Generator) -> FloatArray | None:
    """How the probability of going to a node of the coarser policy is divided among those that stand for it."""
    memory = product.policy_class.memory
    if memory is None or not memory.free:
        return None
    count, kept = len(memory.nodes), 1 if coarse.memory is None else len(coarse.memory.nodes)
    weights = np.exp(rng.normal(size=(product.process.num_slots // count, count)))  # slots: nodes of an action in a row
    for node in range(kept):
        weights[:, node::kept] /= weights[:, node::kept].sum(axis=1, keepdims=True)
    return weights.reshape(-1)
