"""Options that several commands share, declared once; and whether given ones have an effect beside the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from opaq.errors import Fault
from opaq.solvers.options import LIMITS, GradientChoice, StartChoice, default_of

_LARGEST_SHOWN = 10_000  # larger limits are left to the library: in the help they would be noise
_LEAST = 0.001  # seconds, or GiB


def of_solve(name: str, text: str) -> Any:
    """An option of a solve: limits and default are those of the field of SolveOptions."""
    least, most = LIMITS.get(name, (None, None))
    shown = most if most is not None and most <= _LARGEST_SHOWN else None
    default = default_of(name)
    words = "" if default is None else f" (default: {default})"
    return typer.Option(min=least, max=shown, help=f"{text}{words}.")


# Of every command that computes.
ProblemName = Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")]
PolicyFile = Annotated[Path | None, typer.Option(help="A policy file; uniform without it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, and no next command.")]
Nodes = Annotated[int | None, typer.Option(min=1, help="The most beliefs to keep at a time.")]
Memory = Annotated[float | None, typer.Option(min=_LEAST, help="The most memory for beliefs, in GiB.")]

# Of a solve: None stands for "not given", the defaults are the library's.
Conditions = Annotated[
    str | None,
    typer.Option(help="What the policy looks at, such as state,time (default: as the problem says)."),
]
MemoryNodes = Annotated[int | None, of_solve("memory_nodes", "Give the policy a memory of so many nodes, free to use")]
SolverName = Annotated[
    str | None, of_solve("solver", "The method: natural gradient, lagrangian, or primal-dual, the paper's")
]
GradientKind = Annotated[
    GradientChoice | None, of_solve("gradients", "Exact, sampled as in the paper, or auto: exact where the graph fits")
]
Samples = Annotated[int | None, of_solve("samples", "Runs of a sampled gradient")]
Starts = Annotated[int | None, of_solve("num_starts", "How many starts (default: by need)")]
StartKind = Annotated[StartChoice | None, of_solve("start", "Where the starts begin")]
Iterations = Annotated[int | None, of_solve("iterations", "Iterations of primal-dual")]
Eta = Annotated[float | None, of_solve("eta", "Policy step size of primal-dual")]
Kappa = Annotated[float | None, of_solve("kappa", "Multiplier step size of primal-dual")]
Exponent = Annotated[
    float | None, of_solve("exponent", "Steps of primal-dual fall as k^-exponent and 1/k; 0 keeps them")
]
Seed = Annotated[int | None, of_solve("seed", "The same seed gives the same answer")]
Processes = Annotated[int | None, of_solve("processes", "At most so many starts side by side (default: one per core)")]


def time_limit(text: str) -> Any:
    """An option for a time limit, whose end a command describes."""
    return typer.Option(min=_LEAST, help=text)


def drop_unset(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to the library, where their defaults are."""
    return {name: value for name, value in options.items() if value is not None}


def without_effect(
    options: Mapping[str, Any], *, belongs_to: Mapping[str, str], chosen: str, used: Collection[str] = ()
) -> list[Fault]:
    """A fault for every option that was given but has no effect beside what was chosen.

    belongs_to: option -> what it is for; chosen: the choice that makes options idle; used: those that it does use.
    """
    return [
        Fault(flag(name), f"has no effect with {chosen}", f"it belongs to {purpose}")
        for name, purpose in belongs_to.items()
        if options.get(name) is not None and name not in used
    ]


def flag(name: str) -> str:
    """An option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


def in_bytes(gibibytes: float) -> int:
    """An amount of memory; more than any machine has is as good as no limit."""
    return round(min(gibibytes, 2.0**20) * 2**30)
