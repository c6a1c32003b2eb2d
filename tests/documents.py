"""The documents of the repository as tests see them: pages, their code blocks, links and headings.

The words after the language of a block say what a test does with it:

- a name with a dot (`yaml problem.yaml`) writes the block to that file before anything of the page runs;
- a number (`sh 3`) is the exit code that its commands have to end with;
- a part of a problem (`yaml observer`, `yaml automaton`) says what a mapping without other keys is;
- `long`: it runs with all trials only (trials.py), for what it shows is tested elsewhere;
- `skip`: it cannot run here. These are few, and `test_docs.py` lists the pages that have some.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trials import all_asked

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```\s*$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def skipped(self) -> bool:
        """Whether it says that it cannot run, or not now."""
        return "skip" in self.words or ("long" in self.words and not all_asked())

    @property
    def file(self) -> str:
        """The file that it is written to, if any."""
        return next((word for word in self.words if "." in word), "")

    @property
    def code(self) -> int:
        """The exit code that is expected."""
        return next((int(word) for word in self.words if word.isdigit()), 0)

    def commands(self) -> Iterator[str]:
        """The command lines of it, without comments that follow them."""
        for line in self.text.splitlines():
            command = line.removeprefix("$ ") if self.language == "console" else line
            if command.strip() and not (self.language == "console" and command == line):
                yield re.sub(r"\s+#.*$", "", command).strip()


def text_of(page: Path) -> str:
    """The words of a page or a notebook."""
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, directives of the docs site left out."""
    found = (Block(page, *_info(match[1]), match[2]) for match in _FENCE.finditer(text_of(page)))
    return [block for block in found if not block.language.startswith("{")]


def _info(info: str) -> tuple[str, tuple[str, ...]]:
    language, *words = info.split() or [""]
    return language, tuple(words)


def name_of(page: Path) -> str:
    """A page as tests are called."""
    return str(page.relative_to(ROOT))


def prepare(page: Path, folder: Path) -> None:
    """What a reader of the page has at hand: the examples, and the files that the page shows."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    for block in blocks_of(page):
        if block.file and not block.skipped:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def code_of(notebook: Path) -> str:
    """The code of a notebook as one script."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def links_of(page: Path) -> list[tuple[str, str]]:
    """The relative links of a page: file ("" is the page itself) and anchor."""
    prose = re.sub(r"`[^`\n]+`", "", _FENCE.sub("", text_of(page)))
    return re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", prose)


def anchors_of(page: Path) -> set[str]:
    """What links may point to within a page."""
    heads = re.findall(r"^#+ (.*)$", _FENCE.sub("", text_of(page)), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}
