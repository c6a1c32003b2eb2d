"""The default solver on medium problems: every class and seed after the same time, beside a long search.

    python benchmarks/classes.py                                    # all medium problems, 60 s each
    python benchmarks/classes.py grid-8-ltlf --time-limit 30 --seeds 2
    python benchmarks/classes.py --long 300 --runs 10               # the reference: best of 10 runs of 5 minutes

Printed for every problem and class: what the policy reaches for certain, by seed, and how far the worst seed is below
the best value known. The exit code is 1 if a class comes out below a coarser one by more than rounding.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import opaq
from benchmarks.problems import MEDIUM, medium_problem
from opaq.model.secret import Language
from opaq.solvers.policy_classes import contains, parse_class

ROUNDING = 1e-9


def main() -> int:
    """Solve the problems asked for and print a line per class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=f"some of {', '.join(MEDIUM)} (default: all)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each solve")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from 0")
    parser.add_argument("--long", type=float, default=0.0, help="seconds of each run of the reference; 0: none")
    parser.add_argument("--runs", type=int, default=1, help="runs of the reference")
    chosen = parser.parse_args()
    fell = 0
    for name in chosen.problems or MEDIUM:
        problem = medium_problem(name)
        classes = ["state", "state,time"]
        if isinstance(problem.secret, Language):
            classes = ["state", "state,automaton", "state,time", "state,automaton,time"]
        reached: dict[str, list[float]] = {}
        for conditions in classes:
            values = [_value(problem, conditions, chosen.time_limit, seed) for seed in range(chosen.seeds)]
            long = [
                _value(problem, conditions, chosen.long, 100 + run) for run in range(chosen.runs if chosen.long else 0)
            ]
            reached[conditions], best = values, max(values + long)
            coarser = [
                max(reached[other][index] for other in reached if _is_coarser(problem, conditions, other))
                for index in range(len(values))
            ]
            fell += sum(value < below - ROUNDING for value, below in zip(values, coarser, strict=True))
            shown = " ".join(f"{value:.4f}" for value in values)
            print(f"{name:16} {conditions:22} {shown}  worst {(best - min(values)) / max(best, 1e-12):.2%}", flush=True)
    print(f"classes below a coarser one: {fell}")
    return 1 if fell else 0


def _value(problem: opaq.Problem, conditions: str, seconds: float, seed: int) -> float:
    """Return what a solve reaches, for certain or as estimated; 0 where it misses the task."""
    solution = opaq.solve(problem, conditions=conditions, time_limit=seconds, seed=seed, sequences=0)
    measurement = solution.measurement
    return measurement.uncertainty.at_least if measurement.feasible else 0.0


def _is_coarser(problem: opaq.Problem, fine: str, coarse: str) -> bool:
    """Return whether one class contains the other, or is it."""
    return contains(parse_class(fine, problem), parse_class(coarse, problem))


if __name__ == "__main__":
    sys.exit(main())
