"""`opaq solve`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.options import in_bytes, without_effect
from opaq.cli.shell import about, expect_answer, note, warn
from opaq.errors import Fault, Faults, InputError

if TYPE_CHECKING:
    from opaq.model.policy import PolicyClass


class SolverName(StrEnum):
    """How the policy is searched for."""

    NATURAL = "natural"
    LAGRANGIAN = "lagrangian"
    PRIMAL_DUAL = "primal-dual"


class GradientKind(StrEnum):
    """Where gradients come from."""

    AUTO = "auto"
    EXACT = "exact"
    SAMPLED = "sampled"


class StartKind(StrEnum):
    """Where the search begins."""

    MIXED = "mixed"
    RANDOM = "random"
    UNIFORM = "uniform"
    RETURN_OPTIMAL = "return-optimal"


_OF_PRIMAL_DUAL = dict.fromkeys(("iterations", "eta", "kappa", "exponent"), "--solver primal-dual")
_NO_HINT_AFTER = (1, 130)  # infeasible, interrupted
_OF_SAMPLED_GRADIENTS = {"samples": "--gradients sampled"}


def command(
    problem: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")
    ] = None,
    policy_out: Annotated[Path | None, typer.Option(help="Write the policy found to this file.")] = None,
    conditions: Annotated[
        str | None,
        typer.Option(
            help="What the policy looks at, e.g. state,time or state,observations:2 (default: as the problem says)."
        ),
    ] = None,
    memory_nodes: Annotated[
        int | None, typer.Option(min=1, max=64, help="Give the policy a memory of this many nodes, free to use.")
    ] = None,
    solver: Annotated[
        SolverName | None,
        typer.Option(help="The method: natural gradient (the default), lagrangian, or primal-dual, the paper's."),
    ] = None,
    gradients: Annotated[
        GradientKind | None,
        typer.Option(help="Exact, sampled as in the paper, or auto (the default): exact where the graph fits."),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Runs of a sampled gradient.")] = None,
    starts: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many starts (default: by need, 4 to 16).")
    ] = None,
    start: Annotated[StartKind | None, typer.Option(help="Where the starts begin (default: mixed).")] = None,
    warm: Annotated[Path | None, typer.Option(help="A policy file to begin from.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations of primal-dual (default: 5000).")] = None,
    eta: Annotated[float | None, typer.Option(min=0, help="Policy step size of primal-dual (default: 0.8).")] = None,
    kappa: Annotated[
        float | None, typer.Option(min=0, help="Multiplier step size of primal-dual (default: 0.05).")
    ] = None,
    exponent: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Steps of primal-dual fall as k^-exponent and 1/k; 0 (the default) keeps them."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same answer (default: 0).")] = None,
    time: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which the best policy so far is the answer.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="The most beliefs to keep at a time.")] = None,
    memory: Annotated[float | None, typer.Option(min=0.001, help="The most memory for beliefs, in GiB.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="At most so many starts side by side (default: every core).")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="Keep checkpoints in this folder.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the policy file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Find the most opaque policy that does the task.

    Progress goes to stderr. Ctrl-C ends the search and tells the best policy so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 not converged, 74 no stdout, 130 interrupted.
    """
    from opaq.cli.progress import ProgressPrinter, solver_progress
    from opaq.cli.run_folder import RunFolder
    from opaq.files import check_writable

    options = {
        "conditions": conditions,
        "memory_nodes": memory_nodes,
        "solver": solver and solver.value,
        "gradients": gradients and gradients.value,
        "samples": samples,
        "starts": starts,
        "start": start and start.value,
        "warm": None if warm is None else str(warm.absolute()),
        "iterations": iterations,
        "eta": eta,
        "kappa": kappa,
        "exponent": exponent,
        "seed": seed,
        "nodes": nodes,
        "memory": None if memory is None else in_bytes(memory),
    }
    if (problem is None) == (resume is None):
        raise InputError([Fault("PROBLEM", "give a problem, or --resume a run, not both or neither")])
    if resume is None:
        _check(options)
    expect_answer()
    if policy_out is not None:
        check_writable(policy_out, overwrite=force)
    if resume is None:
        folder = RunFolder.create(run, problem or "", options)
    else:
        if run is not None and run.absolute() != resume.absolute():
            raise InputError([Fault("--run", "a resumed run keeps its own folder", "leave --run out")])
        folder = RunFolder.open(resume, options)
    faults = Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=BEGUN):
            stated = folder.problem(faults)
    finally:
        warn(faults.warnings, folder.source)
    folder.begin()
    for line in folder.notes:
        note(line)
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.cli.delivery import deliver
        from opaq.cli.solving import solve_as_told
        from opaq.opacity.warm import compile_kernels

        compile_kernels(derivatives=True)
    with (
        interrupts.computing() as stop,
        ProgressPrinter("solving", quiet=quiet) as progress,
        about(folder.source),
    ):
        solution = solve_as_told(
            stated,
            folder.options,
            folder=folder.path,
            processes=processes,
            time=time,
            on_step=solver_progress(progress, stated),
            stop=stop,
        )
    code = deliver(solution, stated, folder=folder, policy_out=policy_out, overwrite=force, as_json=as_json)
    hint = with_a_clock(folder.source, stated.horizon, solution.policy.policy_class)
    if hint and not (quiet or as_json or solution.status.exit_code in _NO_HINT_AFTER):
        note(hint)
    raise typer.Exit(code)


def with_a_clock(source: str, horizon: int, policy_class: PolicyClass) -> str:
    """The commands that would try policies that also look at the time; nothing where they do, or there is no time."""
    conditions = policy_class.conditions_on
    if "time" in conditions or horizon == 0:
        return ""
    quoted = shlex.quote(source)
    alone = (
        "" if {"memory", "last_states", "observations"} & {*conditions} else f", or opaq solve {quoted} --conditions "
    )
    return f"a clock may help: opaq compare {quoted}" + (alone and f"{alone}{','.join((*conditions, 'time'))}")


def _check(options: Mapping[str, Any]) -> None:
    """Options that the solver ignores or cannot use are refused."""
    idle: list[Fault] = []
    if options["solver"] != SolverName.PRIMAL_DUAL:
        chosen = options["solver"] or SolverName.NATURAL
        idle += without_effect(options, belongs_to=_OF_PRIMAL_DUAL, chosen=f"--solver {chosen}")
        if options["gradients"] == GradientKind.SAMPLED and chosen == SolverName.LAGRANGIAN:
            found = f"sampled gradients do not suit --solver {chosen}, which needs exact ones"
            idle.append(Fault("--gradients", found, "use --solver natural or primal-dual"))
    may_sample = options["gradients"] == GradientKind.SAMPLED or (
        options["gradients"] != GradientKind.EXACT and options["solver"] in (None, SolverName.NATURAL)
    )
    if not may_sample:
        idle += without_effect(options, belongs_to=_OF_SAMPLED_GRADIENTS, chosen="exact gradients")
    if idle:
        raise InputError(idle)
