"""What a study asks and what came out of it, each in plain sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opaq.escapes import printable

Data = Mapping[str, Any]  # of the page of a study

_LONGEST = 40  # characters of a name or a value


def question_of_sweep(data: Data) -> str:
    """What is varied."""
    names = [shortly(path) for path in data["parameters"]]
    varied = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
    verb = "revealed" if data["minimise"] else "hidden"
    return f"How much of the secret of {shortly(data['problem'])} can be {verb} for different values of {varied}?"


def question_of_front(data: Data) -> str:
    """What is traded for what."""
    measure = "of the secret" if data["of"] == "opacity" else f"({data['of'].replace('_', ' ')})"
    against = "return" if data["against"] == "return" else shortly(data["against"])
    verb = "revealed" if data["minimise"] else "hidden"
    return f"How much {measure} of {shortly(data['problem'])} can be {verb} for how much {against}?"


def answer_of_sweep(data: Data) -> str:
    """How many points there are, what became of them, how far opacity goes, and which point hides most."""
    if not (bits := _bits(data)):
        return f"{_count(data)}. No point has an answer that meets its task."
    low, high = bits[0], bits[-1]
    spread = f"Opacity goes from {low:.4g} to {high:.4g} bits" if low < high else f"Opacity is {high:.4g} bits"
    best = data["points"][data["best"]]
    earned = "" if best["return"] is None else f", at a return of {best['return']:.4g}"
    verb = "reveals" if data["minimise"] else "hides"
    where = parameter_words(best["parameters"])
    named = f"{shortly(best['point'])}{f' ({where})' if where else ''}"
    return f"{_count(data)}. {spread}; point {named} {verb} most{earned}."


def answer_of_front(data: Data) -> str:
    """The ends of the front."""
    points = [point for point in data["points"] if point["opacity"]]
    if not points:
        return "No policy was found that meets the other requirements."
    first, last = (_end(data, point) for point in (points[0], points[-1]))
    missing = "" if data["complete"] else "; the work was ended before all points were there"
    return f"{_count(data)}, from {first} to {last}{missing}."


def parameter_words(parameters: Mapping[str, Any]) -> str:
    """The parameters of a point in one short line."""
    return ", ".join(f"{shortly(path)} {shortly(value)}" for path, value in parameters.items())


def shortly(value: Any) -> str:
    """A name or a value in one short line."""
    text = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _end(data: Data, point: Data) -> str:
    reached = point["return"] if data["against"] == "return" else point["value"]
    kind = "a return of" if data["against"] == "return" else shortly(data["against"])
    return f"{point['opacity']['value']:.4g} bits at {kind} {reached:.4g}"


def _count(data: Data) -> str:
    counts = data["counts"]
    unmet = f" ({counts['infeasible']:,} infeasible)" if counts["infeasible"] else ""
    done = f"{counts['done']:,} done{unmet}"
    parts = [f"{counts[kind]:,} {kind}" for kind in ("failed", "unfinished") if counts[kind]]
    total = f"{counts['points']:,} point{'' if counts['points'] == 1 else 's'}"
    return f"{total}: {', '.join([done, *parts])}" if parts or counts["infeasible"] else total


def _bits(data: Data) -> Sequence[float]:
    """The opacities of points that meet their tasks, sorted."""
    return sorted(
        point["opacity"]["value"] for point in data["points"] if point["outcome"] == "feasible" and point["opacity"]
    )
