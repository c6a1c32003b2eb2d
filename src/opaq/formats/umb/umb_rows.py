"""Rows of probabilities in a UMB file: transitions and observations, checked, scaled and in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opaq.choices import some
from opaq.errors import Faults
from opaq.formats.naming import distinct
from opaq.formats.umb.umb_archive import Archive
from opaq.formats.umb.umb_index import Reading
from opaq.formats.umb.umb_values import kind_of, numbers
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, frozen, ints
from opaq.model.distributions import normalise_rows
from opaq.spec.transitions import Choices

_SHOWN = 5


def read_transitions(reading: Reading) -> tuple[IntArray, SparseRows]:
    """The first choice of every state, and the branches of every choice as they are stored."""
    archive, counts, member = reading.archive, reading.counts, "branch-to-probability.bin"
    states, choices, branches = counts["states"], counts["choices"], counts["branches"]
    targets = archive.indices("branch-to-target.bin", "<u8", branches, below=states)
    starts = _starts(archive, "choice-to-branches.bin", choices, branches)
    choice_start = _starts(archive, "state-to-choices.bin", states, choices)
    state_of = np.repeat(np.arange(choice_start.size - 1), np.diff(choice_start))

    def place(choice: int) -> str:
        state = int(state_of[choice])
        return f"state {state}, choice {choice - int(choice_start[state])}"

    rows = SparseRows(starts, targets, _chances(reading), states)
    scaled, missed, gap = _checked(reading, rows, member, place)
    if missed:
        found = f"the probabilities of {missed:,} choices miss 1 by up to {gap:.1g}: they were scaled to sum to 1"
        reading.faults.warn(member, found)
    return choice_start, scaled


def _starts(archive: Archive, member: str, rows: int, entries: int) -> IntArray:
    """Where rows start; the member may be left out where every row has one entry."""
    if member not in archive.members and rows == entries:
        return np.arange(rows + 1)
    return archive.offsets(member, rows, entries)


def _chances(reading: Reading) -> FloatArray:
    declared, branches = reading.system.get("branch-probability-type"), reading.counts["branches"]
    if declared is None:
        return np.ones(branches)  # a choice of several branches is then refused by its sum
    kind = kind_of(reading.archive, declared, "transition-system.branch-probability-type")
    return numbers(reading.archive, "branch-to-probability.bin", kind, branches)


def _checked(
    reading: Reading, rows: SparseRows, member: str, place: Callable[[int], str]
) -> tuple[SparseRows, int, float]:
    """Rows that sum to 1, how many were scaled, and by how much at most; others are refused."""
    values, row_of = rows.values, rows.row_of_entry()
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    faults = [f"{place(int(row_of[entry]))}: {values[entry]} is not a probability" for entry in wrong[:_SHOWN]]
    if not wrong.size:
        done = normalise_rows(row_of, values, rows.num_rows)
        wrong = done.off
        faults = [f"{place(int(row))}: probabilities sum to {done.sums[row]:.6g}, not 1" for row in wrong[:_SHOWN]]
    for found in [*faults, *([f"{wrong.size - _SHOWN:,} more of the kind"] if wrong.size > _SHOWN else [])]:
        reading.faults.error(member, found)
    reading.faults.raise_if_any(reading.archive.source)
    return SparseRows(rows.starts, rows.columns, done.values, rows.num_columns), done.scaled.size, done.worst_gap()


def merged(rows: SparseRows) -> SparseRows:
    """Columns ascending in every row, none twice and none zero; usually a file has them so already."""
    rising = rows.columns[1:] > rows.columns[:-1]
    first_of_row = np.zeros(rows.columns.size + 1, dtype=bool)
    first_of_row[rows.starts] = True
    if (rising | first_of_row[1:-1]).all() and rows.values.all():
        return SparseRows(frozen(rows.starts), frozen(rows.columns), frozen(rows.values), rows.num_columns)
    shape = (rows.num_rows, rows.num_columns)
    return SparseRows.from_entries(rows.row_of_entry(), rows.columns, rows.values, shape=shape)


def without_deadlocks(
    choices: Choices, states: Sequence[str], actions: tuple[str, ...], faults: Faults
) -> tuple[Choices, tuple[str, ...]]:
    """States without a choice stay where they are for ever, by an action of its own."""
    stuck = np.flatnonzero(np.diff(choices.choice_start) == 0)
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
    moved = np.concatenate(([0], np.cumsum(np.diff(choices.choice_start) == 0)))
    chosen = np.insert(choices.choice_action, before, len(actions))
    grown = Choices(ints(choices.choice_start + moved), ints(chosen), stay)
    return grown, (*actions, distinct([*actions, "stay"])[-1])


def deadlock_warning(states: Sequence[str]) -> str:
    """What is done about states in which nothing can happen."""
    count = "1 state has" if len(states) == 1 else f"{len(states):,} states have"
    stay = "stays" if len(states) == 1 else "stay"
    return f"{count} no choice (a deadlock) and {stay} for ever, where the state's reward is earned: {some(states)}"


def read_emission(reading: Reading, states: int, count: int) -> SparseRows:
    """What is seen in every state, for sure or by chance."""
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
    scaled, _, _ = _checked(reading, SparseRows(starts, seen, chances, count), member, lambda row: f"state {row}")
    return merged(scaled)
