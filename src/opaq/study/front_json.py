"""A front as `opaq frontier --json` printed it, read back from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.files import read_bytes

_LIMIT = 64 << 20
_MARK = b'"concave_by_theory"'  # a key that no other file of opaq has
_NUMBER, _TEXT, _NONE = (int, float), (str,), (type(None),)
_KEYS: dict[str, tuple[type, ...]] = {
    "problem": _TEXT,
    "against": _TEXT,
    "policy_class": _TEXT,
    "of": _TEXT,
    "largest": _NUMBER + _NONE,
    "interrupted": (bool,),
    "complete": (bool,),
    "concave_by_theory": (bool,),
    "points": (list,),
}
_POINT_KEYS: dict[str, tuple[type, ...]] = {
    "threshold": _NUMBER + _NONE,
    "value": _NUMBER,
    "return": _NUMBER,
    "guess_error": _NUMBER,
    "slope": _NUMBER + _NONE,
    "bound": _NUMBER + _NONE,
    "seconds": _NUMBER,
    "status": _TEXT,
    "feasible": (bool,),
    "carried": (bool,),
}
_AMOUNT_KEYS: dict[str, tuple[type, ...]] = {"value": _NUMBER, "lower": _NUMBER, "upper": _NUMBER, "method": _TEXT}


@dataclass(frozen=True, slots=True)
class Front:
    """The content of the file, and where other files are looked for."""

    data: Mapping[str, Any]
    folder: Path  # of the file
    policies: Path | None = None  # in place of what the file names

    @classmethod
    def in_file(cls, path: str | os.PathLike[str], *, policies: str | os.PathLike[str] | None = None) -> Front | None:
        """The front in a file; None where the file is not there or holds something else.

        Raises InputError for a front that lacks what a front has.
        """
        if not os.path.isfile(path) or os.path.getsize(path) > _LIMIT:
            return None
        content = read_bytes(path, max_bytes=_LIMIT)
        if _MARK not in content:
            return None
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, Mapping) or "concave_by_theory" not in data:
            return None
        _check(data, os.fspath(path))
        return cls(data, Path(path).parent, None if policies is None else Path(policies))

    def path_of(self, name: str) -> Path:
        """A file that the front names: beside the front, else from here."""
        beside = self.folder / name
        return beside if beside.exists() else Path(name)

    def policy_file(self, index: int) -> Path | None:
        """The file with the policy of a point, where there is one."""
        stated = self.data["points"][index].get("policy_file")
        if self.policies is not None:
            path = self.policies / policy_file_name(index + 1)
        elif isinstance(stated, str):
            path = self.path_of(stated)
        else:
            return None
        return path if path.is_file() else None


def policy_file_name(number: int) -> str:
    """The file for the policy of a point, by its position on the front."""
    return f"point-{number:02d}.json"


def _check(data: Mapping[str, Any], source: str) -> None:
    faults = Faults()
    _check_keys(data, _KEYS, "", faults)
    for index, point in enumerate(data["points"] if isinstance(data.get("points"), list) else ()):
        _check_keys(point, _POINT_KEYS, f"points[{index}]", faults)
        for name in ("opacity", "uncertainty"):
            amount = point.get(name) if isinstance(point, Mapping) else None
            _check_keys(amount, _AMOUNT_KEYS, f"points[{index}].{name}", faults)
    faults.errors = faults.errors[:20]
    if faults.errors:
        raise InputError(faults.errors, source)


def _check_keys(part: Any, keys: Mapping[str, tuple[type, ...]], path: str, faults: Faults) -> None:
    if not isinstance(part, Mapping):
        faults.errors.append(Fault(path, "is missing or no mapping", "give what opaq frontier prints as JSON"))
        return
    for key, kinds in keys.items():
        fits = key in part and isinstance(part[key], kinds) and (bool in kinds or not isinstance(part[key], bool))
        if not fits:
            where = f"{path}.{key}".removeprefix(".")
            faults.errors.append(Fault(where, "is missing or of another type", "give what a front was printed as"))
