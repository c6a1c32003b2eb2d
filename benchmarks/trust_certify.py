"""Random certificates: does any policy exceed the bound?

    python benchmarks/trust_certify.py --count 10000             # about a quarter of an hour on one core
    python benchmarks/trust_certify.py --seed 57 --count 1       # replay one problem

Small random problems of every secret, policy class and observer. Random policies of the problem's class are measured by
tests/oracles.py; those that meet the task must not exceed the bound (beyond the
rounding of the enumeration itself, 1e-12), and a task that one of them
meets must not be called infeasible. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

import opaq
import oracles
from opaq.certificates.decoder.machines import ObservationTree, ObservationWindow
from random_problems import random_policy, random_problem

_ROUNDING = 1e-12  # of the enumeration, which adds up to a thousand logarithms


def violations(seed: int, *, policies: int, seconds: float) -> tuple[list[str], str]:
    """What is wrong with the certificate of one problem, and how it ended."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, budget=1000)
    # Small problems go to the history program; every second one is bounded by observation machines alone.
    machines = (ObservationWindow(2, len(problem.observer.seen_names)), ObservationTree()) if seed % 2 else None
    certificate = opaq.certify(problem, gap=0.01, time_limit=seconds, machines=machines)
    wrong = ["not a number"] if math.isnan(certificate.upper_bound) else []
    for _ in range(policies):
        policy = random_policy(rng, problem)
        threshold = problem.task.return_at_least
        if threshold is None or oracles.expected_return(problem, policy) >= threshold:
            opacity = oracles.opacity(oracles.joint(problem, policy))
            if opacity > certificate.upper_bound + _ROUNDING:
                wrong.append(f"{opacity!r} is above {certificate.upper_bound!r}")
    return wrong, certificate.status.name.lower()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="the first problem")
    parser.add_argument("--policies", type=int, default=5, help="random policies per problem")
    parser.add_argument("--seconds", type=float, default=0.5, help="for every certificate")
    options = parser.parse_args()
    endings: Counter[str] = Counter()
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        wrong, ending = violations(seed, policies=options.policies, seconds=options.seconds)
        endings[ending] += 1
        failed += bool(wrong)
        for text in wrong:
            print(f"problem {seed}: {text}")
    print(f"{options.count:,} certificates, {failed} wrong; {dict(endings)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
