"""Large models: how long loading, compiling and a sampled gradient take, in how much memory, and what is shown.

    python benchmarks/large.py                                  # a grid of 400 x 400 cells, which it makes itself
    python benchmarks/large.py --side 200 --runs 1000
    python benchmarks/large.py --prism refuel.nm --constant N=50 --constant ENERGY=50 --secret traps

Every step runs in a fresh process of its own, one after the other. Printed: seconds of wall clock and of processor
time, peak resident memory, and how much of it the step added to what was resident before. Then every command that reads
a problem runs with its progress going to a pipe and to a pseudo-terminal: seconds to the first line of progress, and
in all. The exit code is 1 if the gradient takes more than 5 s of processor time or 1 GB on top of the model, or if a
command runs for more than 3 s and shows nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import timing

SECONDS, BYTES = 5.0, 1e9
PATIENCE = 3.0  # seconds that a command may take without showing anything
COMMANDS = {
    "check": ["check", "PROBLEM"],
    "simulate": ["simulate", "PROBLEM", "--runs", "1"],
    "measure": ["measure", "PROBLEM", "--mode", "sampled", "--samples", "1000", "--sequences", "0"],
    "solve": ["solve", "PROBLEM", "--time-limit", "20"],
    "certify": ["certify", "PROBLEM", "--time-limit", "20"],
    "convert": ["convert", "PROBLEM", "OUT", "--overwrite"],
}


def main() -> int:
    """Measure; 1 where a limit is broken."""
    asked = _arguments()
    if asked.step:
        return _step(asked.step, Path(asked.problem), asked.runs)
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "large.yaml"
        problem.write_text(json.dumps(_prism(asked) if asked.prism else _grid(asked.side, asked.horizon)))
        fine = _steps(problem, asked.runs)
        for name in asked.commands.split(",") if asked.commands else []:
            fine &= _command(name, problem)
    return 0 if fine else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=400)
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--prism", help="a model of PRISM instead of the grid; its observations are the observer's")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--secret", default="goal", help="the label that must stay hidden, of a PRISM model")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="which commands to run, or nothing")
    parser.add_argument("--step", choices=["load", "compile", "gradient"], help=argparse.SUPPRESS)
    parser.add_argument("--problem", help=argparse.SUPPRESS)
    return parser.parse_args()


def _grid(side: int, horizon: int) -> dict[str, object]:
    """A board with a sensor in every block of 40 x 40 cells, run into from the first column."""
    sensors = {
        f"S{x // 40}-{y // 40}": {"covers": _block(x + 5, y + 5, 20, side), "detects": 0.7}
        for x in range(0, side, 40)
        for y in range(0, side, 40)
    }
    secret = [[x, y] for x in range(side) for y in range(side) if (x // 3 + y // 3) % 2]
    board = {"width": side, "height": side, "slip": 0.1, "start": {"column": 0}, "rewards": {"goal": 1}}
    labels = {"goal": _block(side // 20, 0, side, side), "secret": secret}
    return {
        "opaq": 1,
        "grid": board | {"labels": labels},
        "observer": {"sensors": sensors},
        "secret": {"last_state": "secret"},
        "horizon": horizon,
    }


def _block(x: int, y: int, size: int, side: int) -> list[list[int]]:
    return [[column, row] for column in range(x, min(x + size, side)) for row in range(y, min(y + size, side))]


def _prism(asked: argparse.Namespace) -> dict[str, object]:
    constants = {name: int(value) for name, value in (text.split("=") for text in asked.constant)}
    model = {"prism": str(Path(asked.prism).absolute()), "constants": constants}
    return {
        "opaq": 1,
        "model": model,
        "observer": {"from": "model"},
        "secret": {"last_state": asked.secret},
        "horizon": asked.horizon,
    }


def _steps(problem: Path, runs: int) -> bool:
    fine = True
    for step in ("load", "compile", "gradient"):
        command = [sys.executable, __file__, "--step", step, "--problem", str(problem), "--runs", str(runs)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures = json.loads(done.stdout)
        print(f"{step:<9} {figures['wall']:7.2f} s, {figures['cpu']:6.2f} s of processor time, ", end="")
        print(f"peak {figures['peak'] / 1e6:7.0f} MB, {figures['grown'] / 1e6:6.0f} MB of it in this step", flush=True)
        if step == "gradient":
            fine = figures["cpu"] < SECONDS and figures["grown"] < BYTES
    return fine


def _step(step: str, source: Path, runs: int) -> int:
    """One step in this process, what comes before it not timed."""
    import numpy as np

    import opaq
    from opaq.opacity.kernel_warmup import compile_kernels
    from opaq.opacity.sampled import policy_slope

    compile_kernels(derivatives=True)
    problem = opaq.load_problem(source) if step != "load" else None
    process = opaq.compile_problem(problem).process if step == "gradient" else None
    calls = {
        "load": lambda: opaq.load_problem(source),
        "compile": lambda: opaq.compile_problem(problem),
        "gradient": lambda: policy_slope(process, process.uniform(), samples=runs, rng=np.random.default_rng(0)),
    }
    wall, cpu = time.perf_counter(), time.process_time()
    grown = timing.peak_growth(calls[step])
    figures = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "grown": grown}
    print(json.dumps(figures | {"peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
    return 0


def _command(name: str, problem: Path) -> bool:
    """One command, once with a pipe and once with a terminal for its progress."""
    out = str(problem.with_suffix(".json"))
    words = [{"PROBLEM": str(problem), "OUT": out}.get(word, word) for word in COMMANDS[name]]
    fine = True
    for kind in ("pipe", "terminal"):
        first, whole, code = _watched([sys.executable, "-m", "opaq", *words], terminal=kind == "terminal")
        shown = "nothing shown" if first is None else f"first line after {first:5.2f} s"
        print(f"{name:<9} {kind:<8} {shown}, {whole:6.2f} s in all, code {code}", flush=True)
        fine &= whole <= PATIENCE or first is not None
    return fine


def _watched(command: list[str], *, terminal: bool) -> tuple[float | None, float, int]:
    """Seconds to the first byte on stderr, seconds in all, exit code."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    begun, first = time.perf_counter(), None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer) as process:
        os.close(writer)
        try:
            while os.read(reader, 65_536):
                first = time.perf_counter() - begun if first is None else first
        except OSError:  # the end of a terminal
            pass
        code = process.wait()
    os.close(reader)
    return first, time.perf_counter() - begun, code


if __name__ == "__main__":
    sys.exit(main())
