"""Every file format opaq knows, and the lookup by the ending of a file name.

Formats of opaq itself and of policies are described beside their readers and writers. Those of other tools are
described here, and their readers and writers are imported when a file needs them. Adding one is a new file and its
description below, or one `register_format`.
"""

from __future__ import annotations

import os

from opaq.formats import plain, policies
from opaq.formats.format import AUTOMATON_EXAMPLE, Content, Format, import_later, model_format

_read_prism = import_later("opaq.formats.prism.storm:read_prism")
_read_gymnasium = import_later("opaq.formats.gymnasium:read_gymnasium")
_automaton_to_hoa = import_later("opaq.formats.hoa:automaton_to_hoa")
_automaton_to_dot = import_later("opaq.formats.dot:automaton_to_dot")
_mdp_to_dot = import_later("opaq.formats.dot:mdp_to_dot")
_POMDP_EXAMPLE = """opaq: 1
pomdp: FILE
observer: {from: model}                  # the observer sees the model's own observations
secret: {initial_state: true}
horizon: 10"""

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
    model_format(
        *("prism", ".prism", ".nm", ".pm", ".sm"),
        reader=_read_prism,
        options=("constants", "reward"),
        extra="storm",
    ),
    model_format("jani", ".jani", reader=_read_prism, options=("constants", "reward"), extra="storm"),
    model_format(
        *("drn", ".drn"),
        reader=_read_prism,
        writers={"policy": policies.write_chain},
        options=("reward",),
        extra="storm",
    ),
    model_format(
        *("umb", ".umb"),
        reader=import_later("opaq.formats.umb.reader:read_umb"),
        writers={
            "problem": import_later("opaq.formats.umb.writer:write_problem"),
            "model": import_later("opaq.formats.umb.writer:write_model"),
        },
        options=("reward",),
    ),
    model_format(
        "pomdp", ".pomdp", reader=import_later("opaq.formats.pomdp.reader:read_pomdp"), example=_POMDP_EXAMPLE
    ),
    Format(
        *("gymnasium", "a Gymnasium environment", "model"),
        reader=lambda env_id, options=None: _read_gymnasium(env_id, **(options or {})),  # problem files: one mapping
        options=("options",),
        extra="gym",
        is_file=False,
    ),
    Format(
        *("hoa", "an automaton", "automaton", (".hoa",)),
        reader=import_later("opaq.formats.hoa:read_hoa"),
        writers={
            "automaton": lambda automaton, export: _automaton_to_hoa(automaton),
            "problem": import_later("opaq.formats.hoa:write_secret"),
        },
        example=AUTOMATON_EXAMPLE,
    ),
    Format(
        *("dot", "a drawing of an automaton", "automaton", (".dot", ".gv")),
        reader=import_later("opaq.formats.dot:read_dot"),
        writers={
            "automaton": lambda automaton, export: _automaton_to_dot(automaton),
            "problem": lambda problem, export: _mdp_to_dot(problem.mdp),
            "model": lambda imported, export: _mdp_to_dot(imported.mdp),
        },
        example=AUTOMATON_EXAMPLE,
    ),
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
