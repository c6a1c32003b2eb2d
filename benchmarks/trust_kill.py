"""Stop `opaq solve` and `opaq measure` at random instants: is anything lost, wrong, or said in a traceback?

    python benchmarks/trust_kill.py                              # 30 of each kind, about 20 minutes
    python benchmarks/trust_kill.py --kills 3 --interrupts 3 --terminations 3 --measures 3
    python benchmarks/trust_kill.py --seed 7                     # other instants

kill -9: the run is resumed (and sometimes killed again), until it is done; the answer must equal, bit for bit but for
times, that of a run left alone. Ctrl-C and SIGTERM: exit code 130 and 143, the best answer so far as JSON or a clear
"nothing yet", "stopping" on stderr within 1 s, the end within 5 s, no traceback; a resumed solve then ends with the
same bits. Instants are spread over the whole run from 0.1 s after Python itself listens to signals: start-up and
changes of round are among them. Every other run uses two workers. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stress.interrupts import (
    Patience,
    Trial,
    interrupt_measure,
    interrupt_solve,
    kill_and_resume,
    slow_measurement,
    undisturbed,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="graph", help="what is solved")
    parser.add_argument("--starts", default="8", help="how many starts the solve has")
    parser.add_argument("--horizon", type=int, default=17, help="of the 5-action grid that is measured")
    for kind in ("kills", "interrupts", "terminations", "measures"):
        parser.add_argument(f"--{kind}", type=int, default=30, help=f"how many {kind}")
    parser.add_argument("--seed", type=int, default=0, help="which instants")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trials = [trial for run in plan(options, Path(folder)) for trial in run()]
    table(trials)
    failures = [trial for trial in trials if trial.complaints]
    print(f"\n{len(trials)} trials, {len(failures)} failures, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


def plan(options: argparse.Namespace, folder: Path) -> list[Callable[[], list[Trial]]]:
    """The kinds of trials that are wanted."""
    rng, patience = Random(options.seed), Patience()
    solving = undisturbed(("solve", options.scenario, "--starts", options.starts, "--json"))
    measuring = undisturbed(slow_measurement(folder, options.horizon))
    print(f"left alone: solve {solving.seconds:.1f} s, measure {measuring.seconds:.1f} s", flush=True)

    def kill(trial: int) -> Trial:
        return kill_and_resume(solving, folder / f"kill-{trial}", rng, processes=1 + trial % 2)

    def interrupt(number: signal.Signals, trial: int) -> Trial:
        run = folder / f"{number.name}-{trial}"
        return interrupt_solve(solving, run, rng, number, processes=1 + trial % 2, patience=patience)

    def interrupt_measuring(trial: int) -> Trial:
        return interrupt_measure(measuring, rng, signal.SIGINT, patience=patience)

    return [
        partial(in_time, kill, options.kills),
        partial(in_time, partial(interrupt, signal.SIGINT), options.interrupts),
        partial(in_time, partial(interrupt, signal.SIGTERM), options.terminations),
        partial(in_time, interrupt_measuring, options.measures),
    ]


def in_time(attempt: Callable[[int], Trial], count: int) -> list[Trial]:
    """Trials until `count` commands were still at work when their signal came."""
    trials: list[Trial] = []
    for number in range(4 * count):
        trials.append(show(attempt(number)))
        if sum(trial.result != "had ended" for trial in trials) == count:
            break
    return trials


def show(trial: Trial) -> Trial:
    verdict = "; ".join(trial.complaints) or "as promised"
    print(f"  {trial.kind:16} at {trial.instant:5.2f} s: {trial.result:12} {verdict}", flush=True)
    return trial


def table(trials: list[Trial]) -> None:
    print(f"\n{'kind':16} {'trials':>7} {'failures':>9} {'slowest stopping':>17} {'slowest end':>12}  results")
    for kind in dict.fromkeys(trial.kind for trial in trials):
        mine = [trial for trial in trials if trial.kind == kind]
        told = max((trial.told for trial in mine if trial.told is not None), default=0.0)
        results = ", ".join(f"{count} {name}" for name, count in Counter(trial.result for trial in mine).items())
        failures = sum(bool(trial.complaints) for trial in mine)
        ended = max(trial.ended for trial in mine)
        print(f"{kind:16} {len(mine):7} {failures:9} {told:15.2f} s {ended:10.2f} s  {results}")


if __name__ == "__main__":
    sys.exit(main())
