"""A study: the points of a sweep and what came out of them, read from its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from opaq.codec import Result, decode, if_known, key
from opaq.display import NotebookView
from opaq.errors import Fault, Faults, InputError, check_path, check_types, list_names
from opaq.opacity.amount import Amount, Target
from opaq.study.sweep.files import POLICIES, dataframe, read_problem_copy
from opaq.study.sweep.journal import FAILED, FILE, Journal
from opaq.study.sweep.laws import BrokenLaw, find_broken_laws
from opaq.study.sweep.plan import SweepPoint
from opaq.study.workers.task import PointAnswer
from opaq.version import pip_install

_INFEASIBLE = ("infeasible", "not_found")


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
    lower_bound: of a task that minimises: what no policy gets below; left out where that is not known.
    gap: from the end of the policy's value that is certain to the bound; null as above.
    feasible: whether the policy meets the task; null where there is no answer.
    seconds: of the solve.
    seed: of the solve.
    warm_from: the point whose policy the search began from, or is the answer itself; "initial policy": the one that
        was given; null: none.
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
    lower_bound: float | None = field(default=None, metadata=if_known())
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

    @property
    def bound(self) -> float | None:
        """The bound of either kind; None where there is none."""
        return self.upper_bound if self.lower_bound is None else self.lower_bound

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
            "lower_bound": self.lower_bound,
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
    broken_laws: pairs of points whose answers cannot both be the best: the search at one of them was too short.
    """

    RESULT: ClassVar[str] = "study"
    PRINTED_BY: ClassVar[str] = "sweep"
    DERIVED: ClassVar[tuple[str, ...]] = ("parameters", "counts")

    folder: Path
    problem: str
    points: tuple[StudyPoint, ...]
    interrupted: bool = False
    broken_laws: tuple[BrokenLaw, ...] = ()

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
        return tuple(point for point in self.points if point.status in _INFEASIBLE)

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
            raise InputError([Fault("", "a DataFrame needs pandas", pip_install("dataframes"))]) from None

    def answer(self, point: StudyPoint | str) -> Any:
        """Return the full answer of a point, as `opaq solve --json` prints it; None where there is none.

        point: one of `points`, or its name. Raises InputError for any other, and when the journal is damaged.
        """
        return self._read(point, Journal.answer_text)

    def policy(self, point: StudyPoint | str) -> Any:
        """Return the policy of a point, as the content of a policy file; None where there is none.

        point: one of `points`, or its name. Raises InputError for any other, and when the journal is damaged.
        """
        return self._read(point, Journal.policy_text)

    def _read(self, point: StudyPoint | str, text_of: Callable[[Journal, int], str | None]) -> Any:
        """Return a text of the journal about one point, decoded. text_of: which of them."""
        check_types({"point": (point, str | StudyPoint, "a point or its name")})
        name = point if isinstance(point, str) else point.name
        names = [each.name for each in self.points]
        if name not in names:
            raise InputError([Fault("point", f"there is no point {name!r}", f"the points are {list_names(names)}")])
        with Journal.open(self.folder, write=False) as journal:
            text = text_of(journal, names.index(name))
        return None if text is None else json.loads(text)

    def __repr__(self) -> str:
        done = len(self.points) - len(self.unfinished) - len(self.failed)
        return f"<Study of {self.problem[:40]}: {len(self.points)} points, {done} done, {len(self.failed)} failed>"


def load_study(folder: str | os.PathLike[str]) -> Study:
    """Return what a sweep has recorded in its folder, also while it runs.

    folder: where the sweep was run to. Raises InputError when there is no sweep, or its journal is damaged.
    """
    check_path("folder", folder, "a folder")
    path = Path(folder)
    if not (path / FILE).is_file():
        raise InputError([Fault("", f"holds no {FILE}", "give the folder of a sweep")], str(path))
    with Journal.open(path, write=False) as journal:
        answers, plan = journal.answers(), journal.plan()
        points = tuple(study_point(point, answers.get(point.index)) for point in journal.points())
    return with_laws(Study(path, str(plan["problem"]), points), plan)


def with_laws(study: Study, plan: Mapping[str, Any]) -> Study:
    """Return the study with the laws that its answers break; none where the copy of its problem cannot be read.

    plan: as the journal has it.
    """
    try:
        problem = read_problem_copy(study.folder)
    except InputError:
        return study
    together = tuple((plan.get("together") or [{}])[0])
    return replace(study, broken_laws=find_broken_laws(study.points, problem, together))


def study_point(point: SweepPoint, answer: PointAnswer | None) -> StudyPoint:
    """Return a point with what came out of it.

    point: as it was to be solved. answer: that of its worker, of the journal, or None where there is none yet. The
    figures are read from the full answer, where they are kept; a failed point has its reason alone.
    """
    if answer is None:
        return StudyPoint(point.name, point.parameters, "")
    full = answer.answer or {"status": FAILED}
    kept = ("status", "opacity", "objective", "return", "guess_error", "upper_bound", "lower_bound", "gap",
            "feasible", "seed")  # fmt: skip
    record = {name: full[name] for name in kept if name in full}
    record |= {
        "point": point.name,
        "parameters": point.parameters,
        "seconds": answer.seconds,
        "warm_from": answer.warm_from,
        "policy_file": None if answer.answer is None else f"{POLICIES}/{point.name}.json",
        "error": answer.error or None,
        "versions": answer.versions,
    }
    faults = Faults()
    decoded = decode(
        StudyPoint, record, faults=faults, path=f"the record of point {point.name}", advice="run the sweep anew"
    )
    faults.raise_if_any()
    assert decoded is not None  # else there is a fault
    return decoded


def _cells(name: str, amount: Amount | None) -> dict[str, float | None]:
    """Return the three cells of a figure in the table of results: its value, its lower and its upper end."""
    ends = (None, None, None) if amount is None else (amount.value, amount.lower, amount.upper)
    return dict(zip((name, f"{name}_lower", f"{name}_upper"), ends, strict=True))
