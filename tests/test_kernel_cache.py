"""Compiled kernels where nothing can be written: a copy of the package whose cache folders cannot be made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import opaq
from trials import long

KERNEL = """
import numpy as np
from opaq.beliefs.returns import _forward_kernel as kernel
edges = np.array([0, 1, 2], np.uint32), np.zeros(2, np.uint32), np.ones(2)  # one state, which is never left
moved = np.zeros(3, np.int64), np.empty(0, np.int64), np.empty(0)
paid = np.array([0, 1]), np.zeros(1, np.int64), np.ones(1)  # 1 at every time
memory = np.empty(2), np.empty(1)
total = kernel(*edges, *moved, *paid, np.ones(1), *memory, 1.0, 2, np.zeros(1), np.zeros(1), np.zeros(1, np.uint8))
print(total, kernel.stats.cache_path)
"""


RENAMED = """
import os
from typing import NamedTuple
import numba
import numpy as np
from opaq.kernel_cache import kernel

if "COUNTS_REFERENCES" in os.environ:
    kernel = numba.njit(cache=True)

class NAME(NamedTuple):
    numbers: np.ndarray

@kernel
def add(pair):
    return pair.numbers.sum()

def run():
    return add(NAME(np.arange(3)))
"""


def run_kernel(tmp_path: Path) -> tuple[str, str]:
    """Standard output and error of a process that compiles one kernel and can keep it in no folder of numba's."""
    package = tmp_path / "package"
    shutil.copytree(Path(opaq.__file__).parent, package / "opaq", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package / "opaq").glob("*/"):
        (folder / "__pycache__").touch()  # a plain file: not even root can put a folder in its place
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/proc/nowhere")
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(package), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", KERNEL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip(), done.stderr


def test_a_temporary_folder_stands_in(tmp_path: Path) -> None:
    answer, said = run_kernel(tmp_path)
    folder = tmp_path / f"opaq-kernels-{os.geteuid()}"
    assert answer.startswith(f"3.0 {folder}{os.sep}")
    assert list(folder.glob("*/returns._forward_kernel*.nbc"))
    assert folder.stat().st_mode & 0o077 == 0
    assert said.count("\n") == 1
    assert f"they are kept in {folder} while that exists; compiling takes half a minute" in said


def test_nothing_is_kept_where_others_could_write(tmp_path: Path) -> None:
    folder = tmp_path / f"opaq-kernels-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    answer, said = run_kernel(tmp_path)
    assert answer == "3.0 None"
    assert not list(folder.iterdir())
    assert said.startswith(
        "opaq: neither opaq's own folder nor the user's cache can be written to keep compiled kernels"
    )
    assert said.count("\n") == 1
    assert "every process compiles them" in said


@long
def test_machine_code_kept_for_renamed_types_or_by_plain_numba_is_compiled_again(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    kernel = package / "kernel.py"
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{Path(opaq.__file__).parents[1]}"}
    for name, older in (("Before", {"COUNTS_REFERENCES": "1"}), ("Before", {}), ("After", {})):
        text = RENAMED.replace("NAME", name)
        if not kernel.exists() or kernel.read_text() != text:  # code is kept as long as the file's time is the same
            kernel.write_text(text)
        command = [sys.executable, "-c", "import kernel; print(kernel.run())"]
        done = subprocess.run(command, env={**environment, **older}, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
