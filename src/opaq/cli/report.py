"""`opaq report`: a problem with a policy and answers, or a study -> an HTML file, whose path is the answer.

Options that belong to the other of the two are refused. Parts that did not get done in time are named on stderr; the
page is written without them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.options import drop_unset
from opaq.cli.output import print_json
from opaq.cli.session import compute, prepare, read_inputs
from opaq.cli.shell import INTERRUPTED, expect_answer, print_answer, print_note
from opaq.errors import Fault, Faults, InputError

if TYPE_CHECKING:
    from opaq.reports.answers import GivenAnswers

_OF_POLICY = ("title", "problem", "opacity", "question", "answer")  # keys of a report that are the answer in JSON
_OF_STUDY = ("title", "problem", "question", "answer", "counts", "reports")
_FRONT, _HEAD = b'"frontier"', 4096  # what stands at the head of a file with a front, and how much is read of it


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM|STUDY",
            help="A problem file or the name of a scenario; or the folder of a sweep, or what frontier --json printed.",
        ),
    ],
    policy_file: shared.PolicyName = None,
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
    answer_files: Annotated[
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
    of: shared.OfSecret = None,
    for_: shared.ForObserver = None,
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
    expect_answer()
    checks = Checks()
    if output is not None:
        checks.run(_check_output, output, overwrite=overwrite)
    of_study: dict[str, object] = {"--points": points, "--policies": policies}
    of_policy: dict[str, object] = {"--policy": policy_file, "--certify": certify, "--compare": compare}
    of_policy |= {
        "--of": of,
        "--for": for_,
        "--answers": answer_files,
        "--ignore-model-mismatch": ignore_model_mismatch,
    }
    options = drop_unset({"runs": runs, "seed": seed, "time_limit": time_limit})
    if _is_study(source):
        checks.run(_refuse, of_policy, chosen="a study", advice="its points have policies of their own")
        output = output or Path(default_name(Path(source).resolve().stem))
        wanted = checks.read(_parse_points, points)
        checks.raise_if_any()
        with prepare(quiet=quiet, kernels=wanted not in ("none", 0)):
            from opaq.reports.report import report
        with compute("reporting", str(output), quiet=quiet) as work:
            page = report(
                source,
                output=output,
                points=wanted,
                policies=policies,
                overwrite=overwrite,
                stop=work.stop,
                on_progress=work.progress.show,
                **options,
            )
        if page.data["reports"]["text"] and not quiet:
            print_note(page.data["reports"]["text"])
    else:
        checks.run(_refuse, of_study, chosen="a problem", advice="it belongs to sweeps and fronts")
        checks.read(_refuse_unknown, source)
        answers, files = checks.read(_read_answers, answer_files or [], certify=certify, compare=compare)
        given = policy_file or files.pop("policy", None)
        problem, policy = checks.read(
            read_inputs,
            source,
            given,
            ignore_model_mismatch=ignore_model_mismatch,
            of=of,
            for_=for_,
            quiet=quiet,
        )
        if output is None:
            output = Path(default_name(problem.name))
            checks.run(_check_output, output, overwrite=overwrite)
        checks.raise_if_any()
        with prepare(quiet=quiet, derivatives=compare):
            from opaq.load import problem_text
            from opaq.opacity.policies import as_policy
            from opaq.reports.policy_report import make_report
        with _name_files(files), compute("reporting", source, quiet=quiet) as work:
            page = make_report(
                problem,
                None if policy is None else as_policy(policy, problem),
                text=problem_text(source),
                solution=answers.solution,
                certificate=answers.certificate,
                comparison=answers.comparison,
                certify=certify,
                compare=compare,
                stop=work.stop,
                on_progress=work.progress.show,
                **options,
            )
        for line in page.left_out:
            print_note(line)
        page.save(output, overwrite=overwrite)
    if as_json:
        kept = _OF_STUDY if page.data["kind"] == "study" else _OF_POLICY
        print_json({"report": str(output), **{key: page.data[key] for key in kept}})
    else:
        print_answer(str(output))
    if work.stop.interrupted:
        raise typer.Exit(INTERRUPTED)


def _check_output(path: Path, *, overwrite: bool) -> None:
    """Raise InputError unless the page can be written to the file; overwrite: True where one that is there may go."""
    from opaq.files import check_writable

    if str(path) == "-":  # a slip: the page does not go to stdout, its path does
        raise InputError([Fault("-o", "'-' names no file", "name one, such as report.html; its path is the answer")])
    check_writable(path, overwrite=overwrite)


def default_name(name: str) -> str:
    """Return the file of a report that is not named: NAME-report.html.

    name: of the problem or the study; characters that file names lack become "-".
    """
    plain = re.sub(r"[^\w.()-]+", "-", name).strip("-.")[:100]
    return f"{plain or 'problem'}-report.html"


def _is_study(name: str) -> bool:
    """Return whether a name is that of a folder, or of a file that holds a front; scenarios come first.

    Only the head of a file is read, unless that names a front.
    """
    from opaq.load import scenario_names

    if name in scenario_names() or not (os.path.isdir(name) or os.path.isfile(name)):
        return False
    if os.path.isdir(name):
        return True
    try:
        with open(name, "rb") as file:
            head = file.read(_HEAD)
    except OSError:  # whoever reads it as a problem says so
        return False
    if _FRONT not in head:
        return False
    from opaq.reports.study_report import front_in_file  # takes long to load

    return front_in_file(name) is not None


def _refuse(options: Mapping[str, object], *, chosen: str, advice: str) -> None:
    """Raise InputError for every option that was given.

    options: flag -> value, empty or False where not given. chosen, advice: words for why it has no effect.
    """
    faults = [Fault(flag, f"has no effect for {chosen}", advice) for flag, value in options.items() if value]
    if faults:
        raise InputError(faults)


def _refuse_unknown(name: str) -> None:
    """Raise InputError for a name that is neither there nor that of a scenario, with the nearest scenario."""
    from difflib import get_close_matches

    from opaq.load import scenario_names

    if name in scenario_names() or os.path.lexists(name):
        return
    near = get_close_matches(name, scenario_names(), n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    kinds = "a problem file, the folder of a sweep, what frontier --json printed, or a scenario"
    advice = f"{meant}give {kinds}: {', '.join(scenario_names())}"
    raise InputError([Fault("", "there is no such file, folder or scenario", advice)], name)


def _parse_points(text: str | None) -> Any:
    """Return the value of `--points`: "all", "none", a number, or None where it is not given.

    Raises InputError for other texts.
    """
    if text is None or text in ("all", "none"):
        return text
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise InputError([Fault("--points", f"is {text[:40]!r}", "write all, none, or how many")])


def _read_answers(paths: Sequence[Path], *, certify: bool, compare: bool) -> tuple[GivenAnswers, dict[str, Path]]:
    """Return the answers that `--answers` names, and kind of answer -> its file; "policy" of a run, or of a solution.

    paths: files or folders of runs. certify, compare: True where these answers are computed.

    Raises InputError that names every file that holds no answer, or one of a kind that is named or computed as well.
    """
    from opaq.certificates.certify import Certificate, CertifiedSolution
    from opaq.load import is_policy
    from opaq.reports.answers import GivenAnswers, read_answer
    from opaq.solvers.compare import Comparison
    from opaq.solvers.runs import POLICY_FILE
    from opaq.solvers.solve import Solution

    kinds = {Solution: "solution", CertifiedSolution: "solution", Certificate: "certificate", Comparison: "comparison"}
    by_kind: dict[str, Any] = {}
    files: dict[str, Path] = {}
    faults = Faults()
    for path in paths:
        try:
            answer = read_answer(path)
        except InputError as error:
            faults.errors += [
                Fault(f"{error.source}: {fault.where}".removesuffix(": "), fault.message, fault.advice)
                for fault in error.faults
            ]
            continue
        kind = kinds.get(type(answer))
        if kind is None:
            finding = "holds no answer of solve, certify or compare"
            faults.error(str(path), finding, "give what they print with --json, or the folder of solve --run-folder")
        elif kind in by_kind:
            faults.error(str(path), f"holds a second {kind}", "name one of each kind")
        else:
            by_kind[kind], files[kind] = answer, path
    faults.raise_if_any()
    if "solution" in files:
        files.setdefault("certificate", files["solution"])  # a solve may have printed one with its answer
    answers = GivenAnswers.of(**by_kind)
    for kind, (flag, computed) in {"certificate": ("--certify", certify), "comparison": ("--compare", compare)}.items():
        if computed and getattr(answers, kind) is not None:
            faults.error(flag, f"a {kind} is given by --answers already", "leave one of them out")
    faults.raise_if_any()
    policy = next((path / POLICY_FILE for path in paths if (path / POLICY_FILE).is_file()), None)
    if policy is None and "solution" in files and is_policy(str(files["solution"])):
        policy = files["solution"]
    return answers, files if policy is None else files | {"policy": policy}


@contextmanager
def _name_files(files: Mapping[str, Path]) -> Iterator[None]:
    """Name the file of an answer in faults of the block, where the library names its kind; files: kind -> its file."""
    try:
        yield
    except InputError as error:
        if not any(fault.where in files for fault in error.faults):
            raise
        faults = [
            Fault(str(files.get(fault.where, fault.where)), fault.message, fault.advice) for fault in error.faults
        ]
        raise InputError(faults) from None
