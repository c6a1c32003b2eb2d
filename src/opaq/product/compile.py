"""Model x machines -> one hidden process over the reachable product states, and the way back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import BudgetError, Fault, Faults, InputError
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, indices, ints, spread
from opaq.model.content import Brief
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem, Reach, ReturnAtLeast, Satisfy
from opaq.model.secret import Language
from opaq.product.free import unfold
from opaq.product.machine import MAX_EDGES, Carried, Clock, Idle, LastAction, Machine, Recent, Seen, Snapshot
from opaq.product.process import Edges, HiddenProcess, Pairs, Payoff
from opaq.product.tracker import Tracker, read, track
from opaq.stop import Stop

MAX_STATES = 5_000_000
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Product(Brief):
    """A compiled problem: the hidden process and what its numbers mean to the user."""

    problem: Problem
    policy_class: PolicyClass
    process: HiddenProcess
    state_of: IntArray  # [product state] -> model state
    rows: tuple[RowKey, ...]  # policy rows in the user's names
    slot_action: IntArray  # [slot] -> action
    observations: tuple[str, ...]
    secret_values: tuple[str, ...]

    def policy_vector(self, policy: Policy | None) -> FloatArray:
        """The policy as a flat vector over slots; None means uniform. Raises InputError on rows that are missing."""
        if policy is None:
            return self.process.uniform()
        return _vector(self, policy)

    def policy(self, pi: FloatArray) -> Policy:
        """The way back: a vector over slots as a table in the user's names."""
        actions = self.problem.mdp.actions
        rows = {
            key: {actions[self.slot_action[slot]]: float(pi[slot]) for slot in range(first, last)}
            for key, first, last in zip(self.rows, self.process.row_start, self.process.row_start[1:], strict=False)
        }
        return Policy(self.policy_class, rows)


def compile_problem(problem: Problem, policy_class: PolicyClass | None = None, *, stop: Stop | None = None) -> Product:
    """Compile a problem for policies of a class (`policy_class`, its own unless another is given).

    Raises BudgetError when the product is too large, StoppedError when `stop` is requested meanwhile.
    """
    stated = policy_class or problem.policy_class
    problem, policy_class = unfold(problem, stated)
    mdp, tracker = problem.mdp, track(problem.secret, problem.mdp, problem.horizon)
    parts = _parts(problem, policy_class, tracker)
    states = _explore(mdp, list(parts.values()), _depth(problem), stop or Stop())
    column = dict(zip(["state", *parts], states.components, strict=True))
    rows = _rows(_Names(problem, policy_class, parts), column)
    emission, observations = _emission(problem.observer, mdp, column["state"], column["signal"])
    secret, secret_values = _secret(tracker, column["secret"], column["state"])
    process = _assemble(
        problem,
        states,
        rows,
        emission=emission,
        num_observations=len(observations),
        secret=secret,
        payoffs=_payoffs(problem, rows, column),
    )
    return Product(
        problem=problem,
        policy_class=stated,
        process=process,
        state_of=column["state"],
        rows=rows.keys,
        slot_action=rows.slot_action,
        observations=observations,
        secret_values=secret_values,
    )


def _depth(problem: Problem) -> int | None:
    """How many steps of the product matter: the horizon, or all when the return is counted for ever."""
    return None if problem.task.over == "forever" else problem.horizon


def _parts(problem: Problem, policy_class: PolicyClass, tracker: Tracker) -> dict[str, Machine]:
    """The machines of the product: what the secret, the observer and the policy need, and no more."""
    mdp, observer = problem.mdp, problem.observer
    parts: dict[str, Machine] = {"secret": tracker.machine}
    parts["signal"] = LastAction(_action_kinds(observer, mdp)) if _sees_actions(observer) else Idle()
    wanted = policy_class.conditions_on
    if "time" in wanted:
        parts["time"] = Clock(problem.horizon)
    if "start" in wanted:
        parts["start"] = Snapshot(0, np.arange(mdp.num_states))
    if "last_states" in wanted:
        parts["last_states"] = Recent(policy_class.last_states, mdp.num_states)
    if "memory" in wanted and policy_class.memory is not None:
        parts["memory"] = Carried(policy_class.memory)
    for place, requirement in enumerate(problem.task.requirements):
        if not isinstance(requirement, ReturnAtLeast):
            parts[_task(place)] = _watch(requirement, mdp)
    return parts


def _task(place: int) -> str:
    return f"task {place}"


def _watch(requirement: Reach | Satisfy, mdp: MDP) -> Machine:
    """The machine that tells whether a requirement is met."""
    return Seen(mdp.mask(requirement.states)) if isinstance(requirement, Reach) else read(requirement.automaton, mdp)


def _sees_actions(observer: Observer) -> bool:
    return observer.action_emission is not None or observer.after_action is not None


def _action_kinds(observer: Observer, mdp: MDP) -> IntArray:
    """Actions the observer cannot tell apart are of one kind."""
    signs, after = observer.action_emission, observer.after_action
    size = mdp.num_states
    signatures = []
    for action in range(len(mdp.actions)):
        parts = [] if signs is None else [part.tobytes() for part in signs.row(action)]
        if after is not None:
            starts = after.starts[action * size : (action + 1) * size + 1]
            entries = slice(int(starts[0]), int(starts[-1]))
            parts += [part.tobytes() for part in (np.diff(starts), after.columns[entries], after.values[entries])]
        signatures.append(tuple(parts))
    place = {signature: position for position, signature in enumerate(dict.fromkeys(signatures))}
    return np.array([place[signature] for signature in signatures], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _States:
    """The reachable product states and every branch between them."""

    components: list[IntArray]  # model state, then one array a machine: [product state]
    start: tuple[IntArray, FloatArray]  # product states and their probabilities
    source: IntArray  # [branch] product state
    choice: IntArray  # [branch] model choice
    target: IntArray  # [branch] product state
    probability: FloatArray  # [branch]


def _explore(mdp: MDP, machines: list[Machine], depth: int | None, stop: Stop) -> _States:
    """Breadth-first from the start, one array operation a level."""
    sizes = [mdp.num_states, *(machine.size for machine in machines)]
    if math.prod(sizes) > 2**62:
        raise BudgetError("the policy remembers too much for a model this size; ask for fewer last_states")
    index: dict[int, int] = {}
    branches_of = np.diff(mdp.transitions.starts[mdp.choice_start])  # [state] -> branches out of it
    first, start_probability = _begin(mdp, machines)
    frontier, start = _register(index, _encode(first, sizes))
    found, edges = [frontier], 0
    branches: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
    while frontier.size and (depth is None or len(branches) < depth):
        stop.check()
        offset = len(index) - frontier.size
        components = _decode(frontier, sizes)
        _check_size(len(index), edges + int(branches_of[components[0]].sum()))
        case, choice, targets, probability = _successors(mdp, machines, components)
        edges += case.size
        frontier, target = _register(index, _encode(targets, sizes))
        found.append(frontier)
        branches.append((case + offset, choice, target, probability))
        _check_size(len(index), edges)
    columns = [np.concatenate(column) for column in zip(*branches, strict=True)] if branches else _nothing()
    return _States(_decode(np.concatenate(found), sizes), (start, start_probability), *columns)


def _check_size(num_states: int, num_edges: int) -> None:
    """Refuse a product before memory is taken for it."""
    if num_states > MAX_STATES or num_edges > MAX_EDGES:
        raise BudgetError(
            f"the product of model, secret and policy memory has at least {num_states:,} states and {num_edges:,} "
            f"transitions; the limits are {MAX_STATES:,} and {MAX_EDGES:,}; use a shorter horizon or a policy that "
            "remembers less"
        )


def _nothing() -> list[Any]:
    return [np.zeros(0, dtype=np.int64) for _ in range(3)] + [np.zeros(0)]


def _begin(mdp: MDP, machines: list[Machine]) -> tuple[list[IntArray], FloatArray]:
    """Every way a run can start: components and probability."""
    state = np.flatnonzero(mdp.start)
    components, probability = [state], mdp.start[state]
    for machine in machines:
        branches = machine.begin(components[0])
        components = [*(part[branches.case] for part in components), branches.node]
        probability = probability[branches.case] * branches.probability
    return components, probability


def _successors(
    mdp: MDP, machines: list[Machine], components: list[IntArray]
) -> tuple[IntArray, IntArray, list[IntArray], FloatArray]:
    """Every branch out of some product states: (position, choice, components of the target, probability)."""
    case, choice = spread(mdp.choice_start, components[0])
    owner, entry = spread(mdp.transitions.starts, choice)
    case, choice = case[owner], choice[owner]
    targets, probability = [mdp.transitions.columns[entry]], mdp.transitions.values[entry]
    for machine, nodes in zip(machines, components[1:], strict=True):
        branches = machine.step(nodes[case], components[0][case], mdp.choice_action[choice], targets[0])
        case, choice = case[branches.case], choice[branches.case]
        targets = [*(part[branches.case] for part in targets), branches.node]
        probability = probability[branches.case] * branches.probability
    return case, choice, targets, probability


def _encode(components: list[IntArray], sizes: list[int]) -> IntArray:
    code = components[0]
    for part, size in zip(components[1:], sizes[1:], strict=True):
        code = code * size + part
    return code


def _decode(codes: IntArray, sizes: list[int]) -> list[IntArray]:
    parts = []
    for size in reversed(sizes[1:]):
        codes, part = np.divmod(codes, size)
        parts.append(part)
    return [codes, *reversed(parts)]


def _register(index: dict[int, int], codes: IntArray) -> tuple[IntArray, IntArray]:
    """Number the codes not seen before: (the new codes, the number of every code)."""
    distinct, inverse = np.unique(codes, return_inverse=True)
    known = len(index)
    numbers = np.array([index.setdefault(code, len(index)) for code in distinct.tolist()], dtype=np.int64)
    return distinct[numbers >= known], numbers[inverse]


@dataclass(frozen=True, slots=True)
class _Rows:
    keys: tuple[RowKey, ...]
    of_state: IntArray  # [product state]
    row_start: IntArray  # [row + 1]
    slot_action: IntArray  # [slot]
    slot_rank: IntArray  # [choice] -> position of the choice among those of its state


def _rows(names: _Names, column: dict[str, IntArray]) -> _Rows:
    """Which product states share a policy row, and what the rows are called."""
    mdp, where = names.problem.mdp, {"automaton": "secret"}
    columns = [column[where.get(condition, condition)] for condition in names.policy_class.conditions_on]
    stacked = np.stack(columns, axis=1) if columns else np.zeros((column["state"].size, 1), dtype=np.int64)
    distinct, example, of_state = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    of_state = of_state.reshape(-1)
    representative = column["state"][example]
    _same_actions(mdp, column["state"], representative[of_state])
    _, choice = spread(mdp.choice_start, representative)
    counts = np.diff(mdp.choice_start)[representative]
    rank = np.arange(mdp.num_choices) - np.repeat(mdp.choice_start[:-1], np.diff(mdp.choice_start))
    keys = tuple(names.key(values) for values in distinct.tolist()) if columns else ((),)
    row_start = np.concatenate(([0], np.cumsum(counts)))
    return _Rows(keys, of_state, row_start, mdp.choice_action[choice], rank)


def _same_actions(mdp: MDP, states: IntArray, representatives: IntArray) -> None:
    """States that share a policy row must enable the same actions."""
    pairs = np.unique(np.stack([states, representatives], axis=1), axis=0)
    faults = Faults()
    for state, other in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
        mine, theirs = (
            mdp.choice_action[mdp.choice_start[place] : mdp.choice_start[place + 1]] for place in (state, other)
        )
        if not np.array_equal(mine, theirs):
            names = f"'{mdp.states[state]}' and '{mdp.states[other]}'"
            faults.error(
                "policy.conditions_on",
                f"states {names} share a policy row but enable different actions",
                "add 'state' to conditions_on",
            )
    faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class _Names:
    """Turns the numbers of a row into the user's words."""

    problem: Problem
    policy_class: PolicyClass
    parts: dict[str, Machine]

    def key(self, values: list[int]) -> RowKey:
        conditions = self.policy_class.conditions_on
        return tuple(self._word(name, value) for name, value in zip(conditions, values, strict=True))

    def _word(self, condition: str, value: int) -> str | int | tuple[str, ...]:
        machine, states = self.parts.get(condition), self.problem.mdp.states
        if isinstance(machine, Recent):
            return tuple(states[state] for state in machine.states(value))
        if isinstance(machine, Carried):
            return machine.memory.nodes[value]
        if condition == "automaton" and isinstance(self.problem.secret, Language):
            return self.problem.secret.automaton.states[value]
        return value if condition == "time" else states[value]


def _emission(observer: Observer, mdp: MDP, state: IntArray, kind: IntArray) -> tuple[SparseRows, tuple[str, ...]]:
    """E(o | x): what the state shows and, when actions are seen, the sign of the last one beside it."""
    if not _sees_actions(observer):
        owner, entry = spread(observer.emission.starts, state)
        seen, chance = observer.emission.columns[entry], observer.emission.values[entry]
        shape = (state.size, len(observer.observations))
        return SparseRows.from_entries(owner, seen, chance, shape=shape), observer.observations
    _, example = np.unique(_action_kinds(observer, mdp), return_index=True)
    owner, seen, chance = _shown(observer, mdp.num_states, state, np.where(kind > 0, example[kind - 1], -1))
    signs = _signs(observer.action_emission, example)
    case, entry = spread(signs.starts, kind[owner])
    joint = seen[case] * signs.num_columns + signs.columns[entry]
    suffixes = ["", *(f"/{sign}" for sign in observer.action_signs)]
    names = tuple(name + suffix for name in observer.observations for suffix in suffixes)
    weights = chance[case] * signs.values[entry]
    return SparseRows.from_entries(owner[case], joint, weights, shape=(state.size, len(names))), names


def _shown(
    observer: Observer, num_states: int, state: IntArray, action: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """What is seen of each state after an action (-1: at the start): (position, observation, probability)."""
    emission, after = observer.emission, observer.after_action
    if after is None:
        owner, entry = spread(emission.starts, state)
        return owner, emission.columns[entry], emission.values[entry]
    starts = np.concatenate((emission.starts, emission.starts[-1] + after.starts[1:]))
    owner, entry = spread(starts, (action + 1) * num_states + state)
    columns, values = (
        np.concatenate(both) for both in ((emission.columns, after.columns), (emission.values, after.values))
    )
    return owner, columns[entry].astype(np.int64), values[entry].astype(np.float64)


def _signs(emission: SparseRows | None, example: IntArray) -> SparseRows:
    """[kind of last action, sign]: sign 0 is "nothing", shown before the first action or when signs are not seen."""
    if emission is None:
        kinds = example.size + 1
        return SparseRows.from_entries(range(kinds), [0] * kinds, [1.0] * kinds, shape=(kinds, 1))
    owner, entry = spread(emission.starts, example)
    rows = np.concatenate(([0], owner + 1))
    columns = np.concatenate(([0], emission.columns[entry] + 1))
    values = np.concatenate(([1.0], emission.values[entry]))
    return SparseRows.from_entries(rows, columns, values, shape=(example.size + 1, emission.num_columns + 1))


def _secret(tracker: Tracker, nodes: IntArray, states: IntArray) -> tuple[IntArray, tuple[str, ...]]:
    """The secret value of every product state, numbered among those that occur."""
    occurring, numbered = np.unique(tracker.value(nodes, states), return_inverse=True)
    return numbered.reshape(-1), tuple(tracker.values[value] for value in occurring)


def _assemble(
    problem: Problem,
    states: _States,
    rows: _Rows,
    *,
    emission: SparseRows,
    num_observations: int,
    secret: IntArray,
    payoffs: tuple[Payoff, ...],
) -> HiddenProcess:
    """Put the arrays of the hidden process together."""
    from scipy.sparse import csr_array

    num_states, num_slots = secret.size, int(rows.row_start[-1])
    slot = rows.row_start[rows.of_state[states.source]] + rows.slot_rank[states.choice]
    places, edge = np.unique(states.source * num_states + states.target, return_inverse=True)
    start_state, start_probability = _summed(*states.start)
    num_edges = places.size + start_state.size
    shape = (num_edges, num_slots)
    edge_slots = csr_array((states.probability, (edge.reshape(-1), slot)), shape=shape)
    counts = np.concatenate((np.bincount(places // num_states, minlength=num_states), [start_state.size]))
    target = np.concatenate((places % num_states, start_state))
    edge_start = np.concatenate(([0], np.cumsum(counts)))
    return HiddenProcess(
        edge_start=ints(edge_start),
        edge_target=ints(target),
        edges=Edges(indices(edge_start), indices(target)),
        edge_base=floats(np.concatenate((np.zeros(places.size), start_probability))),
        edge_slots=edge_slots,
        payoffs=payoffs,
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=ints(secret),
        settled=ints(_settled(secret, edge_start, target)),
        row=ints(rows.of_state),
        row_start=ints(rows.row_start),
        num_observations=num_observations,
        num_secrets=int(secret.max(initial=0)) + 1,
        horizon=problem.horizon,
    )


def _summed(places: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    distinct, inverse = np.unique(places, return_inverse=True)
    return distinct, np.bincount(inverse.reshape(-1), weights=values, minlength=distinct.size).astype(np.float64)


def _payoffs(problem: Problem, rows: _Rows, column: dict[str, IntArray]) -> tuple[Payoff, ...]:
    """The return and every further requirement, over product states."""
    mdp, task, state = problem.mdp, problem.task, column["state"]
    nothing = np.zeros(state.size)
    unpaid = _paid(mdp, np.zeros(mdp.num_choices), state, rows)
    slots = _paid(mdp, mdp.rewards, state, rows)
    found = [Payoff("return", slots, nothing, problem.discount, task.return_at_least)]
    for place, requirement in enumerate(task.requirements):
        threshold = requirement.threshold
        match requirement:
            case ReturnAtLeast(reward):
                slots = _paid(mdp, mdp.named_rewards[reward], state, rows)
                found.append(Payoff(f"return of {reward}", slots, nothing, problem.discount, threshold))
            case Reach():
                met = column[_task(place)].astype(np.float64)
                found.append(Payoff(f"probability of reaching {requirement.name}", unpaid, met, 1.0, threshold))
            case Satisfy(automaton):
                met = np.isin(column[_task(place)], list(automaton.accepting)).astype(np.float64)
                found.append(Payoff(f"probability of {requirement.name}", unpaid, met, 1.0, threshold))
    return tuple(found)


def _paid(mdp: MDP, rewards: FloatArray, state: IntArray, rows: _Rows) -> Any:
    """R(x, slot) as a sparse matrix."""
    from scipy.sparse import csr_array

    owner, choice = spread(mdp.choice_start, state)
    slot = rows.row_start[rows.of_state[owner]] + rows.slot_rank[choice]
    reward = rewards[choice]
    paid = reward != 0
    return csr_array((reward[paid], (owner[paid], slot[paid])), shape=(state.size, int(rows.row_start[-1])))


def _settled(secret: IntArray, edge_start: IntArray, edge_target: IntArray) -> IntArray:
    """The value every continuation ends with, or -1: states that cannot reach another value than their own."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    num_states = secret.size
    owner, entry = spread(edge_start, np.arange(num_states))
    target = edge_target[entry]
    doubtful = np.unique(owner[secret[owner] != secret[target]])
    rows = np.concatenate((target, np.full(doubtful.size, num_states)))
    columns = np.concatenate((owner, doubtful))
    backwards = csr_array((np.ones(rows.size, dtype=np.int8), (rows, columns)), shape=(num_states + 1, num_states + 1))
    open_states = breadth_first_order(backwards, num_states, return_predecessors=False)
    settled = secret.copy()
    settled[open_states[open_states < num_states]] = -1
    return settled


def _vector(product: Product, policy: Policy) -> FloatArray:
    """A policy table as a vector over slots."""
    if policy.policy_class.conditions_on != product.policy_class.conditions_on:
        raise InputError([_other_class(product, policy)])
    actions = product.problem.mdp.actions
    pi, missing = np.zeros(product.process.num_slots), []
    for row, key in enumerate(product.rows):
        first, last = product.process.row_start[row : row + 2]
        probabilities = policy.rows.get(key)
        if probabilities is not None:
            pi[first:last] = [probabilities.get(actions[action], 0.0) for action in product.slot_action[first:last]]
        elif _indifferent(product.process, int(first), int(last)):
            pi[first:last] = 1.0 / (last - first)
        else:
            missing.append(_row_name(product, key))
    if missing:
        raise InputError([_missing_rows(missing)])
    return pi


def _missing_rows(names: list[str]) -> Fault:
    """One fault for all rows that a policy lacks."""
    if len(names) == 1:
        return Fault(f"policy row {names[0]}", "the policy has no row for this case, which can occur", "add the row")
    shown = "; ".join(names[:_MOST_SHOWN]) + ("; ..." if len(names) > _MOST_SHOWN else "")
    return Fault("policy", f"has no row for {len(names):,} cases that can occur: {shown}", "add the rows")


def _other_class(product: Product, policy: Policy) -> Fault:
    mine, theirs = product.policy_class.conditions_on, policy.policy_class.conditions_on
    return Fault("policy", f"conditions on {', '.join(theirs)}, but the problem was compiled for {', '.join(mine)}")


def _row_name(product: Product, key: RowKey) -> str:
    words = (f"{name}={value}" for name, value in zip(product.policy_class.conditions_on, key, strict=True))
    return ", ".join(words)


def _indifferent(process: HiddenProcess, first: int, last: int) -> bool:
    """Whether all actions of a row do and pay the same, so that its probabilities cannot matter."""
    if last - first == 1:
        return True
    for matrix in (process.edge_slots, *(payoff.slots for payoff in process.payoffs)):
        columns = matrix[:, first:last].toarray() if matrix.shape[0] * (last - first) < 10_000_000 else None
        if columns is None or np.ptp(columns, axis=1).max(initial=0.0) > 0:
            return False
    return True
