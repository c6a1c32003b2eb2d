"""What notebooks show of problems and results; `opaq.display` names these functions by class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from opaq.errors import escape_invisible
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.measure import Measurement
from opaq.reports.certificate_text import certificate_rows, certificate_sentence, rounded_up, uniform_sentence
from opaq.reports.comparison_text import comparison_cells, comparison_sentence, missing_lines
from opaq.reports.grid import GridView, PolicyView, Shares, direction_of, initials
from opaq.reports.measurement_text import measurement_rows
from opaq.reports.sentences import answer_sentence, question_sentence
from opaq.reports.solution_text import search_rows, verdict_rows
from opaq.simulation.replay import Replay

_LINE = "1px solid rgba(128,128,128,.35)"  # seen on white and on black
_CELL = f"padding:.15em .6em;border-bottom:{_LINE};vertical-align:top;background:none;color:inherit;"
_TABLE = "border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit;"
_LONGEST = 80  # characters of a cell


def box(title: str, *content: str) -> str:
    """A titled piece of a page; the content is markup."""
    head = f'<div style="font-weight:600">{text(title)}</div>'
    return f'<div style="color:inherit;max-width:60em;overflow-x:auto">{head}{"".join(content)}</div>'


def paragraph(words: str) -> str:
    """A sentence."""
    return f'<div style="margin:.3em 0">{text(words, most=1000)}</div>' if words else ""


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Labels and what belongs to them."""
    lines = [
        f'<tr style="background:none">{_cell(label, "th", "left;font-weight:normal;opacity:.7;white-space:nowrap")}'
        f"{_cell(words, 'td', 'left', most=400)}</tr>"
        for label, words in rows
    ]
    return f'<table style="{_TABLE}"><tbody>{"".join(lines)}</tbody></table>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = (), of: int = 0) -> str:
    """A table; `numbers` are the columns aligned to the right, `of` how many rows there are if not all are given."""
    sides = ["right" if column in numbers else "left" for column in range(len(head))]
    top = "".join(_cell(name, "th", side) for name, side in zip(head, sides, strict=True))
    cells = ["".join(_cell(cell, "td", side) for cell, side in zip(row, sides, strict=True)) for row in rows]
    lines = [f'<tr style="background:none">{row}</tr>' for row in cells]
    more = paragraph(f"and {of - len(rows):,} more") if of > len(rows) else ""
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<table style="{_TABLE}">{body}</table>{more}'


def text(words: str, *, most: int = _LONGEST) -> str:
    """Text that cannot become markup, nor turn a line round; long text is cut."""
    shown = escape_invisible(words)
    return escape(shown if len(shown) <= most else f"{shown[: most - 1]}…")


def _cell(words: str, name: str, side: str, *, most: int = _LONGEST) -> str:
    return f'<{name} style="{_CELL}text-align:{side}">{text(words, most=most)}</{name}>'


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


Solution = Any  # an opaq.solvers.solve.Solution; reports know no solver, only what they are given
Comparison = Any  # an opaq.solvers.compare.Comparison
Certificate = Any  # an opaq.certificates.certify.Certificate

_MOST_ROWS = 24  # of a table in a notebook
_MOST_VALUES = 8  # columns of a replay's beliefs


def problem_html(problem: Problem) -> str:
    """The question, the sizes and, of a grid, a picture."""
    view = GridView.of(problem)
    rows = [
        ("states", f"{problem.mdp.num_states:,}"),
        ("actions", _name_list(problem.mdp.actions)),
        ("observations", _name_list(problem.observer.observations)),
        ("horizon", f"{problem.horizon:,} transitions"),
        ("policies by", ", ".join(problem.policy_class.conditions_on) or "nothing"),
    ]
    picture = grid_svg(view) if view is not None and small(view) else ""
    return box(f"Problem {problem.name}".strip(), paragraph(question_sentence(problem)), facts(rows), picture)


def policy_html(policy: Policy) -> str:
    """The first rows, with the likelier actions of each."""
    keys = policy.policy_class.conditions_on
    shown = list(policy.rows.items())[:_MOST_ROWS]
    rows = [(*map(_key, key), _likely(row)) for key, row in shown]
    title = f"Policy by {', '.join(keys) or 'nothing'}: {len(policy.rows):,} rows"
    return box(title, table((*keys, "actions"), rows, of=len(policy.rows)))


def measurement_html(measurement: Measurement) -> str:
    """The answer in a sentence, and the figures."""
    title = f"Measurement of {measurement.problem}" if measurement.problem else "Measurement"
    return box(title, paragraph(answer_sentence(measurement)), facts(measurement_rows(measurement)))


def solution_html(solution: Solution) -> str:
    """The same for the policy found, how the search went and, on a grid, the policy's arrows."""
    measurement, product = solution.measurement, solution.product
    view, picture = GridView.of(product.problem), ""
    if view is not None and small(view):
        picture = grid_svg(view, product.problem.mdp.actions, PolicyView(product, solution.pi).average())
    rows = (*verdict_rows(solution), *measurement_rows(measurement), *search_rows(solution))
    return box(f"Solution of {measurement.problem}", paragraph(answer_sentence(measurement)), picture, facts(rows))


def certificate_html(certificate: Certificate) -> str:
    """The bound in a sentence, for which policies it holds, and the ladder."""
    sentence = certificate_sentence(certificate)
    further = "" if certificate.given else uniform_sentence(certificate)
    plain = [row for row in certificate_rows(certificate)[1:] if row[0]]
    ladder = [(rung.machine, rounded_up(rung.bound), f"{rung.seconds:.1f}") for rung in certificate.ladder]
    steps = table(("machine", "bound", "seconds"), ladder[:_MOST_ROWS], numbers=(1, 2), of=len(ladder))
    title = f"Certificate of {certificate.problem}"
    return box(title, paragraph(f"{sentence} {further}".strip()), facts(plain), steps if ladder else "")


def comparison_html(comparison: Comparison) -> str:
    """The ladder of classes as a table."""
    cells = comparison_cells(comparison)
    notes = [paragraph(line) for line in missing_lines(comparison, width=1000)]
    drawn = table(cells.head, cells.rows, numbers=cells.numbers)
    return box(f"Comparison of {comparison.problem}", paragraph(comparison_sentence(comparison)), drawn, *notes)


def replay_html(replay: Replay) -> str:
    """The run time by time, with the beliefs of the likeliest values of the secret."""
    moments = replay.moments[:_MOST_ROWS]
    weight: dict[str, float] = {}
    for moment in replay.moments:
        for value, share in moment.posterior.items():
            weight[value] = max(weight.get(value, 0.0), share)
    values = sorted(weight, key=weight.__getitem__, reverse=True)[:_MOST_VALUES]
    rows = [
        (str(each.time), each.state, each.action, each.observation, *(f"{each.posterior[name]:.3f}" for name in values))
        for each in moments
    ]
    head = ("time", "state", "action", "seen", *(f"P({name})" for name in values))
    title = f"Replay: the secret is {replay.secret}" if replay.secret else "Replay"
    return box(title, table(head, rows, numbers=(0, *range(4, len(head))), of=len(replay.moments)))


def _name_list(names: tuple[str, ...], *, most: int = 6) -> str:
    return f"{len(names):,}: {', '.join(names[:most])}{', ...' if len(names) > most else ''}"


def _key(part: object) -> str:
    return ", ".join(map(str, part)) if isinstance(part, tuple) else str(part)


def _likely(row: Any) -> str:
    ranked = sorted(row.items(), key=lambda item: -item[1])
    return ", ".join(f"{action} {share:.3g}" for action, share in ranked if share >= 5e-4)
