"""Sweeps whose processes are killed at random instants, and resumed until they are done."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep

from stress.ray_cluster import RayCluster, children, commands, kill, ray_cluster
from stress.sweep_audit import attempts, audit, counts, share_done

_DRIVER = (sys.executable, "-m", "opaq", "sweep")
_PLAN = """\
opaq-sweep: 1
problem: two-sink
over:
  task.return_at_least: [{thresholds}]
  horizon: [{horizons}]
  policy.conditions_on: [[state], [state, time]]
solve: {{starts: {starts}}}
"""


@dataclass(slots=True)
class Kills:
    """What was killed, and when."""

    drivers: list[float] = field(default_factory=list)
    workers: list[float] = field(default_factory=list)


def write_plan(folder: Path, thresholds: int, horizons: int, *, starts: int = 2) -> Path:
    """A plan of 2 x thresholds x horizons points on the two-sink problem."""
    file = folder / "plan.yaml"
    values = ", ".join(f"{0.02 * count:.2f}" for count in range(thresholds))
    lengths = ", ".join(str(2 + count) for count in range(horizons))
    file.write_text(_PLAN.format(thresholds=values, horizons=lengths, starts=starts))
    return file


def run_sweep(plan: Path, folder: Path, *options: str) -> tuple[int, str]:
    """A sweep left alone: its exit code and what it said."""
    done = subprocess.run([*_DRIVER, str(plan), "--output", str(folder), *options], capture_output=True, text=True)
    return done.returncode, done.stderr


def killed_sweep(
    plan: Path, folder: Path, *options: str, kills: int, every: tuple[float, float], rng: Random
) -> tuple[Kills, list[str]]:
    """kill -9 on the driver or on a worker, in turns, until so many were killed; then the sweep runs to its end."""
    killed, complaints = Kills(), list[str]()
    driver = _launched(plan, folder, options)
    for turn in range(kills):
        before = attempts(folder)
        while turn % 4 and driver.poll() is None and attempts(folder) == before:
            sleep(0.05)  # three of four kills come while points are solved, the others maybe before
        sleep(rng.uniform(*every))
        if driver.poll() is not None:
            complaints.append(f"all points were done after {turn} kills: more points are needed")
            break
        workers = local_workers(driver.pid)
        if turn % 2 and workers:
            kill(rng.choice(workers))
            killed.workers.append(monotonic())
        else:
            driver.kill()
            driver.communicate()
            killed.drivers.append(monotonic())
            complaints += _orphans(workers)
            driver = _launched(plan, folder, options)
    complaints += _badly_ended(driver)
    return killed, complaints


def killed_on_ray(
    plan: Path, folder: Path, cluster: RayCluster, *, every: float, drivers: tuple[float, ...], rng: Random
) -> tuple[Kills, list[str]]:
    """A Ray worker killed every so many seconds, the driver when such shares of the points are done, until all are."""
    killed, complaints, options = Kills(), list[str](), ("--executor", cluster.address)
    driver, waiting, next_kill = _launched(plan, folder, options, cluster.environment), list(drivers), monotonic()
    while driver.poll() is None:
        sleep(0.1)
        if waiting and share_done(folder) >= waiting[0]:
            waiting.pop(0)
            driver.kill()
            driver.communicate()
            killed.drivers.append(monotonic())
            driver = _launched(plan, folder, options, cluster.environment)
        elif monotonic() > next_kill and (workers := cluster.workers()):
            kill(rng.choice(workers))
            killed.workers.append(monotonic())
            next_kill = monotonic() + every
    complaints += [f"the driver was to be killed {len(waiting)} times more"] if waiting else []
    return killed, [*complaints, *_badly_ended(driver)]


def local_workers(driver: int) -> list[int]:
    """The workers of a driver on this machine."""
    names = dict(commands())
    return [pid for pid in children(driver) if "opaq.study.workers.worker" in names.get(pid, "")]


def _launched(
    plan: Path, folder: Path, options: tuple[str, ...], environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [*_DRIVER, str(plan), "--output", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


def _badly_ended(driver: subprocess.Popen[str]) -> list[str]:
    _, said = driver.communicate()
    return [] if driver.returncode == 0 else [f"the driver ended with {driver.returncode}: {said[-500:]}"]


def _orphans(workers: list[int], seconds: float = 2.0) -> list[str]:
    """Workers that outlive their driver."""
    until = monotonic() + seconds
    left = workers
    while left and monotonic() < until:
        names = dict(commands())
        left = [pid for pid in left if "opaq.study.workers.worker" in names.get(pid, "")]
        sleep(0.05)
    return [f"worker {pid} outlived its driver" for pid in left]


def survey_sweeps(options: argparse.Namespace, folder: Path) -> int:
    """Run a sweep alone, then with drivers and workers killed in turns, then on a Ray cluster; audit every journal.

    Each time it is resumed. On Ray (a head and two worker nodes on this machine) a worker is killed every few seconds,
    the driver at shares of the points. Policies, answers and figures must equal those of the run left alone.
    """
    plan = write_plan(folder, options.thresholds, options.horizons, starts=options.starts)
    alone, begun = folder / "alone", monotonic()
    code, said = run_sweep(plan, alone)
    print(f"left alone: exit code {code}, {monotonic() - begun:.0f} s", flush=True)
    failures = audit_folder("left alone", alone, complaints=[said] if code else [])
    if options.on != "ray":
        begun, pauses, rng = monotonic(), (0.2, options.pause), Random(options.seed)
        killed = killed_sweep(plan, folder / "local", kills=options.kills, every=pauses, rng=rng)
        failures += _audit_killed("local", folder, killed, seconds=monotonic() - begun)
    if options.on != "local":
        with ray_cluster(2) as cluster:
            begun, drivers, rng = monotonic(), tuple(options.drivers), Random(options.seed)
            killed = killed_on_ray(plan, folder / "ray", cluster, every=options.every, drivers=drivers, rng=rng)
            seconds = monotonic() - begun
        failures += _audit_killed("ray", folder, killed, seconds=seconds)
    return 1 if failures else 0


def _audit_killed(kind: str, folder: Path, killed: tuple[Kills, list[str]], *, seconds: float) -> int:
    kills, complaints = killed
    print(
        f"{kind}: {len(kills.drivers)} drivers and {len(kills.workers)} workers killed in {seconds:.0f} s", flush=True
    )
    return audit_folder(kind, folder / kind, folder / "alone", complaints=complaints)


def audit_folder(kind: str, folder: Path, reference: Path | None = None, *, complaints: Sequence[str] = ()) -> int:
    """Print what is wrong with the journal in a folder, or that nothing is; 1 if anything is wrong."""
    wrong = [*complaints, *audit(folder, reference)]
    same = "" if reference is None else ", equal to the run left alone bit for bit"
    print(f"  {kind}: {counts(folder)}: " + ("; ".join(wrong) or f"nothing lost, nothing repeated{same}"), flush=True)
    return int(bool(wrong))
