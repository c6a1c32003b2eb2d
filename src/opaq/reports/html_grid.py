"""A grid as a small picture within a notebook: walls, traps, starts, labels, and a policy's arrows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opaq.reports.grid_text import direction_of, initials
from opaq.reports.grid_view import GridView
from opaq.reports.html_parts import text
from opaq.reports.policy_view import Shares

_SIDE = 28  # pixels of a cell
_MOST_CELLS = 900  # larger grids would not be a small picture
_LEAST = 0.05  # an action less likely than this is not drawn
_AIM: Mapping[str, tuple[int, int]] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


def small(view: GridView) -> bool:
    """Whether the grid is small enough for a picture beside text."""
    return view.width * view.height <= _MOST_CELLS


def grid_svg(view: GridView, actions: tuple[str, ...] = (), shares: Shares | None = None) -> str:
    """The picture; `shares` are the arrows, state -> action -> probability.

    It is drawn in the colour of the text around it, so that it suits light and dark pages.
    """
    letters = initials(view)
    pieces = [_rect(*cell, 'fill="currentColor" fill-opacity=".55"') for cell in view.walls]
    for state, cell in enumerate(view.cells):
        start = ' stroke-width="2"' if state in view.starts else ' stroke-opacity=".3"'
        pieces.append(_rect(*cell, f'fill="none" stroke="currentColor"{start}'))
        if state in letters:
            pieces.append(_letter(cell, letters[state], at=(5, 10), size=9))
        if state in view.traps:
            pieces.append(_letter(cell, "×", at=(_SIDE // 2, _SIDE // 2 + 6), size=16))
        else:
            pieces += _arrows(cell, actions, (shares or {}).get(state, {}))
    width, height = view.width * _SIDE + 2, view.height * _SIDE + 2
    looks = f'width="{width}" height="{height}" viewBox="-1 -1 {width} {height}" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {looks} aria-label="the grid">{"".join(pieces)}</svg>'


def _arrows(cell: tuple[int, int], actions: tuple[str, ...], shares: Mapping[int, float]) -> Iterator[str]:
    x, y = (cell[0] + 0.5) * _SIDE, (cell[1] + 0.5) * _SIDE
    for action, share in shares.items():
        if share < _LEAST:
            continue
        looks = f'stroke="currentColor" stroke-opacity="{0.2 + 0.8 * share:.2f}"'
        direction = direction_of(actions[action])
        if direction not in _AIM:
            yield f'<circle cx="{x:g}" cy="{y:g}" r="{1 + 2 * share:.2f}" fill="currentColor" {looks}/>'
            continue
        right, down = _AIM[direction]
        reach = 5 + 7 * share
        tip, back = (x + right * reach, y + down * reach), reach - 4
        wings = [(x + right * back + down * side, y + down * back + right * side) for side in (-3, 3)]
        line = " ".join(f"L{px:.1f} {py:.1f}" for px, py in (tip, wings[0], tip, wings[1]))
        yield f'<path d="M{x:g} {y:g} {line}" fill="none" stroke-width="1.5" {looks}/>'


def _rect(column: int, row: int, looks: str) -> str:
    return f'<rect x="{column * _SIDE}" y="{row * _SIDE}" width="{_SIDE}" height="{_SIDE}" {looks}/>'


def _letter(cell: tuple[int, int], letter: str, *, at: tuple[int, int], size: int) -> str:
    x, y = cell[0] * _SIDE + at[0], cell[1] * _SIDE + at[1]
    looks = f'font-size="{size}" text-anchor="middle" fill="currentColor" font-family="sans-serif"'
    return f'<text x="{x}" y="{y}" {looks}>{text(letter)}</text>'
