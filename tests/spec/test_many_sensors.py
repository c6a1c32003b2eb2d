"""Many sensors and long lists of cells, which are read at once, against one by one."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import opaq
from opaq.model.fingerprint import problem_parts

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


OVERLAPPING = {
    "A": {"covers": [[0, 0], [1, 1]], "detects": 1},
    "B": {"covers": [[1, 1], [2, 2]], "detects": 0.6, "false_alarm": 0.05},
}


def test_stated_sensors_are_kept_through_a_file_and_back() -> None:
    built = problem(OVERLAPPING, [[2, 2]])
    quiet = dataclasses.replace(built.observer.sensors, null="quiet")
    renamed = dataclasses.replace(built, observer=opaq.Observer.of_sensors(quiet))
    for stated in (built, renamed):
        written = opaq.problem_to_dict(stated)
        second = written["observer"]["sensors"]["B"]
        assert second == {
            "covers": ["(1,1)", "(2,2)"],
            "detects": 0.6,
            "false_alarm": 0.05,
        }
        assert "emissions" not in written["observer"]
        assert opaq.build_problem(written) == stated
        assert pickle.loads(pickle.dumps(stated)) == stated
    assert opaq.problem_to_dict(renamed)["observer"]["null"] == "quiet"
    assert renamed.observer.observations == ("quiet", "A", "B", "A+B")


def test_sensors_and_emissions_cannot_get_out_of_step() -> None:
    observer = problem(OVERLAPPING, [[2, 2]]).observer
    other = problem(OVERLAPPING | {"A": {"covers": [[3, 0]], "detects": 0.5}}, [[2, 2]]).observer
    for changes in (
        {"observations": ("null", "A", "B", "C")},
        {"emission": other.emission},
        {"sensors": other.sensors},
        {"after_action": observer.emission},
    ):
        with pytest.raises(opaq.InputError, match="are not those of the stated sensors; change the sensors, or set"):
            dataclasses.replace(observer, **changes)
    table = dataclasses.replace(observer, emission=other.emission, sensors=None)
    assert table.sensors is None
    heard = opaq.SparseRows.from_dense(np.ones((4, 1)))
    assert dataclasses.replace(observer, action_signs=("x",), action_emission=heard).sensors == observer.sensors


def test_problems_that_show_the_same_have_one_fingerprint() -> None:
    built = problem(OVERLAPPING, [[2, 2]])
    table = dataclasses.replace(built, observer=dataclasses.replace(built.observer, sensors=None))
    assert problem_parts(built) == problem_parts(table)


@pytest.mark.parametrize(
    ("sensors", "words"),
    [
        ((), "sensors: is empty"),
        ((opaq.Sensor("A+B", [0], 0.5),), "'A+B' cannot name a sensor"),
        ((opaq.Sensor("null", [0], 0.5),), "is also the name for no sensor at all"),
        ((opaq.Sensor("A", [7], 0.5),), "states are numbered from 0 to 2"),
        ((opaq.Sensor("A", [-1], 0.5),), "states are numbered from 0 to 2"),
        ((opaq.Sensor("A", [0], 1.5),), "sensors.A.detects: 1.5 is no probability"),
        ((opaq.Sensor("A", [0], 0.5, float("nan")),), "sensors.A.false_alarm: nan is no probability"),
        ((opaq.Sensor("A", [0], 0.5), opaq.Sensor("A", [1], 0.5)), "names several sensors"),
        (tuple(opaq.Sensor(f"S{index}", [1], 0.5) for index in range(11)), "state '1' would have 2,048 joint outcomes"),
    ],
)
def test_sensors_made_in_python_are_checked(sensors: tuple[opaq.Sensor, ...], words: str) -> None:
    with pytest.raises(opaq.InputError) as caught:
        opaq.SensorSet(sensors, 3)
    assert words in str(caught.value)
