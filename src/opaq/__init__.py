"""Opacity of Markov decision processes: how little an eavesdropper learns about a secret.

The public names are loaded when first used, so that `import opaq` and `opaq --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opaq.version import __version__

if TYPE_CHECKING:
    from opaq.beliefs.graph import Budget
    from opaq.certificates.certificate import Certificate, certify
    from opaq.errors import BudgetError, InputError, InvariantError, OpaqError
    from opaq.formats.gymnasium import read_gymnasium
    from opaq.formats.pomdp.pomdp_reader import read_pomdp
    from opaq.formats.prism.storm import read_prism
    from opaq.formats.umb.umb_reader import read_umb
    from opaq.loading import scenarios
    from opaq.loading.policy_files import load_policy, save_policy
    from opaq.loading.scenarios import load_problem
    from opaq.model.automaton import Automaton
    from opaq.model.mdp import MDP
    from opaq.model.memory import Memory
    from opaq.model.observer import Observer
    from opaq.model.policy import Policy, PolicyClass
    from opaq.model.problem import Problem, Reach, ReturnAtLeast, Satisfy, Task
    from opaq.model.secret import InitialState, Language, LastState, StateAt, StateClasses, StepsAgo, Visited
    from opaq.opacity.amount import Amount
    from opaq.opacity.measurement import Measurement, measure
    from opaq.opacity.operators import (
        observable_operator,
        secret_posterior,
        sequence_probability,
        start_posterior,
    )
    from opaq.product.compile import compile_problem
    from opaq.reports.conversion import convert
    from opaq.simulation.agent import Agent, GymAdapter
    from opaq.simulation.sampling import simulate
    from opaq.solvers.comparison import Comparison, compare
    from opaq.solvers.lagrangian import AugmentedLagrangian
    from opaq.solvers.natural import NaturalGradient
    from opaq.solvers.primal_dual import PrimalDual
    from opaq.solvers.solution import Solution, solve
    from opaq.solvers.status import Status
    from opaq.spec import (
        build_automaton,
        build_grid,
        build_mdp,
        build_memory,
        build_observer,
        build_problem,
        build_secret,
        free_memory,
    )
    from opaq.stop import Stop, StoppedError

_MODULE_OF = {
    "Agent": "opaq.simulation.agent",
    "Amount": "opaq.opacity.amount",
    "AugmentedLagrangian": "opaq.solvers.lagrangian",
    "Automaton": "opaq.model.automaton",
    "Budget": "opaq.beliefs.graph",
    "BudgetError": "opaq.errors",
    "Certificate": "opaq.certificates.certificate",
    "Comparison": "opaq.solvers.comparison",
    "GymAdapter": "opaq.simulation.agent",
    "InitialState": "opaq.model.secret",
    "InputError": "opaq.errors",
    "InvariantError": "opaq.errors",
    "Language": "opaq.model.secret",
    "LastState": "opaq.model.secret",
    "MDP": "opaq.model.mdp",
    "Measurement": "opaq.opacity.measurement",
    "Memory": "opaq.model.memory",
    "NaturalGradient": "opaq.solvers.natural",
    "Observer": "opaq.model.observer",
    "OpaqError": "opaq.errors",
    "Policy": "opaq.model.policy",
    "PolicyClass": "opaq.model.policy",
    "PrimalDual": "opaq.solvers.primal_dual",
    "Problem": "opaq.model.problem",
    "Reach": "opaq.model.problem",
    "ReturnAtLeast": "opaq.model.problem",
    "Satisfy": "opaq.model.problem",
    "Solution": "opaq.solvers.solution",
    "StateAt": "opaq.model.secret",
    "StateClasses": "opaq.model.secret",
    "Status": "opaq.solvers.status",
    "StepsAgo": "opaq.model.secret",
    "Stop": "opaq.stop",
    "StoppedError": "opaq.stop",
    "Task": "opaq.model.problem",
    "Visited": "opaq.model.secret",
    "build_automaton": "opaq.spec",
    "build_grid": "opaq.spec",
    "build_mdp": "opaq.spec",
    "build_memory": "opaq.spec",
    "build_observer": "opaq.spec",
    "build_problem": "opaq.spec",
    "build_secret": "opaq.spec",
    "certify": "opaq.certificates.certificate",
    "compare": "opaq.solvers.comparison",
    "compile_problem": "opaq.product.compile",
    "convert": "opaq.reports.conversion",
    "free_memory": "opaq.spec",
    "load_policy": "opaq.loading.policy_files",
    "load_problem": "opaq.loading.scenarios",
    "measure": "opaq.opacity.measurement",
    "observable_operator": "opaq.opacity.operators",
    "read_gymnasium": "opaq.formats.gymnasium",
    "read_pomdp": "opaq.formats.pomdp.pomdp_reader",
    "read_prism": "opaq.formats.prism.storm",
    "read_umb": "opaq.formats.umb.umb_reader",
    "save_policy": "opaq.loading.policy_files",
    "scenarios": "opaq.loading.scenarios",  # the module itself
    "secret_posterior": "opaq.opacity.operators",
    "sequence_probability": "opaq.opacity.operators",
    "simulate": "opaq.simulation.sampling",
    "solve": "opaq.solvers.solution",
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
    "Certificate",
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
    "certify",
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
