"""What a policy can choose in every product state, with choices that do and pay the same made one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.product.process import HiddenProcess, Payoff
from opaq.solvers.attainable import Choices


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Distinct choices of every product state: those before the last time, and those at it."""

    first: IntArray  # [state]: its first choice; the others follow in the order of the row's slots
    slot: IntArray  # [choice] -> slot of the policy vector
    alike: IntArray  # [choice] -> the first choice of the same state that leads to the same and pays the same
    paid: FloatArray  # [choice, requirement], not discounted
    ahead: Any  # sparse [choice, state]
    before: tuple[IntArray, ...]  # [state] -> its distinct choices while the run goes on
    last: tuple[IntArray, ...]  # [state] -> its distinct choices at the last time, when only what they pay counts
    emission_class: IntArray  # [state]: states that show the same with the same probabilities are of one class
    emission: FloatArray  # [class, observation]

    @classmethod
    def of(cls, process: HiddenProcess, requirements: tuple[Payoff, ...]) -> Moves:
        """Of a process compiled for policies that look at the state."""
        choices = Choices.of(process, process.payoffs[0])
        paid = _paid(choices, requirements)
        ahead = choices.ahead.tocsr()
        ahead.sort_indices()
        emission_class, emission = _emission_classes(process.emission)
        signatures = [paid[choice].tobytes() for choice in range(choices.slot.size)]
        moving = [_row_bytes(ahead, choice) + signatures[choice] for choice in range(choices.slot.size)]
        bounds = np.append(choices.first, choices.slot.size)
        return cls(
            first=choices.first,
            slot=choices.slot,
            alike=_first_alike(moving, bounds),
            paid=paid,
            ahead=ahead,
            before=_distinct(_first_alike(moving, bounds), bounds),
            last=_distinct(_first_alike(signatures, bounds), bounds),
            emission_class=emission_class,
            emission=emission,
        )


def _paid(choices: Choices, requirements: tuple[Payoff, ...]) -> FloatArray:
    """[choice, requirement]"""
    columns = [np.asarray(payoff.slots[choices.state, choices.slot]).reshape(-1) for payoff in requirements]
    return np.column_stack(columns) if columns else np.zeros((choices.slot.size, 0))


def _row_bytes(matrix: Any, row: int) -> bytes:
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return bytes(matrix.indices[entries].astype(np.int64).tobytes() + matrix.data[entries].tobytes() + b"|")


def _first_alike(signatures: list[bytes], bounds: IntArray) -> IntArray:
    """[choice] -> the first choice of the same state with the same signature."""
    alike = np.zeros(len(signatures), dtype=np.int64)
    for first, end in pairwise(bounds.tolist()):
        earliest: dict[bytes, int] = {}
        for choice in range(first, end):
            alike[choice] = earliest.setdefault(signatures[choice], choice)
    return alike


def _distinct(alike: IntArray, bounds: IntArray) -> tuple[IntArray, ...]:
    """Per state the first choice of every kind."""
    return tuple(np.unique(alike[first:end]) for first, end in pairwise(bounds))


def _emission_classes(emission: SparseRows) -> tuple[IntArray, FloatArray]:
    """The class of every state, and what each class shows."""
    keys = [b"|".join(part.tobytes() for part in emission.row(state)) for state in range(emission.num_rows)]
    number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    of_state = np.array([number[key] for key in keys], dtype=np.int64)
    table = np.zeros((len(number), emission.num_columns))
    for state in range(emission.num_rows):
        columns, values = emission.row(state)
        table[of_state[state], columns] = values
    return of_state, table
