"""What a problem file lays over an imported model: start, labels, rewards, and what the observer gets to see."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import BoolArray, IntArray, SparseRows
from opaq.model.imported import Imported
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.spec.cursor import (
    at,
    check_keys,
    is_number,
    item,
    listing,
    mapping,
    one_key,
    option,
    probability,
    suggestion,
    unique_names,
)
from opaq.spec.model_part import check_label, read_start
from opaq.spec.names import Names, distribution, known, state_set
from opaq.spec.observer_part import read_signs
from opaq.spec.rewards import read_named_rewards, read_rewards, spread_rewards
from opaq.spec.transitions import Choices
from opaq.spec.variables import ExpressionError, holds

KEYS = ("start", "labels", "rewards", "named_rewards")
OBSERVER_KEYS = ("from", "variables", "share", "noise", "actions", "signs")
_BASES = ("from", "variables")
_MAX_ALIKE = 2_000  # observations that noise may take for each other
MAX_ENTRIES = 20_000_000  # of the emissions that noise leaves


def overlaid(imported: Imported, spec: Mapping[str, Any], path: str, faults: Faults) -> Imported:
    """The model with the start, labels and rewards of the problem file in place of its own; labels are added."""
    mdp = dataclasses.replace(imported.mdp, named_rewards=dict(imported.rewards))
    if "labels" in spec:
        labels = _read_labels(spec["labels"], at(path, "labels"), faults, imported)
        mdp = dataclasses.replace(mdp, labels={**mdp.labels, **labels})
    names = Names.of(mdp)
    if "start" in spec:
        value = states_where(spec["start"], at(path, "start"), faults, imported.variables)
        start = read_start(value, at(path, "start"), faults, names)
        mdp = mdp if start is None else dataclasses.replace(mdp, start=start)
    return dataclasses.replace(imported, mdp=_with_rewards(mdp, spec, path, faults, names))


def states_where(value: Any, path: str, faults: Faults, variables: Mapping[str, Any] | None) -> Any:
    """The value with every {where: expression} in it replaced by truth values, one a state.

    `variables` are those of the model's states; None when the model could not be read.
    """
    if isinstance(value, Mapping):
        if set(value) == {"where"} and isinstance(value["where"], str):
            return _marked(value["where"], at(path, "where"), faults, variables)
        return {key: states_where(entry, at(path, key), faults, variables) for key, entry in value.items()}
    if isinstance(value, list):
        return [states_where(entry, item(path, place), faults, variables) for place, entry in enumerate(value)]
    return value


def is_overlay(spec: Any) -> bool:
    """Whether an observer is stated by what the model itself shows."""
    return isinstance(spec, Mapping) and any(key in spec for key in _BASES)


def read_observer_overlay(value: Any, path: str, faults: Faults, imported: Imported) -> Observer | None:
    """An observer that sees the model's own observations or some state variables, shared and noisy as stated."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=OBSERVER_KEYS)
    kind = one_key(spec, path, faults, options=_BASES)
    observer = None
    if kind == "from":
        observer = _own(spec["from"], at(path, "from"), faults, imported)
    elif kind == "variables":
        observer = _of_variables(spec["variables"], at(path, "variables"), faults, imported)
    if observer is not None and "share" in spec:
        observer = _shared(observer, spec["share"], at(path, "share"), faults)
    if observer is not None and "noise" in spec:
        observer = _noisy(observer, spec["noise"], at(path, "noise"), faults)
    signs = read_signs(spec, path, faults, Names.of(imported.mdp).actions)
    if observer is None or signs is None or "actions" not in spec:
        return observer
    return dataclasses.replace(observer, action_signs=signs[0], action_emission=signs[1])


def _marked(text: str, path: str, faults: Faults, variables: Mapping[str, Any] | None) -> BoolArray | list[Any]:
    """In which states an expression holds; an empty list, and a fault, if that cannot be told."""
    if variables is None:
        return []
    if not variables:
        faults.error(path, "the model has no state variables", "list the states or use a label")
        return []
    try:
        return holds(text, variables)
    except ExpressionError as error:
        faults.error(path, str(error))
        return []


def _read_labels(value: Any, path: str, faults: Faults, imported: Imported) -> dict[str, IntArray]:
    table, names = mapping(value, path, faults) or {}, Names.of(imported.mdp)
    found: dict[str, IntArray] = {}
    for label, listed in table.items():
        check_label(label, at(path, label), faults)
        where = states_where(listed, at(path, label), faults, imported.variables)
        states = state_set(where, at(path, label), faults, names)
        if states is not None:
            found[label] = states
            names = Names(names.states, names.actions, {**(names.labels or {}), **found})  # later ones may use it
    return found


def _with_rewards(mdp: MDP, spec: Mapping[str, Any], path: str, faults: Faults, names: Names) -> MDP:
    choices = Choices(mdp.choice_start, mdp.choice_action, mdp.transitions)
    given = {"states": names.states, "actions": names.actions}
    if "rewards" in spec:
        rewards = read_rewards(_by_state(spec["rewards"], names), at(path, "rewards"), faults, **given)
        mdp = dataclasses.replace(mdp, rewards=spread_rewards(rewards, choices, faults, actions=names.actions))
    if "named_rewards" not in spec:
        return mdp
    table = spec["named_rewards"]
    if isinstance(table, Mapping):
        table = {key: _by_state(entry, names) for key, entry in table.items()}
    read = read_named_rewards(table, at(path, "named_rewards"), faults, **given)
    further = {key: spread_rewards(entry, choices, faults, actions=names.actions) for key, entry in read.items()}
    return dataclasses.replace(mdp, named_rewards={**mdp.named_rewards, **further})


def _by_state(rewards: Any, names: Names) -> Any:
    """Rewards of labels written out for their states; a state's own entry wins."""
    if not isinstance(rewards, Mapping):
        return rewards
    index, labels = names.states.index or {}, names.labels or {}
    spelled = tuple(index)
    found: dict[Any, Any] = {}
    for key, amount in rewards.items():
        states = labels.get(key) if isinstance(key, str) and key not in index else None
        if states is not None:
            found.update({spelled[state]: amount for state in states.tolist()})
    own = {key: amount for key, amount in rewards.items() if key in index or key not in labels}
    return found | own


def _own(value: Any, path: str, faults: Faults, imported: Imported) -> Observer | None:
    if option(value, path, faults, options=("model",)) is None:
        return None
    if imported.observer is None:
        faults.error(path, "the model has no observations of its own", "give emissions, sensors or variables")
    return imported.observer


def _of_variables(value: Any, path: str, faults: Faults, imported: Imported) -> Observer | None:
    """Sees the values of some state variables: one observation for every combination that occurs."""
    listed = unique_names(value, path, faults, kind="variable", most=1_000)
    if listed is None:
        return None
    unknown = [(place, variable) for place, variable in enumerate(listed) if variable not in imported.variables]
    for place, variable in unknown:
        known_as = suggestion(variable, imported.variables, kind="variable")
        faults.error(item(path, place), f"unknown variable '{variable}'", known_as)
    if unknown:
        return None
    columns = [np.unique(np.asarray(imported.variables[variable]), return_inverse=True) for variable in listed]
    seen, of_state = np.unique(np.stack([places for _, places in columns], axis=1), axis=0, return_inverse=True)
    told = [
        ",".join(
            f"{variable}={_word(values[place])}"
            for variable, (values, _), place in zip(listed, columns, row, strict=True)
        )
        for row in seen
    ]
    num_states = imported.mdp.num_states
    emission = SparseRows.from_entries(
        np.arange(num_states), of_state.reshape(-1), np.ones(num_states), shape=(num_states, len(told))
    )
    return Observer(tuple(told), emission)


def _word(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return f"{value}"


def _shared(observer: Observer, value: Any, path: str, faults: Faults) -> Observer | None:
    """Observations that look the same: {common name: [observations]}."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    seen = known("observation", observer.observations)
    told = list(observer.observations)
    before = len(faults.errors)
    giver: dict[int, str] = {}
    for key, listed in table.items():
        entries = listing(listed, at(path, key), faults) or []
        for place, entry in enumerate(entries):
            column = seen.find(entry, item(at(path, key), place), faults)
            if column is None:
                continue
            if column in giver:
                faults.error(item(at(path, key), place), f"is shared under '{giver[column]}' too", "keep one of them")
            giver[column], told[column] = key, key
    kept = {name for column, name in enumerate(observer.observations) if column not in giver}
    for key in kept & set(table):
        faults.error(at(path, key), "is an observation that stays as it is", "list it too, or use another name")
    if len(faults.errors) > before:
        return None
    names = tuple(dict.fromkeys(told))
    column_of = known("observation", names).index or {}
    merge = SparseRows.from_entries(
        np.arange(len(told)), [column_of[name] for name in told], np.ones(len(told)), shape=(len(told), len(names))
    )
    return _seen_through(observer, merge, names)


def _noisy(observer: Observer, value: Any, path: str, faults: Faults) -> Observer | None:
    """Observations taken for others: {keep: probability}, or {observation: {observation: probability}}."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    if set(table) == {"keep"} and is_number(table["keep"]):
        keep = probability(table["keep"], at(path, "keep"), faults)
        return None if keep is None else _evenly(observer, keep, path, faults)
    heard = tuple(dict.fromkeys([*observer.observations, *_mentioned(table)]))
    given, seen = known("observation", observer.observations), known("observation", heard)
    rows: dict[int, dict[int, float] | None] = {place: {place: 1.0} for place in range(len(given))}
    for key, entry in table.items():
        place = given.find(key, at(path, key), faults)
        shares = distribution(entry, at(path, key), faults, seen)
        if place is not None:
            rows[place] = shares
    if any(shares is None for shares in rows.values()):
        return None
    entries = [(place, column, share) for place, shares in rows.items() for column, share in (shares or {}).items()]
    noise = SparseRows.from_entries(*zip(*entries, strict=True), shape=(len(given), len(heard)))
    return None if _too_dense(observer, noise, path, faults) else _seen_through(observer, noise, heard)


def _mentioned(table: Mapping[str, Any]) -> Sequence[str]:
    return [str(key) for entry in table.values() for key in (entry if isinstance(entry, Mapping) else [entry])]


def _evenly(observer: Observer, keep: float, path: str, faults: Faults) -> Observer | None:
    """Each observation is seen with probability `keep`, else one of the others, all as likely.

    The blank that stands for time 0 where observations follow actions is no observation of the model: it stays.
    """
    count = len(observer.observations)
    shown = observer.emission if observer.after_action is None else observer.after_action
    taking = np.unique(shown.columns)
    if taking.size < 2:
        return observer
    if taking.size > _MAX_ALIKE:
        found = f"{taking.size:,} observations would be taken for each other, more than {_MAX_ALIKE:,}"
        faults.error(path, found, "say which: {observation: {observation: probability}}")
        return None
    noise = np.eye(count)
    noise[np.ix_(taking, taking)] = (1 - keep) / (taking.size - 1)
    noise[taking, taking] = keep
    channel = SparseRows.from_dense(noise)
    if _too_dense(observer, channel, path, faults):
        return None
    return _seen_through(observer, channel, observer.observations)


def _too_dense(observer: Observer, channel: SparseRows, path: str, faults: Faults) -> bool:
    """Whether noise would let too many states show too many observations."""
    after = observer.after_action
    shown = observer.emission.columns if after is None else np.concatenate((observer.emission.columns, after.columns))
    entries = int(np.diff(channel.starts)[shown].sum())
    if entries > MAX_ENTRIES:
        faults.error(path, f"makes {entries:,} emissions, more than {MAX_ENTRIES:,}", "mix up fewer observations")
    return entries > MAX_ENTRIES


def _seen_through(observer: Observer, channel: SparseRows, names: tuple[str, ...]) -> Observer:
    """What is left of the observations after a channel [observation, new observation]."""
    after = observer.after_action
    return dataclasses.replace(
        observer,
        observations=names,
        emission=_through(observer.emission, channel),
        after_action=None if after is None else _through(after, channel),
    )


def _through(emission: SparseRows, channel: SparseRows) -> SparseRows:
    product = (emission.scipy() @ channel.scipy()).tocoo()
    return SparseRows.from_entries(
        product.row, product.col, product.data, shape=(emission.num_rows, channel.num_columns)
    )
