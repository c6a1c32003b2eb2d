"""What a command is about: the problem and the policy named on the command line, and the warnings in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opaq.cli.interrupts import BEGUN
from opaq.cli.progress import ProgressPrinter
from opaq.cli.shell import warn
from opaq.errors import Faults, InputError

if TYPE_CHECKING:
    from opaq.model.policy import Policy
    from opaq.model.problem import Problem
    from opaq.product.compile import Product


def read_inputs(
    problem: str, policy: Path | None, *, ignore_model_mismatch: bool | None = None, quiet: bool
) -> tuple[Problem, Policy | None]:
    """The problem, and the policy if one is named; warnings are shown, whether or not there are faults beside them.

    ignore_model_mismatch: whether a policy of another model is taken; None: the command has no option for that.
    """
    from opaq.load import load_policy, load_problem

    faults, policy_faults = Faults(), Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=BEGUN):
            stated = load_problem(problem, faults=faults)
            if policy is None:
                return stated, None
            with _naming_option(known=ignore_model_mismatch is not None):
                return stated, load_policy(
                    policy, stated, ignore_model_mismatch=ignore_model_mismatch or False, faults=policy_faults
                )
    finally:
        warn(faults.warnings, problem)
        warn(policy_faults.warnings, str(policy))


def note_known_secret(product: Product, faults: Faults) -> None:
    """Warn of a secret that every observer knows."""
    from opaq.product.compile import possible_secrets

    values = possible_secrets(product)
    if len(values) == 1:
        taken = f"can take one value only, '{values[0]}', whatever the policy does"
        faults.warn("secret", taken, "there is nothing to hide")


def warn_of_known_secret(product: Product, source: str) -> None:
    """Repeat that warning beside an answer about such a secret."""
    faults = Faults()
    note_known_secret(product, faults)
    warn(faults.warnings, source)


@contextmanager
def _naming_option(*, known: bool) -> Iterator[None]:
    """Where the library advises to allow any model, name the option of the command, if it has one."""
    try:
        yield
    except InputError as error:
        from opaq.spec.policy_table import ANY_MODEL

        option = ", or give --ignore-model-mismatch" if known else ""
        faults = [replace(fault, advice=fault.advice.replace(ANY_MODEL, option)) for fault in error.faults]
        raise InputError(faults, error.source, example=error.example) from None
