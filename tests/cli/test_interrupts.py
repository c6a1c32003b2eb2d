"""A part of benchmarks/trust_kill.py: kill -9, Ctrl-C and SIGTERM at random instants."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pytest

from stress.interrupts import (
    Patience,
    Undisturbed,
    interrupt_measure,
    interrupt_solve,
    kill_and_resume,
    slow_measurement,
    undisturbed,
)

# The promise is 1 s and 5 s (the script holds opaq to it); a machine that runs other tests beside this one is slower.
PATIENCE = Patience(told=3.0, ended=15.0)


@pytest.fixture(scope="module")
def solving() -> Undisturbed:
    return undisturbed(("solve", "two-sink", "--starts", "3", "--json"))


@pytest.fixture(scope="module")
def measuring(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(slow_measurement(tmp_path_factory.mktemp("measure"), horizon=15))


@pytest.mark.parametrize("trial", range(3))
def test_a_killed_run_goes_on_to_the_same_bits(solving: Undisturbed, tmp_path: Path, trial: int) -> None:
    found = kill_and_resume(solving, tmp_path / "run", Random(trial), processes=1 + trial % 2)
    assert found.complaints == ()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("trial", range(3))
def test_an_interrupted_solve_ends_well_and_goes_on(
    solving: Undisturbed, tmp_path: Path, number: signal.Signals, trial: int
) -> None:
    found = interrupt_solve(
        solving, tmp_path / "run", Random(trial), number, processes=1 + trial % 2, patience=PATIENCE
    )
    assert found.complaints == ()


@pytest.mark.parametrize("trial", range(3))
def test_an_interrupted_measurement_ends_well(measuring: Undisturbed, trial: int) -> None:
    assert interrupt_measure(measuring, Random(trial), signal.SIGINT, patience=PATIENCE).complaints == ()
