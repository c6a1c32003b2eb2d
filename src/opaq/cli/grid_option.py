"""`--grid` and `--grid-time`: the policy as arrows below the answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli.shell import page_width
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from opaq.model.arrays import FloatArray
    from opaq.model.problem import Problem
    from opaq.product.compile import Product
    from opaq.reports.layout import Page

Grid = Annotated[bool, typer.Option("--grid", help="Draw the policy on the grid, as arrows.")]
GridTime = Annotated[int | None, typer.Option(min=0, help="Draw the arrows of this time, not of the whole run.")]


def check_grid(problem: Problem, source: str, *, grid: bool, time: int | None, as_json: bool) -> None:
    """Refuse what cannot be drawn before any work: no grid, a time after the horizon, a picture in JSON."""
    asked = "--grid" if grid else "--grid-time"
    if not grid and time is None:
        return
    if as_json:
        raise InputError([Fault(asked, "has no effect with --json", "leave one of them out")])
    from opaq.reports.grid import GridView

    if GridView.of(problem) is None:
        found = "the problem is no grid: its states are not cells called (column,row)"
        raise InputError([Fault(asked, found, f"leave {asked} out")], source)
    if time is not None and time > problem.horizon:
        raise InputError([Fault("--grid-time", f"is {time}", f"give a time up to {problem.horizon}")], source)


def with_grid(page: Page, product: Product, pi: FloatArray, *, time: int | None) -> Page:
    """The page with the policy on the grid as its last part."""
    from opaq.reports.grid import PolicyView, Symbols, policy_lines

    symbols = Symbols.for_encoding(sys.stdout.encoding)
    lines = policy_lines(PolicyView(product, pi), time=time, symbols=symbols, width=page_width())
    return replace(page, parts=(*page.parts, lines))
