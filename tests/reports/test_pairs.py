"""Reports of problems with several observers: the table of all pairs, and a page that lets one choose."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import opaq

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pairs") / "report.html"
    opaq.report("believer", runs=1).save(file)
    return file


def test_the_page_has_all_pairs(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    embedded = re.search(r'<script type="application/json" id="opaq-report">(.*?)</script>', html, flags=re.DOTALL)
    data = json.loads(embedded[1])
    assert [(one["of"], one["for"]) for one in data["measurement"]["figures"]] == [
        ("door", "rival"),
        ("door", "informed"),
    ]
    assert "cross-entropy" in html
    assert "<option>door for informed</option>" in html
    assert "<select" not in opaq.report("two-sink", runs=1).html


@pytest.mark.skipif(CHROMIUM is None, reason="install Debian's chromium: apt-get install chromium")
def test_another_pair_is_chosen_in_the_browser(page: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    faults = list[str]()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        opened = browser.new_page()
        opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(page.as_uri())
        opened.select_option("#pair", "door for informed")
        inner = opened.frame_locator("#pair-page")
        inner.locator("#replay .player *").first.wait_for()
        assert "informed" in inner.locator(".question").inner_text()
        assert not opened.locator("#content").is_visible()
        opened.select_option("#pair", "door for rival")
        assert opened.locator("#content").is_visible()
        assert not opened.locator("#pair-page").is_visible()
        browser.close()
    assert faults == []
