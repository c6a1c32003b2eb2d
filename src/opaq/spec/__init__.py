"""Translate problem and policy files: plain values <-> the data types of opaq.model, with every fault found.

What users state (mappings, lists, arrays) comes in, `model` data go out, and back. Imports: model, automata.

`cursor` walks a value and notes faults, `grammar` describes mappings once for reading, writing, schema and reference
page, and every part of a file (model, grid, observer, secret, task, policy) has one `_part` module. `build_*` are the
entrances for Python, `yaml` reads files with the line of everything in them. A reader returns None after it has noted
a fault and reading goes on, so that one run reports all that is wrong.
"""

from opaq.spec.automaton_part import build_automaton as build_automaton
from opaq.spec.grid_part import build_grid as build_grid
from opaq.spec.memory_part import build_memory as build_memory
from opaq.spec.memory_part import free_memory as free_memory
from opaq.spec.model_part import build_mdp as build_mdp
from opaq.spec.observer_part import build_observer as build_observer
from opaq.spec.policy_part import build_policy_class as build_policy_class
from opaq.spec.problem_part import build_problem as build_problem
from opaq.spec.problem_part import problem_schema as problem_schema
from opaq.spec.problem_part import problem_to_dict as problem_to_dict
from opaq.spec.secret_part import build_secret as build_secret
