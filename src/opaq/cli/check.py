"""`opaq check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli.inputs import note_known_secret
from opaq.cli.interrupts import BEGUN
from opaq.cli.shell import BAD_INPUT, about, answer, complain, note, page_width, warn
from opaq.errors import BudgetError, Faults, InputError
from opaq.escapes import printable
from opaq.reports.layout import wrapped

if TYPE_CHECKING:
    from opaq.product.compile import Product


def command(
    problems: Annotated[list[str], typer.Argument(metavar="FILE...", help="Problem files or scenario names.")],
) -> None:
    """Read problem files, report everything wrong with them, and sum up those that are fine."""
    fine = [_check(problem) for problem in problems]
    if not all(fine):
        raise typer.Exit(BAD_INPUT)


def _check(source: str) -> bool:
    from opaq.cli.progress import ProgressPrinter
    from opaq.loading.scenarios import load_problem

    faults = Faults()
    try:
        with about(source), ProgressPrinter("reading", since=BEGUN) as progress:
            problem = load_problem(source, faults=faults)
            progress.show("", label="compiling")
            from opaq.product.compile import compile_problem

            product = compile_problem(problem)
            note_known_secret(product, faults)
    except InputError as error:
        complain(error)
        return False
    except BudgetError as error:
        note(f"{source}: {error}")
        return False
    finally:
        warn(faults.warnings, source)
    answer(f"{printable(source)}: fine\n{_summary(product)}")
    return True


def _summary(product: Product) -> str:
    from opaq.model.secret import Language

    problem = product.problem
    secret, threshold = problem.secret, problem.task.return_at_least
    facts = {
        "states": _counted(problem.mdp.states),
        "actions": _counted(problem.mdp.actions),
        "observations": _counted(product.observations),
        "secret values": _counted(product.secret_values),
        "automaton": f"{len(secret.automaton.states):,} states" if isinstance(secret, Language) else "",
        "horizon": f"{problem.horizon} transitions",
        "return": "any" if threshold is None else f"at least {threshold:g}",
        "policy rows": f"{len(product.rows):,} (by {', '.join(product.policy_class.conditions_on) or 'nothing'})",
        "product states": f"{product.state_of.size:,}",
    }
    facts |= {payoff.name: f"at least {payoff.threshold:g}" for payoff in product.process.payoffs[1:]}
    width = max(len(printable(name)) for name in facts)
    lines: list[str] = []
    for name, fact in facts.items():
        first = f"  {printable(name):<{width}}  "
        lines += wrapped(fact, first=first, rest=" " * len(first), width=page_width()) if fact else []
    return "\n".join(lines)


def _counted(names: tuple[str, ...], *, most: int = 6) -> str:
    """How many, and the first few, unless they look alike when cut short."""
    short = [_short(printable(name)) for name in names[:most]]
    if len(set(short)) < len(short):
        return f"{len(names):,}"
    return f"{len(names):,}: {', '.join(short)}{', ...' if len(names) > most else ''}"


def _short(name: str, *, most: int = 24) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."
