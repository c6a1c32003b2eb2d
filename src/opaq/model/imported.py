"""What a foreign model file holds, in opaq's own terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opaq.errors import Fault
from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.model.mdp import MDP
from opaq.model.observer import Observer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Imported(ByContent):
    """A model read from another tool's file; a problem file adds what the format lacks."""

    mdp: MDP
    observer: Observer | None = None  # the file's own observations, if it has any
    variables: Mapping[str, Any] = field(default_factory=dict)  # state variable -> its value in every state (array)
    rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # every named reward -> [choice]
    warnings: tuple[Fault, ...] = ()
    discount: float | None = None  # the file's own discount, if it has one
