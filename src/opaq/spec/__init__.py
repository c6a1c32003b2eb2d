"""The language of problem and policy files: plain values <-> the data types of opaq.model, with every fault found.

What users state (mappings, lists, arrays) comes in, `model` data go out, and back. Imports: model, automata.
"""

from opaq.spec.automaton_part import build_automaton
from opaq.spec.grid_part import build_grid
from opaq.spec.memory_part import build_memory, free_memory
from opaq.spec.model_part import build_mdp
from opaq.spec.observer_part import build_observer
from opaq.spec.policy_part import build_policy_class
from opaq.spec.problem_part import build_problem, problem_schema, problem_to_dict
from opaq.spec.secret_part import build_secret

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
    "problem_schema",
    "problem_to_dict",
]
