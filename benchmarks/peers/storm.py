"""Peer for plain value computation: expected and maximal returns by Storm (stormpy), with sound methods.

The model is handed over as a UMB file, so both sides read the same numbers; building it is not timed with the values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import stormpy

PRECISION = 1e-8


def read(path: Path) -> Any:
    """Storm's model of a UMB file."""
    with _quietly():
        return stormpy.build_model_from_umb(str(path))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warning that Storm's C++ prints for every model that has no state valuations."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def values(model: Any, formula: str) -> Callable[[], np.ndarray]:
    """A call that gives the value of a property in every state, by methods whose error is bounded."""
    (wanted,) = stormpy.parse_properties(formula)
    environment = stormpy.Environment()
    solver = environment.solver()
    solver.force_soundness = True
    for method in (solver.min_max(), solver.native()):
        method.precision = stormpy.Rational(PRECISION)

    def call() -> np.ndarray:
        answer = stormpy.model_checking(model, wanted, only_initial_states=False, environment=environment)
        return np.array(answer.get_value_vector())

    return call


def within(steps: int, *, best: bool) -> str:
    """The total reward of the first steps, of the best policy or of the only one."""
    return f'R{{"reward"}}{"max" if best else ""}=? [C<={steps}]'


def discounted(discount: float, *, best: bool) -> str:
    """The discounted reward of an endless run."""
    return f'R{{"reward"}}{"max" if best else ""}=? [Cdiscount={discount!r}]'
