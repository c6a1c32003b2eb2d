"""Make the page of a solution: how the search ended, the figures of the policy, and how it was found.

Comes in: a `Solution`, and a `Certificate` where there is one. Goes out: a `Page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from opaq.reports.layout import WIDTH, Facts, Page
from opaq.reports.numbers import amount_words, number
from opaq.reports.text.measurement import figure_tables, measurement_rows, sequence_parts
from opaq.reports.text.sentences import answer_sentence
from opaq.solvers.solve import Solution
from opaq.solvers.strategy import Status
from opaq.solvers.verdict import Optimality

if TYPE_CHECKING:
    from opaq.certificates.certify import Certificate  # takes long to load, and most solutions have none

_MISSED = (Status.INFEASIBLE, Status.NOT_FOUND)


def solution_page(solution: Solution, certificate: Certificate | None = None, *, width: int = WIDTH) -> Page:
    """Return the page of a solution: its figures, how the search went, and how good it is where that was certified.

    certificate: of the same policy; None where there is none. width: columns, for the lines of long sequences.
    """
    measurement = solution.measurement
    facts = (
        Facts((*_verdict_rows(solution), *measurement_rows(measurement))),
        *figure_tables(measurement.figures),
    )
    proven = () if certificate is None else (_certificate_facts(certificate),)
    parts = (*facts, *sequence_parts(measurement, width=width), Facts(search_rows(solution)), *proven)
    return Page(answer_sentence(measurement, certificate), parts, f"Solution of {measurement.problem}")


def _certificate_facts(certificate: Certificate) -> Facts:
    """Return what is proven of the policy, as rows."""
    from opaq.reports.text.certificate import certificate_rows

    return Facts(certificate_rows(certificate))


def _verdict_rows(solution: Solution) -> tuple[tuple[str, str], ...]:
    """Return rows on how the search ended.

    They also name the objective where that is not the opacity, and what is attainable where the task was missed.
    """
    attainable = [
        ("attainable", f"{most.name} can be at most {most.largest:.6g}; {most.threshold:.6g} is asked")
        for most in solution.attainable
        if solution.status in _MISSED
    ]
    return (("status", solution.status_text), *_aim(solution), *attainable)


def search_rows(solution: Solution) -> tuple[tuple[str, str], ...]:
    """Return rows on how the policy was found: the starts, the optimality where it is known, time and solver.

    A policy that came with a bound, or from a program, has no starts.
    """
    rows = [("starts", _spread(solution))] if solution.starts or not solution.measurement.feasible else []
    if solution.optimality is not None:
        unit = solution.measurement.of.unit or f"of {solution.measurement.of.title}"
        rows.append(
            (
                "optimality",
                _optimality_words(solution.optimality, unit, minimise=solution.measurement.objective.minimise),
            )
        )
    method = f"solver {solution.solver} on {solution.gradients} gradients"
    return (*rows, ("time", f"{solution.seconds:.1f} s, {method}, seed {solution.seed}"))


def _spread(solution: Solution) -> str:
    """Return how many starts ended feasible, and from where to where their values go."""
    feasible = [start for start in solution.starts if start.feasible]
    if not feasible:
        return f"none of {len(solution.starts)} starts ended feasible"
    count = f"{len(feasible)} of {len(solution.starts)} feasible"
    idle = sum(start.hides_nothing for start in feasible)
    if idle == len(feasible):
        each = "its policy has" if idle == 1 else "each of their policies has"
        return f"{count}; {each} nothing to hide (one value of the secret), which says nothing of an optimum"
    values = sorted((start.value for start in feasible if start.value is not None), reverse=True)
    spread = f"{solution.measurement.of.title} from {values[-1]:.4f} to {values[0]:.4f}, median {median(values):.4f}"
    error = max(start.standard_error or 0.0 for start in feasible)
    estimated = f" (estimates, each ± {error:.1g} or less)" if error else ""
    secretless = f"; {idle} of them with nothing to hide (one value of the secret)" if idle else ""
    return f"{count}; {spread}{estimated}{secretless}{_polish_note(solution, values)}"


def _polish_note(solution: Solution, scores: Sequence[float]) -> str:
    """Return a note that the answer is better than what any start ended with; empty where four digits do not show it.

    scores: values of the feasible starts. Sampled searches are not polished.
    """
    if solution.gradients == "sampled":
        return ""
    reached, minimise = solution.measurement.uncertainty, solution.measurement.objective.minimise
    best = min(scores) if minimise else max(scores)
    better = reached.value < best if minimise else reached.value > best
    if reached.method != "exact" or not better or f"{best:.4f}" == f"{reached.value:.4f}":
        return ""
    return f"; the best was then polished to {reached.value:.4f}"


def _aim(solution: Solution) -> list[tuple[str, str]]:
    """Return a row on what was maximised or minimised, unless it is the opacity that is shown anyway."""
    measurement, minimise = solution.measurement, solution.measurement.objective.minimise
    figure = measurement.objective.figure
    if measurement.of.name == "opacity" and figure is None:
        return []
    unit = f" {measurement.of.unit}" if measurement.of.unit else ""
    words = f"{figure or measurement.of.title}: {amount_words(measurement.uncertainty)}{unit}"
    return [("minimised" if minimise else "maximised", words)]


def _optimality_words(optimality: Optimality, unit: str, *, minimise: bool) -> str:
    """Return the residual, the gradient and the curvature in words; unit: that of the objective.

    Curvatures are those of what is maximised: where the task minimises, they are shown with the other sign.
    """
    moved = f"at most {number(optimality.residual, 2)} {unit} per unit of probability moved"
    words = f"{moved}, gradient {number(optimality.gradient_norm, 2)}"
    if optimality.curvature is None:
        return words
    if minimise:
        return f"{words}, smallest curvature {number(-optimality.curvature, 2)} (a local minimum has none below 0)"
    return f"{words}, largest curvature {number(optimality.curvature, 2)} (a local maximum has none above 0)"
