"""Name the next useful command after an answer, ready to be copied: on stderr, so that pipes get the answer alone.

Comes in: an answer, and what the user named to get it. Goes out: a command line, empty where there is none to name.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opaq.cli.options import drop_unset, flag
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
    """Print the next useful command on stderr; nothing where it is empty."""
    if command:
        print_note(f"next: {command}")


def after_measure(
    source: str, problem: Problem, measurement: Measurement, *, policy: Path | None, ignore_model_mismatch: bool
) -> str:
    """Return a command that looks for a better policy, or that proves how good this one is.

    source: the problem as the user named it. problem, measurement: what was read and what came out.
    policy: the file that was measured; None for the uniform policy.
    ignore_model_mismatch: as given, and handed on to the command.
    """
    if problem.task.over == "forever":
        return _simulate(source, policy)
    if policy is None:
        return command_line("solve", source, save_policy=free_name())
    if not measurement.feasible:
        return command_line("solve", source, initial_policy=policy, save_policy=free_name())
    return command_line("certify", source, policy=policy, ignore_model_mismatch=ignore_model_mismatch)


def after_solve(
    source: str,
    problem: Problem,
    *,
    policy_file: Path | None,
    run: Path | None,
    options: Mapping[str, Any],
    certificate: Certificate | None,
) -> str:
    """Return a command that keeps the policy, proves how good it is, or looks at it.

    source: the problem as the user named it. problem: what was read.
    policy_file: where the policy was written to, if anywhere. run: the folder of the run, if it is kept.
    options: those that decided the answer, None where not given. certificate: of the policy, if there is one already.
    """
    certify = certificate is None
    if policy_file is not None:
        return command_line("certify", source, policy=policy_file) if certify else _look(source, policy_file)
    if run is not None:
        return command_line("solve", None, resume=run, save_policy=free_name(), certify=certify)
    return command_line("solve", source, **drop_unset(options), save_policy=free_name(), certify=certify)


def after_certify(source: str, certificate: Certificate, *, policy: Path | None) -> str:
    """Return a command that looks for a policy closer to the bound, or looks at the one that is close.

    source: the problem as the user named it. certificate: the answer; a gap of 1% of the bound or less is close.
    policy: the file that was compared with the bound; None where none was.
    """
    if policy is None:
        return command_line("solve", source, save_policy=free_name())
    gap = certificate.relative_gap
    if gap is not None and gap <= _SMALL_GAP:
        return _look(source, policy)
    return command_line("compare", source)


def after_compare(source: str, problem: Problem, comparison: Comparison, *, folder: Path | None) -> str:
    """Return a command that goes on with the class that comes furthest; empty where none meets the task.

    source: the problem as the user named it. folder: holds the policies of all classes; None where they were not kept.
    """
    from opaq.cli.output import name_policy_file
    from opaq.reports.text.comparison import best_rung

    best = best_rung(comparison)
    if best is None:
        return ""
    if folder is not None:
        policy = folder / name_policy_file(best.name)
        return _look(source, policy) if comparison.bound is not None else command_line("certify", source, policy=policy)
    if _WITHOUT_NUMBER in best.name:
        return command_line("compare", source, classes=best.name.replace(" ", ""), save_policies="policies")
    return command_line("solve", source, conditions=best.name.replace(" ", ""), save_policy=free_name())


def after_simulate(source: str, *, policy: Path | None) -> str:
    """Return the command that gives the figures behind the runs; policy: the file that was sampled, if any."""
    return command_line("measure", source, policy=policy)


def suggest_clock(source: str, horizon: int, policy_class: PolicyClass) -> str:
    """Return commands that try policies that also look at the time; empty where they do, or there is no time.

    source: the problem as the user named it. horizon: transitions. policy_class: that of the answer.
    """
    conditions = policy_class.conditions_on
    if "time" in conditions or horizon == 0:
        return ""
    compare = f"a clock may help: {command_line('compare', source)}"
    if {"memory", "last_states", "observations", "belief"} & {*conditions}:
        return compare
    return f"{compare}, or {command_line('solve', source, conditions=','.join((*conditions, 'time')))}"


def cannot_improve(problem: Problem, measurement: Measurement) -> bool:
    """Return whether no other policy can be better.

    That is so where all of the secret is hidden, or none where that is the aim, or where there is one state alone.
    """
    if problem.mdp.num_states == 1:
        return True
    if problem.task.minimise:
        return measurement.opacity.value <= _NOTHING
    return measurement.uncertainty.value >= measurement.secret_uncertainty - _NOTHING


def command_line(command: str, source: str | None, **options: Any) -> str:
    """Return a command as a shell reads it, names quoted where need be.

    command: its name. source: its first argument, None for none. options: name -> value, True for a plain flag; those
    that are None or False are left out.
    """
    words = ["opaq", command]
    if source is not None:
        words.append(f"./{source}" if source.startswith("-") else source)  # a file called -x is no option
    for name, value in options.items():
        if value is True:
            words.append(flag(name))
        elif value is not None and value is not False:
            words += [flag(name), str(value)]
    return shlex.join(words)


def free_name() -> str:
    """Return the name of a file for a policy that does not exist yet in the working folder.

    The first is policy.json, then policy-2.json and so on.
    """
    names = chain(["policy.json"], (f"policy-{number}.json" for number in count(2)))
    return next(name for name in names if not Path(name).exists())


def _look(source: str, policy: Path) -> str:
    """Return a command that shows what the policy does: a report, or runs where there is no such command."""
    if "report" in COMMANDS:
        return command_line("report", source, policy=policy)
    return _simulate(source, policy)


def _simulate(source: str, policy: Path | None) -> str:
    """Return the command that samples runs; policy: a file, None for the uniform policy."""
    return command_line("simulate", source, policy=policy)
