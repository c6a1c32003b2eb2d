"""What a command is about: the problem and the policy named on the command line, and the warnings in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opaq.cli.interrupts import BEGUN
from opaq.cli.progress import ProgressPrinter
from opaq.cli.shell import warn
from opaq.errors import Faults

if TYPE_CHECKING:
    from opaq.model.policy import Policy
    from opaq.model.problem import Problem


def read_inputs(
    problem: str, policy: Path | None, *, any_model: bool = False, quiet: bool
) -> tuple[Problem, Policy | None]:
    """The problem, and the policy if one is named; warnings are shown, whether or not there are faults beside them."""
    from opaq.loading.policy_files import load_policy
    from opaq.loading.scenarios import load_problem

    faults, policy_faults = Faults(), Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=BEGUN):
            stated = load_problem(problem, faults=faults)
            if policy is None:
                return stated, None
            return stated, load_policy(policy, stated, any_model=any_model, faults=policy_faults)
    finally:
        warn(faults.warnings, problem)
        warn(policy_faults.warnings, str(policy))
