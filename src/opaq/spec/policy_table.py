"""Read and write policies as the plain mapping of a policy file.

{"format": "opaq-policy", "version": 1, "model": fingerprint, "conditions_on": [...],
 "rows": [{condition: value, ..., "probabilities": {action: probability}}, ...]}

The mapping comes in, a `model.Policy` for a problem goes out, and back. Without `conditions_on` the keys of the rows
say what the policy conditions on; `model` refuses a policy that was made for another model. Missing rows are not
looked for here. One row of a policy on state and time:

    {"state": "q0", "time": 3, "probabilities": {"a": 0.3, "b": 0.7}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opaq.errors import Faults, list_names
from opaq.model.conditions import (
    MAX_LAST_STATES,
    MAX_OBSERVATIONS,
    AutomatonState,
    BeliefNode,
    Condition,
    LastStates,
    MemoryNode,
    Observations,
)
from opaq.model.fingerprint import model_fingerprint
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass, RowKey, row_name
from opaq.model.problem import MAX_HORIZON, Problem
from opaq.model.secret import Language
from opaq.spec.cursor import Cursor, NameTable, Scope, cell_name, read_with_faults
from opaq.spec.grammar import NAME, TEXT, Fields, Key, Record, raw_value
from opaq.spec.memory_part import joint_actions
from opaq.spec.policy_part import CONDITIONS, POLICY, write_conditions
from opaq.spec.rows import distribution_of, read_distribution

FORMAT = "opaq-policy"
VERSION = 1
_LISTS: dict[type[Condition], int] = {LastStates: MAX_LAST_STATES, Observations: MAX_OBSERVATIONS}
_MOST_MISSPELT = 3  # unknown names; with more of them the policy is for another model


def policy_from_dict(
    data: Any, problem: Problem, *, ignore_model_mismatch: bool = False, faults: Faults | None = None, path: str = ""
) -> Policy:
    """Return a policy for a problem from the mapping of a policy file; missing rows are not looked for.

    data: the mapping.
    problem: the problem that the policy is for.
    ignore_model_mismatch: whether a policy that says it was made for another model is read all the same.
    faults: collects every fault instead of raising InputError; the policy is then None when it is unusable.
    path: what faults call the file.
    """

    def read(cursor: Cursor) -> Policy | None:
        """Return the policy at a cursor; None after a fault."""
        if _is_of_another_model(cursor, problem, ignore_model_mismatch=ignore_model_mismatch):
            return None
        fields = POLICY_FILE.open(cursor)
        return None if fields is None else _read_policy(fields, problem)

    return read_with_faults(read, _row_scope(problem, horizon=problem.horizon).cursor(data, path), faults)


def check_rows(policy: Policy, problem: Problem, keys: Iterable[RowKey], faults: Faults) -> None:
    """Note the names in some rows of a finished policy that the problem does not have.

    policy: the policy; problem: the problem that it is used for.
    keys: the rows to check. Rows of cases that do not occur may be there, such as those of times after the horizon.
    faults: gets one fault for each unknown name.
    """
    row_keys = list(keys)
    if not row_keys:
        return
    policy_class = policy.policy_class
    names = _row_scope(problem, horizon=MAX_HORIZON, **_node_tables(policy_class))
    choices = _Rows.of(problem, policy_class).choices
    for key in row_keys:
        cursor = Cursor(None, f"policy row {row_name(policy_class, key)}", faults, names)
        for condition, part in zip(policy_class.conditions, key, strict=True):
            if condition.key in CONDITIONS:
                CONDITIONS[condition.key].row(replace(cursor, value=part), condition)
        for action in policy.rows[key]:
            choices.find(replace(cursor, value=action))


def _node_tables(policy_class: PolicyClass) -> dict[str, Any]:
    """Return the fields of Scope that name the nodes of the machines of a class: its memory, its belief graph."""
    memory = policy_class.memory
    beliefs = next((one.graph.nodes for one in policy_class.conditions if isinstance(one, BeliefNode)), None)
    return {
        "nodes": NameTable.of("node", None if memory is None else memory.nodes),
        "beliefs": NameTable.of("belief", beliefs),
    }


def _row_scope(problem: Problem, **more: Any) -> Scope:
    """Return what the rows of a policy for a problem may name.

    more: further fields of Scope, such as the horizon and the nodes of a memory.
    """
    secret, observer = problem.policy_secret, problem.observers[problem.policy_observer]
    automaton = secret.automaton.states if isinstance(secret, Language) else None
    # Observers of other kinds name what they show in their trackers, which are not known here.
    observations = observer.seen_names if isinstance(observer, Observer) else None
    return Scope.of(
        problem.mdp,
        has_automaton=automaton is not None,
        automaton=NameTable.of("automaton state", automaton),
        observations=NameTable.of("observation", observations),
        **more,
    )


def policy_to_dict(policy: Policy, *, problem: Problem | None = None) -> dict[str, Any]:
    """Return the mapping of a policy file; given the problem, it says its model and states a memory machine in names.

    policy: the policy.
    problem: the problem it is for.
    """
    names = Scope() if problem is None else Scope.of(problem.mdp)
    model = {} if problem is None else {"model": model_fingerprint(problem.mdp)}
    keys = policy.policy_class.conditions_on
    rows = [
        {name: list(part) if isinstance(part, tuple) else part for name, part in zip(keys, key, strict=True)}
        | {"probabilities": {action: float(share) for action, share in row.items()}}
        for key, row in policy.rows.items()
    ]
    conditions = write_conditions(policy.policy_class, names)
    return {"format": FORMAT, "version": VERSION, **model, "conditions_on": conditions, "rows": rows}


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the rows of one policy may say.

    policy_class: what the rows condition on, in the order of their keys.
    choices: the actions, or with a free memory "action>node".
    """

    policy_class: PolicyClass
    mdp: MDP
    choices: NameTable  # actions, or with a free memory "action>node"

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass) -> _Rows:
        """Return what the rows of a policy of this class may say: with a free memory they choose "action>node"."""
        memory, actions = policy_class.memory, problem.mdp.actions
        if memory is None or not memory.free:
            return cls(policy_class, problem.mdp, NameTable.of("action", actions))
        return cls(policy_class, problem.mdp, NameTable.of("choice", joint_actions(actions, memory)))

    def read(self, cursor: Cursor) -> tuple[RowKey, dict[str, float] | None] | None:
        """Return the key of a row and its probabilities; None when the key is unusable.

        cursor: a row, a mapping with one key per condition and `probabilities`.
        The probabilities alone are None when only they are unusable.
        """
        kinds = [(condition, CONDITIONS[condition.key]) for condition in self.policy_class.conditions]
        keys = [Key(kind.of.key, _PART, kind.help, required="every row needs it") for _, kind in kinds]
        fields = Record("row", "A row of a policy.", (*keys, _PROBABILITIES)).open(cursor)
        if fields is None:
            return None
        present = [(fields.at(kind.of.key), condition, kind) for condition, kind in kinds if kind.of.key in fields]
        parts = [part for at, condition, kind in present if (part := kind.row(at, condition)) is not None]
        usable = len(parts) == len(kinds)
        named = zip(kinds, parts, strict=True) if usable else ()
        state = [kind.state(part) for (_, kind), part in named if kind.state is not None]
        row = self._probabilities(fields.at("probabilities"), state) if "probabilities" in fields else None
        return (tuple(parts), row) if usable else None

    def _probabilities(self, cursor: Cursor, state: list[str]) -> dict[str, float] | None:
        """Return action -> probability of a row; None after a fault.

        cursor: {action: probability}, or {"action>node": probability} with a free memory.
        state: the current state, where the row says it; the last entry counts, and actions must be enabled there.
        """
        row = read_distribution(cursor, self.choices)
        if row is not None and state:
            self._check_enabled(cursor, row, state[-1])
        return None if row is None else {self.choices.listed[choice]: share for choice, share in row.items()}

    def _check_enabled(self, cursor: Cursor, row: Mapping[int, float], state: str) -> None:
        """Note actions of positive probability that are not enabled in the row's state."""
        mdp, names = self.mdp, self.choices.listed
        index = (cursor.scope.states.index or {})[state]
        enabled = mdp.choice_action[mdp.choice_start[index] : mdp.choice_start[index + 1]].tolist()
        for choice, share in row.items():
            action = choice * len(mdp.actions) // len(names)
            if share > 0 and action not in enabled:
                finding = f"action '{mdp.actions[action]}' is not enabled in state '{state}'"
                listed = list_names(mdp.actions[other] for other in enabled)
                cursor.child(names[choice], None).error(finding, f"enabled are {listed}")


def _read_policy(fields: Fields, problem: Problem) -> Policy | None:
    """Return the policy of an opened policy file; None after a fault.

    fields: the keys of POLICY_FILE; problem: the problem that the policy is for.
    Rows that are unusable are noted and left out; a row that repeats the key of another is a fault.
    """
    for name, expected in (("format", FORMAT), ("version", VERSION)):
        value = fields.at(name).value
        if name in fields and (value is True or value != expected):
            fields.at(name).wrong(f"'{expected}'" if isinstance(expected, str) else str(expected))
    entries = fields.at("rows").items() if "rows" in fields else None
    if entries is None:
        return None
    mappings = [entry for entry in entries if entry.entries() is not None]
    policy_class = _policy_class(fields, mappings, problem)
    if policy_class is None:
        return None
    rows, nodes = _Rows.of(problem, policy_class), _node_tables(policy_class)
    probabilities: dict[RowKey, dict[str, float]] = {}
    first: dict[RowKey, Cursor] = {}
    for entry in mappings:
        read = rows.read(entry.within(replace(entry.scope, **nodes)))
        if read is None:
            continue
        key, row = read
        if key in first:
            entry.error(f"repeats {first[key].path}", "keep one of them")
        first.setdefault(key, entry)
        if row is not None:
            probabilities[key] = row
    return Policy(policy_class, probabilities)


def _policy_class(fields: Fields, rows: list[Cursor], problem: Problem) -> PolicyClass | None:
    """Return what the policy conditions on: as the file says, else the keys of its rows; None after a fault.

    fields: the opened file.
    rows: the rows that are mappings; the longest list in them says how many states or observations are kept.
    problem: its own policy class gives the order of the keys and the memory machine.
    """
    if "conditions_on" in fields:
        policy_class: PolicyClass | None = fields.read("conditions_on")
        return policy_class
    mentioned, own, where = {key for row in rows for key in row.value}, problem.policy_class, fields.at("rows")
    keys = tuple(key for key in CONDITIONS if key in mentioned)
    if not keys:
        return where.error("no row says when it applies", 'give rows a "state"')
    if set(keys) == set(own.conditions_on):
        keys = own.conditions_on
    if AutomatonState.key in keys and not where.scope.has_automaton:
        return where.error("have 'automaton', but the secret has no automaton", "remove it")
    if MemoryNode.key in keys and own.memory is None:
        return where.error("have 'memory', but there is no machine", "add it under conditions_on")
    if BeliefNode.key in keys and BeliefNode.key not in own.conditions_on:
        return where.error("have 'belief', but there is no graph", "add it under conditions_on")
    num_states, num_observations = (min(_longest(rows, kind.key), most) for kind, most in _LISTS.items())
    return PolicyClass(keys, conditions=(LastStates(num_states), Observations(num_observations), *own.conditions))


def _longest(rows: list[Cursor], key: str) -> int:
    """Return the length of the longest list under a key of the rows, at least 1."""
    values = [row.value.get(key) for row in rows]
    return max([1, *(len(names) for names in values if isinstance(names, list | tuple))])


def _is_of_another_model(cursor: Cursor, problem: Problem, *, ignore_model_mismatch: bool) -> bool:
    """Return whether a policy is for another model, by what it says or by the names it uses, which is noted.

    cursor: the whole file; problem: the problem that the policy should be for.
    ignore_model_mismatch: whether what it says does not matter. There is one fault then, not one per row.
    """
    data = cursor.value
    if not isinstance(data, Mapping):
        return False
    unknown = _unknown_names(data.get("rows"), cursor.scope)
    unknown_text = " and ".join(
        f"{len(names):,} unknown {kind}s ({list_names(names)})" for kind, names in unknown.items() if names
    )
    if not ignore_model_mismatch and data.get("model") is not None and data["model"] != model_fingerprint(problem.mdp):
        known = "its names are those of this problem: start, transitions, rewards or labels differ"
        finding = f"the policy was made for another model: {f'it names {unknown_text}' if unknown_text else known}"
        advice = "use its own problem, or allow any model"
        cursor.child("model", None).error(finding, advice, option="ignore_model_mismatch")
        return True
    if max(map(len, unknown.values())) <= _MOST_MISSPELT:
        return False
    finding = f"are for another model: they name {unknown_text}"
    cursor.child("rows", None).error(finding, "use the problem that the policy is for")
    return True


def _unknown_names(rows: Any, scope: Scope) -> dict[str, list[str]]:
    """Return the states and actions that rows name and the problem does not have, as far as the rows are well formed.

    rows: the value of `rows`, as it stands in the file; scope: the names of the problem.
    Returns {"state": [...], "action": [...]}, each name once.
    """
    states, actions = scope.states.index or {}, scope.actions.index or {}
    missing: dict[str, dict[str, None]] = {"state": {}, "action": {}}
    for row in rows if isinstance(rows, list | tuple) else []:
        table = row if isinstance(row, Mapping) else {}
        recent = table.get("last_states")
        used = [table.get("state"), table.get("start"), *(recent if isinstance(recent, list | tuple) else [])]
        missing["state"] |= {str(name): None for name in used if _is_unknown(name, states)}
        choices = table.get("probabilities")
        named = [str(choice) for choice in (choices if isinstance(choices, Mapping) else ())]
        plain = [name if name in actions else name.rpartition(">")[0] or name for name in named]
        missing["action"] |= {name: None for name in plain if name not in actions}
    return {kind: list(unknown) for kind, unknown in missing.items()}


def _is_unknown(name: Any, states: Mapping[str, int]) -> bool:
    """Return whether a name is no state, nor a cell that is one; a value that is no name is not called unknown."""
    if not isinstance(name, str | int) or isinstance(name, bool):
        return False
    return str(name) not in states and cell_name(str(name)) not in states


_PART = raw_value("what the row is for", {})
_PROBABILITIES = Key(
    "probabilities",
    distribution_of("actions", "`{action: probability}`; with a free memory `{action>node: probability}`"),
    "What the policy does; actions left out have probability 0.",
    required="give {action: probability}",
)
POLICY_FILE: Record[Any] = Record(
    "policy file",
    "A policy: what it conditions on, and one row per case.",
    (
        Key("format", raw_value(f"`{FORMAT}`", {"const": FORMAT}), "The format.", required=f'write "{FORMAT}"'),
        Key("version", raw_value(f"`{VERSION}`", {"const": VERSION}), "Its version.", required=f"write {VERSION}"),
        Key("name", NAME, "A short name."),
        Key("description", TEXT, "What the policy is about."),
        Key("model", TEXT, "The fingerprint of the model it was made for."),
        *POLICY.keys,
        Key("rows", raw_value("a list of rows", {"type": "array"}), "One per case.", required="list the rows"),
    ),
    example="""\
{"format": "opaq-policy", "version": 1,
 "rows": [{"state": "q0", "probabilities": {"a": 0.3, "b": 0.7}}]}""",
)
