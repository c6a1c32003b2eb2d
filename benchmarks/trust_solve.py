"""Random default solves: is every number confirmed by enumeration, and is every claim of the answer true?

    python benchmarks/trust_solve.py --count 1000                # about 10 minutes on one core
    python benchmarks/trust_solve.py --only 57                   # replay one solve

Small random problems of every secret, policy class and observer, with tasks of none to three requirements whose
thresholds run from easy to impossible, some of them minimising. Confirmed by tests/oracles.py: opacity, guess error,
return and every requirement of the policy returned, to 1e-9; "feasible"; the most attainable of every requirement, and
that "infeasible" is said only where it is below the threshold; that "no policy found" is not said where a plain search
over deterministic policies finds one; that "converged" stands beside a small gradient and curvature.
A solve that crashes its process is told with its number. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import opaq
from stress.runner import Crash, run_each
from stress.solving import random_task, try_solve

PER_SEED = 1_000_000  # solve numbers of seed s begin at s times this


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many solves")
    parser.add_argument("--seed", type=int, default=0, help="which problems")
    parser.add_argument("--only", type=int, help="replay the solve of this number")
    options = parser.parse_args()
    if options.only is not None:
        problem, num_starts = random_task(options.only)
        print(problem)
        print(f"{num_starts} starts")
        return survey(range(options.only, options.only + 1))
    first = options.seed * PER_SEED
    return survey(range(first, first + options.count))


def survey(numbers: range) -> int:
    begun = time.monotonic()
    opaq.solve(opaq.load_problem("two-sink"), starts=1, workers=1)  # loads what is compiled, before forking
    statuses: Counter[str] = Counter()
    largest, failures = 0.0, []
    for number, solved in run_each(try_solve, numbers, seconds=300.0):
        if isinstance(solved, Crash):
            statuses["crashed"] += 1
            failures.append(f"solve {number}: {solved.reason}")
            continue
        statuses[solved.status] += 1
        if solved.failed:
            failures.append(solved.complaint())
        else:
            largest = max(largest, solved.largest)
        if (number - numbers.start + 1) % 100 == 0:
            print(f"{number - numbers.start + 1:,} solves, {len(failures)} failures", file=sys.stderr, flush=True)
    print("status")
    for status, count in statuses.most_common():
        print(f"  {status:14} {count:6,}")
    print("\nfailures" if failures else "")
    print("".join(f"  {failure}\n" for failure in failures), end="")
    print(f"{len(numbers):,} solves, {len(failures)} failures", end="")
    print(f", largest difference {largest:.1e}, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
