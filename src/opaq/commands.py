"""The commands by name. Imports nothing, since `opaq --help` reads it first.

A command of opaq is a file in `opaq.cli` with a function `command`, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., object] | str  # the function, or "module:function", which is imported when it is needed

COMMANDS: dict[str, Command] = {
    name: f"opaq.cli.{name}:command"
    for name in (
        "measure",
        "solve",
        "compare",
        "certify",
        "sweep",
        "simulate",
        "check",
        "convert",
        "examples",
        "reproduce",
        "schema",
    )
}
