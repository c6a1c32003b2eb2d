"""Certificates as words for people and as JSON for programs."""

from __future__ import annotations

import math
from typing import Any

from opaq.opacity.amount import Amount
from opaq.reports.measurement_text import measurement_to_dict

Certificate = Any  # an opaq.certificates.certify.Certificate; reports know only what they are given
_DIGITS = 4
_OPTIMAL = 1e-3  # a policy this close to a bound is called optimal to within that
TRIVIAL = "the trivial bound: no secret with as many values exceeds it"


def certificate_to_dict(certificate: Certificate) -> dict[str, Any]:
    """The measurement of the policy, the bound, the gap, and how the bound was found; null stands for none."""
    stated = {} if certificate.measurement is None else measurement_to_dict(certificate.measurement)
    figures = certificate_figures(certificate)
    ending: dict[str, Any] = figures.pop("certificate")
    return stated | figures | {"problem": certificate.problem} | ending


def certificate_figures(certificate: Certificate) -> dict[str, Any]:
    """What a certificate adds to the answer about a policy."""
    return {
        "upper_bound": _finite(certificate.upper_bound),
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
        "certificate": {
            "of": certificate.of,
            "scope": certificate.scope,
            "trivial_bound": _finite(certificate.trivial_bound),
            "is_trivial": certificate.is_trivial,
            "upper_bound_aware": _finite(certificate.upper_bound_aware),
            "prices": dict(certificate.prices),
            "machine": certificate.machine,
            "status": certificate.status.name.lower(),
            "status_text": certificate.status.value,
            "seconds": certificate.seconds,
            "ladder": [_rung_to_dict(rung) for rung in certificate.ladder],
        },
    }


def _rung_to_dict(rung: Any) -> dict[str, Any]:
    return {
        "machine": rung.machine,
        "entries": rung.entries,
        "rounds": rung.rounds,
        "upper_bound": _finite(rung.bound),
        "sees_observations": rung.sees_observations,
        "seconds": rung.seconds,
    }


def certificate_rows(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    """The bound, for which policies it holds and how it was found, for people."""
    rows = [("certificate", certificate_sentence(certificate)), ("holds for", certificate.scope)]
    heard = certificate.upper_bound_aware
    if heard is not None and not certificate.aware and heard > certificate.upper_bound:
        rows.append(("", f"policies that see the observations cannot exceed {rounded_up(heard)}"))
    rows.append(("how", certificate.status.value))
    return (*rows, *(("", _rung_words(rung)) for rung in certificate.ladder))


def uniform_sentence(certificate: Certificate) -> str:
    """What the uniform policy reaches, where no other was given; empty where that was not measured."""
    if certificate.reached is None:
        return ""
    text = f"The uniform policy reaches {_value_words(certificate.reached, _unit(certificate))}"
    return f"{text}." if certificate.measurement.feasible else f"{text}, but misses the task."


def _value_words(reached: Amount, unit: str) -> str:
    """The value of a policy, with its error, or its interval."""
    if reached.method == "interval":
        return f"between {rounded_down(reached.lower)} and {rounded_up(reached.upper)}{unit}"
    error = "" if reached.standard_error is None else f" ± {reached.standard_error:.1g}"
    return f"{reached.value:.{_DIGITS}f}{error}{unit}"


def _rung_words(rung: Any) -> str:
    heard = ", policies that see the observations" if rung.sees_observations else ""
    return f"{rounded_up(rung.bound)} after {rung.seconds:.1f} s: {rung.machine}{heard}"


def certificate_sentence(certificate: Certificate) -> str:
    """What the certificate says, in one or two sentences."""
    if certificate.upper_bound == -math.inf:
        return "No policy meets the task."
    trivial = f", {TRIVIAL}" if certificate.is_trivial else ""
    bound = f"No policy can exceed {rounded_up(certificate.upper_bound)}{_unit(certificate)}{trivial}"
    if certificate.gap is None or not certificate.given:
        return f"{bound}.{_price(certificate)}"
    reached = certificate.reached
    value = f"{_value_words(reached, _unit(certificate))}, {reached.method}.".capitalize()
    if certificate.gap <= _OPTIMAL:
        return f"{value} {bound}: this policy is optimal to within {_share(certificate.gap)}.{_price(certificate)}"
    distance = gap_words(reached, certificate.upper_bound, unit=_unit(certificate))
    return f"{value} {bound}{f': {distance}' if distance else ''}.{_price(certificate)}"


def gap_words(reached: Amount, bound: float, *, unit: str = "", subject: str = "this one") -> str:
    """Return how far a policy is below a bound at most, from the least that it is proven to reach.

    That least is named where it is not the value of the policy. Empty where it says nothing: nothing was reached for
    certain of a positive bound, or all of it up to 1e-3.
    """
    gap = bound - reached.lower
    if gap <= _OPTIMAL:
        return ""
    known = f"{subject} is"
    if reached.method != "exact":
        known += f" proven to reach {rounded_down(reached.lower)},"
    share = below_bound(reached.lower, bound)
    if bound <= 0:
        return f"{known} at most {_two_digits_up(gap)}{unit} below the bound"
    return f"{known} at most {share} below the bound" if share else ""


def below_bound(reached: float, bound: float) -> str:
    """Return the share of a bound that is missing, rounded up: "53%"; empty where it says nothing."""
    if bound <= 0 or reached >= bound:
        return ""
    missing = 100 * min(1.0, (bound - reached) / bound)
    percent = math.ceil(missing - 1e-9) if missing >= 10 else math.ceil(10 * missing - 1e-9) / 10
    return f"{percent:g}%" if percent < 100 else ""


def _price(certificate: Certificate) -> str:
    """What more of the requirements would cost."""
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


def _two_digits_up(value: float) -> str:
    """Two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:.2g}"


def rounded_down(value: float) -> str:
    """Rounded down, so that the number that is read is reached."""
    return f"{math.floor(value * 10**_DIGITS + 1e-9) / 10**_DIGITS:.{_DIGITS}f}" if math.isfinite(value) else str(value)


def rounded_up(value: float) -> str:
    """Rounded up, so that the number that is read is a bound."""
    return f"{math.ceil(value * 10**_DIGITS - 1e-9) / 10**_DIGITS:.{_DIGITS}f}" if math.isfinite(value) else str(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
