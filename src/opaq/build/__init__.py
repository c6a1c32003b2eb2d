"""From what users state (plain values or arrays) to the data types of opaq.model, with every fault found."""

from opaq.build.automaton import build_automaton
from opaq.build.grid import build_grid
from opaq.build.mdp import build_mdp
from opaq.build.memory import build_memory, free_memory
from opaq.build.observer import build_observer
from opaq.build.policy_class import build_policy_class
from opaq.build.problem import build_problem
from opaq.build.secret import build_secret

__all__ = [
    "build_automaton",
    "build_grid",
    "build_mdp",
    "build_memory",
    "build_observer",
    "build_policy_class",
    "build_problem",
    "build_secret",
    "free_memory",
]
