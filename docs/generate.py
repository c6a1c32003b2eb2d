"""Writes the pages of the reference that are made from the code: `python docs/generate.py`.

`--check` writes nothing and ends with code 1 when a page is not as it should be. `--transcripts` also runs the commands
of all console transcripts again and writes what they print now.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import answers_page  # noqa: E402 - the folder is known from here on
import api_page  # noqa: E402
import command_page  # noqa: E402
import errors_page  # noqa: E402

from opaq.spec.reference import reference  # noqa: E402

PAGES = {
    "answers.md": answers_page.page,
    "reference/commands.md": command_page.page,
    **api_page.pages(),
    "reference/errors.md": errors_page.page,
    "problem-file-reference.md": reference,
}


def refresh_transcripts() -> None:
    """Run the commands of all transcripts again; pages that are made by a script are left to it."""
    from transcripts import refreshed

    os.environ["COLUMNS"] = "100"
    for file in sorted(DOCS.rglob("*.md")):
        if str(file.relative_to(DOCS)) not in PAGES:
            before = file.read_text(encoding="utf-8")
            after = refreshed(before)
            if after != before:
                file.write_text(after, encoding="utf-8")
                print(f"written: {file.relative_to(DOCS)}")


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    if "--transcripts" in arguments:
        refresh_transcripts()
    stale = []
    for name, page in PAGES.items():
        text, file = page(), DOCS / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    print(
        "as they should be"
        if not stale
        else f"{'not up to date' if '--check' in arguments else 'written'}: {', '.join(stale)}"
    )
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
