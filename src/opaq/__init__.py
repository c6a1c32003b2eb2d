"""Opacity of Markov decision processes: how little an eavesdropper learns about a secret.

The public names are loaded when first used, so that `import opaq` and `opaq --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opaq.version import __version__

if TYPE_CHECKING:
    from opaq.build import (
        build_automaton,
        build_grid,
        build_mdp,
        build_memory,
        build_observer,
        build_problem,
        build_secret,
    )
    from opaq.errors import BudgetError, InputError, OpaqError
    from opaq.io import scenarios
    from opaq.io.policy_file import load_policy, save_policy
    from opaq.io.scenarios import load_problem
    from opaq.model.automaton import Automaton
    from opaq.model.mdp import MDP
    from opaq.model.observer import Observer
    from opaq.model.policy import Memory, Policy, PolicyClass
    from opaq.model.problem import Problem, Task
    from opaq.model.secret import InitialState, Language, LastState, StateAt, StateClasses, StepsAgo, Visited
    from opaq.opacity.measure import Measurement, measure
    from opaq.product.compile import compile_problem

_MODULE_OF = {
    "MDP": "opaq.model.mdp",
    "Automaton": "opaq.model.automaton",
    "BudgetError": "opaq.errors",
    "InitialState": "opaq.model.secret",
    "InputError": "opaq.errors",
    "Language": "opaq.model.secret",
    "LastState": "opaq.model.secret",
    "Measurement": "opaq.opacity.measure",
    "Memory": "opaq.model.policy",
    "Observer": "opaq.model.observer",
    "OpaqError": "opaq.errors",
    "Policy": "opaq.model.policy",
    "PolicyClass": "opaq.model.policy",
    "Problem": "opaq.model.problem",
    "StateAt": "opaq.model.secret",
    "StateClasses": "opaq.model.secret",
    "StepsAgo": "opaq.model.secret",
    "Task": "opaq.model.problem",
    "Visited": "opaq.model.secret",
    "build_automaton": "opaq.build",
    "build_grid": "opaq.build",
    "build_mdp": "opaq.build",
    "build_memory": "opaq.build",
    "build_observer": "opaq.build",
    "build_problem": "opaq.build",
    "build_secret": "opaq.build",
    "compile_problem": "opaq.product.compile",
    "load_policy": "opaq.io.policy_file",
    "load_problem": "opaq.io.scenarios",
    "measure": "opaq.opacity.measure",
    "save_policy": "opaq.io.policy_file",
    "scenarios": "opaq.io.scenarios",  # the module itself
}

__all__ = [
    "MDP",
    "Automaton",
    "BudgetError",
    "InitialState",
    "InputError",
    "Language",
    "LastState",
    "Measurement",
    "Memory",
    "Observer",
    "OpaqError",
    "Policy",
    "PolicyClass",
    "Problem",
    "StateAt",
    "StateClasses",
    "StepsAgo",
    "Task",
    "Visited",
    "__version__",
    "build_automaton",
    "build_grid",
    "build_mdp",
    "build_memory",
    "build_observer",
    "build_problem",
    "build_secret",
    "compile_problem",
    "load_policy",
    "load_problem",
    "measure",
    "save_policy",
    "scenarios",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'opaq' has no attribute '{name}'")
    module = import_module(_MODULE_OF[name])
    value = module if name == "scenarios" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
