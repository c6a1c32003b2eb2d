"""What a problem file takes from other files: models of other tools, and automata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError
from opaq.formats.format_registry import FORMATS, ending_of, endings, format_of, formats_of
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.spec.cursor import Cursor
from opaq.spec.imported_part import IMPORTED, add_imported


@dataclass(frozen=True, slots=True)
class FolderSources:
    """Reads the files that a problem file names, relative to its folder, in every registered format."""

    folder: Path

    def __post_init__(self) -> None:
        for format in formats_of("model"):
            if format.name not in IMPORTED.kinds:
                options = tuple(option.name for option in format.options)
                add_imported(format.name, f"The file of {format.title}.", options)

    def model(self, cursor: Cursor, kind: str, options: Mapping[str, Any]) -> Imported | None:
        """The model named at a cursor; faults in it are noted there."""
        format, source = FORMATS[kind], str(cursor.value)
        path = str(self.folder / source) if format.is_file else source
        imported: Imported | None = _noting(cursor, lambda: format.read(path, **options))
        for fault in () if imported is None else imported.warnings:
            cursor.warn(_in_one_line(fault, source), fault.advice)
        return imported

    def automaton(self, cursor: Cursor) -> Automaton | None:
        """The automaton in the file named at a cursor; faults in it are noted there."""
        source = cursor.name()
        format = None if source is None else format_of(source)
        if source is None:
            return None
        if format is None or format not in formats_of("automaton"):
            known = f"one of {', '.join(endings(formats_of('automaton')))}"
            return cursor.error(f"the ending '{ending_of(source)}' is unknown", known)
        automaton: Automaton | None = _noting(cursor, lambda: format.read(str(self.folder / source)))
        return automaton


def _noting(cursor: Cursor, read: Callable[[], Any]) -> Any:
    """What is read; None, and the faults noted, when it is unusable."""
    try:
        return read()
    except InputError as error:
        for fault in error.faults:
            cursor.error(_in_one_line(fault, str(cursor.value)), fault.advice)
        return None


def _in_one_line(fault: Fault, source: str) -> str:
    """A fault inside another file, as one line of the problem file."""
    return f"{source}: {Fault(fault.where, fault.found, line=fault.line)}"
