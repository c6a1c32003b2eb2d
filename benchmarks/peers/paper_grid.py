"""The paper's grid (section VI.A) as plain NumPy arrays, without opaq: what every peer is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIDE = 6
WALLS = {(5, 2), (1, 3)}
TRAPS = {(1, 1), (3, 2), (1, 4)}
SECRETS = {(2, 0), (2, 3), (4, 5)}
SENSORS = (
    {(3, 1)},
    {(3, 3), (4, 3), (3, 4), (4, 4)},
    {(5, 3), (5, 4)},
    {(1, 1), (2, 1), (1, 2), (2, 2)},
    {(2, 3)},
)
DETECTS = 0.7
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west; a turn is one step along this list
CELLS = [(column, row) for row in range(SIDE) for column in range(SIDE) if (column, row) not in WALLS]
PLACE = {cell: index for index, cell in enumerate(CELLS)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A hidden process by parallel tracks: all tracks move alike, the secret may tell them apart.

    One track serves a secret of the last state; one track a possible start serves a secret of the initial state.
    """

    start: np.ndarray  # [track, state]
    transitions: np.ndarray  # [state, action, next state]
    emission: np.ndarray  # [state, observation]
    secret: np.ndarray  # [track, state] -> secret value
    horizon: int

    @property
    def num_states(self) -> int:
        return self.transitions.shape[0]

    @property
    def num_actions(self) -> int:
        return self.transitions.shape[1]

    @property
    def num_observations(self) -> int:
        return self.emission.shape[1]

    @property
    def readout(self) -> np.ndarray:
        """[value, track, state]: 1 where the secret has the value."""
        values = np.arange(self.secret.max() + 1)
        return (self.secret == values[:, None, None]).astype(float)


def last_state_grid(*, horizon: int = 12, stay: bool = True) -> Scenario:
    """The secret: does the run end in a secret cell? Starts anywhere in column 0."""
    start = np.zeros((1, len(CELLS)))
    start[0, [PLACE[0, row] for row in range(SIDE)]] = 1 / SIDE
    secret = np.array([[cell in SECRETS for cell in CELLS]], dtype=int)
    return Scenario(start, _transitions(stay=stay), _emission(), secret, horizon)


def initial_state_grid(*, horizon: int = 12, stay: bool = True) -> Scenario:
    """The secret: in which of three corners did the run start?"""
    start = np.zeros((3, len(CELLS)))
    for track, corner in enumerate([(0, 0), (0, 5), (5, 5)]):
        start[track, PLACE[corner]] = 1 / 3
    secret = np.repeat(np.arange(3)[:, None], len(CELLS), axis=1)
    return Scenario(start, _transitions(stay=stay), _emission(), secret, horizon)


def random_theta(scenario: Scenario, *, seed: int = 0) -> np.ndarray:
    """Policy parameters [state, action] from a seeded standard normal."""
    return np.random.default_rng(seed).standard_normal((scenario.num_states, scenario.num_actions))


def softmax(theta: np.ndarray) -> np.ndarray:
    """The policy [state, action] of parameters [state, action]."""
    weights = np.exp(theta - theta.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def sample_observations(scenario: Scenario, theta: np.ndarray, *, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Observation sequences [sample, time] of independent runs."""
    chain = np.einsum("ij,ijk->ik", softmax(theta), scenario.transitions)
    state = _draw(np.tile(scenario.start.sum(axis=0), (samples, 1)), rng)
    seen = [_draw(scenario.emission[state], rng)]
    for _ in range(scenario.horizon):
        state = _draw(chain[state], rng)
        seen.append(_draw(scenario.emission[state], rng))
    return np.stack(seen, axis=1)


def _draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index a row, by inversion; scaled to the row's own sum so that rounding never runs past the end."""
    cumulative = probabilities.cumsum(axis=1)
    return (rng.random((len(cumulative), 1)) * cumulative[:, -1:] >= cumulative).sum(axis=1)


def _transitions(*, stay: bool) -> np.ndarray:
    transitions = np.zeros((len(CELLS), len(MOVES) + stay, len(CELLS)))
    for state, cell in enumerate(CELLS):
        for action in range(len(MOVES)):
            for turn, chance in ((0, 0.8), (1, 0.1), (-1, 0.1)):
                transitions[state, action, _moved(cell, (action + turn) % len(MOVES))] += chance
        if stay:
            transitions[state, len(MOVES), state] = 1
    return transitions


def _moved(cell: tuple[int, int], direction: int) -> int:
    column, row = MOVES[direction]
    target = (cell[0] + column, cell[1] + row)
    return PLACE[cell] if cell in TRAPS else PLACE.get(target, PLACE[cell])


def _emission() -> np.ndarray:
    """Sensor i gives observation i, and the last observation is null."""
    emission = np.zeros((len(CELLS), len(SENSORS) + 1))
    for observation, covered in enumerate(SENSORS):
        for cell in covered:
            emission[PLACE[cell], observation] = DETECTS
    emission[:, -1] = 1 - emission.sum(axis=1)
    return emission
