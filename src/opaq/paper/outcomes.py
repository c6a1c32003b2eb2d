"""Results of the experiments: rows, pictures, and tables of them as Markdown, LaTeX and JSON.

A finding is one row of a table: figures and their source, which is the paper, a solver or a policy of ours. All of ours
are evaluated in the same way, so that rows can be compared; the paper's are as they were published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opaq.errors import escape_invisible
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement
from opaq.reports.latex import render_latex
from opaq.reports.layout import Page, TextTable
from opaq.reports.numbers import page_amount
from opaq.solvers.solve import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of an experiment's table. None: not known."""

    source: str  # of the figures, in words
    opacity: float  # bits
    lower: float | None = None  # the ends of its interval
    upper: float | None = None
    method: str = "published"  # exact, interval, sampled or published
    expected_return: float | None = None
    guess_error: float | None = None
    feasible: bool | None = None  # whether the task is met
    seconds: float | None = None  # of the search
    note: str = ""
    status: str = ""  # of the search, in one word; empty where there was none

    @classmethod
    def of_measurement(
        cls, source: str, measurement: Measurement, *, seconds: float | None = None, note: str = "", status: str = ""
    ) -> Finding:
        """Return the row of a policy that we have measured.

        source: of the figures, in words. measurement: of the policy. seconds: of its search, None where there was none.
        note, status: fields of the row.
        """
        opacity = measurement.opacity
        return cls(
            source=source,
            opacity=opacity.value,
            lower=opacity.lower,
            upper=opacity.upper,
            method=opacity.method,
            expected_return=measurement.expected_return,
            guess_error=measurement.guess_error.value,
            feasible=measurement.feasible,
            seconds=seconds,
            note=note,
            status=status,
        )

    @classmethod
    def of_solution(cls, source: str, solution: Solution, *, note: str = "") -> Finding:
        """Return the row of the policy that a search ended with.

        source: of the figures, in words. solution: what the search returned. note: a field of the row.
        """
        status = solution.status.name.lower()
        return cls.of_measurement(source, solution.measurement, seconds=solution.seconds, note=note, status=status)


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """All rows and pictures of one experiment, in the order in which they are shown."""

    name: str  # as the command takes it
    title: str
    findings: tuple[Finding, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)  # file name without its ending -> what is drawn


_COLUMNS = ("source", "opacity", "return", "guess error", "task met", "status", "time", "note")


def render_outcomes(outcomes: Sequence[ExperimentResult]) -> str:
    """Return one Markdown table per experiment, aligned so that it also reads as plain text.

    Figures have four digits, times are in seconds or hours, and a task that is missed is a "NO" that meets the eye;
    what is not known stays empty.
    """
    return "\n\n".join(_render_table(outcome) for outcome in outcomes) + "\n"


def latex_outcomes(outcomes: Sequence[ExperimentResult]) -> str:
    """Return one table of LaTeX per experiment, with the cells of `render_outcomes`; it needs booktabs."""
    tables = tuple(
        TextTable(_COLUMNS, tuple(map(_cells, outcome.findings)), numbers=(1, 2, 3, 6), title=outcome.title)
        for outcome in outcomes
    )
    return render_latex(Page("", tables))


def outcomes_to_dict(outcomes: Sequence[ExperimentResult], *, version: str, seed: int, quick: bool) -> dict[str, Any]:
    """Return the same as plain data, all digits included; what is not known is None.

    version: of opaq. seed, quick: as the experiments were run. Pictures are listed by the names of their files.
    """
    return {
        "opaq": version,
        "seed": seed,
        "quick": quick,
        "experiments": [
            {
                "name": outcome.name,
                "title": outcome.title,
                "findings": [
                    {
                        "source": finding.source,
                        "opacity": {
                            "value": finding.opacity,
                            "lower": finding.lower,
                            "upper": finding.upper,
                            "method": finding.method,
                        },
                        "return": finding.expected_return,
                        "guess_error": finding.guess_error,
                        "feasible": finding.feasible,
                        "status": finding.status,
                        "seconds": finding.seconds,
                        "note": finding.note,
                    }
                    for finding in outcome.findings
                ],
                "figures": list(outcome.figures),
            }
            for outcome in outcomes
        ],
    }


def _render_table(outcome: ExperimentResult) -> str:
    """Return the table of one experiment below its title; every column is as wide as its longest cell."""
    rows = [_COLUMNS, *(_cells(finding) for finding in outcome.findings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"## {outcome.title}: `{outcome.name}`", "", lines[0], rule, *lines[1:]])


def _cells(finding: Finding) -> tuple[str, ...]:
    """Return one row as text: an interval by its two ends, times above an hour in hours."""
    opacity, seconds, time = _number(finding.opacity), finding.seconds, ""
    if finding.method == "interval" and finding.lower is not None and finding.upper is not None:
        opacity = page_amount(Amount.between(finding.lower, finding.upper), _number)
    if seconds is not None:
        time = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.1f} s"
    return (
        escape_invisible(finding.source),
        opacity,
        _number(finding.expected_return),
        _number(finding.guess_error),
        "" if finding.feasible is None else "yes" if finding.feasible else "NO",
        finding.status,
        time,
        escape_invisible(finding.note),
    )


def _number(value: float | None) -> str:
    """Return a figure with four digits at most, without zeros at its end; nothing where it is not known."""
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
