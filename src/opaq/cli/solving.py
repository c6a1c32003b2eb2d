"""From the options of `opaq solve` to one call of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

from opaq.cli.options import given
from opaq.model.conditions import MemoryNode
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.solvers.loop import Progress
from opaq.solvers.policy_classes import named_class
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.solution import DEFAULT_SOLVER, SOLVE_BUDGET, Solution, solve
from opaq.spec.memory_part import free_memory
from opaq.stop import Stop

_STEP_SIZES = ("eta", "kappa", "exponent", "iterations")


def default_options() -> dict[str, Any]:
    """What the options of a command line stand for when they are not given, where that is one value."""
    of_solve = {name: parameter.default for name, parameter in signature(solve).parameters.items()}
    defaults = {name: of_solve[name] for name in ("gradients", "start", "seed")} | {"solver": DEFAULT_SOLVER}
    defaults |= {field.name: field.default for field in fields(PrimalDual) if field.name in _STEP_SIZES}
    return defaults | {"nodes": SOLVE_BUDGET.nodes, "memory": SOLVE_BUDGET.memory}


def solve_as_told(
    problem: Problem,
    options: Mapping[str, Any],
    *,
    folder: Path | None,
    processes: int | None,
    time: float | None,
    on_step: Callable[[Progress], None],
    stop: Stop,
) -> Solution:
    """Solve with the options of a command line."""
    policy_class = _policy_class(problem, options["conditions"], options["memory_nodes"])
    chosen = _given(options, ("gradients", "samples", "start", "seed", "solver"))
    if options["solver"] == PrimalDual.name:
        chosen["solver"] = PrimalDual(**_given(options, _STEP_SIZES))
    return solve(
        problem,
        policy_class=policy_class,
        num_starts=options["starts"],
        warm=_warm(options["warm"], problem),
        processes=processes,
        budget=replace(SOLVE_BUDGET, **_given(options, ("nodes", "memory"))),
        time=time,
        folder=folder,
        on_step=on_step,
        stop=stop,
        **chosen,
    )


def _given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return given({name: options[name] for name in names})


def _policy_class(problem: Problem, conditions: str | None, memory_nodes: int | None) -> PolicyClass:
    stated = problem.policy_class
    if conditions is not None:
        stated = named_class(conditions, problem)
    if memory_nodes is None:
        return stated
    others = (one for one in stated.conditions if not isinstance(one, MemoryNode))
    return PolicyClass((*others, MemoryNode(free_memory(problem.mdp, memory_nodes))))


def _warm(path: str | None, problem: Problem) -> Any:
    if path is None:
        return None
    from opaq.loading.policy_files import load_policy

    return load_policy(path, problem)
