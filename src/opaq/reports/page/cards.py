"""Make the figures at the head of a page: value, unit, scale, and how each was obtained.

Comes in: a measurement with its certificate, or the page of a study. Goes out: `Card`s of finished words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opaq.certificates.certify import Certificate
from opaq.opacity.amount import Amount
from opaq.opacity.leakage import GuessLeakage
from opaq.opacity.measure import Measurement, RequirementResult
from opaq.reports.numbers import (
    bound_words,
    method_words,
    page_amount,
    page_number,
    page_percent,
    round_down,
    share_below,
    trivial_words,
)
from opaq.reports.study_page import PagePoint, StudyPage, abbreviate

NOISE = 5e-7  # bits below are none
_SHOWN_VALUES = 4  # of the secret, beside a capacity


@dataclass(frozen=True, slots=True)
class _CardNote:
    """A line below a figure; mark: True where it explains the mark on the gauge."""

    text: str
    mark: bool = False


@dataclass(frozen=True, slots=True)
class _Gauge:
    """A bar below a figure, in percent of its width: where its filling ends and its mark stands (None: no mark)."""

    filled: float
    mark: float | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One figure at the head of a page.

    title: above it. value: as it is written. unit: behind it, or empty. notes: lines below it.
    how: how it was obtained. state: "good" or "bad" where it meets a threshold or misses it; else empty.
    gauge: a bar below it; None draws none.
    """

    title: str
    value: str
    unit: str = ""
    notes: tuple[_CardNote, ...] = ()
    how: str = ""
    state: str = ""
    gauge: _Gauge | None = None


def cards(measurement: Measurement, certificate: Certificate | None, how: str = "") -> list[Card]:
    """Return the cards of opacity, guess error, return, and the certificate's gap or, without one, the leakage.

    measurement: that of the policy. certificate: its bound is marked on the gauge where it is about opacity.
    how: how the bound was obtained, in words; the certificate's own words unless given.
    """
    bounded = certificate is not None and certificate.of == "opacity" and math.isfinite(certificate.bound)
    return [
        _opacity(measurement, certificate.bound if certificate is not None and bounded else None),
        _guess_error(measurement),
        _return(measurement),
        _leakage(measurement) if certificate is None else _certificate(certificate, how or certificate.status_text),
    ]


def leakage_figures(measurement: Measurement) -> list[Card]:
    """Return what observing adds to a guess of the secret: the figures of quantitative information flow."""
    guess, most = measurement.vulnerability, measurement.capacity
    right = f"the best guess is right, {page_percent(guess.prior)} without observing"
    figures = [Card("vulnerability", page_amount(guess.posterior, page_percent), notes=_notes(right))]
    figures += _leakage_pair(guess, "of the best guess")
    figures.append(
        Card(
            "min-entropy leakage",
            page_amount(measurement.min_entropy_leakage, page_number),
            unit="bits",
            notes=_notes("log₂ of the multiplicative leakage"),
        )
    )
    if measurement.guesswork is not None and measurement.secret_guesswork is not None:
        guesses = f"guesses until right, {page_number(measurement.secret_guesswork)} without observing"
        figures.append(Card("guesswork", page_amount(measurement.guesswork, page_number), notes=_notes(guesses)))
    if measurement.g_leakage is not None:
        figures += _leakage_pair(measurement.g_leakage, "of the guess with the least expected loss", "g-")
    if most is not None:
        likely = sorted(most.prior.items(), key=lambda item: -item[1])[:_SHOWN_VALUES]
        rest = f" and {len(most.prior) - len(likely):,} more" if len(most.prior) > len(likely) else ""
        prior = ", ".join(f"{abbreviate(name)} {page_percent(share)}" for name, share in likely)
        at = f"the most leakage over all distributions of the secret, at {prior}{rest}"
        figures.append(Card("capacity", page_amount(most.bits, page_number), unit="bits", notes=_notes(at)))
        least = "the most min-entropy leakage over all distributions of the secret"
        figures.append(
            Card("min-capacity", page_amount(most.min_entropy, page_number), unit="bits", notes=_notes(least))
        )
    return figures


def _leakage_pair(leakage: GuessLeakage, of: str, kind: str = "") -> list[Card]:
    """Return the additive and, where there is one, the multiplicative leakage; of: whose. kind: of the leakage."""
    before, after = page_number(leakage.prior), page_amount(leakage.posterior, page_number)
    words = f"{of}, from {before} to {after}"
    added = Card(f"additive {kind}leakage", page_amount(leakage.additive, page_number), notes=_notes(words))
    if leakage.multiplicative is None:
        return [added]
    factor = f"× {page_amount(leakage.multiplicative, page_number)}"
    return [added, Card(f"multiplicative {kind}leakage", factor, notes=_notes(words))]


def study_cards(page: StudyPage) -> list[Card]:
    """Return the cards of a study: its points, what they hide, their return, and the seconds of all solves.

    Cards for which no point has a figure are left out.
    """
    return [_points(page), *_hidden(page), *_highest_return(page), *_seconds(page.points)]


def _opacity(measurement: Measurement, bound: float | None) -> Card:
    """Return the card of opacity, as a share of H(secret); bound: a bound in bits, marked on the gauge."""
    amount, most = measurement.opacity, measurement.secret_entropy
    value, how = page_amount(amount, page_number), method_words(amount)
    if most <= NOISE:
        return Card("Opacity", value, unit="bits", notes=(_CardNote("there is nothing to hide"),), how=how)
    share = min(1.0, _gauge_value(amount) / most)
    least = "at least " if amount.method == "interval" else ""
    notes = [_CardNote(f"{least}{page_percent(share)} of at most {page_number(most)} bits")]
    notes += [] if bound is None else [_CardNote("the certified bound", mark=True)]
    gauge = _Gauge(_clip(share), None if bound is None else _clip(bound / most))
    return Card("Opacity", value, unit="bits", notes=tuple(notes), how=how, gauge=gauge)


def _guess_error(measurement: Measurement) -> Card:
    """Return the card of the guess error; the mark is that of a guess without observing."""
    amount = measurement.guess_error
    blind = measurement.secret_guess_error
    notes = (
        _CardNote("the best guess of the secret is wrong"),
        _CardNote(f"{page_percent(max(0.0, blind))} without observing", mark=True),
    )
    gauge = _Gauge(_clip(_gauge_value(amount)), _clip(blind))
    return Card("Guess error", page_amount(amount, page_percent), notes=notes, how=method_words(amount), gauge=gauge)


def _return(measurement: Measurement) -> Card:
    """Return the card of the return and all thresholds.

    Of a task that has thresholds, but none of the return, the card says whether the task is met.
    """
    required = [met for met in measurement.requirements if met.threshold is not None]
    notes = tuple(_CardNote(_verdict(met)) for met in required) or (_CardNote("no threshold"),)
    state = "" if not required else "good" if all(met.feasible for met in required) else "bad"
    if required and measurement.threshold is None:  # the task is about other things than the return
        return Card("Task", "met" if state == "good" else "missed", notes=notes, how="exact", state=state)
    return Card("Return", page_number(measurement.expected_return), notes=notes, how="exact", state=state)


def _verdict(met: RequirementResult) -> str:
    """Return that a requirement is met, or not; the return is named by the card itself."""
    named = "" if met.name == "return" else f"{met.name} {page_number(met.value)} "
    verb = "meets" if met.feasible else "misses"
    return f"{named}{verb} the threshold {page_number(met.threshold or 0.0)}"


def _certificate(certificate: Certificate, how: str) -> Card:
    """Return the card of the gap between bound and policy; how: how the bound was obtained, in words.

    Without a finite bound it says that no policy meets the task.
    """
    bound, gap, minimise = certificate.bound, certificate.gap, certificate.minimise
    if not math.isfinite(bound):
        return Card("Certificate", "–", notes=(_CardNote("no policy meets the task"),), how=how, state="bad")
    unit = f" {certificate.unit}" if certificate.unit else ""
    notes = [_CardNote(f"no policy {bound_words(bound, unit=unit, minimise=minimise)}")]
    if certificate.is_trivial:
        notes.append(_CardNote(trivial_words(minimise=minimise)))
    if gap is not None and not minimise and (share := share_below(bound - gap, bound)):
        notes.append(_CardNote(f"this one is proven to reach {round_down(bound - gap)}, at most {share} below that"))
    if gap is None:
        return Card("Certificate gap", "–", notes=tuple(notes), how=how)
    return Card("Certificate gap", f"≤ {page_number(gap, 4)}", unit=unit.strip(), notes=tuple(notes), how=how)


def _leakage(measurement: Measurement) -> Card:
    """Return the card of the leakage, in bits."""
    amount = measurement.leakage
    notes = (_CardNote("what the observations tell of the secret"),)
    return Card("Leakage", page_amount(amount, page_number), unit="bits", notes=notes, how=method_words(amount))


def _gauge_value(amount: Amount) -> float:
    """Return the value that a gauge is filled to: of an interval its lower end, which is certain."""
    return amount.lower if amount.method == "interval" else amount.value


def _clip(share: float) -> float:
    """Return a share in percent, from 0 to 100, with two digits after the point."""
    return round(100 * min(1.0, max(0.0, share)), 2)


def _points(page: StudyPage) -> Card:
    """Return the card with the number of points, and what became of them."""
    counts = page.counts
    rest = [f"{counts[kind]:,} {kind}" for kind in ("infeasible", "failed", "unfinished") if counts[kind]]
    met = counts["done"] - counts["infeasible"]
    return Card("Points", f"{counts['points']:,}", notes=_notes(f"{met:,} meet their task", *rest))


def _hidden(page: StudyPage) -> list[Card]:
    """Return the card of the best point (where tasks minimise, the lowest), as a list; empty without one."""
    if not page.done:
        return []
    minimise = page.minimise
    most, least = (choose(page.done, key=lambda point: point.hidden_value(minimise=minimise)) for choose in (max, min))
    (kind, best), (word, worst) = ("Highest", most), ("least", least)
    if minimise:
        (kind, best), (word, worst) = ("Lowest", least), ("most", most)
    notes = _notes(
        f"point {abbreviate(best.name)}",
        f"the {word} is {worst.hidden_words()} (point {abbreviate(worst.name)})",
    )
    methods = {point.hidden.method for point in page.done if point.hidden is not None}
    others = {"interval": "some only within intervals, of which the proven end counts", "sampled": "some estimated"}
    how = "; ".join(words for method, words in others.items() if method in methods) or "exact"
    of = page.objective.of
    value = page_number(best.hidden_value(minimise=minimise))
    return [Card(f"{kind} {of.title}", value, unit=of.unit, notes=notes, how=how)]


def _highest_return(page: StudyPage) -> list[Card]:
    """Return the card of the highest return of a point that meets its task, as a list; empty where there is none."""
    known = {point.expected_return: point for point in reversed(page.done) if point.expected_return is not None}
    if not known:
        return []
    most, least = max(known), min(known)
    hidden = page.with_unit(known[most].hidden_words())
    notes = _notes(
        f"point {abbreviate(known[most].name)}, {page.objective.of.title} {hidden}",
        f"the least is {page_number(least)}",
    )
    return [Card("Highest return", page_number(most), notes=notes)]


def _seconds(points: Sequence[PagePoint]) -> list[Card]:
    """Return the card of the seconds of all solves, as a list; empty where no point has any."""
    known = [point.seconds for point in points if point.seconds is not None]
    if not known:
        return []
    notes = _notes(f"the longest point {page_number(max(known), 1)} s")
    return [Card("Time of all solves", page_number(sum(known), 1), unit="s", notes=notes, how="one after the other")]


def _notes(*texts: str) -> tuple[_CardNote, ...]:
    """Return the texts as notes that explain no mark."""
    return tuple(map(_CardNote, texts))
