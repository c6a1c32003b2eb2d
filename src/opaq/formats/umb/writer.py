"""Write UMB files: MDPs with their observers, and the Markov chains that policies induce.

A model and what goes with it come in, the bytes of a tar archive go out, by default compressed with gzip. What the
format lacks (names of states, a start that is not uniform) stands in members `opaq/...`, which other tools pass over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Fault, InputError
from opaq.files import write_bytes
from opaq.formats.format import Export
from opaq.formats.names import distinct, entry_names
from opaq.formats.umb.archive import pack_archive
from opaq.model.arrays import FloatArray, IntArray, SparseRows, expand_rows, floats, ints
from opaq.model.mdp import MDP, Imported
from opaq.model.observer import Observer, require_tables
from opaq.model.problem import Problem
from opaq.version import __version__


def induced_chain(mdp: MDP, policy: Any) -> MDP:
    """Return the Markov chain of a policy, as an MDP of one choice per state, the action "step".

    mdp: the model; policy: [choice] -> its probability in its state. Named rewards are dropped.
    """
    policy = np.asarray(policy, dtype=np.float64)
    rows = mdp.transitions
    state_of = mdp.choice_state()
    choice_of = rows.row_of_entry()
    weights = rows.values * policy[choice_of]
    shape = (mdp.num_states, mdp.num_states)
    return replace(
        mdp,
        actions=("step",),
        choice_start=ints(np.arange(mdp.num_states + 1)),
        choice_action=ints(np.zeros(mdp.num_states)),
        transitions=SparseRows.from_entries(state_of[choice_of], rows.columns, weights, shape=shape),
        rewards=floats(_expected_rewards(mdp, policy, mdp.rewards)),
        named_rewards={},
    )


def _expected_rewards(mdp: MDP, policy: Any, values: Any) -> FloatArray:
    """Return [state] -> what a policy earns there, from what its choices earn."""
    weighted = np.bincount(mdp.choice_state(), weights=np.multiply(policy, values), minlength=mdp.num_states)
    return weighted.astype(np.float64)


def unfold_observer(mdp: MDP, observer: Observer) -> tuple[MDP, Observer]:
    """Return the same model for tools that know neither noisy sensors nor a start distribution.

    mdp, observer: the model and who watches its states.
    A state becomes one state for each observation it may show, and a first step from the new state "start", which
    is seen as "start" and rewards nothing, draws where to begin: all times move by one.
    Raises InputError for an observer that sees actions.
    """
    _refuse_action_observers(observer)
    pairs = observer.emission
    base, seen = pairs.row_of_entry(), pairs.columns
    pairs_of = zip(base, seen, strict=True)
    states = distinct([f"{mdp.states[state]}~{observer.observations[sign]}" for state, sign in pairs_of])
    counts = np.diff(mdp.choice_start)[base]
    _, choices = expand_rows(mdp.choice_start, base)
    rows = _expand_observations(mdp.transitions, pairs, choices)
    first = _expand_observations(SparseRows.from_dense(mdp.start[None, :]), pairs, np.zeros(1, dtype=np.int64))
    start_name = distinct([*states, "start"])[-1]
    start_observation = distinct([*observer.observations, "start"])[-1]
    size = base.size
    unfolded = MDP(
        states=(*states, start_name),
        actions=distinct([*mdp.actions, "start"]),
        start=floats(np.eye(1, size + 1, size)[0]),
        choice_start=ints(np.concatenate(([0], np.cumsum([*counts, 1])))),
        choice_action=ints([*mdp.choice_action[choices], len(mdp.actions)]),
        transitions=_stack_rows(rows, first, size + 1),
        rewards=floats([*mdp.rewards[choices], 0.0]),
        labels={label: ints(np.flatnonzero(mdp.mask(marked)[base])) for label, marked in mdp.labels.items()},
    )
    signs = ints([*seen, len(observer.observations)])
    emission = SparseRows(ints(np.arange(size + 2)), signs, floats(np.ones(size + 1)), len(observer.observations) + 1)
    return unfolded, Observer(observations=(*observer.observations, start_observation), emission=emission)


def _refuse_action_observers(observer: Observer, source: str = "") -> None:
    """Raise InputError for what depends on more than the state: it would be lost in silence."""
    if observer.action_emission is not None or observer.after_action is not None:
        finding = "what is seen depends on actions, and UMB knows observations of states only"
        raise InputError([Fault("observer", finding, "write the model without its observer")], source)


def _expand_observations(rows: SparseRows, pairs: SparseRows, chosen: IntArray) -> SparseRows:
    """Return the chosen rows over states, expanded over the observations each state may show.

    pairs: [state, observation]; its entries are the new states. chosen: the rows to take.
    """
    owner, entry = expand_rows(rows.starts, chosen)
    target = rows.columns[entry]
    which, pair = expand_rows(pairs.starts, target)
    values = rows.values[entry][which] * pairs.values[pair]
    return SparseRows.from_entries(owner[which], pair, values, shape=(chosen.size, pairs.columns.size))


def _stack_rows(upper: SparseRows, lower: SparseRows, num_columns: int) -> SparseRows:
    """Return two tables, one below the other, with `num_columns` columns."""
    return SparseRows(
        ints(np.concatenate((upper.starts, upper.starts[-1] + lower.starts[1:]))),
        ints(np.concatenate((upper.columns, lower.columns))),
        floats(np.concatenate((upper.values, lower.values))),
        num_columns,
    )


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-]*")
_BOOL = {"type": "bool", "size": 1}
_DOUBLE = {"type": "double", "size": 64}
_NUMBERED = {"aps": "label", "rewards": "reward"}  # group -> what names that make no folder are called


def write_problem(problem: Problem, export: Export) -> bytes:
    """Return the UMB file of the model and the observer of a problem.

    export: gets a note on what is left out.
    """
    export.notes.append("UMB holds the model and the observer; secret, horizon, task and policy class are left out")
    rewards = {"reward": problem.mdp.rewards, **problem.mdp.named_rewards}
    observer = require_tables(problem.observer, needed_by="UMB")
    return _umb_bytes(problem.mdp, observer=_keep_states_only(observer, export), rewards=rewards)


def write_model(imported: Imported, export: Export) -> bytes:
    """Return the UMB file of a model that was read from any other format."""
    observer = None if imported.observer is None else _keep_states_only(imported.observer, export)
    rewards = dict(imported.rewards) or None
    return _umb_bytes(imported.mdp, observer=observer, variables=imported.variables, rewards=rewards)


def _keep_states_only(observer: Observer, export: Export) -> Observer | None:
    """Return the observer, or None with a note when it sees something of the actions."""
    if observer.after_action is None and observer.action_emission is None:
        return observer
    export.notes.append("the observer sees something of the actions, which UMB cannot hold: it is left out")
    return None


def write_umb(
    path: str | os.PathLike[str],
    mdp: MDP,
    *,
    observer: Observer | None = None,
    variables: Mapping[str, Any] | None = None,
    rewards: Mapping[str, Any] | None = None,
    policy: Any = None,
    overwrite: bool = False,
    compressed: bool = True,
) -> None:
    """Write a model as a UMB file in one step.

    path: the file; mdp: the model.
    observer, variables, rewards, policy: what is written beside it, as in `_umb_bytes`.
    overwrite: whether an existing file is replaced.
    compressed: whether the archive is compressed with gzip.
    Raises InputError for an observer that sees something of the actions, and where the file cannot be written.
    """
    if observer is not None:
        _refuse_action_observers(observer, os.fspath(path))
    parts = {"observer": observer, "variables": variables, "rewards": rewards, "policy": policy}
    write_bytes(path, _umb_bytes(mdp, **parts, compressed=compressed), overwrite=overwrite)


def _umb_bytes(
    mdp: MDP,
    *,
    observer: Observer | None = None,
    variables: Mapping[str, Any] | None = None,
    rewards: Mapping[str, Any] | None = None,
    policy: Any = None,
    compressed: bool = True,
) -> bytes:
    """Return the content of the UMB file of a model.

    observer, variables: what is written beside the model; variables are [state] each.
    rewards: [choice] each; by default the model's own under the name "reward".
    policy: the probability of every choice in its state: then the induced Markov chain is written.
    UMB has a set of initial states: a start that is not uniform is kept in a member which only opaq reads; see
    `unfold_observer` for other tools.
    """
    if observer is not None:
        _refuse_action_observers(observer)
    rewards = {"reward": mdp.rewards} if rewards is None else rewards
    if policy is not None:
        rewards = {name: _expected_rewards(mdp, policy, values) for name, values in rewards.items()}
        mdp = induced_chain(mdp, policy)
    members = _members(mdp, observer, variables or {}, rewards, players=0 if policy is not None else 1)
    return pack_archive(members, compressed=compressed)


def _members(
    mdp: MDP, observer: Observer | None, variables: Mapping[str, Any], rewards: Mapping[str, Any], *, players: int
) -> dict[str, bytes]:
    """Return the members of the archive by name; the index is the first.

    observer: None writes none; variables: [state] each; rewards: [choice] each.
    players: 1 for a decision process, 0 for a Markov chain.
    """
    members: dict[str, bytes] = {
        "index.json": b"",  # the first member, filled in last
        "state-is-initial.bin": _pack_bits(mdp.start > 0),
        "state-to-choices.bin": _words(mdp.choice_start),
        "choice-to-branches.bin": _words(mdp.transitions.starts),
        "branch-to-target.bin": _words(mdp.transitions.columns),
        "branch-to-probability.bin": _doubles(mdp.transitions.values),
        "actions/choices/values.bin": np.asarray(mdp.choice_action, dtype="<u4").tobytes(),
        **_text("actions/choices", mdp.actions),
        **_extra_members(mdp, variables),
    }
    label_bits = {label: _pack_bits(mdp.mask(states)) for label, states in mdp.labels.items()}
    labels, label_members = _annotation("aps", "states", _BOOL, label_bits)
    amounts = {name: _doubles(values) for name, values in rewards.items()}
    reward_index, reward_members = _annotation("rewards", "choices", _DOUBLE, amounts)
    index: dict[str, Any] = {
        "format-version": 1,
        "format-revision": 0,
        "file-data": {"tool": "opaq", "tool-version": __version__},
        "transition-system": _system(mdp, players),
        "annotations": {"aps": labels, "rewards": reward_index},
    }
    members |= label_members | reward_members
    if variables:
        _add_variables(index, members, variables)
    if observer is not None:
        _add_observer(index, members, observer)
    return members | {"index.json": json.dumps(index, indent=1).encode()}


def _system(mdp: MDP, players: int) -> dict[str, Any]:
    """Return the description of the transition system: its sizes and number types."""
    return {
        "time": "discrete",
        "#players": players,
        "#states": mdp.num_states,
        "#initial-states": int((mdp.start > 0).sum()),
        "#choices": mdp.num_choices,
        "#choice-actions": len(mdp.actions),
        "#branches": int(mdp.transitions.columns.size),
        "#branch-actions": 0,
        "#observations": 0,
        "branch-probability-type": _DOUBLE,
    }


def _words(values: NDArray[Any]) -> bytes:
    """Return whole numbers as 64-bit words."""
    return np.asarray(values, dtype="<u8").tobytes()


def _doubles(values: Any) -> bytes:
    """Return numbers as 64-bit floats."""
    return np.asarray(values, dtype="<f8").tobytes()


def _pack_bits(marked: NDArray[np.bool_]) -> bytes:
    """Return truth values as bits, the lowest of a byte first, filled up to 8-byte words."""
    content = np.packbits(marked, bitorder="little").tobytes()
    return content + bytes(-len(content) % 8)


def _text(folder: str, names: Sequence[str]) -> dict[str, bytes]:
    """Return the members of some texts: their offsets, and the texts end to end."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)])
    return {f"{folder}/string-mapping.bin": _words(ends), f"{folder}/strings.bin": b"".join(encoded)}


def _keys(names: Sequence[str], other: str) -> list[str]:
    """Return a folder name for each name: its own where it is plain, else a number."""
    return [name if _PLAIN.fullmatch(name) else f"{other}.{number}" for number, name in enumerate(names)]


def _annotation(group: str, entity: str, type: dict[str, Any], values: Mapping[str, bytes]) -> tuple[Any, Any]:
    """Return the description and the members of one group of annotations.

    group: "aps" or "rewards"; entity: what they apply to; type: of their values; values: name -> content.
    A name that makes no folder is numbered, and kept as the `alias` of its description.
    """
    described, members = {}, {}
    for key, (name, content) in zip(_keys(list(values), _NUMBERED[group]), values.items(), strict=True):
        described[key] = {"alias": name, "applies-to": [entity], "type": type}
        members[f"annotations/{group}/{key}/{entity}/values.bin"] = content
    return described, members


def _extra_members(mdp: MDP, variables: Mapping[str, Any]) -> dict[str, bytes]:
    """Return what the format lacks: names of states that are not their variables, and the start distribution."""
    arrays = {name: np.asarray(values) for name, values in variables.items()}
    named_so = mdp.states == entry_names(arrays, mdp.num_states, prefix="s")
    members = {} if named_so else _text("opaq/states", mdp.states)
    # Storm passes over members it does not know, but refuses an annotation made of texts.
    return members | ({"opaq/start.bin": _doubles(mdp.start)} if (mdp.start > 0).sum() > 1 else {})


def _add_variables(index: dict[str, Any], members: dict[str, bytes], variables: Mapping[str, Any]) -> None:
    """Add the state variables; each takes whole bytes: one for true or false, eight for a number."""
    declared: list[dict[str, Any]] = []
    columns: list[NDArray[np.uint8]] = []
    for name, given in variables.items():
        values = np.asarray(given)
        if values.dtype.kind == "b":
            declared += [{"name": name, "type": _BOOL}, {"padding": 7}]
            columns.append(values.astype(np.uint8)[:, None])
        elif values.dtype.kind in "iu":
            declared.append({"name": name, "type": {"type": "int", "size": 64}})
            columns.append(values.astype("<i8").view(np.uint8).reshape(values.size, 8))
        else:
            declared.append({"name": name, "type": _DOUBLE})
            columns.append(values.astype("<f8").view(np.uint8).reshape(values.size, 8))
    index["valuations"] = {"states": {"unique": False, "classes": [{"variables": declared}]}}
    members["valuations/states/valuations.bin"] = np.hstack(columns).tobytes()


def _add_observer(index: dict[str, Any], members: dict[str, bytes], observer: Observer) -> None:
    """Add the observations of every state, as distributions where a state may show several."""
    system, rows, folder = index["transition-system"], observer.emission, "observations/states"
    system |= {"#observations": len(observer.observations), "observations-apply-to": "states"}
    members[f"{folder}/values.bin"] = _words(rows.columns)
    members |= _text("opaq/observations", observer.observations)
    if (np.diff(rows.starts) != 1).any():
        system["observation-probability-type"] = _DOUBLE
        members[f"{folder}/distribution-mapping.bin"] = _words(rows.starts)
        members[f"{folder}/probabilities.bin"] = _doubles(rows.values)
