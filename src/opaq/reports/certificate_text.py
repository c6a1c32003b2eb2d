"""Certificates as words for people and as JSON for programs."""

from __future__ import annotations

import math
from typing import Any

from opaq.reports.measurement_text import measurement_to_dict

Certificate = Any  # an opaq.certificates.certificate.Certificate; reports know only what they are given
_DIGITS = 4


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
    text = f"The uniform policy reaches {certificate.reached.value:.{_DIGITS}f}{_unit(certificate)}"
    return f"{text}." if certificate.measurement.feasible else f"{text}, but misses the task."


def _rung_words(rung: Any) -> str:
    heard = ", policies that see the observations" if rung.sees_observations else ""
    return f"{rounded_up(rung.bound)} after {rung.seconds:.1f} s: {rung.machine}{heard}"


def certificate_sentence(certificate: Certificate) -> str:
    """What the certificate says, in one or two sentences."""
    if certificate.upper_bound == -math.inf:
        return "No policy meets the task."
    bound = f"No policy can exceed {rounded_up(certificate.upper_bound)}{_unit(certificate)}"
    if certificate.gap is None or not certificate.given:
        return f"{bound}.{_price(certificate)}"
    reached = certificate.reached
    value = f"{reached.value:.{_DIGITS}f}{_unit(certificate)}, {reached.method}."
    if certificate.gap <= 1e-3:
        return f"{value} {bound}: this policy is optimal to within {_share(certificate.gap)}.{_price(certificate)}"
    if certificate.relative_gap is None:
        return f"{value} {bound}: this one is at most {certificate.gap:.2g} from the best.{_price(certificate)}"
    share = f"within {100 * certificate.relative_gap:.1f}% of the best possible"
    return f"{value} {bound}: this one is {share}.{_price(certificate)}"


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


def rounded_up(value: float) -> str:
    """Rounded up, so that the number that is read is a bound."""
    return f"{math.ceil(value * 10**_DIGITS - 1e-9) / 10**_DIGITS:.{_DIGITS}f}" if math.isfinite(value) else str(value)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
