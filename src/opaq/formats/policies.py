"""Policies and the chains they induce, for spreadsheets, people and other tools.

A policy comes in, text goes out; CSV and Storm's schedulers are read back, as the mapping of a policy file, which
`opaq.load` checks like any other. YAML and JSON (`formats.plain`) hold every policy, the machine of a memory included.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from opaq.errors import (
    Fault,
    Faults,
    InputError,
    describe_value,
    escape_invisible,
    escape_separator,
    is_int,
    is_number,
    list_names,
    read_spreadsheet_cell,
    spreadsheet_cell,
)
from opaq.formats.format import Export, Format
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.conditions import BeliefNode, LastStates, MemoryNode, Observations, Time
from opaq.model.mdp import MDP
from opaq.model.policy import Policy, RowKey
from opaq.model.problem import Problem
from opaq.product.compile import Product, compile_problem
from opaq.spec.policy_part import CONDITIONS
from opaq.spec.policy_table import FORMAT, VERSION
from opaq.spec.yaml import Document, parse_yaml, with_lines

_LONG = ["action", "probability"]  # the last columns of a table with one line per row and action
_LISTS = (LastStates.key, Observations.key)  # conditions whose cells are lists of names
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[\\>tnr])")  # in the names of a list
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


def parse_policy_csv(text: str, problem: Problem, faults: Faults) -> Document:
    """Return the mapping of a policy file that a CSV says, and the line of every row of it.

    text: with a head: conditions ("state", "time", ...), then one column per action, as `policy_to_csv` writes it; or
        conditions, `action` and `probability`, as `Policy.to_dataframe` has them. Columns may be parted by semicolons
        or tabs. Empty cells are 0.
    problem: what the policy is for, whose names the cells stand for.
    faults: gets no warnings here.
    Raises InputError where it is no such table. What the cells say is checked by the reader of policy files.
    """
    first = text.partition("\n")[0]
    separator = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    names = {spreadsheet_cell(name): name for name in (*problem.mdp.states, *problem.mdp.actions)}
    head = [names.get(cell, read_spreadsheet_cell(cell)).strip() for cell in (lines[0][1] if lines else [])]
    split = _count_conditions(head, [cells for _, cells in lines[1:]], problem.mdp.actions)
    _check_table(head, split, lines, problem)
    keys, columns = head[:split], head[split:]
    is_long = columns == _LONG and not {*_LONG} <= {*problem.mdp.actions}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    placed: dict[str, int] = {}
    for number, cells in lines[1:]:
        said = [names.get(cell, read_spreadsheet_cell(cell.strip())) for cell in cells]
        where = (*said[:split], *(() if is_long else (str(number),)))  # rows of the wide table are never merged
        if where not in rows:
            placed[f"rows.{len(rows)}"] = number
            parts = {key: _read_part(key, part) for key, part in zip(keys, said, strict=False)}
            rows[where] = {**parts, "probabilities": {}}
        shares = {said[split]: cells[split + 1]} if is_long else dict(zip(columns, cells[split:], strict=True))
        rows[where]["probabilities"] |= {action: _read_share(cell) for action, cell in shares.items() if cell.strip()}
    return Document({"format": FORMAT, "version": VERSION, "rows": list(rows.values())}, placed)


def _count_conditions(head: list[str], body: list[list[str]], actions: Sequence[str]) -> int:
    """Return how many of the first columns are conditions.

    A column called like a condition and like an action ("start") is that action where all its cells are probabilities.
    """
    for index, name in enumerate(head):
        shares = [_read_share(cells[index]) for cells in body if index < len(cells)]
        likely = bool(shares) and all(isinstance(share, float) and 0 <= share <= 1 for share in shares)
        if name not in CONDITIONS or (name in actions and likely and index > 0):
            return index
    return len(head)


def _check_table(head: list[str], split: int, lines: list[tuple[int, list[str]]], problem: Problem) -> None:
    """Refuse a table without conditions or actions, with a column twice, and lines of another length.

    split: how many columns are conditions. Raises InputError with every fault.
    """
    faults = Faults()
    if split == 0 or split == len(head):
        found = f"the head is '{', '.join(head)[:60]}'" if head else "is empty"
        faults.errors.append(
            Fault("", found, "begin with a line such as: state,time,ACTION,ACTION (or state,action,probability)", 1)
        )
    for machine in (MemoryNode.key, BeliefNode.key):
        if machine in head[:split] and machine not in problem.policy_class.conditions_on:
            advice = "keep such a policy as JSON, or state the machine in the problem"
            faults.errors.append(Fault(machine, "a table does not hold the machine", advice, 1))
    for part in (head[:split], head[split:]):  # an action may be called like a condition
        for name in dict.fromkeys(name for index, name in enumerate(part) if name in part[:index]):
            faults.errors.append(Fault(name, "there are two columns of this name", "keep one of them", 1))
    faults.errors += [
        Fault("", f"has {len(cells)} cells, but the head has {len(head)}", line=number)
        for number, cells in lines[1:]
        if len(cells) != len(head)
    ]
    faults.raise_if_any()


def _read_part(key: str, cell: str) -> Any:
    """Return what a cell says of a condition: a time as a number, lists as lists, anything else as it is."""
    if key == Time.key and cell.strip().isdecimal():
        return int(cell)
    if key not in _LISTS:
        return cell
    return [_ESCAPE.sub(_unescape, name) for name in cell.split(" > ")]  # a ">" in a name follows a backslash


def _unescape(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for: a separator, a backslash, or one that is not printable."""
    return escape[1] if escape[1] in "\\>" else escape[0].encode().decode("unicode_escape")


def _read_share(cell: Any) -> Any:
    """Return a probability that is written as 0.5 or 1/2; anything else as it is, to be refused by whoever reads it."""
    try:
        return float(Fraction(cell)) if isinstance(cell, str) and "/" in cell else float(cell)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return cell


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

    policy: looks at the state alone; mdp: the model.
    Raises InputError unless the policy does so and covers every state that has a choice; all faults are listed.
    """
    faults = Faults()
    if policy.policy_class.conditions_on != ("state",):
        conditions = ", ".join(policy.policy_class.conditions_on) or "nothing"
        faults.error("policy", f"conditions on {conditions}", "a Storm scheduler conditions on the state alone")
        faults.raise_if_any()
    entries = []
    for state, name in enumerate(mdp.states):
        choices = range(*mdp.choice_start[state : state + 2].tolist())
        actions = {choice: mdp.actions[mdp.choice_action[choice]] for choice in choices}
        row = policy.rows.get((name,), {actions[choices[0]]: 1.0} if len(choices) == 1 else None)
        if row is None:
            faults.error(f"policy row state={name}", "is missing", "add the row")
            continue
        taken = {choice: float(row.get(action, 0.0)) for choice, action in actions.items()}
        drawn = [
            {"index": choice, "labels": [actions[choice]], "prob": share} for choice, share in taken.items() if share
        ]
        entries.append({"s": state, "c": drawn})
    faults.raise_if_any()
    return json.dumps(entries, indent=4, sort_keys=True) + "\n"


def is_scheduler(data: object) -> bool:
    """Return whether the content of a JSON file is a scheduler of Storm: a list of choices "c" of states "s"."""
    return isinstance(data, list) and bool(data) and all(isinstance(each, Mapping) and "c" in each for each in data)


def parse_scheduler(text: str, problem: Problem, faults: Faults) -> Document:
    """Return the mapping of a policy file that a scheduler of Storm says, and the line of every row of it.

    text: what `storm --exportscheduler FILE.json` writes: per state "s" (its number, or the values of its variables)
        the choices "c", each with its global "index", its "labels" and its probability "prob".
    problem: what the policy is for; its model is the one that Storm solved.
    faults: gets a warning where states that have a choice are left out, which Storm does where it does not matter:
        they take every action alike.
    Raises InputError with every entry that does not fit the model, each with its line.
    """
    document = parse_yaml(text)
    if not is_scheduler(document.data):
        raise InputError([Fault("", "is no scheduler of Storm", "give what storm --exportscheduler FILE.json writes")])
    found, mdp = Faults(), problem.mdp
    states, rows, placed = _StateFinder(mdp), dict[int, dict[str, Any]](), dict[str, int]()
    at = [states.find(entry.get("s")) for entry in document.data]
    numbered = all(
        state is None or all(_choice_name(choice, mdp, state, numbered=True) for choice in _choices(entry))
        for state, entry in zip(at, document.data, strict=True)
    )
    for index, (state, entry) in enumerate(zip(at, document.data, strict=True)):
        if state is None:
            seen = describe_value(entry.get("s"))
            found.error(f"{index}.s", f"{seen} is no state of the model", "use the problem whose model Storm solved")
        elif entry.get("m", 0) != 0:
            found.error(f"{index}.m", "the scheduler has a memory", "only schedulers without one are read")
        elif state in rows:
            found.error(f"{index}.s", f"state '{mdp.states[state]}' is there twice", "keep one of them")
        elif _choices(entry):
            placed[f"rows.{len(rows)}"] = document.lines.get(str(index), 1)
            rows[state] = _scheduled_row(_choices(entry), mdp, state, f"{index}.c", found, numbered=numbered)
    if found.errors:
        raise InputError(with_lines(found.errors, document.lines))
    counts = np.diff(mdp.choice_start)
    left = [state for state in range(mdp.num_states) if state not in rows]
    free = [mdp.states[state] for state in left if counts[state] > 1]
    if free:
        said = f"says nothing of {list_names(free)}, where Storm takes any action"
        faults.warn("", said, "they take every action alike here")
    for state in left:
        choices = range(*mdp.choice_start[state : state + 2].tolist())
        rows[state] = {mdp.actions[mdp.choice_action[choice]]: 1 / len(choices) for choice in choices}
    table = [{"state": mdp.states[state], "probabilities": row} for state, row in rows.items()]
    return Document({"format": FORMAT, "version": VERSION, "conditions_on": ["state"], "rows": table}, placed)


class _StateFinder:
    """Finds the states of a model by their number, name, or variables, as their names "x=1,y=true" have them."""

    def __init__(self, mdp: MDP) -> None:
        self._index = mdp.state_index()
        self._by_values = {frozenset(name.split(",")): state for name, state in self._index.items() if "=" in name}
        self._variables = {frozenset(each.partition("=")[0] for each in pairs) for pairs in self._by_values}

    def find(self, said: Any) -> int | None:
        """Return the position of a state; None where there is none. said: a number, a name, {variable: value}."""
        if isinstance(said, Mapping):
            words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in said.items()}
            named = (frozenset(f"{each}={words.get(each)}" for each in names) for names in self._variables)
            return next((self._by_values[pairs] for pairs in named if pairs in self._by_values), None)
        if is_int(said):
            return said if 0 <= said < len(self._index) else None
        return self._index.get(said) if isinstance(said, str) else None


def _choices(entry: Mapping[str, Any]) -> list[Any]:
    """Return the choices of one entry of a scheduler; none where they are "undefined"."""
    return entry["c"] if isinstance(entry["c"], list) else []


def _choice_name(choice: Any, mdp: MDP, state: int, *, numbered: bool) -> str | None:
    """Return the action of a choice of a scheduler; None where it is no choice of the state.

    numbered: True where the global numbers of choices are those of the model: then they tell actions of one label
    apart. Otherwise the label does, where one action of the state has it.
    """
    said = choice if isinstance(choice, Mapping) else {}
    index, labels = said.get("index"), said.get("labels")
    label = labels[0] if isinstance(labels, list) and len(labels) == 1 else None
    first, end = mdp.choice_start[state : state + 2].tolist()
    actions = [mdp.actions[action] for action in mdp.choice_action[first:end].tolist()]
    fitting = [name for name in actions if label is None or name == label or name.startswith(f"{label}.")]
    if numbered and is_int(index):
        return actions[index - first] if first <= index < end and actions[index - first] in fitting else None
    return fitting[0] if len(fitting) == 1 else None


def _scheduled_row(
    choices: list[Any], mdp: MDP, state: int, path: str, faults: Faults, *, numbered: bool
) -> dict[str, Any]:
    """Return action -> probability of one state of a scheduler.

    choices: its entries; path: where they stand. faults: gets those that fit no choice of the state.
    numbered: as for `_choice_name`.
    """
    row: dict[str, Any] = {}
    for position, choice in enumerate(choices):
        action = _choice_name(choice, mdp, state, numbered=numbered)
        share = _read_share(choice.get("prob", 1.0)) if isinstance(choice, Mapping) else None
        if action is None or not is_number(share):
            finding = f"{describe_value(choice)} tells no choice of state '{mdp.states[state]}'"
            advice = "let Storm build the whole model (--buildfull) with the labels of its choices (--buildchoicelab)"
            faults.error(f"{path}.{position}", finding, advice)
            continue
        row[action] = row.get(action, 0.0) + share
    return row


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
    if export.problem is None:
        raise InputError([Fault("problem", "is not given", "give the problem that the policy is for")])
    return policy_to_storm_scheduler(policy, export.problem.mdp)


def write_chain(policy: Policy, export: Export) -> str:
    """Return the DRN file of the Markov chain that a policy induces on the problem it is for."""
    if export.problem is None:
        raise InputError([Fault("problem", "is not given", "give the problem that the policy is for")])
    product = compile_problem(export.problem, policy.policy_class)
    return chain_to_drn(product, product.policy_vector(policy))


def _write_csv(policy: Policy, export: Export) -> str:
    """Return a policy as CSV; a machine that the table does not hold is noted."""
    for machine in {MemoryNode.key, BeliefNode.key} & {*policy.policy_class.conditions_on}:
        export.notes.append(f"a table does not hold the machine of '{machine}': keep the policy as JSON, too")
    return policy_to_csv(policy)


CSV = Format("csv", "a table", "policy", (".csv",), policy_reader=parse_policy_csv, writers={"policy": _write_csv})
TXT = Format(
    "txt", "a policy as text", "policy", (".txt",), writers={"policy": lambda policy, export: policy_to_table(policy)}
)
SCHEDULER = Format(
    "scheduler",
    "a scheduler of Storm",
    "policy",
    (".storm.json",),
    policy_reader=parse_scheduler,
    writers={"policy": _write_scheduler},
)
