"""Policies as the plain mapping of a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opaq.errors import Faults
from opaq.model.conditions import CONDITIONS
from opaq.model.mdp import MDP
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.spec.cursor import at, check_keys, gather, item, listing, mapping, some, whole, wrong
from opaq.spec.memory_part import joint_actions
from opaq.spec.model_fingerprint import model_fingerprint
from opaq.spec.names import Known, Names, cell_name, distribution, known
from opaq.spec.policy_part import MAX_LAST_STATES, read_conditions
from opaq.spec.problem_writer import conditions_to_list

FORMAT = "opaq-policy"
VERSION = 1
_MOST_MISSPELT = 3  # unknown names; with more of them the policy is for another model
KEYS = ("format", "version", "name", "description", "model", "conditions_on", "rows")


def policy_from_dict(
    data: Any, problem: Problem, *, any_model: bool = False, faults: Faults | None = None, path: str = ""
) -> Policy:
    """A policy for a problem from the mapping of a policy file; rows that are missing are not looked for.

    A policy that says it was made for another model is refused unless `any_model`.
    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """

    def read(found: Faults) -> Policy | None:
        if _is_of_another_model(data, path, found, problem, any_model=any_model):
            return None
        return _read_policy(data, path, found, problem)

    return gather(read, faults)


def policy_to_dict(policy: Policy, *, problem: Problem | None = None) -> dict[str, Any]:
    """The mapping of a policy file; given the problem, it says its model and tells a memory machine in names."""
    conditions = conditions_to_list(policy.policy_class, None if problem is None else problem.mdp)
    rows = [
        _told_key(policy.policy_class, key) | {"probabilities": {name: float(p) for name, p in row.items()}}
        for key, row in policy.rows.items()
    ]
    model = {} if problem is None else {"model": model_fingerprint(problem.mdp)}
    return {"format": FORMAT, "version": VERSION, **model, "conditions_on": conditions, "rows": rows}


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The names rows may use."""

    names: Names
    automaton: Known
    nodes: Known
    horizon: int
    mdp: MDP
    choices: Known  # actions, or with a free memory "action>node"


def _told_key(policy_class: PolicyClass, key: RowKey) -> dict[str, Any]:
    parts = zip(policy_class.conditions_on, key, strict=True)
    return {condition: list(part) if isinstance(part, tuple) else part for condition, part in parts}


def _read_policy(data: Any, path: str, faults: Faults, problem: Problem) -> Policy | None:
    spec = mapping(data, path, faults)
    if spec is None:
        return None
    required = {"format": f'write "{FORMAT}"', "version": f"write {VERSION}", "rows": "list the rows"}
    check_keys(spec, path, faults, allowed=KEYS, required=required)
    _check_constant(spec, "format", path, faults, expected=FORMAT)
    _check_constant(spec, "version", path, faults, expected=VERSION)
    where = at(path, "rows")
    rows = listing(spec["rows"], where, faults) if "rows" in spec else None
    if rows is None:
        return None
    tables = [mapping(row, item(where, place), faults) for place, row in enumerate(rows)]
    policy_class = _read_class(spec, tables, path, faults, problem)
    if policy_class is None:
        return None
    vocabulary = _vocabulary(problem, policy_class)
    found: dict[RowKey, dict[str, float]] = {}
    first: dict[RowKey, int] = {}
    for place, table in enumerate(tables):
        read = None if table is None else _read_row(table, item(where, place), faults, policy_class, vocabulary)
        if read is None:
            continue
        key, row = read
        if key in first:
            faults.error(item(where, place), f"repeats {item(where, first[key])}", "keep one of them")
        first.setdefault(key, place)
        if row is not None:
            found[key] = row
    return Policy(policy_class, found)


def _is_of_another_model(data: Any, path: str, faults: Faults, problem: Problem, *, any_model: bool) -> bool:
    """Whether a policy is for another model, by what it says or by the names it uses: one fault, not one a row."""
    if not isinstance(data, Mapping):
        return False
    unknown = _unknown_names(data.get("rows"), problem)
    listed = [f"{len(names):,} unknown {kind}s ({some(names)})" for kind, names in unknown.items() if names]
    if not any_model and data.get("model") is not None and data["model"] != model_fingerprint(problem.mdp):
        known = "its names are those of this problem: start, transitions, rewards or labels differ"
        found = f"the policy was made for another model: {'it names ' + ' and '.join(listed) if listed else known}"
        faults.error(at(path, "model"), found, "use its own problem, or allow any model")
        return True
    if max(map(len, unknown.values())) <= _MOST_MISSPELT:
        return False
    found = f"are for another model: they name {' and '.join(listed)}"
    faults.error(at(path, "rows"), found, "use the problem that the policy is for")
    return True


def _unknown_names(rows: Any, problem: Problem) -> dict[str, list[str]]:
    """The states and actions that rows name and the problem does not have, as far as the rows are well formed."""
    states, actions = Names.of(problem.mdp).states.index or {}, Names.of(problem.mdp).actions.index or {}
    strange: dict[str, dict[str, None]] = {"state": {}, "action": {}}
    for row in rows if isinstance(rows, list | tuple) else []:
        table = row if isinstance(row, Mapping) else {}
        recent = table.get("last_states")
        used = [table.get("state"), table.get("start"), *(recent if isinstance(recent, list | tuple) else [])]
        strange["state"] |= {str(name): None for name in used if _is_unknown(name, states)}
        choices = table.get("probabilities")
        named = [str(choice).partition(">")[0] for choice in (choices if isinstance(choices, Mapping) else ())]
        strange["action"] |= {name: None for name in named if name not in actions}
    return {kind: list(names) for kind, names in strange.items()}


def _is_unknown(name: Any, states: Mapping[str, int]) -> bool:
    if not isinstance(name, str | int) or isinstance(name, bool):
        return False
    return str(name) not in states and cell_name(str(name)) not in states


def _check_constant(spec: Mapping[str, Any], key: str, path: str, faults: Faults, *, expected: str | int) -> None:
    if key in spec and (spec[key] is True or spec[key] != expected):
        wrong(spec[key], at(path, key), faults, f"'{expected}'" if isinstance(expected, str) else str(expected))


def _vocabulary(problem: Problem, policy_class: PolicyClass) -> _Vocabulary:
    secret, memory = problem.secret, policy_class.memory
    automaton = known("automaton state", secret.automaton.states if isinstance(secret, Language) else None)
    nodes = known("node", None if memory is None else memory.nodes)
    names = Names.of(problem.mdp)
    joint = memory is not None and memory.free and "memory" in policy_class.conditions_on
    choices = known("choice", joint_actions(problem.mdp.actions, memory)) if memory and joint else names.actions
    return _Vocabulary(names, automaton, nodes, problem.horizon, problem.mdp, choices)


def _read_class(
    spec: Mapping[str, Any], rows: list[dict[str, Any] | None], path: str, faults: Faults, problem: Problem
) -> PolicyClass | None:
    """What the policy conditions on: as the file says, else the keys of its rows."""
    where, has_automaton = at(path, "conditions_on"), isinstance(problem.secret, Language)
    if "conditions_on" in spec:
        names = Names.of(problem.mdp)
        return read_conditions(spec["conditions_on"], where, faults, names, has_automaton=has_automaton)
    mentioned = {key for row in rows if row is not None for key in row}
    conditions = tuple(condition for condition in CONDITIONS if condition in mentioned)
    if not conditions:
        faults.error(at(path, "rows"), "no row says when it applies", 'give rows a "state"')
        return None
    own = problem.policy_class
    if set(conditions) == set(own.conditions_on):
        conditions = own.conditions_on
    if "automaton" in conditions and not has_automaton:
        faults.error(at(path, "rows"), "have 'automaton', but the secret has no automaton", "remove it")
        return None
    if "memory" in conditions and own.memory is None:
        faults.error(at(path, "rows"), "have 'memory', but there is no machine", "add it under conditions_on")
        return None
    steps = own.last_states or min(_longest(rows), MAX_LAST_STATES)
    return PolicyClass(
        conditions, steps if "last_states" in conditions else 0, own.memory if "memory" in conditions else None
    )


def _longest(rows: list[dict[str, Any] | None]) -> int:
    listed = [row["last_states"] for row in rows if row is not None and "last_states" in row]
    return max([1, *(len(states) for states in listed if isinstance(states, list | tuple))])


def _read_row(
    row: Mapping[str, Any], path: str, faults: Faults, policy_class: PolicyClass, vocabulary: _Vocabulary
) -> tuple[RowKey, dict[str, float] | None] | None:
    """The key of a row and its probabilities; None when the key is unusable."""
    conditions = policy_class.conditions_on
    required = dict.fromkeys(conditions, "every row needs it") | {"probabilities": "give {action: probability}"}
    check_keys(row, path, faults, allowed=tuple(required), required=required)
    parts = [
        _read_part(row[condition], at(path, condition), faults, condition, policy_class, vocabulary)
        for condition in conditions
        if condition in row
    ]
    key = tuple(part for part in parts if part is not None)
    complete = len(key) == len(conditions)
    state = _state_of(dict(zip(conditions, key, strict=True))) if complete else None
    told = None
    if "probabilities" in row:
        told = _read_probabilities(row["probabilities"], at(path, "probabilities"), faults, state, vocabulary)
    return (key, told) if complete else None


def _read_part(
    value: Any, path: str, faults: Faults, condition: str, policy_class: PolicyClass, vocabulary: _Vocabulary
) -> str | int | tuple[str, ...] | None:
    if condition == "time":
        return whole(value, path, faults, low=0, high=vocabulary.horizon)
    if condition == "last_states":
        return _read_last(value, path, faults, policy_class.last_states, vocabulary.names.states)
    kinds = {"automaton": vocabulary.automaton, "memory": vocabulary.nodes}
    return kinds.get(condition, vocabulary.names.states).spell(value, path, faults)


def _read_last(value: Any, path: str, faults: Faults, most: int, states: Known) -> tuple[str, ...] | None:
    entries = listing(value, path, faults)
    if entries is None:
        return None
    if not 1 <= len(entries) <= most:
        faults.error(path, f"has {len(entries)} states, not 1 to {most}", "list the latest states, oldest first")
        return None
    read = [states.spell(entry, item(path, place), faults) for place, entry in enumerate(entries)]
    told = tuple(name for name in read if name is not None)
    return told if len(told) == len(read) else None


def _state_of(key: Mapping[str, Any]) -> str | None:
    """The state a row is for, if its key tells."""
    if "state" in key:
        return str(key["state"])
    return str(key["last_states"][-1]) if "last_states" in key else None


def _read_probabilities(
    value: Any, path: str, faults: Faults, state: str | None, vocabulary: _Vocabulary
) -> dict[str, float] | None:
    choices = tuple(vocabulary.choices.index or ())
    shares = distribution(value, path, faults, vocabulary.choices)
    if shares is None:
        return None
    if state is not None:
        _check_enabled(shares, path, faults, state, vocabulary)
    return {choices[choice]: share for choice, share in shares.items()}


def _check_enabled(shares: Mapping[int, float], path: str, faults: Faults, state: str, vocabulary: _Vocabulary) -> None:
    mdp, index = vocabulary.mdp, vocabulary.names.states.index or {}
    place = index[state]
    enabled = mdp.choice_action[mdp.choice_start[place] : mdp.choice_start[place + 1]].tolist()
    told = tuple(vocabulary.choices.index or ())
    for choice, share in shares.items():
        action = choice * len(mdp.actions) // len(told)
        if share > 0 and action not in enabled:
            listed = some(mdp.actions[other] for other in enabled)
            found = f"action '{mdp.actions[action]}' is not enabled in state '{state}'"
            faults.error(at(path, told[choice]), found, f"enabled are {listed}")
