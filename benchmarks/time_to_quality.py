"""How long each solver takes to reach one quality: the default and `lagrangian` in one run, with their ratio.

    python benchmarks/time_to_quality.py                    # five scenarios, two of them not the paper's
    python benchmarks/time_to_quality.py graph --threads 1

The quality is what `lagrangian` ends with (its default starts, its polish included), less 1e-4 bits. The default
solver's time to it is the time at which a policy that meets the task and is that good was first judged (both times
include compiling the problem, none the compilation of kernels). Ratios of one run are what counts: a busy machine
slows both down.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import opaq
from opaq.opacity.warm import compile_kernels
from opaq.solvers.loop import Progress

EXAMPLES = Path(__file__).parent.parent / "examples"
SCENARIOS = (
    "grid-last-state-4",
    "grid-initial-state-4",
    "graph",
    str(EXAMPLES / "patrol.yaml"),
    str(EXAMPLES / "courier.yaml"),
)
MARGIN = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--threads", type=int, default=None)
    asked = parser.parse_args()
    compile_kernels(derivatives=True)
    print(f"{'scenario':24}{'lagrangian':>12}{'s':>8}{'natural':>10}{'s':>8}{'first as good, s':>18}{'ratio':>8}")
    for name in asked.scenarios:
        compare(name, asked.threads)


def compare(name: str, threads: int | None) -> None:
    """One row: what both solvers end with, and when the default is as good as `lagrangian`."""
    problem = opaq.load_problem(name)
    began = perf_counter()
    slow = opaq.solve(problem, solver="lagrangian", processes=threads, sequences=0)
    slow_seconds = perf_counter() - began
    wanted = slow.measurement.opacity.value - MARGIN
    reached: list[float] = []
    began = perf_counter()
    quick = opaq.solve(problem, processes=threads, sequences=0, on_step=watch(wanted, began, reached))
    quick_seconds = perf_counter() - began
    good = quick.measurement.feasible and quick.measurement.opacity.value >= wanted
    first = reached[0] if reached else quick_seconds if good else float("inf")
    print(
        f"{Path(name).stem:24}{slow.measurement.opacity.value:12.5f}{slow_seconds:8.1f}"
        f"{quick.measurement.opacity.value:10.5f}{quick_seconds:8.1f}{first:18.2f}{slow_seconds / first:8.1f}"
    )


def watch(wanted: float, began: float, reached: list[float]) -> Callable[[Progress], None]:
    """Notes when a policy that meets the task is as good as wanted."""

    def note(progress: Progress) -> None:
        if progress.best is not None and progress.best.feasible and progress.best.score >= wanted:
            reached.append(perf_counter() - began)

    return note


if __name__ == "__main__":
    main()
