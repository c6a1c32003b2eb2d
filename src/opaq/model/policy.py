"""What a policy conditions on, and the table of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opaq.dataframes import data_frame
from opaq.display import Displayed
from opaq.errors import Fault, InputError
from opaq.model.conditions import PLAIN, Condition, CurrentState, KeyPart, LastStates, MemoryNode, Observations
from opaq.model.content import ByContent
from opaq.model.memory import Memory

if TYPE_CHECKING:
    from pandas import DataFrame

RowKey = tuple[KeyPart, ...]  # one key per row: a part per condition, in the order of PolicyClass.conditions


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class PolicyClass(ByContent):
    """What the policy may look at, in the order in which its rows are keyed."""

    conditions: tuple[Condition, ...]

    def __init__(
        self,
        conditions_on: Iterable[str | Condition] | None = None,
        last_states: int = 0,
        memory: Memory | None = None,
        *,
        conditions: tuple[Condition, ...] = (CurrentState(),),
    ) -> None:
        """From conditions, or words for them; "last_states" and "memory" take what the other arguments say.

        conditions_on: words such as "state" and "time", or conditions such as LastStates(2); the state alone unless
            given.
        last_states: how many states the word "last_states" remembers, the current one included.
        memory: the machine that the word "memory" stands for.
        conditions: those of another class that this one is made from (by `dataclasses.replace`): its conditions hold
            where `conditions_on` is not given, and its words mean the same.
        """
        if isinstance(conditions_on, str):
            raise InputError([Fault("conditions_on", f"is '{conditions_on}'", "give a tuple of words: ('state',)")])
        sized: dict[str, Condition] = {}
        if last_states:
            sized[LastStates.key] = LastStates(last_states)
        if memory is not None:
            sized[MemoryNode.key] = MemoryNode(memory)
        known = PLAIN | {one.key: one for one in conditions} | sized
        stated = (sized.get(one.key, one) for one in conditions) if conditions_on is None else conditions_on
        object.__setattr__(self, "conditions", tuple(_condition(one, known) for one in stated))

    @property
    def conditions_on(self) -> tuple[str, ...]:
        """The keys of the conditions."""
        return tuple(condition.key for condition in self.conditions)

    @property
    def last_states(self) -> int:
        """How many states are remembered, the current one included; 0 without that condition."""
        return next((one.count for one in self.conditions if isinstance(one, LastStates)), 0)

    @property
    def memory(self) -> Memory | None:
        """The machine the policy carries, if it does."""
        return next((one.memory for one in self.conditions if isinstance(one, MemoryNode)), None)


def _condition(stated: str | Condition, known: Mapping[str, Condition]) -> Condition:
    """A condition, or the one a word stands for."""
    if isinstance(stated, Condition):
        return stated
    if stated in known:
        return known[stated]
    needs = {
        LastStates.key: "give last_states, how many",
        MemoryNode.key: "give memory, the machine",
        Observations.key: "give the condition itself, such as Observations(2)",
    }
    advice = needs.get(stated, f"the words are {', '.join([*PLAIN, *needs])}")
    raise InputError([Fault("conditions_on", f"unknown condition {stated!r}", advice)])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy(Displayed, ByContent):
    """A table: for every row key the probability of each action (actions left out have probability 0)."""

    policy_class: PolicyClass
    rows: Mapping[RowKey, Mapping[str, float]]

    def __repr__(self) -> str:
        return f"<Policy on {', '.join(self.policy_class.conditions_on)}: {len(self.rows)} rows>"

    def to_dataframe(self) -> DataFrame:
        """The table with one line per row and action: a column per condition, the action, its probability."""
        keys = self.policy_class.conditions_on
        lines = [
            {**dict(zip(keys, key, strict=True)), "action": action, "probability": probability}
            for key, row in self.rows.items()
            for action, probability in row.items()
        ]
        return data_frame(lines, (*keys, "action", "probability"))
