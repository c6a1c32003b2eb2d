"""The default solve against the best of 50 quasi-Newton starts, on small random problems of every kind.

    python benchmarks/against_lagrangian.py --count 120          # some minutes on one core
    python benchmarks/against_lagrangian.py --only 57            # replay one problem, with all starts of both

Problems of every secret, policy class (given and free memory, automaton, start, last states) and observer, with none
to three requirements whose thresholds run from easy to impossible, some of them minimising; every second one has a
horizon of 4 to 6. Both answers are judged by exact evaluation. Problem N is always the same problem. The exit code is
1 if the default is below the other by more than 1e-3 anywhere.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import opaq
from opaq.model.problem import Problem
from opaq.solvers.solve import Solution
from stress.extremes import Case
from stress.runner import Crash, run_each
from stress.solving import kinds_of, random_task

MARGIN = 1e-3
NUM_STARTS = 50
MAX_PAIRS = 100_000  # (run, observation sequence) pairs of the longer problems
PER_SEED = 1_000_000  # problem numbers of seed s begin at s times this


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one problem."""

    number: int
    kinds: str
    default: float | None  # the score, None where no policy meets the task
    other: float | None
    status: str
    seconds: tuple[float, float]
    num_starts: int

    @property
    def shortfall(self) -> float:
        """By how much the default is below."""
        if self.default is None or self.other is None:
            return 0.0 if self.other is None else float("inf")
        return self.other - self.default

    def line(self) -> str:
        """One line of the table."""
        default, other = ("none" if score is None else f"{score:.6f}" for score in (self.default, self.other))
        took = f"{self.seconds[0]:.1f} s, {self.num_starts} starts; {self.seconds[1]:.1f} s"
        return f"  {self.number:8} {default:>10} against {other:>10} ({took}; {self.status}) {self.kinds}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=120, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="which problems")
    parser.add_argument("--only", type=int, help="replay the problem of this number")
    options = parser.parse_args()
    if options.only is not None:
        return replay(options.only)
    first = options.seed * PER_SEED
    return survey(range(first, first + options.count))


def problem_of(number: int) -> Problem:
    """The problem of a number; odd ones have the longer horizons."""
    if number % 2 == 0:
        return random_task(number)[0]
    return random_task(number, horizon=4 + number // 2 % 3, max_pairs=MAX_PAIRS)[0]


def compare(number: int) -> Compared:
    """Solve one problem both ways."""
    problem = problem_of(number)
    default, default_seconds = solved(problem)
    other, other_seconds = solved(problem, solver="lagrangian", starts=NUM_STARTS)
    return Compared(
        number,
        kinds_of(problem, Case.of(number)),
        score(problem, default),
        score(problem, other),
        default.status.name.lower(),
        (default_seconds, other_seconds),
        len(default.starts),
    )


def solved(problem: Problem, **options: object) -> tuple[Solution, float]:
    """A solution and how long it took."""
    begun = time.perf_counter()
    solution = opaq.solve(problem, workers=1, sequences=0, **options)
    return solution, time.perf_counter() - begun


def score(problem: Problem, solution: Solution) -> float | None:
    """The exact opacity, or minus it when minimising; None for a policy that misses the task."""
    sign = -1.0 if problem.task.minimise else 1.0
    return sign * solution.measurement.opacity.value if solution.measurement.feasible else None


def survey(numbers: range) -> int:
    """Many problems, and a summary."""
    warm_up()
    found: list[Compared] = []
    crashes: list[str] = []
    for number, compared in run_each(compare, numbers, seconds=600.0):
        if isinstance(compared, Crash):
            crashes.append(f"  {number:8} {compared.reason}")
            continue
        found.append(compared)
        if len(found) % 10 == 0:
            below = sum(one.shortfall > MARGIN for one in found)
            print(f"{len(found):,} problems, {below} below", file=sys.stderr, flush=True)
    below = [one for one in found if one.shortfall > MARGIN]
    above = [one for one in found if one.shortfall < -MARGIN or (one.other is None and one.default is not None)]
    print(f"default below by more than {MARGIN:g}" if below else "never below")
    print("".join(f"{one.line()}\n" for one in below), end="")
    if above:
        print(f"default above by more than {MARGIN:g}")
        print("".join(f"{one.line()}\n" for one in above), end="")
    print("".join(f"{crash}\n" for crash in crashes), end="")
    _summary(found, len(below), len(above), len(crashes))
    return 1 if below or crashes else 0


def _summary(found: list[Compared], below: int, above: int, crashes: int) -> None:
    neither = sum(one.default is None and one.other is None for one in found)
    mean = [sum(one.seconds[which] for one in found) / max(len(found), 1) for which in (0, 1)]
    print(f"{len(found):,} problems: {above} wins, {below} losses, {crashes} crashes, ", end="")
    print(f"{len(found) - above - below - neither} ties, {neither} where neither meets the task")
    print(f"mean seconds: default {mean[0]:.2f}, best of {NUM_STARTS} lagrangian starts {mean[1]:.2f}")


def replay(number: int) -> int:
    """One problem, with where every start ended."""
    warm_up()
    problem = problem_of(number)
    print(problem)
    for options in ({}, {"solver": "lagrangian", "starts": NUM_STARTS}):
        solution, _ = solved(problem, **options)
        ends = [f"{one.value:.6f}{'' if one.feasible else '!'}" for one in solution.starts if one.value is not None]
        print(f"{solution.solver}: {solution.status_text}\n  starts (! misses the task): {' '.join(ends)}")
    compared = compare(number)
    print(compared.line())
    return 1 if compared.shortfall > MARGIN else 0


def warm_up() -> None:
    """Load what is compiled, before forking and timing."""
    for solver in ("natural", "lagrangian"):
        opaq.solve(opaq.load_problem("two-sink"), solver=solver, starts=1, workers=1)


if __name__ == "__main__":
    sys.exit(main())
