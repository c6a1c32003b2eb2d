"""Kill sweeps at random instants: is a point lost, repeated, or changed?

    python benchmarks/trust_sweep.py                     # 200 points, 20 kills, then a Ray cluster; about 10 minutes
    python benchmarks/trust_sweep.py --executor local --thresholds 5 --horizons 2 --kills 6
    python benchmarks/trust_sweep.py --audit FOLDER      # only look at the journal of a sweep

First the sweep is left alone. Then it runs with drivers and workers killed (kill -9) in turns at random instants, each
time resumed; then on a real Ray cluster (a head and two worker nodes on this machine) with a worker killed every 10 s
and the driver killed and resumed twice. The journals are audited: every point has a result, none was begun again after
it was done, and policies, answers and figures equal those of the run left alone, bit for bit. The exit code is 1 if
anything failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stress.ray_cluster import ray_cluster
from stress.sweep_audit import audit, counts
from stress.sweeping import Kills, killed_on_ray, killed_sweep, run_sweep, write_plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thresholds", type=int, default=25, help="points are 2 x thresholds x horizons")
    parser.add_argument("--horizons", type=int, default=4, help="points are 2 x thresholds x horizons")
    parser.add_argument("--starts", type=int, default=6, help="of every solve: how long points take")
    parser.add_argument("--kills", type=int, default=20, help="kills of the local sweep")
    parser.add_argument("--pause", type=float, default=3.0, help="the most seconds between two of them")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills of Ray workers")
    parser.add_argument("--drivers", type=float, nargs="*", default=[0.25, 0.6], help="shares done")
    parser.add_argument("--executor", choices=("local", "ray", "both"), default="both")
    parser.add_argument("--seed", type=int, default=0, help="which instants")
    parser.add_argument("--audit", type=Path, help="a folder to audit; nothing else is done")
    options = parser.parse_args()
    if options.audit is not None:
        return verdict("audit", options.audit, None, [])
    with tempfile.TemporaryDirectory() as folder:
        return trials(options, Path(folder))


def trials(options: argparse.Namespace, folder: Path) -> int:
    plan = write_plan(folder, options.thresholds, options.horizons, starts=options.starts)
    alone, begun = folder / "alone", time.monotonic()
    code, said = run_sweep(plan, alone)
    print(f"left alone: exit code {code}, {time.monotonic() - begun:.0f} s", flush=True)
    failures = verdict("left alone", alone, None, [said] if code else [])
    if options.on != "ray":
        begun, pauses, rng = time.monotonic(), (0.2, options.pause), Random(options.seed)
        kills, complaints = killed_sweep(plan, folder / "local", kills=options.kills, every=pauses, rng=rng)
        tell("local", kills, begun)
        failures += verdict("local", folder / "local", alone, complaints)
    if options.on != "local":
        with ray_cluster(2) as cluster:
            begun, rng = time.monotonic(), Random(options.seed)
            kills, complaints = killed_on_ray(
                plan, folder / "ray", cluster, every=options.every, drivers=tuple(options.drivers), rng=rng
            )
            tell("ray", kills, begun)
        failures += verdict("ray", folder / "ray", alone, complaints)
    return 1 if failures else 0


def tell(kind: str, kills: Kills, begun: float) -> None:
    seconds = time.monotonic() - begun
    print(
        f"{kind}: {len(kills.drivers)} drivers and {len(kills.workers)} workers killed in {seconds:.0f} s", flush=True
    )


def verdict(kind: str, folder: Path, reference: Path | None, complaints: list[str]) -> int:
    """Print what is wrong, or that nothing is."""
    wrong = [*complaints, *audit(folder, reference)]
    same = "" if reference is None else ", equal to the run left alone bit for bit"
    print(f"  {kind}: {counts(folder)}: " + ("; ".join(wrong) or f"nothing lost, nothing repeated{same}"), flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
