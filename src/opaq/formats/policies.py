"""Policies and the chains they induce, for spreadsheets, people and other tools.

These formats are written and never read back; a policy is kept as YAML or JSON (`opaq.save_policy`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence

import numpy as np

from opaq.errors import Faults, escape_invisible, escape_separator, spreadsheet_cell
from opaq.formats.format import Export, Format
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.mdp import MDP
from opaq.model.policy import Policy, RowKey
from opaq.product.compile import Product, compile_problem

_DETERMINISTIC = 1e-9  # how far from 1 the chosen action's probability may be
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9_]+")


def policy_to_csv(policy: Policy, actions: Sequence[str] | None = None) -> str:
    """Return a policy as CSV: one line per row, its conditions, then the probability of every action in full precision.

    actions: the columns, in order; by default the actions that occur.
    Cells that a spreadsheet would take for a formula are made harmless.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = _actions(policy, actions)
    writer.writerow([*policy.policy_class.conditions_on, *map(spreadsheet_cell, columns)])
    for key, row in policy.rows.items():
        writer.writerow(
            [*map(spreadsheet_cell, _words(key)), *(repr(float(row.get(action, 0.0))) for action in columns)]
        )
    return file.getvalue()


def policy_to_table(policy: Policy, actions: Sequence[str] | None = None, *, digits: int = 4) -> str:
    """Return a policy as aligned text with the columns of `policy_to_csv`.

    actions: the columns, in order; by default the actions that occur.
    digits: the decimals to which probabilities are rounded.
    """
    columns = _actions(policy, actions)
    lines = [[*policy.policy_class.conditions_on, *map(escape_invisible, columns)]]
    for key, row in policy.rows.items():
        lines.append(
            [*map(escape_invisible, _words(key)), *(f"{row.get(action, 0.0):.{digits}f}" for action in columns)]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    split = len(policy.policy_class.conditions_on)
    return "".join(_align(line, widths, split) for line in lines)


def policy_to_storm_scheduler(policy: Policy, mdp: MDP) -> str:
    """Return Storm's scheduler JSON, states and choices numbered as in the model.

    policy: looks at the state alone and always takes one action; mdp: the model.
    Raises InputError unless the policy does so and covers every state that has a choice; all faults are listed.
    """
    faults = Faults()
    if policy.policy_class.conditions_on != ("state",):
        conditions = ", ".join(policy.policy_class.conditions_on) or "nothing"
        faults.error("policy", f"conditions on {conditions}", "a Storm scheduler conditions on the state alone")
        faults.raise_if_any()
    choices = [_only_choice(policy, mdp, state, faults) for state in range(mdp.num_states)]
    faults.raise_if_any()
    entries = [
        {"s": state, "c": [{"index": choice, "labels": [mdp.actions[mdp.choice_action[choice]]], "prob": 1.0}]}
        for state, choice in enumerate(choices)
    ]
    return json.dumps(entries, indent=4, sort_keys=True) + "\n"


def chain_to_drn(product: Product, pi: FloatArray) -> str:
    """Return the Markov chain that a policy vector induces on the product, as a DRN file that Storm reads.

    product: the compiled problem.
    pi: the probability of every slot of the policy.
    Labels are those of the model's states and `secret_` with the secret's value; `horizon` marks states that the
    product does not follow any further, which loop. A start that is drawn gets a state of its own, labelled `source`.
    """
    process = product.process
    flow, reward = process.flow(pi), np.asarray(process.payoffs[0].slots @ pi).reshape(-1)
    source, num_states = process.num_states, process.num_states
    first, last = process.edge_start[source : source + 2].tolist()
    drawn = last - first > 1
    initial = source if drawn else int(process.edge_target[first])
    labels = _chain_labels(product)
    count = num_states + int(drawn)
    lines = ["@type: DTMC", "@parameters", "", "@reward_models", "return", "@nr_states", str(count)]
    lines += ["@nr_choices", str(count), "@model"]
    for state in range(count):
        edges = range(*process.edge_start[state : state + 2].tolist())
        marks = [*(("init",) if state == initial else ()), *(labels[state] if state < num_states else ("source",))]
        targets = [(int(process.edge_target[edge]), float(flow[edge])) for edge in edges if flow[edge] > 0]
        lines += _drn_state(state, float(reward[state]) if state < num_states else 0.0, marks, targets)
    return "\n".join(lines) + "\n"


def _drn_state(state: int, reward: float, marks: list[str], targets: list[tuple[int, float]]) -> Iterator[str]:
    """Yield the lines of one state; one without a transition loops and is labelled `horizon`.

    state: its number; reward: what it earns; marks: its labels; targets: (next state, probability).
    """
    stuck = not targets
    yield " ".join([f"state {state} [{reward!r}]", *marks, *(("horizon",) if stuck else ())])
    yield "\taction 0 [0]"
    yield from (f"\t\t{target} : {probability!r}" for target, probability in targets or [(state, 1.0)])


def _chain_labels(product: Product) -> list[list[str]]:
    """Return the labels of every product state, in letters that Storm accepts."""
    of_state = [sorted(map(_label, labels)) for labels in product.problem.mdp.labels_of()]
    values = [f"secret_{_label(value)}" for value in product.secret_values]
    secret: IntArray = product.process.secret
    return [
        [*dict.fromkeys([*of_state[state], values[value]])]
        for state, value in zip(product.state_of.tolist(), secret.tolist(), strict=True)
    ]


def _label(name: str) -> str:
    """Return a name as a label of Storm: other characters become "_", and words that DRN uses get one more."""
    label = _NOT_IN_A_LABEL.sub("_", name) or "_"
    return f"{label}_" if label in ("init", "source", "horizon") else label


def _only_choice(policy: Policy, mdp: MDP, state: int, faults: Faults) -> int:
    """Return the choice that a deterministic policy takes in a state; -1 after noting that it takes none or several.

    state: its position; faults: gets what is wrong with its row.
    Where a state has one choice the policy need not have a row.
    """
    choices = range(*mdp.choice_start[state : state + 2].tolist())
    row = policy.rows.get((mdp.states[state],))
    if len(choices) == 1:
        return choices[0]
    if row is None:
        faults.error(f"policy row state={mdp.states[state]}", "is missing", "add the row")
        return -1
    sure = [choice for choice in choices if row.get(mdp.actions[mdp.choice_action[choice]], 0.0) >= 1 - _DETERMINISTIC]
    if not sure:
        faults.error(
            f"policy row state={mdp.states[state]}", "takes more than one action", "export it as CSV or JSON instead"
        )
    return sure[0] if sure else -1


def _actions(policy: Policy, actions: Sequence[str] | None) -> list[str]:
    """Return the given actions, or those that occur in the rows, in order."""
    if actions is not None:
        return list(actions)
    return list(dict.fromkeys(action for row in policy.rows.values() for action in row))


def _words(key: RowKey) -> list[str]:
    """Return the parts of a row key as text.

    Names of a list are joined by " > ", and a ">" inside one is escaped by a backslash.
    """
    return [
        " > ".join(escape_separator(name, ">") for name in part) if isinstance(part, tuple) else str(part)
        for part in key
    ]


def _align(line: list[str], widths: list[int], split: int) -> str:
    """Return one line of a table: the first `split` cells to the left, the numbers after them to the right.

    widths: the characters of each column; columns are two spaces apart.
    """
    cells = (
        text.ljust(width) if column < split else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    )
    return "  ".join(cells).rstrip() + "\n"


def _write_scheduler(policy: Policy, export: Export) -> str:
    """Return Storm's scheduler of a policy for the model of the problem it is for."""
    assert export.problem is not None  # a policy is not read without its problem
    return policy_to_storm_scheduler(policy, export.problem.mdp)


def write_chain(policy: Policy, export: Export) -> str:
    """Return the DRN file of the Markov chain that a policy induces on the problem it is for."""
    assert export.problem is not None  # a policy is not read without its problem
    product = compile_problem(export.problem, policy.policy_class)
    return chain_to_drn(product, product.policy_vector(policy))


CSV = Format("csv", "a table", "table", (".csv",), writers={"policy": lambda policy, export: policy_to_csv(policy)})
TXT = Format(
    "txt", "a policy as text", "policy", (".txt",), writers={"policy": lambda policy, export: policy_to_table(policy)}
)
SCHEDULER = Format(
    "scheduler", "a scheduler of Storm", "policy", (".storm.json",), writers={"policy": _write_scheduler}
)
