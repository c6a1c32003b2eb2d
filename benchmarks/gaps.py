"""Solve to a gap: policy and bound of paper scenarios, examples and random problems, after the same time each.

    python benchmarks/gaps.py                              # all, 60 s each
    python benchmarks/gaps.py --problems random hard --count 20 --time-limit 60
    python benchmarks/gaps.py --problems paper small --beside   # also what plain `solve` reaches in the same time
    python benchmarks/gaps.py --problems medium --beside

Printed for every problem: what the policy reaches for certain (~: an estimate), what no policy exceeds, the gap as a
share of the bound, the class of the policy, the machine of the bound and the seconds. The exit code is 1 if a bound is
below a policy.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent))

import opaq
from benchmarks.problems import MEDIUM, medium_problem, random_problem
from opaq.solvers.policy_classes import class_name

PAPER = ("grid-last-state-4", "grid-last-state", "grid-initial-state-4", "grid-initial-state")
SMALL = ("graph", "graph-published", "two-sink", "examples/courier.yaml", "examples/patrol.yaml")
ROUNDING = 1e-9


def main() -> int:
    """Run the problems asked for and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="*", default=["paper", "small", "random"], help="paper, small, random, hard, medium"
    )
    parser.add_argument("--count", type=int, default=20, help="how many random problems")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each")
    parser.add_argument("--gap", default="0.01%", help="where a search ends before its time")
    parser.add_argument("--beside", action="store_true", help="also solve without a gap, in the same time")
    chosen = parser.parse_args()
    named = [*(PAPER if "paper" in chosen.problems else ()), *(SMALL if "small" in chosen.problems else ())]
    problems = [opaq.load_problem(name) for name in named]
    problems += [random_problem(seed) for seed in range(chosen.count if "random" in chosen.problems else 0)]
    problems += [random_problem(seed, hard=True) for seed in range(chosen.count if "hard" in chosen.problems else 0)]
    problems += [medium_problem(name) for name in (MEDIUM if "medium" in chosen.problems else ())]
    gaps, crossed = [], 0
    for problem in problems:
        begun = perf_counter()
        answer = opaq.solve(problem, gap=chosen.gap, time_limit=chosen.time_limit, sequences=0)
        seconds = perf_counter() - begun
        reached, bound = answer.solution.measurement.uncertainty.lower, answer.certificate.bound
        crossed += bound < reached - ROUNDING
        gaps.append(answer.certificate.relative_gap or 0.0)
        beside = ""
        if chosen.beside:
            plain = opaq.solve(problem, time_limit=chosen.time_limit, sequences=0)
            beside = f"  solve {_shown(plain)}"
        name = class_name(answer.solution.policy.policy_class)
        print(
            f"{problem.name:22} {_shown(answer.solution)} {bound:.5f} {gaps[-1]:8.3%} {seconds:6.1f} s{beside}  "
            f"{name}; {answer.certificate.machine}",
            flush=True,
        )
    print(f"median {median(gaps):.3%}, largest {max(gaps):.3%}, bounds below a policy: {crossed}")
    return 1 if crossed else 0


def _shown(solution: opaq.Solution) -> str:
    """Return what a policy reaches: for certain or, where it was only estimated, the estimate."""
    reached = solution.measurement.uncertainty
    return f"{'~' if reached.method == 'sampled' else ''}{reached.at_least:.5f}"


if __name__ == "__main__":
    sys.exit(main())
