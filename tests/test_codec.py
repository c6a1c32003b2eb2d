"""Every result survives JSON, and damaged JSON is refused with a path and a reason."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
import re
import tempfile
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pytest

import opaq
from opaq.codec import decode, encode, flat, infinity, key, key_of, keys_of, live
from opaq.errors import Faults
from opaq.model.arrays import FloatArray
from opaq.reports.answers import result_of
from study.inline_executor import InlineExecutor
from trials import part_of

DOCS = Path(__file__).parents[1] / "docs"


@cache
def results() -> dict[str, Any]:
    """One of every result, and those that have keys of their own: intervals, estimates, minimised tasks."""
    solution = opaq.solve("two-sink", starts=2)
    certificate = opaq.certify("two-sink", solution.policy, time_limit=5)
    least = opaq.build_problem(
        opaq.problem_to_dict(opaq.load_problem("two-sink")) | {"task": {"objective": "minimise"}}
    )
    return {
        "measurement": opaq.measure("graph"),
        "interval": opaq.measure("grid-last-state", max_beliefs=200, mode="interval"),
        "estimate": opaq.measure("grid-last-state", samples=200, mode="sampled"),
        "solution": solution,
        "sampled": opaq.solve("graph", gradients="sampled", samples=50, starts=1, time_limit=1),
        "certificate": certificate,
        "unmeasured": opaq.certify("graph", time_limit=2),
        "infeasible": opaq.certify(with_threshold(99.0), time_limit=2),
        "certified": opaq.CertifiedSolution(solution, certificate),
        "lower": opaq.certify(least, time_limit=2),
        "comparison": opaq.compare("two-sink", classes=["state", "memory:2"], starts=1),
        "least": opaq.compare(least, classes=["state"], starts=1),
        "frontier": opaq.frontier("two-sink", points=3, certify=True, time_limit=20),
        "sensors": opaq.sensors("grid-last-state-4", fixed=True, changes=[]),
        "study": swept(),
        "run": opaq.replay("graph", runs=1)[0],
    }


def with_threshold(threshold: float) -> opaq.Problem:
    stated = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    return opaq.build_problem(stated | {"task": {"return_at_least": threshold}})


def swept() -> opaq.Study:
    plan = {
        "opaq-sweep": 1,
        "problem": "two-sink",
        "over": {"task.return_at_least": [1.4, 9]},
        "solve": {"starts": 1},
        "certify": 2,
    }
    return opaq.sweep(plan, output=tempfile.mkdtemp() + "/study", executor=InlineExecutor())


NAMES = [
    "measurement",
    "interval",
    "estimate",
    "solution",
    "sampled",
    "certificate",
    "unmeasured",
    "infeasible",
    "lower",
    "certified",
    "comparison",
    "least",
    "frontier",
    "sensors",
    "study",
    "run",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_survives_json(name: str) -> None:
    result = results()[name]
    written = result.to_dict()
    text = json.dumps(written, allow_nan=False)
    again = type(result).from_dict(json.loads(text))
    assert again.to_dict() == written
    assert json.dumps(again.to_dict()) == text
    assert type(result_of(json.loads(text))) is type(result)


def test_every_result_was_tested() -> None:
    assert set(NAMES) == set(results())
    tested = {type(result) for result in results().values()}
    assert tested == {
        getattr(opaq, name)
        for name in opaq.__all__
        if isinstance(getattr(opaq, name), type)
        and hasattr(getattr(opaq, name), "from_dict")
        and name != "SolveOptions"
    }


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_refused_in_words(name: str) -> None:
    """Keys that are missing, of another type or of another meaning: an InputError, or a result that is well formed."""
    written = json.loads(json.dumps(results()[name].to_dict()))
    kind, rng = type(results()[name]), random.Random(name)
    for _ in part_of(range(150), 75):
        data = copy.deepcopy(written)
        damage(data, rng)
        with contextlib.suppress(opaq.InputError):
            json.dumps(kind.from_dict(data).to_dict(), allow_nan=False)


def damage(data: Any, rng: random.Random) -> None:
    """Change one part of the data, at any depth."""
    holders = [data]
    for holder in holders:
        inside = holder.values() if isinstance(holder, dict) else holder
        holders += [part for part in inside if isinstance(part, dict | list) and part]
    holder = rng.choice(holders)
    where = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    if rng.random() < 0.3:
        del holder[where]
    else:
        others = [None, True, "x", -1, 2.5, 1e400, 10**400, math.nan, [], {}, [None], {"value": 1}, "converged"]
        holder[where] = rng.choice(others)


def test_faults_name_the_path_and_what_is_expected() -> None:
    data = json.loads(json.dumps(results()["frontier"].to_dict()))
    data["points"][1]["opacity"]["lower"] = "much"
    del data["points"][0]["slope"]
    data["against"] = 3
    with pytest.raises(opaq.InputError) as caught:
        opaq.Frontier.from_dict(data, source="front.json")
    assert caught.value.lines() == [
        "front.json: against: is 3, not a text; give what opaq frontier prints as JSON",
        "front.json: points[0].slope: is missing; give what opaq frontier prints as JSON",
        "front.json: points[1].opacity.lower: is 'much', not a number; give what opaq frontier prints as JSON",
    ]


def test_another_result_is_refused() -> None:
    with pytest.raises(opaq.InputError, match="is a measurement, not a solution; give what opaq solve prints as JSON"):
        opaq.Solution.from_dict(results()["measurement"].to_dict())
    with pytest.raises(opaq.InputError, match="is no comparison"):
        opaq.Comparison.from_dict({})


def test_what_only_existed_in_memory_says_so() -> None:
    again = opaq.Solution.from_dict(results()["solution"].to_dict())
    with pytest.raises(AttributeError, match="this solution was read from JSON, which holds no policy"):
        _ = again.policy
    assert "Solution" in repr(again)


def test_every_key_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has a table for every class that is written, and the table a line with a meaning for every key."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import answers_page

    written = {type(result) for result in results().values()} - {opaq.CertifiedSolution}
    while more := {part for cls in written for part in parts_of(cls)} - written:
        written |= more
    assert written <= set(answers_page.CLASSES)
    page = (DOCS / "answers.md").read_text(encoding="utf-8")
    for cls in written:
        table = answers_page.table(cls)
        assert page.count(table) == 1
        own = {key_of(each) for each in fields(cls) if not {"flat", "live"} & each.metadata.keys()}
        for name in own | {*getattr(cls, "DERIVED", ())}:
            assert re.search(rf"^\| `{name}` \| [^|]+ \| .+ \|$", table, flags=re.M), (cls, name)


def parts_of(cls: type) -> set[type]:
    """The dataclasses in the fields of one that are written."""
    hints = get_type_hints(cls)
    kept = [hints[each.name] for each in fields(cls) if not {"text", "live"} & each.metadata.keys()]
    inside = [part for hint in kept for part in (hint, *get_args(hint))]
    return {part for part in inside if is_dataclass(part)}


@dataclass(frozen=True, slots=True)
class Part:
    size: int
    shared: str = "of the part"


@dataclass(frozen=True, slots=True)
class Whole:
    DERIVED = ("twice",)

    kind: Literal["a", "b"]
    numbers: FloatArray
    part: Part | None = field(metadata=flat())
    handle: object = field(metadata=live())
    shared: str = field(metadata=key("shared"))
    bound: float = field(default=0.0, metadata=infinity(-math.inf, "upper_bound"))

    @property
    def twice(self) -> tuple[float, ...]:
        return tuple((2 * self.numbers).tolist())


def test_the_codec_follows_metadata() -> None:
    whole = Whole("b", np.array([1.0, 2.5]), Part(3), object(), "of the whole", -math.inf)
    written = encode(whole)
    assert written == {
        "kind": "b",
        "numbers": [1.0, 2.5],
        "size": 3,
        "shared": "of the whole",
        "upper_bound": None,
        "twice": [2.0, 5.0],
    }
    assert keys_of(Whole) == set(written)
    faults = Faults()
    again = decode(Whole, written, faults=faults)
    assert again is not None
    assert (again.bound, again.part) == (-math.inf, Part(3, "of the whole"))
    assert not hasattr(again, "handle")
    assert decode(Whole, {name: value for name, value in written.items() if name != "size"}, faults=faults).part is None
