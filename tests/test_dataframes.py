"""Tables of pandas: the figures are those of the objects, columns stay where there are no rows, pandas is optional."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import opaq
from opaq.display import data_frame


@pytest.fixture(scope="module")
def solution() -> opaq.Solution:
    return opaq.solve("two-sink", conditions="state,time", starts=2)


def test_a_policy(solution: opaq.Solution) -> None:
    table = solution.policy.to_dataframe()
    assert list(table.columns) == ["state", "time", "action", "probability"]
    assert len(table) == sum(len(row) for row in solution.policy.rows.values())
    for line in table.itertuples():
        assert solution.policy.rows[line.state, line.time][line.action] == line.probability
    assert table.groupby(["state", "time"])["probability"].sum().tolist() == pytest.approx(
        [1.0] * len(solution.policy.rows)
    )


def test_a_policy_that_remembers_states() -> None:
    policy = opaq.solve("two-sink", conditions="last_states:2", starts=1).policy
    keys = policy.to_dataframe()["last_states"]
    assert {*keys} == {key for (key,) in policy.rows}


def test_the_trace_and_the_starts_of_a_solution(solution: opaq.Solution) -> None:
    trace, starts = solution.to_dataframe(), solution.starts_to_dataframe()
    assert list(trace.columns) == ["iteration", "opacity", "slack of return", "multiplier of return"]
    assert trace["iteration"].tolist() == [step.iteration for step in solution.trace]
    assert trace["opacity"].iloc[-1] == pytest.approx(solution.measurement.opacity.value, abs=1e-3)
    assert starts["kind"].tolist() == [start.kind for start in solution.starts]
    best = starts.loc[starts["feasible"], "opacity"].max()
    assert best == pytest.approx(solution.measurement.opacity.value, abs=1e-4)
    stopped = replace(solution, starts=(replace(solution.starts[0], value=None),))
    assert stopped.starts_to_dataframe()["opacity"].isna().all()


def test_scores_of_minima_and_losses_are_their_values() -> None:
    spec = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    losses = {"g": {"yes": 4}, "h": {"no": 4}}
    for task in ({"objective": "minimise"}, {"of": {"loss": losses}}, {"of": "guess_error"}):
        found = opaq.solve(opaq.build_problem({**spec, "task": task}), starts=1)
        name = found.measurement.of.name
        table = found.starts_to_dataframe()
        assert table[name].iloc[0] == pytest.approx(found.measurement.uncertainty.value, abs=1e-3)


def test_the_sequences_of_a_measurement() -> None:
    measurement = opaq.measure("graph")
    table = measurement.to_dataframe()
    assert table["kind"].tolist() == ["revealing"] * 3 + ["confusing"] * 3
    assert table["observations"].tolist()[0] == measurement.revealing[0].observations
    beliefs = table[[f"P({value})" for value in measurement.secret_distribution]]
    assert beliefs.sum(axis=1).tolist() == pytest.approx([1.0] * 6)
    none = replace(measurement, revealing=(), confusing=()).to_dataframe()
    assert (len(none), list(none.columns)) == (0, list(table.columns))


def test_a_comparison_and_a_certificate() -> None:
    comparison = opaq.compare("two-sink", classes=["state", "state,time"], starts=1)
    table = comparison.to_dataframe()
    assert table["class"].tolist() == ["state", "state, time"]
    assert table["opacity"].tolist() == [rung.measurement.opacity.value for rung in comparison.rungs]
    assert replace(comparison, rungs=()).to_dataframe().empty
    certificate = opaq.certify("two-sink", time_limit=3.0)
    ladder = certificate.to_dataframe()
    assert ladder["bound"].min() == pytest.approx(certificate.upper_bound)
    assert ladder["machine"].tolist() == [rung.machine for rung in certificate.ladder]


def test_runs_and_replays() -> None:
    runs = opaq.simulate("graph", runs=4, seed=2)
    table = opaq.runs_to_dataframe(runs)
    assert list(table.columns) == ["run", "time", "state", "action", "observation", "secret"]
    for number, run in enumerate(runs):
        mine = table[table["run"] == number]
        assert tuple(mine["state"]) == run.states
        assert tuple(mine["observation"]) == run.observations
        assert set(mine["secret"]) == {run.secret}
    replays = opaq.replay("graph", runs=runs)
    beliefs = opaq.runs_to_dataframe(replays)
    assert list(beliefs.columns[:6]) == list(table.columns)
    assert beliefs[table.columns].equals(table)
    one = replays[1].to_dataframe()
    assert one["time"].tolist() == list(range(6))
    assert one["P(q3)"].tolist() == [moment.belief["q3"] for moment in replays[1].steps]
    assert opaq.runs_to_dataframe([]).columns.tolist() == list(table.columns)


def test_replays_of_observations_alone() -> None:
    seen = opaq.simulate("graph", runs=1)[0].observations[:3]
    table = opaq.replay("graph", observations=seen)[0].to_dataframe()
    assert tuple(table["observation"]) == seen
    assert set(table["state"]) == {""}


def test_columns_without_rows() -> None:
    assert list(data_frame([], ("a", "b")).columns) == ["a", "b"]


def test_without_pandas_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['pandas'] = None\nimport opaq\nopaq.measure('two-sink').to_dataframe()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "opaq.errors.OpaqError: tables need pandas: pip install 'pandas>=2.2' 'pyarrow>=17'"
    )


def test_nothing_loads_pandas_before_it_is_asked_for() -> None:
    code = "import sys, opaq; opaq.measure('two-sink')._repr_html_(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
