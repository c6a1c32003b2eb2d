"""Sampled runs as words for people and as JSON for programs."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from opaq.errors import escape_invisible
from opaq.reports.layout import GLUE, WIDTH, Lines, ShortNames, wrap_lines
from opaq.simulation.replay import Replay, ReplayStep

_HEAD = ("time", "state", "action", "seen", "the observer believes of the secret")
_SHOWN_VALUES = 4
_SURE = 1 - 1e-9  # a probability from here on is certainty


def runs_to_dict(runs: tuple[Replay, ...]) -> list[dict[str, Any]]:
    """Every run with its moments."""
    return [
        {
            "secret": run.secret,
            "moments": [
                {
                    "time": moment.time,
                    "state": moment.state,
                    "action": moment.action,
                    "observation": moment.observation,
                    "posterior": dict(moment.posterior),
                }
                for moment in run.moments
            ],
        }
        for run in runs
    ]


def runs_sentence(runs: tuple[Replay, ...]) -> str:
    """How often the observer is right in the end, and how often it is sure."""
    last = [run.moments[-1].posterior for run in runs]
    guesses = [max(shares.items(), key=itemgetter(1))[0] for shares in last]
    right = sum(guess == run.secret for guess, run in zip(guesses, runs, strict=True))
    sure = sum(max(shares.values()) >= _SURE for shares in last)
    among = "1 run" if len(runs) == 1 else f"{len(runs):,} runs"
    certain = f"{sure:,}" if sure else "none"
    return f"At the end the observer's best guess is right in {right:,} of {among}; it is sure in {certain}."


def run_parts(runs: tuple[Replay, ...], *, width: int = WIDTH) -> tuple[Lines, ...]:
    """One table a run, `width` columns wide, and what the short names in them stand for."""
    moments = [moment for run in runs for moment in run.moments]
    states = ShortNames.of(moment.state for moment in moments)
    observations = ShortNames.of(moment.observation for moment in moments)
    secrets = ShortNames.of([run.secret for run in runs] + [name for moment in moments for name in moment.posterior])
    parts = []
    for count, run in enumerate(runs, start=1):
        table = _table([_row(moment, states, observations, secrets) for moment in run.moments], width)
        parts.append(Lines(tuple(table), f"run {count}: the secret is {secrets[run.secret]}"))
    for kind, names in {"states": states, "observations": observations, "secret values": secrets}.items():
        parts += [Lines(tuple(lines[1:])) for lines in [names.notes(kind, width=width)] if lines]
    return tuple(parts)


def _row(moment: ReplayStep, states: ShortNames, observations: ShortNames, secrets: ShortNames) -> tuple[str, ...]:
    likely = sorted(moment.posterior.items(), key=lambda item: -item[1])[:_SHOWN_VALUES]
    belief = ", ".join(f"{secrets[name]}{GLUE}{share:.3f}" for name, share in likely if share > 0.0005)
    time, state, seen = str(moment.time), states[moment.state], observations[moment.observation]
    return time, state, escape_invisible(moment.action), seen, belief


def _table(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Aligned columns; the last one goes on below itself where it does not fit."""
    table = [_HEAD, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD) - 1)]
    indent = " " * (sum(widths) + 2 * len(widths))
    lines = []
    for row in table:
        fixed = "".join(f"{word:<{size}}  " for word, size in zip(row, widths, strict=False))
        lines += wrap_lines(row[-1], first=fixed, rest=indent, width=width)
    return lines
