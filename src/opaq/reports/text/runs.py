"""Make the page of sampled runs: what happens, what is seen, and what the observer believes.

Comes in: `Replay`s. Goes out: a `Page` with a table per run, on grids also with its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from opaq.model.problem import Problem
from opaq.reports.grid import grid_of, path_lines
from opaq.reports.layout import WIDTH, Lines, Page, Part, TextTable, list_shares, rank_shares
from opaq.reports.text.names import ShortNames
from opaq.simulation.replay import Replay, ReplayStep

_HEAD = ("time", "state", "action", "seen", "the observer believes of the secret")
_SHOWN_VALUES = 4
_SURE = 1 - 1e-9  # a probability from here on is certainty


def runs_page(runs: Sequence[Replay], *, first: int = 1, ends: RunEnds | None = None, width: int = WIDTH) -> Page:
    """Return the page of runs: one table for each, and a legend of the short names in them.

    runs: at least one. first: the number of the first. width: columns, for the legend of short names.
    ends: counts the ends of more runs than these, whose sentence comes after all; None puts that of these at the top.
    """
    title = f"Replay: the secret is {runs[0].secret}" if len(runs) == 1 and runs[0].secret else "Replay"
    counted = ends or RunEnds()
    counted.count(runs)
    return Page("" if ends else counted.sentence(), _run_parts(runs, first=first, width=width), title)


def paths_page(
    problem: Problem, runs: Sequence[Replay], *, first: int = 1, ends: RunEnds | None = None, width: int = WIDTH
) -> Page:
    """Return the page of runs on a grid: every run as a table and as a path on the board.

    problem: the one that the runs are of. The other arguments are those of `runs_page`.
    Raises InputError if the problem is no grid.
    """
    view, page = grid_of(problem), runs_page(runs, first=first, ends=ends, width=width)
    tables, names, position = page.parts[: len(runs)], page.parts[len(runs) :], problem.mdp.state_index()
    paths = [
        path_lines(view, [position[step.state] for step in run.steps], title=f"path of run {index}", width=width)
        for index, run in enumerate(runs, start=first)
    ]
    parts = [part for pair in zip(tables, paths, strict=True) for part in pair]
    return replace(page, parts=(*parts, *names))


@dataclass(slots=True)
class RunEnds:
    """Counts how runs end: how many there are, in how many the best guess is right, and in how many it is sure."""

    runs: int = 0
    right: int = 0
    sure: int = 0
    known: bool = True  # whether the secrets of all are
    whole: bool = False  # whether whole runs are guessed

    def count(self, runs: Sequence[Replay]) -> None:
        """Add runs."""
        for run in runs:
            if not (run.secret and run.steps):
                self.known = False
                continue
            guess, share = max(run.steps[-1].belief.items(), key=itemgetter(1))
            guesses = [step.guess for step in run.steps if step.guess is not None]
            self.runs += 1
            self.right += (" -> ".join(guesses) if guesses else guess) == run.secret
            self.sure += share >= _SURE
            self.whole = self.whole or bool(guesses)

    def sentence(self) -> str:
        """Return the sentence on all of them; empty where the secret of one is not known."""
        among = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        certain = f"{self.sure:,}" if self.sure else "none"
        if self.whole and self.known:
            return f"The most likely trajectory is the true one in {self.right:,} of {among}."
        words = f"At the end the observer's best guess is right in {self.right:,} of {among}; it is sure in {certain}."
        return words if self.known else ""


def _run_parts(runs: Sequence[Replay], *, first: int = 1, width: int = WIDTH) -> tuple[Part, ...]:
    """Return one table per run, numbered from `first`, and the legends of their short names, `width` columns wide."""
    steps = [step for run in runs for step in run.steps]
    states = ShortNames.of(step.state for step in steps)
    observations = ShortNames.of(step.observation for step in steps)
    whole = [run.secret for run in runs if not _is_trajectory(run)]
    secrets = ShortNames.of(whole + [name for step in steps for name in step.belief])
    parts: list[Part] = [
        TextTable(
            _HEAD if any(step.guess is None for step in run.steps) else (*_HEAD, "most likely run"),
            tuple(_row(step, states, observations, secrets) for step in run.steps),
            title=f"run {count}: the secret is {_secret_words(run, secrets)}",
        )
        for count, run in enumerate(runs, start=first)
    ]
    for kind, names in {"states": states, "observations": observations, "secret values": secrets}.items():
        parts += [Lines(tuple(lines[1:])) for lines in [names.notes(kind, width=width)] if lines]
    return tuple(parts)


def _row(step: ReplayStep, states: ShortNames, observations: ShortNames, secrets: ShortNames) -> tuple[str, ...]:
    """Return the line of one step; of its belief the four likeliest values, with short names."""
    ranked = rank_shares(step.belief, least=0.0005)
    belief = list_shares(ranked, secrets.__getitem__, "{:.3f}".format, most=_SHOWN_VALUES)
    line = (str(step.time), states[step.state], step.action, observations[step.observation], belief)
    return line if step.guess is None else (*line, secrets[step.guess])


def _is_trajectory(run: Replay) -> bool:
    """Return whether the whole run is the secret."""
    return any(step.guess is not None for step in run.steps)


def _secret_words(run: Replay, secrets: ShortNames) -> str:
    """Return the secret of a run by its short name, or how much of a trajectory is guessed right."""
    if not _is_trajectory(run):
        return secrets[run.secret]
    words = run.secret.split(" -> ") if run.secret else []
    right = sum(step.guess == word for step, word in zip(run.steps, words, strict=False))
    return f"its trajectory, of which {right} of {len(run.steps)} steps are guessed right"
