"""What notebooks show of problems and results; `opaq.display` names these functions by class."""

from __future__ import annotations

from typing import Any

from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.measurement import Measurement
from opaq.reports.certificate_text import certificate_rows, certificate_sentence, rounded_up, uniform_sentence
from opaq.reports.comparison_text import comparison_cells, comparison_sentence, missing_lines
from opaq.reports.grid_view import GridView
from opaq.reports.html_grid import grid_svg, small
from opaq.reports.html_parts import box, facts, paragraph, table
from opaq.reports.measurement_text import measurement_rows
from opaq.reports.policy_view import PolicyView
from opaq.reports.sentences import answer_sentence, question_sentence
from opaq.reports.solution_text import search_rows, verdict_rows
from opaq.simulation.replay import Replay

Solution = Any  # an opaq.solvers.solution.Solution; reports know no solver, only what they are given
Comparison = Any  # an opaq.solvers.comparison.Comparison
Certificate = Any  # an opaq.certificates.certificate.Certificate

_MOST_ROWS = 24  # of a table in a notebook
_MOST_VALUES = 8  # columns of a replay's beliefs


def problem_html(problem: Problem) -> str:
    """The question, the sizes and, of a grid, a picture."""
    view = GridView.of(problem)
    rows = [
        ("states", f"{problem.mdp.num_states:,}"),
        ("actions", _named(problem.mdp.actions)),
        ("observations", _named(problem.observer.observations)),
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


def _named(names: tuple[str, ...], *, most: int = 6) -> str:
    return f"{len(names):,}: {', '.join(names[:most])}{', ...' if len(names) > most else ''}"


def _key(part: object) -> str:
    return ", ".join(map(str, part)) if isinstance(part, tuple) else str(part)


def _likely(row: Any) -> str:
    ranked = sorted(row.items(), key=lambda item: -item[1])
    return ", ".join(f"{action} {share:.3g}" for action, share in ranked if share >= 5e-4)
