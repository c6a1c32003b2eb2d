"""Random small models with extreme probabilities: does every measured number agree with brute force?

    python benchmarks/trust_measure.py --count 10000             # about 6 minutes on one core
    python benchmarks/trust_measure.py --only 4711               # replay one model, with all its differences

With every array access of the compiled code checked (compiled kernels without checks are cached elsewhere, so the
cache must be another one):

    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python benchmarks/trust_measure.py --count 2000

Starts, transitions, policies, emissions and memories hold 0, 5e-324, 1e-300, 1e-200, 1e-160, 1e-16 and 1 - 1e-16 among
ordinary numbers. Each model is measured exactly, as a certified interval and from samples, and compared with the
enumeration of every run in tests/oracles.py; every 20th also has its gradients compared with differences of enumerated
values. A model that crashes its process is told with its number. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import opaq
from stress.extremes import Case, extreme_model
from stress.measuring import TOLERANCE, Outcome, try_model
from stress.runner import Crash, run_each

DERIVATIVES_EVERY = 20
PER_SEED = 1_000_000  # model numbers of seed s begin at s times this


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="how many models")
    parser.add_argument("--seed", type=int, default=0, help="which models")
    parser.add_argument("--only", type=int, help="replay the model of this number")
    options = parser.parse_args()
    if options.only is not None:
        return replay(options.only)
    first = options.seed * PER_SEED
    return survey(range(first, first + options.count))


def work(number: int) -> Outcome:
    derivatives = number % DERIVATIVES_EVERY == 0
    return try_model(number, derivatives=derivatives, second_order=derivatives)


def survey(numbers: range) -> int:
    begun = time.monotonic()
    opaq.measure(opaq.load_problem("two-sink"))  # loads what is compiled, before the child is forked
    counts: dict[str, Counter[str]] = {"secret": Counter(), "policy class": Counter(), "observer": Counter()}
    largest: Counter[str] = Counter()
    failures = []
    for number, outcome in run_each(work, numbers):
        case = Case.of(number)
        counts["secret"][case.secret] += 1
        counts["policy class"]["-".join(case.conditions)] += 1
        counts["observer"][case.observer] += 1
        if isinstance(outcome, Crash):
            failures.append(f"model {number}: {outcome.reason}")
        elif outcome.failed:
            failures.append(outcome.complaint())
        else:
            for name, gap in outcome.differences.items():
                largest[name] = max(largest[name], gap)
        progress(number - numbers.start + 1, len(numbers), len(failures))
    print_counts(counts)
    print("\nlargest difference among the models that agree")
    for name, gap in sorted(largest.items()):
        print(f"  {name:28} {gap:.2e}")
    print("\nfailures" if failures else "")
    print("".join(f"  {failure}\n" for failure in failures), end="")
    checked = " with bounds checked" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else ""
    print(
        f"{len(numbers):,} models{checked}, {len(failures)} failures (anything above {TOLERANCE:g}, or a crash)", end=""
    )
    print(f", largest difference {max(largest.values(), default=0.0):.1e}, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


def print_counts(counts: dict[str, Counter[str]]) -> None:
    for kind, counter in counts.items():
        print(f"\n{kind}")
        for name, count in sorted(counter.items()):
            print(f"  {name:28} {count:6,}")


def progress(done: int, total: int, failures: int) -> None:
    if done % 500 == 0:
        print(f"{done:,} of {total:,}, {failures} failures", file=sys.stderr, flush=True)


def replay(number: int) -> int:
    problem, policy = extreme_model(Case.of(number))
    print(problem)
    print(policy)
    [(_, outcome)] = run_each(partial(try_model, derivatives=True, second_order=True), [number])
    if isinstance(outcome, Crash):
        print(outcome.reason)
        return 1
    for name, gap in outcome.differences.items():
        print(f"{name:28} {gap:.3e}{'   <-- wrong' if gap > TOLERANCE else ''}")
    print(outcome.error or ("failed" if outcome.failed else "agrees"))
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
