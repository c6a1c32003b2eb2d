"""What all tests share: the sentences that users read, kept in one file that `pytest --rewrite-golden` rewrites."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

SENTENCES = Path(__file__).parent / "golden" / "sentences.txt"
REWRITE = "--rewrite-golden"

gc.set_threshold(100_000, 50, 50)  # as in commands: with all that tests import, looking for garbage takes a tenth


_LONG = ("test_docs.py", "test_reference_pages.py")  # files with tests of half a minute and more


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that no process runs one at the end while the other has nothing to do."""
    items.sort(key=lambda item: item.path.name not in _LONG)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REWRITE, action="store_true", help=f"write the sentences the tests meet to {SENTENCES.name}")


def read_sentences() -> dict[str, list[str]]:
    """Return the sentences of every section of the file; a section begins with '## ' and its title."""
    _, *sections = SENTENCES.read_text(encoding="utf-8").split("\n## ")
    lines = [section.splitlines() for section in sections]
    return {title: [line for line in rest if line] for title, *rest in lines}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Iterable[str]], None]:
    """Return a function that compares sentences, in order, with those kept under a title, or keeps them instead."""

    def compare(title: str, sentences: Iterable[str]) -> None:
        kept, met = read_sentences(), list(sentences)
        if not request.config.getoption(REWRITE):
            assert met == kept.get(title), f"if the new sentences are better, run: pytest {REWRITE}"
            return
        if request.config.getoption("numprocesses", default=None):
            pytest.fail(f"{REWRITE} rewrites one file: leave out -n")
        head = (
            "What users read, by the test that meets it. Rewritten by `pytest --rewrite-golden`; read the difference.\n"
        )
        kept[title] = met
        parts = [f"\n## {name}\n\n" + "".join(f"{line}\n" for line in kept[name]) for name in sorted(kept)]
        SENTENCES.write_text(head + "".join(parts), encoding="utf-8")

    return compare
