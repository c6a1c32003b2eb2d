"""The page of a certificate: the bound, for which policies it holds, and how it was found."""

from __future__ import annotations

import math

from opaq.certificates.certify import Certificate
from opaq.certificates.decoder.search import BoundStep
from opaq.opacity.amount import Amount
from opaq.reports.layout import WIDTH, Facts, Page, Part
from opaq.reports.numbers import TRIVIAL, gap_words, round_down, round_up
from opaq.reports.text.measurement import measurement_rows, sequence_parts
from opaq.reports.text.sentences import answer_sentence

_OPTIMAL = 1e-3  # a policy this close to a bound is called optimal to within that


def certificate_page(certificate: Certificate, *, width: int = WIDTH) -> Page:
    """Return the bound; with the policy given, what it reaches and how far it is from the bound at most.

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
    """Return the bound, for which policies it holds and how it was found, for people."""
    rows = [("certificate", certificate_sentence(certificate)), ("holds for", certificate.scope)]
    heard = certificate.upper_bound_aware
    if heard is not None and not certificate.aware and heard > certificate.upper_bound:
        rows.append(("", f"policies that see the observations cannot exceed {round_up(heard)}"))
    rows.append(("how", certificate.status.value))
    return (*rows, *(("", _rung_words(rung)) for rung in certificate.ladder))


def _uniform_sentence(certificate: Certificate) -> str:
    """Return what the uniform policy reaches, where no other was given; empty where that was not measured."""
    if certificate.reached is None or certificate.measurement is None:
        return ""
    text = f"The uniform policy reaches {_value_words(certificate.reached, _unit(certificate))}"
    return f"{text}." if certificate.measurement.feasible else f"{text}, but misses the task."


def _value_words(reached: Amount, unit: str) -> str:
    """Return the value of a policy, with its error, or its interval."""
    if reached.method == "interval":
        return f"between {round_down(reached.lower)} and {round_up(reached.upper)}{unit}"
    error = "" if reached.standard_error is None else f" ± {reached.standard_error:.1g}"
    return f"{reached.value:.4f}{error}{unit}"


def _rung_words(rung: BoundStep) -> str:
    heard = ", policies that see the observations" if rung.sees_observations else ""
    return f"{round_up(rung.bound)} after {rung.seconds:.1f} s: {rung.machine}{heard}"


def certificate_sentence(certificate: Certificate) -> str:
    """Return what the certificate says, in one or two sentences."""
    if certificate.upper_bound == -math.inf:
        return "No policy meets the task."
    trivial = f", {TRIVIAL}" if certificate.is_trivial else ""
    bound = f"No policy can exceed {round_up(certificate.upper_bound)}{_unit(certificate)}{trivial}"
    if certificate.gap is None or not certificate.given:
        return f"{bound}.{_price(certificate)}"
    reached = certificate.reached
    assert reached is not None  # there is a gap
    value = f"{_value_words(reached, _unit(certificate))}, {reached.method}.".capitalize()
    if certificate.gap <= _OPTIMAL:
        return f"{value} {bound}: this policy is optimal to within {_share(certificate.gap)}.{_price(certificate)}"
    distance = gap_words(reached, certificate.upper_bound, unit=_unit(certificate))
    return f"{value} {bound}{f': {distance}' if distance else ''}.{_price(certificate)}"


def _price(certificate: Certificate) -> str:
    """Return what more of the requirements would cost."""
    costs = [f"one more unit of {name} costs {price:.2g}" for name, price in certificate.prices.items() if price > 5e-4]
    return (
        ""
        if not costs
        else f" {costs[0].capitalize()}{_unit(certificate)}{''.join(f', {cost}' for cost in costs[1:])}."
    )


def _unit(certificate: Certificate) -> str:
    return f" {certificate.unit}" if certificate.unit else ""


def _share(gap: float) -> str:
    return "1e-6" if gap <= 1e-6 else f"{gap:.1g}"
