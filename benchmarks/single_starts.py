"""How far apart single random starts end: the fewer starts a solve needs, the quicker it is.

    python benchmarks/single_starts.py

Seeds 0 to 9 of grid-last-state-4, one start each, for policies by state and by state and time. The exit code is 1 if
the worst of them is further below the best than LIMITS says.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import opaq
from opaq.model.policy import PolicyClass

LIMITS = {("state",): 0.012, ("state", "time"): 0.004}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="grid-last-state-4", help="a problem file or the name of a scenario")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    options = parser.parse_args()
    spreads = {conditions: ends(options.scenario, conditions, options.seeds) for conditions in LIMITS}
    return 1 if any(spread > LIMITS[conditions] for conditions, spread in spreads.items()) else 0


def ends(scenario: str, conditions: tuple[str, ...], seeds: int) -> float:
    """Solve from every seed, print where they end; how far the worst is below the best."""
    problem = replace(opaq.load_problem(scenario), policy_class=PolicyClass(conditions))
    found, seconds = [], []
    for seed in range(seeds):
        begun = time.perf_counter()
        solution = opaq.solve(problem, starts=1, start="random", seed=seed, sequences=0)
        seconds.append(time.perf_counter() - begun)
        found.append(solution.measurement.opacity.value if solution.measurement.feasible else float("-inf"))
        print(f"  seed {seed}: {found[-1]:.5f} in {seconds[-1]:.1f} s, {solution.status_text}", flush=True)
    best, worst = max(found), min(found)
    print(
        f"{scenario} ({', '.join(conditions)}): best {best:.5f}, worst {worst:.5f}, spread {best - worst:.5f} "
        f"(at most {LIMITS[conditions]:g}), {sum(seconds) / seeds:.1f} s a start"
    )
    return best - worst


if __name__ == "__main__":
    sys.exit(main())
