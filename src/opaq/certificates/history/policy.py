"""A policy over a history tree as a table that the engine measures, files keep and agents follow.

Where the states alone tell the node (observers who do not see actions), rows are keyed by all states so far. Otherwise,
or where there are too many such histories, the policy carries a machine: its node and the state tell the tree's node.
"""

from __future__ import annotations

import numpy as np

from opaq.certificates.history.tree import HistoryChoices, HistoryTree
from opaq.model.arrays import FloatArray, IntArray, SparseRows, ints
from opaq.model.conditions import MAX_NODES, CurrentState, LastStates, Memory, MemoryNode
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.product.compile import Product

_MOST_STATE_HISTORIES = 50_000
_LARGEST_CODE = 2**62  # the machine of the last states numbers them in 64 bits
_LARGEST_UPDATES = 50_000_000  # entries of a memory's table

_Successors = frozenset[tuple[int, int]]  # (model state, node of the next time)


def extract_policy(product: Product, moves: HistoryChoices, tree: HistoryTree, policy: FloatArray) -> Policy | None:
    """Return a policy over a tree in the user's names; None where its table would be too large.

    product: compiled for policies that look at the state. moves: the distinct choices of its states.
    policy: [choice], probabilities at every node of the tree.
    """
    return _by_last_states(product, tree, policy) or _by_memory(product, moves, tree, policy)


def _by_last_states(product: Product, tree: HistoryTree, policy: FloatArray) -> Policy | None:
    """Return one row per sequence of states; None where the states do not tell the node, or there are too many.

    policy: [choice], probabilities at every node.
    """
    length = tree.times[-1] + 1
    if (len(product.problem.mdp.states) + 1) ** length > _LARGEST_CODE:
        return None
    histories = _state_histories(product, tree)
    if histories is None:
        return None
    names = product.problem.mdp.states
    rows: dict[RowKey, dict[str, float]] = {
        (tuple(names[state] for state in history),): _row(product, tree, policy, node)
        for history, node in histories.items()
    }
    return Policy(PolicyClass((LastStates(length),)), rows)


def _state_histories(product: Product, tree: HistoryTree) -> dict[tuple[int, ...], int] | None:
    """Return every sequence of states that can occur and its node; None where one has several or there are too many."""
    state_of = product.state_of[tree.state].tolist()
    newest: dict[tuple[int, ...], int] = {(state_of[node],): node for node in range(int(tree.level[1]))}
    if len(newest) < int(tree.level[1]):
        return None
    histories = dict(newest)
    for time in tree.times[:-1]:
        following: dict[tuple[int, ...], int] = {}
        for history, node in newest.items():
            for after in _nodes_after(tree, time, node):
                longer = (*history, state_of[after])
                if following.setdefault(longer, after) != after:
                    return None
        newest = following
        histories |= newest
        if len(histories) > _MOST_STATE_HISTORIES:
            return None
    return histories


def _nodes_after(tree: HistoryTree, time: int, node: int, choice: int | None = None) -> list[int]:
    """Return the nodes that the choices of a node lead to. choice: only this one of them, by its number in the tree."""
    offset, step = tree.choices_at(time).start, tree.steps[time]
    first, end = (tree.choice_start[node], tree.choice_start[node + 1]) if choice is None else (choice, choice + 1)
    columns = step.indices[step.indptr[first - offset] : step.indptr[end - offset]]
    return [int(tree.level[time + 1]) + int(column) for column in np.unique(columns)]


def _row(product: Product, tree: HistoryTree, policy: FloatArray, node: int) -> dict[str, float]:
    """Return action -> probability at a node. Actions for which another one stands are left out."""
    choices = range(int(tree.choice_start[node]), int(tree.choice_start[node + 1]))
    return {product.actions[product.slot_action[tree.slot[choice]]]: float(policy[choice]) for choice in choices}


def _by_memory(product: Product, moves: HistoryChoices, tree: HistoryTree, policy: FloatArray) -> Policy | None:
    """Return rows by state and the node of a machine that remembers from where, and by what, the state was reached.

    None where the machine would have too many nodes, or its table too many entries.
    """
    mdp = product.problem.mdp
    nodes, updates = _memory_nodes(product, moves, tree)
    if len(nodes) > MAX_NODES or len(nodes) * mdp.num_states * len(mdp.actions) > _LARGEST_UPDATES:
        return None
    names = tuple("start" if index == 0 else f"h{index}" for index in range(len(nodes)))
    memory = _machine(names, updates, (len(nodes), mdp.num_states, len(mdp.actions)))
    rows: dict[RowKey, dict[str, float]] = {
        (mdp.states[state], names[index]): _row(product, tree, policy, node)
        for index, successors in enumerate(nodes)
        for state, node in sorted(successors)
    }
    return Policy(PolicyClass((CurrentState(), MemoryNode(memory))), rows)


def _machine(names: tuple[str, ...], updates: list[tuple[int, int, int, int]], shape: tuple[int, int, int]) -> Memory:
    """Return the machine that starts in node 0 and moves as `updates` says; elsewhere, never reached, it stays.

    updates: (node, state, action, next node). shape: the numbers of nodes, states and actions.
    """
    update_of = np.broadcast_to(np.arange(shape[0])[:, None, None], shape).copy()
    for index, state, action, after in updates:
        update_of[index, state, action] = after
    start = SparseRows.from_entries(range(shape[1]), [0] * shape[1], [1.0] * shape[1], shape=(shape[1], len(names)))
    own = SparseRows.from_entries(range(shape[0]), range(shape[0]), [1.0] * shape[0], shape=(shape[0], shape[0]))
    return Memory(names, start, ints(update_of), own)


def _memory_nodes(
    product: Product, moves: HistoryChoices, tree: HistoryTree
) -> tuple[list[_Successors], list[tuple[int, int, int, int]]]:
    """Return what each memory node stands for, and its updates: (memory node, state, action, next memory node).

    A memory node is the set of tree nodes that one choice at one tree node may lead to, told apart by their states.
    """
    state_of = product.state_of[tree.state].tolist()
    begin: _Successors = frozenset((state_of[node], node) for node in range(int(tree.level[1])))
    number: dict[_Successors, int] = {begin: 0}
    updates = []
    newest = [begin]
    for time in tree.times[:-1]:
        following: dict[_Successors, None] = {}
        for successors in newest:
            for state, node in sorted(successors):
                for action, choice in _actions(product, moves, tree, node):
                    after = frozenset((state_of[one], one) for one in _nodes_after(tree, time, node, choice))
                    index = number.setdefault(after, len(number))
                    following[after] = None
                    updates.append((number[successors], state, action, index))
        newest = list(following)
    return list(number), updates


def _actions(product: Product, moves: HistoryChoices, tree: HistoryTree, node: int) -> list[tuple[int, int]]:
    """Return every enabled action of a node before the last time, with the tree's choice that stands for it."""
    state = int(tree.state[node])
    kept: IntArray = moves.before[state]
    row = product.process.row[state]
    count = int(product.process.row_start[row + 1] - product.process.row_start[row])
    enabled = range(int(moves.first[state]), int(moves.first[state]) + count)
    position = np.searchsorted(kept, moves.alike[list(enabled)])
    first = int(tree.choice_start[node])
    return [
        (int(product.slot_action[moves.slot[one]]), first + int(at)) for one, at in zip(enabled, position, strict=True)
    ]
