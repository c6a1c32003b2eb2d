"""The bundled scenarios, and problems by name or by file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opaq import load
from opaq.errors import Faults, InputError
from opaq.model.secret import InitialState, Language, LastState

NAMES = (
    "battery",
    "believer",
    "disclosure",
    "graph",
    "graph-published",
    "grid-initial-state",
    "grid-initial-state-4",
    "grid-last-state",
    "grid-last-state-4",
    "grid-trajectory",
    "two-sink",
    "warehouse",
)

BROKEN = """\
opaq: 1
model:
  states: [q0, q1]
  actions: [a]
  start: {q0: 1}
  transitions:
    q0:
      a: {q0: 0.3, q1: 0.5}
    q1: {a: {nowhere: 1}}
observer:
  emissions: {q0: {N: 1}, q1: {N: 1}}
secret: {last_state: [q1]}
horizon: -1
"""


def test_all_scenarios_are_there() -> None:
    assert load.scenario_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_explains_itself_and_loads_without_a_warning(name: str) -> None:
    faults = Faults()
    problem = load.load_problem(name, faults=faults)
    assert list(faults) == []
    assert 20 < len(load.describe_scenario(name)) < 110
    assert "\n" not in load.describe_scenario(name)
    assert load.scenario_text(name).startswith("# ")
    assert problem.task.return_at_least is not None


@pytest.mark.parametrize(
    ("name", "states", "actions", "horizon", "threshold"),
    [
        ("two-sink", 3, 2, 2, 0.0),
        ("grid-last-state", 34, 5, 12, 0.3),
        ("grid-last-state-4", 34, 4, 11, 0.3),
        ("grid-initial-state", 34, 5, 12, 0.3),
        ("grid-initial-state-4", 34, 4, 11, 0.3),
        ("graph", 7, 2, 5, 0.2),
        ("graph-published", 7, 2, 4, 0.2),
    ],
)
def test_the_figures_of_the_paper(name: str, states: int, actions: int, horizon: int, threshold: float) -> None:
    problem = load.load_problem(name)
    assert (problem.mdp.num_states, len(problem.mdp.actions)) == (states, actions)
    assert (problem.horizon, problem.discount, problem.task.return_at_least) == (horizon, 1.0, threshold)


def test_the_grids() -> None:
    last, initial = load.load_problem("grid-last-state").mdp, load.load_problem("grid-initial-state").mdp
    starts = [{mdp.states[place]: mdp.start[place] for place in mdp.start.nonzero()[0]} for mdp in (last, initial)]
    assert starts[0] == pytest.approx({f"(0,{row})": 1 / 6 for row in range(6)})
    assert starts[1] == pytest.approx({"(0,0)": 1 / 3, "(0,5)": 1 / 3, "(5,5)": 1 / 3})
    assert {last.states[place] for place in last.labels["secret"]} == {"(2,0)", "(2,3)", "(4,5)"}
    assert {last.states[place] for place in last.labels["goal"]} == {"(2,2)", "(4,3)"}
    assert isinstance(load.load_problem("grid-last-state").secret, LastState)
    assert isinstance(load.load_problem("grid-initial-state").secret, InitialState)
    assert next_states(last, "(2,4)", "N") == pytest.approx({"(2,3)": 0.8, "(1,4)": 0.1, "(3,4)": 0.1})
    assert next_states(last, "(1,1)", "N") == {"(1,1)": 1.0}
    assert next_states(last, "(2,4)", "stay") == {"(2,4)": 1.0}
    assert next_states(last, "(0,0)", "N") == pytest.approx({"(0,0)": 0.9, "(1,0)": 0.1})


def next_states(mdp, state: str, action: str) -> dict[str, float]:
    place, wanted = mdp.states.index(state), mdp.actions.index(action)
    choices = range(mdp.choice_start[place], mdp.choice_start[place + 1])
    (choice,) = [choice for choice in choices if mdp.choice_action[choice] == wanted]
    columns, values = mdp.transitions.row(choice)
    return {mdp.states[column]: float(value) for column, value in zip(columns, values, strict=True)}


def test_the_two_graphs_differ_in_the_four_known_places() -> None:
    paper, published = load.load_problem("graph"), load.load_problem("graph-published")
    assert next_states(paper.mdp, "3", "a2") == {"2": 1.0}
    assert next_states(published.mdp, "3", "a2") == next_states(published.mdp, "3", "a1") == {"1": 0.5, "h2": 0.5}
    assert isinstance(paper.secret, Language)
    assert isinstance(published.secret, Language)
    assert (paper.secret.automaton.reads, published.secret.automaton.reads) == ("entered", "left")
    secret_place = frozenset({"ps"})
    assert paper.secret.automaton.step(1, secret_place) == 1
    assert published.secret.automaton.step(1, secret_place) == 2
    assert paper.policy_class.conditions_on == ("state", "automaton")


def test_an_unknown_name_suggests_the_nearest_and_lists_all() -> None:
    with pytest.raises(InputError) as caught:
        load.load_problem("grid-last-stat")
    assert "did you mean 'grid-last-state'?" in str(caught.value)
    assert all(name in str(caught.value) for name in NAMES)


def test_files_and_names_do_not_get_mixed_up(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two-sink").write_text(load.scenario_text("graph"))
    Path("mine").write_text(load.scenario_text("graph"))
    assert load.load_problem("two-sink").horizon == 2
    assert load.load_problem("./two-sink").horizon == 5
    assert load.load_problem("mine").horizon == 5
    assert load.load_problem(Path("mine")).horizon == 5
    with pytest.raises(InputError, match=r"two-sink\.yaml: no such file"):
        load.load_problem("two-sink.yaml")


def test_every_fault_of_a_file_comes_with_its_line(tmp_path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(BROKEN)
    with pytest.raises(InputError) as caught:
        load.load_problem(file)
    found = {fault.where: fault.line for fault in caught.value.faults}
    expected = {"model.transitions.q0.a": 8, "model.transitions.q1.a.nowhere": 9, "horizon": 13}
    assert expected.items() <= found.items()
    assert all(line.startswith(f"{file}: ") for line in caught.value.lines())


@pytest.mark.parametrize("text", ["[1, 2]", "just words", "3"])
def test_a_file_that_is_no_mapping(tmp_path, text: str) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="expected keys such as"):
        load.load_problem(file)


def test_a_problem_is_called_after_its_file_unless_it_has_a_name(tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text(load.scenario_text("two-sink"))
    (tmp_path / "named.yaml").write_text(load.scenario_text("two-sink") + "name: other\n")
    assert load.load_problem("two-sink").name == "two-sink"
    assert load.load_problem(tmp_path / "mine.yaml").name == "mine"
    assert load.load_problem(tmp_path / "named.yaml").name == "other"


def test_a_file_name_that_is_no_text_is_spelt_out(tmp_path) -> None:
    file = os.path.join(os.fsencode(tmp_path), b"two\xffsink.yaml")
    try:
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(load.scenario_text("two-sink"))
    except OSError:
        pytest.skip("the file system takes UTF-8 only")
    assert load.load_problem(os.fsdecode(file)).name == "two\\udcffsink"
