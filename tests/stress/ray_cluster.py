"""A real Ray cluster on this machine: a head and some worker nodes, all ended in the end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

_RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
_STORE = "--object-store-memory=90000000"


@dataclass(frozen=True, slots=True)
class RayCluster:
    """Where clients connect, with which environment, and where its files are."""

    address: str
    folder: str
    head: subprocess.Popen[bytes]
    environment: dict[str, str]  # holds the token that clients have to show

    def workers(self) -> list[int]:
        """The processes in which points are solved; only those of this cluster."""
        raylets = nodes_of(self.folder)
        return [pid for pid, command in commands() if command.startswith("ray::Worker") and parent(pid) in raylets]


@contextmanager
def ray_cluster(nodes: int = 2) -> Iterator[RayCluster]:
    """A head without cores and so many nodes of one core each, on the loopback interface, with a token of its own."""
    with tempfile.TemporaryDirectory(prefix="rc", ignore_cleanup_errors=True) as folder:
        gcs, client = free_port(), free_port()
        parts: list[subprocess.Popen[bytes]] = []
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        environment = {**os.environ, **token}

        def launched(*arguments: str) -> subprocess.Popen[bytes]:
            command, quiet = [*_RAY, _STORE, "--node-ip-address=127.0.0.1", *arguments], subprocess.DEVNULL
            return subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True, env=environment)

        try:
            own = (f"--port={gcs}", f"--ray-client-server-port={client}", f"--temp-dir={folder}", "--num-cpus=0")
            parts.append(launched("--head", *own, "--include-dashboard=false"))
            wait_for(gcs)
            wait_for(client)
            for count in range(nodes):  # one after the other: they would take the same ports
                wait_for_nodes(folder, 1 + count)
                parts.append(launched(f"--address=127.0.0.1:{gcs}", "--num-cpus=1"))
            wait_for_nodes(folder, 1 + nodes)
            yield RayCluster(f"ray://127.0.0.1:{client}", folder, parts[0], environment)
        finally:
            end(parts)


def end(parts: list[subprocess.Popen[bytes]]) -> None:
    """End every part, nodes first, and what they have started."""
    for part in reversed(parts):
        below = descendants(part.pid)
        part.terminate()
        try:
            part.wait(timeout=20)
        except subprocess.TimeoutExpired:
            part.kill()
            part.wait()
        for pid in below:
            kill(pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def commands() -> list[tuple[int, str]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except (OSError, UnicodeDecodeError):
                continue
    return found


def parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


def children(pid: int) -> list[int]:
    return [other for other, _ in commands() if parent(other) == pid]


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return [*below, *(deeper for child in below for deeper in descendants(child))]


def nodes_of(folder: str) -> set[int]:
    """The processes of the nodes of a cluster, the head's included."""
    return {pid for pid, command in commands() if "raylet/raylet --" in command and f"{folder}/" in command}


def wait_for_nodes(folder: str, count: int, seconds: float = 90.0) -> None:
    until = monotonic() + seconds
    while len(nodes_of(folder)) < count:
        if monotonic() > until:
            raise TimeoutError(f"the cluster has {len(nodes_of(folder))} nodes, not {count}")
        sleep(0.2)
    sleep(3.0)  # until its ports are taken


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, seconds: float = 90.0) -> None:
    until = monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if monotonic() > until:
                raise
            sleep(0.2)
