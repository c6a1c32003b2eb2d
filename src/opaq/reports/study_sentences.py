"""What a study asks and what came out of it, each in plain sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opaq.errors import escape_invisible
from opaq.reports.answer_data import drawn_amount
from opaq.reports.layout import NOISE, objective_title, with_objective_unit

Data = Mapping[str, Any]  # of the page of a study

_LONGEST = 40  # characters of a name or a value


def question_of_sweep(data: Data) -> str:
    """What is varied."""
    names = [shortly(path) for path in data["parameters"]]
    varied = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
    return f"{_how_much(data)} for different values of {varied}?"


def question_of_front(data: Data) -> str:
    """What is traded for what."""
    against = "return" if data["against"] == "return" else shortly(data["against"])
    return f"{_how_much(data)} for how much {against}?"


def _how_much(data: Data) -> str:
    problem = shortly(data["problem"])
    if data["of"] != "opacity":
        kind = "small" if data["minimise"] else "large"
        return f"How {kind} can the {objective_title(data['of'])} of {problem} be"
    return f"How much of the secret of {problem} can be {'revealed' if data['minimise'] else 'hidden'}"


def answer_of_sweep(data: Data) -> str:
    """How many points there are, what became of them, how far the objective goes, and which point is best."""
    if not (points := _hiding(data)):
        return f"{_count(data)}. No point has an answer that meets its task."
    title, low = objective_title(data["of"]).capitalize(), hidden_words(points[0])
    high = with_objective_unit(hidden_words(points[-1]), data["of"])
    ends = [hidden_value(point, minimise=data["minimise"]) for point in (points[0], points[-1])]
    spread = f"{title} goes from {low} to {high}" if ends[0] < ends[1] else f"{title} is {high}"
    best = data["points"][data["best"]]
    earned = "" if best["return"] is None else f", at a return of {figure_words(best['return'])}"
    verb = "reveals most" if data["minimise"] else "hides most"
    if data["of"] != "opacity":
        verb = f"has the {'lowest' if data['minimise'] else 'highest'}"
    where = parameter_words(best["parameters"])
    named = f"{shortly(best['point'])}{f' ({where})' if where else ''}"
    return f"{_count(data)}. {spread}; point {named} {verb}{earned}."


def answer_of_front(data: Data) -> str:
    """The ends of the front."""
    points = [point for point in data["points"] if hidden_in(point)]
    if not points:
        return "No policy was found that meets the other requirements."
    first, last = (_end(data, point) for point in (points[0], points[-1]))
    ends = f"from {first} to {last}" if len(points) > 1 else first
    missing = "" if data["complete"] else "; the work was ended before all points were there"
    return f"{_count(data)}, {ends}{missing}."


def hidden_in(point: Data) -> Mapping[str, Any] | None:
    """The amount that the task of a point is about: its opacity or, in its place, another uncertainty."""
    amount: Mapping[str, Any] | None = point["uncertainty"] if "uncertainty" in point else point["opacity"]
    return amount


def hidden_value(point: Data, *, minimise: bool = False) -> float:
    """Its value, for points that have one; of an interval the end that is proven to be reached."""
    amount = hidden_in(point)
    assert amount is not None
    return drawn_amount(amount, minimise=minimise)[0]


def hidden_words(point: Data) -> str:
    """The amount in a sentence: a value, an estimate with its error, or an interval."""
    amount = hidden_in(point)
    assert amount is not None
    value, lower, upper = drawn_amount(amount)
    if amount.get("standard_error") is not None:
        return f"about {figure_words(value)} (± {upper - value:.1g})"
    if amount.get("method") == "interval":
        return f"between {figure_words(lower)} and {figure_words(upper)}"
    return figure_words(value)


def figure_words(value: float) -> str:
    """A figure in a sentence; rounding noise is 0."""
    return f"{0.0 if abs(value) < NOISE else value:.4g}"


def parameter_words(parameters: Mapping[str, Any]) -> str:
    """The parameters of a point in one short line."""
    return ", ".join(f"{shortly(path)} {shortly(value)}" for path, value in parameters.items())


def shortly(value: Any) -> str:
    """A name or a value in one short line."""
    text = escape_invisible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _end(data: Data, point: Data) -> str:
    reached = point["return"] if data["against"] == "return" else point["value"]
    kind = "a return of" if data["against"] == "return" else shortly(data["against"])
    title = "" if data["of"] == "opacity" else f"{objective_title(data['of'])} "
    hidden = with_objective_unit(f"{title}{hidden_words(point)}", data["of"])
    return f"{hidden} at {kind} {figure_words(reached)}"


def _count(data: Data) -> str:
    counts = data["counts"]
    unmet = f" ({counts['infeasible']:,} infeasible)" if counts["infeasible"] else ""
    done = f"{counts['done']:,} done{unmet}"
    parts = [f"{counts[kind]:,} {kind}" for kind in ("failed", "unfinished") if counts[kind]]
    total = f"{counts['points']:,} point{'' if counts['points'] == 1 else 's'}"
    return f"{total}: {', '.join([done, *parts])}" if parts or counts["infeasible"] else total


def _hiding(data: Data) -> Sequence[Data]:
    """The points that meet their tasks, by what they hide."""
    known = [point for point in data["points"] if point["outcome"] == "feasible" and hidden_in(point)]
    return sorted(known, key=lambda point: hidden_value(point, minimise=data["minimise"]))
