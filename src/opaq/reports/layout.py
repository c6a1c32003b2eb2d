"""Pages for people (sentence, facts, tables, lines), and their three renderers: plain text, a terminal, HTML.

Comes in: a `Page` of plain strings. Goes out: one string, in which no name can steer a terminal or become markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from opaq.errors import escape_invisible

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

WIDTH = 100  # columns where there is no terminal to ask
GLUE = "\xa0"  # a space at which no line is broken; names cannot contain it, being escape_invisible


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a label and its text, one below the other."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table; its last column goes on below itself where it does not fit, and narrow pages show a block per row.

    numbers: the columns that are aligned to the right.
    title: a line above it.
    notes: sentences directly below it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Collection[int] = ()
    title: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lines:
    """Finished lines, under a title or without one."""

    content: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences, each on a line of its own that goes on below itself; `rest` is what those further lines begin with."""

    texts: tuple[str, ...]
    rest: str = "  "


Part = Facts | TextTable | Lines | Notes


@dataclass(frozen=True, slots=True)
class Page:
    """A sentence and the parts below it, an empty line before each; HTML has a title above."""

    sentence: str
    parts: tuple[Part, ...] = ()
    title: str = ""


def rank_shares(shares: Mapping[str, float], *, least: float) -> list[tuple[str, float]]:
    """Return names and their probabilities, likeliest first, without those of `least` or below."""
    return sorted(((name, share) for name, share in shares.items() if share > least), key=lambda item: -item[1])


def list_shares(
    ranked: Sequence[tuple[str, float]], shown: Callable[[str], str], write: Callable[[float], str], *, most: int
) -> str:
    """Return the first `most` names with their probabilities: "yes 0.9, no 0.1, and 4 more".

    ranked: names and probabilities in their order. shown: a name as it is shown. write: a probability as text.
    Lines are not broken between a name and its probability.
    """
    words = [f"{shown(name)}{GLUE}{write(share)}" for name, share in ranked[:most]]
    return ", ".join([*words, *([f"and {len(ranked) - most:,}{GLUE}more"] if len(ranked) > most else [])])


def wrap_lines(text: str, *, first: str = "", rest: str = "", width: int) -> list[str]:
    """Return the text in lines of at most `width` columns, broken at spaces (not at GLUE), too long words anywhere.

    first: text that the first line begins with. rest: text that all others begin with.
    width: columns; at least 10 beside `rest`, even where fewer are asked for.
    """
    width = max(width, len(rest) + 10)
    if len(first) + len(text) <= width and text == text.strip() and "\n" not in text and "\t" not in text:
        return [f"{first}{text}".replace(GLUE, " ") if text else first.rstrip()]
    lines = textwrap.wrap(
        text,
        width=width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return [line.replace(GLUE, " ") for line in lines] or [first.rstrip()]


# ---- plain text

_LABEL = 12  # columns of the labels of facts
_BETWEEN = "  "


def render_text(page: Page, *, width: int = WIDTH) -> str:
    """Return the page as plain text, its parts separated by empty lines.

    width: columns to wrap to; finished lines (`Lines`) stay as they are.
    """
    blocks = [wrap_lines(_escape(page.sentence), width=width)] if page.sentence else []
    blocks += [_part_lines(part, width) for part in page.parts]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _part_lines(part: Part, width: int) -> list[str]:
    """Return one part of a page as lines of plain text, `width` columns wide."""
    if isinstance(part, Facts):
        rest = " " * (_LABEL + 1)
        rows = [(f"{_escape(label):<{_LABEL}} ", _escape(text)) for label, text in part.rows]
        return [line for first, text in rows for line in wrap_lines(text, first=first, rest=rest, width=width)]
    if isinstance(part, Notes):
        return [line for text in part.texts for line in wrap_lines(_escape(text), rest=part.rest, width=width)]
    title = [part.title] if part.title else []
    if isinstance(part, Lines):
        return [*title, *part.content]
    return [*title, *_table_lines(part, width), *_part_lines(Notes(part.notes), width)]


def _table_lines(table: TextTable, width: int) -> list[str]:
    """Return a table as lines: columns as wide as their widest cell, the last one wrapped below itself.

    Where not even that fits a narrow page, every row is a block; in files and pipes, which are no narrower than WIDTH,
    a table stays one.
    """
    if width < WIDTH and not _table_fits(table, width):
        return _row_blocks(table, width)
    cells = [[_escape(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for row in cells:
        padded = [
            cell.rjust(size) if column in table.numbers else cell.ljust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        first = "".join(f"{cell}{_BETWEEN}" for cell in padded[:-1])
        lines += wrap_lines(row[-1], first=first, rest=" " * len(first), width=width)
    return [line.rstrip() for line in lines]


def _table_fits(table: TextTable, width: int) -> bool:
    """Return whether a table fits the columns of a page when only its last column is wrapped, between words."""
    *firsts, last = zip(table.head, *table.rows, strict=True)
    longest = max(len(word) for cell in last for word in cell.split(" "))
    return sum(max(map(len, column)) + len(_BETWEEN) for column in firsts) + longest <= width


def _row_blocks(table: TextTable, width: int) -> list[str]:
    """Return the rows of a table that is too wide: the first cell, then a line for every other cell with its head."""
    head, *rows = ([_escape(cell) for cell in row] for row in (table.head, *table.rows))
    size = min(max(map(len, head[1:]), default=0), width // 2)
    lines: list[str] = []
    for row in rows:
        lines += wrap_lines(f"{head[0]} {row[0]}".strip(), rest="  ", width=width)
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell:
                lines += wrap_lines(f"{name.ljust(size)}{_BETWEEN}{cell}", first="  ", rest="    ", width=width)
    return lines


def _escape(text: str) -> str:
    """Return text in which no character steers a terminal; GLUE stays."""
    return text if text.isprintable() else GLUE.join(map(escape_invisible, text.split(GLUE)))


# ---- a terminal, by rich


def render_terminal(page: Page, *, width: int = WIDTH, styled: bool = True) -> str:
    """Return the page for a terminal.

    width: columns to wrap to. styled: True sets heads in bold and labels dim; False leaves escape sequences out.
    """
    terminal = _Terminal(width, styled)
    blocks = [terminal.lines(terminal.text(page.sentence, "bold"))] if page.sentence else []
    blocks += [terminal.part(part) for part in page.parts]
    return "\n\n".join(block for block in blocks if block)


@dataclass(frozen=True, slots=True)
class _Terminal:
    """Turns parts of a page into lines of text by way of rich; width in columns."""

    width: int
    styled: bool

    def part(self, part: Part) -> str:
        """Return one part of a page as text of several lines."""
        if isinstance(part, Facts):
            facts = self._columns(show_header=False)
            facts.add_column(style=self._style("dim"), no_wrap=True, min_width=_LABEL - 1)
            facts.add_column()
            for label, text in part.rows:
                facts.add_row(self.text(label), self.text(text))
            return self.lines(facts)
        if isinstance(part, Notes):
            return "\n".join(_part_lines(part, self.width))
        title = [self.lines(self.text(part.title, "bold"))] if part.title else []
        if isinstance(part, Lines):
            return "\n".join([*title, *part.content])
        notes = _part_lines(Notes(part.notes), self.width)
        if not _table_fits(part, self.width):
            return "\n".join([*title, *_row_blocks(part, self.width), *notes])
        table = self._columns(header_style=self._style("bold"))
        for column, name in enumerate(part.head):
            table.add_column(
                self.text(name),
                justify="right" if column in part.numbers else "left",
                no_wrap=column < len(part.head) - 1,
            )
        for row in part.rows:
            table.add_row(*map(self.text, row))
        return "\n".join([*title, self.lines(table), *notes])

    def text(self, words: str, style: str = "") -> Text:
        """Return text in which nothing is markup and no character steers the terminal.

        style: a style of rich, such as "bold"; left out where the terminal is not styled.
        """
        from rich.text import Text

        return Text(_escape(words).replace(GLUE, " "), style=self._style(style))

    def lines(self, thing: Any) -> str:
        """Return something that rich can print as lines of text, without spaces at their ends."""
        from io import StringIO

        from rich.console import Console

        console = Console(file=StringIO(), force_terminal=True, width=self.width, highlight=False)
        with console.capture() as captured:
            console.print(thing)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _columns(self, **looks: Any) -> RichTable:
        """Return an empty table without lines; looks: further arguments for rich's table."""
        from rich.table import Table as RichTable

        return RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), **looks)

    def _style(self, style: str) -> str:
        """Return the style, or an empty one where the terminal is not styled."""
        return style if self.styled else ""


# ---- HTML, as notebooks show it

_LINE = "1px solid rgba(128,128,128,.35)"  # seen on white and on black
_CELL = f"padding:.15em .6em;border-bottom:{_LINE};vertical-align:top;background:none;color:inherit;"
_TABLE = "border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit;"
_LABELLED = "left;font-weight:normal;opacity:.7;white-space:nowrap"
_LONGEST = 80  # characters of a cell
_LONGEST_FACT = 400
_LONGEST_SENTENCE = 1000
_MOST_ROWS = 24  # of a table


def render_html(page: Page, *, picture: str = "") -> str:
    """Return the page as HTML with styles of its own, in the colours of the page around it.

    picture: markup that follows the sentence; it is not escaped. Texts are cut (cells at 80 characters, facts at 400,
    sentences at 1,000) and tables end after 24 rows, with the number of those left out.
    """
    head = f'<div style="font-weight:600">{html_text(page.title)}</div>' if page.title else ""
    content = [_paragraph(page.sentence), picture, *map(_part_html, page.parts)]
    return f'<div style="color:inherit;max-width:60em;overflow-x:auto">{head}{"".join(content)}</div>'


def html_text(words: str, *, most: int = _LONGEST) -> str:
    """Return text that cannot become markup, nor turn a line round.

    most: characters; longer text is cut and ends in "…".
    """
    safe = escape_invisible(words.replace(GLUE, " "))
    return escape(safe if len(safe) <= most else f"{safe[: most - 1]}…")


def _part_html(part: Part) -> str:
    """Return one part of a page as HTML; a table of more than 24 rows is cut."""
    if isinstance(part, Facts):
        rows = [
            _html_cell(label, "th", _LABELLED) + _html_cell(text, "td", "left", _LONGEST_FACT)
            for label, text in part.rows
        ]
        return _html_table("", rows)
    if isinstance(part, Notes):
        return "".join(map(_paragraph, part.texts))
    title = _paragraph(part.title)
    if isinstance(part, Lines):
        lines = "".join(f"<div>{html_text(line, most=_LONGEST_FACT)}</div>" for line in part.content)
        return f'{title}<div style="white-space:pre-wrap;font-family:monospace">{lines}</div>'
    sides = ["right" if column in part.numbers else "left" for column in range(len(part.head))]
    head = "".join(_html_cell(name, "th", side) for name, side in zip(part.head, sides, strict=True))
    rows = [_html_row(row, sides) for row in part.rows[:_MOST_ROWS]]
    more = _paragraph(f"and {len(part.rows) - _MOST_ROWS:,} more") if len(part.rows) > _MOST_ROWS else ""
    drawn = _html_table(f"<thead><tr>{head}</tr></thead>", rows)
    return title + drawn + more + "".join(map(_paragraph, part.notes))


def _html_row(cells: Sequence[str], sides: Sequence[str]) -> str:
    """Return the cells of one row; sides: "left" or "right" for each."""
    return "".join(_html_cell(cell, "td", side) for cell, side in zip(cells, sides, strict=True))


def _html_table(head: str, rows: Sequence[str]) -> str:
    """Return a table; head: markup of its head, or empty. rows: markup of each row."""
    lines = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    return f'<table style="{_TABLE}">{head}<tbody>{lines}</tbody></table>'


def _html_cell(words: str, name: str, side: str, most: int = _LONGEST) -> str:
    """Return one cell of a table.

    name: its tag, "td" or "th". side: the rest of a text-align rule. most: characters of its text.
    """
    return f'<{name} style="{_CELL}text-align:{side}">{html_text(words, most=most)}</{name}>'


def _paragraph(words: str) -> str:
    """Return the words as a paragraph; empty where there are none."""
    return f'<div style="margin:.3em 0">{html_text(words, most=_LONGEST_SENTENCE)}</div>' if words else ""
