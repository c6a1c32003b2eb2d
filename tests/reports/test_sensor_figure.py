"""Pictures of what sensors cost, and of fronts, as files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from commands import opaq_command
from opaq.reports.figures.sensors import cell_costs, plot_sensors


def test_cells_are_tinted_by_the_cost_of_the_sensors_that_cover_them() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    ranking = opaq.sensors(problem, fixed=True, changes=[])
    costs = dict(zip(problem.mdp.states, cell_costs(ranking, problem), strict=True))
    assert costs["(2,3)"] == pytest.approx(ranking.costs["E"].value)
    assert costs["(1,1)"] == pytest.approx(ranking.costs["D"].value)
    assert costs["(0,0)"] == 0
    figure = plot_sensors(ranking, problem)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(set(words)) == ["A", "B", "C", "D", "E"]


def test_bars_where_there_is_no_grid() -> None:
    ranking = opaq.sensors("two-sink", fixed=True, changes=[])
    figure = plot_sensors(ranking, opaq.load_problem("two-sink"))
    assert [bar.get_width() for bar in figure.axes[0].patches] == pytest.approx(
        [cost.value for cost in ranking.costs.values()][::-1]
    )


def test_what_is_not_known_is_not_painted_as_nothing() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    ranking = opaq.sensors(problem, fixed=True, changes=[])
    unknown = opaq.Amount.between(0.0, 0.9)
    trials = [replace(each, gain=unknown) if each.sensor == "E" else each for each in ranking.trials]
    ranking = replace(ranking, trials=tuple(trials))
    costs = dict(zip(problem.mdp.states, cell_costs(ranking, problem), strict=True))
    assert np.isnan(costs["(2,3)"])
    assert costs["(1,1)"] == pytest.approx(ranking.costs["D"].value)
    axes = plot_sensors(ranking, problem).axes[0]
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(1.5, 2.5)]
    assert axes.get_xlabel() == "hatched: not measured closely enough"


def test_bars_of_estimates_and_intervals() -> None:
    ranking = opaq.sensors("two-sink", fixed=True, changes=[])
    gains = {"R": opaq.Amount.between(0.1, 0.6), "B": opaq.Amount(0.2, 0.0, 0.9, "sampled", 0.05)}
    ranking = replace(ranking, trials=tuple(replace(each, gain=gains[each.sensor]) for each in ranking.trials))
    axes = plot_sensors(ranking, opaq.load_problem("two-sink")).axes[0]
    bars = {(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in axes.patches}
    assert bars == {(0.1, 0.5), (0.0, 0.2)}
    (error,) = axes.collections
    assert sorted(error.get_segments()[0][:, 0]) == pytest.approx([0.15, 0.25])


@pytest.mark.parametrize("words", [("sensors", "two-sink", "--fixed"), ("frontier", "two-sink", "--points", 2)])
def test_files(words: tuple[object, ...], tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"
    assert opaq_command(*words, "--plot", file).returncode == 0
    assert file.read_text().startswith("<?xml")
    again = opaq_command(*words, "--plot", file)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    odd = opaq_command(*words, "--plot", tmp_path / "picture.bmp")
    assert odd.returncode == 2
    assert ".bmp" in odd.stderr
