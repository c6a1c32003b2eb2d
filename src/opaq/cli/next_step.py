"""Name the next useful command after an answer, ready to be copied: on stderr, so that pipes get the answer alone.

Comes in: an answer, and what the user named to get it. Goes out: a command line, empty where there is none to name.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping
from importlib import import_module
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
_LIMITS = ("time_limit", "max_beliefs", "max_memory", "workers", "seed")  # repeated where the next command takes them
_UNIFORM = "uniform"

Limits = Mapping[str, Any]  # option -> what was given, None where nothing was; those that are no limits are left aside


def print_next_command(command: str) -> None:
    """Print the next useful command on stderr; nothing where it is empty."""
    if command:
        print_note(f"next: {command}")


def after_measure(
    source: str,
    problem: Problem,
    measurement: Measurement,
    *,
    policy: str | None,
    limits: Limits,
    ignore_model_mismatch: bool,
) -> str:
    """Return a command that looks for a better policy, or that proves how good this one is.

    source: the problem as the user named it. problem, measurement: what was read and what came out.
    policy: what was measured, as the user named it; None for the uniform policy.
    limits: options that were given. ignore_model_mismatch: as given, and handed on to the command.
    """
    if problem.task.over == "forever":
        return command_line("simulate", source, policy=policy, limits=limits)
    if policy in (None, _UNIFORM):
        return command_line("solve", source, limits=limits)
    if not measurement.feasible:
        return command_line("solve", source, initial_policy=policy, limits=limits)
    return command_line("certify", source, policy=policy, limits=limits, ignore_model_mismatch=ignore_model_mismatch)


def after_solve(
    source: str,
    *,
    policy_file: Path | None,
    options: Mapping[str, Any],
    limits: Limits,
    certificate: Certificate | None,
) -> str:
    """Return a command that proves how good the policy is, or looks at it, or that solves again where it is lost.

    source: the problem as the user named it. policy_file: where the policy is kept; None where it could not be.
    options: those that decided the answer, None where not given. limits: options that were given.
    certificate: of the policy, if there is one already.
    """
    if policy_file is None:
        return command_line("solve", source, **drop_unset(options), save_policy="FILE", limits=limits)
    if certificate is None:
        return command_line("certify", source, policy=policy_file, limits=limits)
    return _look(source, policy_file, limits)


def after_certify(source: str, certificate: Certificate, *, policy: str | None, limits: Limits) -> str:
    """Return a command that looks for a policy closer to the bound, or looks at the one that is close.

    source: the problem as the user named it. certificate: the answer; a gap of 1% of the bound or less is close.
    policy: what was compared with the bound, as the user named it; None where none was. limits: options as given.
    """
    if policy is None:
        return command_line("solve", source, limits=limits)
    gap = certificate.relative_gap
    if gap is not None and gap <= _SMALL_GAP:
        return _look(source, policy, limits)
    return command_line("compare", source, limits=limits)


def after_compare(source: str, problem: Problem, comparison: Comparison, *, folder: Path | None, limits: Limits) -> str:
    """Return a command that goes on with the class that comes furthest; empty where none meets the task.

    source: the problem as the user named it. folder: holds the policies of all classes; None where they were not kept.
    limits: options that were given.
    """
    from opaq.cli.output import name_policy_file
    from opaq.reports.text.comparison import best_rung

    best = best_rung(comparison)
    if best is None:
        return ""
    if folder is not None:
        policy = folder / name_policy_file(best.name)
        if comparison.bound is not None:
            return _look(source, policy, limits)
        return command_line("certify", source, policy=policy, limits=limits)
    name = best.name.replace(" ", "")
    if _WITHOUT_NUMBER in name:
        return command_line("compare", source, classes=name, save_policies="policies", limits=limits)
    return command_line("solve", source, conditions=name, limits=limits)


def after_simulate(source: str, *, policy: str | None, limits: Limits) -> str:
    """Return the command that gives the figures behind the runs.

    policy: what was sampled, as the user named it; None for the uniform policy. limits: options that were given.
    """
    return command_line("measure", source, policy=policy, limits=limits)


def suggest_clock(source: str, horizon: int, policy_class: PolicyClass, limits: Limits | None = None) -> str:
    """Return commands that try policies that also look at the time; empty where they do, or there is no time.

    source: the problem as the user named it. horizon: transitions. policy_class: that of the answer.
    limits: options that were given.
    """
    conditions = policy_class.conditions_on
    if "time" in conditions or horizon == 0:
        return ""
    compare = f"a clock may help: {command_line('compare', source, limits=limits)}"
    if {"memory", "last_states", "observations", "belief"} & {*conditions}:
        return compare
    finer = ",".join((*conditions, "time"))
    return f"{compare}, or {command_line('solve', source, conditions=finer, limits=limits)}"


def cannot_improve(problem: Problem, measurement: Measurement) -> bool:
    """Return whether no other policy can be better.

    That is so where all of the secret is hidden, or none where that is the aim, or where there is one state alone.
    """
    if problem.mdp.num_states == 1:
        return True
    if problem.task.minimise:
        return measurement.opacity.value <= _NOTHING
    return measurement.uncertainty.value >= measurement.secret_uncertainty - _NOTHING


def command_line(command: str, source: str | None, *, limits: Limits | None = None, **options: Any) -> str:
    """Return a command as a shell reads it, names quoted where need be.

    command: its name. source: its first argument, None for none. options: name -> value, True for a plain flag; those
    that are None or False are left out. limits: options of another command; its limits are repeated where this one
    takes them.
    """
    words = ["opaq", command]
    if source is not None:
        words.append(f"./{source}" if source.startswith("-") else source)  # a file called -x is no option
    given = {name: value for name, value in (limits or {}).items() if name in _LIMITS and value is not None}
    if given:
        takes = inspect.signature(import_module(f"opaq.cli.{command}").command).parameters
        options |= {name: given[name] for name in _LIMITS if name in given and name in takes}
    for name, value in options.items():
        if value is True:
            words.append(flag(name))
        elif value is not None and value is not False:
            words += [flag(name), f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def _look(source: str, policy: str | Path, limits: Limits) -> str:
    """Return a command that shows what the policy does: a report, or runs where there is no such command."""
    return command_line("report" if "report" in COMMANDS else "simulate", source, policy=policy, limits=limits)
