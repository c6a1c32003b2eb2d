"""Automata written as such, as formulas or as regular expressions: for secrets and for tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from opaq.automata.from_text import language_automaton
from opaq.automata.syntax.ltlf import parse_ltlf
from opaq.automata.syntax.regex import parse_regex
from opaq.automata.syntax.scan import NotationError
from opaq.errors import BudgetError, Faults
from opaq.model.automaton import Automaton
from opaq.spec.automaton_part import check_guards, read_automaton, unknown_label
from opaq.spec.cursor import at, flag, shown, wrong
from opaq.spec.names import Names

KINDS = ("automaton", "ltlf", "regex")
TEXTS = ("ltlf", "regex")
_EXAMPLES = {"ltlf": '"F(p & F q)"', "regex": '"p .* q"'}


def read_language(
    spec: Mapping[str, Any], kind: str, path: str, faults: Faults, names: Names, *, accepts: bool
) -> Automaton | None:
    """The automaton under one of the keys `automaton`, `ltlf` and `regex`; `accepts`: it needs accepting states."""
    value, where = spec[kind], at(path, kind)
    minimal = flag(spec.get("minimal", True), at(path, "minimal"), faults)
    if kind == "automaton":
        if "minimal" in spec:
            faults.error(at(path, "minimal"), "does not go with 'automaton'", "an automaton is taken as it is drawn")
        if not isinstance(value, Automaton):
            return read_automaton(value, where, faults, names.labels, accepts=accepts)
        check_guards(value, where, faults, names.labels)
        return value
    if not isinstance(value, str):
        wrong(value, where, faults, "text", advice=f"write it in quotes, e.g. {_EXAMPLES[kind]}")
        return None
    read = _translate("ltlf" if kind == "ltlf" else "regex", value, where, faults, names, minimal=minimal is not False)
    return None if minimal is None else read


def _translate(
    kind: Literal["ltlf", "regex"], text: str, path: str, faults: Faults, names: Names, *, minimal: bool
) -> Automaton | None:
    try:
        mentioned = parse_ltlf(text).labels() if kind == "ltlf" else parse_regex(text).labels()
        alphabet = _alphabet(names)
        unknown = sorted(mentioned - set(names.labels or ())) if names.labels is not None else []
        for label in unknown:
            unknown_label(label, path, faults, names.labels or {})
        if alphabet is None or unknown:
            return None
        automaton, warnings = language_automaton(kind, text, alphabet, minimal=minimal)
    except NotationError as error:
        faults.error(path, f"{shown(text)} cannot be read: {error}")
        return None
    except BudgetError as error:
        faults.error(path, str(error))
        return None
    for warning in warnings:
        faults.warn(path, warning)
    return automaton


def _alphabet(names: Names) -> list[frozenset[str]] | None:
    """The label sets that occur, in the order in which states first carry them; None when labels are not known."""
    labels = names.labels
    if labels is None or names.states.index is None or any(states is None for states in labels.values()):
        return None
    carried = np.zeros((len(names.states), len(labels)), dtype=bool)
    for place, states in enumerate(labels.values()):
        if states is not None:
            carried[states, place] = True
    distinct, first = np.unique(carried, axis=0, return_index=True)
    told = tuple(labels)
    return [frozenset(told[place] for place in np.flatnonzero(row)) for row in distinct[np.argsort(first)]]
