"""Answers that a report shows beside the measurement: solutions, certificates and comparisons, objects or their JSON.

What is about another problem or another policy is refused; what the measurement says already is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opaq.errors import Faults
from opaq.opacity.measure import Measurement
from opaq.reports.certificate_text import certificate_to_dict
from opaq.reports.comparison_text import comparison_to_dict
from opaq.reports.measurement_text import measurement_to_dict
from opaq.reports.report_limits import LIMITS, ReportLimits
from opaq.reports.solution_text import solution_to_dict

Answer = Any  # an object of opaq, or the mapping that its --json prints

_SAME = 1e-6  # bits by which two measurements of one policy may differ, beside their intervals
_NUMBER, _TEXT = (int, float), str
_NEEDED: dict[str, dict[str, Any]] = {  # key -> its types, or of a list what every part has at least
    "solution": {
        "opacity": Mapping,
        "status": _TEXT,
        "status_text": _TEXT,
        "solver": _TEXT,
        "trace": ("iteration", "slack", "multipliers"),
        "starts": ("kind", "status", "feasible"),
    },
    "certificate": {
        "upper_bound": (*_NUMBER, type(None)),
        "of": _TEXT,
        "status": _TEXT,
        "status_text": _TEXT,
        "scope": _TEXT,
        "ladder": ("machine", "upper_bound", "seconds"),
    },
    "comparison": {
        "classes": ("class", "opacity", "return", "guess_error", "feasible", "status"),
        "unreached": ("class", "reason"),
    },
}
_PRINTED_BY = {"solution": "solve", "certificate": "certify", "comparison": "compare"}


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """Each as plain data, or None."""

    solution: Mapping[str, Any] | None = None
    certificate: Mapping[str, Any] | None = None
    comparison: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, solution: Answer = None, certificate: Answer = None, comparison: Answer = None) -> GivenAnswers:
        """From objects or mappings. Raises InputError for mappings that lack what such an answer has."""
        faults = Faults()
        given = {
            "solution": _as_dict(solution, solution_to_dict, "solution", faults),
            "certificate": _as_dict(certificate, certificate_to_dict, "certificate", faults),
            "comparison": _as_dict(comparison, comparison_to_dict, "comparison", faults),
        }
        for kind, answer in given.items():
            unfit = [] if answer is None else _unfit(answer, _NEEDED[kind])
            if unfit:
                found = f"is no {kind}: {', '.join(unfit)} is missing or of another type"
                faults.error(kind, found, f"give what opaq {_PRINTED_BY[kind]} found, an object or its JSON")
        faults.raise_if_any()
        return cls(**given)

    def check(self, measurement: Measurement) -> None:
        """Raise InputError where one of them is about another problem, or the solution about another policy."""
        faults = Faults()
        for kind in _NEEDED:
            answer = getattr(self, kind)
            name = None if answer is None else answer.get("problem")
            if answer is not None and name != measurement.problem:
                found = f"is about the problem {name!r}, not {measurement.problem!r}"
                faults.error(kind, found, "give answers about the problem of the report")
        if self.solution is not None and not faults.errors and not _same_policy(self.solution, measurement):
            theirs, mine = _value(self.solution), measurement.opacity.value
            found = f"is about another policy: its opacity is {theirs:.6g}, that of this policy {mine:.6g}"
            faults.error("solution", found, "give the policy that was found with it")
        faults.raise_if_any()

    def shown_solution(self, measurement: Measurement, limits: ReportLimits = LIMITS) -> dict[str, Any] | None:
        """How the policy was found; of a long trace every so many points, the last one included."""
        if self.solution is None:
            return None
        own = measurement_to_dict(measurement).keys() - {"seconds"}
        kept = {key: value for key, value in self.solution.items() if key not in own and key not in _CERTIFICATE}
        trace = list(kept.get("trace", ()))
        every = -(-len(trace) // limits.trace_points) if trace else 1
        kept["trace"] = trace[(len(trace) - 1) % every :: every] if trace else []
        kept.pop("policy", None)
        return kept

    def shown_certificate(self, measurement: Measurement) -> dict[str, Any] | None:
        """The bound and how it was found; the gap is that of the policy of the report."""
        if self.certificate is None:
            return None
        own = measurement_to_dict(measurement).keys() - {"seconds", "problem"}
        kept = {key: value for key, value in self.certificate.items() if key not in own}
        bound, reached = kept["upper_bound"], measurement.uncertainty.lower
        gap = max(0.0, bound - reached) if bound is not None and measurement.feasible else None
        share = None if gap is None or (bound <= 0 and gap > 0) else gap / bound if gap > 0 else 0.0
        return kept | {"gap": gap, "relative_gap": share}

    def shown_comparison(self) -> dict[str, Any] | None:
        """The ladder of classes, without policies."""
        if self.comparison is None:
            return None
        classes = [
            {key: value for key, value in rung.items() if key != "policy"} for rung in self.comparison["classes"]
        ]
        return {**self.comparison, "classes": classes}


_CERTIFICATE = ("upper_bound", "gap", "relative_gap", "certificate")


def kind_of_answer(answer: Mapping[str, Any]) -> str | None:
    """Which of the answers a mapping is: "solution", "certificate", "comparison", or None."""
    return next((kind for kind, needed in _NEEDED.items() if all(key in answer for key in needed)), None)


def printed_by(answer: Mapping[str, Any]) -> str | None:
    """The command that prints such answers, or None."""
    kind = kind_of_answer(answer)
    return None if kind is None else _PRINTED_BY[kind]


def _unfit(answer: Mapping[str, Any], needed: Mapping[str, Any]) -> list[str]:
    """The keys that an answer lacks, or that hold something else than they should."""
    return [key for key, kind in needed.items() if key not in answer or not _fits(answer[key], kind)]


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, type) or not isinstance(kind[0], str):
        return isinstance(value, kind) and not isinstance(value, bool)
    return isinstance(value, list) and all(isinstance(part, Mapping) and {*kind} <= part.keys() for part in value)


def certificate_in(solution: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The certificate that a solve has printed with its answer, as `certify` would have printed it."""
    ending = solution.get("certificate")
    if not isinstance(ending, Mapping):
        return None
    figures = {key: solution.get(key) for key in ("upper_bound", "gap", "relative_gap", "problem")}
    return {**figures, **ending}


def _as_dict(answer: Answer, to_dict: Any, kind: str, faults: Faults) -> Mapping[str, Any] | None:
    if answer is None or isinstance(answer, Mapping):
        return answer
    try:
        stated: Mapping[str, Any] = to_dict(answer)
    except AttributeError:
        found = f"is of the type {type(answer).__name__}"
        faults.error(kind, found, f"give what opaq {_PRINTED_BY[kind]} found, an object or its JSON")
        return None
    return stated


def _value(answer: Mapping[str, Any]) -> float:
    opacity = answer["opacity"]
    return float(value) if isinstance(value := opacity.get("value"), int | float) else float("nan")


def _same_policy(answer: Mapping[str, Any], measurement: Measurement) -> bool:
    """Whether two measurements can be of one policy: as close as their intervals and errors allow."""
    opacity, mine = answer["opacity"], measurement.opacity
    errors = [error for error in (opacity.get("standard_error"), mine.standard_error) if isinstance(error, float)]
    width = mine.width if mine.standard_error is None else 0.0
    return abs(_value(answer) - mine.value) <= _SAME + width + 6.0 * sum(errors)
