"""Pictures of what sensors cost, and of fronts, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

import opaq
from commands import opaq_command
from opaq.reports.sensor_figure import cell_costs, plot_sensors


def test_cells_are_tinted_by_the_cost_of_the_sensors_that_cover_them() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    ranking = opaq.sensors(problem, fixed=True, changes=[])
    costs = dict(zip(problem.mdp.states, cell_costs(ranking, problem), strict=True))
    assert costs["(2,3)"] == pytest.approx(ranking.costs["E"])
    assert costs["(1,1)"] == pytest.approx(ranking.costs["D"])
    assert costs["(0,0)"] == 0
    figure = plot_sensors(ranking, problem)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(set(words)) == ["A", "B", "C", "D", "E"]


def test_bars_where_there_is_no_grid() -> None:
    ranking = opaq.sensors("two-sink", fixed=True, changes=[])
    figure = plot_sensors(ranking, opaq.load_problem("two-sink"))
    assert [bar.get_width() for bar in figure.axes[0].patches] == pytest.approx([*ranking.costs.values()][::-1])


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
