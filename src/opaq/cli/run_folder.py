"""Run folders: what was asked, so that a run can go on after anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.files import write_text
from opaq.model.problem import Problem

_ASKED = "run.json"
_FOUND = "result.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the question (run.json), checkpoints a start, and in the end the answer (result.json)."""

    path: Path | None  # None: nothing is kept
    source: str
    options: Mapping[str, Any]

    @classmethod
    def create(cls, path: Path | None, source: str, options: Mapping[str, Any]) -> RunFolder:
        """A new run; refuses a folder that holds one already."""
        if path is not None:
            if (path / _ASKED).exists():
                found = "holds a run already"
                raise InputError([Fault("", found, "use --resume to go on with it, or another folder")], str(path))
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError([Fault("", f"cannot be made: {error.strerror}")], str(path)) from None
            told = str(Path(source).absolute()) if Path(source).exists() else source
            asked = {"format": "opaq-run", "version": 1, "problem": told, "options": dict(options)}
            write_text(path / _ASKED, json.dumps(asked, indent=1) + "\n")
        return cls(path, source, options)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run that was begun."""
        from opaq.io.yaml import load_yaml

        asked = load_yaml(path / _ASKED).data
        if not isinstance(asked, Mapping) or asked.get("format") != "opaq-run" or asked.get("version") != 1:
            raise InputError([Fault("", "is not the record of a run")], str(path / _ASKED))
        return cls(path, str(asked["problem"]), asked["options"])

    def problem(self, faults: Faults) -> Problem:
        """The problem of the run."""
        from opaq.io.scenarios import load_problem

        return load_problem(self.source, faults=faults)

    def finish(self, found: Mapping[str, Any]) -> None:
        """Keep the answer."""
        if self.path is not None:
            write_text(self.path / _FOUND, json.dumps(found, indent=1) + "\n", overwrite=True)
