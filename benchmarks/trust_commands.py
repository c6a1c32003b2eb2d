"""Random small models with extreme probabilities through every command: is there always an answer, and no warning?

    python benchmarks/trust_commands.py --count 2000             # about 40 minutes on one core
    python benchmarks/trust_commands.py --only 4711              # one model, with where every failure came from
    python benchmarks/trust_commands.py --count 100 --command certify --command report

The models are those of trust_measure.py, with tasks about any uncertainty, tiny thresholds, rewards and losses, and
sensors. Warnings of Python and NumPy are failures, and so are refusals that no document promises and JSON with "NaN". A
model that crashes its process is named with its number. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from opaq.opacity.kernel_warmup import compile_kernels
from stress.commanding import COMMANDS, try_commands
from stress.runner import Crash, run_each

PER_SEED = 1_000_000  # model numbers of seed s begin at s times this


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="how many models")
    parser.add_argument("--seed", type=int, default=0, help="which models")
    parser.add_argument("--only", type=int, help="the model of this number alone")
    parser.add_argument("--command", action="append", choices=sorted(COMMANDS), help="only this command (repeatable)")
    options = parser.parse_args()
    commands = tuple(options.command or COMMANDS)
    if options.only is not None:
        return survey(range(options.only, options.only + 1), commands, traces=True)
    first = options.seed * PER_SEED
    return survey(range(first, first + options.count), commands)


def survey(numbers: range, commands: tuple[str, ...], *, traces: bool = False) -> int:
    begun = time.monotonic()
    compile_kernels(derivatives=True)  # before the child is forked
    seconds: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    failures = 0
    for number, answers in run_each(partial(try_commands, commands=commands), numbers):
        if isinstance(answers, Crash):
            failures += 1
            print(f"model {number}: {answers.reason}", flush=True)
            continue
        for each in answers:
            seconds[each.command] += each.seconds
            refusals[f"{each.command}: {each.refusal[:120]}"] += bool(each.refusal)
            failures += bool(each.failure)
            if each.failure:
                print(each.complaint() + (f"\n{each.trace}" if traces else ""), flush=True)
    print("\nseconds per model")
    for command in commands:
        print(f"  {command:28} {seconds[command] / len(numbers):.3f}")
    print("\nrefusals")
    print("".join(f"  {count:6,}  {words}\n" for words, count in refusals.most_common() if count), end="")
    print(f"{len(numbers):,} models, {failures} failures, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
