"""Compiling before the work, alone or with a second process; here all machine code is kept already."""

from __future__ import annotations

import gc
import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from numba import int64
from numba.core import event

from opaq.kernel_cache import helper
from opaq.opacity import kernel_warmup
from opaq.opacity.kernel_warmup import assist, compile_kernels


@contextmanager
def announce_at_once(announce: Callable[[], None]) -> Iterator[None]:
    """Announce what a new installation would compile."""
    announce()
    yield


def test_nothing_is_announced_and_no_process_started_where_all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernels(derivatives=True)
    heard: list[str] = []
    monkeypatch.setattr(kernel_warmup, "_start_assistant", lambda: pytest.fail("a process was started"))
    compile_kernels(derivatives=True, processes=2, announce=lambda: heard.append("compiling"))
    assert heard == []


def test_an_assistant_is_told_to_go_on_and_has_ended_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    sent: list[bytes] = []

    class Recorder(io.BytesIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            sent.append(data)
            return len(data)

    def start() -> subprocess.Popen[bytes]:
        started.append(original())
        assert started[0].stdin is not None
        started[0].stdin.close()
        started[0].stdin = Recorder()
        return started[0]

    original = kernel_warmup._start_assistant
    monkeypatch.setattr(kernel_warmup, "_start_assistant", start)
    monkeypatch.setattr(kernel_warmup, "announce_compiling", announce_at_once)
    compile_kernels(derivatives=True, processes=2)
    assert sent == [b"."]
    assert [process.returncode for process in started] != [None]
    compile_kernels(derivatives=False, processes=2)
    compile_kernels(derivatives=True, processes=1)
    assert len(started) == 1  # a measurement, and one core: no assistant


def test_where_no_process_can_be_started_this_one_compiles_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> subprocess.Popen[bytes]:
        raise OSError

    monkeypatch.setattr(kernel_warmup, "_start_assistant", refuse)
    monkeypatch.setattr(kernel_warmup, "announce_compiling", announce_at_once)
    compile_kernels(derivatives=True, processes=2)


@pytest.mark.parametrize(("told", "names"), [("", []), (".", ["hessian", "gradient", "evaluator"])])
def test_an_assistant_waits_for_the_kernel_that_makes_graphs(
    told: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    steps = [lambda name=name: called.append(name) for name in ("evaluator", "gradient", "hessian")]
    monkeypatch.setattr(kernel_warmup, "_graph_steps", lambda _: steps)
    monkeypatch.setattr("sys.stdin", io.StringIO(told))
    assist()
    assert called == names


def test_the_collector_rests_while_numba_compiles() -> None:
    during: list[bool] = []

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, _: object) -> None:
            during.append(gc.isenabled())

        def on_end(self, _: object) -> None:
            """Do nothing."""

    def successor(number):  # type: ignore[no-untyped-def]
        return number + 1

    assert gc.isenabled()
    with event.install_listener("numba:compile", Listener()):
        assert helper(successor).compile((int64,)) is not None
    assert during == [False]
    assert gc.isenabled()
