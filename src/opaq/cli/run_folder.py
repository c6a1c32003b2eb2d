"""Run folders: what was asked, so that a run can go on after anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.cli.shared_options import drop_unset, flag
from opaq.cli.solving import RECORDED, defaults, solve_options
from opaq.errors import Fault, Faults, InputError
from opaq.files import write_text
from opaq.load import save_policy
from opaq.model.policy import Policy
from opaq.model.problem import Problem

_PROBLEM = "problem.yaml"
ANSWER_FILE = "result.json"
POLICY_FILE = "policy.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the question (run.json, problem.yaml), checkpoints a start, and in the end the answer."""

    path: Path | None  # None: nothing is kept
    source: str
    options: Mapping[str, Any]
    resumed: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def create(cls, path: Path | None, source: str, options: Mapping[str, Any]) -> RunFolder:
        """A new run; nothing is written before `begin`."""
        return cls(path, source, options)

    @classmethod
    def open(cls, path: Path, options: Mapping[str, Any]) -> RunFolder:
        """A run that was begun; the options given on the command line must be those of the run."""
        from opaq.solvers.runs import RunRecord
        from opaq.version import __version__

        record = RunRecord.read(path)
        if record.asked is None:
            found = "was begun by a program, not by this command"
            raise InputError(
                [Fault("", found, "go on with it as it was begun: opaq.solve(..., run_folder=...)")], str(path)
            )
        recorded = _check_options(record.asked["options"], path)
        _refuse_changes(recorded, drop_unset(options), path)
        before = record.opaq[-1]
        notes = (
            (f"{path}: the run was begun with opaq {before}, this is {__version__}",) if before != __version__ else ()
        )
        return cls(path, record.asked["problem"], recorded, resumed=True, notes=notes)

    def problem(self, faults: Faults) -> Problem:
        """The problem of the run."""
        from opaq.load import load_problem

        try:
            return load_problem(self.source, faults=faults)
        except InputError as error:
            if not self.resumed or self.path is None or not (self.path / _PROBLEM).exists():
                raise
            kept = Fault("", "the run needs the problem as it was", f"a copy is in {self.path / _PROBLEM}")
            raise InputError([*error.faults, kept], error.source) from None

    def begin(self) -> None:
        """Record what is asked, once the problem has been read; refuses a folder that holds a run already."""
        if self.path is None or self.resumed:
            return
        from opaq.load import problem_text
        from opaq.solvers.runs import RECORD_FILE, begin_run

        if (self.path / RECORD_FILE).exists():
            found = "holds a run already"
            raise InputError([Fault("", found, "use --resume to go on with it, or another folder")], str(self.path))
        source = str(Path(self.source).absolute()) if Path(self.source).exists() else self.source
        begin_run(self.path, {"problem": source, "options": dict(self.options)})
        write_text(self.path / _PROBLEM, problem_text(self.source), overwrite=True)

    def finish(self, found: Mapping[str, Any], policy: Policy, problem: Problem) -> None:
        """Keep the answer, and the policy that it is about."""
        if self.path is not None:
            save_policy(policy, self.path / POLICY_FILE, problem=problem, overwrite=True)
            write_text(self.path / ANSWER_FILE, json.dumps(found, indent=1) + "\n", overwrite=True)


def _check_options(options: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The options of a record, all there and each of its type."""
    wrong = sorted(set(options) ^ set(RECORDED))
    if not isinstance(options.get("initial_policy"), str | None):
        wrong.append("initial_policy")
    try:
        solve_options(options)
    except InputError as error:
        wrong += [fault.where for fault in error.faults]
    if wrong:
        found = f"its record does not hold the options of this version ({', '.join(wrong)})"
        raise InputError([Fault("", found, "begin the run again in another folder")], str(path))
    return options


def _refuse_changes(recorded: Mapping[str, Any], asked: Mapping[str, Any], path: Path) -> None:
    options = defaults() | drop_unset(recorded)
    faults = [
        Fault(
            flag(name),
            f"{_word(options.get(name))} in the run, {_word(value)} now",
            "leave it out to go on with the run, or begin a new one with --run-folder",
        )
        for name, value in asked.items()
        if options.get(name) != value
    ]
    if faults:
        raise InputError(faults, str(path))


def _word(value: Any) -> str:
    return "not given" if value is None else str(value)
