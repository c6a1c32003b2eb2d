"""Studies that the tests of the page show: a small sweep, and data with many points or hostile names."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import opaq
from opaq.opacity.amount import Amount
from opaq.opacity.measure import with_opacity
from opaq.reports.study_page import StudyPage
from opaq.study.sweep.study import Study, StudyPoint
from study.inline_executor import InlineExecutor

PLAN = {
    "opaq-sweep": 1,
    "problem": "two-sink",
    "over": {"horizon": [2, 3], "task.return_at_least": [1.4, 1.7, 9]},
    "solve": {"starts": 1},
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
    opaq.sweep(PLAN, output=folder, executor=InlineExecutor())
    return folder


def example_study(folder: Path) -> Study:
    """A sweep of six points, two of them infeasible, in a folder of its own."""
    shutil.copytree(_swept(), folder)
    return opaq.load_study(folder)


def many_points(count: int, *, seed: int = 0) -> dict[str, Any]:
    """Data of so many points, some of them failed, infeasible or not there yet."""
    rng = random.Random(seed)
    points = [_made_up(index, rng) for index in range(count)]
    return StudyPage.of_sweep(Study(Path("study"), "made-up", tuple(points))).to_dict()


def _made_up(index: int, rng: random.Random) -> StudyPoint:
    horizon, asked = rng.choice((6, 8, 10)), rng.choice((0.1, 0.2, 0.3))
    looks_at = rng.choice((["state"], ["state", "time"]))
    parameters = {"horizon": horizon, "task.return_at_least": asked, "policy.conditions_on": looks_at}
    status = ("converged", "converged", "converged", "infeasible", "failed", "")[index % 6]
    name = f"{index + 1:04}"
    if status in ("failed", ""):
        return StudyPoint(name, parameters, status, error="out of memory" if status else None)
    bits = 1 - asked * rng.random() - 1 / horizon
    return StudyPoint(
        name,
        parameters,
        status,
        opacity=Amount(bits, bits - 0.02, bits + 0.02, "interval"),
        expected_return=asked + rng.random(),
        guess_error=Amount.exact(bits / 3),
        upper_bound=bits + 0.05,
        feasible=status == "converged",
        seconds=9 * rng.random(),
    )


def hostile_data() -> dict[str, Any]:
    """Points, parameters, values and errors that try to be markup."""
    points = tuple(_hostile(index, name) for index, name in enumerate(HOSTILE))
    return StudyPage.of_sweep(Study(Path("study"), HOSTILE[1], points)).to_dict()


def _hostile(index: int, name: str) -> StudyPoint:
    parameters = {HOSTILE[0]: name, "horizon": index}
    if index % 2:
        return StudyPoint(name, parameters, "failed", error=f"{name}\n{name}")
    figures = {"expected_return": float(index), "guess_error": Amount.exact(0.1), "feasible": True, "seconds": 1.0}
    return StudyPoint(name, parameters, "converged", opacity=Amount(0.5, 0.5, 0.5, "exact"), **figures)


@cache
def _measured() -> opaq.Measurement:
    return opaq.measure("two-sink", sequences=0)


def front_of(of: str, *, minimise: bool = False, values: tuple[float | Amount, ...] = (1.0, 0.4)) -> opaq.Frontier:
    """A made-up front about any uncertainty."""
    known = {"guesswork": opaq.Guesswork(), "opacity": opaq.Shannon()}
    loss = opaq.ExpectedLoss.of({"guess": {"yes": 1.0}, "other": {"no": 1.0}})
    target = opaq.Target.of_task(known.get(of, loss), minimise=minimise)
    points = []
    for index, value in enumerate(values):
        amount = value if isinstance(value, Amount) else Amount.exact(value)
        measurement = with_opacity(_measured(), amount if of == "opacity" else Amount.exact(0.123))
        measurement = replace(measurement, objective=replace(target, amount=amount), expected_return=1.6e-14 + index)
        points.append(
            opaq.FrontierPoint(
                threshold=None,
                value=1.6e-14 + index,
                measurement=measurement,
                policy=opaq.Policy(opaq.PolicyClass(), {}),
                slope=None,
                status=opaq.Status.CONVERGED,
                status_text="",
                seconds=1.0,
            )
        )
    return opaq.Frontier(
        problem="yard",
        against="return",
        policy_class="state",
        objective=target,
        largest=1.0,
        points=tuple(points),
        concave_by_theory=False,
        seed=0,
        seconds=1.0,
    )


def unsure_front() -> opaq.Frontier:
    """A front whose points are estimated, in an interval that says nothing, and exact."""
    values = (Amount(0.6, 0.0, 1.5, "sampled", 0.02), Amount(0.75, 0.0, 1.5, "interval"), Amount.exact(0.4))
    return front_of("opacity", values=values)


def front_page_data(front: opaq.Frontier) -> dict[str, Any]:
    """What stands in the page of a front."""
    return StudyPage.of_front(front).to_dict()
