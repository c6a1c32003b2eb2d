"""The figures at the head of a study's page: how many points, how far the objective and the return go, what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opaq.reports.objective_names import objective_title, objective_unit, with_unit
from opaq.reports.page.figure_cards import Card, figure
from opaq.reports.study_sentences import hidden_in, hidden_value, shortly

Point = Mapping[str, Any]


def study_cards(data: Mapping[str, Any]) -> list[Card]:
    """Points, what they hide, return, and the seconds of all solves."""
    done = [point for point in data["points"] if point["outcome"] == "feasible" and hidden_in(point)]
    return [_points(data["counts"]), *_hidden(data, done), *_return(data, done), *_seconds(data["points"])]


def _card(title: str, value: str, **details: Any) -> Card:
    return {"title": title, "value": value, "unit": "", "notes": [], "how": "", "state": "", "gauge": None} | details


def _notes(*texts: str) -> list[dict[str, Any]]:
    return [{"text": text, "mark": False} for text in texts]


def _points(counts: Mapping[str, int]) -> Card:
    rest = [f"{counts[kind]:,} {kind}" for kind in ("infeasible", "failed", "unfinished") if counts[kind]]
    met = counts["done"] - counts["infeasible"]
    return _card("Points", f"{counts['points']:,}", notes=_notes(f"{met:,} meet their task", *rest))


def _hidden(data: Mapping[str, Any], done: Sequence[Point]) -> list[Card]:
    if not done:
        return []
    most, least = (choose(done, key=hidden_value) for choose in (max, min))
    (kind, best), (word, worst) = ("Highest", most), ("least", least)
    if data["minimise"]:
        (kind, best), (word, worst) = ("Lowest", least), ("most", most)
    notes = _notes(
        f"point {shortly(best['point'])}",
        f"the {word} is {figure(hidden_value(worst))} (point {shortly(worst['point'])})",
    )
    exact = all((hidden_in(point) or {}).get("method") == "exact" for point in done)
    how = "exact" if exact else "some points within intervals"
    title, unit = f"{kind} {objective_title(data['of'])}", objective_unit(data["of"])
    return [_card(title, figure(hidden_value(best)), unit=unit, notes=notes, how=how)]


def _return(data: Mapping[str, Any], done: Sequence[Point]) -> list[Card]:
    known = [point for point in done if point["return"] is not None]
    if not known:
        return []
    most, least = (choose(known, key=lambda point: point["return"]) for choose in (max, min))
    hidden = with_unit(figure(hidden_value(most)), data["of"])
    notes = _notes(
        f"point {shortly(most['point'])}, {objective_title(data['of'])} {hidden}",
        f"the least is {figure(least['return'])}",
    )
    return [_card("Highest return", figure(most["return"]), notes=notes)]


def _seconds(points: Sequence[Point]) -> list[Card]:
    known = [point["seconds"] for point in points if point["seconds"] is not None]
    if not known:
        return []
    notes = _notes(f"the longest point {figure(max(known), 1)} s")
    return [_card("Time of all solves", figure(sum(known), 1), unit="s", notes=notes, how="one after the other")]
