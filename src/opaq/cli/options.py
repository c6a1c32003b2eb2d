"""Options that were given, and whether they have an effect beside the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from opaq.errors import Fault


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to the library, where their defaults are."""
    return {name: value for name, value in options.items() if value is not None}


def without_effect(
    options: Mapping[str, Any], *, belongs_to: Mapping[str, str], chosen: str, used: Collection[str] = ()
) -> list[Fault]:
    """A fault for every option that was given but has no effect beside what was chosen.

    belongs_to: option -> what it is for; chosen: the choice that makes options idle; used: those that it does use.
    """
    return [
        Fault(_flag(name), f"has no effect with {chosen}", f"it belongs to {purpose}")
        for name, purpose in belongs_to.items()
        if options.get(name) is not None and name not in used
    ]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def in_bytes(gibibytes: float) -> int:
    """An amount of memory; more than any machine has is as good as no limit."""
    return round(min(gibibytes, 2.0**20) * 2**30)
