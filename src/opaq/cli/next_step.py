"""The next useful command after an answer, ready to be copied: on stderr, so that pipes get the answer alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opaq.cli.shared_options import drop_unset, flag
from opaq.cli.shell import print_note
from opaq.commands import COMMANDS

if TYPE_CHECKING:
    from opaq.certificates.certify import Certificate
    from opaq.model.policy import PolicyClass
    from opaq.model.problem import Problem
    from opaq.opacity.measure import Measurement
    from opaq.solvers.compare import Comparison

_SMALL_GAP = 0.01  # as a share of the bound: from here on no class promises more
_NOTHING = 1e-9  # bits
_WITHOUT_NUMBER = ":"  # classes such as memory:2 are named to compare only


def print_next_command(command: str) -> None:
    """Name the next useful command, if there is one."""
    if command:
        print_note(f"next: {command}")


def after_measure(
    source: str, problem: Problem, measurement: Measurement, *, policy: Path | None, any_model: bool
) -> str:
    """Look for a better policy, or prove how good this one is."""
    if problem.task.over == "forever":
        return _simulate(source, policy)
    if policy is None:
        return command_line("solve", source, policy_out=free_name())
    if not measurement.feasible or not certifiable(problem):
        return command_line("solve", source, warm=policy, policy_out=free_name())
    return command_line("certify", source, policy=policy, any_model=any_model)


def after_solve(
    source: str,
    problem: Problem,
    *,
    policy_out: Path | None,
    run: Path | None,
    asked: Mapping[str, Any],
    certificate: Certificate | None,
) -> str:
    """Keep the policy, prove how good it is, or look at it.

    run: the folder of the run, if it is kept; asked: the options that decided the answer.
    """
    certify = certificate is None and certifiable(problem)
    if policy_out is not None:
        return command_line("certify", source, policy=policy_out) if certify else _look(source, policy_out)
    if run is not None:
        return command_line("solve", None, resume=run, policy_out=free_name(), certify=certify)
    return command_line("solve", source, **drop_unset(asked), policy_out=free_name(), certify=certify)


def after_certify(source: str, certificate: Certificate, *, policy: Path | None) -> str:
    """Look for a policy that comes closer to the bound, or look at the one that is close."""
    if policy is None:
        return command_line("solve", source, policy_out=free_name())
    gap = certificate.relative_gap
    if gap is not None and gap <= _SMALL_GAP:
        return _look(source, policy)
    return command_line("compare", source)


def after_compare(source: str, problem: Problem, comparison: Comparison, *, folder: Path | None) -> str:
    """Go on with the class that comes furthest."""
    from opaq.cli.comparing import file_name
    from opaq.reports.text.comparison import best_rung

    best = best_rung(comparison)
    if best is None:
        return ""
    if folder is not None:
        policy = folder / file_name(best.name)
        known = comparison.upper_bound is not None or not certifiable(problem)
        return _look(source, policy) if known else command_line("certify", source, policy=policy)
    if _WITHOUT_NUMBER in best.name:
        return command_line("compare", source, classes=best.name.replace(" ", ""), policy_out="policies")
    return command_line("solve", source, conditions=best.name.replace(" ", ""), policy_out=free_name())


def after_simulate(source: str, *, policy: Path | None) -> str:
    """The figures behind the runs."""
    return command_line("measure", source, policy=policy)


def with_a_clock(source: str, horizon: int, policy_class: PolicyClass) -> str:
    """The commands that would try policies that also look at the time; nothing where they do, or there is no time."""
    conditions = policy_class.conditions_on
    if "time" in conditions or horizon == 0:
        return ""
    compare = f"a clock may help: {command_line('compare', source)}"
    if {"memory", "last_states", "observations"} & {*conditions}:
        return compare
    return f"{compare}, or {command_line('solve', source, conditions=','.join((*conditions, 'time')))}"


def cannot_improve(problem: Problem, measurement: Measurement) -> bool:
    """Whether all of the secret is hidden, or none where as little as possible is asked for, or nothing can differ."""
    if problem.mdp.num_states == 1:
        return True
    if problem.task.minimise:
        return measurement.opacity.value <= _NOTHING
    return measurement.uncertainty.value >= measurement.secret_uncertainty - _NOTHING


def command_line(command: str, source: str | None, **options: Any) -> str:
    """A command as a shell reads it; options that are None or False are left out."""
    words: list[str] = ["opaq", command, *_argument(source)]
    for name, value in options.items():
        if value is True:
            words.append(flag(name))
        elif value is not None and value is not False:
            words += [flag(name), str(value)]
    return shlex.join(words)


def certifiable(problem: Problem) -> bool:
    """Whether the problem can have a certificate."""
    from opaq.certificates.certify import check_certifiable
    from opaq.errors import InputError

    try:
        check_certifiable(problem)
    except InputError:
        return False
    return True


def free_name() -> str:
    """A file for a policy that does not exist yet in this folder."""
    names = chain(["policy.json"], (f"policy-{number}.json" for number in count(2)))
    return next(name for name in names if not Path(name).exists())


def _argument(source: str | None) -> list[str]:
    """The problem, if there is one; a file called -x is no option."""
    return [] if source is None else [f"./{source}" if source.startswith("-") else source]


def _look(source: str, policy: Path) -> str:
    """See what the policy does."""
    if "report" in COMMANDS:
        return command_line("report", source, policy=policy)
    return _simulate(source, policy)


def _simulate(source: str, policy: Path | None) -> str:
    return command_line("simulate", source, policy=policy)
