"""Sampled runs as words for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from opaq.opacity.replay import Run

_SHOWN_VALUES = 4


def runs_to_dict(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
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


def render_runs(runs: tuple[Run, ...]) -> str:
    """One table a run."""
    return "\n\n".join(_render(number, run) for number, run in enumerate(runs, start=1))


def _render(number: int, run: Run) -> str:
    rows = [("time", "state", "action", "seen", "the observer believes of the secret")]
    for moment in run.moments:
        likely = sorted(moment.posterior.items(), key=lambda item: -item[1])[:_SHOWN_VALUES]
        belief = ", ".join(f"{name} {share:.3f}" for name, share in likely if share > 0.0005)
        rows.append((str(moment.time), moment.state, moment.action, moment.observation, belief))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(word.ljust(width) for word, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    return "\n".join([f"run {number}: the secret is {run.secret}", *lines])
