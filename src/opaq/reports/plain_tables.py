"""Tables as plain text: columns of figures aligned to the right, the last column goes on below itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from opaq.escapes import printable
from opaq.opacity.amount import Amount
from opaq.reports.layout import wrapped

_BETWEEN = "  "


def plain_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int], width: int
) -> list[str]:
    """The lines of a table; `numbers` are the columns that are aligned to the right."""
    table = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines: list[str] = []
    for cells in table:
        padded = [
            cell.rjust(size) if index in numbers else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        first = "".join(cell + _BETWEEN for cell in padded[:-1])
        lines += wrapped(padded[-1], first=first, rest=" " * len(first), width=width)
    return [line.rstrip() for line in lines]


def short_amount(amount: Amount) -> str:
    """An amount as a cell of a table."""
    if amount.method == "exact":
        return f"{amount.value:.5f}"
    if amount.standard_error is not None:
        return f"{amount.value:.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:.4f}, {amount.upper:.4f}]"


def short_difference(amount: Amount) -> str:
    """A difference of two amounts as a cell, with its sign."""
    if amount.method == "exact":
        return f"{amount.value:+.5f}"
    if amount.standard_error is not None:
        return f"{amount.value:+.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:+.4f}, {amount.upper:+.4f}]"


def short_bound(bound: float | None, *, trivial: bool = False) -> str:
    """An upper bound as a cell, rounded upwards: what is read must still be a bound."""
    return "" if bound is None else f"<= {math.ceil(bound * 1e5) / 1e5:.5f}{' (trivial)' if trivial else ''}"
