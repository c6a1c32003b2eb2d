"""Sweeps on a real Ray cluster of this machine, and on clusters that are not there."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import opaq
from stress.ray_cluster import ray_cluster
from stress.sweep_audit import audit
from stress.sweeping import killed_on_ray, write_plan
from study.inline_executor import InlineExecutor

with_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (opaq[ray])")
PLAN = {"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [2, 3]}}


@with_ray
@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "ray://x", "ray://:3"])
def test_a_cluster_that_is_not_there_is_said_at_once(address: str, tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match=r"nobody answers: Connection refused|is no address; write ray://HOST"):
        opaq.sweep(PLAN, to=tmp_path, on=address)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match=r"pip install 'opaq\[ray\]'"):
        opaq.sweep(PLAN, to=tmp_path, on="ray")


@with_ray
@pytest.mark.skipif(not os.environ.get("OPAQ_RAY_CLUSTER"), reason="a cluster takes a minute: set OPAQ_RAY_CLUSTER=1")
def test_killed_ray_workers_change_nothing_and_a_dead_head_is_said(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, 3, 2, starts=8)
    opaq.sweep(plan, to=tmp_path / "alone", on=InlineExecutor())
    with ray_cluster(2) as cluster:
        folder = tmp_path / "killed"
        killed, complaints = killed_on_ray(plan, folder, cluster, every=3.0, drivers=(0.3,), rng=Random(0))
        assert complaints == []
        assert killed.drivers
        assert audit(folder, tmp_path / "alone") == []
        long = write_plan(tmp_path, 20, 4, starts=40)
        command = [sys.executable, "-m", "opaq", "sweep", str(long), "--to", str(tmp_path / "long")]
        driver = subprocess.Popen(
            [*command, "--on", cluster.address], stderr=subprocess.PIPE, text=True, env=cluster.environment
        )
        with pytest.raises(subprocess.TimeoutExpired):
            driver.wait(timeout=25)
        os.killpg(cluster.head.pid, signal.SIGKILL)
        _, said = driver.communicate(timeout=30)
    assert driver.returncode == 2
    assert "is lost" in said
