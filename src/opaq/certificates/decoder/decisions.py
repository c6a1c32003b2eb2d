"""The decisions of an agent that sees the product state: every (state, action) pair, laid out for compiled code.

Comes in: a process compiled for policies that look at the state. Goes out: flat arrays of choices (state, action), of
their branches P(x' | x, a) and of pairs (state, observation) E(o | x), and what every choice pays of every requirement.

A return that counts for ever is cut at the horizon. After it nothing but the return matters, so that the most that any
policy can still earn, by dynamic programming, is paid with the last choice (`tails`): an upper bound of what a policy
earns then, as a certificate needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opaq.beliefs.dynamic_program import StateActions, bound_endless_return
from opaq.beliefs.returns import largest_tolerance, start_distribution
from opaq.certificates.decoder.delay import MOST_WINDOWS, Windows, delay_observations, reveal_kinds
from opaq.model.arrays import FloatArray, IndexArray, IntArray, expand_rows, indices
from opaq.product.process import HiddenProcess
from opaq.stop import Stop


class DecisionTable(NamedTuple):
    """Choices of every state, their outcomes, and what states emit; a pair is (state, observation it emitted)."""

    choice_start: IntArray  # [state + 1]
    branch_start: IntArray  # [choice + 1]
    branch_target: IndexArray  # [branch]
    branch_chance: FloatArray  # [branch]
    pair_start: IntArray  # [state + 1]
    pair_chance: FloatArray  # [pair]: E(o | x)
    pair_state: IndexArray  # [pair]
    use_start: IntArray  # [pair]: where the uses of its actions are counted; see `Decisions.use_choice`


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The problem of an agent that sees the product state, and what its requirements pay."""

    process: HiddenProcess
    windows: Windows  # what its states stand for, where the agent sees the observations with a delay
    choices: StateActions
    moves: DecisionTable  # the same for compiled code
    start_state: IntArray
    start_chance: FloatArray
    rewards: FloatArray  # [requirement, choice]
    finals: FloatArray  # [requirement, state]
    tails: FloatArray  # [requirement, choice]: the most that can be earned after the last choice
    discounts: FloatArray  # [requirement]
    thresholds: FloatArray  # [requirement]
    names: tuple[str, ...]
    use_choice: IntArray  # [use] -> choice: uses are (pair, action) without a delay, (product state, action) with one
    state_use: IntArray  # [use] -> choice of a product state, whatever was observed

    @classmethod
    def of(
        cls,
        process: HiddenProcess,
        *,
        delay: int = 0,
        unseen: bool = False,
        most_windows: int = MOST_WINDOWS,
        forever: bool = False,
        stop: Stop | None = None,
    ) -> Decisions:
        """Lay out the decisions of a process whose policy rows are its states' own.

        Payoffs without a threshold require nothing, and are left out.

        delay: after how many steps the agent sees an observation. unseen: whether it never sees any.
        most_windows: of states that wait to emit.
        forever: whether the return counts for ever. After the horizon nothing but the return matters, so that the
        most that can still be earned is paid with the last choice. Thresholds are lowered by the rounding error that
        measurements allow. Raises BudgetError when there are too many windows, StoppedError when `stop` is requested.
        """
        windows = reveal_kinds(process) if unseen else delay_observations(process, delay, most=most_windows)
        process = windows.process
        choices = StateActions.of(process)
        use_start, use_choice, state_use = _uses(windows, choices)
        required = [payoff for payoff in process.payoffs if payoff.threshold is not None]
        start = start_distribution(process)
        start_state = np.flatnonzero(start)
        rewards = [choices.paid(payoff) for payoff in required]
        tails = np.zeros((len(required), choices.state.size))
        if forever and process.payoffs[0].threshold is not None:
            tails[0] = bound_endless_return(choices, process.payoffs[0], after=process.horizon, stop=stop or Stop())
        endless = [forever and payoff is process.payoffs[0] for payoff in required]
        thresholds = [
            float(payoff.threshold or 0.0) - largest_tolerance(process, payoff, forever=one)
            for payoff, one in zip(required, endless, strict=True)
        ]
        return cls(
            process=process,
            windows=windows,
            choices=choices,
            moves=_moves(process, choices, use_start),
            start_state=start_state,
            start_chance=start[start_state],
            rewards=np.array(rewards).reshape(len(required), choices.state.size),
            finals=np.array([payoff.final for payoff in required]).reshape(len(required), process.num_states),
            tails=tails,
            discounts=np.array([payoff.discount for payoff in required], dtype=np.float64),
            thresholds=np.array(thresholds, dtype=np.float64),
            names=tuple(payoff.name for payoff in required),
            use_choice=use_choice,
            state_use=state_use,
        )

    def paid(self, multipliers: FloatArray, time: int) -> FloatArray:
        """Return [choice]: sum_i multiplier_i discount_i^time reward_i, with the tails at the last time.

        multipliers: [requirement].
        """
        paid = np.asarray((multipliers * self.discounts**time) @ self.rewards)
        return paid + multipliers @ self.tails if time == self.process.horizon else paid

    def final(self, multipliers: FloatArray) -> FloatArray:
        """Return [state]: what the last state is worth, weighted by the multipliers [requirement]."""
        return np.asarray(multipliers @ self.finals)


def _uses(windows: Windows, choices: StateActions) -> tuple[IntArray, IntArray, IntArray]:
    """Return how uses of actions are counted: [pair] where those of its actions begin, [use] -> choice, [use] -> choice
    of a product state.

    Penalties need them by (state, observation, action). With a delay there are none, and many windows: uses are then
    counted by (product state, action), which is all that payoffs and other searches need.
    """
    counts = np.diff(np.append(choices.first, choices.state.size))
    if windows.delay == 0:
        pair_state = windows.process.emission.row_of_entry()
        _, choice = expand_rows(np.append(choices.first, choices.state.size), pair_state)
        return np.concatenate(([0], np.cumsum(counts[pair_state])[:-1])), choice, choice
    example = np.zeros(int(windows.newest.max()) + 1, dtype=np.int64)  # [product state] -> some window that ends there
    example[windows.newest] = np.arange(windows.newest.size)
    start = np.concatenate(([0], np.cumsum(counts[example])))
    _, choice = expand_rows(np.append(choices.first, choices.state.size), example)
    pair_state = windows.process.emission.row_of_entry()
    return start[windows.newest[pair_state]], choice, np.arange(choice.size)


def _moves(process: HiddenProcess, choices: StateActions, use_start: IntArray) -> DecisionTable:
    """Return the choices, their outcomes and the emissions as flat arrays. use_start: [pair]."""
    moves, emission = choices.moves, process.emission
    pair_state = emission.row_of_entry()
    return DecisionTable(
        choice_start=np.append(choices.first, choices.state.size),
        branch_start=moves.starts,
        branch_target=indices(moves.columns),
        branch_chance=moves.values,
        pair_start=emission.starts,
        pair_chance=emission.values,
        pair_state=indices(pair_state),
        use_start=use_start,
    )
