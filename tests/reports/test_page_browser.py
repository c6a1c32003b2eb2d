"""The page of a report in a browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import opaq
import opaq.product.compile
from opaq.reports.page.render import render_report
from reports.page_examples import EXAMPLES, HOSTILE
from trials import part_of

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="install Debian's chromium: apt-get install chromium")

ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = ROOT / "out" / "screenshots"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
)


@dataclass(eq=False)
class Opened:
    """A page and all that went wrong on it."""

    page: Any
    faults: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.faults.append(text)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of an example's report, made when first asked for."""
    folder = tmp_path_factory.mktemp("reports")

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(render_report(EXAMPLES[name]().data), encoding="utf-8")
        return path

    return file


def listen(page: Any) -> Opened:
    """A page that notes whatever goes wrong on it from now on: complaints, requests, dialogs."""
    one = Opened(page)
    page.on("console", lambda message: one.note(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: one.note(str(error)))
    page.on("dialog", lambda dialog: (one.note(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else one.note(request.url))
    return one


@pytest.fixture(scope="module")
def shared_page(browser: Any) -> Opened:
    """The page that tests share, one after the other: a page of its own takes longer than what most of them do."""
    return listen(browser.new_context().new_page())


@pytest.fixture
def open_page(browser: Any, shared_page: Opened, reports: Callable[[str], Path]) -> Iterator[Open]:
    """Opens reports; at the end no page may have complained, asked for anything or shown a dialog.

    The second page of a test, one with options and one that is to be `fresh` (nothing is stored) are its own.
    """
    opened: list[Opened] = []

    def opens(
        what: str | Path,
        *,
        width: int = 1400,
        theme: str = "light",
        address: str = "",
        fresh: bool = False,
        **options: Any,
    ) -> Opened:
        size = {"width": width, "height": 900}
        if fresh or options or shared_page in opened:
            one = listen(browser.new_context(viewport=size, color_scheme=theme, **options).new_page())
        else:
            one = shared_page
            one.page.goto("about:blank")
            one.page.mouse.move(0, 0)
            one.page.set_viewport_size(size)
            one.page.emulate_media(media="null", color_scheme=theme)
        opened.append(one)
        path = reports(what) if isinstance(what, str) else what
        one.page.goto(path.as_uri() + address)
        return one

    yield opens
    faults = [fault for one in opened for fault in one.faults]
    shared_page.faults.clear()
    for one in opened:
        if one is not shared_page:
            one.page.context.close()
    assert faults == []


def shoot(shown: Any, name: str, **options: Any) -> None:
    """Keep a picture of a page, or of a part of it, where the environment variable OPAQ_SCREENSHOTS is set."""
    if os.environ.get("OPAQ_SCREENSHOTS"):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        shown.screenshot(path=SCREENSHOTS / f"{name}.png", **options)


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def position(page: Any) -> tuple[int, int]:
    run, time = page.evaluate("[opaqReport.run, opaqReport.time]")
    return run, time


@pytest.mark.parametrize("name", part_of([*reversed(EXAMPLES)], 4))
def test_every_report_opens_and_fits(open_page: Open, name: str) -> None:
    theme = "dark" if name == "grid" else "light"  # colours change no sizes; contrast is tested in both
    page = open_page(name, theme=theme).page
    assert page.locator("section:visible").count() >= 7
    assert page.locator(".fault:visible").count() == 0
    assert overflow(page) == 0
    shoot(page, f"{name}-1400-{theme}", full_page=True)
    page.set_viewport_size({"width": 380, "height": 800})
    assert overflow(page) == 0
    shoot(page, f"{name}-380-{theme}", full_page=True)
    page.set_viewport_size({"width": 1600, "height": 900})
    assert overflow(page) == 0


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing: make axe (it needs npm)")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", part_of(["hostile", "graph", "grid", "table"], 2))
def test_no_serious_barrier(open_page: Open, name: str, theme: str) -> None:
    page = open_page(name, theme=theme, width=1000).page
    page.evaluate("opaqReport.go(3)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((report) => report.violations)")
    serious = [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]} {node['failureSummary']}"
        for rule in violations
        if rule["impact"] in ("serious", "critical") or rule["id"] == "empty-table-header"
        for node in rule["nodes"][:3]
    ]
    assert serious == []


SHOWN = """() => opaqReport && Array.from({length: %d}, (_, run) => {
  opaqReport.select(run);
  return Array.from({length: Number(document.getElementById('time').max) + 1}, (_, time) => {
    opaqReport.go(time);
    const side = document.querySelector('.side-observer');
    const facts = [...document.querySelectorAll('#replay .facts dd')].map((fact) => fact.textContent);
    return {
      secret: [...document.querySelectorAll('#replay [data-value]')].map((bar) =>
        [bar.dataset.value, Number(bar.dataset.share), bar.querySelector('.bar-value').textContent]),
      states: [...side.querySelectorAll('[data-state]')].map((mark) =>
        [Number(mark.dataset.state), Number(mark.dataset.share)]),
      state: facts[0], action: facts[1], received: facts[3], entropy: facts[4],
      seen: document.querySelector('#replay .chip[aria-current]')?.dataset.time,
    };
  });
})"""


@pytest.mark.parametrize("name", part_of(["grid", "graph", "ring", "table"], 2))
def test_the_replay_shows_the_data(open_page: Open, name: str) -> None:
    data = EXAMPLES[name]().data
    page = open_page(name).page
    shown = page.evaluate(SHOWN % len(data["runs"]))
    assert [len(run) for run in shown] == [len(run) for run in data["runs"]]
    for run, moments in zip(shown, data["runs"], strict=True):
        for time, (step, moment) in enumerate(zip(run, moments, strict=True)):
            assert {value: share for value, share, _ in step["secret"]} == moment["belief"]
            assert all(abs(_read(words) - share) < 5.1e-4 for _, share, words in step["secret"])
            most = 10 if name == "table" else len(moment["states"])
            assert step["states"] == moment["states"][:most]
            assert (step["state"], step["received"]) == (moment["state"] or "not known", moment["observation"])
            assert abs(float(step["entropy"].split()[0]) - moment["entropy"]) < 5.1e-4 or "×" in step["entropy"]
            assert int(step["seen"]) == time


def _read(words: str) -> float:
    """A share as it is shown, such as 46.3% or <0.1%."""
    return {"<0.1%": 0.0005, ">99.9%": 0.9995}.get(words, float(words.strip("<>%")) / 100)


def test_stepping_by_mouse(open_page: Open) -> None:
    page = open_page("grid").page
    last = len(EXAMPLES["grid"]().data["runs"][0]) - 1
    page.locator("[data-step=next]").click()
    page.locator("[data-step=next]").click()
    assert position(page) == (0, 2)
    page.locator("[data-step=previous]").click()
    assert position(page) == (0, 1)
    page.evaluate("opaqReport.go(8)")
    page.locator(".chip[data-time='5']").click()
    assert position(page) == (0, 5)
    slider = page.locator("#time").bounding_box()
    page.mouse.click(slider["x"] + slider["width"] - 3, slider["y"] + slider["height"] / 2)
    assert position(page) == (0, last)
    page.mouse.move(slider["x"] + slider["width"] - 8, slider["y"] + slider["height"] / 2)
    page.mouse.down()
    page.mouse.move(slider["x"] + 4, slider["y"] + slider["height"] / 2, steps=4)
    page.mouse.up()
    assert position(page) == (0, 0)
    revealing = next(
        index for index, info in enumerate(EXAMPLES["grid"]().data["run_info"]) if info["kind"] == "revealing"
    )
    page.locator("#run").select_option(str(revealing))
    assert position(page) == (revealing, 0)
    assert "probability" in page.locator(".run-note").inner_text()


def test_stepping_by_keyboard(open_page: Open) -> None:
    page = open_page("grid").page
    last = len(EXAMPLES["grid"]().data["runs"][0]) - 1
    for focused in ("#time", "[data-step=next]", ".chip[data-time='3']"):
        page.locator(focused).focus()
        for key, time in [("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last)]:
            page.keyboard.press(key)
            assert position(page) == (0, time)
    page.keyboard.press("ArrowRight")
    assert position(page) == (0, last)
    page.locator("#time").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    assert page.locator(".play").get_attribute("aria-label") == "Pause"
    sync_api.expect(page.locator("#time")).not_to_have_value("0")
    page.keyboard.press("Space")
    assert page.locator(".play").get_attribute("aria-label") == "Play"
    page.locator("#run").focus()
    page.keyboard.press("ArrowDown")
    assert position(page) == (1, 0)
    assert page.locator("[data-part=spoken]").inner_text().startswith("Time 0. The agent is in (")


def test_playing_ends_at_the_end(open_page: Open) -> None:
    page = open_page("graph").page
    last = len(EXAMPLES["graph"]().data["runs"][0]) - 1
    page.evaluate(f"opaqReport.go({last - 1})")
    page.locator(".play").click()
    sync_api.expect(page.locator(".play")).to_have_attribute("aria-label", "Play")
    assert position(page) == (0, last)


def test_the_address_selects_and_follows(open_page: Open) -> None:
    page = open_page("grid", address="#run=2&t=5").page
    assert position(page) == (2, 5)
    page.evaluate("location.hash = '#run=1&t=3'")
    sync_api.expect(page.locator(".clock")).to_have_text("t = 3 of 11")
    assert position(page) == (1, 3)
    page.locator("[data-step=next]").click()
    assert page.evaluate("location.hash") == "#run=1&t=4"
    page.evaluate("location.hash = '#run=99&t=nonsense'")
    sync_api.expect(page.locator("#time")).to_have_value("0")
    assert position(page)[0] == len(EXAMPLES["grid"]().data["runs"]) - 1


def test_arrows_change_with_time(open_page: Open) -> None:
    page = open_page("grid").page
    arrows = "[...document.querySelectorAll('#replay .map-agent .arrow')].map((path) => path.getAttribute('d')).join()"
    seen = {page.evaluate(f"(opaqReport.go({time}), {arrows})") for time in (1, 5, 10)}
    assert len(seen) == 3
    before = page.locator("#model .layer-arrows").inner_html()
    page.locator("#policy-time").focus()
    page.keyboard.press("End")
    assert "at time 11 of 11" in page.locator("#model .time-choice").inner_text()
    assert page.locator("#model .layer-arrows").inner_html() != before
    page.evaluate("opaqReport.go(6)")
    page.locator("#replay").scroll_into_view_if_needed()
    shoot(page.locator("#replay"), "grid-replay")


EDGES = """[...document.querySelectorAll('%s .layer-edges [data-edge]')].map((edge) =>
  [edge.dataset.edge, Number(edge.dataset.share), Number(edge.getAttribute('stroke-width'))])"""


def test_edges_change_with_time(open_page: Open) -> None:
    data = EXAMPLES["progress"]().data
    page = open_page("progress").page

    def expected(time: int | None) -> dict[str, float]:
        if time is None:
            return {f"{source}>{target}": share for source, target, share, _, _ in data["model"]["graph"]["edges"]}
        shares = {state: dict(row) for state, row in data["policy"]["by_time"][time]}
        return {
            f"{source}>{target}": sum(
                shares.get(source, {}).get(action, 0.0) * p for action, p in zip(actions, chances, strict=True)
            )
            for source, target, _, actions, chances in data["model"]["graph"]["edges"]
        }

    widths = set()
    for time in range(len(data["policy"]["by_time"])):
        shown = page.evaluate(f"(opaqReport.go({time}), {EDGES % '#replay .map-agent'})")
        assert {edge: share for edge, share, _ in shown} == pytest.approx(expected(time))
        widths.add(tuple(width for _, _, width in shown))
    assert len(widths) > 1
    shown = page.evaluate(EDGES % "#model")
    assert {edge: share for edge, share, _ in shown} == pytest.approx(expected(None))
    page.locator("#policy-time").focus()
    page.keyboard.press("ArrowRight")
    assert "at time 0 of 6" in page.locator("#model .time-choice").inner_text()
    shown = page.evaluate(EDGES % "#model")
    assert {edge: share for edge, share, _ in shown} == pytest.approx(expected(0))


def test_pointing_at_a_cell_says_what_it_is(open_page: Open) -> None:
    page = open_page("grid").page
    board = page.locator("#model .board")
    side = (board.bounding_box()["width"] - 20) / 6
    board.hover(position={"x": 19 + 2.5 * side, "y": 19 + 2.5 * side})
    words = page.locator(".inspector").inner_text()
    assert words.startswith("(2,2)")
    assert "goal" in words
    assert "D 70%" in words
    page.locator("#model .map").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".inspected").inner_text() == "(3,2)"
    page.keyboard.press("ArrowUp")
    assert page.locator(".inspected").inner_text() == "(3,1)"


@pytest.mark.parametrize("width", [380, 1400])
def test_a_model_with_positions_is_a_map(open_page: Open, width: int) -> None:
    example = EXAMPLES["carrier"]()
    positions = dict(zip(example.problem.mdp.states, example.problem.mdp.positions.tolist(), strict=True))
    page = open_page("carrier", width=width).page
    assert overflow(page) == 0
    board = page.locator("#model .board")
    box = board.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    shown = page.locator("#model .ruler").all_text_contents()
    assert shown == ["0", "1", "2", "3", "2", "1", "0"]  # columns to the right, then rows down: y is up
    side = (box["width"] - 20) / 4
    board.hover(position={"x": 19 + 3.5 * side, "y": 19 + 0.5 * side})
    words = page.locator(".inspector").inner_text()
    assert words.startswith("(3,2)")
    assert "2, x=3,y=2,loaded=0, …" in words  # without mode=0, which all states share
    assert "depot" in words
    moments = example.data["runs"][0]
    for time in (0, 3, 8):
        page.evaluate(f"opaqReport.go({time})")
        x, y = positions[moments[time]["state"]]
        frame, dot = (page.locator(f"#replay .map-agent {part}").bounding_box() for part in (".board", ".agent"))
        cell = (frame["width"] - 20) / 4
        right, down = dot["x"] + dot["width"] / 2 - frame["x"] - 19, dot["y"] + dot["height"] / 2 - frame["y"] - 19
        assert (right / cell - 0.5, down / cell - 0.5) == pytest.approx((x, 2 - y), abs=0.1)
        believed: dict[tuple[int, ...], float] = {}
        for state, share in moments[time]["states"]:
            cell_of = tuple(example.data["model"]["grid"]["cells"][state])
            believed[cell_of] = believed.get(cell_of, 0.0) + share
        heat = page.locator("#replay .map-belief .heat").evaluate_all(
            "(all) => all.map((each) => [each.dataset.state, each.dataset.share])"
        )
        drawn = {tuple(example.data["model"]["grid"]["cells"][int(state)]): float(share) for state, share in heat}
        assert drawn == pytest.approx(believed)
    shoot(page.locator("#model"), f"carrier-{width}")


@pytest.mark.parametrize("width", [380, 1400])
def test_a_large_map_shows_flow(open_page: Open, width: int) -> None:
    page = open_page("warehouse", width=width).page
    assert overflow(page) == 0
    arrows = page.evaluate(
        "[...document.querySelectorAll('#model .arrow')].map((path) => path.getAttribute('d').split('M').length - 1)"
    )
    board = page.locator("#model .board").bounding_box()
    assert 0 < sum(arrows) / 2 <= (board["width"] / 24 + 1) ** 2  # a line and a head for each
    opacities = "(all) => all.map((each) => Number(each.getAttribute('fill-opacity')))"
    shades = page.locator("#model path.visited").evaluate_all(opacities)
    assert len(shades) > 1
    assert shades == sorted(shades)
    assert "more often visited" in page.locator("#model").inner_text()
    assert page.locator("#model .area-rim.secret").count() == 1
    shoot(page.locator("#model"), f"flow-{width}")


def test_a_state_of_a_graph_shows_its_edges(open_page: Open) -> None:
    page = open_page("graph").page
    model = EXAMPLES["graph"]().data["model"]
    page.locator("#model .map").focus()
    page.keyboard.press("ArrowUp")
    state = model["states"].index(page.locator(".inspected").inner_text())
    leaving = [edge for edge in model["graph"]["edges"] if edge[0] == state]
    assert page.locator("#model .edge-words").count() == len(leaving)
    shoot(page.locator("#model"), "graph-edges")


def test_hostile_names_are_text(open_page: Open) -> None:
    page = open_page("hostile").page
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, b, i, object, embed").count() == 0
    for name in HOSTILE.values():
        shown = page.evaluate(
            """(name) => [...document.querySelectorAll('#policy td .name')].filter((cell) =>
            (cell.title || cell.textContent).includes(name.split('\\n')[0].replace('\\u202e', ''))).length""",
            name,
        )
        assert shown == 1, name
    data = EXAMPLES["hostile"]().data
    steps = page.evaluate(SHOWN % len(data["runs"]))
    for run, moments in zip(steps, data["runs"], strict=True):
        for step, moment in zip(run, moments, strict=True):
            assert {value: share for value, share, _ in step["secret"]} == moment["belief"]
    assert page.title().startswith("</title><script>alert(3)")
    page.evaluate("opaqReport.go(2)")
    shoot(page.locator("#replay"), "hostile-replay")


def test_ten_thousand_states_stay_light(open_page: Open, reports: Callable[[str], Path]) -> None:
    assert reports("warehouse").stat().st_size < 5_000_000
    page = open_page("warehouse").page
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.parametrize(("system", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_is_chosen_and_kept(open_page: Open, system: str, other: str) -> None:
    page = open_page("graph", theme=system, fresh=True).page
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == f"Theme: {other}"
    after = page.evaluate(ground)
    assert after != before
    page.reload()
    assert page.evaluate(ground) == after
    page.locator("#theme").click()
    assert (page.locator("#theme").inner_text(), page.evaluate(ground)) == (f"Theme: {system}", before)
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: auto"


def test_only_what_was_observed_is_listed(open_page: Open) -> None:
    data = EXAMPLES["progress"]().data
    page = open_page("progress").page
    for time in (0, 2, 6):
        page.evaluate(f"opaqReport.go({time})")
        shown = page.locator(".chip:visible bdi").all_inner_texts()
        assert shown == [moment["observation"] for moment in data["runs"][0][: time + 1]]
        left = f"{6 - time} more to come" if time < 6 else "all observed"
        assert page.locator(".to-come").inner_text() == left
    tree = page.locator("#replay .chips").aria_snapshot()
    assert tree.count("button") == 7
    page.evaluate("opaqReport.go(0)")
    assert page.locator("#replay .chips").aria_snapshot().count("button") == 1


def test_states_of_an_automaton_are_called_so(open_page: Open) -> None:
    data = EXAMPLES["progress"]().data
    page = open_page("progress").page
    assert f"The secret is automaton state {data['run_info'][0]['secret']}." in page.locator(".run-note").inner_text()
    assert "thinks automaton state q" in page.locator("[data-part=spoken]").inner_text()
    assert "by automaton state" in page.locator("#replay .timeline").inner_text()
    assert "Slack" not in page.locator("#search").inner_text()  # there is no task


# What a reader of a small screen cannot see of the cells of a table: those that stick out of their section.
CUT = """(section) => [...document.querySelectorAll(`#${section} td`)].filter((cell) => {
  if (!cell.getClientRects().length) return false;
  const [own, box] = [cell.getBoundingClientRect(), cell.closest('section').getBoundingClientRect()];
  return own.right > box.right || cell.scrollWidth > cell.clientWidth + 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.parametrize(("name", "section"), [("graph", "classes"), ("graph", "certificate"), ("table", "model")])
def test_tables_fit_small_screens(open_page: Open, name: str, section: str) -> None:
    page = open_page(name, width=380).page
    assert page.evaluate(CUT, section) == []
    heights = page.evaluate(
        "(section) => [...document.querySelectorAll(`#${section} tbody tr`)].map((row) => row.clientHeight)", section
    )
    assert 0 < max(heights) < 230
    words = page.locator(f"#{section} tbody tr").first.locator("td:visible").count()
    assert words >= 3


def test_what_is_estimated_is_marked(open_page: Open, tmp_path: Path) -> None:
    data = json.loads(json.dumps(EXAMPLES["graph"]().data))
    data["posteriors"] |= {"method": "estimate", "samples": 1000, "wrong_method": "exact"}
    data |= {"problem_text": None, "problem_text_left_out": "its 300,000 characters are too many for this page"}
    file = tmp_path / "estimated.html"
    file.write_text(render_report(data), encoding="utf-8")
    page = open_page(file).page
    words = page.locator("#outcomes .trio > div").all_inner_texts()
    assert [("about" in each, "1,000 sampled runs" in each) for each in words] == [(True, True)] * 2 + [(False, False)]
    assert "left out: its 300,000 characters" in page.locator("#files").inner_text()


def test_the_problem_file_is_copied(open_page: Open) -> None:
    page = open_page("grid", permissions=["clipboard-read", "clipboard-write"]).page
    page.locator("[data-copies=problem-text]").click()
    sync_api.expect(page.locator("[data-part=copied]")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == EXAMPLES["grid"]().data["problem_text"]


def test_the_policy_table_opens(open_page: Open) -> None:
    page = open_page("grid").page
    assert page.locator("#policy tbody tr").count() == 12
    page.locator("#policy button").click()
    assert page.locator("#policy tbody tr").count() == len(EXAMPLES["grid"]().data["policy"]["average"])


def test_without_scripts_the_answer_is_there(open_page: Open) -> None:
    page = open_page("graph", java_script_enabled=False).page
    data = EXAMPLES["graph"]().data
    words = page.locator("body").inner_text()
    assert data["question"] in words
    assert data["answer"] in words
    assert data["problem_text"].splitlines()[-1] in words
    assert "JavaScript" in words
    assert page.locator("#replay").is_hidden()
    shoot(page, "graph-no-script", full_page=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version":1', '"version":2', "data of version 2"),
        ('{"format"', '{"format', "cannot be read"),
        ('"opaq-report","version"', '"something","version"', "does not hold"),
    ],
)
def test_spoilt_data_are_explained(open_page: Open, tmp_path: Path, old: str, new: str, message: str) -> None:
    page = render_report(EXAMPLES["graph"]().data)
    assert page.count(old) == 1
    file = tmp_path / "spoilt.html"
    file.write_text(page.replace(old, new), encoding="utf-8")
    shown = open_page(file).page
    assert message in shown.locator("#fault").inner_text()
    assert shown.locator("#replay").is_hidden()
    assert EXAMPLES["graph"]().data["answer"] in shown.locator("body").inner_text()


def test_one_broken_part_leaves_the_others(browser: Any, tmp_path: Path) -> None:
    data = json.loads(json.dumps(EXAMPLES["graph"]().data))
    data["posteriors"]["bins"] = None
    file = tmp_path / "partly.html"
    file.write_text(render_report(data), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    assert "could not be drawn" in page.locator("#outcomes .fault").inner_text()
    assert page.locator(".fault:visible").count() == 1
    assert position(page) == (0, 0)
    page.close()


def test_what_came_out_is_what_was_measured(open_page: Open) -> None:
    data = EXAMPLES["graph"]().data
    page = open_page("graph").page
    shown = [_read(words) for words in page.locator("#outcomes .figure").all_inner_texts()]
    posteriors = data["posteriors"]
    assert shown == pytest.approx([posteriors[name] for name in ("sure", "unsure", "wrong")], abs=5.1e-4)
    rungs = page.locator("#classes tbody tr")
    assert rungs.count() == len(data["comparison"]["classes"])
    for row, rung in zip(rungs.all(), data["comparison"]["classes"], strict=True):
        words = row.locator("td").all_inner_texts()
        assert (words[0], float(words[1])) == (rung["class"], pytest.approx(rung["opacity"]["value"], abs=5.1e-5))
    bounds = page.locator("#certificate tbody td:nth-child(2)").all_inner_texts()
    for words, rung in zip(bounds, data["certificate"]["ladder"], strict=True):
        assert rung["upper_bound"] <= float(words.removeprefix("≤ ")) <= rung["upper_bound"] + 1e-4
    assert page.locator("#search .plot").count() == 3
    assert page.locator("#decline .plot").count() == 2


def test_what_was_too_much_is_said(open_page: Open, tmp_path: Path) -> None:
    data = json.loads(json.dumps(EXAMPLES["grid"]().data))
    data["policy"] |= {"by_time": None, "by_time_left_out": True}
    data["model"] |= {"coverage": [], "coverage_left_out": True}
    data["model"]["sizes"]["secret_values"] = 40
    for moment in data["runs"][0]:
        moment["belief"] = {"yes": 0.25, "no": 0.5}
    file = tmp_path / "shortened.html"
    file.write_text(render_report(data), encoding="utf-8")
    page = open_page(file).page
    assert "its average over the run is shown" in page.locator("#model .key").inner_text()
    assert "left out" in page.locator("#model .key").inner_text()
    assert page.locator("#policy-time").count() == 0
    assert page.locator("#replay .rest").inner_text() == "38 other values: 25.0%"


def test_it_prints(browser: Any, reports: Callable[[str], Path]) -> None:
    page = browser.new_page(viewport={"width": 794, "height": 1123})
    page.goto(reports("grid").as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".controls").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert overflow(page) == 0
    shoot(page, "grid-print", full_page=True)
    page.close()


def test_the_speed_is_chosen_while_it_plays(open_page: Open) -> None:
    """At a quarter of the speed a step takes 3.6 s; eight times as fast, the 11 steps take 1.3 s together."""
    page = open_page("grid").page
    page.clock.install(time=0)
    page.clock.pause_at(60_000)  # an installed clock goes on by itself; a paused one moves only by run_for
    page.locator("#speed").select_option("0.25")
    page.locator(".play").click()
    page.clock.run_for(3000)
    assert position(page)[1] == 0
    page.clock.run_for(1000)
    assert position(page)[1] == 1
    page.locator("#speed").select_option("8")
    assert page.locator(".play").get_attribute("aria-label") == "Pause"
    page.clock.run_for(120)
    assert position(page)[1] == 2
    page.clock.run_for(2000)
    assert position(page)[1] == 11
    assert page.locator(".play").get_attribute("aria-label") == "Play"


def test_the_speed_is_changed_by_keys_without_a_step(open_page: Open) -> None:
    page = open_page("grid").page
    page.locator("#speed").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#speed").input_value() == "2"
    assert position(page) == (0, 0)


@pytest.mark.parametrize("name", part_of([*reversed(EXAMPLES)], 4))
def test_legends_have_no_repeated_and_no_empty_entry(open_page: Open, name: str) -> None:
    page = open_page(name).page
    for legend in page.locator(".legend, .key-list").all():
        entries = [entry.strip() for entry in legend.locator("li").all_inner_texts()]
        assert "" not in entries
        assert len(entries) == len(set(entries))


def test_labels_without_states_are_not_in_the_key(open_page: Open, tmp_path: Path) -> None:
    data = json.loads(json.dumps(EXAMPLES["graph"]().data))
    data["model"]["labels"]["nowhere"] = []
    path = tmp_path / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    key = open_page(path).page.locator("#model .key")
    assert "nowhere" not in key.inner_text()
    assert all(label in key.inner_text() for label, states in data["model"]["labels"].items() if states)


@pytest.mark.parametrize("name", ["graph", "progress"])
def test_the_number_of_secret_values_agrees(open_page: Open, name: str) -> None:
    """The sentence on the model, the bars of the belief, and the values that have a prior."""
    example, page = EXAMPLES[name](), open_page(name).page
    possible = opaq.product.compile.possible_secrets(opaq.compile_problem(example.problem))
    assert f" {len(possible)} secret values" in page.locator("[data-part=sizes]").inner_text()
    assert page.locator(".bars li[data-value]").count() == len(possible)


@pytest.mark.parametrize("width", [380, 1400])
def test_starts_are_grouped_by_where_they_end(open_page: Open, tmp_path: Path, width: int) -> None:
    """Four starts end in three ways; status and seconds are the same for all, and are left out."""
    data = json.loads(json.dumps(EXAMPLES["graph"]().data))
    ends = [(1.25, "uniform", 10), (1.25, "random", 30), (0.75, "random", 20), (0.5, "secret", 5)]
    data["solution"]["starts"] = [
        {"index": index, "kind": kind, "status": "settled", "value": value, "standard_error": None,
         "feasible": value > 0.5, "hides_nothing": False, "num_iterations": steps, "seconds": 0.5}
        for index, (value, kind, steps) in enumerate(ends)
    ]  # fmt: skip
    path = tmp_path / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    page = open_page(path, width=width).page
    table = page.get_by_label("The starts by where they end")
    heads = ["opacity", "starts", "began at", "task", "iterations"]
    assert table.locator("th").all_inner_texts() == heads or width == 380
    rows = [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
    assert rows == [
        ["1.250", "2", "uniform, random", "met", "10 to 30"],
        ["0.750", "1", "random", "met", "20"],
        ["0.500", "1", "secret", "missed", "5"],
    ]
    assert overflow(page) == 0
    shoot(page, f"starts-{width}")


def test_every_machine_of_a_certificate_is_listed_once(open_page: Open, tmp_path: Path) -> None:
    data = json.loads(json.dumps(EXAMPLES["graph"]().data))
    rung = data["certificate"]["ladder"][0]
    data["certificate"]["ladder"] = [rung | {"upper_bound": bound} for bound in (1.5, 1.4, 1.375)]
    path = tmp_path / "report.html"
    path.write_text(render_report(data), encoding="utf-8")
    rows = open_page(path).page.locator("#certificate tbody tr")
    assert rows.count() == 1
    assert "1.3750" in rows.inner_text()


def test_fills_are_printed_and_nothing_is_cut(open_page: Open) -> None:
    page = open_page("graph", width=800).page
    page.emulate_media(media="print")
    for part in (".bar-filled", ".swatch", ".gauge-filled"):
        assert page.locator(part).first.evaluate("e => getComputedStyle(e).printColorAdjust") == "exact"
    assert not page.locator(".controls").is_visible()
    for listing in page.locator("pre:visible, .scroller:visible").all():
        assert listing.evaluate("e => e.scrollWidth <= e.clientWidth + 1 && e.scrollHeight <= e.clientHeight + 1")
    breaks = page.locator("#replay .side").first.evaluate("e => getComputedStyle(e).breakInside")
    assert breaks == "avoid-page"


def test_the_problem_file_wraps_on_a_phone(open_page: Open) -> None:
    listing = open_page("grid", width=380).page.locator("#problem-text")
    assert listing.evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize("width", [380, 1400])
def test_the_key_of_a_map_says_what_is_there_once(open_page: Open, tmp_path: Path, width: int) -> None:
    """A label of the starts is the frame of the starts, a stated sensor is drawn however wide it is."""
    grid = {"map": ["S....", ".....", "....G"], "labels": {"start": [[0, 0]]}, "legend": {"G": {"label": "goal"}}}
    sensors = {
        "wide": {"covers": {"where": "column > 0"}, "detects": 0.5},
        "narrow": {"covers": {"where": "column = 0"}, "detects": 0.9},
    }
    secret = {"last_state": {"below": {"where": "row > 1"}}}
    stated = {"opaq": 1, "grid": grid, "observer": {"sensors": sensors}, "secret": secret, "horizon": 3}
    path = tmp_path / "report.html"
    opaq.report(opaq.build_problem(stated)).save(path)
    page = open_page(path, width=width).page
    assert overflow(page) == 0
    entries = page.locator("#model .key-list li").all_inner_texts()
    assert [entry.split("\n")[0] for entry in entries] == ["start", "goal", "wide", "narrow"]
    assert page.locator("#model path.tint").count() == 2


def test_a_cell_of_states_that_look_different_has_no_colour(open_page: Open, tmp_path: Path) -> None:
    positions = {f"{side}{level}": [side, 0] for side in range(3) for level in "ab"}
    step = {f"{side}{level}": {"go": f"{min(2, side + 1)}{level}"} for side in range(3) for level in "ab"}
    model = {"states": list(positions), "actions": ["go"], "start": {"0a": 0.5, "0b": 0.5}, "transitions": step}
    emissions = {"0a": "first", "0b": "second", "1a": "both", "1b": "both", "*": "none"}
    stated = {
        "opaq": 1,
        "model": model | {"positions": positions},
        "observer": {"emissions": emissions},
        "secret": {"initial_state": True},
        "horizon": 2,
    }
    path = tmp_path / "report.html"
    opaq.report(opaq.build_problem(stated)).save(path)
    page = open_page(path).page
    seen = [entry.split("\n")[0] for entry in page.locator("#model .key-list").last.locator("li").all_inner_texts()]
    assert seen == ["both", "none"]
    assert page.locator("#model path.tint").count() == 2


@pytest.mark.parametrize("width", [380, 1400])
def test_the_report_shows_what_observing_adds(open_page: Open, tmp_path: Path, width: int) -> None:
    problem = opaq.load_problem("grid-initial-state-4")
    small = opaq.build_problem(opaq.problem_to_dict(problem) | {"horizon": 3})
    path = tmp_path / "report.html"
    opaq.report(small).save(path)
    measured = opaq.measure(small, capacity=True)
    page = open_page(path, width=width).page
    assert overflow(page) == 0
    figures = dict(
        zip(
            page.locator("#leakage dt").all_inner_texts(),
            page.locator("#leakage .figure").all_inner_texts(),
            strict=True,
        )
    )
    assert measured.capacity is not None
    assert figures["vulnerability"] == f"{100 * float(measured.vulnerability.posterior):.1f}%"
    assert figures["min-entropy leakage"] == f"{measured.min_entropy_leakage:.3f} bits"
    assert figures["guesswork"] == f"{measured.guesswork:.3f}"
    assert figures["capacity"] == f"{measured.capacity.bits:.3f} bits"
    shoot(page.locator("#leakage"), f"leakage-{width}")
