"""A secret written as a formula or an expression, as an automaton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from opaq.automata.explain import explain
from opaq.automata.syntax.ltlf import parse_ltlf
from opaq.automata.syntax.regex import parse_regex, translate_regex
from opaq.automata.tables import Letter
from opaq.automata.translate import translate_ltlf
from opaq.model.automaton import Automaton

KINDS = ("ltlf", "regex")


def language_automaton(
    kind: Literal["ltlf", "regex"], text: str, alphabet: Sequence[Letter], *, minimal: bool = True
) -> tuple[Automaton, list[str]]:
    """The automaton of a text over the label sets that occur, and what its author should know.

    Raises NotationError (a ValueError; FormulaError or RegexError) for a text that cannot be read, BudgetError for
    an automaton that grows too large.
    """
    if kind == "ltlf":
        formula = parse_ltlf(text)
        automaton = translate_ltlf(formula, alphabet, minimal=minimal)
        return automaton, explain(formula, automaton, alphabet=alphabet)
    regex = parse_regex(text)
    automaton = translate_regex(regex, alphabet, minimal=minimal)
    return automaton, _warnings(automaton, regex.labels() - frozenset().union(*alphabet))


def _warnings(automaton: Automaton, missing: frozenset[str]) -> list[str]:
    warnings = [f"no state carries the label '{label}'" for label in sorted(missing)]
    entered = {edge.target for edge in automaton.edges}
    if entered and not entered & automaton.accepting:
        warnings.append("the expression matches no run: there is nothing to hide")
    elif entered and entered <= automaton.accepting:
        warnings.append("the expression matches every run: there is nothing to hide")
    return warnings
