"""Tables: plain in pipes, by rich on a terminal."""

from __future__ import annotations

import re
import sys

import pytest

from opaq.cli import output
from opaq.cli.main import main
from opaq.commands import COMMANDS
from opaq.reports.layout import Page, TextTable, render_terminal


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_pipes_get_plain_text(capsys: pytest.CaptureFixture) -> None:
    assert main(["examples"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.startswith("battery ")


def test_a_terminal_gets_a_table_within_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["examples"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b[1m" in shown
    assert max(len(plain(line)) for line in shown.splitlines()) <= 60
    assert plain(shown).split()[:2] == ["scenario", "what"]


def test_no_color_and_dumb_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in output.render_page(Page("A.", (TextTable(("a", "b"), (("x", "1"),), (1,)),)))
    assert output.on_terminal()
    monkeypatch.setenv("TERM", "dumb")
    assert not output.on_terminal()


def test_names_cannot_steer_the_terminal() -> None:
    page = Page("", (TextTable(("[red]a", "b\x1b[31m"), (("[bold]x\n", "\x1b]0;t\x07"),)),))
    shown = render_terminal(page)
    assert "\x1b[31m" not in shown
    assert "\x07" not in shown
    assert "[red]a" in plain(shown)
    assert "[bold]x" in plain(shown)


def test_a_comparison_has_the_same_cells_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    given = ["compare", "two-sink", "--classes", "state; state,time", "--starts", "1", "-q"]
    assert main(given) == 0
    piped = capsys.readouterr().out
    on_terminal(monkeypatch)
    assert main(given) == 0
    shown = plain(capsys.readouterr().out)

    def cells(text: str) -> list[list[str]]:
        return [[cell for cell in re.split(r"  +", line.strip()) if "." not in cell] for line in text.splitlines()]

    assert cells(shown) == cells(piped)


def test_commands_are_listed_in_order(capsys: pytest.CaptureFixture) -> None:
    assert main(["--help"]) == 0
    listed = re.findall(r"^  (\w+)  ", capsys.readouterr().out.partition("Commands:")[2], flags=re.MULTILINE)
    assert list(listed) == list(COMMANDS)
