"""Compile a problem: trackers -> reachable product states -> policy rows -> hidden process, and the way back.

The product state is x = (s, node of the secret, node of the observer, nodes of the policy's conditions and of the
requirements). Policies of a class cannot tell all x apart: a *row* is what they do tell apart, and a *slot* one enabled
action of one row. A policy is then one vector pi over slots, and with it

    P_pi(x' | x) = sum over a of pi[slot(x, a)] P(x' | x, a),     V_pi = sum over t of gamma^t E[R(x_t, a_t)]

are linear in pi at every step. `Product.policy_vector` and `Product.policy` translate between tables in the user's
names and vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np

from opaq.errors import Fault, Faults, InputError, InvariantError, check_types, list_names
from opaq.model.arrays import FloatArray, IntArray, SparseRows, distinct, expand_rows, floats, indices, ints
from opaq.model.conditions import BeliefGraph, KeyPart, Memory
from opaq.model.mdp import MDP
from opaq.model.policy import Policy, PolicyClass, RowKey, check_policy_class, row_name
from opaq.model.problem import Problem, Task
from opaq.model.secret import Trajectory, may_have_automaton
from opaq.product.explore import ProductStates, explore
from opaq.product.machine import OBSERVER, SECRET, WATCHER, Machine
from opaq.product.process import FOR_EVER, Edges, HiddenProcess, Pairs, Payoff
from opaq.product.trackers import (
    ConditionTracker,
    RequirementTracker,
    TrackerContext,
    choice_model,
    condition_machine,
    free_memory_of,
    lift_to_choices,
    rank,
    track_condition,
    track_requirement,
)
from opaq.spec.policy_table import check_rows
from opaq.stop import Stop

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product:
    """A compiled problem: the hidden process, and what its numbers mean to the user."""

    problem: Problem
    policy_class: PolicyClass
    process: HiddenProcess
    state_of: IntArray  # [product state] -> model state
    rows: tuple[RowKey, ...]  # policy rows in the user's names
    actions: tuple[str, ...]  # what rows choose from: the model's actions, or "action>node" with a free memory
    slot_action: IntArray  # [slot] -> action
    observations: tuple[str, ...]
    secret_values: tuple[str, ...]
    beliefs: IntArray | None = None  # [product state] -> node of the graph that the observer assumes; None: it does not
    extras: dict[Any, Any] = field(default_factory=dict)  # views and what else is made of it once

    def __repr__(self) -> str:
        conditions = ", ".join(condition.label for condition in self.policy_class.conditions) or "nothing"
        sizes = f"{self.process.num_states:,} states, {len(self.rows):,} policy rows by {conditions}"
        seen = f"{len(self.observations):,} observations, {len(self.secret_values):,} secret values"
        return f"Product({self.problem.name!r}: {sizes}, {seen})"

    def view(self, of: str, for_: str, *, assumed: BeliefGraph | None = None) -> Product:
        """Return the product for another secret or another observer, with the same policy rows and slots.

        of, for_: their names. assumed: a graph that reads the observer's observations, followed in the product.
        A view of other than the own pair has no requirements. Views are made once.
        """
        if assumed is None and (of, for_) == (self.problem.of, self.problem.for_):
            return self
        key = ("view", of, for_, assumed)
        if key not in self.extras:
            lean = replace(self.problem, task=Task(over=self.problem.task.over)).about(of=of, for_=for_)
            view = compile_problem(lean, self.policy_class, assumed=assumed)
            if view.rows != self.rows or not np.array_equal(view.slot_action, self.slot_action):
                raise InvariantError("a view of the product has other policy rows")
            self.extras[key] = view
        made: Product = self.extras[key]
        return made

    def policy_vector(self, policy: Policy | None) -> FloatArray:
        """Return a policy as a vector [slot] over slots; None gives the uniform policy.

        A row that the policy lacks is uniform if its actions do and pay the same.
        Raises InputError with every row that is missing, does not fit the problem, or takes an action that is not
        enabled.
        """
        if policy is None:
            return self.process.uniform()
        return _policy_to_vector(self, policy)

    def policy(self, pi: FloatArray) -> Policy:
        """Return a vector over slots as a policy in the user's names: the way back."""
        return Policy(self.policy_class, self.table(pi))

    def table(self, vector: FloatArray) -> dict[RowKey, dict[str, float]]:
        """Return any vector [slot] (a policy, a gradient, advantages) as {row key: {action: number}}."""
        bounds = zip(self.rows, self.process.row_start, self.process.row_start[1:], strict=False)
        return {
            key: {self.actions[self.slot_action[slot]]: float(vector[slot]) for slot in range(first, last)}
            for key, first, last in bounds
        }


def compile_problem(
    problem: Problem,
    policy_class: PolicyClass | None = None,
    *,
    assumed: BeliefGraph | None = None,
    stop: Stop | None = None,
) -> Product:
    """Compile a problem for the policies of one class.

    problem: plant, observer, secret, horizon and task.
    policy_class: what the policies look at; the problem's own class unless given.
    assumed: a graph that reads the observations of the observer, and is followed in the product; None: there is none.
    stop: checked once per level of the exploration; optional.
    Raises InputError when the class does not fit the problem, BudgetError when the product is too large, StoppedError
    when `stop` is requested meanwhile.
    """
    check_types(
        {
            "problem": (problem, Problem, "an opaq.Problem"),
            "policy_class": (policy_class, PolicyClass, "an opaq.PolicyClass"),
            "assumed": (assumed, BeliefGraph, "a BeliefGraph"),
            "stop": (stop, Stop, "an opaq.Stop"),
        },
        optional=("policy_class", "assumed", "stop"),
    )
    if policy_class is None:
        policy_class = problem.policy_class
    else:
        sizes = {"num_states": problem.mdp.num_states, "num_actions": len(problem.mdp.actions)}
        faults = Faults()
        check_policy_class(
            policy_class, faults, "policy", **sizes, has_automaton=may_have_automaton(problem.policy_secret)
        )
        faults.raise_if_any()
    plan = _Plan.of(problem, policy_class, assumed)
    mdp, context = choice_model(problem.mdp, plan.memory), plan.context
    depth = None if problem.task.over == "forever" else problem.horizon
    states = explore(mdp, plan.machines(), depth=depth, stop=stop or Stop())
    followed = zip(plan.conditions, plan.condition_parts(), strict=True)
    looked_at = [condition.nodes(states.nodes[part]) for condition, part in followed]
    rows = _policy_rows(mdp, states.state, looked_at, words=[one.word for one in plan.conditions])
    tracker = plan.context.secret
    occurring, secret = np.unique(tracker.value(states.nodes[SECRET], states.state), return_inverse=True)
    process = _assemble(
        states,
        rows,
        emission=context.emission(states.nodes, states.state),
        secret=secret.reshape(-1),
        payoffs=_payoffs(plan, mdp, states, rows),
        horizon=problem.horizon,
    )
    return Product(
        problem=problem,
        policy_class=policy_class,
        process=process,
        state_of=states.state,
        rows=rows.keys,
        actions=mdp.actions,
        slot_action=rows.slot_action,
        observations=context.observations,
        secret_values=tuple(tracker.values[value] for value in occurring),
        beliefs=context.beliefs(states.nodes),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """The trackers of a problem and a policy class, and the parts of the product that they need."""

    context: TrackerContext
    policy_class: PolicyClass
    conditions: tuple[ConditionTracker, ...]
    requirements: tuple[RequirementTracker, ...]
    memory: Memory | None  # whose next node the policy chooses

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass, assumed: BeliefGraph | None) -> _Plan:
        """Track every condition of the class and every requirement of the task."""
        context = TrackerContext.of(problem, policy_class, assumed)
        conditions = tuple(track_condition(one, context) for one in policy_class.conditions)
        requirements = tuple(track_requirement(one, problem) for one in problem.task.requirements)
        return cls(context, policy_class, conditions, requirements, free_memory_of(conditions))

    def machines(self) -> dict[str, Machine]:
        """Return part -> machine: what secret, observer, policy and task need, and no more.

        The order fixes how product states are numbered.
        """
        context = self.context
        always = {SECRET: context.secret.machine, OBSERVER: context.observer.machine}
        always |= {} if context.watcher is None else {WATCHER: context.watcher.machine}
        required = zip(self.requirement_parts(), self.requirements, strict=True)
        watching = {part: one.machine for part, one in required if one.machine is not None}
        return {
            **{part: lift_to_choices(machine, self.memory) for part, machine in always.items()},
            **self._condition_machines(),
            **{part: lift_to_choices(machine, self.memory) for part, machine in watching.items()},
        }

    def _condition_machines(self) -> dict[str, Machine]:
        """Return the machines of conditions that no other part follows, ordered by kind."""
        followed = zip(self.policy_class.conditions, self.condition_parts(), self.conditions, strict=True)
        own = [(rank(condition), part, one) for condition, part, one in followed if one.part is None]
        return {part: condition_machine(one, self.memory) for _, part, one in sorted(own, key=itemgetter(0))}

    def condition_parts(self) -> list[str]:
        """Return per condition the part of the product that follows it."""
        return [one.part or f"condition {index}" for index, one in enumerate(self.conditions)]

    def requirement_parts(self) -> list[str]:
        """Return per requirement the name of its part of the product.

        Requirements without a machine have no such part.
        """
        return [f"requirement {index}" for index, _ in enumerate(self.requirements)]


@dataclass(frozen=True, slots=True)
class _PolicyRows:
    """The rows of a policy over product states; a slot is one action of one row."""

    keys: tuple[RowKey, ...]
    of_state: IntArray  # [product state] -> row
    row_start: IntArray  # [row + 1]: the slots of each row
    slot_action: IntArray  # [slot]
    choice_rank: IntArray  # [choice] -> position of the choice among those of its state

    @property
    def num_slots(self) -> int:
        """Length of a policy vector."""
        return int(self.row_start[-1])

    def slot(self, states: IntArray, choices: IntArray) -> IntArray:
        """Return [case] -> slot of choices made in product states."""
        return self.row_start[self.of_state[states]] + self.choice_rank[choices]


def _policy_rows(
    mdp: MDP, state: IntArray, nodes: Sequence[IntArray], *, words: Sequence[Callable[[int], KeyPart]]
) -> _PolicyRows:
    """Group product states into the rows of a policy that looks at some columns of the product.

    state: [product state] -> model state.
    nodes: per condition [product state] -> node, in the order of the row keys; states with equal nodes share a row.
    words: per condition a function from a node to its name in row keys.
    Raises InputError when states that enable different actions would share a row.
    """
    stacked = np.stack(nodes, axis=1) if nodes else np.zeros((state.size, 1), dtype=np.int64)
    cases, example, of_state = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    of_state = of_state.reshape(-1)
    representative = state[example]
    _check_same_actions(mdp, state, representative[of_state])
    _, choice = expand_rows(mdp.choice_start, representative)
    counts = np.diff(mdp.choice_start)
    rank = np.arange(mdp.num_choices) - np.repeat(mdp.choice_start[:-1], counts)
    keys: tuple[RowKey, ...] = ((),)
    if nodes:
        keys = tuple(tuple(word(node) for word, node in zip(words, row, strict=True)) for row in cases.tolist())
    row_start = np.concatenate(([0], np.cumsum(counts[representative])))
    return _PolicyRows(keys, of_state, row_start, mdp.choice_action[choice], rank)


def _check_same_actions(mdp: MDP, states: IntArray, representatives: IntArray) -> None:
    """Raise InputError with every pair of states that share a policy row and enable different actions.

    states, representatives: [product state] -> model state, and that of the first product state of the same row.
    """
    differ = states != representatives
    pairs = distinct(states[differ] * mdp.num_states + representatives[differ])
    faults = Faults()
    for state, other in zip(*(part.tolist() for part in divmod(pairs, mdp.num_states)), strict=True):
        if not np.array_equal(_enabled_actions(mdp, state), _enabled_actions(mdp, other)):
            names = f"'{mdp.states[state]}' and '{mdp.states[other]}'"
            faults.error(
                "policy.conditions_on",
                f"states {names} share a policy row but enable different actions",
                "add 'state' to conditions_on",
            )
    faults.raise_if_any()


def _enabled_actions(mdp: MDP, state: int) -> IntArray:
    """Return the actions enabled in a state, ascending."""
    return mdp.choice_action[mdp.choice_start[state] : mdp.choice_start[state + 1]]


def _assemble(
    states: ProductStates,
    rows: _PolicyRows,
    *,
    emission: SparseRows,
    secret: IntArray,
    payoffs: tuple[Payoff, ...],
    horizon: int,
) -> HiddenProcess:
    """Assemble the hidden process: branches between the same two product states are merged into one edge.

    An edge's probability is a sparse row over slots: the sum of P(x' | x, a) over the branches, at the slot of each
    choice.
    emission: [product state, observation]. secret: [product state] -> secret value.
    """
    num_states, branches = secret.size, states.transitions
    slot = rows.slot(branches.source, branches.choice)
    pairs, edge = np.unique(branches.source * num_states + branches.target, return_inverse=True)
    start_state, start_probability = _sum_by_state(*states.start)
    shape = (pairs.size + start_state.size, rows.num_slots)
    counts = np.concatenate((np.bincount(pairs // num_states, minlength=num_states), [start_state.size]))
    target = np.concatenate((pairs % num_states, start_state))
    edge_start = np.concatenate(([0], np.cumsum(counts)))
    lasting = _find_lasting_secrets(secret, edge_start, target)
    return HiddenProcess(
        edge_start=ints(edge_start),
        edge_target=ints(target),
        edges=Edges(indices(edge_start), indices(target)),
        edge_base=floats(np.concatenate((np.zeros(pairs.size), start_probability))),
        edge_slots=SparseRows.from_entries(edge.reshape(-1), slot, branches.probability, shape=shape),
        payoffs=payoffs,
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=ints(secret),
        settled=ints(np.where(lasting == FOR_EVER, secret, -1)),
        lasting=ints(lasting),
        row=ints(rows.of_state),
        row_start=ints(rows.row_start),
        num_observations=emission.num_columns,
        num_secrets=int(secret.max(initial=0)) + 1,
        horizon=horizon,
    )


def _sum_by_state(states: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the distinct states, ascending, and the sum of the values of each."""
    different, inverse = np.unique(states, return_inverse=True)
    return different, np.bincount(inverse.reshape(-1), weights=values, minlength=different.size).astype(np.float64)


def _find_lasting_secrets(secret: IntArray, edge_start: IntArray, edge_target: IntArray) -> IntArray:
    """Return [state]: for how many steps its secret value lasts whatever is done, FOR_EVER where it never changes.

    That is one less than the steps to the end of the nearest edge between two different secret values: one search
    backwards along edges from all such edges at once.
    """
    num_states = secret.size
    owner, entry = expand_rows(edge_start, np.arange(num_states))
    target, lasting = edge_target[entry], np.full(num_states, FOR_EVER)
    wave, steps = distinct(owner[secret[owner] != secret[target]]), 0
    if not wave.size:
        return lasting
    backwards = SparseRows.from_entries(target, owner, np.ones(owner.size), shape=(num_states, num_states))
    while wave.size:
        lasting[wave] = steps
        before = backwards.columns[expand_rows(backwards.starts, wave)[1]]
        wave, steps = distinct(before[lasting[before] == FOR_EVER]), steps + 1
    return lasting


def _payoffs(plan: _Plan, mdp: MDP, states: ProductStates, rows: _PolicyRows) -> tuple[Payoff, ...]:
    """Return the payoffs of the task: the return of the model's rewards first, then every further requirement.

    mdp: the model of choices. Rewards of requirements are for the choices of the problem's own model and are repeated
        for every memory node that a choice may take.
    """
    problem, state = plan.context.problem, states.state
    slots = _reward_per_slot(mdp, mdp.rewards, state, rows)
    payoffs = [Payoff("return", slots, np.zeros(state.size), problem.discount, problem.task.return_at_least)]
    copies = mdp.num_choices // problem.mdp.num_choices
    required = zip(problem.task.requirements, plan.requirements, plan.requirement_parts(), strict=True)
    for requirement, tracker, part in required:
        rewards = np.zeros(problem.mdp.num_choices) if tracker.rewards is None else tracker.rewards
        slots = _reward_per_slot(mdp, np.repeat(rewards, copies), state, rows)
        nodes = states.nodes.get(part)
        final = np.zeros(state.size) if tracker.worth is None or nodes is None else tracker.worth(nodes)
        payoffs.append(Payoff(tracker.name, slots, final, tracker.discount, requirement.threshold))
    return tuple(payoffs)


def _reward_per_slot(mdp: MDP, rewards: FloatArray, state: IntArray, rows: _PolicyRows) -> SparseRows:
    """Return R(x, slot) as a sparse matrix [product state, slot], from rewards [choice]."""
    owner, choice = expand_rows(mdp.choice_start, state)
    shape = (state.size, rows.num_slots)
    return SparseRows.from_entries(owner, rows.slot(owner, choice), rewards[choice], shape=shape)


def _policy_to_vector(product: Product, policy: Policy) -> FloatArray:
    """Return a policy table as a vector over slots, with all faults at once."""
    if policy.policy_class.conditions_on != product.policy_class.conditions_on:
        mine, theirs = product.policy_class.conditions_on, policy.policy_class.conditions_on
        finding = f"conditions on {', '.join(theirs)}, but the problem was compiled for {', '.join(mine)}"
        raise InputError([Fault("policy", finding)])
    pi, missing, faults = np.zeros(product.process.num_slots), [], Faults()
    for row, key in enumerate(product.rows):
        first, last = product.process.row_start[row : row + 2]
        row_actions = [product.actions[action] for action in product.slot_action[first:last]]
        probabilities = policy.rows.get(key)
        if probabilities is not None:
            pi[first:last] = [probabilities.get(action, 0.0) for action in row_actions]
            _check_row(faults, row_name(product.policy_class, key), probabilities, row_actions)
        elif _actions_are_equal(product.process, int(first), int(last)):
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
        faults.error(f"policy row {name}", f"'{strange[0]}' is not enabled there", f"enabled are {list_names(actions)}")


def _missing_rows(names: list[str]) -> Fault:
    """Return one fault for all rows that a policy lacks, the first few by name."""
    if len(names) == 1:
        return Fault(f"policy row {names[0]}", "the policy has no row for this case, which can occur", "add the row")
    listed = "; ".join(names[:_MOST_SHOWN]) + (
        f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    )
    return Fault("policy", f"has no row for {len(names):,} cases that can occur: {listed}", "add the rows")


def _actions_are_equal(process: HiddenProcess, first: int, last: int) -> bool:
    """Return whether all actions of a row do and pay the same, so that its probabilities cannot matter.

    first, last: the row's slots are first .. last - 1. Very large products are taken to differ.
    """
    if last - first == 1:
        return True
    for matrix in (process.edge_slots, *(payoff.slots for payoff in process.payoffs)):
        small = matrix.num_rows * (last - first) < 10_000_000
        columns = matrix.scipy()[:, first:last].toarray() if small else None
        if columns is None or np.ptp(columns, axis=1).max(initial=0.0) > 0:
            return False
    return True


_MOST_WORK = 50_000_000  # states looked at, over all steps
_STEP = 1_000  # what a step costs beside its states


def possible_secrets(product: Product) -> tuple[str, ...]:
    """Return the secret values that runs can end with under some policy.

    Follows the sets of states reachable after 0, 1, .. horizon steps, until they no longer change. Where that takes too
    long, all values that occur in the product are returned.
    """
    process = product.process
    if isinstance(product.problem.secret, Trajectory):  # of any moment
        return product.secret_values
    reached = _next_states(product, np.array([process.num_states]))  # the start comes after all states
    work = 0
    for _ in range(process.horizon):
        after = _next_states(product, reached)
        work += after.size + _STEP
        if np.array_equal(after, reached):
            break
        if work > _MOST_WORK:
            return product.secret_values
        reached = after
    return tuple(product.secret_values[value] for value in distinct(process.secret[reached]))


def _next_states(product: Product, states: IntArray) -> IntArray:
    """Return the states that can follow some states, ascending."""
    _, edges = expand_rows(product.process.edge_start, states)
    return distinct(product.process.edge_target[edges])
