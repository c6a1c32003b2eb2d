"""Arguments that take one of a few words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any

from opaq.errors import Fault, InputError


def choose(name: str, value: object, choices: Sequence[str]) -> str:
    """The value, if it is one of the choices; otherwise InputError lists them and names the nearest.

    name: what the argument is called, for the message.
    """
    if isinstance(value, str) and value in choices:
        return str(value)
    near = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    meant = f"did you mean '{near[0]}'? " if near else ""
    given = f"'{value}'" if isinstance(value, str) else repr(value)
    raise InputError([Fault(name, f"{given} is not a choice", f"{meant}use one of {', '.join(choices)}")])


def check_numbers(limits: Mapping[str, tuple[Any, float, float]], *, whole: Collection[str] = ()) -> None:
    """Raise InputError with every argument that is not a number between its limits.

    limits: name -> (value, least, most); None stands for "not given". Those in `whole` must be whole numbers.
    """
    faults = []
    for name, (value, least, most) in limits.items():
        if value is None:
            continue
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not least <= value <= most or (name in whole and value != int(value)):
            kind = "a whole number" if name in whole else "a number"
            wanted = f"at least {least:g}" if most == math.inf else f"from {least:g} to {_limit(most)}"
            faults.append(Fault(name, f"is {value!r}", f"give {kind}, {wanted}"))
    if faults:
        raise InputError(faults)


def _limit(most: float) -> str:
    """A limit in words; powers of two too large to be written out as such."""
    power = round(math.log2(most)) if most >= 2**53 else 0
    return f"2^{power}" if power and most == 2**power else f"{most:g}"
