"""Describe file formats: their endings, what they hold, and the functions that read and write them.

A `Format` is data: `formats.registry` lists them, `opaq.load` reads and converts files with them. Adding one is
`register_format(Format(...))`, for models of other tools `model_format(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from opaq.errors import Faults
from opaq.model.automaton import Automaton
from opaq.model.mdp import Imported
from opaq.model.problem import Problem
from opaq.spec.yaml import Document
from opaq.version import pip_install

Content = Literal["problem", "model", "automaton", "policy", "table", "other"]
AUTOMATON_EXAMPLE = "secret: {automaton: {file: FILE}}"


@dataclass(slots=True)
class Export:
    """What a writer gets beside the thing to write.

    problem: the problem that a policy is for; None for anything else.
    notes: the writer appends one sentence for each thing that the format cannot hold.
    """

    problem: Problem | None = None
    notes: list[str] = field(default_factory=list)


Reader = Callable[..., Imported] | Callable[..., Automaton]
PolicyReader = Callable[[str, Problem, Faults], Document]
Writer = Callable[[Any, Export], str | bytes]


@dataclass(frozen=True, slots=True)
class Format:
    """One file format.

    name: its name, also the key of a problem file that names such a model.
    title: as in "is a PRISM model, not a problem".
    holds: what a file of this format holds.
    endings: of its file names, in lower case, with the dot.
    reader: called as reader(path, **options), or with an id where `is_file` is false; returns an Imported for a model
        and an Automaton for an automaton. Problems have no reader here: `opaq.load` reads them.
    writers: for each kind of thing it can hold (problem, model, automaton or policy) the function that is called as
        writer(thing, export) and returns the content; it writes no file.
    options: the keys that a problem file may put beside the name of a model, keyword arguments of the reader.
    extra: the extra of opaq that must be installed to read it.
    example: a problem file that uses a file of this format, called FILE here.
    policy_reader: called as policy_reader(text, problem, faults); returns the mapping of a policy file and the lines
        of its rows. Its errors are raised, warnings go to the faults. `opaq.load` itself reads YAML and JSON.
    """

    name: str
    title: str
    holds: Content
    endings: tuple[str, ...] = ()
    reader: Reader | None = None
    writers: Mapping[str, Writer] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    extra: str = ""
    example: str = ""
    is_file: bool = True
    policy_reader: PolicyReader | None = None

    def read(self, source: str, **options: Any) -> Imported | Automaton:
        """Read a file (or the environment of this id). Raises InputError as the reader does, TypeError without one."""
        if self.reader is None:
            raise TypeError(f"{self.title} is not read")
        return self.reader(source, **options)

    @property
    def how_to_install(self) -> str:
        """The advice for when what the reader needs is not there."""
        return f"install it with: {pip_install(self.extra)}"


def import_later(name: str) -> Callable[..., Any]:
    """Return a function that imports another one when it is called, and calls it.

    name: "module:function". Readers and writers of formats that few files have are named so: their modules, and what
    these import, would take a tenth of the time of a short command.
    """
    module, _, function = name.partition(":")
    return lambda *arguments, **options: getattr(import_module(module), function)(*arguments, **options)


def model_format(name: str, *endings: str, reader: Reader, **others: Any) -> Format:
    """Return the format of a model of another tool, with an example of a problem file that names one.

    name: its key in problem files and its name, which the title writes in capitals.
    endings: of its files, in lower case, with the dot.
    reader: called as reader(path, **options); returns an Imported.
    others: further fields of Format; an `example` replaces the one made here.
    """
    example = f"""opaq: 1
{name}: FILE
observer: {{variables: [x]}}               # the observer sees the state variable x
secret: {{last_state: {{where: "x = 1"}}}}
horizon: 10"""
    fields = {"example": example} | others
    return Format(name, f"a {name.upper()} model", "model", endings, reader, **fields)
