"""Every file format opaq knows, and the lookup by the ending of a file name.

Each format is described beside its reader and writers; this module imports and lists them. Adding one is a new file
and its line below, or one `register_format`. The imports are direct, although they add about 0.1 s to `opaq.load`:
neither `import opaq` nor `opaq --help` reaches this module, and most commands need the larger part of it anyway.
"""

from __future__ import annotations

import os

from opaq.formats import dot, gymnasium, hoa, plain, policies
from opaq.formats.format import Content, Format
from opaq.formats.pomdp import reader as pomdp
from opaq.formats.prism import storm
from opaq.formats.umb import reader as umb

FORMATS: dict[str, Format] = {}


def register_format(format: Format) -> Format:
    """Make a format known, to `opaq.load` and to problem files, and return it.

    format: its name and its endings must be new.
    Raises ValueError when its name or one of its endings is taken.
    """
    taken = {ending for known in FORMATS.values() for ending in known.endings} & set(format.endings)
    if format.name in FORMATS or taken:
        raise ValueError(f"the format '{format.name}' or one of its endings is registered already")
    FORMATS[format.name] = format
    return format


# The order is that of lists in messages.
for _format in (
    *(plain.YAML, plain.JSON),
    *(policies.CSV, policies.TXT, policies.SCHEDULER),
    *(storm.PRISM, storm.JANI, storm.DRN),
    umb.UMB,
    pomdp.POMDP,
    gymnasium.GYMNASIUM,
    hoa.HOA,
    dot.DOT,
    Format("html", "a web page", "other", (".html",)),
    Format("npz", "a store of arrays", "other", (".npz",)),
    Format("npy", "an array", "other", (".npy",)),
):
    register_format(_format)


def ending_of(path: str | os.PathLike[str]) -> str:
    """Return the longest registered ending of a path, in lower case; else what stands after its last dot, dot included.

    E.g. ".storm.json" for "x.storm.json", although ".json" is an ending too.
    """
    source = os.fspath(path).lower()
    known = [ending for format in FORMATS.values() for ending in format.endings if source.endswith(ending)]
    return max(known, key=len, default=os.path.splitext(source)[1])


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """Return the format that the ending of a path names; None when it names none."""
    ending = ending_of(path)
    return next((format for format in FORMATS.values() if ending in format.endings), None)


def formats_of(holds: Content) -> tuple[Format, ...]:
    """Return the formats that hold one kind of thing and can be read."""
    return tuple(format for format in FORMATS.values() if format.holds == holds and format.reader is not None)


def endings(formats: tuple[Format, ...]) -> tuple[str, ...]:
    """Return all endings of some formats, in order."""
    return tuple(ending for format in formats for ending in format.endings)


def writable(kind: str) -> dict[str, Format]:
    """Return ending -> format for everything that a problem, model, automaton or policy (`kind`) can become."""
    return {ending: format for format in FORMATS.values() if kind in format.writers for ending in format.endings}
