"""Tables as LaTeX: their structure, names that are no commands, and a real TeX where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import opaq
from opaq.reports.latex import escape_latex, render_latex
from opaq.reports.layout import Facts, Lines, Notes, Page, TextTable
from opaq.reports.text.comparison import comparison_page
from opaq.reports.text.frontier import frontier_page

HOSTILE = r"a_b & 50% #1 {x} $y$ ~ ^ \input{/etc/passwd} <= '" + '"q" ü λ Ω 中 ±'


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row of the first table, after a check of what stands around them."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith("%")]
    assert lines[:2] == [r"\begin{table}", r"\centering"]
    assert re.fullmatch(r"\\caption\{.*\}", lines[2])
    columns = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[3])
    assert columns is not None
    assert (lines[4], lines[6]) == (r"\toprule", r"\midrule")
    end = lines.index(r"\bottomrule")
    assert lines[end + 1 : end + 3] == [r"\end{tabular}", r"\end{table}"]
    rows = [lines[5], *lines[7:end]]
    assert all(row.endswith(r" \\") for row in rows)
    cells = [re.split(r"(?<!\\)&", row.removesuffix(r"\\")) for row in rows]
    assert {len(each) for each in cells} == {len(columns[1])}
    return [[cell.strip() for cell in row] for row in cells]


def test_a_table_has_the_rules_of_booktabs_and_its_notes_are_comments() -> None:
    rows = (("x", "-1.5"), ("[y]", "<= 2"), ("", ">= 3"))
    table = TextTable(("name", "bits"), rows, numbers=(1,), notes=("50% of it",))
    text = render_latex(Page("A sentence.", (table, Notes(("last",))), "My title"))
    assert rows_of(text) == [["name", "bits"], ["x", "$-$1.5"], ["{[}y]", r"$\le$ 2"], ["", r"$\ge$ 3"]]
    assert r"\begin{tabular}{lr}" in text
    assert r"\caption{My title}" in text
    comments = [line for line in text.splitlines() if line.startswith("%")]
    assert comments == [r"% needs \usepackage{booktabs}", "% A sentence.", "% 50% of it", "% last"]
    facts = render_latex(Page("", (Facts((("a", "1"),)), Lines(("line",), "lines")), "T"))
    assert rows_of(facts) == [["figure", "value"], ["a", "1"]]


def test_names_are_no_commands() -> None:
    escaped = escape_latex(HOSTILE)
    assert r"a\_b \& 50\% \#1 \{x\} \$y\$" in escaped
    assert r"\textbackslash{}input\{/etc/passwd\}" in escaped
    assert r"ü $\lambda$ $\Omega$ U+4E2D $\pm$" in escaped
    assert escape_latex("a\nb\x1b") == r"a\textbackslash{}nb\textbackslash{}x1b"


def test_answers_are_tables() -> None:
    comparison = opaq.compare("two-sink", classes=["state", "state,time"], starts=1)
    rows = rows_of(render_latex(comparison_page(comparison)))
    assert [row[0] for row in rows] == ["class", "state", "state, time"]
    front = opaq.frontier("two-sink", points=2)
    rows = rows_of(render_latex(frontier_page(front)))
    assert rows[0][0] == "at least"
    assert len(rows) == 1 + len(front.points)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex is installed")
def test_tex_takes_it(tmp_path: Path) -> None:
    table = TextTable(("name", HOSTILE), ((HOSTILE, "[0.5, -1]"), ("[x]", "<= 2")), numbers=(1,), notes=(HOSTILE,))
    (tmp_path / "table.tex").write_text(render_latex(Page(HOSTILE, (table,), HOSTILE)), encoding="utf-8")
    paper = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{table}\end{document}"
    (tmp_path / "paper.tex").write_text(paper)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
