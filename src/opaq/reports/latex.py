"""Tables of pages as LaTeX, for papers.

Comes in: a `Page`. Goes out: the text of a file to `\\input`, one `table` for every table of the page, with the rules
of booktabs; what is no table stands in comments. Names are escaped, so that nothing in them is a command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from opaq.errors import escape_invisible
from opaq.reports.layout import GLUE, Facts, Lines, Notes, Page, TextTable

_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': r"{\char34}", "±": r"$\pm$", "−": r"$-$", "…": r"\dots{}",
    "–": "--", "×": r"$\times$", "∞": r"$\infty$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\rightarrow$",
    "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "·": r"$\cdot$", "'": "'", "`": "`",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_RELATIONS = {"<=": r"$\le$", ">=": r"$\ge$"}
_LAST_KNOWN = 0x17F  # letters up to here (Latin) compile in the usual fonts
_MINUS = re.compile(r"(^|(?<=[ \[(,]))-(?=[\d.])")
_OPEN = {"[": "{[}", "]": "{]}"}  # after \\ a bracket would be an option


def render_latex(page: Page) -> str:
    """Return the tables of a page as LaTeX: `table` environments in the style of booktabs, captioned with its title.

    Sentences and notes stand before each table as comments, to be used in captions. Needs \\usepackage{booktabs}.
    """
    blocks = ["% needs \\usepackage{booktabs}"]
    remarks = [page.sentence] if page.sentence else []
    for part in page.parts:
        if isinstance(part, TextTable):
            blocks.append(_table(part, part.title or page.title, (*remarks, *part.notes)))
            remarks = []
        elif isinstance(part, Notes):
            remarks += part.texts
        elif isinstance(part, Facts):
            blocks.append(_table(TextTable(("figure", "value"), part.rows), page.title, remarks))
            remarks = []
        elif isinstance(part, Lines):
            remarks += [part.title, *part.content]
    return "\n".join([*blocks, *_comments(remarks)]) + "\n"


def _table(table: TextTable, caption: str, remarks: Iterable[str]) -> str:
    """Return one table environment below its remarks, which are comments."""
    sides = "".join("r" if column in table.numbers else "l" for column in range(len(table.head)))
    rows = [_row(row) for row in table.rows]
    return "\n".join(
        [
            *_comments(remarks),
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{escape_latex(caption)}}}",
            f"  \\begin{{tabular}}{{{sides}}}",
            r"    \toprule",
            f"    {_row(table.head)}",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _row(cells: Iterable[str]) -> str:
    """Return the line of a table with these cells; minus signs of numbers are mathematics."""
    return " & ".join(_cell(cell) for cell in cells) + r" \\"


def _cell(text: str) -> str:
    """Return a cell: escaped, with minus signs before numbers, and no bracket where a row may begin."""
    relation = _RELATIONS.get(text[:2])
    escaped = f"{relation} {escape_latex(text[2:].lstrip())}" if relation else escape_latex(text)
    escaped = _MINUS.sub("$-$", escaped)
    return _OPEN.get(escaped[:1], escaped[:1]) + escaped[1:]


def _comments(texts: Iterable[str]) -> list[str]:
    """Return texts as lines of comments; empty ones are left out."""
    return [f"% {escape_invisible(text.replace(GLUE, ' '))}" for text in texts if text]


def escape_latex(text: str) -> str:
    """Return a text in which nothing is a command of LaTeX, of letters that every engine of TeX can set.

    Greek letters become mathematics; other letters beyond Latin ones, and invisible characters, are spelt out.
    """
    return "".join(map(_escape_char, escape_invisible(text.replace(GLUE, " "))))


def _escape_char(char: str) -> str:
    """Return one character as LaTeX has it."""
    if char in _SPECIAL:
        return _SPECIAL[char]
    if ord(char) < 0x7F or (char.isalpha() and ord(char) <= _LAST_KNOWN):
        return char
    name = unicodedata.name(char, "").replace("LAMDA", "LAMBDA")
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", name)
    if greek and greek[1] == "SMALL" and greek[2] in _GREEK:
        return f"$\\{greek[2].lower()}$"
    if greek and greek[1] == "CAPITAL" and greek[2] in _CAPITALS:
        return f"$\\{greek[2].capitalize()}$"
    return f"U+{ord(char):04X}"


_CAPITALS = ("GAMMA", "DELTA", "THETA", "LAMBDA", "XI", "PI", "SIGMA", "PHI", "PSI", "OMEGA")
_GREEK = (
    "ALPHA", "BETA", "GAMMA", "DELTA", "EPSILON", "ZETA", "ETA", "THETA", "IOTA", "KAPPA", "LAMBDA", "MU", "NU", "XI",
    "PI", "RHO", "SIGMA", "TAU", "UPSILON", "PHI", "CHI", "PSI", "OMEGA",
)  # fmt: skip
