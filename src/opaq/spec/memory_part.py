"""Read and write the machine that a policy carries, from rules or arrays.

The mapping of `memory` comes in, a `model.Memory` goes out, and back. At each step the node changes by the state, the
action and a rule: the first rule that matches gives the distribution of the next node, and no match keeps it. With
`update: free` the policy itself chooses the next node with the action.

    memory: {nodes: [calm, alert], update: [{from: calm, to: alert, state: goal}]}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from opaq.errors import Faults, check_numbers, check_types, is_int
from opaq.model.arrays import IntArray, SparseRows, ints
from opaq.model.conditions import MAX_NODES, Memory, check_memory
from opaq.model.mdp import MDP
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, read_with_faults
from opaq.spec.grammar import (
    ARRAY,
    NAMES,
    Fields,
    Key,
    Plain,
    Record,
    ValueType,
    accept_object,
    list_of,
    map_of,
    name_of,
    names_of,
    raw_value,
)
from opaq.spec.rows import (
    DISTRIBUTION,
    check_shape,
    distribution_of,
    is_array,
    read_array,
    read_array_rows,
    read_distribution,
    rows_by_name,
    scale_table,
    write_rows,
    write_shares,
)
from opaq.spec.sets import STATES, write_states

_MAX_UPDATES = 10_000_000  # nodes x states x actions
_MAX_JOINT = 1_000_000  # actions x nodes, where the policy chooses both
_FREE = "free"  # the policy chooses the next node together with the action


class _Rule(NamedTuple):
    """From a node, in some states, on some actions (None: all of them), to a distribution over nodes."""

    node: int
    to: dict[int, float]
    states: IntArray | None
    actions: list[int] | None


_Updates = tuple[IntArray, SparseRows]  # [node, state, action] -> update, and [update, node]


def build_memory(
    mdp: MDP,
    *,
    nodes: Any,
    start: Any = None,
    start_in: Any = None,
    update: Any = None,
    faults: Faults | None = None,
    path: str = "memory",
) -> Memory:
    """Build a memory machine for policies of a model.

    mdp: the model.
    nodes: names of the nodes, or how many.
    start: the node at the start (the first by default), {node: probability}, or an array [state, node].
    start_in: {state: node at the start}, where it differs.
    update: a list of rules {"from", "to", "state", "action"} tried in order, where no match keeps the node; an array
        [node, state, action, node], where a row of zeros keeps the node; or "free": the policy chooses the next node
        together with the action.
    faults: collects every fault instead of raising InputError; the memory is then None when it is unusable.
    path: what faults call the memory.
    """
    spec = drop_none(nodes=nodes, start=start, start_in=start_in, update=update)
    return read_with_faults(_MEMORY.read, Scope.of(mdp).cursor(spec, path), faults)


def free_memory(mdp: MDP, count: int) -> Memory:
    """Return a memory of nodes "0", "1", ... whose next node the policy chooses; every run starts in the first.

    mdp: the model.
    count: how many nodes.
    """
    check_types({"mdp": (mdp, MDP, "an opaq.MDP")})
    check_numbers({"count": (count, 1, MAX_NODES)}, whole=("count",))
    size = mdp.num_states
    start = SparseRows.from_entries(range(size), [0] * size, [1.0] * size, shape=(size, count))
    return Memory(_number_names(count), start, *_keep_nodes((count, size, len(mdp.actions))), free=True)


def _keep_nodes(sizes: tuple[int, int, int]) -> _Updates:
    """Return the updates that keep every node: update i leads to node i.

    sizes: the numbers of nodes, states and actions.
    """
    nodes = ints(np.arange(sizes[0]))
    rows = SparseRows.from_entries(nodes, nodes, np.ones(sizes[0]), shape=(sizes[0], sizes[0]))
    return np.broadcast_to(nodes[:, None, None], sizes), rows


def joint_actions(actions: Iterable[str], memory: Memory) -> tuple[str, ...]:
    """Return what a policy with a free memory chooses from: "action>node", the nodes of the first action first.

    actions: the actions of the model; memory: has the nodes. E.g. ("left>0", "left>1", "right>0", "right>1").
    """
    return tuple(f"{action}>{node}" for action in actions for node in memory.nodes)


def _check(cursor: Cursor, memory: Memory) -> None:
    """Note when a finished machine does not fit the model."""
    states, actions = cursor.scope.states.size, cursor.scope.actions.size
    if states is not None and actions is not None:
        check_memory(memory, cursor.faults, cursor.path, num_states=states, num_actions=actions)


def _make(fields: Fields) -> Memory | None:
    """Build the machine from its keys; None after a fault.

    fields: the keys of _MEMORY; `state` and `action` of its rules refer to the scope of the mapping.
    """
    nodes: tuple[str, ...] | None = fields.read("nodes")
    scope = replace(fields.cursor.scope, nodes=NameTable.of("node", nodes))
    start = _read_start(fields, scope.nodes)
    free = isinstance(fields.at("update").value, str) and fields.at("update").value == _FREE
    update: _Updates | None
    if free:
        _check_joint(fields.at("nodes"), nodes or ())
        sizes = _sizes(scope)
        update = _keep_nodes(sizes) if min(sizes) else None
    else:
        rules = fields.at("update").value if "update" in fields else []
        update = _read_update(fields.cursor.child("update", rules).within(scope))
    return None if nodes is None or start is None or update is None else Memory(nodes, start, *update, free)


def _check_joint(cursor: Cursor, nodes: tuple[str, ...]) -> None:
    """Note too many choices of action and node, and nodes whose names would read as a choice (with a ">").

    cursor: the key `nodes`, in a scope with the actions; nodes: their names.
    """
    num_actions = len(cursor.scope.actions)
    joint = num_actions * len(nodes)
    finding = f"{len(nodes):,} nodes and {num_actions:,} actions make {joint:,} choices, more than {_MAX_JOINT:,}"
    cursor.exceeds(joint, _MAX_JOINT, finding, "use fewer nodes")
    for node in nodes:
        if ">" in node:
            cursor.error(f"'{node}' cannot name a node", "'>' joins an action with the next node")


def _read_nodes(cursor: Cursor) -> tuple[str, ...] | None:
    """Return the names of the nodes: those listed, or numbers from 0; None after a fault. At most MAX_NODES."""
    if is_int(cursor.value):
        count = cursor.whole(low=1, high=MAX_NODES)
        return None if count is None else _number_names(count)
    return cursor.unique_names(kind="node", most=MAX_NODES)


def _number_names(count: int) -> tuple[str, ...]:
    """Return "0", "1", ... for some nodes."""
    return tuple(str(node) for node in range(count))


def _read_start(fields: Fields, nodes: NameTable) -> SparseRows | None:
    """Return the node held when the run starts, [state, node]: one for all, overridden by `start_in`.

    fields: `start` is a node or a distribution for all states, or an array [state, node], which `start_in` does not
        change; left out, it is the first node.
    nodes: the names of the nodes. Returns None after a fault.
    """
    cursor, states = fields.at("start"), fields.cursor.scope.states
    if is_array(cursor.value):
        rows = None if nodes.index is None else read_array_rows(cursor, given=states, listed=nodes, blank="is all zero")
        return None if rows is None else rows.table
    common = {0: 1.0} if cursor.value is None else read_distribution(cursor, nodes)
    exceptions = fields.at("start_in") if "start_in" in fields else fields.cursor.child("start_in", {})
    return rows_by_name(exceptions, states, nodes, rest=dict.fromkeys(range(len(states)), common))


def _sizes(scope: Scope) -> tuple[int, int, int]:
    """Return the numbers of nodes, states and actions."""
    return len(scope.nodes), len(scope.states), len(scope.actions)


def _read_update(cursor: Cursor) -> _Updates | None:
    """Return which update each (node, state, action) makes, and the updates; None after a fault.

    cursor: a list of rules, or an array [node, state, action, node]; its scope has nodes, states and actions.
    """
    value, sizes = cursor.value, _sizes(cursor.scope)
    if math.prod(sizes) > _MAX_UPDATES:
        counts = f"{sizes[0]:,} nodes, {sizes[1]:,} states and {sizes[2]:,} actions make {math.prod(sizes):,} updates"
        return cursor.error(f"{counts}, more than {_MAX_UPDATES:,}", "use fewer nodes")
    if isinstance(value, np.ndarray) or (isinstance(value, list) and value and is_array(value[0])):
        return _read_update_array(cursor, sizes)
    rules = _RULES.read(cursor)
    return None if rules is None else _apply_rules(rules, sizes)


def _apply_rules(rules: list[_Rule], sizes: tuple[int, int, int]) -> _Updates | None:
    """Return the updates of some rules; None when nodes, states or actions are not known.

    rules: in the order in which they are tried; sizes: the numbers of nodes, states and actions.
    The first match wins, so later rules are laid down first and earlier ones over them; below all is "stay".
    """
    if not min(sizes):
        return None
    updates: list[dict[int, float]] = [{node: 1.0} for node in range(sizes[0])]
    update_of = _keep_nodes(sizes)[0].copy()
    for rule in reversed(rules):
        states = ints(range(sizes[1])) if rule.states is None else rule.states
        actions = ints(range(sizes[2]) if rule.actions is None else rule.actions)
        update_of[np.ix_(ints([rule.node]), states, actions)] = len(updates)
        updates.append(rule.to)
    return _merge_updates(update_of, updates)


def _read_update_array(cursor: Cursor, sizes: tuple[int, int, int]) -> _Updates | None:
    """Return the updates of an array [node, state, action, node]; a row of zeros keeps the node.

    cursor: the array; sizes: the numbers of nodes, states and actions, which its shape must match. None after a fault.
    """
    table = read_array(cursor, axes=("node", "state", "action", "node"))
    if table is None or not min(sizes) or not check_shape(cursor, table.shape, (*sizes, sizes[0])):
        return None
    scaled = scale_table(cursor, table)
    if scaled is None:
        return None
    stay = np.broadcast_to(np.eye(sizes[0])[:, None, None, :], scaled.shape)
    full = np.where(scaled.any(axis=-1, keepdims=True), scaled, stay).reshape(-1, sizes[0])
    distinct, update_of = np.unique(full, axis=0, return_inverse=True)
    rows = [{int(node): float(row[node]) for node in np.flatnonzero(row)} for row in distinct]
    return _merge_updates(update_of.reshape(sizes), rows)


def _merge_updates(update_of: IntArray, rows: list[dict[int, float]]) -> _Updates:
    """Return the same updates, each listed once, in the order in which they are first used.

    update_of: [node, state, action] -> a row of `rows`; rows: node -> probability each, zeros allowed.
    """
    number: dict[tuple[tuple[int, float], ...], int] = {}
    renamed = np.zeros(len(rows), dtype=np.int64)
    used, first = np.unique(update_of, return_index=True)
    for row in used[np.argsort(first)].tolist():
        key = tuple(sorted((node, share) for node, share in rows[row].items() if share > 0))
        renamed[row] = number.setdefault(key, len(number))
    entries = [(index, node, share) for row, index in number.items() for node, share in row]
    updates = SparseRows.from_entries(*zip(*entries, strict=True), shape=(len(number), update_of.shape[0]))
    return ints(renamed[update_of]), updates


def _parts(memory: Memory, scope: Scope) -> Plain:
    """Return the values of the keys, to be written: in names, or in arrays where the model is not known.

    scope: without states the machine is written as arrays, else as `start_in` and rules.
    """
    nodes, states = memory.nodes, scope.states.listed
    parts: Plain = {"nodes": list(nodes)}
    if not states:
        parts["start"] = memory.start.dense().tolist()
        return parts | {"update": _FREE if memory.free else memory.updates.dense()[memory.update_of].tolist()}
    parts["start_in"] = write_rows(memory.start, states, nodes)
    rules = [rule for node in range(len(nodes)) for rule in _write_rules(memory, node, scope)]
    return parts | {"update": _FREE if memory.free else rules}


def _write_rules(memory: Memory, node: int, scope: Scope) -> list[Plain]:
    """Return the rules of one node: for each update the actions that share the states on which they make it.

    An update that keeps the node needs no rule, and neither all states nor all actions are listed.
    """
    rules: list[Plain] = []
    updates, listed = memory.update_of[node], scope.actions.listed  # [state, action]
    for update in np.unique(updates).tolist():
        to = write_shares(*memory.updates.row(update), memory.nodes)
        if to == {memory.nodes[node]: 1.0}:
            continue  # no rule keeps the node
        actions_of: dict[tuple[int, ...], list[str]] = {}
        for action, name in enumerate(listed):
            states = tuple(np.flatnonzero(updates[:, action] == update).tolist())
            if states:
                actions_of.setdefault(states, []).append(name)
        for states, actions in actions_of.items():
            rule: Plain = {"from": memory.nodes[node], "to": to}
            rule |= {"state": write_states(states, scope)} if len(states) < len(scope.states) else {}
            rules.append(rule | ({"action": actions} if len(actions) < len(listed) else {}))
    return rules


def _make_rule(fields: Fields) -> _Rule | None:
    """Return a rule; None when a key that is there is unusable.

    Without `state` or `action` it holds for all of them.
    """
    values = {key: fields.read(key) for key in fields.keys}
    unusable = any(values[key] is None for key in ("from", "to", *fields.given))
    return None if unusable else _Rule(values["from"], values["to"], values["state"], values["action"])


_NODE = name_of("nodes", "a node")
_TO = distribution_of("nodes", "a node, or `{node: probability}`")
_ACTIONS = names_of("actions", "an action or a list of actions")
_RULE: Record[_Rule] = Record(
    "rule",
    "A move of the memory.",
    (
        Key("from", _NODE, "The node it leaves.", required="name a node"),
        Key("to", _TO, "The node it goes to.", required="name a node, or {node: probability}"),
        Key("state", STATES, "In which states; left out, in all."),
        Key("action", _ACTIONS, "On which actions; left out, on all."),
    ),
    _make_rule,
)
_RULES = list_of(_RULE.shape, "rules tried in order; no match keeps the node")
_NODES: ValueType[Any] = ValueType("names, or how many", _read_nodes, ({"type": "integer", "minimum": 1}, NAMES))
_START = raw_value("a node, `{node: probability}`, or an array `[state][node]`", (DISTRIBUTION, ARRAY))
_UPDATE = raw_value(
    f"{_RULES.description}. `free`: the policy chooses the next node together with the action. Also an array "
    "`[node][state][action][node]`",
    (_RULES, ARRAY, {"const": _FREE}),
    inside=(_RULE.shape,),
)
_MEMORY: Record[Memory] = Record(
    "memory",
    "A machine the policy carries, moved by the state and the action of each step.",
    (
        Key("nodes", _NODES, "The nodes.", required="list the nodes, or say how many"),
        Key("start", _START, "The node at the start; the first if left out."),
        Key("start_in", map_of(DISTRIBUTION, "state -> node"), "The node at the start, where it differs."),
        Key("update", _UPDATE, "How the node changes."),
    ),
    _make,
    _parts,
    example="""\
memory:
  nodes: [calm, alert]
  update: [{from: calm, to: alert, state: goal}]""",
)
MACHINE: ValueType[Memory] = accept_object(_MEMORY.shape, Memory, _check)
