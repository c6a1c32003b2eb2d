"""What a problem file takes from other files: models of other tools, and automata."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError
from opaq.formats.dot import automaton_from_dot
from opaq.formats.gymnasium import read_gymnasium
from opaq.formats.hoa import automaton_from_hoa
from opaq.formats.pomdp.pomdp_reader import read_pomdp
from opaq.formats.prism.storm import read_prism
from opaq.formats.umb.umb_reader import read_umb
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.spec.cursor import Cursor
from opaq.spec.yaml_reader import read_text

_AUTOMATA: dict[str, Callable[..., Automaton]] = {
    ".hoa": automaton_from_hoa,
    ".dot": automaton_from_dot,
    ".gv": automaton_from_dot,
}


@dataclass(frozen=True, slots=True)
class FolderSources:
    """Reads the files that a problem file names, relative to its folder."""

    folder: Path

    def model(self, cursor: Cursor, kind: str, options: Mapping[str, Any]) -> Imported | None:
        """The model named at a cursor; faults in it are noted there."""
        source = str(cursor.value)
        try:
            imported = read_model(kind, source if kind == "gymnasium" else str(self.folder / source), options)
        except InputError as error:
            for fault in error.faults:
                cursor.error(_in_one_line(fault, source), fault.advice)
            return None
        for fault in imported.warnings:
            cursor.warn(_in_one_line(fault, source), fault.advice)
        return imported

    def automaton(self, cursor: Cursor) -> Automaton | None:
        """The automaton in the file named at a cursor; faults in it are noted there."""
        source = cursor.name()
        if source is None:
            return None
        ending = os.path.splitext(source)[1].lower()
        if ending not in _AUTOMATA:
            return cursor.error(f"the ending '{ending}' is unknown", f"one of {', '.join(_AUTOMATA)}")
        try:
            return _AUTOMATA[ending](read_text(str(self.folder / source)))
        except InputError as error:
            for fault in error.faults:
                cursor.error(_in_one_line(fault, source), fault.advice)
            return None


def read_model(kind: str, source: str, options: Mapping[str, Any] | None = None) -> Imported:
    """A model by the kind of its source and a path, or the id of an environment."""
    options = dict(options or {})
    if kind == "gymnasium":
        return read_gymnasium(source, **options.get("options", options))
    if kind == "pomdp":
        return read_pomdp(source)
    if kind == "umb":
        return read_umb(source, **options)
    return read_prism(source, constants=options.pop("constants", {}), **options)


def _in_one_line(fault: Fault, source: str) -> str:
    """A fault inside another file, as one line of the problem file."""
    return f"{source}: {Fault(fault.where, fault.found, line=fault.line)}"
