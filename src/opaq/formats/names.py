"""Make the names that files give to states, labels and actions, keep them apart, and quote them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import escape_invisible
from opaq.model.checks import Names


def entry_names(variables: Mapping[str, NDArray[Any]], count: int, *, prefix: str) -> tuple[str, ...]:
    """Return the name of every state or observation.

    variables: variable -> its value for each; names are then "x=1,y=true", kept apart by `distinct`.
    count: how many there are.
    prefix: without variables, names are the prefix and the position.
    """
    if not variables:
        return tuple(f"{prefix}{position}" for position in range(count))
    # Each distinct value is written once; a hundred thousand entries then only join texts that exist already.
    columns = [_texts(name, values).tolist() for name, values in variables.items()]
    return distinct(list(map(",".join, zip(*columns, strict=True))))


def _texts(name: str, values: NDArray[Any]) -> NDArray[np.object_]:
    """Return "name=value" for every value of a variable, in order; truth values are "true" and "false"."""
    different, inverse = np.unique(values, return_inverse=True)
    texts = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for value in different.tolist()]
    return np.array(texts, dtype=object)[inverse]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the same names, the second use of one marked "name.2" and so on; none becomes equal to another."""
    checked = Names.of(names)
    if checked is not None:
        return checked
    if len(set(names)) == len(names):
        return tuple(names)
    taken, uses = set(names), dict.fromkeys(names, 0)
    renamed: list[str] = []
    for name in names:
        uses[name] += 1
        candidate = name
        while uses[name] > 1 and candidate in taken:
            candidate = f"{name}.{uses[name]}"
            uses[name] += candidate in taken
        taken.add(candidate)
        renamed.append(candidate)
    return tuple(renamed)


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with as many underscores after it as it takes to be none of those taken."""
    while name in taken:
        name += "_"
    return name


def escape_labels(names: Sequence[str]) -> tuple[str, ...]:
    """Return names without control characters, still different from one another."""
    return distinct([escape_invisible(name) for name in names])


def quote(text: str) -> str:
    """Return a text as a string of HOA or DOT: in double quotes, with quotes, backslashes and line ends escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquote(text: str) -> str:
    """Return the text of a string of HOA or DOT, quotes and escapes removed; `unquote(quote(text))` is the text."""
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nlr" else match[1], text[1:-1], flags=re.DOTALL)
