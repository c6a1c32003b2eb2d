"""Read answers back from files, and collect those that a report shows beside the measurement.

Comes in: the path of a JSON file or of a run's folder, a mapping as JSON has it, or a result object. Goes out: the
typed result, or the plain data of it that the page shows. An answer about another problem or another policy is
refused; what the measurement says already is left out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from opaq.certificates.certify import Certificate, CertifiedSolution
from opaq.codec import Result, keys_of, kind_of
from opaq.errors import Fault, Faults, InputError
from opaq.files import read_bytes
from opaq.opacity.measure import Measurement
from opaq.simulation.replay import Replay
from opaq.solvers.compare import Comparison
from opaq.solvers.solve import Solution
from opaq.study.front.frontier import Frontier
from opaq.study.sensors import SensorRanking
from opaq.study.sweep.study import Study

_RESULTS: tuple[type[Result], ...] = (
    Measurement,
    Solution,
    Certificate,
    Comparison,
    Frontier,
    SensorRanking,
    Study,
    Replay,
)
_LARGEST = 200 << 20  # bytes
_IN_FOLDER = "result.json"  # the answer in the folder of a run
_SAME = 1e-6  # bits by which two measurements of one policy may differ, beside their intervals
_OF_CLASSES = {"opacity", "objective", "return", "guess_error", "feasible", "seconds"}  # what a page shows of them
_Kind = TypeVar("_Kind", bound=Result)

GivenSolution = Solution | CertifiedSolution | Mapping[str, Any]
GivenCertificate = Certificate | Mapping[str, Any]
GivenComparison = Comparison | Mapping[str, Any]


def read_answer(path: str | os.PathLike[str]) -> Result:
    """Return the result in a file that a command printed with --json, or in the folder of a run that has ended.

    path: the file, of at most 200 MB, or the folder, in which result.json is read.

    Raises InputError for a folder without that file, for a file that is no JSON or holds no result, and with every key
    that does not fit.
    """
    file = Path(path)
    if file.is_dir():
        if not (file / _IN_FOLDER).exists():
            raise InputError([Fault("", f"holds no {_IN_FOLDER}", "give a run that has ended")], str(file))
        file = file / _IN_FOLDER
    try:
        data = json.loads(read_bytes(file, max_bytes=_LARGEST, advice="no answer is so large"))
    except (ValueError, RecursionError):
        raise InputError([Fault("", "is not JSON", "give the JSON that a command answered")], str(path)) from None
    return result_of(data, source=str(path))


def result_of(data: object, *, source: str = "") -> Result:
    """Return the result that an object of JSON holds, by its key "result".

    data: what JSON was read into; a solution with a key "certificate" gives a `CertifiedSolution`.
    source: the file it is from, for messages; empty where there is none.

    Raises InputError where it is no mapping, names no known result, or has keys that do not fit.
    """
    if not isinstance(data, Mapping):
        raise InputError([Fault("", f"holds no JSON object but a {type(data).__name__}")], source)
    kind = kind_of(data)
    for cls in _RESULTS:
        if kind == cls.RESULT:
            chosen = CertifiedSolution if cls is Solution and "certificate" in data else cls
            return chosen.from_dict(data, source=source)
    advice = "give what opaq prints with --json"
    finding = "holds no answer of opaq" if kind is None else f"holds an answer of an unknown kind: {kind[:40]!r}"
    raise InputError([Fault("", finding, advice)], source)


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """The results that a report shows beside the measurement; None where one is not shown."""

    solution: Solution | None = None
    certificate: Certificate | None = None
    comparison: Comparison | None = None

    @classmethod
    def of(
        cls,
        solution: GivenSolution | None = None,
        certificate: GivenCertificate | None = None,
        comparison: GivenComparison | None = None,
    ) -> GivenAnswers:
        """Return the answers, read from mappings where they are such.

        solution: a `Solution`, a `CertifiedSolution`, or the JSON of one; it may bring a certificate along.
        certificate: a `Certificate` or its JSON; it takes the place of the one that the solution brings.
        comparison: a `Comparison` or its JSON.

        Raises InputError with everything in any of them that is no such answer.
        """
        faults = Faults()
        solved: Solution | CertifiedSolution | None
        if isinstance(solution, CertifiedSolution) or (isinstance(solution, Mapping) and "certificate" in solution):
            solved = _read(CertifiedSolution, solution, "solution", faults)
        else:
            solved = _read(Solution, solution, "solution", faults)
        own = _read(Certificate, certificate, "certificate", faults)
        compared = _read(Comparison, comparison, "comparison", faults)
        faults.raise_if_any()
        if isinstance(solved, CertifiedSolution):
            return cls(solved.solution, own or solved.certificate, compared)
        return cls(solved, own, compared)

    def check(self, measurement: Measurement) -> None:
        """Raise InputError where an answer is about another problem, or the solution about another policy.

        measurement: that of the policy of the report. The problem is compared by its name; the policy of the solution
        by its opacity, which may differ by 1e-6 bits, the width of an interval and six standard errors.
        """
        faults = Faults()
        problems = {
            "solution": None if self.solution is None else self.solution.measurement.problem,
            "certificate": None if self.certificate is None else self.certificate.problem,
            "comparison": None if self.comparison is None else self.comparison.problem,
        }
        for kind, name in problems.items():
            if name is not None and name != measurement.problem:
                finding = f"is about the problem {name!r}, not {measurement.problem!r}"
                faults.error(kind, finding, "give answers about the problem of the report")
        if self.solution is not None and not faults.errors:
            theirs, mine = self.solution.measurement.opacity, measurement.opacity
            errors = sum(error for error in (theirs.standard_error, mine.standard_error) if error is not None)
            width = mine.width if mine.standard_error is None else 0.0
            if abs(theirs.value - mine.value) > _SAME + width + 6.0 * errors:
                finding = (
                    f"is about another policy: its opacity is {theirs.value:.6g}, that of this policy {mine.value:.6g}"
                )
                faults.error("solution", finding, "give the policy that was found with it")
        faults.raise_if_any()

    def agree(self) -> tuple[GivenAnswers, str]:
        """Return the answers with the tighter bound in both, where certificate and comparison bound the same.

        They bound the same where the uncertainty and the scope (the policies for which the bound holds) are equal;
        otherwise the answers are returned as they are. Also returned is how the certificate's bound was obtained, in
        words; empty without a certificate.
        """
        certificate, comparison = self.certificate, self.comparison
        if certificate is None:
            return self, ""
        text = certificate.status_text
        if comparison is None or comparison.bound is None:
            return self, text
        if (certificate.of, certificate.scope) != (comparison.objective.of.name, comparison.scope):
            return self, text
        tighter = (max if certificate.minimise else min)(certificate.bound, comparison.bound)
        if comparison.bound == tighter != certificate.bound:
            text = f"the bound is that of the comparison of classes; the certificate's own: {text}"
        if not math.isfinite(tighter):
            return self, certificate.status_text
        if certificate.minimise:
            proven = replace(certificate, lower_bound=tighter), replace(comparison, lower_bound=tighter)
        else:
            proven = replace(certificate, upper_bound=tighter), replace(comparison, upper_bound=tighter)
        certificate, comparison = proven
        return replace(self, certificate=certificate, comparison=comparison), text

    def solution_data(self, *, most_steps: int) -> dict[str, Any] | None:
        """Return how the policy was found, as the page shows it; None without a solution.

        most_steps: the most entries of the trace that are kept: every so many steps, counted back from the last.
        """
        if self.solution is None:
            return None
        trace = self.solution.trace
        every = -(-len(trace) // most_steps) if trace else 1
        data = self.solution.to_dict()
        data["trace"] = data["trace"][(len(trace) - 1) % every :: every] if trace else []
        return {key: value for key, value in data.items() if key == "seconds" or key not in keys_of(Measurement)}

    def certificate_data(self, measurement: Measurement, text: str) -> dict[str, Any] | None:
        """Return the bound and how it was obtained, as the page shows it; None without a certificate.

        measurement: that of the policy of the report, to which the gap belongs.
        text: how the bound was obtained, in words; takes the place of the certificate's own.
        """
        if self.certificate is None:
            return None
        data = replace(self.certificate, measurement=measurement).to_dict() | {"status_text": text}
        kept = {"problem", "seconds"}
        return {key: value for key, value in data.items() if key in kept or key not in keys_of(Measurement)}

    def comparison_data(self) -> dict[str, Any] | None:
        """Return the ladder of classes, with the main figures of each; None without a comparison."""
        if self.comparison is None:
            return None
        data = self.comparison.to_dict()
        left_out = keys_of(Measurement) - _OF_CLASSES
        data["classes"] = [{key: rung[key] for key in rung if key not in left_out} for rung in data["classes"]]
        return data


def _read(cls: type[_Kind], answer: object, kind: str, faults: Faults) -> _Kind | None:
    """Return an answer as the object it is, or None where there is none or it does not fit.

    cls: the result that is expected.
    answer: an object of that class, its JSON as a mapping, or None.
    kind: the name of the argument; faults are noted under it.
    faults: collects what does not fit; nothing is raised.
    """
    if answer is None or isinstance(answer, cls):
        return answer
    if not isinstance(answer, Mapping):
        advice = f"give what opaq {cls.PRINTED_BY} found, an object or its JSON"
        faults.error(kind, f"is of the type {type(answer).__name__}", advice)
        return None
    try:
        return cls.from_dict(answer)
    except InputError as error:
        faults.errors += [replace(fault, where=f"{kind}.{fault.where}".removesuffix(".")) for fault in error.faults]
        return None
