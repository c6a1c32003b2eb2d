"""Grids in characters: the arrows are the policy's, whatever the encoding, the width and the kind of policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opaq
from commands import opaq_command
from opaq.errors import InputError
from opaq.reports.grid import ASCII, UNICODE, GridView, PolicyView, Symbols, path_lines, policy_lines

GRID = {
    "opaq": 1,
    "grid": {
        "size": [3, 2],
        "start": [0, 0],
        "walls": [[1, 1]],
        "traps": [[2, 1]],
        "stay": True,
        "labels": {"goal": [[2, 0]]},
    },
    "observer": {"emissions": {"*": "dark"}},
    "secret": {"last_state": "goal"},
    "horizon": 2,
}


def grid(**changes: object) -> opaq.Problem:
    return opaq.build_problem({**GRID, **changes})


def view_of(problem: opaq.Problem, rows: dict[tuple, dict[str, float]], conditions: tuple[str, ...]) -> PolicyView:
    policy_class = opaq.PolicyClass(conditions)
    product = opaq.compile_problem(problem, policy_class)
    table = {key: rows.get(key, {"stay": 1.0}) for key in product.rows}
    return PolicyView(product, product.policy_vector(opaq.Policy(policy_class, table)))


MIXED = {
    ("(0,0)",): {"E": 0.6, "S": 0.4},
    ("(1,0)",): {"E": 0.5, "W": 0.3, "stay": 0.2},
    ("(0,1)",): {"N": 0.96, "S": 0.04},
}


def test_arrows_of_a_policy_by_state() -> None:
    lines = policy_lines(view_of(grid(), MIXED, ("state",)), width=100)
    assert lines.title == "likeliest actions"
    assert lines.content[:3] == ("   0   1   2", "0  →↓  →+ g·", "1  ↑   ##  x")
    assert "labels: g goal" in " ".join(lines.content)
    ascii_lines = policy_lines(view_of(grid(), MIXED, ("state",)), symbols=ASCII, width=100)
    assert ascii_lines.content[1:3] == ("0  >v  >+ g.", "1  ^   ##  x")
    assert all(line.isascii() for line in ascii_lines.content)


def test_arrows_of_one_time_and_of_all() -> None:
    rows = {("(0,0)", 0): {"E": 1.0}, ("(1,0)", 1): {"W": 1.0}, ("(0,0)", 2): {"S": 1.0}}
    view = view_of(grid(), rows, ("state", "time"))
    shown = {time: policy_lines(view, time=time).content[1] for time in range(3)}
    assert shown == {0: "0  →      g", 1: "0      ←  g", 2: "0  ↓      g"}
    average = policy_lines(view)
    assert average.title == "likeliest actions, averaged over the run"
    assert average.content[1] == "0  →↓  ←  g"
    with pytest.raises(InputError, match="time: is 3; give a time from 0 to the horizon, 2"):
        policy_lines(view, time=3)


def test_equally_likely_actions_have_no_favourite() -> None:
    problem = grid()
    product = opaq.compile_problem(problem)
    lines = policy_lines(PolicyView(product, product.process.uniform()))
    assert lines.content[1:3] == ("0  *   *  g*", "1  *   ##  x")


def test_a_wide_grid_is_cut_to_the_page() -> None:
    problem = grid(grid={"size": [60, 3], "start": [0, 0]}, secret={"last_state": True})
    product = opaq.compile_problem(problem)
    lines = policy_lines(PolicyView(product, product.process.uniform()), width=50)
    assert max(map(len, lines.content)) <= 50
    assert "columns 12 to 59 do not fit the page" in lines.content
    tall = grid(grid={"size": [1, 500], "start": [0, 0]}, secret={"last_state": True})
    product = opaq.compile_problem(tall)
    lines = policy_lines(PolicyView(product, product.process.uniform()))
    assert "rows 200 to 499 are left out" in lines.content
    assert len(lines.content) < 210


def test_the_path_of_a_run() -> None:
    view = GridView.of(grid())
    assert view is not None
    at = grid().mdp.states.index
    lines = path_lines(view, [at(name) for name in ("(0,0)", "(0,0)", "(1,0)", "(0,0)", "(0,1)")], title="path")
    assert lines.content[:3] == ("   0   1   2", "0  0+  2   .", "1  4   ##  .")
    long = path_lines(view, [at("(0,0)")] * 1234 + [at(name) for name in ("(1,0)", "(0,0)", "(1,0)")], title="path")
    assert long.content[1].split() == ["0", "0+", "1234+", "."]


@pytest.mark.parametrize(
    ("encoding", "symbols"), [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), (None, ASCII), ("odd", ASCII)]
)
def test_the_encoding_decides(encoding: str | None, symbols: Symbols) -> None:
    assert Symbols.for_encoding(encoding) is symbols


def test_other_actions_are_shown_by_their_initials() -> None:
    assert [UNICODE.of(name) for name in ("up", "Left", "stay", "jump", "\x1b[2J", "")] == [
        "↑",
        "←",
        "·",
        "j",
        "\\",
        "?",
    ]


def test_labels_cannot_steer_the_terminal() -> None:
    problem = grid(grid={**GRID["grid"], "labels": {"\x1b[2J\u202e": [[2, 0]]}}, secret={"last_state": True})
    product = opaq.compile_problem(problem)
    text = "\n".join(policy_lines(PolicyView(product, product.process.uniform())).content)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\x1b[2J\\u202e" in text


def test_the_commands(tmp_path: Path) -> None:
    solved = opaq_command(
        "solve", "grid-last-state-4", "--time-limit", "2", "--grid", "-q", "--save-policy", tmp_path / "p.json"
    )
    board = solved.stdout.partition("likeliest actions\n")[2].splitlines()
    assert board[0].split() == list("012345")
    again = opaq_command("measure", "grid-last-state-4", "--policy", tmp_path / "p.json", "--grid", "-q")
    assert again.stdout.partition("likeliest actions\n")[2].splitlines() == board
    first = opaq_command("measure", "grid-last-state-4", "--grid-time", "0", "-q", "--sequences", "0")
    assert "likeliest actions at time 0\n" in first.stdout
    paths = opaq_command("simulate", "grid-last-state-4", "--grid", "--runs", "2", "-q")
    assert paths.stdout.count("\npath of run ") == 2


@pytest.mark.parametrize("command", ["measure", "solve", "simulate"])
def test_what_cannot_be_drawn_is_refused(command: str) -> None:
    done = opaq_command(command, "graph", "--grid")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "opaq: graph: --grid: the problem is no grid: its states are not cells called (column,row); leave --grid out\n"
    )
    json = opaq_command(command, "grid-last-state-4", "--grid", "--json")
    assert (json.returncode, json.stdout) == (2, "")
    assert json.stderr == "opaq: --grid: has no effect with --json; leave one of them out\n"


def test_a_time_after_the_end_is_refused() -> None:
    done = opaq_command("measure", "grid-last-state-4", "--grid-time", "12")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "opaq: grid-last-state-4: --grid-time: is 12; give a time up to 11\n"


def test_random_policies_show_their_likeliest_action() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    product = opaq.compile_problem(problem)
    pi = product.process.softmax(np.random.default_rng(5).normal(scale=3.0, size=product.process.num_slots))
    view = GridView.of(problem)
    assert view is not None
    policy = PolicyView(product, pi)
    board = policy_lines(policy).content[1:7]
    for state, shares in policy.average().items():
        if state in view.traps:
            continue
        column, row = view.cells[state]
        best = problem.mdp.actions[max(shares, key=shares.__getitem__)]
        assert board[row][2 + 4 * column + 1] == UNICODE.of(best)


def test_a_frame_of_walls_is_not_drawn() -> None:
    """The board ends where the cells do on all sides; rulers keep the columns and rows of the map."""
    problem = grid(grid={"map": "####\n#S.#\n#..#\n####"}, secret={"last_state": ["(2,2)"]})
    view = GridView.of(problem)
    assert view is not None
    assert (view.width, view.height, view.walls) == (2, 2, ())
    board = path_lines(view, [0, 1], title="run").content
    assert board[0].split() == ["1", "2"]
    assert [line.split()[0] for line in board[1:3]] == ["1", "2"]
