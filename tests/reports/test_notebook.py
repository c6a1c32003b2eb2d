"""A notebook as users run it: figures, reports and results show themselves, without a magic command."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import opaq

nbformat = pytest.importorskip("nbformat", reason="nbformat is missing: pip install 'opaq[test]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is missing: pip install 'opaq[test]'")
pytest.importorskip("ipykernel", reason="ipykernel is missing: pip install 'opaq[test]'")

CELLS = {
    "problem": 'import opaq\nproblem = opaq.load_problem("two-sink")\nproblem',
    "policy figure": 'opaq.plot_policy(problem, "return-optimal")',
    "measurement": 'measured = opaq.measure(problem, "return-optimal")\nmeasured',
    "number": 'f"{measured.opacity:.3f}", float(measured.leakage), measured.opacity < 1',
    "over time": "over = opaq.opacity_over_time(problem)\nover",
    "figure over time": "opaq.plot_opacity_over_time(over)",
    "sequences": "opaq.most_revealing(problem)",
    "front": "front = opaq.frontier(problem, points=2)\nfront",
    "front figure": "opaq.plot_frontier(front)",
    "sensors": "opaq.sensors(problem, fixed=True)",
    "report": "opaq.report(problem, runs=1)",
    "own figure": "import matplotlib.pyplot as plt\n%matplotlib inline\nopaq.plot_policy(problem)",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What every cell shows."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = str(tmp_path_factory.mktemp("notebook"))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


@pytest.mark.parametrize("name", [name for name in CELLS if "figure" in name])
def test_figures_show_once_without_a_magic_command(name: str, outputs: dict[str, list[Any]]) -> None:
    pictures = [output for output in outputs[name] if "image/png" in output.get("data", {})]
    assert len(pictures) == 1


@pytest.mark.parametrize("name", ["problem", "measurement", "over time", "sequences", "front", "sensors", "report"])
def test_results_show_as_html(name: str, outputs: dict[str, list[Any]]) -> None:
    (shown,) = [output["data"]["text/html"] for output in outputs[name] if "data" in output]
    assert shown.startswith("<iframe" if name == "report" else "<div")


def test_amounts_are_numbers(outputs: dict[str, list[Any]]) -> None:
    (shown,) = outputs["number"]
    assert shown["data"]["text/plain"] == "('0.250', 0.75, True)"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="install Debian's chromium: apt-get install chromium")
def test_the_frame_runs_its_page_and_no_more(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install 'opaq[test]'")
    report = opaq.report("two-sink", runs=1)
    opaq.sweep({"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [1, 2]}}, output=tmp_path / "study")
    study = opaq.report(tmp_path / "study")
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><title>notebook</title>{report._repr_html_()}{study._repr_html_()}")
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page, faults = browser.new_page(), []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(file.as_uri())
        first, second = page.frames[1:]
        assert "hides 0.4056 of 0.9544 bits" in first.inner_text("body")
        assert first.evaluate("document.documentElement.classList.contains('scripted')")
        assert "2 points" in second.inner_text("body")
        for frame in (first, second):
            assert frame.evaluate("(() => { try { return !!parent.document } catch { return false } })()") is False
        browser.close()
    assert faults == []
