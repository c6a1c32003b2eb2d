"""Read tabular Gymnasium environments: those whose `P` gives every transition.

An environment, or the id of a registered one, comes in, an `Imported` model goes out. Two attributes of it are read:

    P                       {state: {action: [(probability, next state, reward, terminated), ...]}}, states from 0
    initial_state_distrib   the probability of each state at the start

FrozenLake, CliffWalking and Taxi also get the names of their actions, labels (start, goal, hole, cliff) and variables.
Environments whose states are the cells of a board, row by row, which they say by `nrow` and `ncol`, by `shape` or by
a `desc` with a letter per cell, get the variables row and col. The reward of a choice is the mean over its transitions.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.errors import Fault, Faults, InputError
from opaq.formats.registry import FORMATS
from opaq.model.arrays import BoolArray, FloatArray, IntArray, floats, frozen, ints, normalise, normalise_rows
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MDP, Imported
from opaq.spec.model_part import tabulate_choices
from opaq.spec.variables import place_states

_END = "end"  # the label of states where the episode is over
_MAX_STATES = 1_000_000
_MAX_OPTIONS = 100_000  # characters and entries: a map of 300 x 300 cells
_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_REFUSED = ("render_mode", "disable_env_checker")
_ACTIONS = {
    "FrozenLake": ("LEFT", "DOWN", "RIGHT", "UP"),
    "CliffWalking": ("UP", "RIGHT", "DOWN", "LEFT"),
    "Taxi": ("SOUTH", "NORTH", "EAST", "WEST", "PICKUP", "DROPOFF"),
}


def read_gymnasium(env: Any, **kwargs: Any) -> Imported:
    """Return the model of a tabular environment; states are named by their numbers, as the environment shows them.

    env: an environment, wrapped or not, which stays as it is; or the id of a registered one, such as "FrozenLake-v1".
    kwargs: arguments for an id (map_name, is_slippery, ...); an environment has its own.

    A state that ends the episode becomes absorbing with
    reward 0; where a state can be entered both ways, entering it for good leads to a copy of it named "5.end".
    Raises InputError when the package is missing, or the environment is unknown or not tabular.
    """
    if not isinstance(env, str) and hasattr(env, "P" if not hasattr(env, "unwrapped") else "unwrapped"):
        own = getattr(env, "unwrapped", env)
        name = str(getattr(getattr(env, "spec", None), "id", "") or type(own).__name__)
        if kwargs:
            raise _refuse(name, f"'{next(iter(kwargs))}' belongs to an id", "an environment has its own arguments")
        return _import_environment(own, name)
    environment = _make(env, kwargs)
    try:
        return _import_environment(environment.unwrapped, env)
    finally:
        environment.close()


def _make(env_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Make a registered environment and nothing else: an id of the form module:name would import code.

    env_id: its id; kwargs: arguments of the environment, without _REFUSED and of at most _MAX_OPTIONS entries.
    Raises InputError for these, without the package, and for whatever the environment raises.
    """
    if not isinstance(env_id, str) or _NAME.fullmatch(env_id) is None:
        finding = "is not the id of a registered environment" if isinstance(env_id, str) else "is no environment"
        raise _refuse(str(env_id), finding, "write e.g. FrozenLake-v1, or give an environment with a table 'P'")
    for name in _REFUSED:
        if name in kwargs:
            raise _refuse(env_id, f"'{name}' does not belong to the model", "leave it out")
    if (size := _size(kwargs)) > _MAX_OPTIONS:
        raise _refuse(env_id, f"the options hold {size:,} values and characters", f"the limit is {_MAX_OPTIONS:,}")
    try:
        import gymnasium
    except ImportError:
        advice = FORMATS["gymnasium"].how_to_install
        raise _refuse(env_id, "the package gymnasium is not installed", advice) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a newer version exists, and the like
        try:
            return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
        except Exception as error:  # the environment's own code runs here
            raise _refuse(env_id, f"cannot be made: {_first_line(error)}") from None


def _size(value: Any) -> int:
    """Return how many entries and characters a value has, keys and nested lists included."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_size(key) + _size(entry) for key, entry in value.items())
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _refuse(env_id: str, finding: str, advice: str = "") -> InputError:
    """Return the InputError for an environment; `finding` and `advice` are those of its fault."""
    return InputError([Fault("", finding, advice)], f"gymnasium {env_id[:80]!r}")


@dataclass(frozen=True, slots=True)
class _Moves:
    """Every transition of positive probability, one entry each.

    ends: whether the episode is over after it. States and actions are numbered as in the environment.
    """

    num_states: int
    num_actions: int
    source: IntArray
    action: IntArray
    probability: FloatArray
    target: IntArray
    reward: FloatArray
    ends: BoolArray


def _import_environment(environment: Any, env_id: str) -> Imported:
    """Return the model of an environment.

    environment: unwrapped, with `P` and `initial_state_distrib`. Actions and variables of the toy environments are
        known by their class.
    env_id: its id, for errors.
    Raises InputError with every fault of the two tables.
    """
    faults = Faults()
    moves = _read_moves(environment, faults)
    start = _read_start(environment, 0 if moves is None else moves.num_states, faults)
    faults.raise_if_any(f"gymnasium {env_id!r}")
    assert moves is not None
    kind = type(environment)
    name = kind.__name__.removesuffix("Env") if kind.__module__.startswith("gymnasium.envs.toy_text.") else ""
    over = _find_final_states(moves, start)
    copied = np.unique(moves.target[moves.ends & ~over[moves.target] & ~over[moves.source]])
    finished = np.concatenate((over, np.ones(copied.size, dtype=bool)))
    origin = np.concatenate((np.arange(moves.num_states), copied))  # [state] -> the environment's own state
    variables = {key: frozen(value[origin]) for key, value in _variables(environment, name, moves.num_states).items()}
    masks = {key: mask[origin] for key, mask in _labels(environment, name, start).items()} | {_END: finished}
    labels = {key: ints(np.flatnonzero(mask)) for key, mask in masks.items() if mask.any()}
    mdp = _mdp(moves, start, _actions(name, moves.num_actions), finished=finished, copied=copied)
    return Imported(place_states(replace(mdp, labels=labels), variables), variables=variables)


def _read_moves(environment: Any, faults: Faults) -> _Moves | None:
    """Return the transitions of `P`: state -> action -> [(probability, next state, reward, terminated), ...].

    Returns None after noting that it is no such table; what is wrong inside it is noted too.
    """
    table = getattr(environment, "P", None)
    if not isinstance(table, Mapping) or not table:
        faults.error("", "has no table of transitions 'P'", "only tabular environments can be read, e.g. FrozenLake-v1")
        return None
    try:
        rows = [
            (int(state), int(action), float(probability), int(target), float(reward), bool(terminated))
            for state, actions in table.items()
            for action, outcomes in actions.items()
            for probability, target, reward, terminated in outcomes
        ]
        num_actions = 1 + max(int(action) for actions in table.values() for action in actions)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        faults.error("P", f"is not a table of transitions: {_first_line(error)}")
        return None
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    if set(map(int, table)) != set(range(len(table))) or len(table) > _MAX_STATES or not columns:
        faults.error("P", f"its states are not numbered 0 to {len(table) - 1}, or are too many")
        return None
    _check(_Moves(len(table), num_actions, *columns), faults)
    positive = columns[2] > 0
    return _Moves(len(table), num_actions, *(column[positive] for column in columns))


def _check(moves: _Moves, faults: Faults) -> None:
    """Note probabilities, rewards, states and actions that no model can have: the first of these that is wrong."""
    if not np.isfinite(moves.probability).all() or (moves.probability < 0).any():
        faults.error("P", "has probabilities that are negative or not finite")
    elif not (np.abs(moves.reward) <= MAX_REWARD).all():
        faults.error("P", f"has rewards that are not finite or beyond {MAX_REWARD:g}")
    elif moves.target.min() < 0 or moves.target.max() >= moves.num_states:
        faults.error("P", "leads to states that do not exist")
    elif moves.action.min() < 0 or np.unique(moves.source).size < moves.num_states:
        faults.error("P", "has states without an action, or actions below 0")
    else:
        _, row = np.unique(moves.source * moves.num_actions + moves.action, return_inverse=True)
        done = normalise_rows(row.reshape(-1), moves.probability, int(row.max()) + 1)
        if done.off.size:
            faults.error("P", f"has a row that sums to {done.sums[np.abs(done.sums - 1).argmax()]:.7g}, not 1")


def _read_start(environment: Any, num_states: int, faults: Faults) -> FloatArray:
    """Return the start distribution; zeros after noting that it is none.

    num_states: how many states `P` has; 0 when it could not be read, and then nothing is compared.
    """
    try:
        start = np.asarray(getattr(environment, "initial_state_distrib", None), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        start = np.zeros(0)
    done = normalise(start)
    if num_states and (start.size != num_states or (start < 0).any() or done.off.size):
        faults.error("initial_state_distrib", "is not a distribution over the states")
        return np.zeros(num_states)
    return done.values


def _find_final_states(moves: _Moves, start: FloatArray) -> BoolArray:
    """Return which states are only ever entered as the end of an episode, [state].

    A state that is also reached while the episode goes on is none; neither is one that is never reached.
    """
    live = start > 0
    while True:
        onward = moves.target[live[moves.source] & ~moves.ends]
        if live[onward].all():
            break
        live[onward] = True
    over = np.zeros(moves.num_states, dtype=bool)
    over[moves.target[live[moves.source] & moves.ends]] = True
    return over & ~live


def _mdp(moves: _Moves, start: FloatArray, actions: tuple[str, ...], *, finished: BoolArray, copied: IntArray) -> MDP:
    """Return the model: rows repeat targets, which are summed; finished states stay where they are and earn nothing.

    moves, start: the transitions and the start of the environment; actions: the names of the actions.
    finished: [state] -> whether the episode is over there, copies included.
    copied: the states that have a copy in which the episode is over.
    """
    running, staying, count = ~finished[moves.source], np.flatnonzero(finished), len(actions)
    kept: tuple[Any, ...] = (moves.source, moves.action, moves.target, moves.probability, moves.reward, moves.ends)
    source, action, target, probability, reward, ends = (part[running] for part in kept)
    to_copy = ends & ~finished[target]
    target = np.where(to_copy, moves.num_states + np.searchsorted(copied, target), target)
    idle = np.repeat(staying, count)
    source, target = np.concatenate((source, idle)), np.concatenate((target, idle))
    action = np.concatenate((action, np.tile(np.arange(count), staying.size)))
    enabled, row = np.unique(source * count + action, return_inverse=True)
    share = normalise_rows(row, np.concatenate((probability, np.ones(idle.size))), enabled.size).values
    choices = tabulate_choices(source, action, target, share, num_states=finished.size, num_actions=count)
    weighted_rewards = share * np.concatenate((reward, np.zeros(idle.size)))
    names = (*map(str, range(moves.num_states)), *(f"{state}.{_END}" for state in copied.tolist()))
    return MDP(
        states=names,
        actions=actions,
        start=floats(np.concatenate((start, np.zeros(copied.size)))),
        choice_start=choices.choice_start,
        choice_action=choices.choice_action,
        transitions=choices.transitions,
        rewards=floats(np.bincount(row, weights=weighted_rewards, minlength=enabled.size)),
        labels={},
    )


def _actions(name: str, count: int) -> tuple[str, ...]:
    """Return the names of the actions: the environment's own where they are known, else numbers."""
    known = _ACTIONS.get(name, ())
    return known if len(known) == count else tuple(map(str, range(count)))


def _variables(environment: Any, name: str, num_states: int) -> dict[str, IntArray]:
    """Return what the number of a state stands for, where that is known: variable -> [state].

    name: of the environment's class, without "Env"; "" for any that is not Gymnasium's own.
    """
    states = np.arange(num_states)
    shape = _shape(environment)
    if shape is not None and shape[0] * shape[1] == num_states:
        return {"row": states // shape[1], "col": states % shape[1]}
    if name == "Taxi":
        decoded = np.array([list(environment.decode(state)) for state in range(num_states)])
        names = ("taxi_row", "taxi_col", "passenger", "destination")
        return {key: decoded[:, index] for index, key in enumerate(names)}
    return {}


def _shape(environment: Any) -> tuple[int, int] | None:
    """Return the (rows, columns) that an environment says it has: `nrow` and `ncol`, `shape`, or those of `desc`."""
    sides = getattr(environment, "nrow", None), getattr(environment, "ncol", None)
    stated = (sides, getattr(environment, "shape", None), np.asarray(getattr(environment, "desc", None)).shape)
    for shape in stated:
        if isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(side, int | np.integer) for side in shape):
            return int(shape[0]), int(shape[1])
    return None


def _labels(environment: Any, name: str, start: FloatArray) -> dict[str, BoolArray]:
    """Return the environment's own words for some states: label -> [state] truth values; none where they are not known.

    name: as for `_variables`; start: the start distribution, which marks the start of CliffWalking.
    """
    if name == "FrozenLake":
        letters = np.asarray(environment.desc).reshape(-1)
        words = {"start": b"S", "frozen": b"F", "hole": b"H", "goal": b"G"}
        return {word: letters == letter for word, letter in words.items()}
    if name == "CliffWalking":
        cliff = np.asarray(environment._cliff, dtype=bool).reshape(-1)
        return {"start": start > 0, "cliff": cliff, "goal": np.arange(start.size) == start.size - 1}
    return {}
