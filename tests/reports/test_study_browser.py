"""The page of a study in a browser: sorted, filtered and followed by mouse and by keyboard."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opaq
from opaq.reports.page.render import render_study
from reports.study_examples import (
    HOSTILE,
    example_study,
    front_of,
    front_page_data,
    hostile_data,
    many_points,
    temporary_folder,
    unsure_front,
)
from reports.test_page_browser import (
    AXE,
    CHROMIUM,
    Open,
    browser,
    open_page,
    overflow,
    reports,
    shared_page,
    shoot,
    sync_api,
)
from trials import long, part_of

__all__ = ["browser", "open_page", "reports", "shared_page"]  # fixtures
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="install Debian's chromium: apt-get install chromium")


@functools.cache
def folder() -> Path:
    return temporary_folder()


@functools.cache
def sweep_page() -> Path:
    page = folder() / "sweep.html"
    opaq.report(example_study(folder() / "swept"), output=page, runs=1, points=3)
    return page


@functools.cache
def front_page() -> Path:
    page = folder() / "front.html"
    opaq.report(opaq.frontier("two-sink", points=4, certify=True), output=page, points="none")
    return page


def _written(name: str, data: dict[str, Any]) -> Path:
    page = folder() / f"{name}.html"
    page.write_text(render_study(data), encoding="utf-8")
    return page


PAGES: dict[str, Callable[[], Path]] = {
    "study-sweep": sweep_page,
    "study-front": front_page,
    "study-many": lambda: _written("many", many_points(150)),
    "study-hostile": lambda: _written("hostile", hostile_data()),
}


def order(page: Any) -> list[str]:
    shown: list[str] = page.evaluate(
        "[...document.querySelectorAll('#points tbody th')].map((cell) => cell.textContent)"
    )
    assert shown == page.evaluate("opaqStudy.order()")[: len(shown)]
    return shown


@pytest.mark.parametrize("name", part_of([*PAGES], 2))
def test_every_study_opens_and_fits(open_page: Open, name: str) -> None:
    theme = "dark" if name == "study-sweep" else "light"  # colours change no sizes; contrast is tested in both
    page = open_page(PAGES[name](), theme=theme).page
    assert page.locator("section:visible").count() == 3
    assert page.locator(".fault:visible").count() == 0
    assert overflow(page) == 0
    shoot(page, f"{name}-1400-{theme}", full_page=True)
    page.set_viewport_size({"width": 380, "height": 800})
    assert overflow(page) == 0
    shoot(page, f"{name}-380-{theme}", full_page=True)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing: make axe (it needs npm)")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", part_of(["study-sweep", "study-hostile"], 1))
def test_no_serious_barrier(open_page: Open, name: str, theme: str) -> None:
    page = open_page(PAGES[name](), theme=theme, width=1000).page
    page.locator(".plot-box").focus()
    page.keyboard.press("ArrowRight")
    page.locator("th[data-key=opacity] button").click()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((report) => report.violations)")
    assert [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
        for rule in violations
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:3]
    ] == []


def test_sorting_by_mouse_and_keyboard(open_page: Open) -> None:
    data = many_points(150)
    page = open_page(PAGES["study-many"]()).page
    names = [point["point"] for point in data["points"]]
    known = [point for point in data["points"] if point["opacity"]]
    without = [point["point"] for point in data["points"] if not point["opacity"]]
    upwards = [point["point"] for point in sorted(known, key=lambda point: point["opacity"]["value"])]
    head = page.locator("th[data-key=opacity]")
    assert order(page) == names
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert order(page) == upwards + without
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert order(page) == upwards[::-1] + without
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") is None
    assert order(page) == names
    page.locator("th[data-key=status] button").focus()
    page.keyboard.press("Enter")
    assert page.locator("[aria-sort]").count() == 1
    shown = page.locator("td.status").all_inner_texts()
    assert shown[0].startswith("converged")
    assert page.locator("td.status .error").first.inner_text() == "out of memory"


FILTERS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("horizon = 8", lambda point: point["parameters"]["horizon"] == 8),
    ("horizon=8 opacity>0.8", lambda point: point["parameters"]["horizon"] == 8 and bits(point) > 0.8),
    ("return_at_least <= 0.2", lambda point: point["parameters"]["task.return_at_least"] <= 0.2),
    ("guess_error < 0.25", lambda point: point["opacity"] and point["guess_error"]["value"] < 0.25),
    ("status != failed", lambda point: point["status"] != "failed"),
    ("memory", lambda point: point["status"] == "failed"),
    ('"no result" ', lambda point: point["status"] == ""),
    ("conditions_on : time", lambda point: "time" in point["parameters"]["policy.conditions_on"]),
    ("nothing-like-this", lambda point: False),
]


def test_filtering(open_page: Open) -> None:
    data = many_points(150)
    page = open_page(PAGES["study-many"]()).page
    page.locator("#plot-x").select_option(label="return")
    for text, keeps in FILTERS:
        page.locator("#filter").fill("")
        page.keyboard.type(text)
        kept = [point["point"] for point in data["points"] if keeps(point)]
        assert order(page) == kept, text
        assert page.locator("[data-part=count]").inner_text() == f"{len(kept)} of 150 points shown."
        drawn = [point for point in data["points"] if keeps(point) and point["opacity"]]
        assert page.locator(".point-mark").count() == len(drawn), text


def bits(point: dict[str, Any]) -> float:
    return point["opacity"]["lower"] if point["opacity"] else -1.0


def test_terms_that_make_no_sense_are_said(open_page: Open) -> None:
    page = open_page(PAGES["study-many"]()).page
    page.locator("#filter").fill("colour = red horizon > tall")
    words = page.locator("[data-part=count]").inner_text()
    assert "There is no column “colour”." in words
    assert "“tall” is no number" in words
    assert page.locator("#points tbody tr").count() == 150
    page.locator("#filter").fill("opacity <")
    assert "“opacity <” has no value yet." in page.locator("[data-part=count]").inner_text()
    assert page.locator("#points tbody tr").count() == 150


def test_one_click_to_the_report_of_a_point(open_page: Open) -> None:
    opened = open_page(PAGES["study-sweep"]())
    page = opened.page
    links = page.locator("#points tbody a")
    assert links.count() == 3
    row = page.locator("#points tbody tr", has_text=links.first.get_attribute("href")[-9:-5])
    opacity = float(row.locator("td.numeric").nth(2).inner_text())
    links.first.click()
    page.wait_for_selector("#replay")
    assert "-points/000" in page.url
    assert abs(float(page.locator(".card .figure").first.inner_text().split()[0]) - opacity) < 6e-4
    page.go_back()
    assert page.locator("#points tbody tr").count() == 6


def test_the_plot_leads_to_the_row(open_page: Open) -> None:
    page = open_page(PAGES["study-sweep"]()).page
    page.locator(".point-mark.outcome-feasible").first.click()
    row = page.locator("tr.selected")
    assert row.count() == 1
    assert page.evaluate("document.activeElement.closest('tr').classList.contains('selected')")
    name = row.locator("th").inner_text()
    assert page.locator(".inspected").inner_text() == f"Point {name} · Open its report"
    assert page.evaluate("location.hash") == f"#point={name}"
    page.locator(".plot-box").focus()
    page.keyboard.press("Home")
    first = page.locator(".inspected").inner_text()
    page.keyboard.press("End")
    assert page.locator(".inspected").inner_text() != first
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('tr').className").endswith("selected")
    shoot(page.locator("#plot"), "study-plot")


def test_axes_and_colours_are_chosen(open_page: Open) -> None:
    page = open_page(PAGES["study-many"]()).page
    data = many_points(150)
    positions = "[...document.querySelectorAll('.point-mark')].map((mark) => mark.outerHTML).join()"
    assert page.locator("#plot-x option:checked").inner_text() == "horizon"  # what varies comes first
    page.locator("#plot-x").select_option(label="return")
    before = page.evaluate(positions)
    page.locator("#plot-x").select_option(label="policy.conditions_on")
    ticks = page.evaluate("[...document.querySelectorAll('#plot .tick')].map((tick) => tick.textContent)")
    assert {'["state"]', '["state","time"]'} <= set(ticks)
    shoot(page, "study-many-classes", full_page=True)
    page.locator("#plot-x").select_option(label="horizon")
    assert page.evaluate(positions) != before
    assert page.locator(".point-mark.outcome-failed").count() == data["counts"]["failed"]
    assert "the best at every value" in page.locator(".legend").inner_text()
    page.locator("#plot-colour").select_option(label="task.return_at_least")
    assert "task.return_at_least 0.3" in page.locator(".legend").inner_text()
    page.locator("#plot-y").select_option(label="guess error")
    assert page.locator(".bound-mark").count() == 0
    shoot(page, "study-many-horizon", full_page=True)


def test_the_axis_is_what_the_task_is_about(open_page: Open) -> None:
    data = front_page_data(front_of("guesswork", minimise=True, values=(0.4, 1.0)))
    page = open_page(_written("guesswork", data)).page
    assert page.locator("#plot-y option:checked").inner_text() == "guesswork (guesses)"
    assert "no point is lower and further right" in page.locator(".legend").inner_text()


def test_a_broken_law_is_said_on_the_page(open_page: Open) -> None:
    data = many_points(12) | {"warnings": ["A law is broken: <b>point</b> 0001 reaches less."]}
    page = open_page(_written("laws", data)).page
    assert page.locator(".opening .fault").inner_text() == "A law is broken: <b>point</b> 0001 reaches less."


def test_the_joined_points_are_the_front(open_page: Open) -> None:
    page = open_page(PAGES["study-many"]()).page
    page.locator("#plot-x").select_option(label="return")
    assert page.locator(".joined").get_attribute("d").count(",") == len(many_points(150)["front"])


def test_the_address_names_a_point(open_page: Open) -> None:
    page = open_page(PAGES["study-many"](), address="#point=0100").page
    assert page.locator("tr.selected th").inner_text() == "0100"
    page.evaluate("location.hash = '#point=none'")
    assert page.locator("tr.selected th").inner_text() == "0100"


def test_hostile_names_are_text(open_page: Open) -> None:
    page = open_page(PAGES["study-hostile"]()).page
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, embed").count() == 0
    assert page.locator("#points tbody tr").count() == len(HOSTILE)
    page.locator("#filter").fill('"</script><script>"')
    assert page.locator("#points tbody tr").count() >= 1
    page.evaluate("opaqStudy.select(0, {go: true})")
    assert HOSTILE[0][:20] in page.locator(".inspected").inner_text()


@long
def test_thousands_of_rows_come_in_portions(open_page: Open) -> None:
    page = open_page(_written("thousands", many_points(3000))).page
    assert page.locator("#points tbody tr").count() == 500
    page.get_by_role("button", name="Show 2,000 more of 2,500").click()
    assert page.locator("#points tbody tr").count() == 2500
    page.evaluate("opaqStudy.select(2999, {go: true})")
    assert page.locator("tr.selected th").inner_text() == "3000"
    page.locator("#filter").fill("horizon = 6")
    assert page.locator("#points tbody tr").count() == 500


def test_without_scripts_the_answer_is_there(open_page: Open) -> None:
    page = open_page(PAGES["study-sweep"](), java_script_enabled=False).page
    words = page.locator("body").inner_text()
    assert "6 points: 6 done (2 infeasible)" in words
    assert "JavaScript" in words
    sync_api.expect(page.locator("#points")).to_be_hidden()


def test_bars_are_standard_errors_or_intervals(open_page: Open) -> None:
    page = open_page(_written("unsure", front_page_data(unsure_front()))).page
    shown = page.evaluate(
        """() => {
          const long = (line) => Math.abs(line.y1.baseVal.value - line.y2.baseVal.value);
          const bars = [...document.querySelectorAll('line.interval')].map(long);
          return { bars, cells: [...document.querySelectorAll('#points tbody td')].map((cell) => cell.textContent) };
        }"""
    )
    short, long = sorted(shown["bars"])
    assert short == pytest.approx(long * 0.04 / 1.5, rel=0.05)
    assert {"0.6000 ± 0.02", "0 to 1.5000", "0.4000"} <= set(shown["cells"])
    assert not any("0.75" in cell for cell in shown["cells"])
