"""Walk through the words of a .pomdp file, and keep the tables they fill.

Later lines override earlier ones, and `*` is every index. `Walk` takes words and notes faults, `ProbabilityTable` holds
what `T:` and `O:` say, `Rewards` what `R:` says. Words are separated by space, `:` and `*` are words of their own, and
`#` begins a comment.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from opaq.errors import Faults, suggestion
from opaq.lexer import InFile, Tokens
from opaq.model.arrays import FloatArray, IntArray, SparseRows, expand_rows
from opaq.model.mdp import positions

ANY = -1  # the index written `*`
MAX_CHARACTERS = 32_000_000
_MAX_NAMES = 100_000  # states, and likewise actions and observations
_MAX_CHOICES = 2_000_000  # states times actions
MAX_ENTRIES = 10_000_000  # table entries written, and cases rewards are averaged over
MOST_FAULTS = 50
KINDS = {"states": "state", "actions": "action", "observations": "observation"}
HEADS = ("discount", "values", *KINDS, "start", "T", "O", "R")
_PATTERN = re.compile(r"(?P<skip>#[^\n]*)|:|\*|[^\s:#*]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class SkipError(Exception):
    """Raised to go on with the next statement: this one is unusable, and noted."""


class StopError(Exception):
    """Raised to end the reading: nothing more can be made of the file, and what is wrong is noted."""


def parse_number(text: str) -> float | None:
    """Return the finite number that a word stands for, e.g. "0.5", ".5" or "1e-3"; None if it stands for none."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def _is_index(text: str) -> bool:
    """Return whether a word is written like the number of a state, an action or an observation."""
    return text.isascii() and text.isdigit()


@dataclass(slots=True)
class Walk:
    """The words, the names declared so far, and what is wrong.

    names: head ("states", "actions", "observations") -> its names; None: declared, but unusable.
    index: head -> name -> number.
    written: how many table entries the statements so far have written.
    """

    tokens: Tokens
    faults: Faults = field(default_factory=Faults)
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # None: declared, but unusable
    index: dict[str, dict[str, int]] = field(default_factory=dict)
    written: int = 0

    @classmethod
    def through(cls, text: str) -> Walk:
        """Return a walk from the first word of a text."""
        return cls(Tokens(text, _PATTERN, InFile(limit=MAX_CHARACTERS)))

    def where(self, at: int) -> str:
        """Return the line and column of a word, in words."""
        line, column = self.tokens.position(at)
        return f"line {line}, column {column}"

    def fail(self, finding: str, advice: str = "", *, at: int | None = None) -> NoReturn:
        """Note a fault and leave the statement: raises SkipError.

        at: the word at fault, the next one by default.
        After MOST_FAULTS faults the reading ends with StopError.
        """
        where = self.where(self.tokens.at if at is None else at)
        if len(self.faults.errors) >= MOST_FAULTS:
            self.faults.error(where, "and from here on more faults, which are not listed")
            raise StopError
        self.faults.error(where, finding, advice)
        raise SkipError

    def stop(self, finding: str, advice: str, *, at: int | None = None) -> NoReturn:
        """Note a fault that ends the reading: raises StopError; `at` is the word at fault, the next one by default."""
        self.faults.error(self.where(self.tokens.at if at is None else at), finding, advice)
        raise StopError

    def count_written(self, entries: int, at: int) -> None:
        """Add the entries that a statement writes; stop when all together are more than MAX_ENTRIES.

        entries: how many table entries it sets; at: its first word, for the fault. Raises StopError.
        """
        self.written += entries
        if self.written > MAX_ENTRIES:
            finding = f"the tables grow beyond {MAX_ENTRIES:,} entries here"
            self.stop(finding, "a model this dense cannot be read", at=at)

    def check_size(self, states: int, actions: int) -> None:
        """Stop at models whose rows alone are too many: raises StopError beyond _MAX_CHOICES states times actions."""
        if states * actions > _MAX_CHOICES:
            finding = f"{states:,} states times {actions:,} actions are too many"
            self.stop(finding, f"at most {_MAX_CHOICES:,} pairs can be read")

    def at_head(self) -> bool:
        """Return whether a statement begins here; a name like `T` after a colon does not count."""
        texts, at = self.tokens.texts, self.tokens.at
        if texts[at] not in HEADS or (at > 0 and texts[at - 1] == ":"):
            return False
        return texts[at + 1] == ":" or (texts[at] == "start" and texts[at + 1] in ("include", "exclude"))

    def to_next_head(self) -> list[str]:
        """Go on to the next statement; return the words in between."""
        first = self.tokens.at
        while self.tokens.text and not self.at_head():
            self.tokens.take()
        return self.tokens.texts[first : self.tokens.at]

    def expect(self, wanted: str) -> None:
        """Take a word that must be this one; anything else is noted, and raises SkipError."""
        if not self.tokens.skip(wanted):
            self.fail(f"expected '{wanted}', found {self.tokens.quote()}")

    def word(self, *options: str) -> str:
        """Take and return one of some words; anything else is noted, and raises SkipError."""
        if self.tokens.text not in options:
            listed = " or ".join(f"'{option}'" for option in options)
            self.fail(f"expected {listed}, found {self.tokens.quote()}")
        return self.tokens.take()

    def number(self) -> float:
        """Take and return a number; anything else is noted, and raises SkipError."""
        value = parse_number(self.tokens.text)
        if value is None:
            self.fail(f"expected a number, found {self.tokens.quote()}")
        self.tokens.take()
        return value

    def numbers(self, count: int, what: str) -> FloatArray:
        """Take and return exactly `count` numbers; `what` says in a fault what they are."""
        first, values = self.tokens.at, []
        texts, at = self.tokens.texts, first
        while (value := parse_number(texts[at])) is not None:
            values.append(value)
            at += 1
        self.tokens.at = at
        if len(values) != count:
            self.tokens.at = first + min(len(values), count)
            finding = f"expected {count:,} numbers ({what}), found {len(values):,} and then {self.tokens.quote()}"
            self.fail(finding)
        return np.array(values, dtype=np.float64)

    def declare(self, head: str) -> None:
        """Read `states: 3` or `states: left right`, after the colon; names that are counted are "0", "1", ...

        head: "states", "actions" or "observations".
        """
        first, texts = self.tokens.at, self.to_next_head()
        if not texts:
            self.fail(f"expected a number of {head} or their names, found {self.tokens.quote()}")
        counted = len(texts) == 1 and _NUMBER.fullmatch(texts[0]) is not None
        names = tuple(map(str, range(self._count(head, first)))) if counted else self._check_names(head, texts, first)
        self.names[head], self.index[head] = names, positions(names)

    def _count(self, head: str, at: int) -> int:
        """Return the number of names that a declaration gives, from 1 to _MAX_NAMES.

        head: what is declared; at: the word with the number.
        """
        text = self.tokens.texts[at]
        if not _is_index(text) or not text.strip("0"):
            self.fail(f"the number of {head} is {self.tokens.quote(at)}, not a whole number above 0", at=at)
        if len(text.lstrip("0")) > 9 or int(text) > _MAX_NAMES:
            self.fail(f"{text[:20]} {head} are too many", f"at most {_MAX_NAMES:,} can be read", at=at)
        return int(text)

    def _check_names(self, head: str, texts: list[str], first: int) -> tuple[str, ...]:
        """Return the names that a declaration lists, after checking that they are names and different.

        head: what is declared; texts: the names; first: the word of the first one, for faults.
        """
        if len(texts) > _MAX_NAMES:
            self.fail(f"{len(texts):,} {head} are too many", f"at most {_MAX_NAMES:,} can be read", at=first)
        seen: set[str] = set()
        for at, text in enumerate(texts, first):
            if text in (":", "*") or not text.isprintable() or _NUMBER.fullmatch(text):
                self.fail(f"{self.tokens.quote(at)} cannot be the name of a {KINDS[head]}", at=at)
            if text in seen:
                self.fail(f"the {KINDS[head]} {self.tokens.quote(at)} is listed twice", at=at)
            seen.add(text)
        return tuple(texts)

    def names_of(self, head: str) -> tuple[str, ...]:
        """Return the names declared so far; a statement that needs unusable ones is skipped without a further fault.

        head: "states", "actions" or "observations".
        Raises SkipError where they are unusable, or not declared yet, which is noted once.
        """
        if head not in self.names:
            self.names[head] = None
            self.fail(f"'{head}:' must be declared before this statement")
        names = self.names[head]
        if names is None:
            raise SkipError
        return names

    def pick(self, head: str, *, any_allowed: bool = True) -> int:
        """Take a name, a number or `*`, and return its index (ANY for `*`, where that is allowed).

        head: what it is one of; any_allowed: whether `*` may stand here. A name wins over a number. Raises SkipError.
        """
        names, at, text = self.names_of(head), self.tokens.at, self.tokens.take()
        if text == "*" and any_allowed:
            return ANY
        index = self.index[head].get(text)
        if index is None and _is_index(text):
            index = int(text[:10])
        if index is None or index >= len(names):
            self._unknown(at, head, " or '*'" if any_allowed else "")
        return index

    def _unknown(self, at: int, head: str, others: str) -> NoReturn:
        """Note a word that stands for no index, and raise SkipError.

        at: the word; head: what it should be one of; others: what else could stand here, in words.
        """
        names, text, kind = self.names_of(head), self.tokens.texts[at], KINDS[head]
        if _is_index(text):
            self.fail(f"there is no {kind} {text[:20]}", f"they are numbered 0 to {len(names) - 1}", at=at)
        if not text or text in (":", "*"):
            self.fail(f"expected a {kind}{others}, found {self.tokens.quote(at)}", at=at)
        self.fail(f"unknown {kind} {self.tokens.quote(at)}", suggestion(text[:40], names, kind=kind), at=at)

    def indices(self, axes: tuple[str, ...]) -> list[int]:
        """Take `: a : b : ...` as far as it goes and return one index per axis."""
        cell: list[int] = []
        for axis in axes:
            if cell and self.tokens.text != ":":
                break
            self.expect(":")
            cell.append(self.pick(axis))
        if self.tokens.text == ":":
            self.fail(f"more than {len(axes)} parts")
        return cell


_CHUNK = 1_000_000  # rewards are averaged over this many cases at a time


@dataclass(frozen=True, slots=True)
class Filled:
    """The final content of a probability table, and the line that had the last word on each row."""

    rows: IntArray  # [entry]
    columns: IntArray  # [entry]
    values: FloatArray  # [entry]
    touched: IntArray  # [row] -> line, or -1


@dataclass(slots=True)
class ProbabilityTable:
    """P(column | action, state), rows in the order action * num_states + state.

    A later statement overrides an earlier one: every entry has the number of its statement (`line`, which only ever
    grows), and `cleared` keeps for each row the last statement that set all of it. Actions and states may be ANY.
    """

    num_actions: int
    num_states: int
    num_columns: int
    cleared: IntArray = field(init=False)  # [row]: the line that last set the whole row; older entries are void
    _single: list[tuple[int, int, float, int]] = field(default_factory=list)  # row, column, value, line
    _blocks: list[tuple[IntArray, IntArray, FloatArray, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with no row set: `cleared` is -1 everywhere."""
        self.cleared = np.full(self.num_actions * self.num_states, -1, dtype=np.int64)

    def count_entries(self, action: int, state: int, columns: int) -> int:
        """Return how many entries setting `columns` columns of the meant rows makes."""
        rows = (self.num_actions if action == ANY else 1) * (self.num_states if state == ANY else 1)
        return rows * max(columns, 1)

    def set_cell(self, action: int, state: int, column: int, value: float, line: int) -> None:
        """Set one entry, or those of every meant row; a column of ANY sets the whole row to one value.

        action, state: the rows, each perhaps ANY; line: the number of the statement.
        """
        if column == ANY:
            self.set_row(action, state, np.full(self.num_columns, value) if value else np.zeros(0), line)
        elif action != ANY and state != ANY:
            self._single.append((action * self.num_states + state, column, value, line))
        else:
            rows = self._rows(action, state)
            self._blocks.append((rows, np.full(rows.size, column), np.full(rows.size, value), line))

    def set_row(self, action: int, state: int, values: FloatArray, line: int) -> None:
        """Set the whole of every meant row.

        action, state: the rows, each perhaps ANY; values: [column]; line: the number of the statement.
        """
        rows, columns = self._rows(action, state), np.flatnonzero(values)
        self.cleared[rows] = line
        entries = np.repeat(rows, columns.size), np.tile(columns, rows.size), np.tile(values[columns], rows.size)
        self._blocks.append((*entries, line))

    def set_matrix(self, action: int, values: FloatArray, line: int) -> None:
        """Set the rows of all states; `values` is [state, column]."""
        states, columns = np.nonzero(values)
        self._set_all(action, states, columns, values[states, columns], line)

    def set_identity(self, action: int, line: int) -> None:
        """Set column s to 1 in the row of state s."""
        states = np.arange(self.num_states)
        self._set_all(action, states, states, np.ones(self.num_states), line)

    def collect(self) -> Filled:
        """Return the entries that were not overridden, by row and column."""
        rows, columns, values, lines = self._entries()
        touched = self.cleared.copy()
        np.maximum.at(touched, rows, lines)
        live = lines >= self.cleared[rows]
        rows, columns, values, lines = rows[live], columns[live], values[live], lines[live]
        order, last = _last_of_each(rows * self.num_columns + columns, lines)
        kept = order[last]
        return Filled(rows[kept], columns[kept], values[kept], touched)

    def _rows(self, action: int, state: int) -> IntArray:
        """Return the rows of an action and a state, either of which may be ANY."""
        actions = np.arange(self.num_actions) if action == ANY else np.array([action])
        states = np.arange(self.num_states) if state == ANY else np.array([state])
        return np.asarray((actions[:, None] * self.num_states + states).reshape(-1))

    def _set_all(self, action: int, states: IntArray, columns: IntArray, values: FloatArray, line: int) -> None:
        """Set the rows of all states of an action from entries (states, columns, values)."""
        self.cleared[self._rows(action, ANY)] = line
        actions = np.arange(self.num_actions) if action == ANY else np.array([action])
        rows = (actions[:, None] * self.num_states + states).reshape(-1)
        self._blocks.append((rows, np.tile(columns, actions.size), np.tile(values, actions.size), line))

    def _entries(self) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """Return row, column, value and line of everything that was set."""
        single = np.array(self._single, dtype=np.float64).reshape(-1, 4)  # indices stay far below 2^53
        blocks = self._blocks
        rows = np.concatenate([single[:, 0].astype(np.int64), *(block[0] for block in blocks)])
        columns = np.concatenate([single[:, 1].astype(np.int64), *(block[1] for block in blocks)])
        values = np.concatenate([single[:, 2], *(block[2] for block in blocks)])
        lines = [np.full(block[0].size, block[3]) for block in blocks]
        return rows, columns, values, np.concatenate([single[:, 3].astype(np.int64), *lines])


@dataclass(slots=True)
class Rewards:
    """r(action, state, next state, observation), as the rules that gave it: the last one that fits counts.

    Rules are grouped by the axes that they fix, so that looking one up is a binary search in each group.
    """

    sizes: tuple[int, ...]  # one an axis; without observations the last axis is missing
    _rules: dict[tuple[bool, ...], list[tuple[int, FloatArray, int]]] = field(default_factory=dict)

    def set_rules(self, cell: list[int], values: FloatArray, line: int) -> None:
        """Add one rule per value; ANY at an axis makes it hold for every index there.

        cell: the indices that the statement names; values: one per combination of the other axes, the last one fastest.
        line: the number of the statement.
        """
        fixed = tuple(index != ANY for index in cell) + (True,) * (len(self.sizes) - len(cell))
        key = 0
        for index, size in zip(cell, self.sizes, strict=False):
            key = key if index == ANY else key * size + index
        self._rules.setdefault(fixed, []).append((key * values.size, values, line))

    def cases(self, transitions: SparseRows, emission: SparseRows | None) -> int:
        """Return how many cases the expectation runs over: choices, transitions, or transitions and observations.

        transitions, emission: as for `average`.
        """
        depth = self._depth()
        if depth <= 2:
            return transitions.num_rows
        if depth == 3 or emission is None:
            return int(transitions.columns.size)
        return int(np.diff(emission.starts)[self._emission_row(transitions)].sum())

    def average(self, transitions: SparseRows, emission: SparseRows | None) -> FloatArray:
        """Return R(action, state), the mean over next state and observation; rows are action * num_states + state.

        R(a, s) = sum over s', o of P(s' | a, s) P(o | a, s') r(a, s, s', o)

        transitions: [row, next state].
        emission: [action * num_states + next state, observation]; None without observations.
        """
        depth, rules = self._depth(), self._prepare_rules()
        row, target, probability = transitions.row_of_entry(), transitions.columns, transitions.values
        if depth <= 2:
            row, target = np.arange(transitions.num_rows), np.zeros(transitions.num_rows, dtype=np.int64)
            probability = np.ones(row.size)
        if depth == 4 and emission is not None:
            return self._average_observations(transitions, emission, rules)
        value = self._values(rules, row, target, None)
        return np.bincount(row, weights=probability * value, minlength=transitions.num_rows).astype(np.float64)

    def _average_observations(self, transitions: SparseRows, emission: SparseRows, rules: list[_Rule]) -> FloatArray:
        """Return the same mean in chunks, because one transition has many observations."""
        row, seen = transitions.row_of_entry(), self._emission_row(transitions)
        ends = np.cumsum(np.diff(emission.starts)[seen])
        total = np.zeros(transitions.num_rows)
        bounds = np.searchsorted(ends, np.arange(_CHUNK, (ends[-1] if ends.size else 0) + _CHUNK, _CHUNK), side="left")
        first = 0
        for bound in np.minimum(bounds + 1, seen.size).tolist():
            part = np.arange(first, bound)
            case, entry = expand_rows(emission.starts, seen[part])
            case = part[case]
            value = self._values(rules, row[case], transitions.columns[case], emission.columns[entry])
            weight = transitions.values[case] * emission.values[entry]
            total += np.bincount(row[case], weights=weight * value, minlength=total.size)
            first = bound
        return total

    def _depth(self) -> int:
        """Return how many axes the rules look at, counted from the first."""
        last_used = (max((axis + 1 for axis, used in enumerate(mask) if used), default=0) for mask in self._rules)
        return max(last_used, default=0)

    def _emission_row(self, transitions: SparseRows) -> IntArray:
        """Return the emission row of every transition: the action taken and the state it led to."""
        num_states = self.sizes[1]
        return np.asarray(transitions.row_of_entry() // num_states * num_states + transitions.columns)

    def _prepare_rules(self) -> list[_Rule]:
        """Return all rules that fix the same axes together, by key, the last of each."""
        prepared = []
        for fixed, rules in self._rules.items():
            sizes = np.array([values.size for _, values, _ in rules])
            values = np.concatenate([values for _, values, _ in rules])
            first = np.cumsum(sizes) - sizes
            keys = np.repeat(np.array([key for key, _, _ in rules]) - first, sizes) + np.arange(values.size)
            lines = np.repeat(np.array([line for _, _, line in rules]), sizes)
            order, last = _last_of_each(keys, lines)
            kept = order[last]
            prepared.append(_Rule(fixed, keys[kept], lines[kept], values[kept]))
        return prepared

    def _values(self, rules: list[_Rule], row: IntArray, target: IntArray, seen: IntArray | None) -> FloatArray:
        """Return the reward of every case: the newest rule that fits, else 0.

        row: action * num_states + state; target: the next state; seen: the observation, None where none matters.
        """
        action, state = np.divmod(row, self.sizes[1])
        cell = [action, state, target, np.zeros_like(row) if seen is None else seen]
        newest, value = np.full(row.size, -1), np.zeros(row.size)
        for rule in rules:
            key = np.zeros(row.size, dtype=np.int64)
            for index, size, used in zip(cell, self.sizes, rule.fixed, strict=False):
                key = key * size + index if used else key
            nearest = np.minimum(np.searchsorted(rule.keys, key), rule.keys.size - 1)
            wins = (rule.keys[nearest] == key) & (rule.lines[nearest] > newest)
            newest, value = np.where(wins, rule.lines[nearest], newest), np.where(wins, rule.values[nearest], value)
        return value


@dataclass(frozen=True, slots=True)
class _Rule:
    """Rules that fix the same axes."""

    fixed: tuple[bool, ...]
    keys: IntArray  # ascending
    lines: IntArray
    values: FloatArray


def _last_of_each(keys: IntArray, lines: IntArray) -> tuple[IntArray, IntArray]:
    """Return an order by key, and the positions in it of the newest entry of every key."""
    order = np.lexsort((lines, keys))
    ordered = keys[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if keys.size else np.zeros(0, dtype=np.int64)
    return order, ends
