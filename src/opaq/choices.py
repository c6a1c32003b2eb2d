"""Arguments that take one of a few words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

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
