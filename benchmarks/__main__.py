"""Run every benchmark and write docs/benchmarks.md.

    python -m benchmarks                          # some thirteen minutes on two idle cores
    python -m benchmarks --quick                  # small sizes, a minute or two; written to out/benchmarks
    python -m benchmarks --only gradients --output /tmp/here

Needs the extra `bench`; a peer that is not there is named in the document as skipped.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products this small gain nothing from a second thread

from benchmarks.document import write_document
from benchmarks.machine import ROOT, busy, machine_note
from benchmarks.rows import REPEATS, Section, Settings

BENCHMARKS = ("quality", "gradients", "certificates", "scaling", "filtering", "values")


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, write; the exit code is 0 unless two answers differ (which raises)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a run of a minute or two")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="one benchmark; may be given again")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"of every measurement, at least {REPEATS}")
    parser.add_argument(
        "--output", type=Path, help="folder for benchmarks.md (docs, or out/benchmarks for a partial run)"
    )
    asked = parser.parse_args(arguments)
    if asked.repeats < REPEATS:
        parser.error(f"--repeats: at least {REPEATS} are needed for a spread")
    partial = asked.quick or asked.only
    folder = asked.output or ROOT / ("out/benchmarks" if partial else "docs")
    began, note = perf_counter(), machine_note()
    settings = Settings(quick=asked.quick, repeats=asked.repeats, busy=busy())
    sections = {name: run(name, settings) for name in BENCHMARKS if not asked.only or name in asked.only}
    print(write_document(folder, sections, note, settings, seconds=perf_counter() - began))
    return 0


def run(name: str, settings: Settings) -> Section:
    """One benchmark, with what happens on stderr."""
    began = perf_counter()
    print(f"{name} ...", file=sys.stderr, flush=True)
    section: Section = importlib.import_module(f"benchmarks.{name}").run(settings)
    print(f"{name}: {perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return section


if __name__ == "__main__":
    sys.exit(main())
