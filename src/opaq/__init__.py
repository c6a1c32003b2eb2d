"""Opacity of Markov decision processes: how little an eavesdropper learns about a secret.

The public names are loaded when first used, so that `import opaq` and `opaq --help` stay quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opaq.version import __version__

if TYPE_CHECKING:
    from opaq.agent import Agent, GymAdapter
    from opaq.build import (
        build_automaton,
        build_grid,
        build_mdp,
        build_memory,
        build_observer,
        build_problem,
        build_secret,
        free_memory,
    )
    from opaq.errors import BudgetError, InputError, InvariantError, OpaqError
    from opaq.io import scenarios
    from opaq.io.convert import convert
    from opaq.io.gymnasium import read_gymnasium
    from opaq.io.policy_file import load_policy, save_policy
    from opaq.io.pomdp import read_pomdp
    from opaq.io.scenarios import load_problem
    from opaq.io.storm import read_prism
    from opaq.io.umb import read_umb
    from opaq.model.automaton import Automaton
    from opaq.model.mdp import MDP
    from opaq.model.observer import Observer
    from opaq.model.policy import Memory, Policy, PolicyClass
    from opaq.model.problem import Problem, Reach, ReturnAtLeast, Satisfy, Task
    from opaq.model.secret import InitialState, Language, LastState, StateAt, StateClasses, StepsAgo, Visited
    from opaq.opacity.amount import Amount
    from opaq.opacity.beliefs import Budget
    from opaq.opacity.measure import Measurement, measure
    from opaq.opacity.operators import (
        observable_operator,
        secret_posterior,
        sequence_probability,
        start_posterior,
    )
    from opaq.opacity.simulate import simulate
    from opaq.product.compile import compile_problem
    from opaq.solve.compare import Comparison, compare
    from opaq.solve.lagrangian import AugmentedLagrangian
    from opaq.solve.natural import NaturalGradient
    from opaq.solve.primal_dual import PrimalDual
    from opaq.solve.solve import Solution, solve
    from opaq.solve.status import Status
    from opaq.stop import Stop, StoppedError

_MODULE_OF = {
    "Agent": "opaq.agent",
    "Amount": "opaq.opacity.amount",
    "AugmentedLagrangian": "opaq.solve.lagrangian",
    "Automaton": "opaq.model.automaton",
    "Budget": "opaq.opacity.beliefs",
    "BudgetError": "opaq.errors",
    "Comparison": "opaq.solve.compare",
    "GymAdapter": "opaq.agent",
    "InitialState": "opaq.model.secret",
    "InputError": "opaq.errors",
    "InvariantError": "opaq.errors",
    "Language": "opaq.model.secret",
    "LastState": "opaq.model.secret",
    "MDP": "opaq.model.mdp",
    "Measurement": "opaq.opacity.measure",
    "Memory": "opaq.model.policy",
    "NaturalGradient": "opaq.solve.natural",
    "Observer": "opaq.model.observer",
    "OpaqError": "opaq.errors",
    "Policy": "opaq.model.policy",
    "PolicyClass": "opaq.model.policy",
    "PrimalDual": "opaq.solve.primal_dual",
    "Problem": "opaq.model.problem",
    "Reach": "opaq.model.problem",
    "ReturnAtLeast": "opaq.model.problem",
    "Satisfy": "opaq.model.problem",
    "Solution": "opaq.solve.solve",
    "StateAt": "opaq.model.secret",
    "StateClasses": "opaq.model.secret",
    "Status": "opaq.solve.status",
    "StepsAgo": "opaq.model.secret",
    "Stop": "opaq.stop",
    "StoppedError": "opaq.stop",
    "Task": "opaq.model.problem",
    "Visited": "opaq.model.secret",
    "build_automaton": "opaq.build",
    "build_grid": "opaq.build",
    "build_mdp": "opaq.build",
    "build_memory": "opaq.build",
    "build_observer": "opaq.build",
    "build_problem": "opaq.build",
    "build_secret": "opaq.build",
    "compare": "opaq.solve.compare",
    "compile_problem": "opaq.product.compile",
    "convert": "opaq.io.convert",
    "free_memory": "opaq.build",
    "load_policy": "opaq.io.policy_file",
    "load_problem": "opaq.io.scenarios",
    "measure": "opaq.opacity.measure",
    "observable_operator": "opaq.opacity.operators",
    "read_gymnasium": "opaq.io.gymnasium",
    "read_pomdp": "opaq.io.pomdp",
    "read_prism": "opaq.io.storm",
    "read_umb": "opaq.io.umb",
    "save_policy": "opaq.io.policy_file",
    "scenarios": "opaq.io.scenarios",  # the module itself
    "secret_posterior": "opaq.opacity.operators",
    "sequence_probability": "opaq.opacity.operators",
    "simulate": "opaq.opacity.simulate",
    "solve": "opaq.solve.solve",
    "start_posterior": "opaq.opacity.operators",
}

__all__ = [
    "MDP",
    "Agent",
    "Amount",
    "AugmentedLagrangian",
    "Automaton",
    "Budget",
    "BudgetError",
    "Comparison",
    "GymAdapter",
    "InitialState",
    "InputError",
    "InvariantError",
    "Language",
    "LastState",
    "Measurement",
    "Memory",
    "NaturalGradient",
    "Observer",
    "OpaqError",
    "Policy",
    "PolicyClass",
    "PrimalDual",
    "Problem",
    "Reach",
    "ReturnAtLeast",
    "Satisfy",
    "Solution",
    "StateAt",
    "StateClasses",
    "Status",
    "StepsAgo",
    "Stop",
    "StoppedError",
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
    "compare",
    "compile_problem",
    "convert",
    "free_memory",
    "load_policy",
    "load_problem",
    "measure",
    "observable_operator",
    "read_gymnasium",
    "read_pomdp",
    "read_prism",
    "read_umb",
    "save_policy",
    "scenarios",
    "secret_posterior",
    "sequence_probability",
    "simulate",
    "solve",
    "start_posterior",
]


class _Package(ModuleType):
    """The package `opaq.solve` and the function share a name; under `opaq` it is always the function."""

    @property
    def solve(self) -> Any:
        """The function opaq.solve.solve.solve."""
        return import_module("opaq.solve.solve").solve

    @solve.setter
    def solve(self, package: ModuleType) -> None:
        """Importing the package sets it here; nothing is lost by leaving that out."""


sys.modules[__name__].__class__ = _Package


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
