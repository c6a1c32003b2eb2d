"""Policies in files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from opaq.errors import Fault, Faults, InputError
from opaq.io.files import write_text
from opaq.io.policy import policy_from_dict, policy_to_dict
from opaq.io.yaml import load_yaml, with_lines
from opaq.model.policy import Policy
from opaq.model.problem import Problem


def load_policy(path: str | os.PathLike[str], problem: Problem, *, faults: Faults | None = None) -> Policy:
    """Read a policy for a problem; InputError lists every fault, each with its line; warnings go to `faults`."""
    source, document, noted = os.fspath(path), load_yaml(path), Faults()
    if not isinstance(document.data, Mapping):
        raise InputError([Fault("", "expected the keys format, version and rows")], source)
    try:
        policy = policy_from_dict(document.data, problem, faults=noted)
        noted.raise_if_any()
    except InputError as error:
        raise InputError(with_lines(error.faults, document.lines), source) from None
    finally:
        if faults is not None:
            faults.warnings.extend(with_lines(noted.warnings, document.lines))
    return policy


def save_policy(policy: Policy, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a policy in one step; an existing file stays unless `overwrite`."""
    text = json.dumps(policy_to_dict(policy), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, f"{text}\n", overwrite=overwrite)
