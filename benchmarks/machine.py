"""The machine note: what a benchmark ran on, and what it ran."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import opaq

LIBRARIES = ("numpy", "scipy", "numba", "jax", "dynamax", "hmmlearn", "stormpy", "clarabel")
BUSY = 0.5  # load per core above which ratios are not to be trusted
ROOT = Path(__file__).parents[1]


def machine_note() -> dict[str, str]:
    """What matters for reading the figures, by name."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "opaq": f"{opaq.__version__}, commit {commit()}",
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "memory": memory(),
        "system": platform.platform(terse=True),
        "Python": platform.python_version(),
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def busy() -> bool:
    """Whether the cores have had other work in the last minute."""
    return os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)


def version(library: str) -> str:
    """The version of a library, if it is there."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def commit() -> str:
    """The commit of the working tree, and whether files that are run differ from it."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "src", "benchmarks")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} with changes" if changed else name


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def memory() -> str:
    """How much memory there is."""
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip()
