"""Processor time of first and later runs of the command, with kernels compiled and kept, of one or two source trees.

python benchmarks/first_run.py                        # this tree
python benchmarks/first_run.py --before ../older/src   # and another one, in turns: ratios before and after
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import machine

OWN = Path(__file__).resolve().parents[1] / "src"
COMMANDS = (  # of a new installation, in this order
    ("measure two-sink", "first measure"),
    ("measure two-sink", "measure again"),
    ("solve grid-last-state-4", "first solve"),
    ("solve grid-last-state-4", "solve again"),
)


def main() -> None:
    """Parse, run in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the source folder of another version")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    trees = {"now": OWN} | ({"before": asked.before.resolve()} if asked.before else {})
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(asked.repeats):
        for name, tree in trees.items():
            with tempfile.TemporaryDirectory() as cache:
                for command, title in COMMANDS:
                    times.setdefault((title, name), []).append(processor_seconds(command, tree, cache))
    print(machine())
    for _, title in COMMANDS:
        least = {name: min(times[title, name]) for name in trees}
        ratio = f", ratio {least['before'] / least['now']:.1f}" if "before" in least else ""
        print(f"{title}: " + ", ".join(f"{name} {each:.2f} s" for name, each in least.items()) + ratio)


def processor_seconds(command: str, tree: Path, cache: str) -> float:
    """The processor time of one command, with its kernels kept in the folder `cache`."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": cache}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = [sys.executable, "-m", "opaq", *command.split()]
    subprocess.run(done, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
