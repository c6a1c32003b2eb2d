"""Runs as one table: the call `opaq.runs_to_dataframe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opaq.choices import check_types
from opaq.dataframes import data_frame, posterior_columns
from opaq.simulation.runs import Run

if TYPE_CHECKING:
    from pandas import DataFrame

    from opaq.simulation.replay import Replay

_COLUMNS = ("run", "time", "state", "action", "observation", "secret")


def runs_to_dataframe(runs: Sequence[Run | Replay]) -> DataFrame:
    """One line per run and time: state, action, observation and the run's secret.

    runs: what `simulate` or `replay` gave; of replays, P(value) of every value of the secret is added, as the observer
    believes it at that time.

    Raises an error that says how to install pandas where it is missing.
    """
    check_types({"runs": (runs, Sequence, "a list of runs or replays")})
    check_types({f"runs[{index}]": (run, _is_run, "a run or a replay") for index, run in enumerate(runs)})
    lines: list[dict[str, Any]] = []
    posteriors: list[Mapping[str, float]] = []
    for number, run in enumerate(runs):
        for time, (state, action, observation, posterior) in enumerate(_moments(run)):
            cells = (number, time, state, action, observation, run.secret)
            lines.append(dict(zip(_COLUMNS, cells, strict=True)))
            posteriors.append(posterior)
    names = posterior_columns(posteriors)
    for line, posterior in zip(lines, posteriors, strict=True):
        line.update({column: posterior.get(value, 0.0) for value, column in names.items()})
    return data_frame(lines, (*_COLUMNS, *names.values()))


def _is_run(run: object) -> bool:
    return isinstance(run, Run) or hasattr(run, "moments")


def _moments(run: Run | Replay) -> Iterator[tuple[str, str, str, Mapping[str, float]]]:
    """State, action, observation and what is believed at every time; of a plain run no belief is known."""
    if isinstance(run, Run):
        yield from ((*moment, {}) for moment in zip(run.states, run.actions, run.observations, strict=True))
    else:
        yield from ((each.state, each.action, each.observation, each.posterior) for each in run.moments)
