"""Boolean functions as reduced ordered decision diagrams: equal functions are the same number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opaq.errors import BudgetError
from opaq.model.automaton import Guard

FALSE = 0
TRUE = 1
_NO_VARIABLE = 1 << 60  # the constants come after every variable


class Diagrams:
    """A store of functions, each a number; variables are numbers too, tested in ascending order."""

    def __init__(self, *, most: int = 500_000) -> None:
        self._most = most
        self._nodes: list[tuple[int, int, int]] = [(_NO_VARIABLE, 0, 0), (_NO_VARIABLE, 1, 1)]
        self._number: dict[tuple[int, int, int], int] = {}
        self._chosen: dict[tuple[int, int, int], int] = {}

    def node(self, function: int) -> tuple[int, int, int]:
        """(the variable tested first, the function where it is false, the function where it is true)."""
        return self._nodes[function]

    def variable(self, number: int) -> int:
        """The function that is true where the variable is."""
        return self._make(number, FALSE, TRUE)

    def negate(self, function: int) -> int:
        """True where the function is false."""
        return self.choose(function, FALSE, TRUE)

    def both(self, functions: Iterable[int]) -> int:
        """True where all functions are."""
        found = TRUE
        for function in functions:
            found = self.choose(found, function, FALSE)
        return found

    def either(self, functions: Iterable[int]) -> int:
        """True where any function is."""
        found = FALSE
        for function in functions:
            found = self.choose(found, TRUE, function)
        return found

    def choose(self, test: int, then: int, otherwise: int) -> int:
        """`then` where the test is true, `otherwise` elsewhere."""
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
        found = self._make(first, low, high)
        if len(self._chosen) >= 4 * self._most:
            raise BudgetError(f"the formula needs more than {4 * self._most:,} diagram steps; simplify it")
        self._chosen[key] = found
        return found

    def of_guard(self, guard: Guard, place: Mapping[str, int]) -> int:
        """A guard as a function of its labels, whose variables `place` tells."""
        if guard.kind == "label":
            return self.variable(place[guard.label])
        parts = [self.of_guard(part, place) for part in guard.parts]
        if guard.kind == "not":
            return self.negate(parts[0])
        if guard.kind == "and":
            return self.both(parts)
        if guard.kind == "or":
            return self.either(parts)
        return TRUE if guard.kind == "true" else FALSE

    def _branch(self, function: int, variable: int, side: int) -> int:
        node = self._nodes[function]
        return node[side] if node[0] == variable else function

    def _make(self, variable: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (variable, low, high)
        found = self._number.get(key)
        if found is None:
            found = len(self._nodes)
            if found >= self._most:
                raise BudgetError(f"the formula needs more than {self._most:,} diagram nodes; simplify it")
            self._number[key] = found
            self._nodes.append(key)
        return found
