"""Read many random corruptions of every kind of input file; ends with an error at the first that is not handled.

python benchmarks/corruptions.py [COUNT of all kinds together] [SEED]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from corruption import KINDS, trial


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            ends = trial(kind, -(-count // len(KINDS)), seed=seed, folder=Path(folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{kind:14} {dict(ends)}  {time.monotonic() - began:.0f} s, peak memory of the process {peak:.0f} MB")


if __name__ == "__main__":
    main()
