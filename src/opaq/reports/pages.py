"""Make the page of any result: the text that notebooks and commands show of it.

Comes in: a result. Goes out: a `Page`. A new kind of result registers its page here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from opaq.certificates.certify import Certificate, CertifiedSolution
from opaq.certificates.history.program import HistoryOptimum
from opaq.opacity.measure import Measurement
from opaq.opacity.over_time import OpacityOverTime, RevealingSequences
from opaq.reports.layout import WIDTH, Facts, Page, TextTable, list_shares, rank_shares
from opaq.reports.text.certificate import certificate_page
from opaq.reports.text.comparison import comparison_page
from opaq.reports.text.frontier import frontier_page
from opaq.reports.text.measurement import measurement_page, sequence_lines
from opaq.reports.text.runs import runs_page
from opaq.reports.text.sensors import ranking_page
from opaq.reports.text.solution import solution_page
from opaq.reports.text.study import study_page
from opaq.simulation.replay import Filtering, Replay
from opaq.solvers.compare import Comparison
from opaq.solvers.solve import Solution
from opaq.study.front.frontier import Frontier
from opaq.study.sensors import SensorRanking
from opaq.study.sweep.study import Study

_SHOWN_VALUES, _LEAST = 4, 5e-4  # of a distribution


@singledispatch
def page_of(result: object, *, width: int = WIDTH) -> Page:
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
def _(result: Filtering, *, width: int = WIDTH) -> Page:
    """Return the page of filtered observations: a line per observation."""
    rows = tuple(
        (str(step.time), step.observation, f"{step.log2_probability:.4g}", _likely(step.secret), _likely(step.states))
        for step in result.steps
    )
    head = ("time", "observation", "log2 P", "the secret", "the state now")
    return Page("", (TextTable(head, rows, (0, 2)),), f"What the observer of {result.problem} believes")


@page_of.register
def _(result: HistoryOptimum, *, width: int = WIDTH) -> Page:
    """Return the page of the optimum over histories: the interval, and the sizes of the program."""
    facts = (
        (result.uncertainty.replace("_", " "), "none" if result.value is None else str(result.value)),
        ("histories", f"{result.num_histories:,}"),
        ("sequences", f"{result.num_sequences:,}"),
        ("time", f"{result.seconds:.1f} s"),
    )
    return Page(f"{result.status.value}.", (Facts(facts),), "Best of all policies that see the states")


@page_of.register
def _(result: OpacityOverTime, *, width: int = WIDTH) -> Page:
    """Return the page of opacity over time: a line per time."""
    rows = tuple(
        (str(time), f"{result.opacity[time]:.5f}", f"{result.guess_error[time]:.5f}")
        for time in range(result.opacity.size)
    )
    notes = (result.explanation,)
    return Page("", (TextTable(("time", "opacity", "guess error"), rows, range(3), notes=notes),), "Opacity over time")


@page_of.register
def _(result: RevealingSequences, *, width: int = WIDTH) -> Page:
    """Return the page of revealing sequences, each with its probability, its bits and the posterior."""
    sentence = f"All observations together tell {result.leakage} bits of the secret."
    parts = sequence_lines([("most revealing observations", "leakage", result.sequences)], width=width)
    return Page(sentence, parts, f"What gives the secret of {result.problem} away")


def _likely(shares: Mapping[str, float]) -> str:
    """Return the four likeliest of some values with their probabilities."""
    return list_shares(rank_shares(shares, least=_LEAST), str, "{:.3f}".format, most=_SHOWN_VALUES)


@page_of.register
def _(result: Replay, *, width: int = WIDTH) -> Page:
    """Return the page of one run."""
    return runs_page([result], width=width)
