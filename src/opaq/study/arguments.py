"""Check the arguments that every study of one problem takes, once for all of them.

Comes in: the arguments as the caller gave them. Goes out: the problem, the options and the class of policies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any

from opaq.errors import check_types
from opaq.load import as_problem
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import choose_class
from opaq.stop import Stop

_Types = dict[str, tuple[Any, type | UnionType | Callable[[Any], bool], str]]  # as for `check_types`


def read_arguments(
    problem: Problem | str | os.PathLike[str],
    types: _Types,
    *,
    options: SolveOptions | None,
    changes: Mapping[str, Any],
    stop: Stop | None,
    callbacks: Mapping[str, object],
) -> tuple[Problem, SolveOptions, PolicyClass]:
    """Return the problem, the options of its solves and the class of the policies that are searched.

    problem: an object, the name of a file, or the name of a scenario.
    types: the study's own arguments, name -> (value, type or test, what to give, in words), as for `check_types`.
    options: those of every solve; None: the defaults. changes: option -> value, None where it is not given; they take
    precedence.
    stop, callbacks (name -> function): checked alone; None where they are not given.
    Raises InputError with every argument of the wrong type, or when the problem or an option does not fit.
    """
    shared: _Types = {
        "options": (options, SolveOptions, "an opaq.SolveOptions"),
        "stop": (stop, Stop, "an opaq.Stop"),
        **{name: (callback, callable, "a function") for name, callback in callbacks.items()},
    }
    check_types({**types, **shared}, optional=shared)
    chosen = (options or SolveOptions()).with_changes(**changes)
    problem = as_problem(problem)
    policy_class = choose_class(problem, conditions=chosen.conditions, memory_nodes=chosen.memory_nodes)
    return problem, chosen, policy_class
