"""What a reproduction finds: rows of a table and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opaq.opacity.measurement import Measurement
from opaq.study.published import Published

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
class Outcome:
    """All rows and pictures of one experiment."""

    name: str
    title: str
    findings: tuple[Finding, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)  # file name without its ending -> what is drawn


def measured(
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


def published(figures: Published) -> Finding:
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
