"""Read Cassandra's .pomdp files (pomdp.org), statement by statement.

The name of a file comes in, an `Imported` model goes out: the MDP, the observer of its observations, the discount and
warnings.

    file      ::= preamble* statement*
    preamble  ::= "discount:" number | "values:" ("reward" | "cost")
                | ("states:" | "actions:" | "observations:") (number | name+)
    statement ::= "start:" row | "start" ("include:" | "exclude:") state+
                | ("T:" | "O:") action (":" state (":" next)?)? (number+ | "uniform" | "identity" | "reset")
                | "R:" action ":" state (":" next (":" observation)?)? number+

Later statements override earlier ones, and `*` stands for every index: `T: listen : * : * 0.5`. Without `start:` every
state is as likely.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

import numpy as np

from opaq.errors import check_path
from opaq.files import read_bytes
from opaq.formats.names import unique_name
from opaq.formats.pomdp.tables import (
    ANY,
    HEADS,
    KINDS,
    MAX_CHARACTERS,
    MAX_ENTRIES,
    MOST_FAULTS,
    Filled,
    ProbabilityTable,
    Rewards,
    SkipError,
    StopError,
    Walk,
    parse_number,
)
from opaq.model.arrays import SLACK, FloatArray, NormalisedRows, SparseRows, floats, ints, normalise, normalise_rows
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MDP, Imported
from opaq.model.observer import Observer


@dataclass(slots=True)
class _Statements:
    """What the statements of a file say so far.

    discount, start: None where the file states none; costs: whether values are costs, so negative rewards.
    tables: "T" and "O" -> their probabilities; rewards: the rules of `R:` statements.
    """

    discount: float | None = None
    costs: bool = False
    start: FloatArray | None = None
    tables: dict[str, ProbabilityTable] = field(default_factory=dict)
    rewards: Rewards | None = None


def _assemble_model(read: _Statements, walk: Walk) -> Imported | None:
    """Return the model, once all statements are read; None when there are faults, which are noted.

    read: the tables; walk: the names and the faults. A file without observations gives a model without an observer.
    """
    for head in ("states", "actions"):
        if head not in walk.names:
            walk.faults.error("", f"the file declares no {head}", f"add a line '{head}: ...'")
    if walk.faults.errors:
        return None
    states, actions = walk.names_of("states"), walk.names_of("actions")
    walk.check_size(len(states), len(actions))
    transitions = _read_table(read, "T", len(states), walk)
    observations = walk.names_of("observations") if "observations" in walk.names else ()
    emission = _read_table(read, "O", len(observations), walk) if observations else None
    if walk.faults.errors or transitions is None:
        return None
    rewards = _average_rewards(read, transitions, emission, walk)
    row = np.arange(len(actions) * len(states))
    start = np.full(len(states), 1 / len(states)) if read.start is None else read.start
    mdp = MDP(
        states=states,
        actions=actions,
        start=floats(start),
        choice_start=ints(np.arange(len(states) + 1) * len(actions)),
        choice_action=ints(np.tile(np.arange(len(actions)), len(states))),
        transitions=_reorder_rows(transitions, row % len(states) * len(actions) + row // len(states)),
        rewards=floats(rewards.reshape(len(actions), len(states)).T.reshape(-1)),
        labels={},
    )
    observer = None if emission is None else _observer(emission, len(states), observations)
    return Imported(mdp, observer, warnings=tuple(walk.faults.warnings), discount=read.discount)


def _read_table(read: _Statements, head: str, width: int, walk: Walk) -> SparseRows | None:
    """Return the rows of a table, [action * num_states + state, column], each summing to 1; None after noting bad ones.

    read: the statements; head: "T" or "O"; width: how many columns it has.
    Rows that miss 1 slightly are scaled, with one warning for all.
    """
    actions, states = len(walk.names_of("actions")), len(walk.names_of("states"))
    filled = (read.tables.get(head) or ProbabilityTable(actions, states, width)).collect()
    done = normalise_rows(filled.rows, filled.values, actions * states)
    if done.off.size:
        _note_sums(head, filled, done, walk)
        return None
    if done.scaled.size:
        at = int(filled.touched[np.abs(done.sums - 1).argmax()])
        count = f"{done.scaled.size:,} of {actions * states:,}"
        finding = f"rows of {head} miss the sum 1 ({count}), by at most {done.worst_gap():.2g}"
        walk.faults.warn(walk.where(at), finding, "they were scaled to sum to 1")
    return SparseRows.from_entries(filled.rows, filled.columns, done.values, shape=(actions * states, width))


def _note_sums(head: str, filled: Filled, done: NormalisedRows, walk: Walk) -> None:
    """Note the rows that do not sum to 1, at most MOST_FAULTS of them one by one.

    head: "T" or "O"; filled: the table, with the statement that had the last word on each row; done: the sums.
    """
    states, actions, faults = walk.names_of("states"), walk.names_of("actions"), walk.faults
    for row in done.off[:MOST_FAULTS].tolist():
        action, state = divmod(row, len(states))
        name, line = f"{head}: {actions[action]} : {states[state]}", int(filled.touched[row])
        if line < 0:
            faults.error("", f"{name} has no probabilities", f"add a '{head}:' statement for it")
        else:
            finding = f"{name}: probabilities sum to {done.sums[row]:.7g}, not 1"
            faults.error(walk.where(line), finding, "make them sum to 1")
    if done.off.size > MOST_FAULTS:
        faults.error("", f"and {done.off.size - MOST_FAULTS:,} more rows of {head} that do not sum to 1")


def _average_rewards(read: _Statements, transitions: SparseRows, emission: SparseRows | None, walk: Walk) -> FloatArray:
    """Return R(action, state), averaged over next states and observations; costs are negative rewards.

    transitions, emission: the tables of `T:` and `O:`; rows are action * num_states + state.
    Raises StopError, after noting it, when there are more than MAX_ENTRIES cases to average over.
    """
    if read.rewards is None:
        return np.zeros(transitions.num_rows)
    if read.rewards.cases(transitions, emission) > MAX_ENTRIES:
        finding = f"rewards depend on more than {MAX_ENTRIES:,} cases of next state and observation"
        walk.faults.error("", finding, "give them by action and state")
        raise StopError
    value = read.rewards.average(transitions, emission)
    return -value if read.costs else value


def _reorder_rows(matrix: SparseRows, new_row: np.ndarray) -> SparseRows:
    """Return the same rows in another order: row i goes to new_row[i]."""
    rows = new_row[matrix.row_of_entry()]
    return SparseRows.from_entries(rows, matrix.columns, matrix.values, shape=(matrix.num_rows, matrix.num_columns))


def _observer(emission: SparseRows, num_states: int, observations: tuple[str, ...]) -> Observer:
    """Return the observer of the model's observations.

    emission: [action * num_states + state, observation]; observations: their names.
    Where they depend on the action that led to a state, time 0, which has no action, shows a blank called "start".
    """
    width, row = len(observations), emission.row_of_entry()
    first = row < num_states
    if _same_for_all_actions(emission, num_states):
        shape = (num_states, width)
        seen = SparseRows.from_entries(row[first], emission.columns[first], emission.values[first], shape=shape)
        return Observer(observations, seen)
    at_start = SparseRows.from_entries(
        np.arange(num_states), np.full(num_states, width), np.ones(num_states), shape=(num_states, width + 1)
    )
    shape = (emission.num_rows, width + 1)
    after = SparseRows.from_entries(row, emission.columns, emission.values, shape=shape)
    return Observer((*observations, unique_name("start", observations)), at_start, after_action=after)


def _same_for_all_actions(emission: SparseRows, num_states: int) -> bool:
    """Return whether observations depend on the state alone."""
    counts = np.diff(emission.starts).reshape(-1, num_states)
    if (counts != counts[0]).any():
        return False
    size = int(counts[0].sum())
    columns, values = emission.columns.reshape(-1, size), emission.values.reshape(-1, size)
    return bool((columns == columns[0]).all() and (values == values[0]).all())


def read_pomdp(path: str | os.PathLike[str]) -> Imported:
    """Read a .pomdp file: every action is enabled in every state, R(s, a) is the mean over what comes of it.

    path: the file.
    Raises InputError with every fault, each with its line and column.
    """
    check_path("path", path)
    content = read_bytes(path, max_bytes=MAX_CHARACTERS, advice="use a .umb file")
    walk = Walk.through(content.decode("utf-8", errors="replace"))
    imported = None
    with contextlib.suppress(StopError):
        imported = _assemble_model(_Reader(walk).read(), walk)
    walk.faults.raise_if_any(os.fspath(path))
    assert imported is not None
    return imported


@dataclass(slots=True)
class _Reader:
    """Fills the tables, one statement after the other."""

    walk: Walk
    into: _Statements = field(default_factory=_Statements)

    def read(self) -> _Statements:
        """Read every statement; a fault skips to the next one."""
        walk, tokens = self.walk, self.walk.tokens
        while tokens.text:
            try:
                if not walk.at_head():
                    listed = ", ".join(f"{head}:" for head in HEADS)
                    walk.fail(f"expected a statement, found {tokens.quote()}", f"statements begin with {listed}")
                self._statement(tokens.text)
            except SkipError:
                tokens.take()
                walk.to_next_head()
        return self.into

    def _statement(self, head: str) -> None:
        """Read one statement, told by its first word."""
        if head in ("T", "O"):
            self._probabilities(head)
        elif head == "R":
            self._reward()
        elif head == "start":
            self._start()
        else:
            self._preamble(head)

    def _preamble(self, head: str) -> None:
        """Read a declaration: names, the discount, or whether values are rewards or costs."""
        walk = self.walk
        if head in KINDS:
            if head in walk.names:
                walk.fail(f"'{head}' is declared a second time", "keep one of the two")
            walk.names[head] = None
        walk.tokens.take()
        walk.expect(":")
        if head in KINDS:
            walk.declare(head)
        elif head == "values":
            self.into.costs = walk.word("reward", "cost") == "cost"
        else:
            value = walk.number()
            if not 0 <= value <= 1:
                walk.fail(f"the discount is {value:g}, not between 0 and 1", at=walk.tokens.at - 1)
            self.into.discount = value

    def _start(self) -> None:
        """Read a `start:` statement: a row, or the states that are included or excluded, each as likely.

        `start: 0.5 0.5`, `start: left`, `start: uniform`, `start include: left right`.
        """
        walk, head = self.walk, self.walk.tokens.at
        num_states = len(walk.names_of("states"))
        walk.count_written(num_states, head)
        walk.tokens.take()
        how = walk.tokens.take() if walk.tokens.text in ("include", "exclude") else ""
        walk.expect(":")
        if not how:
            self.into.start = self._start_row(head, num_states)
            return
        chosen = np.zeros(num_states, dtype=bool)
        while walk.tokens.text and not walk.at_head():
            chosen[walk.pick("states", any_allowed=False)] = True
        weights = (chosen if how == "include" else ~chosen).astype(np.float64)
        if not weights.any():
            walk.fail("leaves no state to start in", at=head + 1)
        self.into.start = weights / weights.sum()

    def _start_row(self, head: int, num_states: int) -> FloatArray:
        """Return the start from `uniform`, one state, or one probability per state.

        head: the token of the statement, for faults; num_states: how many numbers a row has.
        """
        walk, tokens = self.walk, self.walk.tokens
        if tokens.skip("uniform"):
            return np.full(num_states, 1 / num_states)
        text = tokens.text
        single = not text or parse_number(tokens.texts[tokens.at + 1]) is None
        if parse_number(text) is None or (single and text.isdigit() and (num_states > 1 or text == "0")):
            chosen = np.zeros(num_states)
            chosen[walk.pick("states", any_allowed=False)] = 1.0
            return chosen
        weights = walk.numbers(num_states, "one a state")
        done = normalise(weights)
        total = float(done.sums[0])
        if weights.min() < 0 or done.off.size:
            finding = "one of them is negative" if weights.min() < 0 else f"sum to {total:.7g}, not 1"
            walk.fail(f"start: the probabilities: {finding}", at=head)
        if done.scaled.size:
            finding = f"start: the probabilities sum to {total:.9g}, not 1"
            walk.faults.warn(walk.where(head), finding, "they were scaled to sum to 1")
        return done.values

    def _probabilities(self, head: str) -> None:
        """Read a `T:` or `O:` statement into its table: one cell, a row or a matrix, by how many indices it names.

        head: "T" or "O".
        """
        walk, line, kind = self.walk, self.walk.tokens.at, "states" if head == "T" else "observations"
        actions, states, columns = (len(walk.names_of(name)) for name in ("actions", "states", kind))
        if head not in self.into.tables:
            walk.check_size(states, actions)
            self.into.tables[head] = ProbabilityTable(actions, states, columns)
        walk.tokens.take()
        cell = walk.indices(("actions", "states", kind))
        if len(cell) == 3:
            self._cell(self.into.tables[head], cell, line)
        else:
            self._rows(self.into.tables[head], [*cell, ANY][:2], line, whole=len(cell) == 1)

    def _cell(self, table: ProbabilityTable, cell: list[int], line: int) -> None:
        """Read the probability of one cell.

        cell: action, state and column, each perhaps ANY; line: the token of the statement.
        """
        action, state, column = cell
        value = self.walk.number()
        self._check_range(np.array([value]), self.walk.tokens.at - 1)
        self.walk.count_written(
            table.count_entries(action, state, table.num_columns if column == ANY and value else 1), line
        )
        table.set_cell(action, state, column, value, line)

    def _rows(self, table: ProbabilityTable, cell: list[int], line: int, *, whole: bool) -> None:
        """Read a row or, when no state is named, a matrix; in numbers or by a word.

        cell: the action and the state; line: the token of the statement; whole: whether a matrix is meant.
        """
        (action, state), width, first = cell, table.num_columns, self.walk.tokens.at
        if self.walk.tokens.text in ("uniform", "identity", "reset"):
            self._read_keyword_rows(table, cell, line, whole=whole)
            return
        count = table.num_states * width if whole else width
        values = self.walk.numbers(count, f"a row for each of {table.num_states:,} states" if whole else "a row")
        self._check_range(values, first)
        self.walk.count_written(table.count_entries(action, 0 if whole else state, int(np.count_nonzero(values))), line)
        if whole:
            table.set_matrix(action, values.reshape(table.num_states, width), line)
        else:
            table.set_row(action, state, values, line)

    def _read_keyword_rows(self, table: ProbabilityTable, cell: list[int], line: int, *, whole: bool) -> None:
        """Read `uniform`, `identity` or `reset` in place of numbers; the arguments are those of `_rows`.

        `identity` is for whole square matrices, `reset` sets rows of transitions to the start.
        """
        (action, state), width, start = cell, table.num_columns, self.into.start
        word, moves = self.walk.tokens.text, table is self.into.tables.get("T")
        if word == "identity" and not (whole and (moves or width == table.num_states)):
            self.walk.fail("'identity' needs a square matrix", "name an action and no state")
        if word == "reset" and (start is None or not moves):
            self.walk.fail("'reset' needs a 'start:' before it, and a 'T:' statement")
        self.walk.tokens.take()
        self.walk.count_written(table.count_entries(action, state, 1 if word == "identity" else width), line)
        if word == "identity":
            table.set_identity(action, line)
        else:
            row = start if word == "reset" and start is not None else np.full(width, 1 / width)
            table.set_row(action, state, row, line)

    def _reward(self) -> None:
        """Read an `R:` statement; a file without observations has one part less.

        With fewer indices than axes the numbers run through the others, the last one fastest.
        """
        walk, line = self.walk, self.walk.tokens.at
        axes = ("actions", "states", "states", "observations")[: 4 if "observations" in walk.names else 3]
        sizes = tuple(len(walk.names_of(axis)) for axis in axes)
        if self.into.rewards is None:
            walk.check_size(sizes[1], sizes[0])
            self.into.rewards = Rewards(sizes)
        if self.into.rewards.sizes != sizes:
            walk.fail("observations were declared after an 'R:' statement", "declare them before it")
        walk.tokens.take()
        cell = walk.indices(axes)
        missing = sizes[len(cell) :]
        if missing and (len(missing) > 2 or len(cell) < 2):
            walk.expect(":")
        first = walk.tokens.at
        if missing:
            values = walk.numbers(int(np.prod(missing)), " times ".join(f"{size:,}" for size in missing))
        else:
            values = np.array([walk.number()])
        wrong = np.flatnonzero(np.abs(values) > MAX_REWARD)
        if wrong.size:
            finding = f"the reward {values[wrong[0]]:g} is beyond {MAX_REWARD:g}"
            walk.fail(finding, "scale it", at=first + int(wrong[0]))
        self.into.rewards.set_rules(cell, values, line)

    def _check_range(self, values: FloatArray, first: int) -> None:
        """Note a probability outside 0 to 1; `first` is the token of the first value."""
        wrong = np.flatnonzero((values < 0) | (values > 1 + SLACK))
        if wrong.size:
            finding = f"the probability {values[wrong[0]]:g} is not between 0 and 1"
            self.walk.fail(finding, at=first + int(wrong[0]))
