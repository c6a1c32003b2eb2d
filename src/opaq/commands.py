"""The commands of `opaq` by name.

A command is a file in `opaq.cli` with a function `command`, and a line here. Functions are named by text, since `opaq
--help` reads this table first and must not import what the commands need.
"""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[..., object] | str  # the function, or "module:function", which is imported when it is needed

COMMANDS: dict[str, Command] = {
    "measure": "opaq.cli.measure:command",
    "solve": "opaq.cli.solve:command",
    "compare": "opaq.cli.compare:command",
    "certify": "opaq.cli.certify:command",
    "report": "opaq.cli.report:command",
    "plot": "opaq.cli.plot:command",
    "sweep": "opaq.cli.sweep:command",
    "frontier": "opaq.cli.frontier:command",
    "sensors": "opaq.cli.sensors:command",
    "simulate": "opaq.cli.simulate:command",
    "check": "opaq.cli.check:command",
    "convert": "opaq.cli.convert:command",
    "examples": "opaq.cli.examples:command",
    "reproduce": "opaq.cli.reproduce:command",
    "schema": "opaq.cli.schema:command",
}
