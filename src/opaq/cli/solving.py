"""From the options of `opaq solve` to one call of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opaq.build.policy_class import build_policy_class
from opaq.cli.options import given
from opaq.model.arrays import SparseRows
from opaq.model.policy import Memory, PolicyClass
from opaq.model.problem import Problem
from opaq.solve.loop import Progress
from opaq.solve.primal_dual import PrimalDual
from opaq.solve.solve import Solution, solve

_STEP_SIZES = ("eta", "kappa", "exponent", "iterations")


def solve_as_told(
    problem: Problem,
    options: Mapping[str, Any],
    *,
    folder: Path | None,
    processes: int | None,
    on_step: Callable[[Progress], None],
) -> Solution:
    """Solve with the options of a command line."""
    policy_class = _policy_class(problem, options["conditions"], options["memory_nodes"])
    solver = PrimalDual(**_given(options, _STEP_SIZES)) if options["solver"] == "primal-dual" else None
    return solve(
        problem,
        policy_class=policy_class,
        solver=solver,
        num_starts=options["starts"],
        warm=_warm(options["warm"], problem),
        processes=processes,
        folder=folder,
        on_step=on_step,
        **_given(options, ("gradients", "samples", "start", "seed")),
    )


def _given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return given({name: options[name] for name in names})


def _policy_class(problem: Problem, conditions: str | None, memory_nodes: int | None) -> PolicyClass:
    stated = problem.policy_class
    if conditions is not None:
        stated = build_policy_class(conditions.split(","), problem.mdp, secret=problem.secret)
    if memory_nodes is None:
        return stated
    count, size = memory_nodes, problem.mdp.num_states
    nodes = tuple(str(node) for node in range(count))
    start = SparseRows.from_entries(range(size), [0] * size, [1.0] * size, shape=(size, count))
    stay = np.broadcast_to(np.arange(count)[:, None, None], (count, size, len(problem.mdp.actions)))
    memory = Memory(nodes, start, stay, SparseRows.from_dense(np.eye(count)), free=True)
    wanted = (*(name for name in stated.conditions_on if name != "memory"), "memory")
    return replace(stated, conditions_on=wanted, memory=memory)


def _warm(path: str | None, problem: Problem) -> Any:
    if path is None:
        return None
    from opaq.io.policy_file import load_policy

    return load_policy(path, problem)
