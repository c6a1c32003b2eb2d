"""Read the inputs of a command, prepare and compute: warnings, progress and a way to stop are handled here.

Comes in: names from the command line. Goes out: problems and policies, and a `Work` to compute with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opaq.cli.interrupts import PROCESS_START, interrupts
from opaq.cli.progress import ProgressPrinter
from opaq.cli.shell import faults_in, warn
from opaq.errors import Fault, Faults, InputError, nearest

if TYPE_CHECKING:
    from opaq.model.policy import Policy
    from opaq.model.problem import Problem
    from opaq.product.compile import Product
    from opaq.stop import Stop


def read_problem(source: str, *, quiet: bool) -> Problem:
    """Return the problem named on the command line, and show its warnings, also where there are faults beside them.

    source: a file or the name of a scenario. quiet: True shows no progress. Raises InputError with every fault.
    """
    from opaq.load import load_problem

    faults = Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=PROCESS_START):
            return load_problem(source, faults=faults)
    finally:
        warn(faults.warnings, source)


def read_inputs(
    source: str,
    policy_file: str | Path | None,
    *,
    ignore_model_mismatch: bool | None = None,
    of: str | None = None,
    for_: str | None = None,
    quiet: bool,
) -> tuple[Problem, Policy | str | None]:
    """Return the problem, and the policy if one is named (else None); warnings of both are shown.

    source: a file or the name of a scenario. policy_file: a file; "uniform" or "return-optimal", which are returned as
        they are, for the library makes such a policy where it is needed; None for no policy.
    of, for_: the secret and the observer that it is to be about, by their names; None: as the problem says.
    quiet: True shows no progress.
    ignore_model_mismatch: take a policy of another model; None where the command has no option for that, so that no
        message may name it. Raises InputError with every fault of one file.
    """
    from opaq.load import POLICY_NAMES, load_policy

    problem = _about(read_problem(source, quiet=quiet), of, for_)
    if policy_file is None or (isinstance(policy_file, str) and policy_file in POLICY_NAMES):
        return problem, policy_file
    faults = Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=PROCESS_START):
            if isinstance(policy_file, str) and not Path(policy_file).exists():
                _refuse_misspelt_name(policy_file)
            ignore = ignore_model_mismatch or False
            return problem, load_policy(policy_file, problem, ignore_model_mismatch=ignore, faults=faults)
    except InputError as error:
        advice = "use its own problem"
        if ignore_model_mismatch is not None:
            advice = f"{advice}, or give --ignore-model-mismatch"
        worded = [
            replace(fault, advice=advice) if fault.option == "ignore_model_mismatch" else fault
            for fault in error.faults
        ]
        raise InputError(worded, error.source, example=error.example) from None
    finally:
        warn(faults.warnings, str(policy_file))


def _about(problem: Problem, of: str | None, for_: str | None) -> Problem:
    """Return the problem about another secret or observer; faults name the options."""
    try:
        return problem.about(of=of, for_=for_)
    except InputError as error:
        flags = {"secret": "--of", "observer": "--for"}
        raise InputError([replace(fault, where=flags[fault.where]) for fault in error.faults]) from None


def _refuse_misspelt_name(policy: str) -> None:
    """Raise InputError where a policy that is no file was probably meant to be one of those that have names."""
    from opaq.load import POLICY_NAMES

    if meant := nearest(policy, POLICY_NAMES):
        raise InputError([Fault("", "no such file", f"did you mean '{meant[0]}'?")], policy)


_COMPILING, _COMPILING_DERIVATIVES = 6, 10  # seconds, on two cores with nothing else to do


@contextmanager
def prepare(*, derivatives: bool = False, kernels: bool = True, quiet: bool) -> Iterator[None]:
    """Show that the command is preparing while the block imports what it needs; then load the compiled kernels.

    derivatives: load those of gradients, too. kernels: False where none are needed. quiet: True shows no progress.
    """
    with ProgressPrinter("preparing", quiet=quiet, since=PROCESS_START) as printer:
        yield
        if not kernels:
            return
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.threads import available_cores

        seconds = _COMPILING_DERIVATIVES if derivatives else _COMPILING
        line = f"compiling the numerical kernels, once per installation: about {seconds} s"
        compile_kernels(
            derivatives=derivatives,
            processes=available_cores() if derivatives else 1,
            announce=lambda: None if quiet else printer.note(line),
        )


class Work(NamedTuple):
    """Long work under way.

    stop: handed to the library, which ends when it is requested. progress: shows how far the work is, and prints
    lines that stay.
    """

    stop: Stop
    progress: ProgressPrinter


@contextmanager
def compute(label: str, source: str, *, limit: float | None = None, quiet: bool) -> Iterator[Work]:
    """Yield a `Work`: show progress while the block computes, and let Ctrl-C end it in order.

    label: what is done, such as "solving". source: the file that faults are in, where they do not say which.
    limit: seconds after which it ends in any case; None for no limit. quiet: True shows no progress.
    """
    with (
        interrupts.computing() as stop,
        ProgressPrinter(label, quiet=quiet, limit=limit) as progress,
        faults_in(source),
    ):
        yield Work(stop, progress)


def note_known_secret(product: Product, faults: Faults) -> None:
    """Add a warning to `faults` where the secret can take one value only, so that every observer knows it."""
    from opaq.product.compile import possible_secrets

    values = possible_secrets(product)
    if len(values) == 1:
        taken = f"can take one value only, '{values[0]}', whatever the policy does"
        faults.warn("secret", taken, "there is nothing to hide")


def warn_of_known_secret(product: Product, source: str) -> None:
    """Show that warning on stderr, beside an answer about such a secret; source: the problem as the user named it."""
    faults = Faults()
    note_known_secret(product, faults)
    warn(faults.warnings, source)
