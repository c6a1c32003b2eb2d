"""What `opaq report --with` names: answers that other commands printed, or folders of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.files import read_bytes
from opaq.reports.given_answers import certificate_in, kind_of_answer
from opaq.solvers.runs import POLICY_FILE, RESULT_FILE

_LIMIT = 64 << 20


def read_answers(paths: Sequence[Path]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Kind of answer -> the answer, and -> its file.

    InputError names every file that holds none, or one of a kind named before.
    """
    answers: dict[str, Mapping[str, Any]] = {}
    files: dict[str, Path] = {}
    faults = Faults()
    for path in paths:
        try:
            answer = _read(path / RESULT_FILE if path.is_dir() else path)
        except InputError as error:
            faults.errors += [Fault(error.source, fault.message, fault.advice) for fault in error.faults]
            continue
        kind = kind_of_answer(answer)
        if kind is None:
            found = "holds no answer of solve, certify or compare"
            faults.error(str(path), found, "give what they print with --json, or the folder of solve --run-folder")
        elif kind in answers:
            faults.error(str(path), f"holds a second {kind}", "name one of each kind")
        else:
            answers[kind], files[kind] = answer, path
    faults.raise_if_any()
    if "solution" in files:
        files.setdefault("certificate", files["solution"])  # a solve may have printed one with its answer
    return _with_certificate(answers), files


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
    """The policy kept in a folder of a run, if one is named that has it."""
    return next((path / POLICY_FILE for path in paths if (path / POLICY_FILE).is_file()), None)


def _with_certificate(answers: dict[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """A solve may have printed a certificate with its answer; one that is named itself comes first."""
    inside = certificate_in(answers["solution"]) if "solution" in answers else None
    return answers if inside is None else {"certificate": inside} | answers


def _read(path: Path) -> Mapping[str, Any]:
    content = read_bytes(path, max_bytes=_LIMIT, advice="no answer is so large")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError([Fault("", "is not JSON", "give what a command printed with --json")], str(path)) from None
    if not isinstance(answer, Mapping):
        raise InputError([Fault("", "is a list or a value, not an answer")], str(path))
    return answer
