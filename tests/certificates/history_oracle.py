"""The best of all policies that remember every state and action, by plain ascent over enumerated runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

import oracles
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem


class RunTable:
    """Every run, every decision on its way and every (secret, sequence) pair it may end with; nothing is merged."""

    def __init__(self, problem: Problem, prices: dict[str, float]) -> None:
        problem = replace(problem, policy_class=PolicyClass())
        self.runs = list(oracles.enumerate_runs(problem))
        decisions: dict[tuple, int] = {}
        rows, pairs, entries = [], {}, []
        for index, run in enumerate(self.runs):
            situations = [(run.states[: t + 1], run.actions[:t]) for t in range(len(run.states))]
            rows.append(
                [decisions.setdefault((*one, run.actions[t]), len(decisions)) for t, one in enumerate(situations)]
            )
            value = oracles.secret_value(problem, run.states)
            for sequence, chance in oracles.observation_sequences(problem, run):
                entries.append((pairs.setdefault((sequence, value), len(pairs)), index, chance))
        self.rows = np.array(rows)
        situation: dict[tuple, int] = {}
        self.situation = np.array([situation.setdefault(key[:2], len(situation)) for key in decisions])
        numbers, columns, chances = zip(*entries, strict=True)
        self.joint = csr_array((chances, (numbers, columns)), shape=(len(pairs), len(self.runs)))
        sequences: dict[tuple, int] = {}
        self.sequence = np.array([sequences.setdefault(sequence, len(sequences)) for sequence, _ in pairs])
        uniform = np.prod([[1 / len(oracles.enabled_actions(problem, s)) for s in r.states] for r in self.runs], axis=1)
        self.model = np.array([run.probability for run in self.runs]) / uniform
        self.worth = np.zeros(len(self.runs))
        if "return" in prices:
            earned = np.array([oracles.run_return(problem, run) for run in self.runs])
            self.worth = prices["return"] * (earned - problem.task.return_at_least)

    def lagrangian(self, logits: np.ndarray) -> tuple[float, np.ndarray]:
        """H(Z | Y) plus the priced slack, and the gradient."""
        weights = np.exp(logits - logits.max())
        chance = weights / np.bincount(self.situation, weights=weights)[self.situation]
        likely = self.model * chance[self.rows].prod(axis=1)
        cells = self.joint @ likely
        totals = np.bincount(self.sequence, weights=cells)[self.sequence]
        costs = np.where(cells > 0, -np.log2(np.where(cells > 0, cells, 1) / np.where(totals > 0, totals, 1)), 0.0)
        value = cells @ costs + likely @ self.worth
        slope = likely * (self.joint.T @ costs + self.worth)
        by_choice = np.bincount(
            self.rows.reshape(-1), weights=np.repeat(slope, self.rows.shape[1]), minlength=chance.size
        )
        return value, by_choice - chance * np.bincount(self.situation, weights=by_choice)[self.situation]

    def best(self, rng: np.random.Generator, *, starts: int = 4) -> float:
        """The largest value that quasi-Newton ascent finds."""

        def negative(logits: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = self.lagrangian(logits)
            return -value, -slope

        begins = [rng.normal(size=self.situation.size) for _ in range(starts)]
        settings = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
        return max(-minimize(negative, begin, jac=True, method="L-BFGS-B", options=settings).fun for begin in begins)
