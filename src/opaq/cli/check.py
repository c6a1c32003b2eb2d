"""`opaq check`: problem files and plans of sweeps -> every fault of each, or the sizes of one that is fine.

Each file is read and compiled, and one with faults does not keep the others from being read. Summaries go to stdout,
faults and warnings to stderr; the exit code is 2 where any file has a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli.interrupts import PROCESS_START
from opaq.cli.progress import ProgressPrinter
from opaq.cli.session import note_known_secret
from opaq.cli.shell import BAD_INPUT, faults_in, page_width, print_answer, print_faults, print_note, warn
from opaq.errors import BudgetError, Faults, InputError, cut_middle, escape_invisible

if TYPE_CHECKING:
    from opaq.product.compile import Product

_OF_PLANS = frozenset({"opaq-sweep", "problem", "over", "together"})
_LONGEST = 32  # characters of a name in the summary


def command(
    sources: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Problem files, scenario names or plans of sweeps.")
    ],
) -> None:
    """Read problem files and plans, report everything wrong with them, and sum up those that are fine.

    Nothing is solved: of the plan of a sweep, the problem and the options of every point are checked.
    """
    fine = [_check_plan(source) if _is_plan(source) else _check(source) for source in sources]
    if not all(fine):
        raise typer.Exit(BAD_INPUT)


def _check(source: str) -> bool:
    """Sum up one problem on stdout, or show its faults on stderr; return whether it is fine.

    source: a file or the name of a scenario. A problem that is too large to compile counts as not fine.
    """
    from opaq.load import load_problem

    faults = Faults()
    try:
        with faults_in(source), ProgressPrinter("reading", since=PROCESS_START) as progress:
            problem = load_problem(source, faults=faults)
            progress.show("", label="compiling")
            from opaq.product.compile import compile_problem

            product = compile_problem(problem)
            note_known_secret(product, faults)
    except InputError as error:
        print_faults(error)
        return False
    except BudgetError as error:
        print_note(f"{source}: {error}")
        return False
    finally:
        warn(faults.warnings, source)
    print_answer(f"{escape_invisible(source)}: fine\n{_summary(product)}")
    return True


def _is_plan(source: str) -> bool:
    """Return whether a file is the plan of a sweep, by keys that problems lack; False for one that cannot be read."""
    from collections.abc import Mapping

    from opaq.load import scenario_names
    from opaq.spec.yaml import load_yaml

    try:
        data = None if source in scenario_names() else load_yaml(source).data
    except InputError:
        return False
    return isinstance(data, Mapping) and not _OF_PLANS.isdisjoint(data)


def _check_plan(source: str) -> bool:
    """Sum up the plan of a sweep on stdout, or show the faults of all its points; return whether it is fine."""
    from opaq.study.sweep.points import check_plan

    faults = Faults()
    try:
        with faults_in(source), ProgressPrinter("reading", since=PROCESS_START) as progress:
            progress.show("", label="checking the points")
            plan, points = check_plan(source, faults=faults)
    except InputError as error:
        print_faults(error)
        return False
    finally:
        warn(faults.warnings, source)
    varied: dict[str, dict[str, object]] = {}
    for point in points:
        for path, value in point.parameters.items():
            varied.setdefault(path, {})[str(value)] = value
    facts = {
        "problem": plan.problem_name,
        "points": f"{len(points):,}",
        **{path: _count_names(tuple(values)) for path, values in varied.items()},
        "together": ", ".join(plan.together[0]) if plan.together else "",
        "certificates": f"{plan.certify:g} s each" if plan.certify else "",
        "time limit": "" if plan.time_limit is None else f"{plan.time_limit:g} s each",
    }
    print_answer(f"{escape_invisible(source)}: fine\n{_fact_lines(facts)}")
    return True


def _summary(product: Product) -> str:
    """Return the sizes and names of a compiled problem, a line each, wrapped to the width of the page.

    Lists of names show how many there are and the first of them; thresholds of all requirements come last.
    """
    from opaq.model.secret import Language, Trajectory
    from opaq.opacity.targets import limits_of
    from opaq.product.compile import possible_secrets
    from opaq.reports.text.names import tell_apart

    problem = product.problem
    secret, threshold = problem.secret, problem.task.return_at_least
    whole_run = isinstance(secret, Trajectory)
    facts = {
        "states": _count_names(tuple(tell_apart(problem.mdp.states) or problem.mdp.states)),
        "actions": _count_names(problem.mdp.actions),
        "observers": _count_names((*problem.observers,)) if len(problem.observers) > 1 else "",
        "secrets": _count_names((*problem.secrets,)) if len(problem.secrets) > 1 else "",
        "observations": _count_names(product.observations),
        "secret values": _count_names(possible_secrets(product)) + (", at every time" if whole_run else ""),
        "automaton": f"{len(secret.automaton.states):,} states" if isinstance(secret, Language) else "",
        "horizon": f"{problem.horizon} transitions",
        "return": "any" if threshold is None else f"at least {threshold:g}",
        "policy rows": f"{len(product.rows):,} (by {', '.join(product.policy_class.conditions_on) or 'nothing'})",
        "product states": f"{product.state_of.size:,}",
    }
    facts |= {payoff.name: f"at least {payoff.threshold:g}" for payoff in product.process.payoffs[1:]}
    facts |= {
        limit.name: f"{'at least' if limit.sign > 0 else 'at most'} {limit.threshold:g} bits"
        for limit in limits_of(product)
    }
    return _fact_lines(facts)


def _fact_lines(facts: dict[str, str]) -> str:
    """Return names and texts, a line each, wrapped to the width of the page; empty texts are left out."""
    from opaq.reports.layout import wrap_lines

    width = max(len(escape_invisible(name)) for name in facts)
    lines: list[str] = []
    for name, fact in facts.items():
        first = f"  {escape_invisible(name):<{width}}  "
        lines += wrap_lines(fact, first=first, rest=" " * len(first), width=page_width()) if fact else []
    return "\n".join(lines)


def _count_names(names: tuple[str, ...], *, most: int = 6) -> str:
    """Return how many names there are, and the first `most` of them, each cut to 32 characters in the middle.

    The names are left out where they look alike when cut short.
    """
    first = [escape_invisible(name) for name in names[:most]]
    short = [cut_middle(name, _LONGEST, mark="...") for name in first]
    if len(set(short)) < len(short):
        return f"{len(names):,}"
    return f"{len(names):,}: {', '.join(short)}{f' and {len(names) - most:,} more' if len(names) > most else ''}"
