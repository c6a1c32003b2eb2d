"""Make the page of any result: the text that notebooks and commands show of it.

Comes in: a result. Goes out: a `Page`. A new kind of result registers its page here.
"""

from __future__ import annotations

from functools import singledispatch

from opaq.certificates.certify import Certificate, CertifiedSolution
from opaq.codec import Result
from opaq.opacity.measure import Measurement
from opaq.reports.layout import WIDTH, Page
from opaq.reports.text.certificate import certificate_page
from opaq.reports.text.comparison import comparison_page
from opaq.reports.text.frontier import frontier_page
from opaq.reports.text.measurement import measurement_page
from opaq.reports.text.runs import runs_page
from opaq.reports.text.sensors import ranking_page
from opaq.reports.text.solution import solution_page
from opaq.reports.text.study import study_page
from opaq.simulation.replay import Replay
from opaq.solvers.compare import Comparison
from opaq.solvers.solve import Solution
from opaq.study.front.frontier import Frontier
from opaq.study.sensors import SensorRanking
from opaq.study.sweep.study import Study


@singledispatch
def page_of(result: Result, *, width: int = WIDTH) -> Page:
    """Return the page of a result: a sentence, facts, tables.

    result: any result of opaq. width: columns, for the parts that are lines of text.

    Raises NotImplementedError for a class that has registered no page.
    """
    raise NotImplementedError(f"there is no page for {type(result).__name__}")


@page_of.register
def _(result: Measurement, *, width: int = WIDTH) -> Page:
    """Return the page of a measurement."""
    return measurement_page(result, width=width)


@page_of.register
def _(result: Solution, *, width: int = WIDTH) -> Page:
    """Return the page of a solution."""
    return solution_page(result, width=width)


@page_of.register
def _(result: CertifiedSolution, *, width: int = WIDTH) -> Page:
    """Return the page of a solution with its certificate."""
    return solution_page(result.solution, result.certificate, width=width)


@page_of.register
def _(result: Certificate, *, width: int = WIDTH) -> Page:
    """Return the page of a certificate."""
    return certificate_page(result, width=width)


@page_of.register
def _(result: Comparison, *, width: int = WIDTH) -> Page:
    """Return the page of a comparison; it has no lines that need a width."""
    return comparison_page(result)


@page_of.register
def _(result: Frontier, *, width: int = WIDTH) -> Page:
    """Return the page of a front; it has no lines that need a width."""
    return frontier_page(result)


@page_of.register
def _(result: SensorRanking, *, width: int = WIDTH) -> Page:
    """Return the page of a ranking of sensors; it has no lines that need a width."""
    return ranking_page(result)


@page_of.register
def _(result: Study, *, width: int = WIDTH) -> Page:
    """Return the page of a study."""
    return study_page(result, width=width)


@page_of.register
def _(result: Replay, *, width: int = WIDTH) -> Page:
    """Return the page of one run."""
    return runs_page([result], width=width)
