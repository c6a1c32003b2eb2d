"""Plain value computation: expected and maximal returns, against Storm."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

import opaq
from benchmarks.optional import load
from benchmarks.ring import ring
from benchmarks.rows import Comparison, Section, Settings, closeness, comparison_table
from benchmarks.timing import in_turns
from opaq.beliefs.dynamic_program import largest_return
from opaq.beliefs.returns import expected_return, infinite_return
from opaq.formats.umb.reader import read_umb, write_umb
from opaq.model.problem import Problem
from opaq.product.compile import compile_problem

TITLE = "Plain value computation"
EXPLANATION = """
Returns without any observer: of the uniform policy and the largest of any policy, over the horizon, and the
discounted return of an endless run. The peer is *Storm* 2 through stormpy, a probabilistic model checker in C++, with
sound methods (`force_soundness`, precision 1e-8). Both work on one model, handed over as a UMB file; reading it is a
row of its own (opaq also reads the names of the states, which Storm passes over), and the other rows start from a model
that is in memory (for opaq, the compiled product).
"""
TOLERANCE = 1e-7
DISCOUNT = 0.95


@dataclass(frozen=True, slots=True)
class Question:
    """One number, asked of both."""

    name: str
    ours: Callable[[], float]
    storm: Callable[[], float]


def run(settings: Settings) -> Section:
    """Check that the values agree, then time them in turns."""
    storm = load("storm")
    if isinstance(storm, str):
        return Section(TITLE, EXPLANATION, (), skipped=(f"Storm: {storm}",))
    rows = []
    for name, problem in models(quick=settings.quick).items():
        with tempfile.TemporaryDirectory() as folder:
            for question in questions(problem, storm, Path(folder)):
                apart = difference(question)
                times = in_turns({"opaq": question.ours, "Storm": question.storm}, repeats=settings.repeats)
                what = f"{name}: {question.name}"
                rows.append(Comparison(what, "opaq", "Storm", times["opaq"], times["Storm"], closeness(apart)))
    return Section(TITLE, EXPLANATION, (comparison_table(rows, settings),), tuple(rows))


def models(*, quick: bool) -> dict[str, Problem]:
    """The paper's grid and a large sparse one."""
    cells = 500 if quick else 10_000
    return {
        "grid, 34 states": opaq.load_problem("grid-last-state-4"),
        f"ring, {2 * cells:,} states": ring(cells=cells, horizon=50),
    }


def questions(problem: Problem, storm: ModuleType, folder: Path) -> list[Question]:
    """Every value of one model; its files are written to the folder."""
    mdp, steps = problem.mdp, problem.horizon + 1  # rewards of the times 0 .. horizon
    model, chain = folder / "model.umb", folder / "chain.umb"
    counts = np.diff(mdp.choice_start)
    write_umb(model, mdp)
    write_umb(chain, mdp, policy=np.repeat(1.0 / counts, counts))
    process = compile_problem(problem, opaq.PolicyClass(("state",))).process
    endless_task = replace(problem.task, over="forever", return_at_least=None)
    endless_problem = replace(problem, discount=DISCOUNT, task=endless_task)
    endless = compile_problem(endless_problem, opaq.PolicyClass(("state",))).process
    built, built_chain = storm.read(model), storm.read(chain)

    def asked(of: object, formula: str) -> Callable[[], float]:
        values = storm.values(of, formula)
        return lambda: float(values() @ mdp.start)

    return [
        Question(
            "return of a policy, finite",
            lambda: expected_return(process, process.uniform()),
            asked(built_chain, storm.within(steps, best=False)),
        ),
        Question(
            "largest return, finite", lambda: largest_return(process), asked(built, storm.within(steps, best=True))
        ),
        Question(
            f"return of a policy, endless, discount {DISCOUNT}",
            lambda: infinite_return(endless, endless.uniform()),
            asked(built_chain, storm.discounted(DISCOUNT, best=False)),
        ),
        Question(
            "states of the model, read from UMB",
            lambda: float(read_umb(model).mdp.num_states),
            lambda: float(storm.read(model).nr_states),
        ),
    ]


def difference(question: Question) -> float:
    """How far the two answers are apart. Raises if they are not the same number."""
    ours, peer = question.ours(), question.storm()
    apart = abs(ours - peer) / max(1.0, abs(peer))
    if not apart <= TOLERANCE:
        raise AssertionError(f"{question.name}: {ours!r}, but Storm says {peer!r}")
    return apart
