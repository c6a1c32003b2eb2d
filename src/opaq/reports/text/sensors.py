"""Make the page of a ranking of sensors: every trial as a line of a table, the sensor first that costs most.

Comes in: a `SensorRanking`. Goes out: a `Page`.
"""

from __future__ import annotations

from opaq.opacity.measure import Measurement
from opaq.reports.layout import Page, TextTable
from opaq.reports.numbers import amount_cell, number, shared_number
from opaq.reports.text.study import law_notes
from opaq.solvers.strategy import Status
from opaq.study.sensors import RankedSensor, SensorRanking


def ranking_page(ranking: SensorRanking) -> Page:
    """Return the page of a ranking: a table, first the sensors as they are and then every trial, and notes below it."""
    base, sensors = ranking.base, {sensor.name: sensor for sensor in ranking.sensors}
    figures = (amount_cell(base.uncertainty), "", number(base.expected_return))
    rows: list[tuple[str, ...]] = [("", "", "", "as they are", *figures, _status(ranking.status, base))]
    for trial in ranking.trials:
        sensor, measurement = sensors[trial.sensor], trial.measurement
        rows.append(
            (
                trial.sensor,
                f"{len(sensor.covers):,}",
                _rate(sensor),
                trial.change,
                amount_cell(measurement.uncertainty),
                amount_cell(trial.gain, sign="+"),
                number(measurement.expected_return),
                _status(trial.status, measurement),
            )
        )
    head = ("sensor", "covers", "rate", "change", base.of.title, "gain", "return", "status")
    return Page(
        "", (TextTable(head, tuple(rows), range(1, 7), notes=_notes(ranking)),), f"Sensors of {ranking.problem}"
    )


def _notes(ranking: SensorRanking) -> tuple[str, ...]:
    """Return notes: which policies were compared, what is missing, and how to read the gains."""
    how = "the policy stays the same" if ranking.fixed else f"the best policy found on {ranking.policy_class}"
    notes = [f"{how}; a sensor that is removed shows '{ranking.null}'"]
    if ranking.status in (Status.INFEASIBLE, Status.NOT_FOUND) and not ranking.trials:
        no_policy = "no policy meets" if ranking.status is Status.INFEASIBLE else "no policy was found that meets"
        notes = [f"{no_policy} the task with the sensors as they are, so none was changed"]
    elif not ranking.complete:
        notes.append("the work was ended before all trials were made")
    methods = {trial.gain.method for trial in ranking.trials}
    if "interval" in methods:
        notes.append("gains in brackets are known to lie between the two; they are ranked by the lower end")
    if "sampled" in methods:
        notes.append("gains with ± are estimates and their standard errors")
    if not ranking.stated and ranking.trials:
        notes.append("no sensors are stated: names, ranges and rates are inferred from the observations")
    return (*notes, *law_notes(ranking.broken_laws, "ranking"))


def _rate(sensor: RankedSensor) -> str:
    """Return the rate of a sensor where it covers: as stated, else one number, or from the least to the largest."""
    if sensor.detects is not None:
        return f"{sensor.detects:.3g}"
    rates = sensor.covers.values()
    if not rates:
        return "0"
    least, most = min(rates), max(rates)
    return shared_number(least, most, "{:.3g}".format) or f"{least:.3g}..{most:.3g}"


def _status(status: Status | None, measurement: Measurement) -> str:
    """Return how the search of a trial ended (None: there was none), and that it misses the task where it does."""
    words = "" if status is None else status.name.lower().replace("_", " ")
    missed = "" if measurement.feasible else "MISSES the task"
    return ", ".join(word for word in (words, missed) if word)
