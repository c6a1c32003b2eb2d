"""A policy on a grid, or a run's path, as characters: arrows where the encoding has them, ASCII where it has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opaq.errors import Fault, InputError
from opaq.escapes import printable
from opaq.model.problem import Problem
from opaq.reports.answer_page import Lines
from opaq.reports.grid_view import GridView
from opaq.reports.layout import WIDTH, wrapped
from opaq.reports.policy_view import PolicyView, Shares

_LEAST = 0.1  # an action less likely than this is not shown
_TIE = 1e-9  # shares this close are equal
_CELL = 4  # columns of a cell at least: initial, two symbols, a gap
_WALL = " ##"
_MOST_ROWS = 200
_DIRECTION = {
    name: direction
    for direction, names in {
        "north": ("n", "north", "up"),
        "east": ("e", "east", "right"),
        "south": ("s", "south", "down"),
        "west": ("w", "west", "left"),
        "stay": ("stay", "wait", "noop"),
    }.items()
    for name in names
}


def direction_of(action: str) -> str:
    """Where an action of this name leads: north, east, south, west or stay; empty for other names."""
    return _DIRECTION.get(action.lower(), "")


@dataclass(frozen=True, slots=True)
class Symbols:
    """How directions are drawn."""

    arrows: Mapping[str, str]

    def of(self, action: str) -> str:
        """One character for an action: an arrow for one that moves, otherwise its initial."""
        return self.arrows.get(direction_of(action), printable(action)[:1] or "?")

    @classmethod
    def for_encoding(cls, encoding: str | None) -> Symbols:
        """Arrows, if the encoding has them."""
        try:
            "".join(UNICODE.arrows.values()).encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return ASCII
        return UNICODE


UNICODE = Symbols({"north": "↑", "east": "→", "south": "↓", "west": "←", "stay": "·"})
ASCII = Symbols({"north": "^", "east": ">", "south": "v", "west": "<", "stay": "."})


def grid_of(problem: Problem) -> GridView:
    """The problem as a grid; InputError if it is none."""
    view = GridView.of(problem)
    if view is None:
        raise InputError(
            [Fault("model", "is no grid: its states are not cells called (column,row)", "ask for no picture of a grid")]
        )
    return view


def policy_lines(
    policy: PolicyView, *, time: int | None = None, symbols: Symbols = UNICODE, width: int = WIDTH
) -> Lines:
    """The likely actions of every cell, at one time or averaged over the run."""
    problem = policy.product.problem
    view = grid_of(problem)
    shares = policy.average() if time is None else _at(policy, time)
    labels, traps = initials(view), {*view.traps}
    texts = {
        state: labels.get(state, " ")
        + ("x" if state in traps else _likely(shares.get(state, {}), problem.mdp.actions, symbols))
        for state in range(len(view.cells))
    }
    averaged = ", averaged over the run" if policy.changes_with_time else ""
    title = f"likeliest actions{averaged}" if time is None else f"likeliest actions at time {time}"
    return Lines((*_board(view, texts, width), *_wrapped(_legend(view, symbols), width)), title)


def _legend(view: GridView, symbols: Symbols) -> list[str]:
    """What the characters mean."""
    likeliest, second = symbols.of("E"), symbols.of("S")
    labels = ", ".join(f"{_initial(label)} {printable(label)}" for label, states in view.labels.items() if states)
    return [
        f"{' '.join(symbols.arrows.values())} north east south west stay; ## wall; x no action leaves it; "
        "blank: not visited",
        f"{likeliest}{second} the likeliest and the next; {likeliest}+ the likeliest of three or more; "
        "* three or more, equally likely",
        *([f"labels: {labels}"] if labels else []),
    ]


def path_lines(view: GridView, states: Sequence[str], *, title: str, width: int = WIDTH) -> Lines:
    """A run on the grid: every visited cell shows when it was first entered, and + if it was entered again."""
    cell_of = {f"({column},{row})": state for state, (column, row) in enumerate(view.cells)}
    visits: dict[int, list[int]] = {}
    before = None
    for time, name in enumerate(states):
        if name != before:
            visits.setdefault(cell_of[name], []).append(time)
        before = name

    texts = dict.fromkeys(range(len(view.cells)), " .")
    texts |= {state: f"{times[0]:>2}{'+' if len(times) > 1 else ''}" for state, times in visits.items()}
    legend = ["numbers: the time a cell is entered first, + again later; . not visited; ## wall"]
    return Lines((*_board(view, texts, width), *_wrapped(legend, width)), title)


def _at(policy: PolicyView, time: int) -> Shares:
    for now, shares in enumerate(policy.by_time()):
        if now == time:
            return shares
    horizon = policy.product.process.horizon
    raise InputError([Fault("time", f"is {time}", f"give a time from 0 to the horizon, {horizon}")])


def _likely(shares: Mapping[int, float], actions: Sequence[str], symbols: Symbols) -> str:
    """The likeliest action of a cell, and what else is likely."""
    ranked = sorted(((share, -action) for action, share in shares.items() if share >= _LEAST), reverse=True)
    if not ranked:
        return ""
    if len(ranked) > 2 and ranked[0][0] - ranked[-1][0] < _TIE:
        return "*"
    first, *others = (symbols.of(actions[-action]) for _, action in ranked)
    return first + ("+" if len(others) > 1 else "".join(others))


def _board(view: GridView, texts: Mapping[int, str], width: int) -> list[str]:
    """The cells row by row under a head of columns, cut to the width."""
    text_at = {cell: texts[state] for state, cell in enumerate(view.cells)}
    size = max(_CELL, *(len(text) + 1 for text in texts.values()), len(str(view.width)) + 1)
    margin = len(str(view.height - 1)) + 1
    columns = range(min(view.width, max((width - margin) // size, 1)))
    rows = range(min(view.height, _MOST_ROWS))
    lines = [" " * margin + "".join(f"{column:>{_CELL - 2}}".ljust(size) for column in columns).rstrip()]
    for row in rows:
        cells = "".join(text_at.get((column, row), _WALL).ljust(size) for column in columns)
        lines.append(f"{row:>{margin - 1}} {cells}".rstrip())
    if len(columns) < view.width:
        lines += wrapped(f"columns {len(columns)} to {view.width - 1} do not fit the page", width=width)
    if len(rows) < view.height:
        lines += wrapped(f"rows {len(rows)} to {view.height - 1} are left out", width=width)
    return lines


def initials(view: GridView) -> dict[int, str]:
    """State -> one letter for its label; states with several labels show the one that fewest states carry."""
    initials: dict[int, str] = {}
    for label, states in sorted(view.labels.items(), key=lambda item: -len(item[1])):
        for state in states:
            initials[state] = _initial(label)
    return initials


def _initial(label: str) -> str:
    letter = printable(label)[:1] or "?"
    return letter if letter.isascii() and letter != " " else "?"


def _wrapped(legend: Sequence[str], width: int) -> list[str]:
    return [line for text in legend for line in wrapped(text, first="  ", rest="  ", width=width)]
