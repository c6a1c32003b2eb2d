"""How long large models take to read, against the time Storm itself needs to build them, and the memory of both.

`python benchmarks/imports.py [MODELS]`; the folder of models by others is the one of OPAQ_MODELS unless it is given.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from timing import machine, peak_growth

from opaq.formats.prism import storm
from opaq.model.mdp import Imported

CASES: list[tuple[str, dict[str, int]]] = [("refuel.nm", {"N": 50, "ENERGY": 50}), ("evade.nm", {"N": 20, "RADIUS": 3})]


def main() -> None:
    models = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("OPAQ_MODELS")
    if not models:
        sys.exit("no folder of models: give it as an argument or set OPAQ_MODELS (CONTRIBUTING.md)")
    folder = Path(models) / "prism"
    print(machine())
    for name, constants in CASES:
        print(report(folder / name, constants) if (folder / name).exists() else f"{folder / name} is not here")


def report(path: Path, constants: Mapping[str, int]) -> str:
    found: list[Imported] = []
    with tempfile.TemporaryDirectory() as folder:
        limits = {"seconds": 600, "memory": storm.MEMORY}
        request = {"path": str(path.resolve()), "kind": "prism", "constants": dict(constants)} | limits
        build = clock(lambda: storm._run(Path(folder), request, str(path)))
        began = time.perf_counter()
        grown = peak_growth(lambda: found.append(read(Path(folder), path, constants)))
        load = time.perf_counter() - began
    mdp, observer = found[0].mdp, found[0].observer
    seen = len(observer.observations) if observer else 0
    storms = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return (
        f"{path.name} {dict(constants)}: {mdp.num_states:,} states, {mdp.num_choices:,} choices, {seen:,} observations;"
        f" Storm {build:.1f} s (largest child so far {storms:.0f} MB), load {load:.2f} s (+{grown / 2**20:.0f} MB)"
    )


def read(folder: Path, path: Path, constants: Mapping[str, Any]) -> Imported:
    model = storm._read(folder / "model.umb", str(path), None, [])
    return storm._with_observation_names(model, str(path), constants)


def clock(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
