"""Sweeps on a real Ray cluster of this machine, and on clusters that are not there."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from random import Random
from time import monotonic

import pytest

import opaq
from stress.ray_cluster import ray_cluster
from stress.sweep_audit import audit
from stress.sweeping import killed_on_ray, write_plan
from study.inline_executor import InlineExecutor

with_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
PLAN = {"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [2, 3]}}


@with_ray
@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "ray://x", "ray://:3"])
def test_a_cluster_that_is_not_there_is_said_at_once(address: str, tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match=r"nobody answers: Connection refused|is no address; write ray://HOST"):
        opaq.sweep(PLAN, output=tmp_path, executor=address)


@with_ray
def test_a_dead_cluster_of_the_environment_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(opaq.InputError, match=r"^127\.0\.0\.1:1: nobody answers: Connection refused"):
        opaq.sweep(PLAN, output=tmp_path, executor="ray")


@with_ray
@pytest.mark.skipif(not os.environ.get("OPAQ_RAY_CLUSTER"), reason="it takes 13 seconds each: set OPAQ_RAY_CLUSTER=1")
@pytest.mark.parametrize("named", ["on", "RAY_ADDRESS", "note"])
def test_a_cluster_that_does_not_answer_is_said_within_15_seconds(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        if named == "RAY_ADDRESS":
            monkeypatch.setenv("RAY_ADDRESS", address)
        elif named == "note":  # as Ray keeps it of the cluster of a machine
            monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
            (tmp_path / "ray").mkdir()
            (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        begun = monotonic()
        with pytest.raises(opaq.InputError, match=rf"{address}: is lost: .*RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"):
            opaq.sweep(PLAN, output=tmp_path / "out", executor=f"ray://{address}" if named == "on" else "ray")
        assert monotonic() - begun < 20


def test_the_extra_brings_rays_client() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["ray"] == ["ray[client]>=2.40"]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match=r"pip install 'ray\[client\]>=2.40'"):
        opaq.sweep(PLAN, output=tmp_path, executor="ray")


@with_ray
@pytest.mark.skipif(not os.environ.get("OPAQ_RAY_CLUSTER"), reason="a cluster takes a minute: set OPAQ_RAY_CLUSTER=1")
def test_killed_ray_workers_change_nothing_and_a_dead_head_is_said(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, 3, 2, starts=8)
    opaq.sweep(plan, output=tmp_path / "alone", executor=InlineExecutor())
    with ray_cluster(2) as cluster:
        folder = tmp_path / "killed"
        killed, complaints = killed_on_ray(plan, folder, cluster, every=3.0, drivers=(0.3,), rng=Random(0))
        assert complaints == []
        assert killed.drivers
        assert audit(folder, tmp_path / "alone") == []
        long = write_plan(tmp_path, 20, 4, starts=40)
        command = [sys.executable, "-m", "opaq", "sweep", str(long), "--output", str(tmp_path / "long")]
        driver = subprocess.Popen(
            [*command, "--executor", cluster.address], stderr=subprocess.PIPE, text=True, env=cluster.environment
        )
        with pytest.raises(subprocess.TimeoutExpired):
            driver.wait(timeout=25)
        os.killpg(cluster.head.pid, signal.SIGKILL)
        _, said = driver.communicate(timeout=30)
    assert driver.returncode == 2
    assert "is lost" in said
