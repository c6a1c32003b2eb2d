"""Read and write the graph by which a policy follows what the observer sees.

The mapping of `belief` comes in, a `model.BeliefGraph` goes out, and back. The first observation gives the first node,
every further one the next; moves that are not listed go to `otherwise`.

    belief: {nodes: [quiet, heard], observations: [N, R], start: {N: quiet, R: heard},
             moves: {quiet: {N: quiet, R: heard}}, otherwise: heard}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opaq.model.arrays import IntArray
from opaq.model.conditions import MAX_BELIEFS, MAX_OBSERVATION_NAMES, BeliefGraph
from opaq.spec.cursor import Cursor, NameTable, Scope
from opaq.spec.grammar import (
    NAME,
    Fields,
    Key,
    Plain,
    Record,
    ValueType,
    accept_object,
    map_of,
    raw_value,
    unique_names,
)

_MAX_MOVES = 10_000_000  # nodes x observations


def _make(fields: Fields) -> BeliefGraph | None:
    """Build the graph from its keys; None after a fault."""
    nodes: tuple[str, ...] | None = fields.read("nodes")
    observations: tuple[str, ...] | None = fields.read("observations")
    if nodes is None or observations is None or not {"start", "otherwise"} <= fields.given.keys():
        return None
    size = len(nodes) * len(observations)
    finding = (
        f"{len(nodes):,} nodes and {len(observations):,} observations make {size:,} moves, more than {_MAX_MOVES:,}"
    )
    if fields.at("nodes").exceeds(size, _MAX_MOVES, finding, "use fewer nodes"):
        return None
    scope = replace(
        fields.cursor.scope,
        beliefs=NameTable.of("node", nodes),
        observations=NameTable.of("observation", observations),
    )
    otherwise = _read_otherwise(fields.at("otherwise").within(scope))
    if otherwise is None:
        return None
    first = _read_moves(fields.at("start").within(scope), otherwise)
    following = np.tile(otherwise, (len(nodes), 1))
    rows = fields.at("moves").within(scope).entries() if "moves" in fields else {}
    usable = first is not None and rows is not None
    for name, entry in (rows or {}).items():
        node, row = scope.beliefs.find(replace(entry, value=name)), _read_moves(entry, otherwise)
        if node is None or row is None:
            usable = False
        else:
            following[node] = row
    return BeliefGraph(nodes, observations, first, following, otherwise) if usable and first is not None else None


def _read_otherwise(cursor: Cursor) -> IntArray | None:
    """Return [observation] -> node from one node for all of them, or from a mapping that has them all; None after a
    fault.
    """
    count = len(cursor.scope.observations)
    if not isinstance(cursor.value, Mapping):
        node = cursor.scope.beliefs.find(cursor)
        return None if node is None else np.full(count, node, dtype=np.int64)
    row = _read_moves(cursor, np.full(count, -1, dtype=np.int64))
    if row is not None and bool((row < 0).any()):
        missing = cursor.scope.observations.listed[int(np.flatnonzero(row < 0)[0])]
        return cursor.error(f"does not name the observation '{missing}'", "name all of them, or give one node")
    return row


def _read_moves(cursor: Cursor, otherwise: IntArray) -> IntArray | None:
    """Return [observation] -> node from {observation: node}; None after a fault.

    otherwise: [observation], the nodes of those that are left out.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    row, scope, usable = otherwise.copy(), cursor.scope, True
    for name, entry in entries.items():
        observation, node = scope.observations.find(replace(entry, value=name)), scope.beliefs.find(entry)
        if observation is None or node is None:
            usable = False
        else:
            row[observation] = node
    return row if usable else None


def _parts(graph: BeliefGraph, scope: Scope) -> Plain:
    """Return the values of the keys, to be written; moves as `otherwise` says are left out."""

    def moves(row: IntArray) -> dict[str, str]:
        """Return {observation: node} of a row, without what `otherwise` says."""
        other = np.flatnonzero(row != graph.otherwise).tolist()
        return {graph.observations[observation]: graph.nodes[row[observation]] for observation in other}

    rows = {name: moves(row) for name, row in zip(graph.nodes, graph.following, strict=True)}
    common: Any = graph.nodes[graph.otherwise[0]]
    if bool((graph.otherwise != graph.otherwise[0]).any()):
        common = {name: graph.nodes[node] for name, node in zip(graph.observations, graph.otherwise, strict=True)}
    return {
        "nodes": list(graph.nodes),
        "observations": list(graph.observations),
        "start": moves(graph.first),
        "moves": {name: row for name, row in rows.items() if row},
        "otherwise": common,
    }


def _accept(cursor: Cursor, graph: BeliefGraph) -> None:
    """Take a finished graph as it is: whether it reads the problem's observations is known when it is compiled."""


_MOVES = map_of(NAME, "observation -> node")
_GRAPH: Record[BeliefGraph] = Record(
    "belief",
    "A graph by which a policy follows what the observer sees.",
    (
        Key("nodes", unique_names("node", MAX_BELIEFS), "The nodes.", required="list the nodes"),
        Key(
            "observations",
            unique_names("observation", MAX_OBSERVATION_NAMES),
            "What the observer may see, as rows of policies name it.",
            required="list the observations",
        ),
        Key("start", _MOVES, "The node after the first observation.", required="give {observation: node}"),
        Key("moves", map_of(_MOVES, "node -> observation -> node"), "The next node.", default={}),
        Key(
            "otherwise",
            raw_value("a node, or observation -> node", (NAME, _MOVES)),
            "The node where `start` and `moves` say nothing.",
            required="name a node",
        ),
    ),
    _make,
    _parts,
    example="""\
belief:
  nodes: [quiet, heard]
  observations: [N, R]
  start: {N: quiet}
  moves: {quiet: {N: quiet}}
  otherwise: heard""",
)
GRAPH: ValueType[BeliefGraph] = accept_object(_GRAPH.shape, BeliefGraph, _accept)
