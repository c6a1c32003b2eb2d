"""The commands by name. Imports nothing, since `opaq --help` reads it first.

A command of opaq is a file in `opaq.cli` with a function `command`, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., object] | str  # the function, or "module:function", which is imported when it is needed

_OTHER_FILES = {"sensors": "rank_sensors"}  # spec has a file of that name
COMMANDS: dict[str, Command] = {
    name: f"opaq.cli.{_OTHER_FILES.get(name, name)}:command"
    for name in (
        "measure",
        "solve",
        "compare",
        "frontier",
        "sensors",
        "certify",
        "simulate",
        "check",
        "convert",
        "examples",
        "reproduce",
        "schema",
    )
}
