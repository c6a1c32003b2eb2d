"""What must get done: thresholds on returns and on probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from opaq.errors import Faults
from opaq.model.problem import Reach, Requirement, ReturnAtLeast, Satisfy, Task
from opaq.spec.automaton_part import check_guards
from opaq.spec.cursor import (
    at,
    check_keys,
    item,
    listing,
    mapping,
    name,
    one_key,
    option,
    probability,
    suggestion,
    wrong,
)
from opaq.spec.cursor import reward as read_threshold
from opaq.spec.language_part import KINDS as LANGUAGES
from opaq.spec.language_part import TEXTS, read_language
from opaq.spec.names import Names, state_set
from opaq.spec.uncertainty_part import KEY as OF
from opaq.spec.uncertainty_part import read_uncertainty

KEYS = ("return_at_least", "over", "objective", OF, "requirements")
EVENTS = ("reach", *LANGUAGES)  # what may happen in a run, asked for with a probability
EVENT_KEYS = (*EVENTS, "probability_at_least", "minimal", "name")
REQUIREMENT_KEYS = ("reward", "return_at_least", *EVENT_KEYS)

Rewards = Collection[str] | None  # the names of further rewards; None: they could not be read


def read_task(
    value: Any, path: str, faults: Faults, names: Names, *, rewards: Rewards, discount: float | None
) -> Task | None:
    """A task from its mapping, or a finished one checked."""
    if isinstance(value, Task):
        _check_forever(value.over, path, faults, discount=discount)
        _check_finished(value, path, faults, names, rewards)
        return value
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    meant = check_keys(spec, path, faults, allowed=(*KEYS, *EVENT_KEYS))
    threshold = spec.get("return_at_least")
    if threshold is not None:
        threshold = read_threshold(threshold, at(path, "return_at_least"), faults)
    over = option(spec.get("over", "horizon"), at(path, "over"), faults, options=("horizon", "forever"))
    _check_forever(over, path, faults, discount=discount)
    aim = option(spec.get("objective", "maximise"), at(path, "objective"), faults, options=("maximise", "minimise"))
    of = read_uncertainty(spec, path, faults)
    shorthand = any(key in spec for key in EVENT_KEYS)
    requirements = [_read_event(spec, path, faults, names, meant=meant)] if shorthand else []
    requirements += _read_requirements(spec.get("requirements", []), at(path, "requirements"), faults, names, rewards)
    found = tuple(requirement for requirement in requirements if requirement is not None)
    if of is None:
        return None
    return Task(threshold, "forever" if over == "forever" else "horizon", found, aim == "minimise", of)


def _check_forever(over: str | None, path: str, faults: Faults, *, discount: float | None) -> None:
    if over == "forever" and discount is not None and discount >= 1:
        faults.error(at(path, "over"), "'forever' needs a discount below 1", f"the discount is {discount:g}")


def _check_finished(task: Task, path: str, faults: Faults, names: Names, rewards: Rewards) -> None:
    """Note when the requirements of a finished task do not fit the model."""
    if task.return_at_least is not None:
        read_threshold(task.return_at_least, at(path, "return_at_least"), faults)
    for place, requirement in enumerate(task.requirements):
        _check_requirement(requirement, item(at(path, "requirements"), place), faults, names, rewards)


def _check_requirement(requirement: Requirement, path: str, faults: Faults, names: Names, rewards: Rewards) -> None:
    if isinstance(requirement, ReturnAtLeast):
        _check_reward(requirement.reward, at(path, "reward"), faults, rewards)
        read_threshold(requirement.threshold, at(path, "return_at_least"), faults)
    elif isinstance(requirement, Satisfy):
        check_guards(requirement.automaton, at(path, "automaton"), faults, names.labels)
    elif names.states.index is not None and requirement.states.max(initial=-1) >= len(names.states):
        found = f"names state {requirement.states.max()}, but the model has {len(names.states):,}"
        faults.error(at(path, "reach"), found)


def _read_requirements(
    value: Any, path: str, faults: Faults, names: Names, rewards: Rewards
) -> list[Requirement | None]:
    entries = listing(value, path, faults) or []
    return [_read_one(entry, item(path, place), faults, names, rewards) for place, entry in enumerate(entries)]


def _read_one(value: Any, path: str, faults: Faults, names: Names, rewards: Rewards) -> Requirement | None:
    if isinstance(value, ReturnAtLeast | Reach | Satisfy):
        _check_requirement(value, path, faults, names, rewards)
        return value
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    meant = check_keys(spec, path, faults, allowed=REQUIREMENT_KEYS)
    if "reward" not in spec and "return_at_least" not in spec:
        return _read_event(spec, path, faults, names, meant=meant)
    for key in EVENT_KEYS:
        if key in spec:
            faults.error(at(path, key), "does not go with a return", "make it a requirement of its own")
    required = {"reward": "name one of the model's named_rewards", "return_at_least": "give the threshold"}
    for key, advice in required.items():
        if key not in spec and key not in meant:
            faults.error(at(path, key), "is missing", advice)
    reward = name(spec["reward"], at(path, "reward"), faults) if "reward" in spec else None
    threshold = spec.get("return_at_least")
    if "return_at_least" in spec:
        threshold = read_threshold(threshold, at(path, "return_at_least"), faults)
    if reward is None or threshold is None:
        return None
    _check_reward(reward, at(path, "reward"), faults, rewards)
    return ReturnAtLeast(reward, threshold)


def _check_reward(reward: str, path: str, faults: Faults, rewards: Rewards) -> None:
    if rewards is not None and reward not in rewards:
        faults.error(path, f"unknown reward '{reward}'", suggestion(reward, rewards, kind="named reward"))


def _read_event(
    spec: Mapping[str, Any], path: str, faults: Faults, names: Names, *, meant: Collection[str]
) -> Requirement | None:
    """States to be reached or a language to be satisfied, with at least some probability."""
    kind = one_key(spec, path, faults, options=EVENTS, meant=meant)
    threshold = _read_chance(spec, at(path, "probability_at_least"), faults, meant=meant)
    title = name(spec["name"], at(path, "name"), faults) if "name" in spec else ""
    if kind is None:
        return None
    value = spec[kind]
    if kind == "reach":
        return _read_reach(spec, path, faults, names, threshold=threshold, title=title)
    automaton = read_language(spec, kind, path, faults, names, accepts=True)
    if automaton is None or threshold is None or title is None:
        return None
    return Satisfy(automaton, threshold, title or (value.strip() if kind in TEXTS else "the automaton"))


def _read_chance(spec: Mapping[str, Any], path: str, faults: Faults, *, meant: Collection[str]) -> float | None:
    if "probability_at_least" in spec:
        return probability(spec["probability_at_least"], path, faults)
    if "probability_at_least" not in meant:
        faults.error(path, "is missing", "give the threshold, a number from 0 to 1")
    return None


def _read_reach(
    spec: Mapping[str, Any], path: str, faults: Faults, names: Names, *, threshold: float | None, title: str | None
) -> Reach | None:
    value, where = spec["reach"], at(path, "reach")
    if "minimal" in spec:
        faults.error(at(path, "minimal"), "does not go with 'reach'", "remove it")
    if isinstance(value, bool | Mapping) or value is None:
        wrong(value, where, faults, "a label or a list of states")
        return None
    states = state_set(value, where, faults, names)
    if states is None or threshold is None or title is None:
        return None
    if not states.size:
        faults.warn(where, "holds no state", "it is never reached")
    return Reach(states, threshold, title or _told(value))


def _told(states: Any) -> str:
    """What a set of states is called: as it is written, if that is short."""
    if not isinstance(states, list | tuple):
        return str(states) if isinstance(states, str | int) else "the states"
    return ", ".join(map(str, states)) if 0 < len(states) <= 4 else "the states"
