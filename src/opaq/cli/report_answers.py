"""What `opaq report --answers` names: answers that other commands printed, or folders of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from opaq.certificates.certify import Certificate, CertifiedSolution
from opaq.errors import Fault, Faults, InputError
from opaq.reports.answers import GivenAnswers, read_answer
from opaq.solvers.compare import Comparison
from opaq.solvers.runs import POLICY_FILE
from opaq.solvers.solve import Solution

_KINDS = {Solution: "solution", CertifiedSolution: "solution", Certificate: "certificate", Comparison: "comparison"}


def read_answers(paths: Sequence[Path]) -> tuple[GivenAnswers, dict[str, Path]]:
    """Return the answers in some files, and kind of answer -> its file.

    InputError names every file that holds none, or one of a kind named before.
    """
    answers: dict[str, Solution | CertifiedSolution | Certificate | Comparison] = {}
    files: dict[str, Path] = {}
    faults = Faults()
    for path in paths:
        try:
            answer = read_answer(path)
        except InputError as error:
            faults.errors += [
                Fault(f"{error.source}: {fault.where}".removesuffix(": "), fault.message, fault.advice)
                for fault in error.faults
            ]
            continue
        if not isinstance(answer, Solution | CertifiedSolution | Certificate | Comparison):
            finding = "holds no answer of solve, certify or compare"
            faults.error(str(path), finding, "give what they print with --json, or the folder of solve --run-folder")
        elif _KINDS[type(answer)] in answers:
            faults.error(str(path), f"holds a second {_KINDS[type(answer)]}", "name one of each kind")
        else:
            answers[_KINDS[type(answer)]], files[_KINDS[type(answer)]] = answer, path
    faults.raise_if_any()
    if "solution" in files:
        files.setdefault("certificate", files["solution"])  # a solve may have printed one with its answer
    return GivenAnswers.of(**answers), files  # type: ignore[arg-type]


@contextmanager
def naming_files(files: Mapping[str, Path]) -> Iterator[None]:
    """Name the file of an answer that does not fit, where the library names its kind."""
    try:
        yield
    except InputError as error:
        if not any(fault.where in files for fault in error.faults):
            raise
        faults = [
            Fault(str(files.get(fault.where, fault.where)), fault.message, fault.advice) for fault in error.faults
        ]
        raise InputError(faults) from None


def policy_file(paths: Sequence[Path]) -> Path | None:
    """Return the policy kept in a folder of a run, if one is named that has it."""
    return next((path / POLICY_FILE for path in paths if (path / POLICY_FILE).is_file()), None)
