"""Many sensors and long lists of cells, which are read at once, against one by one."""

from __future__ import annotations

import numpy as np
import pytest

import opaq

SIDE = 4


def problem(sensors: dict[str, object], secret: object) -> opaq.Problem:
    return opaq.build_problem(
        {
            "opaq": 1,
            "grid": {"width": SIDE, "height": SIDE, "walls": [[3, 3]], "start": [0, 0], "labels": {"secret": secret}},
            "observer": {"sensors": sensors},
            "secret": {"last_state": "secret"},
            "horizon": 1,
        }
    )


def test_eleven_sensors_fire_independently_where_they_cover() -> None:
    rng = np.random.default_rng(0)
    cells = [[x, y] for x in range(SIDE) for y in range(SIDE) if (x, y) != (3, 3)]
    covers = {f"S{index}": [cell for cell in cells if rng.random() < 0.4] for index in range(11)}
    rates = {name: float(rng.choice([1.0, 0.5, 0.8])) for name in covers}
    alarms = {name: (0.1 if name == "S3" else 0.0) for name in covers}
    sensors = {name: {"covers": covers[name], "detects": rates[name], "false_alarm": alarms[name]} for name in covers}
    built = problem(sensors, cells[:3])
    emission, seen = built.observer.emission.dense(), built.observer.observations
    for state, name in enumerate(built.mdp.states):
        cell = [int(part) for part in name.strip("()").split(",")]
        for column, observation in enumerate(seen):
            fired = set() if observation == "null" else set(observation.split("+"))
            chances = {one: rates[one] if cell in covers[one] else alarms[one] for one in covers}
            chance = np.prod([share if one in fired else 1 - share for one, share in chances.items()])
            assert emission[state, column] == pytest.approx(chance, abs=1e-12)


def test_lists_of_cells_mean_the_same_however_they_are_written() -> None:
    sensor = {"A": {"covers": [[1, 1]], "detects": 0.5}}
    plain = problem(sensor, [[2, 1], [0, 0], [1, 2]])
    mixed = problem(sensor, ["(2,1)", [0, 0], "1,2"])
    assert plain == mixed
    assert plain.mdp.labels["secret"].tolist() == sorted(plain.mdp.labels["secret"].tolist())


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([[0, 0], [1, 1], [0, 0]], "'(0,0)' is listed twice"),
        ([[0, 0], [3, 3]], "(3,3) is not a free cell of the grid"),
        ([[0, 0], [9, 9]], "(9,9) is not a free cell of the grid"),
        ([[0, 0], [1.5, 1]], "grid.labels.secret[1]"),
    ],
)
def test_faults_in_lists_of_cells_are_still_told(cells: list[object], words: str) -> None:
    with pytest.raises(opaq.InputError) as caught:
        problem({"A": {"covers": [[1, 1]], "detects": 0.5}}, cells)
    assert words in str(caught.value)
