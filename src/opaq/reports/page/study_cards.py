"""The figures at the head of a study's page: how many points, how far opacity and return go, what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opaq.reports.page.figure_cards import Card, figure
from opaq.reports.study_sentences import shortly

Point = Mapping[str, Any]


def study_cards(data: Mapping[str, Any]) -> list[Card]:
    """Points, opacity, return, and the seconds of all solves."""
    done = [point for point in data["points"] if point["outcome"] == "feasible" and point["opacity"]]
    return [_points(data["counts"]), *_opacity(done), *_return(done), *_seconds(data["points"])]


def _card(title: str, value: str, **details: Any) -> Card:
    return {"title": title, "value": value, "unit": "", "notes": [], "how": "", "state": "", "gauge": None} | details


def _notes(*texts: str) -> list[dict[str, Any]]:
    return [{"text": text, "mark": False} for text in texts]


def _points(counts: Mapping[str, int]) -> Card:
    rest = [f"{counts[kind]:,} {kind}" for kind in ("infeasible", "failed", "unfinished") if counts[kind]]
    met = counts["done"] - counts["infeasible"]
    return _card("Points", f"{counts['points']:,}", notes=_notes(f"{met:,} meet their task", *rest))


def _opacity(done: Sequence[Point]) -> list[Card]:
    if not done:
        return []
    most, least = (choose(done, key=lambda point: point["opacity"]["value"]) for choose in (max, min))
    notes = _notes(
        f"point {shortly(most['point'])}",
        f"the least is {figure(least['opacity']['value'])} (point {shortly(least['point'])})",
    )
    how = "exact" if all(point["opacity"]["method"] == "exact" for point in done) else "some points within intervals"
    return [_card("Highest opacity", figure(most["opacity"]["value"]), unit="bits", notes=notes, how=how)]


def _return(done: Sequence[Point]) -> list[Card]:
    known = [point for point in done if point["return"] is not None]
    if not known:
        return []
    most, least = (choose(known, key=lambda point: point["return"]) for choose in (max, min))
    notes = _notes(
        f"point {shortly(most['point'])}, which hides {figure(most['opacity']['value'])} bits",
        f"the least is {figure(least['return'])}",
    )
    return [_card("Highest return", figure(most["return"]), notes=notes)]


def _seconds(points: Sequence[Point]) -> list[Card]:
    known = [point["seconds"] for point in points if point["seconds"] is not None]
    if not known:
        return []
    notes = _notes(f"the longest point {figure(max(known), 1)} s")
    return [_card("Time of all solves", figure(sum(known), 1), unit="s", notes=notes, how="one after the other")]
