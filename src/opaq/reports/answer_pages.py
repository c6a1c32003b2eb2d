"""The answers of the commands as pages for people: what it means first, then the figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opaq.model.problem import Problem
from opaq.opacity.measure import Measurement
from opaq.reports.certificate_text import certificate_rows, certificate_sentence, uniform_sentence
from opaq.reports.comparison_text import comparison_cells, comparison_sentence, missing_lines
from opaq.reports.grid import grid_of, path_lines
from opaq.reports.layout import WIDTH, Facts, Lines, Page, Part
from opaq.reports.measurement_text import measurement_rows, sequence_parts
from opaq.reports.run_text import run_parts, runs_sentence
from opaq.reports.sentences import answer_sentence
from opaq.reports.solution_text import search_rows, verdict_rows
from opaq.simulation.replay import Replay

Solution = Any  # an opaq.solvers.solve.Solution; reports know no solver, only what they are given
Comparison = Any  # an opaq.solvers.compare.Comparison
Certificate = Any  # an opaq.certificates.certify.Certificate


def measurement_page(measurement: Measurement, *, width: int = WIDTH) -> Page:
    """What a policy gives away and earns, and telling observations."""
    facts = Facts(measurement_rows(measurement))
    return Page(answer_sentence(measurement), (facts, *sequence_parts(measurement, width=width)))


def solution_page(solution: Solution, certificate: Certificate | None = None, *, width: int = WIDTH) -> Page:
    """The same for the policy found, with how the search ended, and how good it is where that was certified."""
    measurement = solution.measurement
    facts = Facts((*verdict_rows(solution), *measurement_rows(measurement)))
    found = Facts(search_rows(solution))
    proven = () if certificate is None else (Facts(certificate_rows(certificate)),)
    parts = (facts, *sequence_parts(measurement, width=width), found, *proven)
    return Page(answer_sentence(measurement, certificate), parts)


def certificate_page(certificate: Certificate, *, width: int = WIDTH) -> Page:
    """The bound; with the policy given, what it reaches and how far it is from the bound at most."""
    rows, measurement = certificate_rows(certificate), certificate.measurement
    if measurement is None or not certificate.given:
        sentence = f"{certificate_sentence(certificate)} {uniform_sentence(certificate)}".strip()
        return Page(sentence, (Facts(rows[1:]),))
    parts: tuple[Part, ...] = (
        Facts(measurement_rows(measurement)),
        *sequence_parts(measurement, width=width),
        Facts(rows),
    )
    return Page(answer_sentence(measurement, certificate), parts)


def comparison_page(comparison: Comparison, *, width: int = WIDTH) -> Page:
    """The ladder as a table, and what is missing from it."""
    missing = missing_lines(comparison, width=width)
    parts = (comparison_cells(comparison), *((Lines(tuple(missing)),) if missing else ()))
    return Page(comparison_sentence(comparison), parts)


def runs_page(runs: tuple[Replay, ...], *, width: int = WIDTH) -> Page:
    """One table a run."""
    return Page(runs_sentence(runs), run_parts(runs, width=width))


def paths_page(problem: Problem, runs: tuple[Replay, ...], *, width: int = WIDTH) -> Page:
    """Every run as a table and as a path on the grid; InputError if the problem is no grid."""
    view, page = grid_of(problem), runs_page(runs, width=width)
    tables, names = page.parts[: len(runs)], page.parts[len(runs) :]
    paths = [
        path_lines(view, [moment.state for moment in run.moments], title=f"path of run {number}", width=width)
        for number, run in enumerate(runs, start=1)
    ]
    parts = [part for pair in zip(tables, paths, strict=True) for part in pair]
    return replace(page, parts=(*parts, *names))
