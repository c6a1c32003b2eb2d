"""A compiled problem, and policies on their way there and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opaq.errors import Fault, Faults, InputError
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.policy import Policy, PolicyClass, RowKey, row_name
from opaq.model.problem import Problem
from opaq.product.process import HiddenProcess
from opaq.spec.policy_table import check_rows

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product:
    """A compiled problem: the hidden process and what its numbers mean to the user."""

    problem: Problem
    policy_class: PolicyClass
    process: HiddenProcess
    state_of: IntArray  # [product state] -> model state
    rows: tuple[RowKey, ...]  # policy rows in the user's names
    actions: tuple[str, ...]  # what rows choose from: the model's actions, or "action>node" with a free memory
    slot_action: IntArray  # [slot] -> action
    observations: tuple[str, ...]
    secret_values: tuple[str, ...]

    def __repr__(self) -> str:
        conditions = ", ".join(condition.label for condition in self.policy_class.conditions) or "nothing"
        sizes = f"{self.process.num_states:,} states, {len(self.rows):,} policy rows by {conditions}"
        seen = f"{len(self.observations):,} observations, {len(self.secret_values):,} secret values"
        return f"Product({self.problem.name!r}: {sizes}, {seen})"

    def policy_vector(self, policy: Policy | None) -> FloatArray:
        """The policy as a flat vector over slots; None means uniform. Raises InputError on rows that do not fit."""
        if policy is None:
            return self.process.uniform()
        return _vector(self, policy)

    def policy(self, pi: FloatArray) -> Policy:
        """The way back: a vector over slots as a policy in the user's names."""
        return Policy(self.policy_class, self.table(pi))

    def table(self, vector: FloatArray) -> dict[RowKey, dict[str, float]]:
        """Any vector over slots, by row and action."""
        bounds = zip(self.rows, self.process.row_start, self.process.row_start[1:], strict=False)
        return {
            key: {self.actions[self.slot_action[slot]]: float(vector[slot]) for slot in range(first, last)}
            for key, first, last in bounds
        }


def _vector(product: Product, policy: Policy) -> FloatArray:
    """A policy table as a vector over slots."""
    if policy.policy_class.conditions_on != product.policy_class.conditions_on:
        raise InputError([_other_class(product, policy)])
    pi, missing, faults = np.zeros(product.process.num_slots), [], Faults()
    for row, key in enumerate(product.rows):
        first, last = product.process.row_start[row : row + 2]
        row_actions = [product.actions[action] for action in product.slot_action[first:last]]
        probabilities = policy.rows.get(key)
        if probabilities is not None:
            pi[first:last] = [probabilities.get(action, 0.0) for action in row_actions]
            _check_row(faults, row_name(product.policy_class, key), probabilities, row_actions)
        elif _indifferent(product.process, int(first), int(last)):
            pi[first:last] = 1.0 / (last - first)
        else:
            missing.append(row_name(product.policy_class, key))
    if missing:
        faults.errors.append(_missing_rows(missing))
    occurring = set(product.rows)
    check_rows(policy, product.problem, [key for key in policy.rows if key not in occurring], faults)
    faults.raise_if_any()
    return pi


def _check_row(faults: Faults, name: str, probabilities: Mapping[str, float], actions: list[str]) -> None:
    """Note a row that takes an action which is not enabled."""
    strange = [action for action, chance in probabilities.items() if chance != 0 and action not in actions]
    if strange:
        faults.error(
            f"policy row {name}", f"'{strange[0]}' is not enabled there", f"enabled are {', '.join(actions[:8])}"
        )


def _missing_rows(names: list[str]) -> Fault:
    """One fault for all rows that a policy lacks."""
    if len(names) == 1:
        return Fault(f"policy row {names[0]}", "the policy has no row for this case, which can occur", "add the row")
    shown = "; ".join(names[:_MOST_SHOWN]) + ("; ..." if len(names) > _MOST_SHOWN else "")
    return Fault("policy", f"has no row for {len(names):,} cases that can occur: {shown}", "add the rows")


def _other_class(product: Product, policy: Policy) -> Fault:
    mine, theirs = product.policy_class.conditions_on, policy.policy_class.conditions_on
    return Fault("policy", f"conditions on {', '.join(theirs)}, but the problem was compiled for {', '.join(mine)}")


def _indifferent(process: HiddenProcess, first: int, last: int) -> bool:
    """Whether all actions of a row do and pay the same, so that its probabilities cannot matter."""
    if last - first == 1:
        return True
    for matrix in (process.edge_slots, *(payoff.slots for payoff in process.payoffs)):
        columns = matrix[:, first:last].toarray() if matrix.shape[0] * (last - first) < 10_000_000 else None
        if columns is None or np.ptp(columns, axis=1).max(initial=0.0) > 0:
            return False
    return True
