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
        return _loaded(self.reader)(source, **options)

    def writer(self, kind: str) -> Writer:
        """The function that writes one kind of thing."""
        writer: Writer = _loaded(self.writers[kind])
        return writer

    @property
    def how_to_install(self) -> str:
        """Advice for when what the reader needs is not there."""
        return f'install it with: pip install "opaq[{self.extra}]"'

    def takes(self, option: str) -> bool:
        """Whether the reader knows an option."""
        return any(known.name == option for known in self.options)


def _loaded(path: str) -> Callable[..., Any]:
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
_AUTOMATON_EXAMPLE = "secret: {automaton: {file: FILE}}"
_STORM = "opaq.formats.prism.storm:read_prism"
_PLAIN = "opaq.formats.plain"
_HOA = "opaq.formats.hoa.hoa_writer"
_UMB = "opaq.formats.umb.umb_writer"


def _plain(name: str, *endings: str) -> Format:
    """Our own mappings, as YAML or as JSON."""
    writers = {kind: f"{_PLAIN}:{kind}_as_{name}" for kind in ("problem", "model", "automaton")}
    return Format(name, "a problem", "problem", endings, writers=writers)


def _built_by_storm(name: str, *endings: str, options: tuple[ReaderOption, ...], **others: Any) -> Format:
    example = _MODEL_EXAMPLE.format(key=name)
    title = f"a {name.upper()} model"
    return Format(name, title, "model", endings, _STORM, options=options, extra="storm", example=example, **others)


def _exported(name: str, ending: str, title: str, holds: Content) -> Format:
    """What policies are written as, and never read from."""
    writers = {"policy": f"opaq.reports.policy_export:{name}_of_policy"}
    return Format(name, title, holds, (ending,), writers=writers)


# The order is that of lists in messages.
for _format in (
    _plain("yaml", ".yaml", ".yml"),
    _plain("json", ".json"),
    _exported("csv", ".csv", "a table", "table"),
    _exported("txt", ".txt", "a policy as text", "policy"),
    _exported("scheduler", ".storm.json", "a scheduler of Storm", "policy"),
    _built_by_storm("prism", ".prism", ".nm", ".pm", ".sm", options=(_CONSTANTS, _REWARD)),
    _built_by_storm("jani", ".jani", options=(_CONSTANTS, _REWARD)),
    _built_by_storm("drn", ".drn", options=(_REWARD,), writers={"policy": "opaq.reports.policy_export:drn_of_policy"}),
    Format(
        "umb",
        "a UMB model",
        "model",
        (".umb",),
        "opaq.formats.umb.umb_reader:read_umb",
        {"problem": f"{_UMB}:umb_of_problem", "model": f"{_UMB}:umb_of_model"},
        options=(_REWARD,),
        example=_MODEL_EXAMPLE.format(key="umb"),
    ),
    Format(
        "pomdp",
        "a POMDP model",
        "model",
        (".pomdp",),
        "opaq.formats.pomdp.pomdp_reader:read_pomdp",
        example=_POMDP_EXAMPLE,
    ),
    Format(
        "gymnasium",
        "a Gymnasium environment",
        "model",
        reader="opaq.formats.gymnasium:read_environment",
        options=(_OPTIONS,),
        extra="gym",
        is_file=False,
    ),
    Format(
        "hoa",
        "an automaton",
        "automaton",
        (".hoa",),
        "opaq.formats.hoa.hoa_reader:read_hoa",
        {
            "automaton": f"{_HOA}:hoa_of_automaton",
            "problem": f"{_HOA}:hoa_of_secret",
        },
        example=_AUTOMATON_EXAMPLE,
    ),
    Format(
        "dot",
        "a drawing of an automaton",
        "automaton",
        (".dot", ".gv"),
        "opaq.formats.dot:read_dot",
        {
            "automaton": "opaq.formats.dot:dot_of_automaton",
            "problem": "opaq.formats.dot:dot_of_model",
            "model": "opaq.formats.dot:dot_of_model",
        },
        example=_AUTOMATON_EXAMPLE,
    ),
    Format("html", "a web page", "other", (".html",)),
    Format("npz", "a store of arrays", "other", (".npz",)),
    Format("npy", "an array", "other", (".npy",)),
):
    register_format(_format)
