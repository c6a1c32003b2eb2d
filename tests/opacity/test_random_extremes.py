"""A part of `python -m tests.stress measure`: random models with extreme probabilities agree with brute force."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stress.extremes import COMBINATIONS, Case
from stress.measuring import try_model
from trials import long, part_of

TESTS = Path(__file__).parents[1]
CHECKED = """
import numpy as np
from stress.measuring import try_model
np.seterr(over="ignore")  # of hashes, which overflow on purpose
outcomes = [try_model(number, derivatives=number % 10 == 0, second_order=number % 10 == 0) for number in range(40)]
print(*(line for outcome in outcomes for line in outcome.failures), sep="\\n", end="")
"""


@pytest.mark.parametrize("first", part_of(range(0, 150, 25), 2))
def test_measurements_agree_with_enumeration(first: int) -> None:
    outcomes = [try_model(number, derivatives=number % 25 == 0) for number in range(first, first + 25)]
    assert [line for outcome in outcomes for line in outcome.failures] == []


def test_every_combination_has_its_turn() -> None:
    cases = {(case.secret, case.conditions, case.observer) for case in map(Case.of, range(len(COMBINATIONS)))}
    assert cases == set(COMBINATIONS)


@long
def test_no_kernel_leaves_its_arrays() -> None:
    # Kernels that are not compiled: NumPy checks every index, and compiling them with checks takes a minute.
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
