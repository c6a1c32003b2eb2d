"""Damage run folders, policy files and model archives at random: is the answer one clear error, or a good answer?

    python benchmarks/trust_corrupt.py --count 3000              # about 6 minutes on one core
    python benchmarks/trust_corrupt.py --only 31                 # replay one

A real run of `opaq solve two-sink`, with and without its result, its policy file and a UMB archive are damaged: bit
flips, truncations, insertions, blocks of zeros, swapped blocks, files exchanged or spliced, random bytes, deep nesting,
odd numbers. Then the run is resumed, the policy measured, the archive loaded, through the command line in one process.
The exit code must be 0, 1, 2 or 3, and with 2 there is nothing on stdout and few, clear lines on stderr.
"Another answer" counts files that were read without complaint but say something else than before: a digit of a policy
that still sums to 1, or the checkpoint of one start in place of another's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stress.corruption import Originals, try_damage
from stress.runner import Crash, run_each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=0, help="which damages")
    parser.add_argument("--only", type=int, help="replay the damage of this number")
    options = parser.parse_args()
    first = options.seed * 1_000_000
    numbers = range(first, first + options.count)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
    with tempfile.TemporaryDirectory() as folder:
        return survey(numbers, Path(folder))


def survey(numbers: range, folder: Path) -> int:
    begun = time.monotonic()
    (folder / "originals").mkdir()
    originals = Originals.make(folder / "originals")
    results: Counter[tuple[str, str]] = Counter()
    failures = []
    for number, damaged in run_each(partial(_damage, originals, folder), numbers, seconds=60.0):
        if isinstance(damaged, Crash):
            failures.append(f"damage {number}: {damaged.reason}")
            continue
        ended = "same answer" if damaged.same_answer else "another answer"
        results[damaged.file, ended if damaged.said.out else f"exit code {damaged.said.code}"] += 1
        if damaged.complaint:
            failures.append(f"damage {number} ({damaged.file}, {damaged.damage}): {damaged.complaint}")
    for (file, ended), count in sorted(results.items()):
        print(f"  {file:24} {ended:16} {count:6,}")
    print("\nfailures" if failures else "")
    print("".join(f"  {failure}\n" for failure in failures), end="")
    print(f"{len(numbers):,} damaged files, {len(failures)} failures, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


def _damage(originals: Originals, folder: Path, number: int) -> object:
    return try_damage(originals, number, folder / "scratch")


if __name__ == "__main__":
    sys.exit(main())
