"""What the documents show works: every snippet of README, CONTRIBUTING and all pages of docs/ is executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import opaq
from commands import opaq_command
from documents import (
    DOCS,
    NOTEBOOKS,
    PAGES,
    ROOT,
    Block,
    anchors_of,
    blocks_of,
    code_of,
    links_of,
    name_of,
    prepare,
    text_of,
)
from opaq.formats.dot import automaton_from_dot
from opaq.formats.hoa import automaton_from_hoa
from opaq.product.compile import compile_problem
from opaq.spec.problem_part import problem_schema

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
LANGUAGES = {"python", "sh", "console", "yaml", "json", "hoa", "dot", "text"}
ELSEWHERE = {
    "docs/extensions.md": "each example stands alone: test_extensions.py",
    "docs/problem-file-reference.md": "made from the grammar: spec/test_reference.py",
    "docs/reference/errors.md": "made by running it: test_reference_pages.py",
}
MAY_SKIP = {
    "docs/problem-file.md": "models that are not there",
    "docs/reproduction.md": "runs for an hour",
    "docs/answers.md": "another program, jq",
}
# What the parts of problems on the pages are parts of, where a page has no whole problem.
BASE: dict[str, Any] = {
    "opaq": 1,
    "model": {
        "states": ["q0", "q1", "g1", "g2"],
        "actions": ["a", "b"],
        "start": "q0",
        "transitions": {
            state: {"a": {"q0": 0.5, "q1": 0.5}, "b": {"g1": 0.5, "g2": 0.5}} for state in ("q0", "q1", "g1", "g2")
        },
        "labels": {
            **{label: ["g1"] for label in ("vault", "pickup", "goal", "goal_left", "secret", "a")},
            **{label: ["g2"] for label in ("dropoff", "goal_right", "fuel", "b")},
        },
    },
    "observer": {"emissions": {"*": {"N": 0.5, "R": 0.5}}},
    "secret": {"last_state": "vault"},
    "horizon": 3,
}


def pages_with(*languages: str) -> list[Path]:
    chosen = {block.page for block in BLOCKS if block.language in languages and not block.skipped}
    return [page for page in PAGES if page in chosen and name_of(page) not in ELSEWHERE]


def of_language(*languages: str) -> list[Block]:
    found = [block for block in BLOCKS if block.language in languages and not block.skipped]
    return [block for block in found if name_of(block.page) not in ELSEWHERE]


def is_whole(block: Block) -> bool:
    return block.language == "yaml" and block.text.startswith("opaq:")


def test_every_block_says_what_it_is() -> None:
    assert {(name_of(block.page), block.language) for block in BLOCKS if block.language not in LANGUAGES} == set()


def test_few_snippets_are_skipped() -> None:
    skipped = [
        name_of(block.page) for block in BLOCKS if "skip" in block.words and name_of(block.page) not in ELSEWHERE
    ]
    assert set(skipped) == set(MAY_SKIP)
    assert len(skipped) <= 4


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python(page: Path, tmp_path: Path) -> None:
    """All snippets of a page, one after the other, in one process."""
    prepare(page, tmp_path)
    code = "\n".join(block.text for block in blocks_of(page) if block.language == "python" and not block.skipped)
    run_script(code, tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_tutorials(notebook: Path, tmp_path: Path) -> None:
    run_script(code_of(notebook), tmp_path)


def run_script(code: str, folder: Path) -> None:
    (folder / "script.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "error", "script.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_are_three_tutorials_without_stored_outputs() -> None:
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert len(NOTEBOOKS) >= 3
    assert [cell for cell in cells if cell.get("outputs")] == []


@pytest.mark.parametrize("page", pages_with("sh", "console"), ids=name_of)
def test_commands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands of a page, one after the other, in one folder."""
    prepare(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page):
        for command in block.commands() if block.language in ("sh", "console") and not block.skipped else ():
            if command.startswith("opaq "):
                arguments, _, file = command.partition(" > ")
                done = opaq_command(*shlex.split(arguments)[1:])
                assert done.returncode == block.code, f"{command}\n{done.stderr}"
                if file:
                    Path(file).write_text(done.stdout, encoding="utf-8")
            else:
                assert is_known(command), command


def test_transcripts_have_commands() -> None:
    empty = [name_of(block.page) for block in BLOCKS if block.language == "console" and not list(block.commands())]
    assert empty == []


def is_known(command: str) -> bool:
    """Whether a command that is not ours, and is not run, names what there is."""
    first, *rest = shlex.split(re.sub(r"^([A-Z_]+=(\$\([^)]*\)|\S+) )+", "", command))
    program = first.rpartition("/")[2]
    if program == "make":
        return all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE) for target in rest)
    if program == "python" and rest[0] != "-m":
        return (ROOT / rest[0]).is_file()
    return program in {"pip", "pipx", ".", "python", "ruff", "mypy", "pytest"}


@pytest.mark.parametrize("block", of_language("yaml"), ids=lambda block: name_of(block.page))
def test_problems_and_their_parts(block: Block, tmp_path: Path) -> None:
    spec = yaml.safe_load(block.text)
    if block.file and not is_whole(block):
        assert isinstance(spec, dict)  # a file of another kind, which a command of the page reads
        return
    if not is_whole(block):
        whole = [other for other in blocks_of(block.page) if is_whole(other) and not other.skipped]
        base: dict[str, Any] = yaml.safe_load(whole[0].text) if whole else BASE
        base.get("model", {}).setdefault("named_rewards", {"fuel": {"*": -1}})
        spec = base | ({"secret": {"automaton": spec}} if "automaton" in block.words else spec)
    jsonschema.Draft202012Validator(problem_schema()).validate(spec)
    (tmp_path / "problem.yaml").write_text(json.dumps(spec), encoding="utf-8")
    compile_problem(opaq.load_problem(tmp_path / "problem.yaml"))


@pytest.mark.parametrize("block", of_language("json", "hoa", "dot"), ids=lambda block: block.language)
def test_other_files(block: Block) -> None:
    read = {"json": json.loads, "hoa": automaton_from_hoa, "dot": automaton_from_dot}[block.language]
    assert read(block.text)


def test_every_key_of_the_schema_is_explained() -> None:
    schema, reference = problem_schema(), text_of(DOCS / "problem-file-reference.md")
    kinds = ("model", "grid", "imported", "sensor", "observer", "secret", "memory", "policy", "task")
    keys = {key for kind in kinds for key in schema["$defs"][kind]["properties"]} | set(schema["properties"])
    assert [key for key in sorted(keys) if f"| `{key}` |" not in reference] == []


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = links_of(page)
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    anchored = [(page.parent / link if link else page, part) for link, part in links if part]
    assert [(name_of(target), part) for target, part in anchored if part not in anchors_of(target.resolve())] == []
