"""From the options of `opaq solve`, given now or recorded by an earlier run, to one call of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opaq.cli.shared_options import drop_unset, flag, without_effect
from opaq.errors import Fault, InputError
from opaq.solvers.options import OPTIONS, SolveOptions, default_of

if TYPE_CHECKING:
    from opaq.model.problem import Problem
    from opaq.solvers.loop import Progress
    from opaq.solvers.solve import Solution
    from opaq.stop import Stop

# The options of a solve that do not decide the answer, and are not recorded; an initial policy is recorded beside them.
_UNRECORDED = ("time_limit", "workers", "mass", "sequences")
RECORDED = (*(name for name in OPTIONS if name not in _UNRECORDED), "initial_policy")


def asked_options(options: Mapping[str, Any], initial_policy: Path | None) -> dict[str, Any]:
    """Return the options that decide the answer, as they are recorded: None where not given."""
    first = None if initial_policy is None else str(initial_policy.absolute())
    return {name: first if name == "initial_policy" else options[name] for name in RECORDED}


def solve_options(asked: Mapping[str, Any]) -> SolveOptions:
    """Return the same as the library's options. Raises InputError with every fault."""
    return SolveOptions.from_dict(drop_unset({name: value for name, value in asked.items() if name in OPTIONS}))


def defaults() -> dict[str, Any]:
    """Return what options stand for when they are not given, where that is one value."""
    return drop_unset({name: default_of(name) for name in RECORDED if name in OPTIONS})


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
    workers: int | None,
    time_limit: float | None,
    on_step: Callable[[Progress], None],
    stop: Stop,
) -> Solution:
    """Solve with the options of a command line."""
    from opaq.solvers.solve import solve

    return solve(
        problem,
        options=solve_options(asked),
        initial_policy=asked["initial_policy"],
        workers=workers,
        time_limit=time_limit,
        run_folder=folder,
        on_step=on_step,
        stop=stop,
    )
