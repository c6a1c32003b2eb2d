"""Pictures of reports: what happens and what the observer believes, side by side, as Chromium draws the page.

`python docs/report_pictures.py` draws the picture of the README again (Debian's chromium, and playwright).
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

import opaq

WIDTH, HEIGHT = 1180, 1400  # of the window
MARGIN = 8  # pixels below what is shown
DOCS = Path(__file__).parent
_END_OF_PICTURES = """() => {
  const bottom = (element) => element.getBoundingClientRect().bottom;
  const top = document.querySelector("#replay").getBoundingClientRect().top;
  const keys = [...document.querySelectorAll("#replay .stage .map-key")];
  const last = keys.length ? keys : [document.querySelector("#replay .stage")];  // large models have no picture
  return Math.max(...last.map(bottom)) - top;
}"""


def picture(report: opaq.Report, file: Path, *, run: int = 0, time: int = 0) -> None:
    """The replay of a report at one time of one run, as PNG: from its head to the end of the two pictures."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        report.save(page_file)
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(f"{page_file.as_uri()}#run={run}&t={time}")
        section = page.locator("#replay")
        section.scroll_into_view_if_needed()
        end = page.evaluate(_END_OF_PICTURES) + MARGIN
        drawn = section.screenshot(animations="disabled")
        browser.close()
    with Image.open(io.BytesIO(drawn)) as image:
        image.convert("RGB").crop((0, 0, image.width, min(image.height, int(end)))).save(file, optimize=True)


def middle_of(report: opaq.Report, kind: str) -> tuple[int, int]:
    """The first run of a kind (any, where there is none), and the time in its middle."""
    kinds = [info["kind"] for info in report.data["run_info"]]
    run = kinds.index(kind) if kind in kinds else 0
    return run, len(report.data["runs"][run]) // 2


def main() -> None:
    """The picture of the README: the paper's grid, a policy with a clock, in the middle of a run."""
    problem = opaq.load_problem("grid-last-state-4")
    solution = opaq.solve(problem, conditions="state,time", starts=1)
    report = opaq.report(problem, solution=solution)
    picture(report, DOCS / "pictures" / "report.png", run=2, time=6)


if __name__ == "__main__":
    main()
