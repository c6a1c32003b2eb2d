"""Step formulas through words: what remains to be satisfied after each letter, kept as decision diagrams.

A `Formula` comes in; `Progression` (future) and `PastFormula` (past) give the states and steps that `dfa.explore`
tabulates.

A formula is first written with true, labels, not, and, or, next and until only, each distinct one numbered. After a
non-empty trace, what must hold from the next position on is a Boolean function of atoms "formula i holds at the
next position", where i is a label, a next or an until. Kept as decision diagrams, equal obligations are the same
number, so there are finitely many of them. Formulas about the past need no obligations: `PastFormula` keeps the truths
of the subformulas that the next step reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opaq.automata.formula import PAST, Formula
from opaq.errors import BudgetError
from opaq.model.automaton import Guard

FALSE = 0
TRUE = 1
_NO_VARIABLE = 1 << 60  # the constants come after every variable


class Diagrams:
    """A store of Boolean functions as reduced ordered decision diagrams: equal functions are the same number.

    Functions and variables are numbers; variables are tested in ascending order. Raises BudgetError beyond `most`
    nodes.
    """

    def __init__(self, *, most: int = 500_000) -> None:
        """Make an empty store; `most` is the number of nodes beyond which BudgetError is raised."""
        self._most = most
        self._nodes: list[tuple[int, int, int]] = [(_NO_VARIABLE, 0, 0), (_NO_VARIABLE, 1, 1)]
        self._number: dict[tuple[int, int, int], int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}

    def node(self, function: int) -> tuple[int, int, int]:
        """Return (the variable tested first, the function where it is false, the function where it is true)."""
        return self._nodes[function]

    def variable(self, number: int) -> int:
        """Return the function that is true where the variable is."""
        return self._make(number, FALSE, TRUE)

    def negate(self, function: int) -> int:
        """Return the function that is true where this one is false."""
        return self.choose(function, FALSE, TRUE)

    def both(self, functions: Iterable[int]) -> int:
        """Return the conjunction of some functions; TRUE for none."""
        result = TRUE
        for function in functions:
            result = self.choose(result, function, FALSE)
        return result

    def either(self, functions: Iterable[int]) -> int:
        """Return the disjunction of some functions; FALSE for none."""
        result = FALSE
        for function in functions:
            result = self.choose(result, TRUE, function)
        return result

    def choose(self, test: int, then: int, otherwise: int) -> int:
        """Return the function that is `then` where the test is true and `otherwise` elsewhere (if-then-else, memoised).

        test, then, otherwise: functions of this store. Raises BudgetError beyond 4 * `most` steps.
        """
        if test == TRUE or then == otherwise:
            return then
        if test == FALSE:
            return otherwise
        if then == TRUE and otherwise == FALSE:
            return test
        key = (test, then, otherwise)
        known = self._chosen.get(key)
        if known is not None:
            return known
        first = min(self._nodes[test][0], self._nodes[then][0], self._nodes[otherwise][0])
        low = self.choose(*(self._branch(function, first, 1) for function in key))
        high = self.choose(*(self._branch(function, first, 2) for function in key))
        result = self._make(first, low, high)
        if len(self._chosen) >= 4 * self._most:
            raise BudgetError(f"the formula needs more than {4 * self._most:,} diagram steps; simplify it")
        self._chosen[key] = result
        return result

    def of_guard(self, guard: Guard, variable_of: Mapping[str, int]) -> int:
        """Return a guard as a function of its labels.

        variable_of: the variable of each label; a label without one raises KeyError.
        """
        if guard.kind == "label":
            return self.variable(variable_of[guard.label])
        parts = [self.of_guard(part, variable_of) for part in guard.parts]
        if guard.kind == "not":
            return self.negate(parts[0])
        if guard.kind == "and":
            return self.both(parts)
        if guard.kind == "or":
            return self.either(parts)
        return TRUE if guard.kind == "true" else FALSE

    def _branch(self, function: int, variable: int, side: int) -> int:
        """Return the function where a variable has the value of `side` (1: false, 2: true) in its node."""
        node = self._nodes[function]
        return node[side] if node[0] == variable else function

    def _make(self, variable: int, low: int, high: int) -> int:
        """Return the number of the node (variable, low, high), which is new only if no equal one exists.

        low, high: the functions where the variable is false and true; if they are equal, the result is that function.
        """
        if low == high:
            return low
        key = (variable, low, high)
        number = self._number.get(key)
        if number is None:
            number = len(self._nodes)
            if number >= self._most:
                raise BudgetError(f"the formula needs more than {self._most:,} diagram nodes; simplify it")
            self._number[key] = number
            self._nodes.append(key)
        return number


_MAX_ATOMS = 200

_Node = tuple[str, tuple[int, ...]]
State = tuple[bool, int]  # whether the trace read so far satisfies the formula; what the rest of a longer one must do


class Progression:
    """A formula about the future, step by step; letters are numbers whose bit i is label i.

    A state is (whether the trace read so far satisfies the formula, the obligation on the rest of a longer trace).
    """

    def __init__(self, formula: Formula, labels: tuple[str, ...]) -> None:
        """Number the subformulas of a formula.

        labels: the label of every bit of a letter.
        Raises BudgetError for more than _MAX_ATOMS labels and temporal operators.
        """
        self._bit = {label: bit for bit, label in enumerate(labels)}
        self._nodes: list[_Node] = []
        self._number: dict[_Node, int] = {}
        root = self._core(formula)
        if sum(kind in ("label", "next", "until") for kind, _ in self._nodes) > _MAX_ATOMS:
            raise BudgetError(f"the formula has more than {_MAX_ATOMS} labels and temporal operators; simplify it")
        self._labels_read = self._labels_now()
        self._diagrams = Diagrams()
        self._ahead: list[int] = []
        for number in range(len(self._nodes)):
            self._ahead.append(self._next_position(number))
        self._by_letter: dict[int, tuple[list[int], list[bool]]] = {}
        self._progressed: dict[tuple[int, int], int] = {}
        self._masks: dict[int, int] = {FALSE: 0, TRUE: 0}
        self.start: State = (False, self._ahead[root])

    def step(self, state: State, letter: int) -> State:
        """Return the state after one more letter.

        state: `start`, or a state that a step returned; letter: labels as bits.
        """
        obligation = state[1]
        return self._holds_at_end(obligation, letter), self._progress(obligation, letter)

    def labels_read(self, state: State) -> int:
        """Return the labels that the next step depends on, as bits.

        Letters that agree in them lead to the same state.
        """
        return self._mask(state[1])

    def _core(self, formula: Formula) -> int:
        """Return the number of a formula, written with true, label, not, and, or, next and until.

        `last` is !X true: there is no next position.
        """
        if formula.kind == "label":
            return self._make("label", self._bit[formula.label])
        parts = [self._core(part) for part in formula.parts]
        true = self._make("true")
        if formula.kind in ("true", "false", "last"):
            last = self._not(self._make("next", true))
            return {"true": true, "false": self._not(true), "last": last}[formula.kind]
        if len(parts) == 1:
            return self._core_unary(formula.kind, parts[0])
        return self._core_binary(formula.kind, parts)

    def _core_unary(self, kind: str, part: int) -> int:
        """Return the number of a unary operator: WX f = !X !f, F f = true U f, G f = !(true U !f).

        kind: a key of UNARY about the future, or "not"; part: the number of the operand.
        """
        true, opposite = self._make("true"), self._not(part)
        if kind == "not":
            return opposite
        if kind == "next":
            return self._make("next", part)
        if kind == "weak_next":
            return self._not(self._make("next", opposite))
        if kind == "eventually":
            return self._make("until", true, part)
        return self._not(self._make("until", true, opposite))  # always

    def _core_binary(self, kind: str, parts: list[int]) -> int:
        """Return the number of a binary operator or a chain.

        kind: a key of BINARY about the future; parts: the numbers of the operands.
        f R g = !(!f U !g), f W g = !(!g U (!f & !g)), f M g = g U (f & g).
        """
        if kind in ("and", "or"):
            return self._make(kind, *sorted(set(parts)))
        left, right = parts
        no_left, no_right = self._not(left), self._not(right)
        if kind == "implies":
            return self._make("or", no_left, right)
        if kind == "iff":
            return self._make("or", self._make("and", left, right), self._make("and", no_left, no_right))
        if kind == "until":
            return self._make("until", left, right)
        if kind == "release":
            return self._not(self._make("until", no_left, no_right))
        if kind == "weak_until":
            return self._not(self._make("until", no_right, self._make("and", no_left, no_right)))
        return self._make("until", right, self._make("and", left, right))  # strong release

    def _make(self, kind: str, *parts: int) -> int:
        """Return the number of a node, which is new only if no equal one exists."""
        node = (kind, parts)
        if node not in self._number:
            self._number[node] = len(self._nodes)
            self._nodes.append(node)
        return self._number[node]

    def _not(self, part: int) -> int:
        """Return the negation of a node; two negations cancel."""
        kind, parts = self._nodes[part]
        return parts[0] if kind == "not" else self._make("not", part)

    def _labels_now(self) -> list[int]:
        """Return, for every formula, the labels that it reads at the current position, as bits."""
        masks: list[int] = []
        for kind, parts in self._nodes:
            mask = 1 << parts[0] if kind == "label" else 0
            if kind in ("not", "and", "or", "until"):
                for part in parts:
                    mask |= masks[part]
            masks.append(mask)
        return masks

    def _next_position(self, number: int) -> int:
        """Return the diagram of "this formula holds at the next position", through the Boolean operators."""
        kind, parts = self._nodes[number]
        if kind in ("label", "next", "until"):
            return self._diagrams.variable(number)
        return self._boolean(kind, [self._ahead[part] for part in parts])

    def _boolean(self, kind: str, parts: list[int]) -> int:
        """Return the diagram of a Boolean operator applied to diagrams."""
        if kind == "not":
            return self._diagrams.negate(parts[0])
        if kind == "and":
            return self._diagrams.both(parts)
        return self._diagrams.either(parts) if kind == "or" else TRUE

    def _letter(self, letter: int) -> tuple[list[int], list[bool]]:
        """Return, for each formula, its demand on the next position after a letter, and whether it holds without one.

        The two lists are computed once per letter.
        """
        if letter not in self._by_letter:
            rests: list[int] = []
            finals: list[bool] = []
            for number, (kind, parts) in enumerate(self._nodes):
                rests.append(self._rest(number, letter, rests))
                finals.append(_final(kind, parts, letter, finals))
            self._by_letter[letter] = rests, finals
        return self._by_letter[letter]

    def _rest(self, number: int, letter: int, rests: list[int]) -> int:
        """Return the demand of one formula on the next position: f U g = g | (f & X(f U g)).

        number: the formula; letter: that of this position; rests: the demands of its parts, which come before it.
        """
        kind, parts = self._nodes[number]
        if kind == "label":
            return TRUE if letter >> parts[0] & 1 else FALSE
        if kind == "next":
            return self._ahead[parts[0]]
        if kind == "until":
            going_on = self._diagrams.both([rests[parts[0]], self._ahead[number]])
            return self._diagrams.either([rests[parts[1]], going_on])
        return self._boolean(kind, [rests[part] for part in parts])

    def _progress(self, obligation: int, letter: int) -> int:
        """Return an obligation after one letter: every atom replaced by its demand on the position after."""
        if obligation in (FALSE, TRUE):
            return obligation
        key = (obligation, letter & self._mask(obligation))
        if key not in self._progressed:
            atom, low, high = self._diagrams.node(obligation)
            test = self._letter(letter)[0][atom]
            self._progressed[key] = self._diagrams.choose(
                test, self._progress(high, letter), self._progress(low, letter)
            )
        return self._progressed[key]

    def _holds_at_end(self, obligation: int, letter: int) -> bool:
        """Return whether an obligation is met when this letter is the last."""
        finals = self._letter(letter)[1]
        while obligation not in (FALSE, TRUE):
            atom, low, high = self._diagrams.node(obligation)
            obligation = high if finals[atom] else low
        return obligation == TRUE

    def _mask(self, obligation: int) -> int:
        """Return the labels that progressing an obligation reads, as bits."""
        if obligation not in self._masks:
            atom, low, high = self._diagrams.node(obligation)
            self._masks[obligation] = self._labels_read[atom] | self._mask(low) | self._mask(high)
        return self._masks[obligation]


def _final(kind: str, parts: tuple[int, ...], letter: int, finals: list[bool]) -> bool:
    """Return whether a formula holds at the last position, given those it is made of.

    kind, parts: the formula, parts as numbers; letter: that of the last position; finals: the answers for its parts.
    """
    if kind == "label":
        return bool(letter >> parts[0] & 1)
    if kind == "not":
        return not finals[parts[0]]
    if kind == "and":
        return all(finals[part] for part in parts)
    if kind == "or":
        return any(finals[part] for part in parts)
    return finals[parts[1]] if kind == "until" else kind == "true"


START = -1  # before anything is read
_PastState = int  # START, or the truths that matter later, as bits


class PastFormula:
    """A pure-past formula, step by step; it is evaluated at the last position of the trace.

    A state is START, or the truths of the subformulas that the next step reads, as bits.
    """

    def __init__(self, formula: Formula, labels: tuple[str, ...]) -> None:
        """Number the subformulas of a formula about the past; `labels` are those of the bits of a letter."""
        self._bit = {label: bit for bit, label in enumerate(labels)}
        self._nodes: list[tuple[str, tuple[int, ...]]] = []
        self._number: dict[Formula, int] = {}
        self._root = self._list(formula)
        self._kept = (1 << self._root) | self._memory_mask()

    def step(self, state: _PastState, letter: int) -> _PastState:
        """Return the state after one more letter.

        state: START, or a state that a step returned; letter: labels as bits.
        """
        truths: list[bool] = []
        for number, (kind, parts) in enumerate(self._nodes):
            now = [truths[part] for part in parts] if kind != "label" else [bool(letter >> parts[0] & 1)]
            truths.append(_temporal(kind, number, parts, now, state) if kind in PAST else _boolean(kind, now))
        return sum(1 << number for number, truth in enumerate(truths) if truth) & self._kept

    def accepts(self, state: _PastState) -> bool:
        """Return whether the trace read so far satisfies the formula."""
        return state != START and bool(state >> self._root & 1)

    def _list(self, formula: Formula) -> int:
        """Return the number of a formula, which comes after those of all that it is made of."""
        if formula not in self._number:
            if formula.kind == "label":
                parts: tuple[int, ...] = (self._bit[formula.label],)
            else:
                parts = tuple(self._list(part) for part in formula.parts)
            self._number[formula] = len(self._nodes)
            self._nodes.append((formula.kind, parts))
        return self._number[formula]

    def _memory_mask(self) -> int:
        """Return the truths that the next step reads, as bits: f of Y f, and O, H and S themselves."""
        mask = 0
        for number, (kind, parts) in enumerate(self._nodes):
            if kind in PAST:
                mask |= 1 << (parts[0] if kind in ("yesterday", "weak_yesterday") else number)
        return mask


def _temporal(kind: str, number: int, parts: tuple[int, ...], now: list[bool], before: _PastState) -> bool:
    """Return whether a past operator holds now: O f = f | Y O f, H f = f & WY H f, f S g = g | (f & Y(f S g)).

    number, parts: the numbers of the operator and of its operands.
    now: the truths of the operands at this position; before: the state, truths at the position before.
    """
    first = before == START
    if kind in ("yesterday", "weak_yesterday"):
        return kind == "weak_yesterday" if first else bool(before >> parts[0] & 1)
    own = kind == "historically" if first else bool(before >> number & 1)
    if kind == "once":
        return now[0] or own
    if kind == "historically":
        return now[0] and own
    return now[1] or (now[0] and own)  # since


def _boolean(kind: str, parts: list[bool]) -> bool:
    """Return whether a Boolean operator holds, given its operands."""
    if kind == "label":
        return parts[0]
    if kind == "not":
        return not parts[0]
    if kind == "and":
        return all(parts)
    if kind == "or":
        return any(parts)
    if kind == "implies":
        return parts[1] or not parts[0]
    if kind == "iff":
        return parts[0] == parts[1]
    return kind == "true"
