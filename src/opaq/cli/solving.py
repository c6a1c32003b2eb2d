"""From the options of `opaq solve`, given now or recorded by an earlier run, to one call of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opaq.cli.shared_options import drop_unset, flag, in_bytes, without_effect
from opaq.errors import Fault, InputError
from opaq.solvers.options import SolveOptions, default_of

if TYPE_CHECKING:
    from opaq.model.problem import Problem
    from opaq.solvers.loop import Progress
    from opaq.solvers.solve import Solution
    from opaq.stop import Stop

# The options that decide the answer, as they are recorded -> the field of SolveOptions (warm is a file, and no field).
FIELD_OF = {
    "conditions": "conditions",
    "memory_nodes": "memory_nodes",
    "solver": "solver",
    "gradients": "gradients",
    "samples": "samples",
    "starts": "num_starts",
    "start": "start",
    "warm": None,
    "iterations": "iterations",
    "eta": "eta",
    "kappa": "kappa",
    "exponent": "exponent",
    "seed": "seed",
    "nodes": "nodes",
    "memory": "memory",
}


def asked_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a command line that decide the answer, as they are recorded: None where not given."""
    asked = {name: parameters[name] for name in FIELD_OF}
    if asked["warm"] is not None:
        asked["warm"] = str(asked["warm"].absolute())
    if asked["memory"] is not None:
        asked["memory"] = in_bytes(asked["memory"])
    return asked


def solve_options(asked: Mapping[str, Any]) -> SolveOptions:
    """The same as the library's options. Raises InputError with every fault."""
    named = {name: asked.get(name) for name, field in FIELD_OF.items() if field is not None}
    return SolveOptions.from_dict({str(FIELD_OF[name]): value for name, value in drop_unset(named).items()})


def defaults() -> dict[str, Any]:
    """What options stand for when they are not given, where that is one value."""
    return drop_unset({name: default_of(field) for name, field in FIELD_OF.items() if field is not None})


def refuse_idle_options(asked: Mapping[str, Any]) -> None:
    """Options that the solver ignores or cannot use are refused, as they are written on the command line."""
    from opaq.solvers.registry import SOLVERS, factory_of

    chosen = factory_of(asked["solver"] or default_of("solver"))
    gradients = asked["gradients"] or default_of("gradients")
    faults: list[Fault] = []
    for other in SOLVERS.values():
        if other.name != chosen.name:
            belongs_to = dict.fromkeys(other.options, f"--solver {other.name}")
            faults += without_effect(asked, belongs_to=belongs_to, chosen=f"--solver {chosen.name}")
    if gradients == "sampled" and chosen.needs_exact:
        found = f"sampled gradients do not suit --solver {chosen.name}, which needs exact ones"
        able = " or ".join(each.name for each in SOLVERS.values() if not each.needs_exact)
        faults.append(Fault(flag("gradients"), found, f"use --solver {able}"))
    if gradients == "exact" or (gradients == "auto" and not chosen.samples_if_large):
        belongs_to = {"samples": "--gradients sampled"}
        faults += without_effect(asked, belongs_to=belongs_to, chosen="exact gradients")
    if faults:
        raise InputError(faults)


def solve_as_asked(
    problem: Problem,
    asked: Mapping[str, Any],
    *,
    folder: Path | None,
    processes: int | None,
    time: float | None,
    on_step: Callable[[Progress], None],
    stop: Stop,
) -> Solution:
    """Solve with the options of a command line."""
    from opaq.solvers.solve import solve

    return solve(
        problem,
        options=solve_options(asked),
        warm=asked["warm"],
        processes=processes,
        time=time,
        folder=folder,
        on_step=on_step,
        stop=stop,
    )
