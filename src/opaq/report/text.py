"""Measurements as words for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, Met
from opaq.opacity.sequences import Sighting

_SHOWN_VALUES = 6  # secret values listed before the rest is summed up


def measurement_to_dict(measurement: Measurement) -> dict[str, Any]:
    """The answer as plain data; its keys are a promise (docs/answers.md)."""
    return {
        "problem": measurement.problem,
        "opacity": _amount_to_dict(measurement.opacity),
        "secret_entropy": measurement.secret_entropy,
        "secret_distribution": dict(measurement.secret_distribution),
        "leakage": measurement.leakage.value,
        "guess_error": measurement.guess_error.value,
        "intervals": {
            "leakage": _amount_to_dict(measurement.leakage),
            "guess_error": _amount_to_dict(measurement.guess_error),
        },
        "fano_bound": measurement.fano_bound,
        "return": measurement.expected_return,
        "threshold": measurement.threshold,
        "feasible": measurement.feasible,
        "requirements": [
            {"name": met.name, "value": met.value, "threshold": met.threshold, "holds": met.holds}
            for met in measurement.requirements
        ],
        "horizon": measurement.horizon,
        "revealing": [_sighting_to_dict(sighting) for sighting in measurement.revealing],
        "confusing": [_sighting_to_dict(sighting) for sighting in measurement.confusing],
        "explanation": measurement.explanation,
        "product_states": measurement.num_product_states,
        "beliefs": measurement.num_nodes,
        "seconds": measurement.seconds,
    }


def render_measurement(measurement: Measurement) -> str:
    """The answer as a page for people."""
    rows = [
        ("opacity", f"{_amount(measurement.opacity)} bits   H(secret | observations)"),
        ("of at most", f"{_number(measurement.secret_entropy)} bits   H(secret), known without observing"),
        ("leakage", f"{_amount(measurement.leakage)} bits"),
        ("guess error", f"{_amount(measurement.guess_error)}   (Fano: at least {_number(measurement.fano_bound)})"),
        *((met.name, _met(met)) for met in measurement.requirements),
        ("how", measurement.explanation),
    ]
    lines = [f"{name:<12} {value}" for name, value in rows]
    lines += _sightings("most revealing observations", measurement.revealing)
    lines += _sightings("most confusing observations", measurement.confusing)
    return "\n".join(lines)


def _amount_to_dict(amount: Amount) -> dict[str, Any]:
    found: dict[str, Any] = {
        "value": amount.value,
        "lower": amount.lower,
        "upper": amount.upper,
        "method": amount.method,
    }
    if amount.standard_error is not None:
        found["standard_error"] = amount.standard_error
    return found


def _sighting_to_dict(sighting: Sighting) -> dict[str, Any]:
    return {
        "observations": list(sighting.observations),
        "complete": sighting.complete,
        "probability": sighting.probability,
        "likeliest": sighting.likeliest,
        "posterior": dict(sighting.posterior),
        "bits": sighting.bits,
    }


def _number(value: float) -> str:
    return f"{value:.6g}"


def _amount(amount: Amount) -> str:
    if amount.method == "exact":
        return _number(amount.value)
    interval = f"[{_number(amount.lower)}, {_number(amount.upper)}]"
    if amount.standard_error is None:
        return f"{interval} certified"
    return f"{_number(amount.value)} ± {amount.standard_error:.2g} (standard error; certainly in {interval})"


def _met(met: Met) -> str:
    if met.threshold is None:
        return f"{_number(met.value)}   (no threshold)"
    return f"{_number(met.value)}   ({'meets' if met.holds else 'MISSES'} the threshold {_number(met.threshold)})"


def _sightings(title: str, sightings: tuple[Sighting, ...]) -> list[str]:
    if not sightings:
        return []
    return ["", title, *(f"  {_sighting(sighting)}" for sighting in sightings)]


def _sighting(sighting: Sighting) -> str:
    shown = _shortened(sighting.observations) + ("" if sighting.complete else " ...")
    likely = sorted(sighting.posterior.items(), key=lambda item: -item[1])[:_SHOWN_VALUES]
    posterior = ", ".join(f"{name} {value:.3g}" for name, value in likely if value > 0)
    return f"{shown}   probability {sighting.probability:.3g}, {sighting.bits:.3g} bits; secret: {posterior}"


def _shortened(observations: tuple[str, ...]) -> str:
    """The sequence with repetitions counted."""
    words: list[tuple[str, int]] = []
    for name in observations:
        if words and words[-1][0] == name:
            words[-1] = (name, words[-1][1] + 1)
        else:
            words.append((name, 1))
    return " ".join(name if count == 1 else f"{name} x{count}" for name, count in words)
