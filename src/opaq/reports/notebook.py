"""Show problems, policies, results and reports in notebooks: their pages as HTML, grids with a picture.

Comes in: one of these objects. Goes out: a string of HTML that needs no style or script from elsewhere. A report is a
page of its own, with scripts: it stands in a frame that keeps it from the notebook around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from opaq.codec import Result
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.grid import GridView, PolicyView, Shares, direction_of, initials
from opaq.reports.layout import Facts, Page, TextTable, html_text, render_html
from opaq.reports.pages import page_of
from opaq.reports.policy_report import Report
from opaq.reports.text.sentences import question_sentence
from opaq.solvers.solve import Solution


def notebook_html(thing: Problem | Policy | Result | Report) -> str:
    """Return the HTML of a problem, a policy, a result or a report; `opaq.display` calls this for notebooks.

    A problem on a grid is shown with a picture; so is a solution, where it is not one read back from a file.
    """
    if isinstance(thing, Problem):
        return render_html(_problem_page(thing), picture=_picture(thing))
    if isinstance(thing, Policy):
        return render_html(_policy_page(thing))
    if isinstance(thing, Report):
        return _frame(thing)
    product = getattr(thing, "product", None) if isinstance(thing, Solution) else None
    if product is None or not isinstance(thing, Solution):
        return render_html(page_of(thing))
    return render_html(page_of(thing), picture=_picture(product.problem, PolicyView(product, thing.pi)))


def _frame(report: Report) -> str:
    """Return the page of a report in a frame, whose scripts cannot reach the notebook."""
    title = html_text(str(report.data["title"]))
    looks = f"width:100%;height:{_FRAME_HEIGHT}px;border:1px solid rgba(128,128,128,.4)"
    page = escape(report.html, quote=True)
    return f'<iframe title="Report of {title}" sandbox="allow-scripts" style="{looks}" srcdoc="{page}"></iframe>'


def _problem_page(problem: Problem) -> Page:
    """Return a page with the question of the problem and its sizes."""
    rows = (
        ("states", f"{problem.mdp.num_states:,}"),
        ("actions", _name_list(problem.mdp.actions)),
        ("observations", _name_list(problem.observer.observations)),
        ("horizon", f"{problem.horizon:,} transitions"),
        ("policies by", ", ".join(problem.policy_class.conditions_on) or "nothing"),
    )
    return Page(question_sentence(problem), (Facts(rows),), f"Problem {problem.name}".strip())


def _policy_page(policy: Policy) -> Page:
    """Return a page with the rows of a policy, and the likelier actions of each."""
    keys = policy.policy_class.conditions_on
    rows = tuple((*map(_key, key), _likely(row)) for key, row in policy.rows.items())
    title = f"Policy by {', '.join(keys) or 'nothing'}: {len(policy.rows):,} rows"
    return Page("", (TextTable((*keys, "actions"), rows),), title)


def _name_list(names: tuple[str, ...], *, most: int = 6) -> str:
    """Return how many names there are and the first `most` of them."""
    return f"{len(names):,}: {', '.join(names[:most])}{', ...' if len(names) > most else ''}"


def _key(part: object) -> str:
    """Return one part of a row's key as text: names of a tuple joined by commas."""
    return ", ".join(map(str, part)) if isinstance(part, tuple) else str(part)


def _likely(row: Mapping[str, float]) -> str:
    """Return the actions of a row from the likeliest on, those of 0.0005 or more."""
    ranked = sorted(row.items(), key=lambda item: -item[1])
    return ", ".join(f"{action} {share:.3g}" for action, share in ranked if share >= 5e-4)


def _picture(problem: Problem, policy: PolicyView | None = None) -> str:
    """Return a picture of a grid of at most 900 cells as SVG; empty for other problems.

    policy: drawn as arrows; None draws none.
    """
    view = GridView.of(problem)
    if view is None or view.width * view.height > _MOST_CELLS:
        return ""
    return _grid_svg(view, problem.mdp.actions, None if policy is None else policy.average(view.first))


_FRAME_HEIGHT = 800  # pixels
_SIDE = 28  # pixels of a cell
_MOST_CELLS = 900  # larger grids would not be a small picture
_LEAST = 0.05  # an action less likely than this is not drawn
_AIM: Mapping[str, tuple[int, int]] = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


def _grid_svg(view: GridView, actions: tuple[str, ...] = (), shares: Shares | None = None) -> str:
    """Return the picture of a grid as an SVG element.

    view: the grid. actions: names by index, which give arrows their directions.
    shares: state -> action -> probability, drawn as arrows; None draws none.
    It is drawn in the colour of the text around it, so that it suits light and dark pages.
    """
    letters = initials(view)
    pieces = [_rect(*cell, 'fill="currentColor" fill-opacity=".55"') for cell in view.walls]
    for state, cell in enumerate(view.cells):
        if view.first[state] != state:
            continue
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
    """Yield the marks of one cell: an arrow for an action that moves, a dot for others, larger the likelier."""
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
    """Return the square of one cell; looks: attributes of the element."""
    return f'<rect x="{column * _SIDE}" y="{row * _SIDE}" width="{_SIDE}" height="{_SIDE}" {looks}/>'


def _letter(cell: tuple[int, int], letter: str, *, at: tuple[int, int], size: int) -> str:
    """Return a letter in a cell; at: pixels from its upper left corner. size: pixels of the font."""
    x, y = cell[0] * _SIDE + at[0], cell[1] * _SIDE + at[1]
    looks = f'font-size="{size}" text-anchor="middle" fill="currentColor" font-family="sans-serif"'
    return f'<text x="{x}" y="{y}" {looks}>{html_text(letter)}</text>'
