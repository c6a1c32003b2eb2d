"""A whole problem from one mapping, with every fault in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from opaq.errors import Faults
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StepsAgo, Visited
from opaq.spec.cursor import (
    UNREAD,
    at,
    check_keys,
    gather,
    mapping,
    name,
    number,
    one_key,
    shown,
    text,
    whole,
)
from opaq.spec.grid_part import read_grid
from opaq.spec.model_part import KEYS as MODEL_KEYS
from opaq.spec.model_part import read_mdp
from opaq.spec.names import Names
from opaq.spec.observer_part import check_observer, read_observer
from opaq.spec.policy_part import check_policy_class, read_policy_class
from opaq.spec.rewards import check_rewards
from opaq.spec.secret_part import STATE_KINDS, check_secret, read_secret
from opaq.spec.task_part import read_task
from opaq.spec.uncertainty_part import check_uncertainty

VERSION = 1
MAX_HORIZON = 1_000_000
KEYS = (
    "opaq",
    "name",
    "description",
    "model",
    "grid",
    "observer",
    "secret",
    "horizon",
    "discount",
    "task",
    "policy",
)
FOREIGN = ("prism", "jani", "drn", "umb", "pomdp", "gymnasium")
MODELS = ("model", "grid", *FOREIGN)
_REQUIRED = {
    "observer": "say what the observer sees",
    "secret": "say what must stay hidden",
    "horizon": "say how many transitions a run has",
}


def build_problem(spec: Mapping[str, Any], *, faults: Faults | None = None) -> Problem:
    """A problem from a mapping with the keys of a problem file.

    The values of model, observer, secret, task and policy may also be finished objects.
    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    return gather(lambda found: read_problem(spec, "", found), faults)


def read_problem(value: Any, path: str, faults: Faults) -> Problem | None:
    """A problem from its mapping."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    meant = check_keys(spec, path, faults, allowed=(*KEYS, *FOREIGN), required=_REQUIRED)
    _check_version(spec, path, faults)
    names, mdp = _read_model(spec, path, faults, meant=meant)
    horizon = (
        whole(spec["horizon"], at(path, "horizon"), faults, low=0, high=MAX_HORIZON) if "horizon" in spec else None
    )
    discount = _read_discount(spec.get("discount", 1.0), at(path, "discount"), faults)
    observer = _read_observer(spec["observer"], at(path, "observer"), faults, names) if "observer" in spec else None
    secret = _read_secret(spec["secret"], at(path, "secret"), faults, names, horizon) if "secret" in spec else None
    rewards = None if mdp is None else mdp.named_rewards
    task = read_task(spec.get("task", {}), at(path, "task"), faults, names, rewards=rewards, discount=discount)
    policy = _read_policy(spec, at(path, "policy"), faults, names)
    title = name(spec["name"], at(path, "name"), faults) if "name" in spec else ""
    if "description" in spec:
        text(spec["description"], at(path, "description"), faults)
    if mdp is None or observer is None or secret is None or horizon is None or discount is None:
        return None
    if task is None or policy is None or title is None:
        return None
    check_uncertainty(task.of, secret, at(path, "task"), faults)
    return Problem(mdp, observer, secret, horizon, discount, task, policy, title)


def _check_version(spec: Mapping[str, Any], path: str, faults: Faults) -> None:
    if "opaq" not in spec:
        faults.warn(at(path, "opaq"), "is missing", f"it was taken as {VERSION}, the version of the file format")
    elif spec["opaq"] is True or spec["opaq"] != VERSION:
        faults.error(
            at(path, "opaq"), f"is {shown(spec['opaq'])}, a format this version does not read", f"write {VERSION}"
        )


def _read_model(
    spec: Mapping[str, Any], path: str, faults: Faults, *, meant: Collection[str]
) -> tuple[Names, MDP | None]:
    """The plant: `model`, `grid`, or `model: {grid: ...}`."""
    if not set(MODELS) & {*spec, *meant}:
        faults.error(at(path, "model"), "is missing", "give a model or a grid")
        return Names.unread(), None
    kind = one_key(spec, path, faults, options=MODELS, meant=meant)
    if kind is None:
        return Names.unread(), None
    value, where = spec[kind], at(path, kind)
    if kind in FOREIGN:
        faults.error(where, "is read by load_problem only", "read it first and give its model as 'model'")
        return Names.unread(), None
    if kind == "grid":
        return read_grid(value, where, faults)
    if value is UNREAD:
        return Names.unread(), None
    if isinstance(value, MDP):
        check_rewards(value, where, faults)
        return Names.of(value), value
    if isinstance(value, Mapping) and not set(value) & set(MODEL_KEYS) and set(value) & {"grid", *FOREIGN}:
        return _read_model(value, where, faults, meant=check_keys(value, where, faults, allowed=MODELS[1:]))
    return read_mdp(value, where, faults)


def _read_observer(value: Any, path: str, faults: Faults, names: Names) -> Observer | None:
    if value is UNREAD:
        return None
    if not isinstance(value, Observer):
        return read_observer(value, path, faults, names)
    check_observer(value, path, faults, names)
    return value


def _read_secret(value: Any, path: str, faults: Faults, names: Names, horizon: int | None) -> Secret | None:
    if not isinstance(value, LastState | InitialState | StateAt | StepsAgo | Visited | Language):
        return read_secret(value, path, faults, names, horizon=horizon)
    check_secret(value, path, faults, names, horizon=horizon)
    return value


def _read_policy(spec: Mapping[str, Any], path: str, faults: Faults, names: Names) -> PolicyClass | None:
    value, has_automaton = spec.get("policy", {}), _may_have_automaton(spec.get("secret"))
    if not isinstance(value, PolicyClass):
        return read_policy_class(value, path, faults, names, has_automaton=has_automaton)
    check_policy_class(value, path, faults, names, has_automaton=has_automaton)
    return value


def _may_have_automaton(secret: Any) -> bool:
    """Whether a secret has an automaton, or cannot be told not to."""
    if isinstance(secret, Mapping):
        return not any(key in secret for key in STATE_KINDS)
    return not isinstance(secret, LastState | InitialState | StateAt | StepsAgo | Visited)


def _read_discount(value: Any, path: str, faults: Faults) -> float | None:
    discount = number(value, path, faults)
    if discount is None or 0 < discount <= 1:
        return discount
    faults.error(path, f"is {discount:g}, not a number above 0 and up to 1")
    return None
