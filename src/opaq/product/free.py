"""Memory whose update the policy chooses: an action then also names the node to go to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import IntArray, SparseRows, ints, spread
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.product.machine import MAX_EDGES
from opaq.spec.memory_part import joint_actions


def unfold(problem: Problem, policy_class: PolicyClass) -> tuple[Problem, PolicyClass]:
    """The same problem with the choice of the next node made part of the actions (a stochastic controller)."""
    memory = policy_class.memory
    if memory is None or not memory.free:
        return problem, policy_class
    _check_size(problem, len(memory.nodes))
    mdp = _unfold_mdp(problem.mdp, memory)
    observer = _unfold_observer(problem.observer, problem.mdp, len(memory.nodes))
    conditions = policy_class.conditions_on
    followed = PolicyClass(conditions, policy_class.last_states, _follow(memory, mdp))
    return replace(problem, mdp=mdp, observer=observer), followed


def _check_size(problem: Problem, num_nodes: int) -> None:
    """Refuse tables that grow too large with the nodes before they are built."""
    after = problem.observer.after_action
    tables = {"transitions": problem.mdp.transitions, **({} if after is None else {"observations": after})}
    for name, table in tables.items():
        size = table.columns.size * num_nodes
        if size > MAX_EDGES:
            found = f"{num_nodes:,} nodes that the policy chooses make {size:,} {name} of the model's"
            raise BudgetError(f"{found} {table.columns.size:,}; the limit is {MAX_EDGES:,}; use fewer nodes")


def _unfold_mdp(mdp: MDP, memory: Memory) -> MDP:
    count = len(memory.nodes)
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


def _unfold_observer(observer: Observer, mdp: MDP, count: int) -> Observer:
    """The observer sees no more of an action than before."""
    action = np.repeat(np.arange(len(mdp.actions)), count)
    signs, after = observer.action_emission, observer.after_action
    rows = (action[:, None] * mdp.num_states + np.arange(mdp.num_states)).reshape(-1)
    return replace(
        observer,
        action_emission=None if signs is None else _repeated(signs, action),
        after_action=None if after is None else _repeated(after, rows),
    )


def _follow(memory: Memory, mdp: MDP) -> Memory:
    """The memory that goes where the joint action says."""
    count = len(memory.nodes)
    to = np.tile(np.arange(count), len(mdp.actions) // count)
    update_of = np.broadcast_to(to, (count, mdp.num_states, to.size))
    return replace(memory, update_of=update_of, updates=_identity(count), free=False)


def _identity(size: int) -> SparseRows:
    return SparseRows.from_entries(np.arange(size), np.arange(size), np.ones(size), shape=(size, size))


def _repeated(table: SparseRows, rows: IntArray) -> SparseRows:
    owner, entry = spread(table.starts, rows)
    shape = (rows.size, table.num_columns)
    return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)
