"""Answers read back: the JSON that a command printed, or that a run folder keeps."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError
from opaq.files import read_bytes

_LARGEST = 200 << 20  # bytes
_IN_FOLDER = "result.json"
_UNITS = {"opacity": "bits", "guess_error": "probability", "guesswork": "guesses"}


def read_answer(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """One JSON object from a file, or from the folder of a run that has ended. Raises InputError."""
    file = Path(path)
    if file.is_dir():
        if not (file / _IN_FOLDER).exists():
            raise InputError([Fault("", f"holds no {_IN_FOLDER}", "give a run that has ended")], str(file))
        file = file / _IN_FOLDER
    try:
        answer = json.loads(read_bytes(file, max_bytes=_LARGEST))
    except (ValueError, RecursionError):
        raise InputError([Fault("", "is not JSON", "give the JSON that a command answered")], str(path)) from None
    if not isinstance(answer, dict):
        raise InputError([Fault("", f"holds no JSON object but a {type(answer).__name__}")], str(path))
    return answer


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what goes wrong while keys are read into an InputError that says what was expected."""
    try:
        yield
    except KeyError as missing:
        raise InputError([Fault(str(missing.args[0]), "is missing", f"give {what}")]) from None
    except (TypeError, ValueError, AttributeError, IndexError):
        raise InputError([Fault("", f"does not read as {what}", f"give {what}")]) from None


def requirement(stated: Mapping[str, Any]) -> tuple[str, float]:
    """The name and the threshold of a requirement."""
    return str(stated["name"]), float(stated["threshold"])


def optional(value: Any) -> float | None:
    """A finite number, or None."""
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None


def drawn_amount(amount: Any, *, minimise: bool = False) -> tuple[float, float, float]:
    """Return where the mark of an amount stands and the two ends of its bar.

    An estimate has one standard error to each side; of an interval the end is marked that is proven to be reached: the
    lower one, or the upper one where the amount is to be small. A plain number is its own bar.

    amount: an `Amount`, the mapping that JSON keeps of one, or a number. Raises what `reading` turns into InputError.
    """
    if isinstance(amount, int | float):
        return float(amount), float(amount), float(amount)
    known: Any = amount.get if isinstance(amount, Mapping) else lambda key: getattr(amount, key, None)
    value, error = float(known("value")), optional(known("standard_error"))
    if error is not None:
        return value, value - error, value + error
    lower, upper = (value if end is None else end for end in map(optional, (known("lower"), known("upper"))))
    return (upper if minimise else lower) if known("method") == "interval" else value, lower, upper


def unit_of(name: str) -> str:
    """The unit of an uncertainty as part of an axis label."""
    return f" ({_UNITS[name]})" if name in _UNITS else ""
