"""Formulas about the past: their truth now follows from the letter read and a few truths one step ago."""

from __future__ import annotations

from opaq.automata.syntax.formula import PAST, Formula

START = -1  # before anything is read
State = int  # START, or the truths that matter later, as bits


class Recollection:
    """A pure-past formula, step by step; it is judged at the last position of the trace."""

    def __init__(self, formula: Formula, labels: tuple[str, ...]) -> None:
        self._place = {label: place for place, label in enumerate(labels)}
        self._nodes: list[tuple[str, tuple[int, ...]]] = []
        self._number: dict[Formula, int] = {}
        self._root = self._list(formula)
        self._kept = (1 << self._root) | self._remembered()

    def step(self, state: State, letter: int) -> State:
        """The state after one more letter."""
        truths: list[bool] = []
        for number, (kind, parts) in enumerate(self._nodes):
            now = [truths[part] for part in parts] if kind != "label" else [bool(letter >> parts[0] & 1)]
            truths.append(_temporal(kind, number, parts, now, state) if kind in PAST else _boolean(kind, now))
        return sum(1 << number for number, truth in enumerate(truths) if truth) & self._kept

    def accepts(self, state: State) -> bool:
        """Whether the trace read so far satisfies the formula."""
        return state != START and bool(state >> self._root & 1)

    def _list(self, formula: Formula) -> int:
        """Number the formula after all those it is made of."""
        if formula not in self._number:
            if formula.kind == "label":
                parts: tuple[int, ...] = (self._place[formula.label],)
            else:
                parts = tuple(self._list(part) for part in formula.parts)
            self._number[formula] = len(self._nodes)
            self._nodes.append((formula.kind, parts))
        return self._number[formula]

    def _remembered(self) -> int:
        """The truths that the next step asks for, as bits."""
        mask = 0
        for number, (kind, parts) in enumerate(self._nodes):
            if kind in PAST:
                mask |= 1 << (parts[0] if kind in ("yesterday", "weak_yesterday") else number)
        return mask


def _temporal(kind: str, number: int, parts: tuple[int, ...], now: list[bool], before: State) -> bool:
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
