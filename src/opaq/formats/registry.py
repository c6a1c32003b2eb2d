"""Every file format opaq knows: its endings, what it holds, and who reads and writes it.

Adding a format is one new file with a reader or a writer, and one `register_format` (or one entry below).
Readers and writers are named as "module:function" and imported when they are first used: this module is cheap.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from opaq.model.problem import Problem


Content = Literal["problem", "model", "automaton", "policy", "table", "other"]


@dataclass(frozen=True, slots=True)
class ReaderOption:
    """One key that a problem file may put beside the name of a model, for its reader."""

    name: str
    type: Literal["name", "values", "mapping"]  # values: names -> numbers or true or false
    help: str


@dataclass(slots=True)
class Export:
    """What a writer gets beside the thing to write: the problem a policy is for, and a list for what is lost."""

    problem: Problem | None = None
    notes: list[str] = field(default_factory=list)


Writer = Callable[[Any, Export], str | bytes]


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    `reader` is called as reader(path, **options), or with the id where `is_file` is false; what it returns is
    an Imported for a model and an Automaton for an automaton. Problems and policies have no reader here: they are
    read by `opaq.loading`. `writers` names one function for each kind of thing the format can hold, called as
    writer(thing, export); it returns the content and writes nothing itself.
    """

    name: str  # also the key of a problem file that names such a model
    title: str  # as in "is a PRISM model, not a problem"
    holds: Content
    endings: tuple[str, ...] = ()
    reader: str = ""
    writers: Mapping[str, str] = field(default_factory=dict)  # problem, model, automaton or policy -> function
    options: tuple[ReaderOption, ...] = ()
    extra: str = ""  # of opaq, that must be installed to read it
    example: str = ""  # a problem file that uses a file of this format, called FILE here
    is_file: bool = True

    def read(self, source: str, **options: Any) -> Any:
        """Read a file (or the environment of this id)."""
        return _load_attribute(self.reader)(source, **options)

    def writer(self, kind: str) -> Writer:
        """The function that writes one kind of thing."""
        writer: Writer = _load_attribute(self.writers[kind])
        return writer

    @property
    def how_to_install(self) -> str:
        """Advice for when what the reader needs is not there."""
        return f'install it with: pip install "opaq[{self.extra}]"'

    def takes(self, option: str) -> bool:
        """Whether the reader knows an option."""
        return any(known.name == option for known in self.options)


def _load_attribute(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return loaded


FORMATS: dict[str, Format] = {}


def register_format(format: Format) -> Format:
    """Make a format known; raises ValueError when its name or one of its endings is taken."""
    taken = {ending for known in FORMATS.values() for ending in known.endings} & set(format.endings)
    if format.name in FORMATS or taken:
        raise ValueError(f"the format '{format.name}' or one of its endings is registered already")
    FORMATS[format.name] = format
    return format


def ending_of(path: str | os.PathLike[str]) -> str:
    """The longest registered ending of a path, in lower case; else what stands after its last dot."""
    source = os.fspath(path).lower()
    known = [ending for format in FORMATS.values() for ending in format.endings if source.endswith(ending)]
    return max(known, key=len, default=os.path.splitext(source)[1])


def format_of(path: str | os.PathLike[str]) -> Format | None:
    """The format that the ending of a path names, if it names one."""
    ending = ending_of(path)
    return next((format for format in FORMATS.values() if ending in format.endings), None)


def formats_of(holds: Content) -> tuple[Format, ...]:
    """The formats that hold one kind of thing and can be read."""
    return tuple(format for format in FORMATS.values() if format.holds == holds and format.reader)


def endings(formats: tuple[Format, ...]) -> tuple[str, ...]:
    """All endings of some formats."""
    return tuple(ending for format in formats for ending in format.endings)


def writable(kind: str) -> dict[str, Format]:
    """Ending -> format, for everything that one kind of thing can become."""
    return {ending: format for format in FORMATS.values() if kind in format.writers for ending in format.endings}


_CONSTANTS = ReaderOption("constants", "values", "values of the constants the model leaves open")
_REWARD = ReaderOption("reward", "name", "the reward structure to take; the first if it is not given")
_OPTIONS = ReaderOption("options", "mapping", "arguments of the environment, such as map_name")

_MODEL_EXAMPLE = """opaq: 1
{key}: FILE
observer: {{variables: [x]}}               # the observer sees the state variable x
secret: {{last_state: {{where: "x = 1"}}}}
horizon: 10"""
_POMDP_EXAMPLE = """opaq: 1
pomdp: FILE
observer: {from: model}                  # the observer sees the model's own observations
secret: {initial_state: true}
horizon: 10"""
_DOT, _HOA, _UMB = "opaq.formats.dot", "opaq.formats.hoa", "opaq.formats.umb"
_EXPORT = "opaq.formats.policies"


def _plain(name: str, *endings: str) -> Format:
    """Our own mappings, as YAML or as JSON."""
    writers = {kind: f"opaq.formats.plain:{kind}_as_{name}" for kind in ("problem", "model", "automaton")}
    return Format(name, "a problem", "problem", endings, writers=writers)


def _export_format(name: str, ending: str, title: str, holds: Content) -> Format:
    """What policies are written as, and never read from."""
    return Format(name, title, holds, (ending,), writers={"policy": f"{_EXPORT}:{name}_of_policy"})


def _model(name: str, *endings: str, reader: str, **others: Any) -> Format:
    """A model of another tool, named in a problem file under the name of its format."""
    how = {"example": _MODEL_EXAMPLE.format(key=name)} | others
    return Format(name, f"a {name.upper()} model", "model", endings, reader, **how)


def _automaton(name: str, title: str, *endings: str, reader: str, **writers: str) -> Format:
    """An automaton, which a problem file names where it says what is secret."""
    return Format(name, title, "automaton", endings, reader, writers, example="secret: {automaton: {file: FILE}}")


def _built_by_storm(name: str, *endings: str, **others: Any) -> Format:
    return _model(name, *endings, reader="opaq.formats.prism.storm:read_prism", extra="storm", **others)


# The order is that of lists in messages.
for _format in (
    _plain("yaml", ".yaml", ".yml"),
    _plain("json", ".json"),
    _export_format("csv", ".csv", "a table", "table"),
    _export_format("txt", ".txt", "a policy as text", "policy"),
    _export_format("scheduler", ".storm.json", "a scheduler of Storm", "policy"),
    _built_by_storm("prism", ".prism", ".nm", ".pm", ".sm", options=(_CONSTANTS, _REWARD)),
    _built_by_storm("jani", ".jani", options=(_CONSTANTS, _REWARD)),
    _built_by_storm("drn", ".drn", options=(_REWARD,), writers={"policy": f"{_EXPORT}:drn_of_policy"}),
    _model(
        "umb",
        ".umb",
        reader=f"{_UMB}.reader:read_umb",
        writers={"problem": f"{_UMB}.writer:umb_of_problem", "model": f"{_UMB}.writer:umb_of_model"},
        options=(_REWARD,),
    ),
    _model("pomdp", ".pomdp", reader="opaq.formats.pomdp.reader:read_pomdp", example=_POMDP_EXAMPLE),
    Format(
        "gymnasium",
        "a Gymnasium environment",
        "model",
        reader="opaq.formats.gymnasium:read_environment",
        options=(_OPTIONS,),
        extra="gym",
        is_file=False,
    ),
    _automaton(
        "hoa",
        "an automaton",
        ".hoa",
        reader=f"{_HOA}:read_hoa",
        automaton=f"{_HOA}:hoa_of_automaton",
        problem=f"{_HOA}:hoa_of_secret",
    ),
    _automaton(
        "dot",
        "a drawing of an automaton",
        ".dot",
        ".gv",
        reader=f"{_DOT}:read_dot",
        automaton=f"{_DOT}:dot_of_automaton",
        problem=f"{_DOT}:dot_of_model",
        model=f"{_DOT}:dot_of_model",
    ),
    Format("html", "a web page", "other", (".html",)),
    Format("npz", "a store of arrays", "other", (".npz",)),
    Format("npy", "an array", "other", (".npy",)),
):
    register_format(_format)
