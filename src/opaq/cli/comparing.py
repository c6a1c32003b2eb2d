"""The policies and the answer of `opaq compare`: an answer is never lost to a file that cannot be written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opaq.cli.shell import BAD_INPUT, code_of_comparison, print_answer, print_faults
from opaq.cli.terminal_tables import render_page
from opaq.errors import Fault, Faults, InputError
from opaq.files import check_writable
from opaq.load import save_policy
from opaq.model.problem import Problem
from opaq.reports.text.comparison import comparison_page
from opaq.solvers.compare import ClassResult, Comparison
from opaq.spec.policy_table import policy_to_dict


@dataclass(slots=True)
class PolicyFolder:
    """Where the policy of every class goes, if anywhere."""

    path: Path | None
    problem: Problem
    overwrite: bool
    written: list[Path] = field(default_factory=list)
    unwritten: dict[str, dict[str, Any]] = field(default_factory=dict)  # class -> its policy as the file's content

    @classmethod
    def prepare(cls, path: Path | None, names: Iterable[str], problem: Problem, *, overwrite: bool) -> PolicyFolder:
        """Make the folder and try every file; InputError lists all that cannot be written."""
        if path is not None:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError([Fault("", f"cannot be made a folder ({error.strerror})")], str(path)) from None
            faults = Faults()
            for name in names:
                file = path / file_name(name)
                try:
                    check_writable(file, overwrite=overwrite)
                except InputError as error:
                    faults.errors += [Fault(file.name, fault.found, fault.advice) for fault in error.faults]
            faults.raise_if_any(str(path))
        return cls(path, problem, overwrite)

    def write(self, rung: ClassResult) -> None:
        """Write the policy of one class; a failure is said and remembered."""
        if self.path is None:
            return
        file = self.path / file_name(rung.name)
        try:
            save_policy(rung.policy, file, problem=self.problem, overwrite=self.overwrite)
        except InputError as error:
            print_faults(error)
            self.unwritten[rung.name] = policy_to_dict(rung.policy, problem=self.problem)
        else:
            self.written.append(file)


def file_name(class_name: str) -> str:
    """The file for the policy of a class: "state, memory:2" goes to state-memory-2.json."""
    return re.sub(r"[^a-z0-9_]+", "-", class_name) + ".json"


def deliver(comparison: Comparison, folder: PolicyFolder, *, problem_file: str, as_json: bool) -> int:
    """Print the answer, with the policies that could not be written; the exit code."""
    if as_json:
        answer = replace(comparison, problem_file=problem_file).to_dict()
        for rung in answer["classes"]:
            if rung["class"] in folder.unwritten:
                rung["policy"] = folder.unwritten[rung["class"]]
        print_answer(json.dumps(answer, indent=2))
    else:
        print_answer(render_page(comparison_page(comparison)))
        for policy in folder.unwritten.values():
            print_answer(json.dumps(policy))
    return BAD_INPUT if folder.unwritten else code_of_comparison(comparison)
