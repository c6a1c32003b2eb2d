"""Write the reference page of problem and policy files from the grammar: `python -m opaq.spec.reference` prints it.

The records of `problem_part` and `policy_table` come in, Markdown goes out: one section per mapping with a table of
its keys (name, type, meaning, default) and an example.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getdoc
from typing import Any

from opaq.model.uncertainty import UNCERTAINTIES
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Fields, Key, Record, ValueType
from opaq.spec.policy_part import CONDITIONS
from opaq.spec.policy_table import POLICY_FILE
from opaq.spec.problem_part import problem_record

_HEAD = """\
# Reference of problem and policy files

This page is made from the grammar that reads and writes the files (`python -m opaq.spec.reference`). The
[guide to problem files](problem-file.md) introduces them by example.

**A set of states**, wherever one is asked for, is a label, a state, a grid cell, a list of these, or, for models with
state variables, `{where: "x + y < 3"}`. Names are text or whole numbers. Probabilities that miss 1 by at most 1e-5 are
scaled, with a warning; anything more is a fault.
"""


def reference() -> str:
    """Return the page as Markdown: one section per mapping, in the order in which they are first mentioned."""
    records = list(_records(problem_record(), {}).values())
    return "\n".join([_HEAD, *(_section(record) for record in [*records, *_named_values(), POLICY_FILE])])


def _named_values() -> tuple[Record[Any], ...]:
    """Return the words of registries that stand as values, each with what it means."""
    conditions = [Key(name, kind.value or _ALONE, kind.help) for name, kind in CONDITIONS.items()]
    uncertainties = [
        Key(name, ValueType(one.unit or "a number", Cursor.name, {}), (getdoc(one) or one.title).splitlines()[0])
        for name, one in UNCERTAINTIES.items()
    ]
    return (
        Record("condition", "An entry of `conditions_on`, and a key of policy rows.", tuple(conditions), _nothing),
        Record("uncertainty", "What `of` of a task may name, in its unit.", tuple(uncertainties), _nothing),
    )


def _nothing(fields: Fields) -> None:
    """Make nothing: these are read where they are used."""


_ALONE: ValueType[str] = ValueType("the word alone", Cursor.name, {})


def _records(record: Record[Any], known: dict[str, Record[Any]]) -> dict[str, Record[Any]]:
    """Return every mapping with fixed keys below one, each once, by title; `known` are those listed already and grows.

    record: the mapping to begin with, which is listed first.
    """
    known[record.title] = record
    for key in record.keys:
        for inner in _inside(key.shape):
            if inner.title not in known:
                _records(inner, known)
    return known


def _inside(shape: ValueType[Any]) -> Iterator[Record[Any]]:
    """Yield the mappings with fixed keys that a value may hold, directly or in a list or a mapping."""
    if shape.record is not None:
        yield shape.record()
    for inner in shape.inside:
        yield from _inside(inner)


def _section(record: Record[Any]) -> str:
    """Return the section of one mapping: its help, a table of its keys and an example."""
    example = f"```yaml\n{record.example}\n```\n" if record.example else ""
    rows = [_row(key, record) for key in record.keys]
    table = "\n".join(["| key | value | meaning |", "|---|---|---|", *rows])
    choice = f"Exactly one of {_list_names(record.one_of)}.\n\n" if record.one_of else ""
    return f"## {record.title}\n\n{record.help}\n\n{choice}{table}\n\n{example}"


def _row(key: Key, record: Record[Any]) -> str:
    """Return the row of one key: its name, its type and what it means.

    key: its help, whether it is required, its default and the keys it goes with make the last cell.
    """
    notes = [key.help]
    if key.required:
        notes.append("Required.")
    if isinstance(key.default, bool | int | float | str) and key.default != "":
        default = str(key.default).lower() if isinstance(key.default, bool) else f"{key.default}"
        notes.append(f"Default: `{default}`.")
    if key.goes_with:
        notes.append(f"Only with {_list_names(key.goes_with)}.")
    return f"| `{key.name}` | {_cell(key.shape.description)} | {_cell(' '.join(notes))} |"


def _list_names(names: tuple[str, ...]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """Return text for a cell of a Markdown table, in which "|" would end it."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
