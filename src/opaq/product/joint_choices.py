"""Memory whose update the policy chooses: a choice then names an action and the node to go to, "action>node"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from opaq.errors import BudgetError, Fault, InputError
from opaq.model.arrays import IntArray, SparseRows, ints, spread
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.product.condition_tracker import ConditionTracker
from opaq.product.machine import MAX_EDGES, Machine, WithoutNode
from opaq.spec.memory_part import joint_actions


def free_memory_of(conditions: Iterable[ConditionTracker]) -> Memory | None:
    """The memory whose next node the policy chooses, if it has one; InputError when it has several."""
    memories = [one.free_memory for one in conditions if one.free_memory is not None]
    if len(memories) > 1:
        raise InputError([Fault("policy.conditions_on", "has several free memories", "keep one of them")])
    return memories[0] if memories else None


def choice_model(mdp: MDP, memory: Memory | None) -> MDP:
    """The model whose actions are what the policy chooses from: with a free memory, pairs of action and next node."""
    if memory is None:
        return mdp
    count = len(memory.nodes)
    _check_size(mdp, count)
    choice = np.repeat(np.arange(mdp.num_choices), count)
    node = np.tile(np.arange(count), mdp.num_choices)
    return replace(
        mdp,
        actions=joint_actions(mdp.actions, memory),
        choice_start=ints(mdp.choice_start * count),
        choice_action=ints(mdp.choice_action[choice] * count + node),
        transitions=_repeated(mdp.transitions, choice),
        rewards=mdp.rewards[choice],
        named_rewards={name: rewards[choice] for name, rewards in mdp.named_rewards.items()},
    )


def reads_actions(machine: Machine, memory: Memory | None) -> Machine:
    """A machine that reads the model's actions, made to run in the model of choices."""
    return machine if memory is None else WithoutNode(machine, len(memory.nodes))


def condition_machine(condition: ConditionTracker, memory: Memory | None) -> Machine:
    """The machine of a condition in the model of choices; that of the free memory itself reads the next node too."""
    return reads_actions(condition.machine, memory) if condition.free_memory is None else condition.machine


def _check_size(mdp: MDP, num_nodes: int) -> None:
    """Refuse tables that grow too large with the nodes before they are built."""
    stated = mdp.transitions.columns.size
    size = stated * num_nodes
    if size > MAX_EDGES:
        growth = f"{num_nodes:,} nodes that the policy chooses make {size:,} transitions of the model's {stated:,}"
        raise BudgetError(f"{growth}; the limit is {MAX_EDGES:,}; use fewer nodes")


def _repeated(table: SparseRows, rows: IntArray) -> SparseRows:
    owner, entry = spread(table.starts, rows)
    shape = (rows.size, table.num_columns)
    return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)
