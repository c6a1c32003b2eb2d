"""Studies that the tests of the page show: a small sweep, and data with many points or hostile names."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import opaq
from opaq.opacity.amount import Amount
from opaq.reports.study_page import sweep_page_data
from opaq.study.sweep.study import Study, StudyPoint
from study.inline_executor import InlineExecutor

PLAN = {
    "opaq-sweep": 1,
    "problem": "two-sink",
    "over": {"horizon": [2, 3], "task.return_at_least": [1.4, 1.7, 9]},
    "solve": {"num_starts": 1},
}
HOSTILE = ("</script><script>alert(1)</script>", '<img src=x onerror="alert(2)">', "\u202ereversed", "a'b\"c&d")


def temporary_folder() -> Path:
    """A folder that is there until the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="opaq-study-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _swept() -> Path:
    folder = temporary_folder() / "study"
    opaq.sweep(PLAN, to=folder, on=InlineExecutor())
    return folder


def example_study(folder: Path) -> Study:
    """A sweep of six points, two of them infeasible, in a folder of its own."""
    shutil.copytree(_swept(), folder)
    return opaq.load_study(folder)


def many_points(count: int, *, seed: int = 0) -> dict[str, Any]:
    """Data of so many points, some of them failed, infeasible or not there yet."""
    rng = random.Random(seed)
    points = [_made_up(index, rng) for index in range(count)]
    return sweep_page_data(Study(Path("study"), "made-up", tuple(points)))


def _made_up(index: int, rng: random.Random) -> StudyPoint:
    horizon, asked = rng.choice((6, 8, 10)), rng.choice((0.1, 0.2, 0.3))
    looks_at = rng.choice((["state"], ["state", "time"]))
    parameters = {"horizon": horizon, "task.return_at_least": asked, "policy.conditions_on": looks_at}
    status = ("converged", "converged", "converged", "infeasible", "failed", "")[index % 6]
    name = f"{index + 1:04}"
    if status in ("failed", ""):
        return StudyPoint(name, parameters, status, error="out of memory" if status else "")
    bits = 1 - asked * rng.random() - 1 / horizon
    return StudyPoint(
        name,
        parameters,
        status,
        opacity=Amount(bits, bits - 0.02, bits + 0.02, "interval"),
        expected_return=asked + rng.random(),
        guess_error=bits / 3,
        upper_bound=bits + 0.05,
        feasible=status == "converged",
        seconds=9 * rng.random(),
    )


def hostile_data() -> dict[str, Any]:
    """Points, parameters, values and errors that try to be markup."""
    points = tuple(_hostile(index, name) for index, name in enumerate(HOSTILE))
    return sweep_page_data(Study(Path("study"), HOSTILE[1], points))


def _hostile(index: int, name: str) -> StudyPoint:
    parameters = {HOSTILE[0]: name, "horizon": index}
    if index % 2:
        return StudyPoint(name, parameters, "failed", error=f"{name}\n{name}")
    figures = {"expected_return": float(index), "guess_error": 0.1, "feasible": True, "seconds": 1.0}
    return StudyPoint(name, parameters, "converged", opacity=Amount(0.5, 0.5, 0.5, "exact"), **figures)


def front_of(of: str, *, minimise: bool = False, values: tuple[float, ...] = (1.0, 0.4)) -> dict[str, Any]:
    """A made-up front as a command prints it, about any uncertainty."""

    def amount(value: float) -> dict[str, Any]:
        return {"value": value, "lower": value, "upper": value, "method": "exact"}

    points = [
        {
            "threshold": None,
            "value": 1.6e-14 + index,
            "return": 1.6e-14 + index,
            "opacity": amount(0.123),
            "uncertainty": amount(value),
            "guess_error": 0.2,
            "slope": None,
            "bound": None,
            "seconds": 1.0,
            "status": "converged",
            "feasible": True,
            "carried": False,
        }
        for index, value in enumerate(values)
    ]
    head = {"problem": "yard", "against": "return", "policy_class": "state", "of": of, "minimise": minimise}
    rest = {"largest": 1.0, "interrupted": False, "complete": True, "concave_by_theory": False}
    return head | rest | {"points": points}


def unsure_front() -> dict[str, Any]:
    """A front whose points are estimated, in an interval that says nothing, and exact."""
    front = front_of("opacity", values=(0.6, 0.5, 0.4))
    amounts = (
        {"value": 0.6, "lower": 0.0, "upper": 1.5, "method": "sampled", "standard_error": 0.02},
        {"value": 0.75, "lower": 0.0, "upper": 1.5, "method": "interval"},
        {"value": 0.4, "lower": 0.4, "upper": 0.4, "method": "exact"},
    )
    points = [dict(point) | {"opacity": each} for point, each in zip(front["points"], amounts, strict=True)]
    return front | {"points": points}
