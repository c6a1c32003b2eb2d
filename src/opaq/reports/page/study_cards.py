"""The figures at the head of a study's page: how many points, how far the objective and the return go, what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opaq.reports.objective_names import objective_title, objective_unit, with_unit
from opaq.reports.page.figure_cards import Card, figure
from opaq.reports.study_sentences import hidden_in, hidden_value, hidden_words, shortly

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
    minimise = data["minimise"]
    most, least = (choose(done, key=lambda point: hidden_value(point, minimise=minimise)) for choose in (max, min))
    (kind, best), (word, worst) = ("Highest", most), ("least", least)
    if minimise:
        (kind, best), (word, worst) = ("Lowest", least), ("most", most)
    notes = _notes(
        f"point {shortly(best['point'])}",
        f"the {word} is {hidden_words(worst)} (point {shortly(worst['point'])})",
    )
    methods = {(hidden_in(point) or {}).get("method") for point in done}
    others = {"interval": "some only within intervals, of which the proven end counts", "sampled": "some estimated"}
    how = "; ".join(words for method, words in others.items() if method in methods) or "exact"
    title, unit = f"{kind} {objective_title(data['of'])}", objective_unit(data["of"])
    return [_card(title, figure(hidden_value(best, minimise=minimise)), unit=unit, notes=notes, how=how)]


def _return(data: Mapping[str, Any], done: Sequence[Point]) -> list[Card]:
    known = [point for point in done if point["return"] is not None]
    if not known:
        return []
    most, least = (choose(known, key=lambda point: point["return"]) for choose in (max, min))
    hidden = with_unit(hidden_words(most), data["of"])
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
