"""The machine a policy carries, from rules or arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray, SparseRows, ints
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.spec.cursor import at, check_keys, gather, is_int, item, listing, mapping, unique_names, whole
from opaq.spec.matrices import check_shape, dense, is_array, scaled_rows
from opaq.spec.names import Known, Names, distribution, known, state_set

KEYS = ("nodes", "start", "start_in", "update")
RULE_KEYS = ("from", "to", "state", "action")
MAX_NODES = 10_000
MAX_UPDATES = 10_000_000  # nodes x states x actions
MAX_JOINT = 1_000_000  # actions x nodes, where the policy chooses both
FREE = "free"  # the policy chooses the next node together with the action
_RULE_REQUIRED = {"from": "name a node", "to": "name a node, or {node: probability}"}

Rule = tuple[int, IntArray, IntArray, dict[int, float]]  # from a node, in states, on actions, to nodes


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
    """A memory machine; `update` is a list of rules {from, to, state, action} or an array [node, state, action, node].

    With the update "free" the policy chooses the next node together with the action. Otherwise rules are tried in
    order, the first match wins, no match keeps the node; so does an array row of zeros.
    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    stated = zip(KEYS, (nodes, start, start_in, update), strict=True)
    spec = {key: value for key, value in stated if value is not None}
    return gather(lambda found: read_memory(spec, path, found, Names.of(mdp)), faults)


def free_memory(mdp: MDP, count: int) -> Memory:
    """A memory of `count` nodes ("0", "1", ...) whose next node the policy chooses; every run starts in the first."""
    size = mdp.num_states
    nodes = tuple(str(node) for node in range(count))
    start = SparseRows.from_entries(range(size), [0] * size, [1.0] * size, shape=(size, count))
    stay = np.broadcast_to(np.arange(count)[:, None, None], (count, size, len(mdp.actions)))
    return Memory(nodes, start, stay, SparseRows.from_dense(np.eye(count)), free=True)


def read_memory(value: Any, path: str, faults: Faults, names: Names) -> Memory | None:
    """A memory machine from its mapping."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=KEYS, required={"nodes": "list the nodes, or say how many"})
    nodes = _read_nodes(spec["nodes"], at(path, "nodes"), faults) if "nodes" in spec else None
    machine = known("node", nodes)
    start = _read_start(spec, path, faults, names.states, machine)
    free = spec.get("update") == FREE if isinstance(spec.get("update"), str) else False
    if free:
        _check_joint(nodes or (), at(path, "nodes"), faults, num_actions=len(names.actions))
        update = _stay(names, machine)
    else:
        update = _read_update(spec.get("update", []), at(path, "update"), faults, names, machine)
    if nodes is None or start is None or update is None:
        return None
    return Memory(nodes, start, *update, free)


def check_memory(memory: Memory, path: str, faults: Faults, names: Names) -> None:
    """Note when a finished machine does not fit the model."""
    expected = (len(memory.nodes), len(names.states), len(names.actions))
    if names.states.index is not None and names.actions.index is not None:
        check_shape(memory.update_of.shape, expected, at(path, "update"), faults)
        check_shape((memory.start.num_rows,), (len(names.states),), at(path, "start"), faults)


def joint_actions(actions: Iterable[str], memory: Memory) -> tuple[str, ...]:
    """What a policy with a free memory chooses from: "action>node", the nodes of the first action first."""
    return tuple(f"{action}>{node}" for action in actions for node in memory.nodes)


def _check_joint(nodes: Collection[str], path: str, faults: Faults, *, num_actions: int) -> None:
    joint = num_actions * len(nodes)
    if joint > MAX_JOINT:
        found = f"{len(nodes):,} nodes and {num_actions:,} actions make {joint:,} choices, more than {MAX_JOINT:,}"
        faults.error(path, found, "use fewer nodes")
    for node in nodes:
        if ">" in node:
            faults.error(path, f"'{node}' cannot name a node", "'>' joins an action with the next node")


def _read_nodes(value: Any, path: str, faults: Faults) -> tuple[str, ...] | None:
    if is_int(value):
        count = whole(value, path, faults, low=1, high=MAX_NODES)
        return None if count is None else tuple(str(node) for node in range(count))
    return unique_names(value, path, faults, kind="node", most=MAX_NODES)


def _read_start(spec: Mapping[str, Any], path: str, faults: Faults, states: Known, nodes: Known) -> SparseRows | None:
    """The node held when the run starts, [state, node]: one for all, overridden by `start_in`."""
    value = spec.get("start")
    if is_array(value):
        return _start_matrix(value, at(path, "start"), faults, states, nodes)
    common: dict[int, float] | None = {0: 1.0}
    if value is not None:
        common = distribution(value, at(path, "start"), faults, nodes)
    where = at(path, "start_in")
    table = mapping(spec.get("start_in", {}), where, faults)
    if table is None:
        return None
    rows: dict[int, dict[int, float] | None] = dict.fromkeys(range(len(states)), common)
    for key, entry in table.items():
        state = states.find(key, at(where, key), faults)
        shares = distribution(entry, at(where, key), faults, nodes)
        if state is not None:
            rows[state] = shares
    if nodes.index is None or states.index is None or None in rows.values():
        return None
    entries = [(state, node, share) for state, shares in rows.items() for node, share in (shares or {}).items()]
    return SparseRows.from_entries(*zip(*entries, strict=True), shape=(len(states), len(nodes)))


def _start_matrix(value: Any, path: str, faults: Faults, states: Known, nodes: Known) -> SparseRows | None:
    matrix = dense(value, path, faults, axes=("state", "node"))
    if matrix is None or states.index is None or nodes.index is None:
        return None
    if not check_shape(matrix.shape, (len(states), len(nodes)), path, faults):
        return None
    scaled = _scaled(matrix, path, faults)
    for state in np.flatnonzero(matrix.sum(axis=1) == 0).tolist():
        faults.error(item(path, state), "is all zero", "make the row sum to 1")
        scaled = None
    return None if scaled is None else SparseRows.from_dense(scaled)


def _scaled(table: FloatArray, path: str, faults: Faults) -> FloatArray | None:
    """The table with every row of its last axis scaled to sum to 1."""
    leading = table.shape[:-1]
    flat = table.reshape(-1, table.shape[-1])
    rows, columns = np.nonzero(flat)

    def spelled(row: int) -> list[int]:
        return [int(place) for place in np.unravel_index(row, leading)]

    values = scaled_rows(
        rows,
        flat[rows, columns],
        num_rows=flat.shape[0],
        entry_path=lambda entry: item(path, *spelled(rows[entry]), int(columns[entry])),
        row_path=lambda row: item(path, *spelled(row)),
        path=path,
        faults=faults,
    )
    if values is None:
        return None
    scaled = np.zeros_like(flat)
    scaled[rows, columns] = values
    return scaled.reshape(table.shape)


def _read_update(
    value: Any, path: str, faults: Faults, names: Names, nodes: Known
) -> tuple[IntArray, SparseRows] | None:
    """Which update each (node, state, action) makes, and the updates."""
    sizes = (len(nodes), len(names.states), len(names.actions))
    if math.prod(sizes) > MAX_UPDATES:
        found = f"{sizes[0]:,} nodes, {sizes[1]:,} states and {sizes[2]:,} actions make {math.prod(sizes):,} updates"
        faults.error(path, f"{found}, more than {MAX_UPDATES:,}", "use fewer nodes")
        return None
    if isinstance(value, np.ndarray) or (isinstance(value, list) and value and is_array(value[0])):
        return _update_array(value, path, faults, sizes if min(sizes) else None)
    entries = listing(value, path, faults)
    if entries is None:
        return None
    read = [_read_rule(entry, item(path, place), faults, names, nodes) for place, entry in enumerate(entries)]
    rules = [rule for rule in read if rule is not None]
    return _lay_rules(rules, sizes) if len(rules) == len(read) and min(sizes) else None


def _stay(names: Names, nodes: Known) -> tuple[IntArray, SparseRows] | None:
    """Updates that keep every node, without a table of them."""
    sizes = (len(nodes), len(names.states), len(names.actions))
    if not min(sizes):
        return None
    same = np.arange(sizes[0])
    keep = SparseRows.from_entries(same, same, np.ones(sizes[0]), shape=(sizes[0], sizes[0]))
    return np.broadcast_to(same[:, None, None], sizes), keep


def _lay_rules(rules: list[Rule], sizes: tuple[int, int, int]) -> tuple[IntArray, SparseRows]:
    """The first match wins, so later rules are laid down first and earlier ones over them; below all is "stay"."""
    updates = [{node: 1.0} for node in range(sizes[0])]
    update_of = np.broadcast_to(np.arange(sizes[0])[:, None, None], sizes).copy()
    for node, states, actions, shares in reversed(rules):
        update_of[np.ix_(ints([node]), states, actions)] = len(updates)
        updates.append(shares)
    return _canonical(update_of, updates)


def _read_rule(value: Any, path: str, faults: Faults, names: Names, nodes: Known) -> Rule | None:
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=RULE_KEYS, required=_RULE_REQUIRED)
    node = nodes.find(spec["from"], at(path, "from"), faults) if "from" in spec else None
    shares = distribution(spec["to"], at(path, "to"), faults, nodes) if "to" in spec else None
    states: IntArray | None = ints(range(len(names.states)))
    if "state" in spec:
        states = state_set(spec["state"], at(path, "state"), faults, names)
    actions: list[int] | None = list(range(len(names.actions)))
    if "action" in spec:
        actions = names.actions.find_all(spec["action"], at(path, "action"), faults)
    if node is None or shares is None or states is None or actions is None:
        return None
    return node, states, ints(actions), shares


def _update_array(
    value: Any, path: str, faults: Faults, sizes: tuple[int, int, int] | None
) -> tuple[IntArray, SparseRows] | None:
    table = dense(value, path, faults, axes=("node", "state", "action", "node"))
    if table is None or sizes is None or not check_shape(table.shape, (*sizes, sizes[0]), path, faults):
        return None
    scaled = _scaled(table, path, faults)
    if scaled is None:
        return None
    stay = np.broadcast_to(np.eye(sizes[0])[:, None, None, :], scaled.shape)
    full = np.where(scaled.any(axis=-1, keepdims=True), scaled, stay).reshape(-1, sizes[0])
    distinct, update_of = np.unique(full, axis=0, return_inverse=True)
    rows = [{int(node): float(row[node]) for node in np.flatnonzero(row)} for row in distinct]
    return _canonical(update_of.reshape(sizes), rows)


def _canonical(update_of: IntArray, rows: list[dict[int, float]]) -> tuple[IntArray, SparseRows]:
    """The same updates, each told once, in the order in which they are first used."""
    number: dict[tuple[tuple[int, float], ...], int] = {}
    renamed = np.zeros(len(rows), dtype=np.int64)
    used, first = np.unique(update_of, return_index=True)
    for row in used[np.argsort(first)].tolist():
        told = tuple(sorted((node, share) for node, share in rows[row].items() if share > 0))
        renamed[row] = number.setdefault(told, len(number))
    entries = [(place, node, share) for told, place in number.items() for node, share in told]
    updates = SparseRows.from_entries(*zip(*entries, strict=True), shape=(len(number), update_of.shape[0]))
    return ints(renamed[update_of]), updates
