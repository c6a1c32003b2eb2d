"""Long trials of what docs/trust.md promises; the tests run a part of each. The exit code is 1 if anything failed.

    python -m tests.stress measure           # extreme models in every mode against enumeration; 6 minutes on one core
    python -m tests.stress commands          # the same models through every command: an answer, no warning; 40 minutes
    python -m tests.stress solve             # random solves: is every claim of the answer true? 10 minutes
    python -m tests.stress certify           # random certificates: does any policy exceed the bound? 15 minutes
    python -m tests.stress late              # bounds by late agents against the optimum of tiny models; 10 minutes
    python -m tests.stress least             # lower bounds against all deterministic policies of tiny models; 1 minute
    python -m tests.stress run               # trajectories, moments and their bounds against enumeration; 6 minutes
    python -m tests.stress damage            # damaged files of every format; 10 minutes
    python -m tests.stress kill              # kill -9, Ctrl-C, SIGTERM at random instants of solve, measure; 20 minutes
    python -m tests.stress sweep             # sweeps whose drivers and workers are killed, here and on Ray; 10 minutes
    python -m tests.stress tests             # pytest with all cases of the random trials that it runs a part of

The first eight try numbered cases in a child process: `--count N` how many, `--seed S` other ones, `--only NUMBER`
replays one, with more words. With every array access of the compiled code checked (kernels without checks are cached
elsewhere, so the cache must be another one):

    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python -m tests.stress measure --count 2000
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from opaq.opacity.kernel_warmup import compile_kernels
from stress.certifying import try_certificate, try_late, try_least
from stress.commanding import COMMANDS, audited_model, try_commands
from stress.damage import KINDS, try_damage
from stress.extremes import Case, extreme_model
from stress.interrupts import survey_interrupts
from stress.measuring import try_model
from stress.runner import Outcome, survey
from stress.running import run_model, try_run
from stress.solving import random_task, try_solve
from stress.sweeping import audit_folder, survey_sweeps
from trials import ALL

PER_SEED = 1_000_000  # numbers of seed s begin at s times this
COUNTS = {"measure": 10_000, "commands": 2_000, "solve": 1_000, "certify": 10_000}
COUNTS |= {"late": 2_000, "least": 1_000, "run": 1_000, "damage": 6_000}


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run the trials of one kind, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.stress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    trials = parser.add_subparsers(dest="trial", required=True, metavar="|".join([*COUNTS, "kill", "sweep", "tests"]))
    for name, count in COUNTS.items():
        numbered = trials.add_parser(name)
        numbered.add_argument("--count", type=int, default=count, help="how many cases")
        numbered.add_argument("--seed", type=int, default=0, help="which cases")
        numbered.add_argument("--only", type=int, help="replay the case of this number")
        if name == "commands":
            numbered.add_argument("--command", action="append", choices=sorted(COMMANDS), help="this one (repeatable)")
        if name == "damage":
            numbered.add_argument("--kind", action="append", choices=sorted(KINDS), help="this one (repeatable)")
    kill = trials.add_parser("kill")
    kill.add_argument("--scenario", default="graph", help="what is solved")
    kill.add_argument("--starts", default="8", help="how many starts the solve has")
    kill.add_argument("--horizon", type=int, default=17, help="of the 5-action grid that is measured")
    for kind in ("kills", "interrupts", "terminations", "measures"):
        kill.add_argument(f"--{kind}", type=int, default=30, help=f"how many {kind}")
    sweep = trials.add_parser("sweep")
    sweep.add_argument("--thresholds", type=int, default=25, help="points are 2 x thresholds x horizons")
    sweep.add_argument("--horizons", type=int, default=4, help="points are 2 x thresholds x horizons")
    sweep.add_argument("--starts", type=int, default=6, help="of every solve: how long points take")
    sweep.add_argument("--kills", type=int, default=20, help="kills of the local sweep")
    sweep.add_argument("--pause", type=float, default=3.0, help="the most seconds between two of them")
    sweep.add_argument("--every", type=float, default=10.0, help="seconds between two kills of Ray workers")
    sweep.add_argument("--drivers", type=float, nargs="*", default=[0.25, 0.6], help="shares done")
    sweep.add_argument("--executor", choices=("local", "ray", "both"), default="both")
    sweep.add_argument("--audit", type=Path, help="only look at the journal in this folder")
    for each in (kill, sweep):
        each.add_argument("--seed", type=int, default=0, help="which instants")
    trials.add_parser("tests")
    options = parser.parse_args(arguments)
    if options.trial == "tests":
        return subprocess.run([sys.executable, "-m", "pytest"], env={**os.environ, ALL: "1"}, check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        if options.trial == "kill":
            return survey_interrupts(options, Path(folder))
        if options.trial == "sweep":
            return audit_folder("audit", options.audit) if options.audit else survey_sweeps(options, Path(folder))
        first = options.seed * PER_SEED
        numbers = range(first, first + options.count) if options.only is None else range(options.only, options.only + 1)
        work = numbered_work(options, Path(folder))
        compile_kernels(derivatives=True)  # before the child is forked
        return survey(work, numbers, seconds=300.0)


def numbered_work(options: argparse.Namespace, folder: Path) -> Callable[[int], Outcome]:
    """Return the function that tries the case of a number; of a single one the problem is printed."""
    only = options.only
    match options.trial:
        case "measure":
            if only is not None:
                print(*extreme_model(Case.of(only)), sep="\n")
            every = 20 if only is None else 1
            return lambda number: try_model(number, derivatives=number % every == 0, second_order=number % every == 0)
        case "commands":
            if only is not None:
                print(*audited_model(only), sep="\n")
            return lambda number: try_commands(number, tuple(options.command or ()), traces=only is not None)
        case "solve":
            if only is not None:
                print(*random_task(only), sep="\n")
            return try_solve
        case "run":
            if only is not None:
                print(*run_model(only), sep="\n")
            return try_run
        case "certify":
            return try_certificate
        case "late":
            return try_late
        case "least":
            return try_least
    targets = {}
    for kind in options.kind or KINDS:
        (folder / kind).mkdir()
        targets[kind] = KINDS[kind](folder / kind)
    kinds = list(targets)

    def damage(number: int) -> Outcome:
        kind = kinds[number % len(kinds)]
        return try_damage(kind, targets[kind], number // len(kinds))

    return damage


if __name__ == "__main__":
    sys.exit(main())
