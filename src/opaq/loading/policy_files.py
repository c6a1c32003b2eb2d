"""Policies in files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from opaq.choices import check_types, is_flag
from opaq.errors import Fault, Faults, InputError
from opaq.files import write_text
from opaq.loading.kinds import refuse_other_format, refuse_other_kind
from opaq.loading.located import located
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.spec.policy_table import policy_from_dict, policy_to_dict
from opaq.spec.yaml_reader import load_yaml


def load_policy(
    path: str | os.PathLike[str], problem: Problem, *, any_model: bool = False, faults: Faults | None = None
) -> Policy:
    """Read a policy for a problem from the file at `path`.

    InputError lists every fault, each with its line; warnings go to `faults`.

    A file that says it is for another model is refused unless `any_model`.
    """
    check_types(
        {
            "path": (path, str | os.PathLike, "the name of a file"),
            "problem": (problem, Problem, "an opaq.Problem"),
            "any_model": (any_model, is_flag, "True or False"),
            "faults": (faults, Faults, "an opaq.errors.Faults"),
        },
        optional=("faults",),
    )
    refuse_other_kind(path, expected="a policy")
    source, document = os.fspath(path), load_yaml(path)
    refuse_other_format(document.data, source, expected="a policy")
    if not isinstance(document.data, Mapping):
        raise InputError([Fault("", "expected the keys format, version and rows")], source)
    with located(document, source, faults) as noted:
        return policy_from_dict(document.data, problem, any_model=any_model, faults=noted)


def as_policy(policy: object, problem: Problem) -> Policy:
    """The policy itself, or that of a file, for a problem; InputError for anything else."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str | os.PathLike):
        return load_policy(policy, problem)
    found = f"is of the type {type(policy).__name__}"
    raise InputError([Fault("policy", found, "give a Policy, the name of a file, or nothing for the uniform policy")])


def save_policy(
    policy: Policy, path: str | os.PathLike[str], *, problem: Problem | None = None, overwrite: bool = False
) -> None:
    """Write a policy to the file at `path` in one step; an existing file stays unless `overwrite`.

    Given the problem, the file says which model it is for and tells a memory machine as rules.
    """
    check_types(
        {
            "policy": (policy, Policy, "an opaq.Policy"),
            "path": (path, str | os.PathLike, "the name of a file"),
            "problem": (problem, Problem, "an opaq.Problem"),
            "overwrite": (overwrite, is_flag, "True or False"),
        },
        optional=("problem",),
    )
    text = _escaped(json.dumps(policy_to_dict(policy, problem=problem), indent=1, ensure_ascii=False, allow_nan=False))
    write_text(path, f"{text}\n", overwrite=overwrite)


def _escaped(text: str) -> str:
    """Control, bidirectional and separator characters as JSON escapes: readers refuse them raw, and terminals obey."""
    return "".join(
        char if char.isprintable() or char == "\n" or ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in text
    )
