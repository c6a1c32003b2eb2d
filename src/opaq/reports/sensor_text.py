"""Rankings of sensors as a table for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from opaq.reports.layout import WIDTH, plain_table, short_amount, short_difference, wrap_lines
from opaq.reports.measurement_text import amount_to_dict

SensorRanking = Any  # an opaq.study.sensors.SensorRanking; reports know no study, only what they are given

NUMBERS = range(1, 7)  # the columns that are aligned to the right
_UNCHANGED = "as they are"


def ranking_to_dict(ranking: SensorRanking) -> dict[str, Any]:
    """The ranking as plain data; its keys are a promise (docs/answers.md)."""
    return {
        "problem": ranking.problem,
        "policy_class": ranking.policy_class,
        "fixed": ranking.fixed,
        "null": ranking.null,
        "stated": ranking.stated is not None,
        "of": ranking.base.of.name,
        "base": _figures(ranking.base, ranking.status),
        "sensors": [_sensor_to_dict(ranking, sensor) for sensor in _order_sensors(ranking)],
        "trials": [
            {"sensor": trial.sensor, "change": trial.change}
            | _difference("gain", trial.gain)
            | _figures(trial.measurement, trial.status)
            | {"seconds": trial.seconds}
            for trial in ranking.trials
        ],
        "seconds": ranking.seconds,
        "interrupted": ranking.interrupted,
        "complete": ranking.complete,
    }


def _figures(measurement: Any, status: Any) -> dict[str, Any]:
    return {
        "opacity": amount_to_dict(measurement.opacity),
        "uncertainty": amount_to_dict(measurement.uncertainty),
        "guess_error": measurement.guess_error.value,
        "return": measurement.expected_return,
        "feasible": measurement.feasible,
        "status": None if status is None else status.name.lower(),
    }


def _order_sensors(ranking: SensorRanking) -> list[str]:
    """The sensors, those that cost most first; those without a trial are the last."""
    return list(dict.fromkeys([*ranking.costs, *ranking.coverage]))


def _sensor_to_dict(ranking: SensorRanking, sensor: str) -> dict[str, Any]:
    stated = _stated(ranking, sensor)
    return {
        "sensor": sensor,
        "covers": dict(ranking.coverage[sensor]),
        "detects": None if stated is None else stated.detects,
        "false_alarm": None if stated is None else stated.false_alarm,
    } | _difference("cost", ranking.costs.get(sensor))


def _difference(name: str, amount: Any) -> dict[str, Any]:
    """The difference where it is exact or estimated, else null; and the interval in which it lies, with its error."""
    if amount is None:
        return {name: None, f"{name}_lower": None, f"{name}_upper": None, f"{name}_error": None}
    return {
        name: None if amount.method == "interval" else amount.value,
        f"{name}_lower": amount.lower,
        f"{name}_upper": amount.upper,
        f"{name}_error": amount.standard_error,
    }


def _stated(ranking: SensorRanking, sensor: str) -> Any:
    """The sensor as it is stated; None where none are."""
    listed = () if ranking.stated is None else ranking.stated.sensors
    return next((each for each in listed if each.name == sensor), None)


def ranking_head(ranking: SensorRanking) -> tuple[str, ...]:
    """The columns."""
    return ("sensor", "covers", "rate", "change", ranking.base.of.title, "gain", "return", "status")


def ranking_rows(ranking: SensorRanking) -> list[tuple[str, ...]]:
    """The lines of the table: first the sensors as they are, then every trial."""
    base = ranking.base
    figures = (short_amount(base.uncertainty), "", f"{base.expected_return:.6g}")
    rows: list[tuple[str, ...]] = [("", "", "", _UNCHANGED, *figures, _status(ranking.status, base))]
    for trial in ranking.trials:
        covers, measurement = ranking.coverage[trial.sensor], trial.measurement
        rows.append(
            (
                trial.sensor,
                f"{len(covers):,}",
                _rate(_stated(ranking, trial.sensor), list(covers.values())),
                trial.change,
                short_amount(measurement.uncertainty),
                short_difference(trial.gain),
                f"{measurement.expected_return:.6g}",
                _status(trial.status, measurement),
            )
        )
    return rows


def render_ranking(ranking: SensorRanking, *, width: int = WIDTH) -> str:
    """The ranking as a table, the sensor first that costs most, and what is to be said about it."""
    lines = plain_table(ranking_head(ranking), ranking_rows(ranking), numbers=NUMBERS, width=width)
    return "\n".join(lines + ranking_notes(ranking, width=width))


def ranking_notes(ranking: SensorRanking, *, width: int = WIDTH) -> list[str]:
    """Which policies were compared, and what is missing."""
    how = "the policy stays the same" if ranking.fixed else f"the best policy found on {ranking.policy_class}"
    notes = [f"{how}; a sensor that is removed shows '{ranking.null}'"]
    if ranking.status is not None and ranking.status.name in ("INFEASIBLE", "NOT_FOUND") and not ranking.trials:
        no_policy = "no policy meets" if ranking.status.name == "INFEASIBLE" else "no policy was found that meets"
        notes = [f"{no_policy} the task with the sensors as they are, so none was changed"]
    elif not ranking.complete:
        notes.append("the work was ended before all trials were made")
    methods = {trial.gain.method for trial in ranking.trials}
    if "interval" in methods:
        notes.append("gains in brackets are known to lie between the two; they are ranked by the lower end")
    if "sampled" in methods:
        notes.append("gains with ± are estimates and their standard errors")
    if ranking.stated is None and ranking.trials:
        notes.append("no sensors are stated: names, ranges and rates are inferred from the observations")
    return [line for text in notes for line in wrap_lines(text, rest="  ", width=width)]


def _rate(stated: Any, rates: list[float]) -> str:
    """How likely it fires where it covers: as stated, else one number, or from the least to the largest."""
    if stated is not None:
        return f"{stated.detects:.3g}"
    if not rates:
        return "0"
    least, most = min(rates), max(rates)
    return f"{least:.3g}" if most - least < 1e-9 else f"{least:.3g}..{most:.3g}"


def _status(status: Any, measurement: Any) -> str:
    words = "" if status is None else str(status.name).lower().replace("_", " ")
    missed = "" if measurement.feasible else "MISSES the task"
    return ", ".join(word for word in (words, missed) if word)
