"""The history program as one rung of the ladder, where it is small and its extra is installed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.search import BoundSearch, BoundStep
from opaq.certificates.history.program import HistoryOptimum, solve_histories
from opaq.errors import BudgetError, InputError
from opaq.product.compile import Product
from opaq.stop import Deadline, StoppedError

MACHINE = "history program: all state histories"
_MOST_HISTORIES = 1_500  # seconds of work
_LEAST_SECONDS = 1.5  # loading the solver alone takes about as long, and cannot be interrupted
_NAMES = {"opacity": "shannon", "guess_error": "guess_error"}  # of a task's uncertainty -> of the program


def climb_histories(ladder: BoundSearch, product: Product, deadline: Deadline) -> HistoryOptimum | None:
    """Bound the policies that do not see the observations by the history program; None where it does not apply.

    product: compiled for policies that look at the state. deadline: of the program, which begins now.
    Raises StoppedError when the ladder's stop is requested meanwhile.
    """
    task = product.problem.task
    name = _NAMES.get(task.of.name)
    if ladder.aware or name is None or task.over == "forever" or find_spec("cvxpy") is None:
        return None
    if (deadline.seconds or 0.0) < _LEAST_SECONDS:
        return None
    try:
        optimum = solve_histories(
            product,
            uncertainty=name,
            max_histories=_MOST_HISTORIES,
            gap=min(ladder.wanted / 10.0, 1e-4),
            deadline=deadline,
            stop=ladder.stop,
        )
    except (BudgetError, InputError):
        return None
    except StoppedError:
        if ladder.stop.requested:
            raise
        return None
    if optimum.value is not None:
        prices = np.array([optimum.prices.get(name, 0.0) for name in ladder.decisions.names])
        ladder.take(Proof(optimum.value.upper, prices), MACHINE)
        ladder.note(BoundStep(MACHINE, optimum.num_histories, 1, ladder.bound, False, deadline.elapsed))
    return optimum
