"""Make the page of a certificate: the bound, for which policies it holds, and how it was obtained.

Comes in: a `Certificate`. Goes out: a `Page`, and the rows and sentences that other pages quote.
"""

from __future__ import annotations

import math

from opaq.certificates.certify import Certificate, is_trivial
from opaq.certificates.decoder.search import BoundStep
from opaq.opacity.amount import Amount
from opaq.reports.layout import WIDTH, Facts, Page, Part
from opaq.reports.numbers import gap_words, round_down, round_up, shared_number, trivial_words
from opaq.reports.text.measurement import measurement_rows, sequence_parts
from opaq.reports.text.sentences import answer_sentence

_OPTIMAL = 1e-3  # a policy this close to a bound is called optimal to within that


def certificate_page(certificate: Certificate, *, width: int = WIDTH) -> Page:
    """Return the page of a certificate: its bound and, where a policy was given, how far that is from it at most.

    certificate: without a policy of the user, the uniform one is mentioned in the sentence.
    width: columns, for the lines of long sequences.
    """
    rows, measurement = certificate_rows(certificate), certificate.measurement
    title = f"Certificate of {certificate.problem}"
    if measurement is None or not certificate.given:
        sentence = f"{certificate_sentence(certificate)} {_uniform_sentence(certificate)}".strip()
        return Page(sentence, (Facts(rows[1:]),), title)
    facts = Facts(measurement_rows(measurement))
    parts: tuple[Part, ...] = (facts, *sequence_parts(measurement, width=width), Facts(rows))
    return Page(answer_sentence(measurement, certificate), parts, title)


def certificate_rows(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    """Return labels and words: the bound, for which policies it holds, how the work ended, and each tighter bound."""
    rows = [("certificate", certificate_sentence(certificate)), ("holds for", certificate.scope)]
    heard = certificate.upper_bound_aware
    if heard is not None and not certificate.aware and heard > certificate.bound:
        trivial = ", the trivial bound" if is_trivial(heard, certificate.trivial_bound) else ""
        rows.append(("", f"policies that see the observations cannot exceed {round_up(heard)}{trivial}"))
    if certificate.left_out:
        rows.append(
            ("leaves out", f"{', '.join(certificate.left_out)}; the bound holds for policies that miss it, too")
        )
    rows.append(("how", certificate.status.value))
    shown: dict[tuple[str, str, bool], BoundStep] = {}  # steps that look alike are one
    for step in certificate.ladder:
        value = _rung_value(step, minimise=certificate.minimise)
        shown.setdefault((value, step.machine, step.sees_observations), step)
    return (*rows, *(("", _rung_words(step, minimise=certificate.minimise)) for step in shown.values()))


def _uniform_sentence(certificate: Certificate) -> str:
    """Return a sentence on the uniform policy, where no other was given; empty where that was not measured."""
    if certificate.reached is None or certificate.measurement is None:
        return ""
    text = f"The uniform policy reaches {_value_words(certificate.reached, _unit(certificate))}"
    return f"{text}." if certificate.measurement.feasible else f"{text}, but misses the task."


def _value_words(reached: Amount, unit: str) -> str:
    """Return the value of a policy, with its standard error, or both ends of its interval, rounded outwards.

    unit: with a space before it, or empty.
    """
    if reached.method == "interval":
        if known := _known_number(reached):
            return f"{known}{unit}"
        return f"between {round_down(reached.lower)} and {round_up(reached.upper)}{unit}"
    error = "" if reached.standard_error is None else f" ± {reached.standard_error:.1g}"
    return f"{reached.value:.4f}{error}{unit}"


def _known_number(reached: Amount) -> str | None:
    """Return the number that both ends of an amount round to, in four digits; None where they round to two."""
    return shared_number(reached.lower, reached.upper, lambda end: f"{end:z.4f}")


def _rung_words(rung: BoundStep, *, minimise: bool) -> str:
    """Return one bound of the search in words: its value, when it was known, and the machine that proved it."""
    heard = ", policies that see the observations" if rung.sees_observations and not minimise else ""
    return f"{_rung_value(rung, minimise=minimise)} after {rung.seconds:.1f} s: {rung.machine}{heard}"


def _rung_value(rung: BoundStep, *, minimise: bool) -> str:
    """Return the value of a bound, rounded to the side on which it still is one."""
    return round_down(rung.bound) if minimise else round_up(rung.bound)


def certificate_sentence(certificate: Certificate) -> str:
    """Return what the certificate proves, in one or two sentences: the value of the policy, the bound, the distance."""
    if math.isinf(certificate.bound):
        return "No policy meets the task."
    minimise, unit = certificate.minimise, _unit(certificate)
    trivial = f", {trivial_words(minimise=minimise)}" if certificate.is_trivial else ""
    verb, value = ("get below", round_down) if minimise else ("exceed", round_up)
    bound = f"No policy can {verb} {value(certificate.bound)}{unit}{trivial}"
    if certificate.gap is None or not certificate.given:
        return f"{bound}.{_price(certificate)}"
    reached = certificate.reached
    assert reached is not None  # there is a gap
    method = "certified" if reached.method == "interval" and _known_number(reached) else reached.method
    words = f"{_value_words(reached, unit)}, {method}.".capitalize()
    if certificate.gap <= _OPTIMAL:
        return f"{words} {bound}: this policy is optimal to within {_share(certificate.gap)}.{_price(certificate)}"
    distance = gap_words(reached, certificate.bound, unit=unit, minimise=minimise)
    return f"{words} {bound}{f': {distance}' if distance else ''}.{_price(certificate)}"


def _price(certificate: Certificate) -> str:
    """Return a sentence on what more of the requirements would cost, prices above 5e-4; empty where there are none."""
    costs = [f"one more unit of {name} costs {price:.2g}" for name, price in certificate.prices.items() if price > 5e-4]
    return (
        ""
        if not costs
        else f" {costs[0].capitalize()}{_unit(certificate)}{''.join(f', {cost}' for cost in costs[1:])}."
    )


def _unit(certificate: Certificate) -> str:
    """Return the unit of the certificate with a space before it; empty where it has none."""
    return f" {certificate.unit}" if certificate.unit else ""


def _share(gap: float) -> str:
    """Return a gap in one digit, at least 1e-6."""
    return "1e-6" if gap <= 1e-6 else f"{gap:.1g}"
