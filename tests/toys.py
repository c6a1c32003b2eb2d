"""A toy of every kind that can be added, each with an oracle: shared by the tests of registries and extensions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import opaq
import oracles
from opaq.extensions import (
    PROBABILITY,
    STATES,
    Branches,
    Condition,
    ConditionKind,
    ConditionTracker,
    Cursor,
    Export,
    Fields,
    FloatArray,
    Format,
    Imported,
    IntArray,
    Key,
    Kind,
    ObserverTracker,
    Record,
    Scope,
    Secret,
    SecretTracker,
    SolverFactory,
    SparseRows,
    TrackerContext,
    Uncertainty,
    build_from_keys,
    deterministic,
    map_of,
    single_round,
    whole,
)
from opaq.model.arrays import ContentEq, expand_rows
from opaq.model.conditions import KeyPart, LastStates, Projection
from opaq.model.mdp import MDP
from opaq.model.policy import Policy
from opaq.model.problem import Problem

NOTHING = "-"  # what the toys show where there is nothing to show


# -- a condition: the state before the current one ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreviousState(Condition):
    """s_{t-1}, or nothing at time 0."""

    key: ClassVar[str] = "previous"

    def project_from(self, fine: Condition) -> Projection | None:
        """Two of the last states tell it."""
        return last_but_one if isinstance(fine, LastStates) and fine.count >= 2 else None


def last_but_one(part: KeyPart) -> KeyPart:
    return part[-2] if len(part) > 1 else NOTHING


@dataclass(frozen=True, slots=True)
class Lagging:
    """Node s + 1 after leaving state s, node 0 before."""

    size: int

    def begin(self, states: IntArray) -> Branches:
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        return deterministic(source + 1)


def track_previous(condition: PreviousState, setting: TrackerContext) -> ConditionTracker:
    names = (NOTHING, *setting.problem.mdp.states)
    return ConditionTracker(Lagging(len(names)), names.__getitem__)


def _previous_row(cursor: Cursor, condition: PreviousState) -> str | None:
    """What a policy row says of it."""
    return NOTHING if cursor.value == NOTHING else cursor.scope.states.spell(cursor)


PREVIOUS = ConditionKind(PreviousState, "The state before the current one, - at the start.", _previous_row)


# -- a secret: how often some states are visited --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Visits(Secret):
    """How often some states are visited, counted up to `most`."""

    states: IntArray
    most: int


@dataclass(frozen=True, slots=True)
class Counter:
    """The number of visits so far."""

    mask: np.ndarray
    most: int

    @property
    def size(self) -> int:
        return self.most + 1

    def begin(self, states: IntArray) -> Branches:
        return deterministic(np.minimum(self.mask[states].astype(np.int64), self.most))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        return deterministic(np.minimum(nodes + self.mask[target], self.most))


def track_visits(secret: Visits, mdp: MDP, horizon: int) -> SecretTracker:
    names = tuple(str(count) for count in range(secret.most + 1))
    return SecretTracker(Counter(mdp.mask(secret.states), secret.most), names, lambda nodes, states: nodes, nodes=names)


def visits(problem: Problem, states: tuple[int, ...]) -> str:
    """The value of the secret, by its definition."""
    return str(min(sum(state in problem.secret.states for state in states), problem.secret.most))


def visits_joint(problem: Problem, policy: Policy) -> oracles.Joint:
    """P(Z, Y) by enumeration."""
    mass: oracles.Joint = defaultdict(float)
    for run in oracles.enumerate_runs(problem, policy):
        value = visits(problem, run.states)
        for sequence, chance in oracles.observation_sequences(problem, run):
            mass[value, sequence] += run.probability * chance
    return dict(mass)


_VISITS = Record(
    "visits",
    "How often some states are visited.",
    (
        Key("to", STATES, "The states.", required="name the states"),
        Key("most", whole(1, 100), "More visits count as so many.", required="give a number"),
    ),
    build_from_keys(Visits, "to", "most"),
    lambda secret, _: {"to": secret.states, "most": secret.most},
)
VISITS = Kind(
    Key("visits", _VISITS.shape, "Hide how often some states are visited."),
    build_from_keys(lambda secret: secret, "visits"),
    Visits,
    lambda secret, _: {"visits": secret},
)


# -- an observer: a sensor that may break, at random, by what the agent does ----------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BreakingSensor(ContentEq):
    """Sees o_t ~ E(o | s_t) until the sensor breaks, as it may after every action; then nothing."""

    observations: tuple[str, ...]
    emission: FloatArray  # [state, observation]
    risk: FloatArray  # [action]: probability that the sensor breaks


@dataclass(frozen=True, slots=True)
class Breaking:
    """Node 1 once the sensor is broken."""

    risk: FloatArray
    size: int = 2

    def begin(self, states: IntArray) -> Branches:
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        case = np.repeat(np.arange(nodes.size), 2 - nodes)
        first = np.concatenate(([True], case[1:] != case[:-1])) if case.size else np.zeros(0, dtype=bool)
        node = np.where(first, nodes[case], 1)
        chance = np.where(first, 1 - self.risk[action[case]], self.risk[action[case]])
        return Branches(case, node, np.where(nodes[case] == 1, 1.0, chance))


def track_sensor(observer: BreakingSensor, mdp: MDP) -> ObserverTracker:
    names = (*observer.observations, NOTHING)
    working = np.column_stack((observer.emission, np.zeros(mdp.num_states)))
    table = SparseRows.from_dense(np.vstack((working, np.eye(len(names))[-1])))

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        owner, entry = expand_rows(table.starts, np.where(nodes == 1, mdp.num_states, states))
        shape = (states.size, len(names))
        return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)

    return ObserverTracker(Breaking(observer.risk), names, emission)


def sensor_joint(
    problem: Problem, policy: Policy, secret: Callable[[Problem, tuple[int, ...]], str] = oracles.secret_value
) -> oracles.Joint:
    """P(Z, Y) by enumeration of runs, of the time at which the sensor breaks, and of what it shows before."""
    mass: oracles.Joint = defaultdict(float)
    for run in oracles.enumerate_runs(problem, policy):
        value = secret(problem, run.states)
        for sequence, chance in _sensor_sequences(problem.observer, run.states, run.actions):
            mass[value, sequence] += run.probability * chance
    return dict(mass)


def _sensor_sequences(
    sensor: BreakingSensor, states: tuple[int, ...], actions: tuple[int, ...]
) -> Iterator[tuple[oracles.Sequence, float]]:
    for observation in np.flatnonzero(sensor.emission[states[0]]):
        seen, chance = (sensor.observations[observation],), float(sensor.emission[states[0], observation])
        if len(states) == 1:
            yield (seen,), chance
            continue
        risk = float(sensor.risk[actions[0]])
        yield (seen, *((NOTHING,),) * (len(states) - 1)), chance * risk
        for rest, weight in _sensor_sequences(sensor, states[1:], actions[1:]):
            yield (seen, *rest), chance * (1 - risk) * weight


def _read_sensor(fields: Fields) -> BreakingSensor | None:
    names = fields.cursor.scope
    bright, risk = _by_name(fields.at("bright"), names.states), _by_name(fields.at("risk"), names.actions)
    if bright is None or risk is None:
        return None
    return BreakingSensor(("dim", "bright"), np.column_stack((1 - bright, bright)), risk)


def _by_name(cursor: Cursor, known: Any) -> FloatArray | None:
    """A probability for every state or action; 0 for those that are not named."""
    stated = map_of(PROBABILITY, "").read(cursor)
    found = [known.find(cursor.child(name, name)) for name in stated or {}]
    if stated is None or None in found:
        return None
    values = np.zeros(len(known))
    values[found] = list(stated.values())
    return values


def _sensor_parts(sensor: BreakingSensor, names: Scope) -> dict[str, Any]:
    bright = dict(zip(names.states.listed, sensor.emission[:, 1].tolist(), strict=True))
    return {"bright": bright, "risk": dict(zip(names.actions.listed, sensor.risk.tolist(), strict=True))}


_SENSOR = Record(
    "breaking",
    "A sensor that may break after every action.",
    (
        Key("bright", map_of(PROBABILITY, "state -> probability"), "Of showing bright.", required="give it"),
        Key("risk", map_of(PROBABILITY, "action -> probability"), "Of breaking.", required="give it"),
    ),
    _read_sensor,
    _sensor_parts,
)
BREAKING = Kind(
    Key("breaking", _SENSOR.shape, "A sensor that may break after every action."),
    build_from_keys(lambda sensor: sensor, "breaking"),
    BreakingSensor,
    lambda sensor, _: {"breaking": sensor},
)


# -- an uncertainty: two draws of the secret differ -----------------------------------------------------------------


class Collisions(Uncertainty):
    """A user's own uncertainty: sum q - sum q^2 / sum q, the probability that two draws of the secret differ."""

    name = "collisions"
    title = "two draws differ"
    smooth = True

    def rows(self, masses: Any, values: Any) -> tuple[Any, Any]:
        total = masses.sum(axis=1, keepdims=True)
        share = masses / np.where(total == 0.0, 1.0, total)
        squares = (share**2).sum(axis=1, keepdims=True)
        return (total * (1.0 - squares))[:, 0], 1.0 - 2.0 * share + squares


# -- a solver: stays where it begins ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StayState:
    """Where it began, and how long it has been there."""

    theta: object
    multipliers: object
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Stay:
    """A solver that stays where it begins."""

    max_steps: int = 2
    name = "stay"
    judge_every = 1

    def init(self, objective, theta, *, index=0):
        return StayState(theta, np.zeros(objective.scales.size))

    def step(self, objective, state, rng):
        after = replace(state, iteration=state.iteration + 1)
        point = objective.at(state.theta)
        trace = opaq.Trace(after.iteration, point.score, point.slack, after.multipliers)
        return after, opaq.StepInfo(after.iteration, state.theta, trace)

    def done(self, state):
        return opaq.Status.COMPLETED if state.iteration >= self.max_steps else None


STAY = SolverFactory("stay", lambda request: single_round(Stay(), request))


# -- a format: the name of a scenario -------------------------------------------------------------------------------


def read_toy(path: str, *, constants: dict[str, float] | None = None) -> Imported:
    """The model of the bundled scenario that the file names; its reward may be replaced."""
    mdp = opaq.load_problem(Path(path).read_text().strip()).mdp
    reward = (constants or {}).get("reward")
    return Imported(mdp if reward is None else replace(mdp, rewards=np.full(mdp.num_choices, reward)))


def toy_of_model(imported: Imported, export: Export) -> bytes:
    export.notes.append("a toy holds the number of states only")
    return str(imported.mdp.num_states).encode()


TOY = Format(
    "toy",
    "a toy model",
    "model",
    (".toy",),
    read_toy,
    {"model": toy_of_model},
    options=("constants",),
    example="toy: FILE",
)
