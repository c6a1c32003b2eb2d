"""`opaq report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.interrupts import PROCESS_START, interrupts
from opaq.cli.options import drop_unset
from opaq.cli.shell import INTERRUPTED, expect_answer, faults_in, print_answer, print_note
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from opaq.reports.answers import GivenAnswers

_KEPT = ("title", "problem", "opacity", "question", "answer")


def command(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM|STUDY",
            help="A problem file or the name of a scenario; or the folder of a sweep, or what frontier --json printed.",
        ),
    ],
    policy: shared.PolicyFile = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="The HTML file (default: NAME-report.html here)."),
    ] = None,
    overwrite: shared.Overwrite = False,
    runs: Annotated[int | None, typer.Option(min=1, max=200, help="How many sampled runs to replay.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the runs repeatable.")] = None,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds for all of it; what is not done by then is left out.")
    ] = None,
    certify: Annotated[bool, typer.Option("--certify", help="Prove how far from the best possible it is.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Compare what other policy classes can hide.")] = False,
    with_answers: Annotated[
        list[Path] | None,
        typer.Option(
            "--answers", metavar="FILE", help="An answer of solve, certify or compare (--json), or a run folder."
        ),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(
            metavar="all|none|N", help="Of a study: points with a report of their own (default: 40, the most opaque)."
        ),
    ] = None,
    policies: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Of a front: its policies, if it does not name them.")
    ] = None,
    ignore_model_mismatch: shared.IgnoreModelMismatch = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Write a page that shows what a policy hides: one HTML file that opens offline; its path is the answer.

    Of a sweep or a front the page shows all points; their own reports go to the folder NAME-points beside it.
    Ctrl-C, and --time-limit when it is over, end the work with what is known by then.
    Exit codes: 0 done, 2 bad input, 3 no time for anything, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.progress import ProgressPrinter
    from opaq.cli.session import read_inputs
    from opaq.files import check_writable

    expect_answer()
    if output is not None:
        _refuse_stdout(output)
        check_writable(output, overwrite=overwrite)

    from opaq.cli.study_pages import is_study, number_of_points, refuse, refuse_unknown

    of_policy: dict[str, object]
    of_points, of_policy = {"--points": points, "--policies": policies}, {"--policy": policy, "--certify": certify}
    of_policy |= {"--compare": compare, "--answers": with_answers, "--ignore-model-mismatch": ignore_model_mismatch}
    if is_study(problem):
        refuse(of_policy, chosen="a study", advice="its points have policies of their own")
        target = output or Path(default_name(Path(problem).resolve().stem))
        options = {"points": number_of_points(points), "policies": policies, "overwrite": overwrite, "quiet": quiet}
        raise typer.Exit(
            _study(
                problem, target, options | drop_unset({"runs": runs, "seed": seed, "time_limit": time_limit}), as_json
            )
        )
    refuse_unknown(problem)
    refuse(of_points, chosen="a problem", advice="it belongs to sweeps and fronts")

    from opaq.cli.report_answers import naming_files, policy_file, read_answers

    paths = with_answers or []
    answers, files = read_answers(paths)
    _refuse_twice(answers, certify=certify, compare=compare)
    policy = policy or policy_file(paths)
    stated, chosen = read_inputs(problem, policy, ignore_model_mismatch=ignore_model_mismatch, quiet=quiet)
    if output is None:
        output = Path(default_name(stated.name))
        check_writable(output, overwrite=overwrite)
    with ProgressPrinter("preparing", quiet=quiet, since=PROCESS_START):
        from opaq.cli.further_answers import FurtherAnswers
        from opaq.load import problem_text
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.reports.policy_report import make_report
        from opaq.stop import Deadline

        compile_kernels(derivatives=compare)
    with (
        interrupts.computing() as stop,
        ProgressPrinter("reporting", quiet=quiet) as progress,
        naming_files(files),
        faults_in(problem),
    ):
        further = FurtherAnswers(stated, chosen, deadline=Deadline(time_limit), stop=stop, progress=progress)
        wanted = further.wanted(certify=certify, compare=compare)
        made = make_report(
            stated,
            chosen,
            text=problem_text(problem),
            time_limit=further.deadline.share(1.0 / (1 + len(wanted))),
            stop=stop,
            on_progress=progress.show,
            further=lambda: further.computed(wanted),
            solution=answers.solution,
            certificate=answers.certificate,
            comparison=answers.comparison,
            **drop_unset({"runs": runs, "seed": seed}),
        )
    for note_on in further.left_out:
        print_note(note_on)
    made.save(output, overwrite=overwrite)
    print_answer(_summary(made.data, output) if as_json else str(output))
    if stop.interrupted:
        raise typer.Exit(INTERRUPTED)


def _study(name: str, to: Path, options: dict[str, Any], as_json: bool) -> int:
    """Write the pages of a study; the exit code."""
    from opaq.cli.study_pages import KEPT, write_study

    data, interrupted = write_study(name, to, **options)
    print_answer(_summary(data, to, KEPT) if as_json else str(to))
    return INTERRUPTED if interrupted else 0


def default_name(name: str) -> str:
    """The file of a report that is not named: the problem's name, as far as file names go."""
    plain = re.sub(r"[^\w.()-]+", "-", name).strip("-.")[:100]
    return f"{plain or 'problem'}-report.html"


def _refuse_stdout(path: Path) -> None:
    """A file called - is a slip: the page does not go to stdout, its path does."""
    if str(path) == "-":
        raise InputError([Fault("-o", "'-' names no file", "name one, such as report.html; its path is the answer")])


def _refuse_twice(answers: GivenAnswers, *, certify: bool, compare: bool) -> None:
    """What is to be computed is not also given."""
    asked = {"certificate": ("--certify", certify), "comparison": ("--compare", compare)}
    faults = [
        Fault(flag, f"a {kind} is given by --answers already", "leave one of them out")
        for kind, (flag, wanted) in asked.items()
        if wanted and getattr(answers, kind) is not None
    ]
    if faults:
        raise InputError(faults)


def _summary(data: Any, path: Path, kept: tuple[str, ...] = _KEPT) -> str:
    import json

    return json.dumps({"report": str(path), **{key: data[key] for key in kept}}, indent=2)
