"""Limit how much of everything a report holds: a page of some megabytes that a browser opens at once.

Comes in: the sizes of a model and its runs. Goes out: the numbers of runs, steps and entries that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """The largest parts of a report; with these it stays below 5 MB for models of 10,000 states.

    An entry of a belief takes some 30 bytes, one of a policy 10.
    """

    graph_states: int = 400  # a larger model that is no grid is shown as a table
    graph_edges: int = 4_000  # the likeliest are kept
    runs: int = 6  # sampled, unless the caller says how many
    run_steps: int = 6_000  # of all runs together
    longest_run: int = 2_000  # steps of one run; the rest of a longer one is left out
    state_entries: int = 40_000  # of beliefs over states, in all steps of all runs
    secret_entries: int = 30_000  # of beliefs over secret values
    all_secrets: int = 300  # with so many values or fewer, beliefs name all of them
    least_entries: int = 3  # of every belief are kept in any case
    policy_entries: int = 80_000  # of a policy by time; a larger one is left out
    coverage_entries: int = 40_000
    trace_points: int = 1_000  # of a solve; every so many are kept of a longer one
    time_points: int = 2_000  # of what is shown over time
    problem_text: int = 200_000  # characters
    policy_text: int = 100_000

    def num_runs(self, wanted: int | None, horizon: int) -> int:
        """Return how many runs are sampled, at least 1.

        wanted: how many are asked for; None is `runs`. horizon: transitions of a run; with long runs there are fewer.
        """
        steps = min(horizon + 1, self.longest_run)
        return max(1, min(self.runs if wanted is None else wanted, self.run_steps // steps))

    def states_per_step(self, steps: int) -> int:
        """Return how many states a belief names; steps: those of all runs together."""
        return max(self.least_entries, self.state_entries // max(steps, 1))

    def secrets_per_step(self, steps: int, num_secrets: int) -> int:
        """Return how many secret values a belief names, all of them where they are few.

        steps: those of all runs together. num_secrets: how many values the secret has.
        """
        room = max(self.least_entries, self.secret_entries // max(steps, 1))
        return num_secrets if num_secrets <= min(self.all_secrets, 4 * room) else min(room, num_secrets)


LIMITS = ReportLimits()
