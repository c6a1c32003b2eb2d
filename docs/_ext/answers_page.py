"""The tables of docs/answers.md: the keys of every result, made from the classes that write and read them.

The page is written by hand but for what stands between `<!-- keys: Class ... -->` and `<!-- end of keys -->`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from opaq.certificates.certify import Certificate
from opaq.certificates.decoder.search import BoundStep
from opaq.codec import Result, key_of
from opaq.opacity.amount import Amount, Target
from opaq.opacity.channel import Capacity
from opaq.opacity.figures import Figure
from opaq.opacity.leakage import GuessLeakage
from opaq.opacity.measure import ExactnessLimit, Measurement, RequirementResult
from opaq.opacity.rates import Rate
from opaq.opacity.sequences import ObservedSequence
from opaq.reports.study_page import PageColumn, PagePoint, ReportCount, StudyPage
from opaq.simulation.replay import Replay, ReplayStep
from opaq.solvers.compare import ClassResult, Comparison, Unreached
from opaq.solvers.solve import Solution, StartSummary, TraceStep
from opaq.solvers.starts import Attainable
from opaq.solvers.verdict import Optimality
from opaq.study.front.frontier import Frontier, FrontierPoint
from opaq.study.sensors import RankedSensor, SensorRanking, SensorTrial
from opaq.study.sweep.laws import BrokenLaw
from opaq.study.sweep.study import Study, StudyPoint

PAGE = Path(__file__).parents[1] / "answers.md"
CLASSES: tuple[type, ...] = (
    Amount, Target, Measurement, GuessLeakage, Capacity, Figure, Rate, RequirementResult, ExactnessLimit,
    ObservedSequence,
    Solution, StartSummary, TraceStep, Attainable, Optimality, Certificate, BoundStep, Comparison, ClassResult,
    Unreached, Frontier, FrontierPoint, SensorRanking, RankedSensor, SensorTrial, Study, StudyPoint, BrokenLaw, Replay,
    ReplayStep, StudyPage, PagePoint, PageColumn, ReportCount,
)  # fmt: skip
TITLES = {
    Amount: "amount",
    Target: "objective",
    GuessLeakage: "leakage of guesses",
    RequirementResult: "requirement",
    ExactnessLimit: "limit of exactness",
    ObservedSequence: "observation sequence",
    Attainable: "largest value attainable",
    StartSummary: "start",
    TraceStep: "step of the trace",
    BoundStep: "rung of the ladder",
    ClassResult: "class",
    Unreached: "class without an answer",
    FrontierPoint: "point of a front",
    SensorTrial: "trial",
    RankedSensor: "sensor",
    StudyPoint: "point of a sweep",
    BrokenLaw: "broken law",
    ReplayStep: "step",
    PagePoint: "point of a page",
    PageColumn: "column",
    ReportCount: "count of reports",
    StudyPage: "data of the page",
    SensorRanking: "ranking",
}
_MARKED = re.compile(r"(<!-- keys: ([\w ]+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)
_PLAIN = {float: "number", int: "whole number", bool: "true or false", str: "text", Path: "text", Any: "any value"}


def page() -> str:
    """Return docs/answers.md with its tables made anew."""
    named = {cls.__name__: cls for cls in CLASSES}

    def tables(match: re.Match[str]) -> str:
        made = "\n".join(table(named[name]) for name in match[2].split())
        return f"{match[1]}{made}\n{match[3]}"

    return _MARKED.sub(tables, PAGE.read_text(encoding="utf-8"))


def table(cls: type) -> str:
    """Return the keys of a class as a table, below what the class is."""
    title = title_of(cls)
    head = f"\n| key of {'an' if title[0] in 'aeiou' else 'a'} {title} | type | meaning |\n|---|---|---|\n"
    lines = [f"| {name} | {kind} | {text} |" for name, kind, text in rows(cls)]
    return head + "\n".join(lines) + "\n"


def title_of(cls: type) -> str:
    """Return what a class is called on the page."""
    return TITLES.get(cls, cls.__name__.lower())


def rows(cls: type) -> Iterator[tuple[str, str, str]]:
    """Return key, type and meaning of everything that is written for a class. Raises KeyError for what says nothing."""
    texts, hints = field_texts(cls), get_type_hints(cls)
    if issubclass(cls, Result):
        yield "`result`", "text", f"`{cls.RESULT}`: which result this is"
    for field in fields(cls):
        if field.metadata.get("live"):
            continue
        part = next((each for each in (*get_args(hints[field.name]), hints[field.name]) if is_dataclass(each)), None)
        if field.metadata.get("flat"):
            yield f"the keys of {_article(part)}", "", _cell(texts[field.name])
        else:
            yield f"`{key_of(field)}`", _type_words(hints[field.name], field), _cell(texts[field.name])
    for name in getattr(cls, "DERIVED", ()):
        getter = getattr(cls, name).fget
        text = inspect.cleandoc(getter.__doc__).split("\n\n")[0]
        yield f"`{name}`", _type_words(get_type_hints(getter)["return"]), _cell(text[0].lower() + text[1:])


def field_texts(cls: type) -> dict[str, str]:
    """Return what the docstring of a class says of each field: lines `name: text`, going on below, further in."""
    texts: dict[str, str] = {}
    last = ""
    names = {field.name for field in fields(cls)}
    for line in inspect.cleandoc(cls.__doc__ or "").splitlines():
        name, colon, text = line.partition(": ")
        if colon and name in names:
            last, texts[name] = name, text
        elif line.startswith("    ") and last:
            texts[last] += f" {line.strip()}"
        else:
            last = ""
    return texts


def _type_words(hint: Any, field: Field[Any] | None = None) -> str:
    metadata: Mapping[str, Any] = {} if field is None else field.metadata
    if "text" in metadata:
        return "text"
    words = _plain_words(hint)
    if "null" in metadata and not words.endswith("null"):
        return f"{words} or null"
    return f"{words.removesuffix(' or null')}, left out where there is none" if metadata.get("omit") else words


def _plain_words(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = [part for part in parts if part is not NoneType]
        return f"{_plain_words(inner[0])} or null"
    if is_dataclass(hint):
        return f"object: {title_of(hint)}"  # type: ignore[arg-type]
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{each.name.lower()}`" for each in hint)
    if origin is tuple:
        return f"list: {_plain_words(parts[0]).removeprefix('object: ')}"
    if origin is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return f"mapping to {_plain_words(parts[1])}"
    return _PLAIN.get(hint, "list: number")  # an array


def _article(cls: Any) -> str:
    title = title_of(cls)
    return f"{'an' if title[0] in 'aeiou' else 'a'} {title}"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").removesuffix(".")
