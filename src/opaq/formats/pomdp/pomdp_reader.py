"""Reading Cassandra's .pomdp files (pomdp.org)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from opaq.errors import Faults
from opaq.files import read_bytes
from opaq.formats.pomdp.pomdp_scan import Words, is_number, number, scan
from opaq.formats.pomdp.pomdp_tables import ANY, Filled, Rewards, Table
from opaq.model.arrays import FloatArray, SparseRows, floats, ints
from opaq.model.imported import Imported
from opaq.model.mdp import MAX_REWARD, MDP, positions
from opaq.model.observer import Observer
from opaq.spec.cursor import suggestion

MAX_BYTES = 32_000_000
MAX_NAMES = 100_000  # states, and likewise actions and observations
MAX_CHOICES = 2_000_000  # states times actions
MAX_ENTRIES = 10_000_000  # table entries written, and cases rewards are averaged over
_MOST_FAULTS = 50
_ROW_SLACK = 1e-5  # real files print six digits
_SILENT_SLACK = 1e-9
_LISTS = ("states", "actions", "observations")
_KIND = {"states": "state", "actions": "action", "observations": "observation"}
_HEADS = ("discount", "values", *_LISTS, "start", "T", "O", "R")


def read_pomdp(path: str | os.PathLike[str]) -> Imported:
    """Read a .pomdp file: every action is enabled in every state, R(s, a) is the mean over what comes of it.

    Raises InputError with every fault, each with its line and column.
    """
    source, faults = os.fspath(path), Faults()
    content = read_bytes(path, max_bytes=MAX_BYTES, advice="use a .umb file")
    reader = _Reader(scan(content.decode("utf-8", errors="replace")), faults)
    try:
        reader.read()
        imported = reader.finish()
    except _StopError:
        imported = None
    faults.raise_if_any(source)
    assert imported is not None
    return imported


class _SkipError(Exception):
    """This statement is unusable (and noted); go on with the next."""


class _StopError(Exception):
    """Nothing more can be made of the file; what is wrong is noted."""


@dataclass(slots=True)
class _Reader:
    """Walks through the words, statement by statement."""

    words: Words
    faults: Faults
    at: int = 0
    discount: float | None = None
    costs: bool = False
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # None: declared, but unusable
    index: dict[str, dict[str, int]] = field(default_factory=dict)
    start: FloatArray | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    rewards: Rewards | None = None
    written: int = 0

    def read(self) -> None:
        """Every statement; a fault skips to the next one."""
        statements: dict[str, Callable[[], None]] = {
            "discount": self._discount,
            "values": self._values,
            "states": lambda: self._list("states"),
            "actions": lambda: self._list("actions"),
            "observations": lambda: self._list("observations"),
            "start": self._start,
            "T": lambda: self._probabilities("T"),
            "O": lambda: self._probabilities("O"),
            "R": self._reward,
        }
        while self.words.texts[self.at]:
            head = self.words.texts[self.at]
            try:
                if not self._is_head(self.at):
                    self._fail(self.at, f"expected a statement, found {self.words.shown(self.at)}", _statements())
                statements[head]()
            except _SkipError:
                self._recover()

    # -- walking ------------------------------------------------------------------------------------------------

    def _is_head(self, at: int) -> bool:
        """Whether a statement begins here; a name like `T` after a colon does not count."""
        texts = self.words.texts
        if texts[at] not in _HEADS or (at > 0 and texts[at - 1] == ":"):
            return False
        after = texts[at + 1]
        return after == ":" or (texts[at] == "start" and after in ("include", "exclude"))

    def _recover(self) -> None:
        self.at += 1 if self.words.texts[self.at] else 0
        while self.words.texts[self.at] and not self._is_head(self.at):
            self.at += 1

    def _fail(self, at: int, found: str, advice: str = "") -> NoReturn:
        """Note a fault and leave the statement."""
        if len(self.faults.errors) >= _MOST_FAULTS:
            self.faults.error(self.words.place(at), "and from here on more faults, which are not listed")
            raise _StopError
        self.faults.error(self.words.place(at), found, advice)
        raise _SkipError

    def _expect(self, wanted: str) -> None:
        if self.words.texts[self.at] != wanted:
            self._fail(self.at, f"expected '{wanted}', found {self.words.shown(self.at)}")
        self.at += 1

    def _head(self) -> int:
        """Past `head :`; the place of the head."""
        head = self.at
        self.at += 1
        self._expect(":")
        return head

    def _number(self) -> float:
        value = number(self.words.texts[self.at])
        if value is None:
            self._fail(self.at, f"expected a number, found {self.words.shown(self.at)}")
        self.at += 1
        return value

    def _numbers(self, count: int, what: str) -> FloatArray:
        """Exactly so many numbers."""
        first, found = self.at, self._run()
        if len(found) != count:
            self.at = first + min(len(found), count)
            shown = self.words.shown(self.at)
            self._fail(self.at, f"expected {count:,} numbers ({what}), found {len(found):,} and then {shown}")
        return np.array(found, dtype=np.float64)

    def _run(self) -> list[float]:
        """All numbers from here to the first other word."""
        found = []
        while (value := number(self.words.texts[self.at])) is not None:
            found.append(value)
            self.at += 1
        return found

    # -- preamble -----------------------------------------------------------------------------------------------

    def _discount(self) -> None:
        self._head()
        value = self._number()
        if not 0 <= value <= 1:
            self._fail(self.at - 1, f"the discount is {value:g}, not between 0 and 1")
        self.discount = value

    def _values(self) -> None:
        self._head()
        if self.words.texts[self.at] not in ("reward", "cost"):
            self._fail(self.at, f"expected 'reward' or 'cost', found {self.words.shown(self.at)}")
        self.costs = self.words.texts[self.at] == "cost"
        self.at += 1

    def _list(self, head: str) -> None:
        """`states: 3` or `states: left right`."""
        if head in self.names:
            self._fail(self.at, f"'{head}' is declared a second time", "keep one of the two")
        self.names[head] = None
        self._head()
        first = self.at
        while self.words.texts[self.at] and not self._is_head(self.at):
            self.at += 1
        texts = self.words.texts[first : self.at]
        if not texts:
            self._fail(first, f"expected a number of {head} or their names, found {self.words.shown(first)}")
        if len(texts) == 1 and is_number(texts[0]):
            names = tuple(map(str, range(self._count(head, first))))
        else:
            self._check_names(head, texts, first)
            names = tuple(texts)
        self.names[head], self.index[head] = names, positions(names)

    def _count(self, head: str, at: int) -> int:
        text = self.words.texts[at]
        if not (text.isascii() and text.isdigit()) or not text.strip("0"):
            self._fail(at, f"the number of {head} is {self.words.shown(at)}, not a whole number above 0")
        if len(text.lstrip("0")) > 9 or int(text) > MAX_NAMES:
            self._fail(at, f"{text[:20]} {head} are too many", f"at most {MAX_NAMES:,} can be read")
        return int(text)

    def _check_names(self, head: str, texts: list[str], first: int) -> None:
        if len(texts) > MAX_NAMES:
            self._fail(first, f"{len(texts):,} {head} are too many", f"at most {MAX_NAMES:,} can be read")
        seen: set[str] = set()
        for place, text in enumerate(texts, first):
            if text in (":", "*") or not text.isprintable() or is_number(text):
                self._fail(place, f"{self.words.shown(place)} cannot be the name of a {_KIND[head]}")
            if text in seen:
                self._fail(place, f"the {_KIND[head]} {self.words.shown(place)} is listed twice")
            seen.add(text)

    def _known(self, head: str) -> tuple[str, ...]:
        """The names declared so far; a statement that needs unusable ones is passed over in silence."""
        if head not in self.names:
            place = self.at
            self.names[head] = None
            self._fail(place, f"'{head}:' must be declared before this statement")
        names = self.names[head]
        if names is None:
            raise _SkipError
        return names

    def _check_size(self, states: int, actions: int) -> None:
        if states * actions > MAX_CHOICES:
            found = f"{states:,} states times {actions:,} actions are too many"
            self.faults.error(self.words.place(self.at), found, f"at most {MAX_CHOICES:,} pairs can be read")
            raise _StopError

    # -- start --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        how = self.words.texts[self.at + 1]
        num_states = len(self._known("states"))
        self._spend(num_states, self.at)
        if how in ("include", "exclude"):
            self.at += 1
            head = self._head()
            chosen = np.zeros(num_states, dtype=bool)
            while self.words.texts[self.at] and not self._is_head(self.at):
                chosen[self._pick("states", any_allowed=False)] = True
            weights = (chosen if how == "include" else ~chosen).astype(np.float64)
            if not weights.any():
                self._fail(head, "leaves no state to start in")
            self.start = weights / weights.sum()
            return
        head = self._head()
        self.start = self._start_row(head, num_states)

    def _start_row(self, head: int, num_states: int) -> FloatArray:
        text = self.words.texts[self.at]
        if text == "uniform":
            self.at += 1
            return np.full(num_states, 1 / num_states)
        single = number(self.words.texts[self.at + 1] or "end") is None if text else True
        if number(text) is None or (single and text.isdigit() and (num_states > 1 or text == "0")):
            chosen = np.zeros(num_states)
            chosen[self._pick("states", any_allowed=False)] = 1.0
            return chosen
        weights = self._numbers(num_states, "one a state")
        if weights.min() < 0 or abs(weights.sum() - 1) > _ROW_SLACK:
            lowest = "one of them is negative" if weights.min() < 0 else f"sum to {weights.sum():.7g}, not 1"
            self._fail(head, f"start: the probabilities: {lowest}")
        if abs(weights.sum() - 1) > _SILENT_SLACK:
            self.faults.warn(
                self.words.place(head),
                f"start: the probabilities sum to {weights.sum():.9g}, not 1",
                "they were scaled to sum to 1",
            )
        return np.asarray(weights / weights.sum())

    # -- tables -------------------------------------------------------------------------------------------------

    def _pick(self, head: str, *, any_allowed: bool = True) -> int:
        """The index a name, a number or `*` stands for."""
        names, text, at = self._known(head), self.words.texts[self.at], self.at
        self.at += 1 if text else 0
        if text == "*" and any_allowed:
            return ANY
        found = self.index[head].get(text)
        if found is None and text.isascii() and text.isdigit():
            found = int(text[:10])
        if found is None or found >= len(names):
            self._unknown(at, head, " or '*'" if any_allowed else "")
        return found

    def _unknown(self, at: int, head: str, others: str) -> NoReturn:
        names, text, kind = self._known(head), self.words.texts[at], _KIND[head]
        if text.isascii() and text.isdigit():
            self._fail(at, f"there is no {kind} {text[:20]}", f"they are numbered 0 to {len(names) - 1}")
        if not text or text in (":", "*"):
            self._fail(at, f"expected a {kind}{others}, found {self.words.shown(at)}")
        self._fail(at, f"unknown {kind} {self.words.shown(at)}", suggestion(text[:40], names, kind=kind))

    def _place(self, axes: tuple[str, ...]) -> list[int]:
        """`: a : b : ...` as far as it goes, one index an axis."""
        place: list[int] = []
        for axis in axes:
            if place and self.words.texts[self.at] != ":":
                break
            self._expect(":")
            place.append(self._pick(axis))
        if self.words.texts[self.at] == ":":
            self._fail(self.at, f"more than {len(axes)} parts")
        return place

    def _probabilities(self, head: str) -> None:
        """A `T:` or `O:` statement."""
        line, kind = self.at, "states" if head == "T" else "observations"
        actions, states, columns = (len(self._known(name)) for name in ("actions", "states", kind))
        if head not in self.tables:
            self._check_size(states, actions)
            self.tables[head] = Table(actions, states, columns)
        self.at += 1
        place = self._place(("actions", "states", kind))
        if len(place) == 3:
            self._cell(self.tables[head], place, line)
        else:
            self._rows(self.tables[head], [*place, ANY][:2], line, whole=len(place) == 1)

    def _cell(self, table: Table, place: list[int], line: int) -> None:
        action, state, column = place
        value = self._number()
        self._check_range(np.array([value]), self.at - 1)
        self._spend(table.cost(action, state, table.num_columns if column == ANY and value else 1), line)
        table.set_cell(action, state, column, value, line)

    def _rows(self, table: Table, place: list[int], line: int, *, whole: bool) -> None:
        """A row or, when no state is named, a matrix; in numbers or by a word."""
        action, state = place
        width, word = table.num_columns, self.words.texts[self.at]
        if word in ("uniform", "identity", "reset"):
            self._by_word(table, word, place, line, whole=whole)
            return
        first = self.at
        count = table.num_states * width if whole else width
        values = self._numbers(count, f"a row for each of {table.num_states:,} states" if whole else "a row")
        self._check_range(values, first)
        columns = int(np.count_nonzero(values))
        self._spend(table.cost(action, 0 if whole else state, columns), line)
        if whole:
            table.set_matrix(action, values.reshape(table.num_states, width), line)
        else:
            table.set_row(action, state, values, line)

    def _by_word(self, table: Table, word: str, place: list[int], line: int, *, whole: bool) -> None:
        action, state = place
        width = table.num_columns
        square = table is self.tables.get("T") or width == table.num_states
        if word == "identity" and not (whole and square):
            self._fail(self.at, "'identity' needs a square matrix", "name an action and no state")
        if word == "reset" and (self.start is None or table is not self.tables.get("T")):
            self._fail(self.at, "'reset' needs a 'start:' before it, and a 'T:' statement")
        self.at += 1
        self._spend(table.cost(action, state, 1 if word == "identity" else width), line)
        if word == "identity":
            table.set_identity(action, line)
        elif word == "reset" and self.start is not None:
            table.set_row(action, state, self.start, line)
        else:
            table.set_row(action, state, np.full(width, 1 / width), line)

    def _reward(self) -> None:
        """An `R:` statement; a file without observations has one part less."""
        line = self.at
        axes = ("actions", "states", "states", "observations")[: 4 if "observations" in self.names else 3]
        sizes = tuple(len(self._known(axis)) for axis in axes)
        if self.rewards is None:
            self._check_size(sizes[1], sizes[0])
            self.rewards = Rewards(sizes)
        if self.rewards.sizes != sizes:
            self._fail(line, "observations were declared after an 'R:' statement", "declare them before it")
        self.at += 1
        place = self._place(axes)
        if len(place) == len(axes):
            value = self._number()
            self._check_reward(np.array([value]), self.at - 1)
            self.rewards.set_cell(place, value, line)
            return
        missing = sizes[len(place) :]
        if len(missing) > 2 or len(place) < 2:
            self._expect(":")
        count = int(np.prod(missing))
        first = self.at
        values = self._numbers(count, " times ".join(f"{size:,}" for size in missing))
        self._check_reward(values, first)
        self.rewards.set_block(place, values, line)

    def _check_reward(self, values: FloatArray, first: int) -> None:
        wrong = np.flatnonzero(np.abs(values) > MAX_REWARD)
        if wrong.size:
            self._fail(first + int(wrong[0]), f"the reward {values[wrong[0]]:g} is beyond {MAX_REWARD:g}", "scale it")

    def _check_range(self, values: FloatArray, first: int) -> None:
        wrong = np.flatnonzero((values < 0) | (values > 1 + _ROW_SLACK))
        if wrong.size:
            self._fail(first + int(wrong[0]), f"the probability {values[wrong[0]]:g} is not between 0 and 1")

    def _spend(self, entries: int, line: int) -> None:
        self.written += entries
        if self.written > MAX_ENTRIES:
            found = f"the tables grow beyond {MAX_ENTRIES:,} entries here"
            self.faults.error(self.words.place(line), found, "a model this dense cannot be read")
            raise _StopError

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> Imported | None:
        """Everything together, once all statements are read."""
        for head in ("states", "actions"):
            if head not in self.names:
                self.faults.error("", f"the file declares no {head}", f"add a line '{head}: ...'")
        if self.faults.errors:
            return None
        states, actions = self._known("states"), self._known("actions")
        self._check_size(len(states), len(actions))
        transitions = self._stochastic("T", len(states))
        emission = self._stochastic("O", len(self._known("observations"))) if "observations" in self.names else None
        if self.faults.errors or transitions is None:
            return None
        rewards = self._expected(transitions, emission)
        row = np.arange(len(actions) * len(states))
        by_choice = _reordered(transitions, row % len(states) * len(actions) + row // len(states))
        start = np.full(len(states), 1 / len(states)) if self.start is None else self.start
        mdp = MDP(
            states=states,
            actions=actions,
            start=floats(start),
            choice_start=ints(np.arange(len(states) + 1) * len(actions)),
            choice_action=ints(np.tile(np.arange(len(actions)), len(states))),
            transitions=by_choice,
            rewards=floats(rewards.reshape(len(actions), len(states)).T.reshape(-1)),
            labels={},
        )
        observer = None if emission is None else _observer(emission, len(states), self._known("observations"))
        return Imported(mdp, observer, warnings=tuple(self.faults.warnings), discount=self.discount)

    def _stochastic(self, head: str, width: int) -> SparseRows | None:
        """The rows of a table, each summing to 1; else the faults are noted."""
        num_rows = len(self._known("actions")) * len(self._known("states"))
        table = self.tables.get(head) or Table(len(self._known("actions")), len(self._known("states")), width)
        filled = table.filled()
        sums = np.bincount(filled.rows, weights=filled.values, minlength=num_rows).astype(np.float64)
        gap = np.abs(sums - 1)
        self._tell_sums(head, filled, sums)
        if (gap > _ROW_SLACK).any():
            return None
        scaled = filled.values / sums[filled.rows]
        if gap.max(initial=0.0) > _SILENT_SLACK:
            count, place = int((gap > _SILENT_SLACK).sum()), self.words.place(int(filled.touched[gap.argmax()]))
            found = f"rows of {head} miss the sum 1 ({count:,} of {num_rows:,}), by at most {gap.max():.2g}"
            self.faults.warn(place, found, "they were scaled to sum to 1")
        return SparseRows.from_entries(filled.rows, filled.columns, scaled, shape=(num_rows, width))

    def _tell_sums(self, head: str, filled: Filled, sums: FloatArray) -> None:
        wrong = np.flatnonzero(np.abs(sums - 1) > _ROW_SLACK)
        states, actions = self._known("states"), self._known("actions")
        for row in wrong[:_MOST_FAULTS].tolist():
            action, state = divmod(row, len(states))
            name, line = f"{head}: {actions[action]} : {states[state]}", int(filled.touched[row])
            if line < 0:
                self.faults.error("", f"{name} has no probabilities", f"add a '{head}:' statement for it")
            else:
                place = self.words.place(line)
                self.faults.error(place, f"{name}: probabilities sum to {sums[row]:.7g}, not 1", "make them sum to 1")
        if wrong.size > _MOST_FAULTS:
            self.faults.error("", f"and {wrong.size - _MOST_FAULTS:,} more rows of {head} that do not sum to 1")

    def _expected(self, transitions: SparseRows, emission: SparseRows | None) -> FloatArray:
        if self.rewards is None:
            return np.zeros(transitions.num_rows)
        if self.rewards.cases(transitions, emission) > MAX_ENTRIES:
            found = f"rewards depend on more than {MAX_ENTRIES:,} cases of next state and observation"
            self.faults.error("", found, "give them by action and state")
            raise _StopError
        value = self.rewards.expected(transitions, emission)
        return -value if self.costs else value


def _statements() -> str:
    return f"statements begin with {', '.join(f'{head}:' for head in _HEADS)}"


def _reordered(matrix: SparseRows, place: np.ndarray) -> SparseRows:
    """The same rows in another order: row i goes to place[i]."""
    rows = place[matrix.row_of_entry()]
    return SparseRows.from_entries(rows, matrix.columns, matrix.values, shape=(matrix.num_rows, matrix.num_columns))


def _observer(emission: SparseRows, num_states: int, observations: tuple[str, ...]) -> Observer:
    """What is seen in a state, or, when that depends on the action that led there, a blank at time 0."""
    width, row = len(observations), emission.row_of_entry()
    first = row < num_states
    if _same_for_all_actions(emission, num_states):
        shape = (num_states, width)
        seen = SparseRows.from_entries(row[first], emission.columns[first], emission.values[first], shape=shape)
        return Observer(observations, seen)
    blank = "start"
    while blank in observations:
        blank += "_"
    at_start = SparseRows.from_entries(
        np.arange(num_states), np.full(num_states, width), np.ones(num_states), shape=(num_states, width + 1)
    )
    shape = (emission.num_rows, width + 1)
    after = SparseRows.from_entries(row, emission.columns, emission.values, shape=shape)
    return Observer((*observations, blank), at_start, after_action=after)


def _same_for_all_actions(emission: SparseRows, num_states: int) -> bool:
    counts = np.diff(emission.starts).reshape(-1, num_states)
    if (counts != counts[0]).any():
        return False
    size = int(counts[0].sum())
    columns, values = emission.columns.reshape(-1, size), emission.values.reshape(-1, size)
    return bool((columns == columns[0]).all() and (values == values[0]).all())
