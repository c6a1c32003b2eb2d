"""What doubling a model costs: a ring of cells with two lanes, where no belief ever covers more than two states.

Both sizes of a pair are timed in turns. Memory is taken in a fresh process each: `python scaling.py MODE CELLS HORIZON
SAMPLES` prints by how many bytes the peak grew.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from timing import fastest, peak_growth

from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.opacity import exact, sampled
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess

HOLDS = 0.9  # how surely an action has its way with the lane
SHOWS = 0.5  # how often a cell shows the lane
CHECKPOINT = 4  # every so many cells the lane is shown for certain, so the number of beliefs a cell is bounded
ROUNDS = 5

Mode = Literal["compile", "exact", "sampled"]


@dataclass(frozen=True, slots=True)
class Size:
    """One measurement: what is run, and on how large a ring."""

    mode: Mode
    cells: int
    horizon: int
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Doubling:
    """What was doubled, and the factors by which time and peak memory grew."""

    what: str
    seconds: float  # of the smaller size
    time_ratio: float
    megabytes: float  # of the smaller size
    memory_ratio: float


EXACT = Size("exact", cells=2000, horizon=24)
SAMPLED = Size("sampled", cells=2000, horizon=24, samples=20_000)
PAIRS = (
    ("compile, states", replace(EXACT, mode="compile"), replace(EXACT, mode="compile", cells=4000)),
    ("exact, states", EXACT, replace(EXACT, cells=4000)),
    ("exact, horizon", EXACT, replace(EXACT, horizon=48)),
    ("sampled, states", SAMPLED, replace(SAMPLED, cells=4000)),
    ("sampled, horizon", SAMPLED, replace(SAMPLED, horizon=48)),
    ("sampled, samples", SAMPLED, replace(SAMPLED, samples=40_000)),
)


def doublings() -> list[Doubling]:
    """What every pair of sizes shows."""
    return [_doubling(what, small, large) for what, small, large in PAIRS]


def ring(*, cells: int, horizon: int) -> Problem:
    """The run advances one cell a step and may change lanes; each cell has a beacon that may show the lane."""
    return Problem(_ring_mdp(cells), _beacons(cells), _lane_secret(cells), horizon)


def _doubling(what: str, small: Size, large: Size) -> Doubling:
    times = fastest({"small": _call(small), "large": _call(large)}, rounds=ROUNDS)
    memory = _peak_in_process(small)
    return Doubling(
        what, times["small"], times["large"] / times["small"], memory / 1e6, _peak_in_process(large) / memory
    )


def _peak_in_process(size: Size) -> int:
    arguments = [size.mode, str(size.cells), str(size.horizon), str(size.samples)]
    done = subprocess.run([sys.executable, str(Path(__file__)), *arguments], check=True, stdout=subprocess.PIPE)
    return int(done.stdout)


def _peak(size: Size) -> int:
    """Bytes of the first call; a tiny ring goes first, so that loading and compiling kernels is not counted."""
    _call(replace(size, cells=8, horizon=2, samples=10))()
    return peak_growth(_call(size))


def _call(size: Size) -> Callable[[], object]:
    problem = ring(cells=size.cells, horizon=size.horizon)
    if size.mode == "compile":
        return lambda: compile_problem(problem)
    process = compile_problem(problem).process
    theta = np.random.default_rng(0).standard_normal(process.num_slots)
    return _gradient(process, theta, size)


def _gradient(process: HiddenProcess, theta: np.ndarray, size: Size) -> Callable[[], object]:
    if size.mode == "exact":
        return lambda: exact.gradient(process, theta)
    return lambda: sampled.gradient(process, theta, samples=size.samples, rng=np.random.default_rng(1))


def _ring_mdp(cells: int) -> MDP:
    """State 2 * cell + lane; the choices of a state are (keep, change)."""
    states = 2 * cells
    state = np.repeat(np.arange(states), 4)  # each choice has two outcomes
    keeps = np.tile([1, 1, 0, 0], states)
    succeeds = np.tile([1, 0, 1, 0], states)
    lane = (state + (keeps != succeeds)) % 2
    target = 2 * ((state // 2 + 1) % cells) + lane
    transitions = SparseRows.from_entries(
        np.repeat(np.arange(2 * states), 2), target, np.where(succeeds, HOLDS, 1 - HOLDS), shape=(2 * states, states)
    )
    return MDP(
        states=tuple(f"{cell}.{side}" for cell in range(cells) for side in "lr"),
        actions=("keep", "change"),
        start=floats(np.full(states, 1 / states)),
        choice_start=ints(np.arange(states + 1) * 2),
        choice_action=ints(np.tile([0, 1], states)),
        transitions=transitions,
        rewards=floats(np.zeros(2 * states)),
        labels={},
    )


def _beacons(cells: int) -> Observer:
    """Cell i shows its left lane, its right lane, or only that the run is in cell i."""
    state = np.arange(2 * cells)
    cell, lane = state // 2, state % 2
    shown = np.where(cell % CHECKPOINT == 0, 1.0, SHOWS)
    emission = SparseRows.from_entries(
        np.concatenate([state, state]),
        np.concatenate([3 * cell + lane, 3 * cell + 2]),
        np.concatenate([shown, 1 - shown]),
        shape=(2 * cells, 3 * cells),
    )
    return Observer(tuple(f"{cell}.{sign}" for cell in range(cells) for sign in "lr?"), emission)


def _lane_secret(cells: int) -> LastState:
    return LastState(StateClasses(("left", "right"), ints(np.tile([0, 1], cells))))


def _main(mode: Mode, cells: str, horizon: str, samples: str) -> None:
    print(_peak(Size(mode, int(cells), int(horizon), int(samples))))


if __name__ == "__main__":
    _main(*sys.argv[1:])  # type: ignore[arg-type]
