"""Pages link to files of the repository, so that they can be read there; on the site the links go to its own pages.

`../CONTRIBUTING.md` and `../CHANGELOG.md` have pages on the site. What has none (sources, tests) is offered as a file.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

# Files beside docs/ that are pages of the site.
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
_LINK = re.compile(r"\]\(((?:\.\./)+)([A-Z]+\.md)")


def on_the_site(page: str, text: str) -> str:
    """The text of a page (its name without ending) with links to pages of the site."""

    def link(match: re.Match[str]) -> str:
        up, file = match[1].count("../"), match[2]
        if file not in PAGES or up != page.count("/") + 1:
            return match[0]
        return f"]({posixpath.relpath(PAGES[file], posixpath.dirname(page) or '.')}"

    return _LINK.sub(link, text)


def from_the_root(text: str) -> str:
    """The text of a file beside docs/ with links as a page in docs/ has them."""
    text = re.sub(r"\]\((?!https?:|#|/)(?:docs/)([^)]*)\)", r"](\1)", text)
    for file, page in PAGES.items():
        text = text.replace(f"]({file}", f"]({page}")
    return re.sub(r"\]\((examples|benchmarks|tests|src)(?=[/)])", r"](../\1", text)


def with_all_pages(text: str, names: list[str]) -> str:
    """The start page with every page in its contents: those that nobody has placed yet come last among the guides."""
    missing = [
        name for name in names if name != "index" and not re.search(rf"^(?:.*<)?{name}>?$", text, flags=re.MULTILINE)
    ]
    return text.replace("\nformats/index\n", "".join(f"\n{name}" for name in ("formats/index", *missing)) + "\n", 1)


def _read(app: Any, docname: str, content: list[str]) -> None:
    for file, page in PAGES.items():
        if page == f"{docname}.md" and docname != "index":
            app.env.note_dependency(str(app.srcdir.parent / file))
            content[0] = from_the_root((app.srcdir.parent / file).read_text(encoding="utf-8"))
            return
    content[0] = on_the_site(docname, content[0])
    if docname == "index":
        names = sorted(path.stem for path in app.srcdir.glob("*.md"))
        content[0] = with_all_pages(content[0], names)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
