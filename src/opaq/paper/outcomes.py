"""Results of a reproduction: rows, pictures, and tables of them as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opaq.errors import escape_invisible
from opaq.opacity.measure import Measurement
from opaq.paper.settings import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: where the figures come from, and the figures. None: not known."""

    source: str
    opacity: float
    lower: float | None
    upper: float | None
    method: str  # exact, interval, sampled or published
    expected_return: float | None
    guess_error: float | None
    feasible: bool | None
    seconds: float | None
    note: str = ""
    status: str = ""  # how the search ended, in one word; empty where there was none


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """All rows and pictures of one experiment."""

    name: str
    title: str
    findings: tuple[Finding, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)  # file name without its ending -> what is drawn


def row_of_measurement(
    source: str, measurement: Measurement, *, seconds: float | None = None, note: str = "", status: str = ""
) -> Finding:
    """A row by our own evaluation."""
    opacity = measurement.opacity
    return Finding(
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


def row_of_paper(figures: Published) -> Finding:
    """A row as the paper reports it."""
    return Finding(
        source="paper",
        opacity=figures.opacity,
        lower=None,
        upper=None,
        method="published",
        expected_return=figures.expected_return,
        guess_error=figures.guess_error,
        feasible=None,
        seconds=figures.seconds,
        note=figures.note,
    )


_COLUMNS = ("source", "opacity", "return", "guess error", "task met", "status", "time", "note")


def render_outcomes(outcomes: Sequence[ExperimentResult]) -> str:
    """One Markdown table an experiment, aligned so that it also reads as plain text."""
    return "\n\n".join(_section(outcome) for outcome in outcomes) + "\n"


def outcomes_to_dict(outcomes: Sequence[ExperimentResult], *, version: str, seed: int, quick: bool) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "opaq": version,
        "seed": seed,
        "quick": quick,
        "experiments": [
            {
                "name": outcome.name,
                "title": outcome.title,
                "findings": [_finding_to_dict(finding) for finding in outcome.findings],
                "figures": list(outcome.figures),
            }
            for outcome in outcomes
        ],
    }


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    return {
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


def _section(outcome: ExperimentResult) -> str:
    rows = [_COLUMNS, *(_row(finding) for finding in outcome.findings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"## {outcome.title}: `{outcome.name}`", "", lines[0], rule, *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) + " |"


def _row(finding: Finding) -> tuple[str, ...]:
    return (
        escape_invisible(finding.source),
        _opacity(finding),
        _number(finding.expected_return),
        _number(finding.guess_error),
        "" if finding.feasible is None else "yes" if finding.feasible else "NO",
        finding.status,
        _time(finding.seconds),
        escape_invisible(finding.note),
    )


def _opacity(finding: Finding) -> str:
    if finding.method == "interval" and finding.lower is not None and finding.upper is not None:
        return f"{_number(finding.lower)} to {_number(finding.upper)}"
    return _number(finding.opacity)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.1f} s"
