"""A part of `python -m tests.stress commands`: extreme models through every command, warnings raised as errors."""

from __future__ import annotations

import pytest

from stress.commanding import COMMANDS, try_commands
from trials import part_of

FEW = 5


@pytest.mark.parametrize("first", part_of(range(0, 30, FEW), 1))
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_answer(command: str, first: int) -> None:
    failures = [line for number in range(first, first + FEW) for line in try_commands(number, (command,)).failures]
    assert failures == []


@pytest.mark.parametrize(
    "number",
    [
        40,  # returns of 5e-324 under a threshold of 1e-16: slacks in units of the returns
        41,  # losses that differ by 5e-324: softened by a temperature of 0
        49,  # returns of 1e-300: slacks that overflow
    ],
)
def test_returns_and_losses_next_to_nothing_are_solved(number: int) -> None:
    assert try_commands(number, ("solve", "sensors", "frontier")).failures == ()
