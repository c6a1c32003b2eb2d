"""`opaq solve`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opaq.cli.shell import about, answer, note, warn
from opaq.errors import Fault, Faults, InputError


class SolverName(StrEnum):
    """How the policy is searched for."""

    LAGRANGIAN = "lagrangian"
    PRIMAL_DUAL = "primal-dual"


class GradientKind(StrEnum):
    """Where gradients come from."""

    EXACT = "exact"
    SAMPLED = "sampled"


class StartKind(StrEnum):
    """Where the search begins."""

    MIXED = "mixed"
    RANDOM = "random"
    UNIFORM = "uniform"
    RETURN_OPTIMAL = "return-optimal"


def command(
    context: typer.Context,
    problem: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")
    ] = None,
    policy_out: Annotated[Path | None, typer.Option(help="Write the policy found to this file.")] = None,
    conditions: Annotated[
        str | None, typer.Option(help="What the policy looks at, e.g. state,time (default: as the problem says).")
    ] = None,
    memory_nodes: Annotated[
        int | None, typer.Option(min=1, max=64, help="Give the policy a memory of this many nodes, free to use.")
    ] = None,
    solver: Annotated[SolverName, typer.Option(help="The method; primal-dual is the paper's.")] = SolverName.LAGRANGIAN,
    gradients: Annotated[GradientKind, typer.Option(help="Exact, or sampled as in the paper.")] = GradientKind.EXACT,
    samples: Annotated[int, typer.Option(min=1, help="Runs a sampled gradient.")] = 2000,
    starts: Annotated[int | None, typer.Option(min=1, help="How many starts (default: by size, 12 to 32).")] = None,
    start: Annotated[StartKind, typer.Option(help="Where the starts begin.")] = StartKind.MIXED,
    warm: Annotated[Path | None, typer.Option(help="A policy file to begin from.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of primal-dual.")] = 5000,
    eta: Annotated[float, typer.Option(min=0, help="Policy step size of primal-dual.")] = 0.8,
    kappa: Annotated[float, typer.Option(min=0, help="Multiplier step size of primal-dual.")] = 0.05,
    exponent: Annotated[
        float, typer.Option(min=0, max=1, help="Step sizes fall as k^-exponent and 1/k; 0 keeps them.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Starts run side by side.")] = None,
    run: Annotated[Path | None, typer.Option(help="Keep checkpoints in this folder.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the policy file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the most opaque policy that does the task.

    Progress goes to stderr. Ctrl-C ends the search and tells the best policy so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 not converged, 130 interrupted.
    """
    import json

    from opaq.cli.run_folder import RunFolder

    options = {
        "conditions": conditions,
        "memory_nodes": memory_nodes,
        "solver": solver.value,
        "gradients": gradients.value,
        "samples": samples,
        "starts": starts,
        "start": start.value,
        "warm": None if warm is None else str(warm.absolute()),
        "iterations": iterations,
        "eta": eta,
        "kappa": kappa,
        "exponent": exponent,
        "seed": seed,
    }
    if (problem is None) == (resume is None):
        raise InputError([Fault("PROBLEM", "give a problem, or --resume a run, not both or neither")])
    if policy_out is not None and policy_out.exists() and not force:
        raise InputError([Fault("", "exists already", "use --force to overwrite it")], str(policy_out))
    if resume is not None and run is not None and run.absolute() != resume.absolute():
        raise InputError([Fault("--run", "a resumed run keeps its own folder", "leave --run out")])
    given = [name for name in options if _is_given(context, name)]
    if resume is None:
        folder = RunFolder.create(run, problem or "", options)
    else:
        folder = RunFolder.open(resume, options, given=given)
    faults = Faults()
    stated = folder.problem(faults)
    warn(faults.warnings, folder.source)
    folder.begin()
    for line in folder.notes:
        note(line)

    from opaq.cli.progress import Teller
    from opaq.cli.solving import solve_as_told
    from opaq.report.solution import render_solution, solution_to_dict

    with about(folder.source), Teller(stated, note) as teller:
        solution = solve_as_told(stated, folder.options, folder=folder.path, processes=processes, on_step=teller.hear)
    if policy_out is not None:
        from opaq.io.policy_file import save_policy

        save_policy(solution.policy, policy_out, problem=stated, overwrite=force)
    found = solution_to_dict(solution)
    folder.finish(found)
    answer(json.dumps(found, indent=2) if as_json else render_solution(solution))
    raise typer.Exit(solution.status.exit_code)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"
