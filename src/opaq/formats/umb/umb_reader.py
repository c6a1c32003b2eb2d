"""UMB (Unified Markov Binary) files: what PRISM, Storm and Modest exchange; read here, written in umb_write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Faults
from opaq.formats.naming import distinct, entry_names
from opaq.formats.umb.umb_archive import MAX_BYTES, Archive, read_archive
from opaq.formats.umb.umb_values import fields_of, kind_of, numbers, readable, variable
from opaq.formats.umb.umb_writer import induced_chain, unfolded, write_umb
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, frozen, ints
from opaq.model.imported import Imported
from opaq.model.mdp import MAX_REWARD, MDP
from opaq.model.observer import Observer
from opaq.spec.cursor import some

__all__ = ["induced_chain", "read_umb", "unfolded", "write_umb"]

_INDEX = "index.json"
_MAX_INDEX = 8 << 20
_VERSIONS = (0, 1)
_MAX_COUNT = 1 << 40
MAX_STATES = 5_000_000
MAX_NAMES = 1 << 30  # characters of all state names together
MAX_MARKED = 50_000_000  # states that labels mark, and likewise choices that rewards are given for
_COUNTS = ("states", "choices", "branches", "initial-states", "choice-actions", "observations", "players")
_TOLERANCE = 1e-5  # how far a row may be from 1 and still be scaled to it
_EXACT = 1e-12  # closer than this it is left as it is
_WORTH_TELLING = 1e-9
_SHOWN = 5
_MAX_UNSEEN = 1 << 16  # observations that no state shows
_HELPERS = {"_OutOfBoundsBit"}  # not a variable of the model


@dataclass(frozen=True, slots=True)
class _Reading:
    """An archive, its index, and the warnings so far."""

    archive: Archive
    index: Mapping[str, Any]
    system: Mapping[str, Any]
    counts: Mapping[str, int]
    faults: Faults = field(default_factory=Faults)


def read_umb(path: str | os.PathLike[str], *, reward: str | None = None, max_bytes: int = MAX_BYTES) -> Imported:
    """Read a discrete-time UMB model with at most one player; a Markov chain becomes an MDP of one choice a state.

    `reward` names the reward structure that becomes MDP.rewards (the first if it is None). Raises InputError that
    names the file and the member at fault.
    """
    archive = read_archive(path, max_bytes=max_bytes)
    reading = _opened(archive)
    choice_start, transitions = _transitions(reading)  # first: it holds the declared sizes against real bytes
    variables = _valuations(reading, "states", reading.counts["states"])
    states = _state_names(reading, variables)
    actions, choice_action = _actions(reading, choice_start)
    rewards = _rewards(reading, choice_start, transitions)
    mdp = MDP(
        states=states,
        actions=actions,
        start=_start(reading),
        choice_start=ints(choice_start),
        choice_action=ints(choice_action),
        transitions=_merged(transitions),
        rewards=np.zeros(int(choice_start[-1])),
        labels=_labels(reading),
    )
    mdp = _without_deadlocks(mdp, reading.faults)
    mdp = replace(mdp, rewards=_chosen(archive, rewards, reward, mdp.num_choices))
    observer = _observer(reading)
    return Imported(mdp, observer, variables, rewards, tuple(reading.faults.warnings))


def _opened(archive: Archive) -> _Reading:
    content = archive.bytes(_INDEX)
    if len(content) > _MAX_INDEX:
        archive.fail(_INDEX, f"has {len(content):,} bytes; the limit is {_MAX_INDEX:,}")
    try:
        index = json.loads(bytes(content))
        json.dumps(index, ensure_ascii=False).encode()  # half a character could never be written again
    except (ValueError, RecursionError) as error:
        archive.fail(_INDEX, f"is not JSON: {error}")
    if not isinstance(index, dict) or not isinstance(index.get("transition-system"), dict):
        archive.fail(_INDEX, "has no transition-system")
    if index.get("format-version") not in _VERSIONS:
        archive.fail(_INDEX, f"format-version {index.get('format-version')!r} is unknown", "version 1 is read here")
    system = index["transition-system"]
    counts = {name: _count(archive, system, name) for name in _COUNTS}
    if system.get("time") != "discrete":
        archive.fail(_INDEX, f"time is {system.get('time')!r}", "only discrete-time models can be read")
    if counts["players"] > 1:
        archive.fail(_INDEX, f"the model is a game of {counts['players']} players", "at most one player can be read")
    if not counts["states"]:
        archive.fail(_INDEX, "the model has no states")
    if counts["states"] > MAX_STATES:
        archive.fail(_INDEX, f"the model has {counts['states']:,} states", f"at most {MAX_STATES:,} can be read")
    return _Reading(archive, index, system, counts)


def _count(archive: Archive, system: Mapping[str, Any], name: str) -> int:
    value = system.get(f"#{name}", 0)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        archive.fail(_INDEX, f"transition-system.#{name} is {value!r}, not a count")
    return value


# --- states -----------------------------------------------------------------------------------------------------


def _valuations(reading: _Reading, entity: str, count: int) -> dict[str, NDArray[Any]]:
    """Variable -> its value for every state (or observation)."""
    declared = _mapping(reading, _mapping(reading, reading.index, "valuations"), entity)
    if not declared:
        return {}
    where, member = f"valuations.{entity}", f"valuations/{entity}/valuations.bin"
    classes = declared.get("classes")
    if not isinstance(classes, list) or len(classes) != 1 or not isinstance(classes[0], dict):
        reading.faults.warn(where, "valuations of several classes are not read", "the entries are named by number")
        return {}
    fields, size = fields_of(reading.archive, classes[0].get("variables"), f"{where}.classes[0].variables")
    entries = reading.archive.array(member, "u1", count * size).reshape(count, size)
    for skipped in [entry.name for entry in fields if not readable(entry)]:
        reading.faults.warn(f"{where}.{skipped}", "variables of this type are not read")
    kept = [entry for entry in fields if readable(entry) and entry.name not in _HELPERS]
    return {entry.name: frozen(variable(entries, entry)) for entry in kept}


def _mapping(reading: _Reading, holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A JSON object inside another; nothing is as good as an empty one."""
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        reading.archive.fail(_INDEX, f"{key} is not an object")
    return value


def _state_names(reading: _Reading, variables: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    if "opaq/states/string-mapping.bin" in reading.archive.members:
        return distinct(reading.archive.strings("opaq/states", reading.counts["states"]))
    count, longest = reading.counts["states"], sum(len(name) + 22 for name in variables)
    if count * longest > MAX_NAMES:
        found = f"the names of {count:,} states, one by {len(variables):,} variables, would take {count * longest:,}"
        reading.archive.fail("valuations.states", f"{found} characters; the limit is {MAX_NAMES:,}")
    return entry_names(variables, count, prefix="s")


def _start(reading: _Reading) -> FloatArray:
    archive, counts = reading.archive, reading.counts
    if not counts["initial-states"]:
        archive.fail(_INDEX, "the model has no initial state")
    initial = archive.bits("state-is-initial.bin", counts["states"])
    if initial.sum() != counts["initial-states"]:
        archive.fail("state-is-initial.bin", f"marks {initial.sum()} states, not {counts['initial-states']}")
    member = "opaq/start.bin"
    if member in archive.members:
        start = archive.array(member, "<f8", counts["states"])
        if not (np.isfinite(start).all() and (start >= 0).all() and abs(start.sum() - 1) <= _TOLERANCE):
            archive.fail(member, "is not a distribution over the states")
        return floats(start)
    if counts["initial-states"] > 1:
        found = f"{counts['initial-states']} initial states: each is taken to be equally likely"
        reading.faults.warn("start", found, "the problem file can state another start")
    return floats(initial / initial.sum())


# --- transitions ------------------------------------------------------------------------------------------------


def _transitions(reading: _Reading) -> tuple[IntArray, SparseRows]:
    """The first choice of every state, and the branches of every choice as they are stored."""
    archive, counts = reading.archive, reading.counts
    states, choices, branches = counts["states"], counts["choices"], counts["branches"]
    targets = archive.indices("branch-to-target.bin", "<u8", branches, below=states)
    starts = _rows(archive, "choice-to-branches.bin", choices, branches)
    choice_start = _rows(archive, "state-to-choices.bin", states, choices)
    return choice_start, _checked(reading, choice_start, SparseRows(starts, targets, _chances(reading), states))


def _rows(archive: Archive, member: str, rows: int, entries: int) -> IntArray:
    """Where rows start; the member may be left out where every row has one entry."""
    if member not in archive.members and rows == entries:
        return np.arange(rows + 1)
    return archive.offsets(member, rows, entries)


def _chances(reading: _Reading) -> FloatArray:
    declared, branches = reading.system.get("branch-probability-type"), reading.counts["branches"]
    if declared is None:
        return np.ones(branches)  # a choice of several branches is then refused by its sum
    kind = kind_of(reading.archive, declared, "transition-system.branch-probability-type")
    return numbers(reading.archive, "branch-to-probability.bin", kind, branches)


def _checked(reading: _Reading, choice_start: IntArray, rows: SparseRows) -> SparseRows:
    """Rows of probabilities; those that miss 1 by little are scaled, all others are refused."""
    member = "branch-to-probability.bin"
    state_of = np.repeat(np.arange(choice_start.size - 1), np.diff(choice_start))
    values, row_of = rows.values, rows.row_of_entry()
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    for branch in wrong[:_SHOWN]:
        place = _place(int(row_of[branch]), state_of, choice_start)
        reading.faults.error(member, f"{place}: {values[branch]} is not a probability")
    if not wrong.size:
        sums = rows.row_sums()
        off = np.abs(sums - 1)
        wrong = np.flatnonzero(off > _TOLERANCE)
        for row in wrong[:_SHOWN]:
            reading.faults.error(member, f"{_place(int(row), state_of, choice_start)}: {_sum(sums[row])}")
    if wrong.size > _SHOWN:
        reading.faults.error(member, f"{wrong.size - _SHOWN:,} more of the kind")
    reading.faults.raise_if_any(reading.archive.source)
    return _scaled(reading.faults, rows, sums, off)


def _sum(total: float) -> str:
    return f"probabilities sum to {total:.6g}, not 1"


def _place(choice: int, state_of: IntArray, choice_start: IntArray) -> str:
    state = int(state_of[choice])
    return f"state {state}, choice {choice - int(choice_start[state])}"


def _scaled(faults: Faults, rows: SparseRows, sums: FloatArray, off: FloatArray) -> SparseRows:
    if not (off > _EXACT).any():
        return rows
    missed = int((off > _WORTH_TELLING).sum())
    if missed:
        found = f"the probabilities of {missed:,} choices miss 1 by up to {off.max():.1g}: they were scaled to sum to 1"
        faults.warn("branch-to-probability.bin", found)
    scale = np.where(off > _EXACT, sums, 1.0)
    return SparseRows(rows.starts, rows.columns, rows.values / scale[rows.row_of_entry()], rows.num_columns)


def _merged(rows: SparseRows) -> SparseRows:
    """Columns ascending in every row, none twice and none zero; usually a file has them so already."""
    rising = rows.columns[1:] > rows.columns[:-1]
    first_of_row = np.zeros(rows.columns.size + 1, dtype=bool)
    first_of_row[rows.starts] = True
    if (rising | first_of_row[1:-1]).all() and rows.values.all():
        return SparseRows(frozen(rows.starts), frozen(rows.columns), frozen(rows.values), rows.num_columns)
    shape = (rows.num_rows, rows.num_columns)
    return SparseRows.from_entries(rows.row_of_entry(), rows.columns, rows.values, shape=shape)


def _without_deadlocks(mdp: MDP, faults: Faults) -> MDP:
    """States without a choice stay where they are for ever."""
    stuck = np.flatnonzero(np.diff(mdp.choice_start) == 0)
    if not stuck.size:
        return mdp
    faults.warn("states", deadlock_warning([mdp.states[state] for state in stuck]))
    before = mdp.choice_start[stuck]
    name = distinct([*mdp.actions, "stay"])[-1]
    rows = mdp.transitions
    entry = rows.starts[before]
    return MDP(
        states=mdp.states,
        actions=(*mdp.actions, name),
        start=mdp.start,
        choice_start=ints(mdp.choice_start + np.concatenate(([0], np.cumsum(np.diff(mdp.choice_start) == 0)))),
        choice_action=ints(np.insert(mdp.choice_action, before, len(mdp.actions))),
        transitions=SparseRows(
            ints(np.concatenate(([0], np.cumsum(np.insert(np.diff(rows.starts), before, 1))))),
            ints(np.insert(rows.columns, entry, stuck)),
            floats(np.insert(rows.values, entry, 1.0)),
            rows.num_columns,
        ),
        rewards=floats(np.insert(mdp.rewards, before, 0.0)),
        labels=mdp.labels,
    )


def deadlock_warning(states: Sequence[str]) -> str:
    """What is done about states in which nothing can happen."""
    count = "1 state has" if len(states) == 1 else f"{len(states):,} states have"
    stay = "stays" if len(states) == 1 else "stay"
    return f"{count} no choice (a deadlock) and {stay} for ever, where the state's reward is earned: {some(states)}"


def _with_stay(values: FloatArray, of_state: FloatArray, choice_start: IntArray) -> FloatArray:
    """A reward with what states without a choice earn for staying there: their own reward."""
    stuck = np.flatnonzero(np.diff(choice_start) == 0)
    return floats(np.insert(values, choice_start[stuck], of_state[stuck])) if stuck.size else frozen(values)


# --- actions ----------------------------------------------------------------------------------------------------


def _actions(reading: _Reading, choice_start: IntArray) -> tuple[tuple[str, ...], IntArray]:
    """The action names, and the action of every choice; no state has two choices of one action."""
    position = np.arange(choice_start[-1]) - np.repeat(choice_start[:-1], np.diff(choice_start))
    count, folder = reading.counts["choice-actions"], "actions/choices"
    if not count or f"{folder}/values.bin" not in reading.archive.members:
        return tuple(f"a{number}" for number in range(int(position.max(initial=-1)) + 1)), position
    chosen = reading.archive.indices(f"{folder}/values.bin", "<u4", position.size, below=count)
    named = f"{folder}/string-mapping.bin" in reading.archive.members
    used, chosen = np.unique(chosen, return_inverse=True)
    if not named:
        return _apart(tuple(f"a{action}" for action in used), chosen, choice_start)
    names = [name or "tau" for name in reading.archive.strings(folder, count)]  # tau: a step without a name
    every = distinct(names)
    return _apart(tuple(every[action] for action in used), chosen, choice_start)


def _apart(names: tuple[str, ...], chosen: IntArray, choice_start: IntArray) -> tuple[tuple[str, ...], IntArray]:
    """Rename the second, third, ... choice of the same action in a state to "name.2", "name.3", ..."""
    state_of = np.repeat(np.arange(choice_start.size - 1), np.diff(choice_start))
    key = state_of * len(names) + chosen
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    rank = np.empty(key.size, dtype=np.int64)
    rank[order] = np.arange(key.size) - np.repeat(first, np.diff(np.append(first, key.size)))
    used, action = np.unique(rank * len(names) + chosen, return_inverse=True)
    told = [names[entry % len(names)] + _suffix(entry // len(names)) for entry in used.tolist()]
    return distinct(told), action


def _suffix(rank: int) -> str:
    return f".{rank + 1}" if rank else ""


# --- annotations ------------------------------------------------------------------------------------------------


def _annotations(reading: _Reading, group: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The folder, the name and the description of every annotation of a group."""
    for key, declared in _mapping(reading, _mapping(reading, reading.index, "annotations"), group).items():
        if not isinstance(declared, dict) or not isinstance(declared.get("applies-to"), list):
            reading.archive.fail(_INDEX, f"annotations.{group}.{key} does not say what it applies to")
        if len(declared["applies-to"]) > len(set(map(str, declared["applies-to"]))):
            reading.archive.fail(_INDEX, f"annotations.{group}.{key} applies to the same twice")
        name = declared.get("alias", key)
        yield f"annotations/{group}/{key}", name if isinstance(name, str) else key, declared


def _labels(reading: _Reading) -> dict[str, IntArray]:
    labels: dict[str, IntArray] = {}
    total = 0
    for folder, name, declared in _annotations(reading, "aps"):
        if "states" not in declared["applies-to"]:
            reading.faults.warn(folder, "only labels of states are read")
            continue
        if kind_of(reading.archive, declared.get("type"), folder).name != "bool":
            reading.archive.fail(folder, "a label must be of type bool")
        marked = reading.archive.bits(f"{folder}/states/values.bin", reading.counts["states"])
        total += int(marked.sum())
        if total > MAX_MARKED:
            reading.archive.fail(folder, f"the labels up to here mark {total:,} states; the limit is {MAX_MARKED:,}")
        labels[name] = ints(np.flatnonzero(marked))
    return labels


def _rewards(reading: _Reading, choice_start: IntArray, rows: SparseRows) -> dict[str, FloatArray]:
    """Reward -> [choice]: what the state gives, what the choice gives, and what its branches give on average.

    States without a choice have one here: to stay.
    """
    rewards: dict[str, FloatArray] = {}
    num_choices = int(choice_start[-1])
    for folder, name, declared in _annotations(reading, "rewards"):
        if (len(rewards) + 1) * num_choices > MAX_MARKED:
            found = f"{len(rewards) + 1:,} rewards for {num_choices:,} choices"
            reading.archive.fail(folder, f"{found} are {(len(rewards) + 1) * num_choices:,} numbers", _too_many())
        total, of_state = np.zeros(num_choices), np.zeros(choice_start.size - 1)
        for entity in declared["applies-to"]:
            if entity not in ("states", "choices", "branches"):
                reading.archive.fail(folder, f"applies to {entity!r}, not to states, choices or branches")
            member = f"{folder}/{entity}/values.bin"
            kind = kind_of(reading.archive, declared.get("type"), folder)
            values = numbers(reading.archive, member, kind, reading.counts[entity])
            wrong = np.flatnonzero(~(np.abs(values) <= MAX_REWARD))  # NaN too
            if wrong.size:
                found = f"entry {int(wrong[0])} is {values[wrong[0]]:g}, not a finite number up to {MAX_REWARD:g}"
                reading.archive.fail(member, found, "scale the rewards down")
            total += _per_choice(values, entity, choice_start, rows)
            of_state = values if entity == "states" else of_state
        rewards[name] = _with_stay(total, of_state, choice_start)
    return rewards


def _too_many() -> str:
    return f"at most {MAX_MARKED:,} can be read"


def _per_choice(values: FloatArray, entity: str, choice_start: IntArray, rows: SparseRows) -> FloatArray:
    if entity == "states":
        return np.repeat(values, np.diff(choice_start))
    if entity == "choices":
        return values
    expected = np.bincount(rows.row_of_entry(), weights=values * rows.values, minlength=rows.num_rows)
    return expected.astype(np.float64)


def _chosen(archive: Archive, rewards: Mapping[str, FloatArray], name: str | None, choices: int) -> FloatArray:
    if name is None:
        return floats(next(iter(rewards.values()), np.zeros(choices)))
    if name not in rewards:
        known = ", ".join(rewards) or "none"
        archive.fail("rewards", f"there is no reward structure '{name}'", f"the file has: {known}")
    return floats(rewards[name])


# --- observations -----------------------------------------------------------------------------------------------


def _observer(reading: _Reading) -> Observer | None:
    count, states = reading.counts["observations"], reading.counts["states"]
    if not count:
        return None
    if reading.system.get("observations-apply-to") != "states":
        found = "observations of transitions are not read"
        reading.faults.warn("observations", found, "the problem file must state the observer")
        return None
    emission = _emission(reading, states, count)
    if count > _MAX_UNSEEN + emission.columns.size:
        reading.archive.fail(_INDEX, f"{count:,} observations are declared for {states:,} states")
    return Observer(observations=_observation_names(reading, count), emission=emission)


def _observation_names(reading: _Reading, count: int) -> tuple[str, ...]:
    if "opaq/observations/string-mapping.bin" in reading.archive.members:
        return distinct(reading.archive.strings("opaq/observations", count))
    # Storm 2.0 writes wrong values of observables: what it says is not taken for a name.
    if _mapping(reading, reading.index, "file-data").get("tool") == "Storm":
        return entry_names({}, count, prefix="o")
    return entry_names(_valuations(reading, "observations", count), count, prefix="o")


def _emission(reading: _Reading, states: int, count: int) -> SparseRows:
    archive, folder = reading.archive, "observations/states"
    declared = reading.system.get("observation-probability-type")
    if declared is None:
        seen = archive.indices(f"{folder}/values.bin", "<u8", states, below=count)
        return SparseRows(ints(np.arange(states + 1)), frozen(seen), floats(np.ones(states)), count)
    kind = kind_of(archive, declared, "transition-system.observation-probability-type")
    entries = len(archive.bytes(f"{folder}/values.bin")) // 8
    starts = archive.offsets(f"{folder}/distribution-mapping.bin", states, entries)
    seen = archive.indices(f"{folder}/values.bin", "<u8", entries, below=count)
    chances = numbers(archive, f"{folder}/probabilities.bin", kind, entries)
    return _merged(_distributions(reading, SparseRows(starts, seen, chances, count)))


def _distributions(reading: _Reading, rows: SparseRows) -> SparseRows:
    member = "observations/states/probabilities.bin"
    if not (np.isfinite(rows.values).all() and (rows.values >= 0).all()):
        reading.archive.fail(member, "an entry is not a probability")
    sums = rows.row_sums()
    off = np.abs(sums - 1)
    if (off > _TOLERANCE).any():
        state = int(np.argmax(off > _TOLERANCE))
        reading.archive.fail(member, f"state {state}: {_sum(sums[state])}")
    scale = np.where(off > _EXACT, sums, 1.0)
    return SparseRows(rows.starts, rows.columns, rows.values / scale[rows.row_of_entry()], rows.num_columns)
