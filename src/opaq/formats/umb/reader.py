"""Read UMB (Unified Markov Binary) files: what PRISM, Storm and Modest exchange; `umb.writer` writes them.

The name of a file comes in, an `Imported` model goes out: MDP, observer, state variables and rewards. The members read:

    state-is-initial.bin                          bits [state]
    state-to-choices.bin, choice-to-branches.bin  offsets [state + 1], [choice + 1]
    branch-to-target.bin, branch-to-probability.bin
    actions/choices, annotations/aps, annotations/rewards, observations/states, valuations/states
    opaq/states, opaq/observations, opaq/start.bin     names and the start, which only opaq writes and reads
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Faults, check_numbers, check_path, check_types, list_names
from opaq.formats.names import distinct, entry_names
from opaq.formats.umb.archive import (
    INDEX,
    MAX_BYTES,
    Archive,
    Reading,
    kind_of,
    mapping,
    numbers,
    open_index,
    read_archive,
    valuations,
)
from opaq.formats.umb.writer import induced_chain, unfold_observer, write_umb
from opaq.model.arrays import SLACK, FloatArray, IntArray, SparseRows, floats, frozen, ints, normalise_rows
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MDP, Imported
from opaq.model.observer import Observer
from opaq.spec.model_part import ActionTable
from opaq.spec.variables import place_states

_MOST_LISTED = 5


def _read_transitions(reading: Reading) -> tuple[IntArray, SparseRows]:
    """Return the first choice of every state, and the branches of every choice as they are stored, summing to 1.

    Probabilities that miss 1 slightly are scaled, with a warning. Raises InputError where they are no distribution.
    """
    archive, counts, member = reading.archive, reading.counts, "branch-to-probability.bin"
    states, choices, branches = counts["states"], counts["choices"], counts["branches"]
    targets = archive.indices("branch-to-target.bin", "<u8", branches, below=states)
    starts = _read_starts(archive, "choice-to-branches.bin", choices, branches)
    choice_start = _read_starts(archive, "state-to-choices.bin", states, choices)

    def describe(choice: int) -> str:
        """Return what messages call a choice: its state, and its number there."""
        state = int(np.searchsorted(choice_start, choice, side="right")) - 1
        return f"state {state}, choice {choice - int(choice_start[state])}"

    rows = SparseRows(starts, targets, _read_probabilities(reading), states)
    scaled, missed, gap = _check_rows(reading, rows, member, describe)
    if missed:
        finding = f"the probabilities of {missed:,} choices miss 1 by up to {gap:.1g}: they were scaled to sum to 1"
        reading.faults.warn(member, finding)
    return choice_start, scaled


def _read_starts(archive: Archive, member: str, rows: int, entries: int) -> IntArray:
    """Return the first entry of every row and the end; the member may be left out where every row has one entry.

    member: its name; rows, entries: the declared numbers.
    """
    if member not in archive.members and rows == entries:
        return np.arange(rows + 1)
    return archive.offsets(member, rows, entries)


def _read_probabilities(reading: Reading) -> FloatArray:
    """Return the probability of every branch; 1 where the file declares none."""
    declared, branches = reading.system.get("branch-probability-type"), reading.counts["branches"]
    if declared is None:
        return np.ones(branches)  # a choice of several branches is then refused by its sum
    kind = kind_of(reading.archive, declared, "transition-system.branch-probability-type")
    return numbers(reading.archive, "branch-to-probability.bin", kind, branches)


def _check_rows(
    reading: Reading, rows: SparseRows, member: str, describe: Callable[[int], str]
) -> tuple[SparseRows, int, float]:
    """Return rows that sum to 1, how many were scaled, and by how much at most.

    rows: as they are stored; member: the member that faults name; describe: what messages call a row.
    Raises InputError for rows that are no distributions, of which it lists _MOST_LISTED.
    """
    values, row_of = rows.values, rows.row_of_entry()
    all_fine = values.min(initial=0.0) >= 0 and values.max(initial=0.0) < np.inf  # both are False for NaN
    wrong = ints([]) if all_fine else np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    faults = [f"{describe(int(row_of[entry]))}: {values[entry]} is not a probability" for entry in wrong[:_MOST_LISTED]]
    if not wrong.size:
        done = normalise_rows(row_of, values, rows.num_rows)
        wrong = done.off
        faults = [
            f"{describe(int(row))}: probabilities sum to {done.sums[row]:.6g}, not 1" for row in wrong[:_MOST_LISTED]
        ]
    for finding in [
        *faults,
        *([f"{wrong.size - _MOST_LISTED:,} more of the kind"] if wrong.size > _MOST_LISTED else []),
    ]:
        reading.faults.error(member, finding)
    reading.faults.raise_if_any(reading.archive.source)
    return SparseRows(rows.starts, rows.columns, done.values, rows.num_columns), done.scaled.size, done.worst_gap()


def _merge_columns(rows: SparseRows) -> SparseRows:
    """Return rows with ascending columns, none twice and none zero; usually a file has them so already."""
    rising = rows.columns[1:] > rows.columns[:-1]
    first_of_row = np.zeros(rows.columns.size + 1, dtype=bool)
    first_of_row[rows.starts] = True
    if (rising | first_of_row[1:-1]).all() and rows.values.all():
        return SparseRows(frozen(rows.starts), frozen(rows.columns), frozen(rows.values), rows.num_columns)
    shape = (rows.num_rows, rows.num_columns)
    return SparseRows.from_entries(rows.row_of_entry(), rows.columns, rows.values, shape=shape)


def _add_stay(
    choices: ActionTable, states: Sequence[str], actions: tuple[str, ...], faults: Faults
) -> tuple[ActionTable, tuple[str, ...]]:
    """Return the choices and actions with one more where a state has none: to stay there for ever.

    states: their names, for the warning that is noted in `faults`.
    """
    stuck = _find_stuck(choices.choice_start)
    if not stuck.size:
        return choices, actions
    faults.warn("states", deadlock_warning([states[state] for state in stuck.tolist()]))
    before, rows = choices.choice_start[stuck], choices.transitions
    entry = rows.starts[before]
    stay = SparseRows(
        ints(np.concatenate(([0], np.cumsum(np.insert(np.diff(rows.starts), before, 1))))),
        ints(np.insert(rows.columns, entry, stuck)),
        floats(np.insert(rows.values, entry, 1.0)),
        rows.num_columns,
    )
    num_added = np.concatenate(([0], np.cumsum(np.diff(choices.choice_start) == 0)))
    chosen = np.insert(choices.choice_action, before, len(actions))
    table = ActionTable(ints(choices.choice_start + num_added), ints(chosen), stay)
    return table, (*actions, distinct([*actions, "stay"])[-1])


def _find_stuck(choice_start: IntArray) -> IntArray:
    """Return the states without a choice."""
    return np.flatnonzero(choice_start[1:] == choice_start[:-1])


def deadlock_warning(states: Sequence[str]) -> str:
    """Return the warning about states in which nothing can happen."""
    count = "1 state has" if len(states) == 1 else f"{len(states):,} states have"
    stay = "stays" if len(states) == 1 else "stay"
    return (
        f"{count} no choice (a deadlock) and {stay} for ever, where the state's reward is earned: {list_names(states)}"
    )


def _read_emission(reading: Reading, states: int, count: int) -> SparseRows:
    """Return what is seen in every state, [state, observation].

    states, count: the declared numbers of states and observations.
    A state has one observation, or a distribution where the index declares the type of their probabilities.
    """
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
    member = f"{folder}/probabilities.bin"
    scaled, _, _ = _check_rows(reading, SparseRows(starts, seen, chances, count), member, lambda row: f"state {row}")
    return _merge_columns(scaled)


__all__ = ["induced_chain", "read_umb", "unfold_observer", "write_umb"]

_MAX_NAMES = 1 << 30  # characters of all state names together
MAX_MARKED = 50_000_000  # states that labels mark, and likewise choices that rewards are given for
_MAX_UNSEEN = 1 << 16  # observations that no state shows


def read_umb(path: str | os.PathLike[str], *, reward: str | None = None, max_bytes: int = MAX_BYTES) -> Imported:
    """Read a discrete-time UMB model with at most one player; a Markov chain becomes an MDP of one choice per state.

    path: the file.
    reward: the reward structure that becomes MDP.rewards; the first if it is None.
    max_bytes: the most that the members may hold unpacked, so that no small file fills the memory.
    Raises InputError that names the file and the member at fault.
    """
    check_path("path", path)
    check_numbers({"max_bytes": (max_bytes, 1, 2**60)}, whole=("max_bytes",))
    check_types({"reward": (reward, str, "the name of a reward structure")}, optional=("reward",))
    archive = read_archive(path, max_bytes=max_bytes)
    reading = open_index(archive)
    choice_start, transitions = _read_transitions(reading)  # first: it holds the declared sizes against real bytes
    variables = valuations(reading, "states", reading.counts["states"])
    states = _state_names(reading, variables)
    actions, choice_action = _read_actions(reading, choice_start)
    rewards = _read_rewards(reading, choice_start, transitions)
    choices = ActionTable(frozen(choice_start), frozen(choice_action), _merge_columns(transitions))
    start, labels = _read_start(reading), _read_labels(reading)
    choices, actions = _add_stay(choices, states, actions, reading.faults)
    mdp = MDP(
        states=states,
        actions=actions,
        start=start,
        choice_start=choices.choice_start,
        choice_action=choices.choice_action,
        transitions=choices.transitions,
        rewards=_choose_rewards(archive, rewards, reward, choices.choice_action.size),
        labels=labels,
    )
    observer = _observer(reading)
    return Imported(place_states(mdp, variables), observer, variables, rewards, tuple(reading.faults.warnings))


def _state_names(reading: Reading, variables: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Return the names of states: those that opaq wrote, else made of their variables."""
    if "opaq/states/string-mapping.bin" in reading.archive.members:
        return distinct(reading.archive.strings("opaq/states", reading.counts["states"]))
    count, longest = reading.counts["states"], sum(len(name) + 22 for name in variables)
    if count * longest > _MAX_NAMES:
        finding = f"the names of {count:,} states, one by {len(variables):,} variables, would take {count * longest:,}"
        reading.archive.fail("valuations.states", f"{finding} characters; the limit is {_MAX_NAMES:,}")
    return entry_names(variables, count, prefix="s")


def _read_start(reading: Reading) -> FloatArray:
    """Return the start: the distribution that opaq wrote, else every initial state as likely."""
    archive, counts = reading.archive, reading.counts
    if not counts["initial-states"]:
        archive.fail(INDEX, "the model has no initial state")
    initial = archive.bits("state-is-initial.bin", counts["states"])
    marked = np.count_nonzero(initial)
    if marked != counts["initial-states"]:
        archive.fail("state-is-initial.bin", f"marks {marked} states, not {counts['initial-states']}")
    member = "opaq/start.bin"
    if member in archive.members:
        start = archive.array(member, "<f8", counts["states"])
        if not (start.min() >= 0 and abs(start.sum() - 1) <= SLACK):  # False where one is NaN or infinite
            archive.fail(member, "is not a distribution over the states")
        return frozen(start)
    if counts["initial-states"] > 1:
        finding = f"{counts['initial-states']} initial states: each is taken to be equally likely"
        reading.faults.warn("start", finding, "the problem file can state another start")
    return frozen(initial / marked)


def _read_actions(reading: Reading, choice_start: IntArray) -> tuple[tuple[str, ...], IntArray]:
    """Return the action names, and [choice] -> action; no state has two choices of one action.

    choice_start: the first choice of every state. Without names of actions in the file they are "a0", "a1", ...
    """
    count, folder = reading.counts["choice-actions"], "actions/choices"
    if not count or f"{folder}/values.bin" not in reading.archive.members:
        position = np.arange(choice_start[-1]) - np.repeat(choice_start[:-1], np.diff(choice_start))
        return tuple(f"a{number}" for number in range(int(position.max(initial=-1)) + 1)), position
    chosen = reading.archive.indices(f"{folder}/values.bin", "<u4", int(choice_start[-1]), below=count)
    named = f"{folder}/string-mapping.bin" in reading.archive.members
    used = np.unique(chosen) if count > chosen.size else np.flatnonzero(np.bincount(chosen, minlength=count))
    chosen = chosen if used.size == count else np.searchsorted(used, chosen)
    if not named:
        return _separate_choices(tuple(f"a{action}" for action in used.tolist()), chosen, choice_start)
    every = distinct([name or "tau" for name in reading.archive.strings(folder, count)])  # tau: a step without a name
    names = every if used.size == count else tuple(every[action] for action in used.tolist())
    return _separate_choices(names, chosen, choice_start)


def _separate_choices(
    names: tuple[str, ...], chosen: IntArray, choice_start: IntArray
) -> tuple[tuple[str, ...], IntArray]:
    """Rename the second, third, ... choice of the same action in a state to "name.2", "name.3", ...

    names: of the actions; chosen: [choice] -> action; choice_start: the first choice of every state.
    Returns the new names and actions.
    """
    state_of = np.arange(choice_start.size - 1).repeat(choice_start[1:] - choice_start[:-1])
    key = state_of * len(names) + chosen
    if (key[1:] > key[:-1]).all():
        return names, chosen
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    first = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    rank = np.empty(key.size, dtype=np.int64)
    rank[order] = np.arange(key.size) - np.repeat(first, np.diff(np.append(first, key.size)))
    used, action = np.unique(rank * len(names) + chosen, return_inverse=True)
    ranked_names = [divmod(entry, len(names)) for entry in used.tolist()]
    return distinct([names[name] + (f".{rank + 1}" if rank else "") for rank, name in ranked_names]), action


def _annotations(reading: Reading, group: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the folder, the name and the description of every annotation of a group."""
    for key, declared in mapping(reading, mapping(reading, reading.index, "annotations"), group).items():
        if not isinstance(declared, dict) or not isinstance(declared.get("applies-to"), list):
            reading.archive.fail(INDEX, f"annotations.{group}.{key} does not say what it applies to")
        if len(declared["applies-to"]) > len(set(map(str, declared["applies-to"]))):
            reading.archive.fail(INDEX, f"annotations.{group}.{key} applies to the same twice")
        name = declared.get("alias", key)
        yield f"annotations/{group}/{key}", name if isinstance(name, str) else key, declared


def _read_labels(reading: Reading) -> dict[str, IntArray]:
    """Return label -> states, ascending; labels of anything else than states are left out with a warning."""
    labels: dict[str, IntArray] = {}
    total = 0
    for folder, name, declared in _annotations(reading, "aps"):
        if "states" not in declared["applies-to"]:
            reading.faults.warn(folder, "only labels of states are read")
            continue
        if kind_of(reading.archive, declared.get("type"), folder).name != "bool":
            reading.archive.fail(folder, "a label must be of type bool")
        marked = reading.archive.bits(f"{folder}/states/values.bin", reading.counts["states"])
        total += int(np.count_nonzero(marked))
        if total > MAX_MARKED:
            reading.archive.fail(folder, f"the labels up to here mark {total:,} states; the limit is {MAX_MARKED:,}")
        labels[name] = frozen(np.flatnonzero(marked))
    return labels


def _read_rewards(reading: Reading, choice_start: IntArray, rows: SparseRows) -> dict[str, FloatArray]:
    """Return reward -> [choice]: what the state gives, what the choice gives, and what its branches give on average.

    choice_start: the first choice of every state; rows: the branches of the choices.
    States without a choice have one here: to stay. Raises InputError for amounts beyond MAX_REWARD.
    """
    rewards: dict[str, FloatArray] = {}
    num_choices = int(choice_start[-1])
    for folder, name, declared in _annotations(reading, "rewards"):
        if (len(rewards) + 1) * num_choices > MAX_MARKED:
            finding = f"{len(rewards) + 1:,} rewards for {num_choices:,} choices"
            reading.archive.fail(
                folder,
                f"{finding} are {(len(rewards) + 1) * num_choices:,} numbers",
                f"at most {MAX_MARKED:,} can be read",
            )
        total, of_state = np.zeros(num_choices), np.zeros(choice_start.size - 1)
        for entity in declared["applies-to"]:
            if entity not in ("states", "choices", "branches"):
                reading.archive.fail(folder, f"applies to {entity!r}, not to states, choices or branches")
            member = f"{folder}/{entity}/values.bin"
            kind = kind_of(reading.archive, declared.get("type"), folder)
            values = numbers(reading.archive, member, kind, reading.counts[entity])
            small = np.abs(values) <= MAX_REWARD  # False for NaN
            if not small.all():
                wrong = int(np.argmin(small))
                finding = f"entry {wrong} is {values[wrong]:g}, not a finite number up to {MAX_REWARD:g}"
                reading.archive.fail(member, finding, "scale the rewards down")
            total += _per_choice(values, entity, choice_start, rows)
            of_state = values if entity == "states" else of_state
        rewards[name] = _insert_stay(total, of_state, choice_start)
    return rewards


def _insert_stay(values: FloatArray, of_state: FloatArray, choice_start: IntArray) -> FloatArray:
    """Return a reward with what states without a choice earn for staying there: their own reward."""
    stuck = _find_stuck(choice_start)
    return floats(np.insert(values, choice_start[stuck], of_state[stuck])) if stuck.size else frozen(values)


def _per_choice(values: FloatArray, entity: str, choice_start: IntArray, rows: SparseRows) -> FloatArray:
    """Return the reward of every choice from values of states, choices or branches (`entity`).

    rows: the branches of the choices; values of branches are averaged by their probabilities.
    """
    if entity == "states":
        return np.repeat(values, np.diff(choice_start))
    if entity == "choices":
        return values
    expected = np.bincount(rows.row_of_entry(), weights=values * rows.values, minlength=rows.num_rows)
    return expected.astype(np.float64)


def _choose_rewards(archive: Archive, rewards: Mapping[str, FloatArray], name: str | None, choices: int) -> FloatArray:
    """Return the rewards that become those of the model: by name, the first, or zeros."""
    if name is None:
        return next(iter(rewards.values()), frozen(np.zeros(choices)))
    if name not in rewards:
        known = ", ".join(rewards) or "none"
        archive.fail("rewards", f"there is no reward structure '{name}'", f"the file has: {known}")
    return rewards[name]


def _observer(reading: Reading) -> Observer | None:
    """Return the observer of the file's observations; None when it has none of states."""
    count, states = reading.counts["observations"], reading.counts["states"]
    if not count:
        return None
    if reading.system.get("observations-apply-to") != "states":
        finding = "observations of transitions are not read"
        reading.faults.warn("observations", finding, "the problem file must state the observer")
        return None
    emission = _read_emission(reading, states, count)
    if count > _MAX_UNSEEN + emission.columns.size:
        reading.archive.fail(INDEX, f"{count:,} observations are declared for {states:,} states")
    return Observer(observations=_observation_names(reading, count), emission=emission)


def _observation_names(reading: Reading, count: int) -> tuple[str, ...]:
    """Return the names of observations: those that opaq wrote, else made of their variables."""
    if "opaq/observations/string-mapping.bin" in reading.archive.members:
        return distinct(reading.archive.strings("opaq/observations", count))
    # Storm 2.0 writes wrong values of observables: what it says is not taken for a name.
    if mapping(reading, reading.index, "file-data").get("tool") == "Storm":
        return entry_names({}, count, prefix="o")
    return entry_names(valuations(reading, "observations", count), count, prefix="o")
