"""Make the page of sampled runs: what happens, what is seen, and what the observer believes.

Comes in: `Replay`s. Goes out: a `Page` with a table per run, on grids also with its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from opaq.model.problem import Problem
from opaq.reports.grid import grid_of, path_lines
from opaq.reports.layout import GLUE, WIDTH, Lines, Page, Part, TextTable
from opaq.reports.text.names import ShortNames
from opaq.simulation.replay import Replay, ReplayStep

_HEAD = ("time", "state", "action", "seen", "the observer believes of the secret")
_SHOWN_VALUES = 4
_SURE = 1 - 1e-9  # a probability from here on is certainty


def runs_page(runs: Sequence[Replay], *, width: int = WIDTH) -> Page:
    """Return the page of runs: one table for each, and a legend of the short names in them.

    runs: at least one. width: columns, for the legend of short names.
    """
    title = f"Replay: the secret is {runs[0].secret}" if len(runs) == 1 and runs[0].secret else "Replay"
    known = all(run.secret and run.steps for run in runs)
    return Page(_runs_sentence(runs) if known else "", _run_parts(runs, width=width), title)


def paths_page(problem: Problem, runs: Sequence[Replay], *, width: int = WIDTH) -> Page:
    """Return the page of runs on a grid: every run as a table and as a path on the board.

    problem: the one that the runs are of. width: columns. Raises InputError if the problem is no grid.
    """
    view, page = grid_of(problem), runs_page(runs, width=width)
    tables, names = page.parts[: len(runs)], page.parts[len(runs) :]
    paths = [
        path_lines(view, [step.state for step in run.steps], title=f"path of run {index}", width=width)
        for index, run in enumerate(runs, start=1)
    ]
    parts = [part for pair in zip(tables, paths, strict=True) for part in pair]
    return replace(page, parts=(*parts, *names))


def _runs_sentence(runs: Sequence[Replay]) -> str:
    """Return a sentence on how often the observer is right in the end, and how often it is sure."""
    last = [run.steps[-1].belief for run in runs]
    guesses = [max(shares.items(), key=itemgetter(1))[0] for shares in last]
    right = sum(guess == run.secret for guess, run in zip(guesses, runs, strict=True))
    sure = sum(max(shares.values()) >= _SURE for shares in last)
    among = "1 run" if len(runs) == 1 else f"{len(runs):,} runs"
    certain = f"{sure:,}" if sure else "none"
    return f"At the end the observer's best guess is right in {right:,} of {among}; it is sure in {certain}."


def _run_parts(runs: Sequence[Replay], *, width: int = WIDTH) -> tuple[Part, ...]:
    """Return one table per run, and the legends of the short names in them, `width` columns wide."""
    steps = [step for run in runs for step in run.steps]
    states = ShortNames.of(step.state for step in steps)
    observations = ShortNames.of(step.observation for step in steps)
    secrets = ShortNames.of([run.secret for run in runs] + [name for step in steps for name in step.belief])
    parts: list[Part] = [
        TextTable(
            _HEAD,
            tuple(_row(step, states, observations, secrets) for step in run.steps),
            title=f"run {count}: the secret is {secrets[run.secret]}",
        )
        for count, run in enumerate(runs, start=1)
    ]
    for kind, names in {"states": states, "observations": observations, "secret values": secrets}.items():
        parts += [Lines(tuple(lines[1:])) for lines in [names.notes(kind, width=width)] if lines]
    return tuple(parts)


def _row(step: ReplayStep, states: ShortNames, observations: ShortNames, secrets: ShortNames) -> tuple[str, ...]:
    """Return the line of one step; of its belief the four likeliest values, with short names."""
    likely = sorted(step.belief.items(), key=lambda item: -item[1])[:_SHOWN_VALUES]
    belief = ", ".join(f"{secrets[name]}{GLUE}{share:.3f}" for name, share in likely if share > 0.0005)
    return str(step.time), states[step.state], step.action, observations[step.observation], belief
