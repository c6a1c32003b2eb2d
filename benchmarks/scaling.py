"""Scaling: how time and memory grow with one size at a time, and with the processes of a solve."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from json import dumps, loads
from pathlib import Path
from typing import Literal

import numpy as np

import opaq
from benchmarks.ring import ring
from benchmarks.rows import (
    Comparison,
    Curve,
    Section,
    Settings,
    Spread,
    Table,
    comparison_table,
    duration,
    judgement,
    number,
)
from benchmarks.timing import in_turns, peak_growth
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.opacity import exact, sampled
from opaq.product.compile import compile_problem

TITLE = "Scaling"
EXPLANATION = """
Value and gradient of opacity on a ring of cells with lanes, whose beliefs stay small, so that one size grows at a
time: states (more cells), observations (the same signs in more shades that mean nothing), horizon, sampled runs, and
secret values (more lanes, fewer cells: the states stay the same). The exponent is the slope of a straight line
through the points in log-log scale, fitted in every repeat; 1 is proportional growth. The goal for everything but
secret values is at most 1.2 (doubling costs at most 2.3 times as much). All sizes of a curve take turns.

*measure* is the value alone, which keeps two levels of the graph at a time; *frozen* is one sweep, value and gradient,
over a graph that was built before, and *build* is the building: their size is counted in beliefs. The last rows go as
far as a laptop does: a million states, horizon 10,000, a million beliefs, some thousand signs of different meaning.
"""
GOAL = 1.2
Mode = Literal["compile", "exact", "sampled", "measure", "build", "frozen"]


@dataclass(frozen=True, slots=True)
class Size:
    """One measurement: what is run, and on how large a ring."""

    mode: Mode = "exact"
    cells: int = 1000
    horizon: int = 24
    lanes: int = 2
    shades: int = 1
    samples: int = 5_000

    def growing(self, what: str, sizes: Sequence[int]) -> list[Size]:
        """The same with another number of something; more lanes come with fewer cells."""
        if what in ("beliefs", "signs"):  # both come with cells
            return [replace(self, cells=cells) for cells in sizes]
        if what == "lanes":
            return [replace(self, lanes=lanes, cells=self.cells * self.lanes // lanes) for lanes in sizes]
        return [replace(self, **{what: size}) for size in sizes]


FACTORS = (1, 2, 4, 8)
BELIEFS_A_CELL = 66  # of a ring with two lanes and horizon 24
SHOWN = {  # what grows -> its name, and how many of it there are on one ring
    "cells": ("states", lambda size: size.cells * size.lanes),
    "shades": ("observations", lambda size: size.cells * (size.lanes + 1) * size.shades),
    "horizon": ("horizon", lambda size: size.horizon),
    "samples": ("samples", lambda size: size.samples),
    "lanes": ("secret values", lambda size: size.lanes),
    "beliefs": ("beliefs", lambda size: BELIEFS_A_CELL * size.cells + 1),
    "signs": ("different observations", lambda size: size.cells * (size.lanes + 1)),
}
CURVES: tuple[tuple[str, Mode, int], ...] = (  # what grows, the mode, the smallest of it
    ("cells", "compile", 200),
    ("cells", "exact", 200),
    ("shades", "exact", 1),
    ("horizon", "exact", 12),
    ("lanes", "exact", 2),
    ("cells", "sampled", 200),
    ("shades", "sampled", 1),
    ("horizon", "sampled", 12),
    ("samples", "sampled", 2_500),
    ("lanes", "sampled", 2),
    ("cells", "sampled", 62_500),
    ("horizon", "measure", 1_250),
    ("signs", "exact", 125),
    ("beliefs", "build", 1_900),
    ("beliefs", "frozen", 1_900),
)


def run(settings: Settings) -> Section:
    """All curves, the memory of their ends, and the speed-up of a second process."""
    shrunk = 10 if settings.quick else 1
    curves = tuple(curve(*each, repeats=settings.repeats, shrunk=shrunk) for each in CURVES)
    memory = () if settings.quick else tuple(peaks(*each) for each in CURVES if each[0] != "lanes")
    rows = (processes(settings),)
    tables = (
        curve_table(curves, settings),
        *((memory_table(memory),) if memory else ()),
        comparison_table(rows, settings),
    )
    return Section(TITLE, EXPLANATION, tables, rows, curves)


def sizes_of(what: str, mode: Mode, least: int, *, shrunk: int = 1) -> list[Size]:
    """The points of one curve."""
    cells = 100 if what == "shades" else 400  # a curve that may grow faster than its size begins lower
    if mode == "measure":
        cells = 10 * shrunk  # a long horizon is followed on a small model
    base = Size(mode, cells=cells // shrunk, samples=5_000 // shrunk)
    least = max(least // shrunk, 8) if what in ("cells", "samples", "beliefs", "signs") else least
    return base.growing(what, [factor * least for factor in FACTORS])


def curve(what: str, mode: Mode, least: int, *, repeats: int, shrunk: int = 1) -> Curve:
    """Seconds of every size, all sizes taking turns."""
    name, count = SHOWN[what]
    sizes = sizes_of(what, mode, least, shrunk=shrunk)
    times = in_turns({str(count(size)): call(size) for size in sizes}, repeats=repeats, calls_a_turn=1)
    return Curve(name, mode, tuple(count(size) for size in sizes), tuple(times[str(count(size))] for size in sizes))


def call(size: Size) -> Callable[[], object]:
    """What is timed."""
    problem = ring(cells=size.cells, horizon=size.horizon, lanes=size.lanes, shades=size.shades)
    if size.mode == "compile":
        return lambda: compile_problem(problem)
    process = compile_problem(problem).process
    theta = np.random.default_rng(0).standard_normal(process.num_slots)
    pi = process.softmax(theta)
    if size.mode == "measure":
        return lambda: exact.evaluate(process, pi)
    if size.mode in ("build", "frozen"):
        graph = FrozenGraph.of(process, pi, budget=Budget())
        buffers = graph.buffers()
        if size.mode == "frozen":
            return lambda: graph.sweep(pi, buffers)
        return lambda: FrozenGraph.of(process, pi, budget=Budget())
    if size.mode == "exact":
        return lambda: exact.gradient(process, theta)
    return lambda: sampled.gradient(process, theta, samples=size.samples, rng=np.random.default_rng(1))


def exponents(curve: Curve) -> list[float]:
    """The slope in log-log scale, for every repeat."""
    logs = np.log(np.array(curve.sizes))
    return [float(np.polyfit(logs, np.log(times), 1)[0]) for times in np.array(curve.seconds).T]


def curve_table(curves: Sequence[Curve], settings: Settings) -> Table:
    """Exponents with their spread, and the points."""
    rows = []
    for each in curves:
        slope = Spread.of(exponents(each))
        verdict = judgement(slope.median <= GOAL, settings)
        first = np.array(each.seconds[0])
        growth = np.median(np.array(each.seconds) / first, axis=1)
        factors = (f"{size:,}: {number(factor)}" for size, factor in zip(each.sizes, growth, strict=True))
        text = f"{slope.median:.2f} ({slope.least:.2f} to {slope.most:.2f})"
        rows.append((each.what, each.mode, text, verdict, ", ".join(factors), duration(float(np.median(first)))))
    points = ("size: time / time of the first", "context: the first")
    return Table(("grows", "what is run", "exponent, median (range)", f"at most {GOAL}", *points), tuple(rows))


def peaks(what: str, mode: Mode, least: int) -> tuple[str, str, float, float, int]:
    """Peak memory of the smallest and the largest size, each in a process of its own."""
    sizes = sizes_of(what, mode, least)
    name, count = SHOWN[what]
    small, large = (_peak_in_process(each) for each in (sizes[0], sizes[-1]))
    return name, mode, small / 1e6, large / 1e6, count(sizes[-1]) // count(sizes[0])


def memory_table(rows: Sequence[tuple[str, str, float, float, int]]) -> Table:
    """By how much the peak grows from the smallest to the largest size."""
    cells = []
    for what, mode, small, large, factor in rows:
        growth = f"{number(large / small)} x" if small > 0.0 else "took none" if large == 0.0 else "from none"
        cells.append((what, mode, f"{factor} x", growth, f"{number(small)} MB, {number(large)} MB"))
    header = ("grows", "what is run", "size", "peak memory", "context: on top of the process before")
    return Table(
        header, tuple(cells), "Peak memory of one call, smallest and largest size, each in a fresh process (one run)."
    )


def _peak_in_process(size: Size) -> int:
    command = [sys.executable, "-m", "benchmarks.scaling", dumps(asdict(size))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    return int(done.stdout)


def processes(settings: Settings) -> Comparison:
    """A solve of four starts, one at a time against two at a time: the same answer to the last bit.

    Of a problem whose starts take seconds: those of a tenth of a second are over before a second thread gains.
    """
    problem = opaq.load_problem("grid-initial-state-4")
    problem = replace(problem, horizon=5 if settings.quick else problem.horizon)
    answers: dict[str, opaq.Solution] = {}

    def solve(count: int) -> Callable[[], object]:
        def call() -> None:
            answers[str(count)] = opaq.solve(problem, conditions="state,time", starts=4, workers=count, sequences=0)

        return call

    times = in_turns({"2": solve(2), "1": solve(1)}, repeats=min(settings.repeats, 3), calls_a_turn=1)
    if answers["1"].measurement.opacity.value != answers["2"].measurement.opacity.value:
        raise AssertionError("the number of processes changes the answer")
    name = f"`opaq.solve`, 4 starts, grid-initial-state-4 (state, time), horizon {problem.horizon}"
    return Comparison(name, "2 at a time", "1 at a time", times["2"], times["1"], "bit for bit", 1.5)


if __name__ == "__main__":
    wanted = Size(**loads(sys.argv[1]))
    call(replace(wanted, cells=8, horizon=2, samples=10))()  # loading and compiling kernels is not counted
    print(peak_growth(call(wanted)))
