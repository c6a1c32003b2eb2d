"""A study: the points of a sweep and what came out of them, read from its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from opaq.codec import Result, decode, key
from opaq.display import NotebookView
from opaq.errors import Fault, Faults, InputError, check_path, check_types, some
from opaq.opacity.amount import Amount, Target
from opaq.study.sweep.files import ANSWERS, POLICIES, dataframe
from opaq.study.sweep.journal import FAILED, FILE, Journal, PointRecord

INFEASIBLE = ("infeasible", "not_found")


@dataclass(frozen=True, slots=True, repr=False)
class StudyPoint:
    """One point of a study: what was varied, and the figures of the policy found there.

    name: by which its files are called.
    parameters: path -> value.
    status: that of the solution, or "failed"; empty where there is no result yet.
    opacity: as in a measurement; null where there is no answer.
    objective: what the task is about, and what the policy reaches of it; null where there is no answer.
    expected_return: as in a measurement; null where there is no answer.
    guess_error: as in a measurement; null where there is no answer.
    upper_bound: what no policy exceeds; null where no bound was asked for, or no policy meets the task.
    gap: from the lower end of the policy's value to the bound; null as above.
    feasible: whether the policy meets the task; null where there is no answer.
    seconds: of the solve.
    seed: of the solve.
    warm_from: the point whose policy the search began from; null: none.
    policy_file: relative to the folder of the study; null where there is no policy.
    error: why it failed; else null.
    versions: of opaq, Python and the numerical libraries.
    """

    name: str = field(metadata=key("point"))
    parameters: Mapping[str, Any]
    status: str
    opacity: Amount | None = None
    objective: Target | None = None
    expected_return: float | None = field(default=None, metadata=key("return"))
    guess_error: Amount | None = None
    upper_bound: float | None = None
    gap: float | None = None
    feasible: bool | None = None
    seconds: float | None = None
    seed: int | None = None
    warm_from: str | None = None
    policy_file: str | None = None
    error: str | None = None
    versions: Mapping[str, str] | None = None

    @property
    def of(self) -> str | None:
        """What the task is about, by name; None where there is no answer."""
        return None if self.objective is None else self.objective.of.name

    def __repr__(self) -> str:
        return f"<StudyPoint {self.name}: {self.status or 'no result yet'}, opacity {self.opacity}>"[:200]

    def row(self) -> dict[str, Any]:
        """The row of the point in the table of results."""
        return {
            "point": self.name,
            "seed": self.seed,
            **self.parameters,
            **_cells("opacity", self.opacity),
            "of": self.of,
            **_cells("objective", None if self.objective is None else self.objective.amount),
            "return": self.expected_return,
            "guess_error": None if self.guess_error is None else self.guess_error.value,
            "upper_bound": self.upper_bound,
            "gap": self.gap,
            "feasible": self.feasible,
            "status": self.status,
            "seconds": self.seconds,
            "warm_from": self.warm_from,
            "policy_file": self.policy_file,
            "version": (self.versions or {}).get("opaq"),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Study(NotebookView, Result):
    """A sweep and what has come out of it so far.

    folder: where the results are.
    problem: as the plan names it.
    points: every point of the plan.
    interrupted: whether the sweep was asked to stop before all points had a result.
    """

    RESULT: ClassVar[str] = "study"
    PRINTED_BY: ClassVar[str] = "sweep"
    DERIVED: ClassVar[tuple[str, ...]] = ("parameters", "counts")

    folder: Path
    problem: str
    points: tuple[StudyPoint, ...]
    interrupted: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many points there are, how many have an answer (`done`), of how many of these no policy meets the task or
        none was found (`infeasible`), how many failed and how many are unfinished.
        """
        missing = len(self.failed) + len(self.unfinished)
        return {
            "points": len(self.points),
            "done": len(self.points) - missing,
            "infeasible": len(self.infeasible),
            "failed": len(self.failed),
            "unfinished": len(self.unfinished),
        }

    @property
    def failed(self) -> tuple[StudyPoint, ...]:
        """The points without an answer: too late, out of memory, or their workers were lost again and again."""
        return tuple(point for point in self.points if point.status == FAILED)

    @property
    def infeasible(self) -> tuple[StudyPoint, ...]:
        """The points whose task no policy meets, or none was found that does."""
        return tuple(point for point in self.points if point.status in INFEASIBLE)

    @property
    def unfinished(self) -> tuple[StudyPoint, ...]:
        """The points that have no result yet."""
        return tuple(point for point in self.points if not point.status)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The paths that are varied somewhere."""
        return tuple(dict.fromkeys(path for point in self.points for path in point.parameters))

    @property
    def of(self) -> str:
        """What the tasks are about; "opacity" where they are not about the same."""
        different = {point.of for point in self.points if point.of is not None}
        return different.pop() if len(different) == 1 else "opacity"

    def rows(self) -> list[dict[str, Any]]:
        """The table of results, one row per point."""
        return [point.row() for point in self.points]

    def to_dataframe(self) -> Any:
        """The table of results as a pandas DataFrame; values that are lists or mappings are JSON."""
        try:
            return dataframe(self.parameters, self.rows())
        except ImportError:
            raise InputError([Fault("", "a DataFrame needs pandas", "pip install pandas")]) from None

    def answer(self, point: StudyPoint | str) -> Any:
        """The full answer of a point, as `opaq solve --json` prints it; None where there is none."""
        return self._asked(point, ANSWERS)

    def policy(self, point: StudyPoint | str) -> Any:
        """The policy of a point, as the content of a policy file; None where there is none."""
        return self._asked(point, POLICIES)

    def _asked(self, point: StudyPoint | str, kind: str) -> Any:
        check_types({"point": (point, str | StudyPoint, "a point or its name")})
        name = point if isinstance(point, str) else point.name
        names = [each.name for each in self.points]
        if name not in names:
            raise InputError([Fault("point", f"there is no point {name!r}", f"the points are {some(names)}")])
        index = names.index(name)
        with Journal.open(self.folder, write=False) as journal:
            return journal.policy(index) if kind == POLICIES else journal.answer(index)

    def __repr__(self) -> str:
        done = len(self.points) - len(self.unfinished) - len(self.failed)
        return f"<Study of {self.problem[:40]}: {len(self.points)} points, {done} done, {len(self.failed)} failed>"


def load_study(folder: str | os.PathLike[str]) -> Study:
    """What a sweep has recorded in its folder, also while it runs.

    folder: where the sweep was run to. Raises InputError when there is no sweep, or its journal is damaged.
    """
    check_path("folder", folder, "a folder")
    path = Path(folder)
    if not (path / FILE).is_file():
        raise InputError([Fault("", f"holds no {FILE}", "give the folder of a sweep")], str(path))
    with Journal.open(path, write=False) as journal:
        return study_of(path, journal)


def study_of(folder: Path, journal: Journal, *, interrupted: bool = False) -> Study:
    """The study that a journal records."""
    results, points = journal.results(), journal.points()
    names = {index: name for index, name, *_ in points}
    made = tuple(_point(name, parameters, results.get(index), names) for index, name, parameters, *_ in points)
    return Study(folder, str(journal.plan()["problem"]), made, interrupted)


def _cells(name: str, amount: Amount | None) -> dict[str, float | None]:
    """An amount in the table of results."""
    ends = (None, None, None) if amount is None else (amount.value, amount.lower, amount.upper)
    return dict(zip((name, f"{name}_lower", f"{name}_upper"), ends, strict=True))


def _point(
    name: str, parameters: Mapping[str, Any], result: PointRecord | None, names: Mapping[int, str]
) -> StudyPoint:
    if result is None:
        return StudyPoint(name, parameters, "")
    record = dict(result.record)
    warm = record.get("warm_from")
    record |= {
        "point": name,
        "parameters": parameters,
        "warm_from": None if warm is None else names[warm],
        "policy_file": None if result.status == FAILED else f"{POLICIES}/{name}.json",
    }
    faults = Faults()
    point = decode(StudyPoint, record, faults=faults, path=f"the record of point {name}", advice="run the sweep anew")
    faults.raise_if_any()
    assert point is not None  # else there is a fault
    return point


def record_of(answer: Mapping[str, Any], *, warm_from: int | None) -> dict[str, Any]:
    """What is recorded of the answer of a worker, by the keys of a `StudyPoint`."""
    stated = {name: answer[name] for name in ("seconds", "versions") if name in answer}
    if "error" in answer:
        return {"status": FAILED, "error": str(answer["error"]), **stated}
    full = answer["answer"]
    kept = ("status", "opacity", "objective", "return", "guess_error", "upper_bound", "gap", "feasible", "seed")
    return {**{name: full.get(name) for name in kept}, "warm_from": warm_from, **stated}
