"""The figures at the head of a page: what was measured, of how much, and how it was obtained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opaq.reports.certificate_text import TRIVIAL, below_bound, rounded_down
from opaq.reports.layout import objective_title, objective_unit, with_objective_unit
from opaq.reports.study_sentences import hidden_in, hidden_value, hidden_words, shortly

Card = dict[str, Any]  # title, value, unit, notes, how, state ("", "good", "bad"), gauge (None or shares of the width)

_NOISE = 5e-7  # smaller figures are shown as 0
_ROUNDING = 1e-12


def cards(data: Mapping[str, Any]) -> list[Card]:
    """Opacity, guess error, return, and the certificate's gap or, without one, the leakage."""
    measurement = data["measurement"]
    certificate = data.get("certificate")
    bound = certificate.get("upper_bound") if certificate and certificate.get("of") in (None, "opacity") else None
    return [
        _opacity(measurement, bound),
        _guess_error(measurement),
        _return(measurement),
        _leakage(measurement) if certificate is None else _certificate(certificate),
    ]


def figure(value: float, digits: int = 3) -> str:
    """A number for people: some digits after the point, more only where it would vanish."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < _NOISE:
        return "0"
    if abs(value) < 0.5 * 10**-digits:
        return _power_of_ten(value)
    if abs(value) >= 1e6:
        return f"{value:.4g}".replace("-", "−")
    return f"{value:,.{digits}f}".replace("-", "−")


def _power_of_ten(value: float) -> str:
    """9.2e-06 as people write it: 9.2 × 10⁻⁶."""
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits} × 10{raised}".replace("-", "−")


def percent(share: float) -> str:
    """A probability in percent; what is not quite 0 or 1 is not shown as if it were."""
    if min(share, 1 - share) < _ROUNDING:
        return f"{100 * share:.0f}%"
    if 0 < share < 5e-4:
        return "<0.1%"
    if 0.9995 < share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%"


def how_words(amount: Mapping[str, Any], digits: int = 4) -> str:
    """Exact, or within which interval, or with which standard error."""
    interval = f"{figure(amount['lower'], digits)} to {figure(amount['upper'], digits)}"
    if amount["method"] == "exact":
        return "exact"
    if amount.get("standard_error") is not None:
        return f"estimate ± {amount['standard_error']:.1g} (standard error); certainly {interval}"
    return f"certified: {interval}"


def _value_words(amount: Mapping[str, Any], words: Callable[[float], str]) -> str:
    """The figure, or both ends of an interval that they tell apart: its middle is no finding."""
    lower, upper = words(amount["lower"]), words(amount["upper"])
    return words(amount["value"]) if amount["method"] != "interval" or lower == upper else f"{lower} to {upper}"


def _filled(amount: Mapping[str, Any]) -> float:
    """What a gauge is filled to: of an interval what is certain."""
    return float(amount["lower"] if amount["method"] == "interval" else amount["value"])


def _card(title: str, value: str, **details: Any) -> Card:
    return {"title": title, "value": value, "unit": "", "notes": [], "how": "", "state": "", "gauge": None} | details


def _note(text: str, *, mark: bool = False) -> dict[str, Any]:
    """A line below a figure; `mark` says that it explains the mark on the gauge."""
    return {"text": text, "mark": mark}


def _opacity(measurement: Mapping[str, Any], bound: float | None) -> Card:
    amount, most = measurement["opacity"], measurement["secret_entropy"]
    title, value, how = "Opacity", _value_words(amount, figure), how_words(amount)
    if most <= _NOISE:
        return _card(title, value, unit="bits", notes=[_note("there is nothing to hide")], how=how)
    share = min(1.0, _filled(amount) / most)
    least = "at least " if amount["method"] == "interval" else ""
    notes = [_note(f"{least}{percent(share)} of at most {figure(most)} bits")]
    notes += [] if bound is None else [_note("the certified bound", mark=True)]
    gauge = {"filled": _clip(share), "mark": None if bound is None else _clip(bound / most)}
    return _card(title, value, unit="bits", notes=notes, how=how, gauge=gauge)


def _guess_error(measurement: Mapping[str, Any]) -> Card:
    amount = measurement["intervals"]["guess_error"]
    blind = 1 - max(measurement["secret_distribution"].values(), default=1.0)
    notes = [_note("the best guess of the secret is wrong")]
    notes.append(_note(f"{percent(max(0.0, blind))} without observing", mark=True))
    gauge = {"filled": _clip(_filled(amount)), "mark": _clip(blind)}
    return _card("Guess error", _value_words(amount, percent), notes=notes, how=how_words(amount), gauge=gauge)


def _return(measurement: Mapping[str, Any]) -> Card:
    asked = [met for met in measurement["requirements"] if met["threshold"] is not None]
    notes = [_note(_verdict(met)) for met in asked] or [_note("no threshold")]
    state = "" if not asked else "good" if all(met["holds"] for met in asked) else "bad"
    if asked and measurement["threshold"] is None:  # the task is about other things than the return
        return _card("Task", "met" if state == "good" else "missed", notes=notes, how="exact", state=state)
    return _card("Return", figure(measurement["return"]), notes=notes, how="exact", state=state)


def _verdict(met: Mapping[str, Any]) -> str:
    """Whether a requirement is met; the return is named by the card itself."""
    named = "" if met["name"] == "return" else f"{met['name']} {figure(met['value'])} "
    return f"{named}{'meets' if met['holds'] else 'misses'} the threshold {figure(met['threshold'])}"


def _certificate(certificate: Mapping[str, Any]) -> Card:
    bound, gap = certificate.get("upper_bound"), certificate.get("gap")
    if bound is None:
        return _card(
            "Certificate", "–", notes=[_note("no policy meets the task")], how=certificate["status_text"], state="bad"
        )
    above = math.ceil(bound * 1e4 - 1e-9) / 1e4  # what is read must still be a bound
    notes = [_note(f"no policy exceeds {above:.4f}{_unit(certificate)}")]
    if certificate.get("is_trivial"):
        notes.append(_note(TRIVIAL))
    if gap is not None and (share := below_bound(bound - gap, bound)):
        notes.append(_note(f"this one is proven to reach {rounded_down(bound - gap)}, at most {share} below that"))
    value = "–" if gap is None else f"≤ {figure(max(gap, 0.0), 4)}"
    unit = "" if gap is None else _unit(certificate).strip()
    return _card("Certificate gap", value, unit=unit, notes=notes, how=certificate["status_text"])


def _leakage(measurement: Mapping[str, Any]) -> Card:
    amount = measurement["intervals"]["leakage"]
    notes = [_note("what the observations tell of the secret")]
    return _card("Leakage", _value_words(amount, figure), unit="bits", notes=notes, how=how_words(amount))


def _unit(certificate: Mapping[str, Any]) -> str:
    return " bits" if certificate.get("of") in (None, "opacity") else ""


def _clip(share: float) -> float:
    return round(100 * min(1.0, max(0.0, share)), 2)


Point = Mapping[str, Any]


def study_cards(data: Mapping[str, Any]) -> list[Card]:
    """Points, what they hide, return, and the seconds of all solves."""
    done = [point for point in data["points"] if point["outcome"] == "feasible" and hidden_in(point)]
    return [_points(data["counts"]), *_hidden(data, done), *_study_return(data, done), *_seconds(data["points"])]


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


def _study_return(data: Mapping[str, Any], done: Sequence[Point]) -> list[Card]:
    known = [point for point in done if point["return"] is not None]
    if not known:
        return []
    most, least = (choose(known, key=lambda point: point["return"]) for choose in (max, min))
    hidden = with_objective_unit(hidden_words(most), data["of"])
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
