"""Medium problems through the command: when does it show something, and what is the answer after at most 60 s?

    python benchmarks/medium.py                       # all models of benchmarks/models, one after the other
    python benchmarks/medium.py carry --time-limit 20

The command writes its progress to a pseudo-terminal here, as it would to a user's. Printed for every model: seconds to
the first line of progress and to the first policy that meets the task, the opacity (exact, or with its interval),
whether the requirements hold, how the solve ended, seconds in all, peak memory. The exit code is 1 if a first line took
longer than 2 s, an answer longer than the time given and 15 s, or a requirement is missed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

MODELS = Path(__file__).parent / "models"
FIRST_LINE = 2.0
GRACE = 15.0  # seconds beyond the time limit: loading the model, judging and measuring the answer


@dataclass(slots=True)
class Screen:
    """What came up on the terminal, and when."""

    begun: float = field(default_factory=time.perf_counter)
    first_line: float | None = None
    first_feasible: float | None = None
    text: str = ""

    def read(self, terminal: int) -> None:
        """Read until the other side is closed."""
        while True:
            try:
                part = os.read(terminal, 65_536)
            except OSError:
                return
            if not part:
                return
            now = time.perf_counter() - self.begun
            self.text += part.decode(errors="replace")
            if self.first_line is None:
                self.first_line = now
            if self.first_feasible is None and "best so far" in self.text:
                self.first_feasible = now


def main() -> int:
    known = sorted(path.stem for path in MODELS.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"some of {', '.join(known)} (default: all)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each solve")
    parser.add_argument("--options", default="", help="further options of opaq solve, in one string")
    chosen = parser.parse_args()
    header = f"{'model':14} {'first':>6} {'meets':>6} {'opacity':>10} {'interval':>21} {'task':>6} {'s':>6} {'MiB':>6}"
    print(f"{header}  status")
    failed = [name for name in chosen.models or known if not run(name, chosen.time_limit, chosen.options.split())]
    return 1 if failed else 0


def run(name: str, limit: float, options: list[str]) -> bool:
    """Solve one model; print its line."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "time"
        solve = [
            sys.executable,
            "-m",
            "opaq",
            "solve",
            str(MODELS / f"{name}.yaml"),
            "--time-limit",
            str(limit),
            "--json",
        ]
        output, screen, seconds = watched(["/usr/bin/time", "-f", "%M", "-o", str(report), *solve, *options])
        memory = int(report.read_text().split()[-1]) / 1024
    try:
        answer = json.loads(output)
    except json.JSONDecodeError:
        print(f"{name:14} no answer after {seconds:.0f} s: {screen.text[-300:]!r}", flush=True)
        return False
    opacity = answer["opacity"]
    told = (
        f"{name:14} {_seconds(screen.first_line)} {_seconds(screen.first_feasible)} {_middle(opacity):10.6f} "
        f"[{opacity['lower']:.6f}, {opacity['upper']:.6f}] {'meets' if answer['feasible'] else 'MISSES':>6} "
        f"{seconds:6.1f} {memory:6.0f}  {opacity['method']}; {answer['status']}"
    )
    print(told, flush=True)
    quick = screen.first_line is not None and screen.first_line <= FIRST_LINE
    return bool(answer["feasible"]) and quick and seconds <= limit + GRACE


def watched(command: list[str]) -> tuple[str, Screen, float]:
    """Run a command with a terminal for stderr: its output, what was shown, and the seconds it took."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))  # wide enough for whole lines
    screen = Screen()
    reader = Thread(target=screen.read, args=(terminal,), daemon=True)
    reader.start()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment) as process:
        os.close(theirs)
        output, _ = process.communicate()
    seconds = time.perf_counter() - screen.begun
    reader.join(timeout=1.0)
    os.close(terminal)
    return output, screen, seconds


def _seconds(moment: float | None) -> str:
    return "     -" if moment is None else f"{moment:6.1f}"


def _middle(opacity: dict[str, float]) -> float:
    return float(opacity.get("value", 0.5 * (opacity["lower"] + opacity["upper"])))


if __name__ == "__main__":
    sys.exit(main())
