"""`opaq compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import interrupts
from opaq.cli.shell import expect_answer, faults_in, print_note, warn
from opaq.errors import Faults

if TYPE_CHECKING:
    from opaq.cli.progress import ProgressPrinter
    from opaq.model.problem import Problem
    from opaq.solvers.compare import Comparison
    from opaq.solvers.loop import Progress

_LAST_SECONDS, _LAST_SHARE = 20.0, 0.2  # for the certificate; of the time where it is limited


def command(
    problem: shared.ProblemName,
    classes: Annotated[
        str | None,
        typer.Option(help='The classes to compare, e.g. "state; state,time; memory:2" (default: all that apply).'),
    ] = None,
    policy_out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the policy of every class to this folder.")
    ] = None,
    starts: shared.Starts = None,
    seed: shared.Seed = None,
    time: Annotated[float | None, shared.time_limit("Seconds for all classes together, shared among them.")] = None,
    processes: shared.Processes = None,
    certify: Annotated[
        bool, typer.Option(help="Prove what no policy of any class exceeds: the last line of the table.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite policy files.")] = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Compare what policies can hide that look at the state, at the time, or keep a memory.

    Every class begins from the best policy of the classes that it contains, and from fresh starts. Ctrl-C, and --time
    when it is over, end the work with the classes done by then.
    Exit codes: 0 done, 1 no class meets the task, 2 bad input, 3 not all converged, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.progress import ProgressPrinter
    from opaq.load import load_problem

    expect_answer()
    faults = Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet):
            stated = load_problem(problem, faults=faults)
    finally:
        warn(faults.warnings, problem)
    with ProgressPrinter("preparing", quiet=quiet):
        from opaq.cli.comparing import PolicyFolder, deliver
        from opaq.cli.next_step import after_compare, print_next_command
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.solvers.compare import ClassResult, compare
        from opaq.solvers.policy_classes import class_name, default_classes, named_classes

        chosen = default_classes(stated) if classes is None else named_classes(_split_classes(classes), stated)
        names = [class_name(policy_class) for policy_class in chosen]
        folder = PolicyFolder.prepare(policy_out, names, stated, overwrite=force)
        compile_kernels(derivatives=True)

    def done(rung: ClassResult) -> None:
        if not quiet:
            progress.note(f"{rung.name}: {rung.measurement.opacity.value:.4f} bits, {rung.seconds:.1f} s")
        folder.write(rung)

    with (
        interrupts.computing() as stop,
        ProgressPrinter("comparing", quiet=quiet) as progress,
        faults_in(problem),
    ):
        comparison = compare(
            stated,
            classes=chosen,
            on_step=_ClassProgress(progress, stated, names),
            on_rung=done,
            stop=stop,
            num_starts=starts,
            seed=seed,
            time=None if time is None else time * (1.0 - _LAST_SHARE * certify),
            processes=processes,
        )
    if certify and not comparison.interrupted:
        comparison = _add_bound(comparison, stated, time, quiet=quiet)
    if policy_out is not None and folder.written:
        print_note(f"wrote {len(folder.written)} of {len(comparison.rungs)} policies to {policy_out}")
    code = deliver(comparison, folder, problem_file=problem, as_json=as_json)
    if not (quiet or as_json or comparison.interrupted):
        written = policy_out if policy_out is not None and not folder.unwritten else None
        print_next_command(after_compare(problem, stated, comparison, folder=written))
    raise typer.Exit(code)


def _add_bound(comparison: Comparison, problem: Problem, time: float | None, *, quiet: bool) -> Comparison:
    """The comparison with its last line; Ctrl-C gives the best bound so far, if there is one."""
    from opaq.certificates.certify import with_bound
    from opaq.cli.certify import rung_progress
    from opaq.cli.progress import ProgressPrinter

    seconds = _LAST_SECONDS if time is None else time * _LAST_SHARE
    with interrupts.computing() as stop, ProgressPrinter("certifying", quiet=quiet, limit=seconds) as progress:
        bounded = with_bound(comparison, problem, time=seconds, stop=stop, on_progress=rung_progress(progress))
        if bounded.interrupted and bounded.upper_bound is None:
            progress.note("the bound is left out: interrupted")
        return bounded


def _split_classes(classes: str) -> list[str]:
    """The classes between semicolons; one after the last may be left out."""
    return [part.strip() for part in classes.strip().removesuffix(";").split(";")]


class _ClassProgress:
    """Shows which class is searched, and how far the search is."""

    def __init__(self, printer: ProgressPrinter, problem: Problem, names: list[str]) -> None:
        self._printer, self._problem, self._names = printer, problem, names
        self._name, self._begun = "", 0.0
        self._best: float | None = None

    def __call__(self, name: str, progress: Progress) -> None:
        from opaq.cli.progress import progress_line

        if name != self._name:
            self._name, self._begun, self._best = name, self._printer.seconds, None
        found = progress.best
        if found is not None and found.feasible:
            better = self._best is None or found.score > self._best
            self._best = found.score if better else self._best
        line = progress_line(
            progress,
            threshold=self._problem.task.return_at_least,
            best=None if self._best is None else abs(self._best),
            seconds=self._printer.seconds - self._begun,
        )
        place = self._names.index(name) + 1
        share = (place - 1 + min(progress.share, 1.0)) / len(self._names)
        self._printer.show(line, label=f"{name} ({place} of {len(self._names)})", share=share)
