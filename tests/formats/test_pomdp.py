"""Cassandra's .pomdp files: every form, every fault, real files."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from counting import count_calls
from opaq.errors import InputError
from opaq.formats.pomdp.reader import read_pomdp
from opaq.model.mdp import Imported

PREAMBLE = """
discount: 0.9
values: reward
states: left right
actions: go stay
observations: dark light
"""
TABLES = """
T: *
identity
O: *
uniform
"""


@pytest.fixture
def read(tmp_path):
    def reading(text: str) -> Imported:
        file = tmp_path / "model.pomdp"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        return read_pomdp(file)

    return reading


def complaint(read, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(text)
    return str(caught.value)


def transition(imported: Imported, action: int) -> np.ndarray:
    """[state, next state] of one action."""
    num_actions = len(imported.mdp.actions)
    return imported.mdp.transitions.dense()[action::num_actions]


# -- real files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("tiger.95", (2, 3, 2)),
        ("hallway", (60, 5, 21)),
        ("tiger-grid", (36, 5, 17)),
        ("machine", (256, 4, 16)),
        ("4x3.95", (11, 4, 6)),
        ("aloha.10", (30, 9, 3)),
        ("cheese.95", (11, 4, 7)),
        ("query.s2", (9, 2, 3)),
        ("shuttle.95", (8, 3, 5)),
        ("web-mall", (2, 3, 2)),
    ],
)
def test_real_files_load(name: str, counts: tuple[int, int, int], model_by_others) -> None:
    imported = read_pomdp(model_by_others(f"pomdp/{name}.pomdp"))
    observer, mdp = imported.observer, imported.mdp
    blank = observer.after_action is not None
    assert (mdp.num_states, len(mdp.actions), len(observer.observations) - blank) == counts
    assert mdp.transitions.row_sums() == pytest.approx(np.ones(mdp.num_choices), abs=1e-12)
    assert mdp.start.sum() == pytest.approx(1)


def test_tiger_means_what_it_says(model_by_others) -> None:
    tiger = read_pomdp(model_by_others("pomdp/tiger.95.pomdp"))
    assert tiger.discount == 0.95
    assert tiger.mdp.rewards.reshape(2, 3).tolist() == [[-1, -100, 10], [-1, 10, -100]]
    assert tiger.observer.observations == ("tiger-left", "tiger-right", "start")
    assert tiger.observer.emission.dense().tolist() == [[0, 0, 1], [0, 0, 1]]
    after = tiger.observer.after_action.dense()
    assert after[:2].tolist() == [[0.85, 0.15, 0], [0.15, 0.85, 0]]
    assert after[2:].tolist() == [[0.5, 0.5, 0]] * 4


def test_real_rows_that_miss_one_are_scaled_and_told(model_by_others) -> None:
    (warning,) = read_pomdp(model_by_others("pomdp/aloha.10.pomdp")).warnings
    assert "rows of T miss the sum 1 (192 of 270), by at most 4e-06" in str(warning)


# -- forms --------------------------------------------------------------------------------------------------------


def test_names_or_counts(read) -> None:
    named = read(PREAMBLE + TABLES)
    assert (named.mdp.states, named.mdp.actions) == (("left", "right"), ("go", "stay"))
    assert named.observer.observations == ("dark", "light")
    counted = read("states: 3 actions: 1 observations: 2" + TABLES)
    assert (counted.mdp.states, counted.mdp.actions, counted.discount) == (("0", "1", "2"), ("0",), None)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("", [0.5, 0.5]),
        ("start: uniform", [0.5, 0.5]),
        ("start: 0.25 7.5e-1", [0.25, 0.75]),
        ("start: right", [0, 1]),
        ("start: 0", [1, 0]),
        ("start: 1 # the second", [0, 1]),
        ("start include: right", [0, 1]),
        ("start include: left 1", [0.5, 0.5]),
        ("start exclude: right", [1, 0]),
        ("start: left start: right", [0, 1]),
    ],
)
def test_start(read, start: str, expected: list[float]) -> None:
    assert read(PREAMBLE + start + TABLES).mdp.start.tolist() == expected


@pytest.mark.parametrize(
    ("lines", "go", "stay"),
    [
        ("T: * identity", [[1, 0], [0, 1]], [[1, 0], [0, 1]]),
        ("T: * uniform", [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]),
        ("T: * identity T: go\n0.1 0.9\n1 0", [[0.1, 0.9], [1, 0]], [[1, 0], [0, 1]]),
        ("T: * identity T: 0 : right : left 1.0 T: go : right : right 0", [[1, 0], [1, 0]], [[1, 0], [0, 1]]),
        ("T: * identity T: stay : left\n.5 5.0E-1", [[1, 0], [0, 1]], [[0.5, 0.5], [0, 1]]),
        ("T: * identity T: stay : * uniform", [[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]),
        ("T: * : * : * 0.5", [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]),
        ("T: * : * : * 0 T:*:*:left 1", [[1, 0], [1, 0]], [[1, 0], [1, 0]]),
        ("T: * uniform T: * : left : * 0 T: * : left : right 1", [[0, 1], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]),
        ("start: right T: * : * reset", [[0, 1], [0, 1]], [[0, 1], [0, 1]]),
    ],
)
def test_transitions(read, lines: str, go: list, stay: list) -> None:
    imported = read(PREAMBLE + "O: * uniform\n" + lines)
    assert transition(imported, 0).tolist() == go
    assert transition(imported, 1).tolist() == stay


def test_observations_that_depend_on_the_state_alone(read) -> None:
    observer = read(PREAMBLE + "T: * identity O: * : left : dark 1 O: * : right\n0.2 0.8").observer
    assert observer.emission.dense().tolist() == [[1, 0], [0.2, 0.8]]
    assert observer.observations == ("dark", "light")


def test_observations_that_depend_on_the_action(read) -> None:
    observer = read(PREAMBLE.replace("dark", "start") + "T: * identity O: * uniform O: stay identity").observer
    assert observer.observations == ("start", "light", "start_")
    assert observer.emission.dense().tolist() == [[0, 0, 1]] * 2
    assert observer.after_action.dense().tolist() == [[0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("lines", "rewards"),  # rewards: left go, left stay, right go, right stay
    [
        ("", [0, 0, 0, 0]),
        ("R: * : * : * : * 2", [2, 2, 2, 2]),
        ("R: go : left : * : * -1.5e1", [-15, 0, 0, 0]),
        ("R: * : * : * : * 2 R: stay : * : * : * 1", [2, 1, 2, 1]),
        ("R: stay : * : * : * 1 R: * : * : * : * 2", [2, 2, 2, 2]),
        ("R: * : * : right : * 8", [4, 0, 4, 8]),
        ("R: * : * : * : light 4", [2, 2, 2, 2]),
        ("R: go : left : right\n4 8", [3, 0, 0, 0]),
        ("R: go : left\n1 2\n3 4", [2.5, 0, 0, 0]),
        ("R: go : *\n1 2\n3 4", [2.5, 0, 2.5, 0]),
        ("R: go : *\n1 2\n3 4 R: * : * : left : dark 0", [2.25, 0, 2.25, 0]),
    ],
)
def test_rewards_are_means(read, lines: str, rewards: list[float]) -> None:
    tables = "T: go uniform T: stay identity O: * uniform\n"
    assert read(PREAMBLE + tables + lines).mdp.rewards.tolist() == rewards
    costs = PREAMBLE.replace("values: reward", "values: cost")
    assert (-read(costs + tables + lines).mdp.rewards).tolist() == rewards


def test_a_file_without_observations_is_a_plain_model(read) -> None:
    imported = read("states: 2 actions: 1 T: * uniform R: 0 : 1 : 0 4")
    assert imported.observer is None
    assert imported.mdp.rewards.tolist() == [0, 2]


def test_names_may_look_like_statements(read) -> None:
    imported = read("states: T O\nactions: R\nobservations: start\nT: R : T : O 1\nT: R : O : O 1\nO: R : * : start 1")
    assert transition(imported, 0).tolist() == [[0, 1], [0, 1]]


def test_random_files_agree_with_dense_tables(read) -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        text, dense = random_file(rng)
        imported = read(text)
        for action, expected in enumerate(dense["T"]):
            assert transition(imported, action) == pytest.approx(expected, abs=1e-12)
        mean = np.einsum("ast,ato,asto->sa", dense["T"], dense["O"], dense["R"])
        assert imported.mdp.rewards.reshape(mean.shape) == pytest.approx(mean, abs=1e-9)
        observer = imported.observer
        if observer.after_action is None:
            assert observer.emission.dense() == pytest.approx(dense["O"][0], abs=1e-12)
        else:
            seen = observer.after_action.dense()[:, :-1].reshape(dense["O"].shape)
            assert seen == pytest.approx(dense["O"], abs=1e-12)


def random_file(rng: np.random.Generator) -> tuple[str, dict[str, np.ndarray]]:
    """A file, and its tables as plain assignment would fill them."""
    states, actions, seen = (int(rng.integers(1, 5)) for _ in range(3))
    shapes = {"T": (actions, states, states), "O": (actions, states, seen), "R": (actions, states, states, seen)}
    dense = {head: np.zeros(shape) for head, shape in shapes.items()}
    lines = [f"states: {states}", f"actions: {actions}", f"observations: {seen}"]
    for _ in range(int(rng.integers(1, 30))):
        head = str(rng.choice(["T", "O", "R"]))
        shape = shapes[head]
        depth = int(rng.integers(2 if head == "R" else 1, len(shape) + 1))
        place = [None if rng.random() < 0.4 else int(rng.integers(size)) for size in shape[:depth]]
        values = rng.integers(0, 9, size=shape[depth:]) / 8
        dense[head][tuple(slice(None) if index is None else index for index in place)] = values
        told = " : ".join("*" if index is None else str(index) for index in place)
        lines.append(f"{head}: {told} {' '.join(map(str, np.ravel(values)))}")
    for head in ("T", "O"):  # what does not sum to 1 by now is set once more
        for action, state in np.argwhere(np.abs(dense[head].sum(axis=2) - 1) > 1e-9).tolist():
            dense[head][action, state] = rng.multinomial(8, np.full(shapes[head][2], 1 / shapes[head][2])) / 8
            lines.append(f"{head}: {action} : {state}\n{' '.join(map(str, dense[head][action, state]))}")
    return "\n".join(lines), dense


# -- faults -------------------------------------------------------------------------------------------------------


def test_rows_close_to_one_are_scaled(read) -> None:
    imported = read(PREAMBLE + TABLES + "T: go : left\n0.333333 0.666666\nstart: 0.333333 0.666666")
    assert imported.mdp.transitions.row_sums() == pytest.approx(np.ones(4), abs=1e-15)
    assert [str(warning).split(";")[0] for warning in imported.warnings] == [
        "line 14, column 1: start: the probabilities sum to 0.999999, not 1",
        "line 12, column 1: rows of T miss the sum 1 (1 of 4), by at most 1e-06",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "declares no states"),
        ("states: 2\nactions: 1", "T: 0 : 0 has no probabilities"),
        ("states: 0", "line 1, column 9: the number of states is '0'"),
        ("states: 2.5", "not a whole number"),
        ("states: 100001", "too many"),
        ("states: " + "9" * 6000, "too many"),
        ("states: 100000 actions: 100000 T: * identity", "100,000 states times 100,000 actions"),
        ("states: 100000 actions: 1 T: * uniform", "beyond 10,000,000 entries"),
        ("states: a b a", "line 1, column 13: the state 'a' is listed twice"),
        ("states: a 7", "'7' cannot be the name of a state"),
        ("states:", "line 1, column 8: expected a number of states or their names, found the end of the file"),
        ("states: 1 states: 2", "declared a second time"),
        ("T: * identity", "'actions:' must be declared before"),
        ("discount: 1.5", "the discount is 1.5"),
        ("discount: nan", "expected a number, found 'nan'"),
        ("discount: 1e999", "expected a number"),
        ("values: profit", "expected 'reward' or 'cost', found 'profit'"),
        ("hello: 3", "line 1, column 1: expected a statement, found 'hello'"),
        (PREAMBLE + TABLES + "T: gone : left : left 1", "unknown action 'gone'; did you mean 'go'?"),
        (PREAMBLE + TABLES + "T: go : 2 : left 1", "there is no state 2; they are numbered 0 to 1"),
        (PREAMBLE + TABLES + "T: go : left : left 1.5", "line 12, column 21: the probability 1.5"),
        (PREAMBLE + TABLES + "T: go : left : left -1", "the probability -1"),
        (PREAMBLE + TABLES + "T: go : left\n0.5", "expected 2 numbers (a row), found 1 and then the end of the file"),
        (PREAMBLE + TABLES + "T: go : left\n0.5 0.5 0", "found 3 and then '0'"),
        (PREAMBLE + TABLES + "T: go : left identity", "'identity' needs a square matrix"),
        (PREAMBLE + TABLES + "T: go : left reset", "'reset' needs a 'start:'"),
        (PREAMBLE + TABLES + "T: go : left : left : left 1", "more than 3 parts"),
        (
            PREAMBLE + TABLES + "T: go : left\n0.5 0.4",
            "line 12, column 1: T: go : left: probabilities sum to 0.9",
        ),
        (PREAMBLE + TABLES + "T go", "expected a statement"),
        (PREAMBLE + TABLES + "R: go 1", "expected ':', found '1'"),
        (PREAMBLE + TABLES + "R: go : left : left : dark x", "expected a number, found 'x'"),
        (PREAMBLE + TABLES + "start exclude: left right", "leaves no state"),
        (PREAMBLE + TABLES + "start: 0.5 0.4", "sum to 0.9"),
        (PREAMBLE + TABLES + "start: 2", "there is no state 2"),
        (PREAMBLE + TABLES + "start:", "expected a state, found the end of the file"),
    ],
)
def test_faults_say_where_and_what(read, text: str, told: str) -> None:
    assert told in complaint(read, text)


def test_every_fault_is_told(read) -> None:
    text = PREAMBLE + TABLES + "T: gone : left : left 1\nO: go : up : dark 1\nR: go : left : left : red 1\ndiscount: x"
    lines = complaint(read, text).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "line 12, column 4",
        "line 13, column 9",
        "line 14, column 23",
        "line 15, column 11",
    ]


def test_very_many_faults_are_cut_short(read) -> None:
    assert len(complaint(read, PREAMBLE + TABLES + "T: x\n" * 5000).splitlines()) == 51
    assert len(complaint(read, "states: 1000 actions: 100").splitlines()) == 51


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_pomdp(tmp_path / "none.pomdp")
    with pytest.raises(InputError, match="is a folder"):
        read_pomdp(tmp_path)
    with pytest.raises(InputError, match="cannot be the name of a file"):
        read_pomdp("a\0b")


def test_large_sparse_files_are_read_in_linear_time(read) -> None:
    def text(size: int) -> str:
        chain = "".join(f"T: 0 : {state} : {(state + 1) % size} 1\n" for state in range(size))
        return f"states: {size} actions: 1 observations: 1\nT: * : * : * 0\n{chain}O: * uniform\nR: * : 7 : * : * 1"

    few, many = (count_calls(lambda: read(text(size))) for size in (500, 2_000))  # noqa: B023
    assert many < 4.2 * few
    imported = read(text(20_000))
    assert imported.mdp.rewards.sum() == 1
    assert imported.mdp.transitions.columns[:3].tolist() == [1, 2, 3]


def test_nothing_but_input_errors_escapes(read) -> None:
    rng = np.random.default_rng(11)
    seeds = [
        PREAMBLE + "start: 0.5 0.5\n" + TABLES + "R: go : left : * : * 1\nT: go\n0.5 0.5\n1 0\n",
        random_file(rng)[0],
    ]
    pieces = [":", "*", "T:", "O:", "R:", "start", "include:", "1e9", "-", "#", "\n", "9" * 30, "identity", "\0", "é"]
    pieces += ["states:", "99999", "nan", "uniform", "reset", " ", "_", "\udcff", "²", "0" * 20]
    loaded = 0
    for _ in range(2000):
        text = seeds[rng.integers(len(seeds))]
        for _ in range(int(rng.integers(1, 5))):
            first, last = sorted(rng.integers(0, len(text) + 1, size=2))
            last = min(last, first + int(rng.integers(0, 12)))
            text = text[:first] + (pieces[rng.integers(len(pieces))] if rng.random() < 0.7 else "") + text[last:]
        with contextlib.suppress(InputError):
            read(text)
            loaded += 1
    assert 0 < loaded < 2000
