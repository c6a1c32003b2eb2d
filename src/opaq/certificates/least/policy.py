"""The policy of the program over beliefs: what an agent that sees nothing but the observations does at every belief.

The program of `graph` with one action per belief is solved by `search`. Its minimising policy is deterministic, and
follows from the belief and the time: a finite graph whose nodes are the beliefs that it comes to, with one action each
and one arc per observation. Beliefs from which on the policy acts alike share a node, which leaves all actions as they
are. One more node ("rest") repeats one action: for beliefs from which on nothing matters (the secret is settled and
nothing is required), for those that the program did not expand, and for observations that the policy cannot cause.

Where requirements bind, the least of f - sum_i l_i V_i at the best multipliers l may be that of a policy that misses
them. Then policies of other multipliers are tried: those on the way to the best ones, and by bisection those between
them and multipliers whose policy meets the requirements. The best that is measured to meet them is kept; where it is
not proven to be the best, also because beliefs were left out, a local search draws lots at the nodes of these graphs,
and a better policy replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from opaq.beliefs.dynamic_program import largest_return
from opaq.beliefs.returns import largest_absolute_payoff, rounding_share
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.least.graph import Beliefs, Prescriptions, build_program
from opaq.certificates.least.search import LeastSearch, find_multipliers
from opaq.certificates.least.values import LeastValue, ProgramStack
from opaq.certificates.payoffs import find_unattainable, largest_payoffs, payoff_scales
from opaq.certificates.rounding import UNIT
from opaq.errors import BudgetError, Fault, InputError
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.conditions import MAX_BELIEFS, BeliefGraph, BeliefNode
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.opacity.measure import Measurement, measure_product
from opaq.opacity.targets import is_plain
from opaq.product.compile import Product, compile_problem
from opaq.solvers.options import GIB, SolveOptions
from opaq.solvers.solve import Solution, solve_class
from opaq.solvers.starts import Attainable
from opaq.solvers.strategy import Status
from opaq.stop import Deadline, Stop, StoppedError

SOLVER = "belief program"
_STATE = PolicyClass(("state",))
_SEARCH_SHARE = 0.7  # of the time, for the bound; the rest is for policies that meet the requirements
_PROVEN = 1e-7  # a policy this close to the bound is the best there is
_MEETS = 1e-9  # of the scale of a payoff: rounding of slacks
_BISECTIONS = 40
_PRICES = (0.1, 1.0, 10.0, 1e3, 1e5)  # multipliers added, in units, until the policy meets the requirements
_MOST_MEASURED = 4  # policies
_MOST_MIXED = 2_000  # nodes of a graph at which lots are drawn
_MIXING_SECONDS = 20.0  # for a search among policies that draw lots, where there is no time limit
_FALLBACK_ENTRIES = 1_000_000  # of a program for a task that no policy meets
_LAST_SECONDS = 3.0  # for measuring after a stop
_REST = "rest"


@dataclass(frozen=True, slots=True, eq=False)
class BeliefPolicy:
    """The best policy by belief that was found, what is proven, and how the search ended.

    bound: no policy that sees nothing but the observations and meets the task gets below; infinite: none meets it.
    """

    policy: Policy
    bound: float
    product: Product  # compiled for the policy's class
    pi: FloatArray  # [slot]
    measurement: Measurement
    whole: bool  # whether the program left nothing out
    stopped: Status | None  # TIME_LIMIT or INTERRUPTED, where one of them cut the search short

    @property
    def gap(self) -> float:
        """How far above the bound the policy is at most; infinite where it misses the task."""
        return self.measurement.uncertainty.upper - self.bound if self.measurement.feasible else math.inf

    @property
    def proven(self) -> bool:
        """Whether no policy that sees nothing but the observations is better, up to rounding."""
        return self.gap <= _PROVEN


def least_policy(problem: Problem, *, deadline: Deadline, stop: Stop, memory: int) -> tuple[Policy, float]:
    """Return the best policy by belief of a task that minimises, and a proven lower bound of all such policies.

    problem: with a task that minimises. deadline: of the whole work. stop: ends it with the best so far.
    memory: bytes for the program.
    Raises InputError where the task does not minimise or counts a return for ever, or where states that give one
    observation enable different actions; BudgetError where the problem or the policy is too large; StoppedError when
    `stop` is requested, or the time is over, before there is a policy.
    """
    best = find_belief_policy(problem, deadline=deadline, stop=stop, memory=memory, sequences=0)
    return best.policy, best.bound


def solve_belief(problem: Problem, options: SolveOptions, *, stop: Stop) -> Solution:
    """Return the best policy by belief as the solution of a problem.

    problem: with a task that minimises. options: time limit, memory, seed and sequences are used.
    stop: ends the work with the best policy so far. Raises as `least_policy` does.
    """
    deadline = Deadline(options.time_limit)
    best = find_belief_policy(
        problem,
        deadline=deadline,
        stop=stop,
        memory=round(options.max_memory * GIB),
        sequences=options.sequences,
    )
    process = best.product.process
    attainable = tuple(
        Attainable(
            payoff.name,
            largest_return(process, payoff),
            payoff.threshold,
            6.0 * rounding_share(process) * largest_absolute_payoff(process, payoff),
        )
        for payoff in process.payoffs
        if payoff.threshold is not None
    )
    status = _status(best)
    return Solution(
        measurement=best.measurement,
        status=status,
        status_text=_describe(best, status),
        policy=best.policy,
        attainable=attainable,
        optimality=None,
        starts=(),
        trace=(),
        gradients="exact",
        solver=SOLVER,
        seed=options.seed,
        seconds=deadline.elapsed,
        product=best.product,
        pi=best.pi,
    )


def _status(best: BeliefPolicy) -> Status:
    """Return how the search for a policy ended: converged only where nothing better exists."""
    if best.proven:
        return Status.CONVERGED
    if best.bound == math.inf and not best.measurement.feasible:
        return Status.INFEASIBLE
    if best.stopped is not None:
        return best.stopped
    return Status.COMPLETED if best.measurement.feasible else Status.NOT_FOUND


def _describe(best: BeliefPolicy, status: Status) -> str:
    """Return the status as a sentence, with the figures it rests on."""
    of = best.measurement.of
    unit = f" {of.unit}" if of.unit else ""
    scope = "no policy that sees nothing but the observations"
    if status is Status.CONVERGED:
        return f"converged: {scope} does better by more than {max(best.gap, 1e-12):.1e}{unit}, which is proven"
    if status in (Status.INFEASIBLE, Status.NOT_FOUND):
        said = f"infeasible: {scope} meets the task" if status is Status.INFEASIBLE else status.value
        missed = [one.name for one in best.measurement.requirements if one.threshold is not None and not one.feasible]
        return f"{said}; this one misses: {', '.join(missed)}"
    if not best.measurement.feasible:
        return f"{status.value}, and it does not meet the task"
    proven = f"{scope} gets below {best.bound:.6g}{unit}, and this one is {best.gap:.2g}{unit} above"
    if status is not Status.COMPLETED:
        return f"{status.value}; {proven}"
    why = "the requirements leave a gap" if best.whole else "the program did not fit the budget"
    return f"completed, but not proven to be the best: {proven} ({why})"


def find_belief_policy(
    problem: Problem, *, deadline: Deadline, stop: Stop, memory: int, sequences: int = 0
) -> BeliefPolicy:
    """Find the best policy by belief, measured, with what is proven; arguments and errors as in `least_policy`.

    sequences: how many telling observation sequences the measurement shows.
    """
    _check(problem)
    product = compile_problem(problem, _STATE, stop=stop)
    actions = ActionSets.of(product)
    with stop.part(deadline.left) as part:
        search, scales = _prepare(product, memory=memory, stop=part)
        stopped = _climb(search, deadline, memory)
        candidates = _Candidates(search, scales)
        if stopped is None:
            try:
                candidates.collect()
            except StoppedError:
                stopped = Status.INTERRUPTED if part.interrupted else Status.TIME_LIMIT
        best: BeliefPolicy | None = None
        tried = list(candidates.ranked())
        for multipliers in tried:
            policy = extract_policy(product, search, multipliers, actions)
            compiled = compile_problem(problem, policy.policy_class)
            pi = compiled.policy_vector(policy)
            measurement = _measure(compiled, pi, sequences=sequences, stop=part)
            bound = math.inf if search.infeasible and not measurement.feasible else search.bound
            whole = search.stack.top is not None and search.stack.top.whole
            found = BeliefPolicy(policy, bound, compiled, pi, measurement, whole, stopped)
            if best is None or measurement.beats(best.measurement):
                best = found
            if measurement.feasible or part.requested:
                break
        assert best is not None
        if not search.infeasible and not best.proven:
            for policy in _mixable(product, search, (tried[0], search.multipliers), actions):
                best = _draw_lots(best, policy, sequences=sequences, stop=part, deadline=deadline)
    return best


def _mixable(
    product: Product, search: LeastSearch, multipliers: tuple[FloatArray, ...], actions: ActionSets
) -> Iterator[Policy]:
    """Yield the policies of some multipliers with a node for every belief, as far as a search among them is cheap."""
    for index, chosen in enumerate(multipliers):
        if search.stop.requested or any(np.array_equal(chosen, other) for other in multipliers[:index]):
            return
        policy = extract_policy(product, search, chosen, actions, merge=False)
        if len(policy.rows) <= _MOST_MIXED:
            yield policy


def _draw_lots(best: BeliefPolicy, policy: Policy, *, sequences: int, stop: Stop, deadline: Deadline) -> BeliefPolicy:
    """Return the best policy so far, or a better one that draws lots at the nodes of a policy's graph.

    Requirements that bind can be met more cheaply so, and a program that left beliefs out may have chosen badly. It is
    a local search from the policy, by the default solver.
    """
    left = deadline.share(0.5)
    options = SolveOptions(starts=1, sequences=sequences, workers=1)
    with suppress(StoppedError, BudgetError), stop.part(_MIXING_SECONDS if left is None else left) as part:
        solution = solve_class(best.product.problem, policy.policy_class, options, warm=[policy], stop=part)
        if solution.measurement.beats(best.measurement, margin=_PROVEN):
            return replace(
                best,
                policy=solution.policy,
                product=solution.product,
                pi=solution.pi,
                measurement=solution.measurement,
            )
    return best


def _check(problem: Problem) -> None:
    """Raise InputError where a task has no program over beliefs."""
    if not problem.task.minimise:
        finding = "policies by belief are those of tasks that minimise"
        raise InputError([Fault("task.objective", finding, "write 'objective: minimise', or choose other conditions")])
    if not is_plain(problem):
        finding = "policies by belief are of one figure, without limits on others"
        raise InputError([Fault("task", finding, "choose other conditions")])
    if problem.task.over == "forever":
        finding = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", finding, "write 'over: horizon', or measure a given policy")])


def _prepare(product: Product, *, memory: int, stop: Stop) -> tuple[LeastSearch, FloatArray]:
    """Return the search for the bound, not begun, and [requirement] the scales of the payoffs."""
    process = product.process
    decisions = Decisions.of(process, stop=stop)
    prescriptions = Prescriptions.of(product, decisions, shared=True)
    uncertainty = product.problem.task.of.over(product.secret_values)
    largest = largest_payoffs(decisions, stop=stop)
    scales = payoff_scales(process, largest)
    lowest = float(uncertainty.certain.min(initial=uncertainty.highest))
    search = LeastSearch(
        prescriptions,
        ProgramStack(prescriptions, uncertainty, {}),
        scales,
        trivial=lowest - 4.0 * UNIT * abs(lowest),
        achieved=math.inf,
        known=math.inf,
        wanted=0.0,
        memory=memory,
        stop=stop,
        on_rung=lambda step: None,
        infeasible=bool(find_unattainable(decisions, largest)),
    )
    return search, scales


def _climb(search: LeastSearch, deadline: Deadline, memory: int) -> Status | None:
    """Search for the bound; returns what cut it short, if anything did.

    Where no policy meets the task there may be no program yet: one is then made for the policy that comes closest.
    Raises StoppedError when the search is stopped before there is a program.
    """
    stop, stopped = search.stop, None
    try:
        if not search.done:
            search.climb(deadline.part(_SEARCH_SHARE))
    except StoppedError:
        stopped = Status.INTERRUPTED if stop.interrupted else Status.TIME_LIMIT
    if search.stack.top is None:
        stop.check()
        decisions = search.prescriptions.decisions
        roots = (np.zeros_like(decisions.start_state), decisions.start_state, decisions.start_chance)
        program = build_program(
            search.prescriptions,
            roots,
            first=0,
            deadline=deadline.part(_SEARCH_SHARE),
            memory=memory // 2,
            most_entries=_FALLBACK_ENTRIES,
            stop=stop,
        )
        search.stack = replace(search.stack, top=program)
    return stopped


def _measure(product: Product, pi: FloatArray, *, sequences: int, stop: Stop) -> Measurement:
    """Measure a policy exactly; after a stop in a few seconds, to an interval where need be."""
    if not stop.requested:
        with suppress(StoppedError):
            return measure_product(product, pi, sequences=sequences, stop=stop)
    last = Stop()
    with last.limit(_LAST_SECONDS):
        return measure_product(product, pi, time=_LAST_SECONDS, sequences=0, stop=last)


@dataclass(slots=True, eq=False)
class _Candidates:
    """Multipliers whose minimising policies may be the answer, with what the program says of those policies."""

    search: LeastSearch
    scales: FloatArray  # [requirement]
    values: list[LeastValue] = field(default_factory=list)

    def collect(self) -> None:
        """Try multipliers around the best ones; without requirements there is nothing to try.

        Raises StoppedError when the stop of the search is requested meanwhile.
        """
        search, scales = self.search, self.scales
        if not scales.size:
            return
        uncertainty = search.stack.uncertainty
        units = max(uncertainty.highest - search.trivial, 1e-12) / scales
        ceiling = uncertainty.highest + 1e-9 * max(1.0, abs(uncertainty.highest))
        find_multipliers(self._evaluate, search.multipliers, units=units, ceiling=ceiling, on_value=lambda value: None)
        if not any(map(self._meets, self.values)):
            for price in _PRICES:
                if self._meets(self._evaluate(search.multipliers + price * units)):
                    break
        met = [value for value in self.values if self._meets(value)]
        missed = [value for value in self.values if not self._meets(value)]
        if met and missed:
            high = min(met, key=lambda value: value.uncertainty)
            low = max(missed, key=lambda value: value.bound)
            self._bisect(low.multipliers, high.multipliers)

    def _bisect(self, low: FloatArray, high: FloatArray) -> None:
        """Evaluate multipliers between some whose policy misses the requirements and some whose policy meets them."""
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            if bool((middle == low).all() or (middle == high).all()):
                return
            low, high = (low, middle) if self._meets(self._evaluate(middle)) else (middle, high)

    def _evaluate(self, multipliers: FloatArray) -> LeastValue:
        """Evaluate multipliers and keep the value; the best bound of the search grows with it."""
        search = self.search
        value = search.stack.evaluate(multipliers, stop=search.stop)
        self.values.append(value)
        if not search.infeasible and value.bound > search.bound:
            search.bound, search.multipliers = value.bound, multipliers
        return value

    def _meets(self, value: LeastValue) -> bool:
        """Return whether the policy behind a value meets the requirements, as the program sees it."""
        return bool((value.slack >= -_MEETS * np.maximum(self.scales, 1.0)).all())

    def ranked(self) -> Iterator[FloatArray]:
        """Yield the multipliers of a few policies: those that meet the requirements, the best first.

        Where none does, those that miss them least. Without any values, the best multipliers of the bound.
        """
        if not self.values:
            yield self.search.multipliers
            return
        meeting = [value for value in self.values if self._meets(value)]
        order = sorted(meeting, key=lambda value: value.uncertainty) or sorted(
            self.values, key=lambda value: float((np.minimum(value.slack, 0.0) / self.scales).sum()), reverse=True
        )
        seen = list[tuple[float, bytes]]()
        for value in order:
            key = (value.uncertainty, value.slack.tobytes())
            if key not in seen:
                seen.append(key)
                yield value.multipliers
            if len(seen) == _MOST_MEASURED:
                return


class ActionSets(NamedTuple):
    """Which actions are enabled where: sets of actions, and the set of every product state and observation."""

    first: list[int]  # [set] -> its first action
    of_state: IntArray  # [product state] -> set
    of_observation: IntArray  # [observation] -> set; 0 where no state gives it

    @classmethod
    def of(cls, product: Product) -> ActionSets:
        """Number the sets. Raises InputError where two states that give one observation enable different actions."""
        mdp, emission = product.problem.mdp, product.process.emission
        number = dict[tuple[int, ...], int]()
        model = np.array(
            [
                number.setdefault(tuple(mdp.choice_action[first:last].tolist()), len(number))
                for first, last in zip(mdp.choice_start[:-1], mdp.choice_start[1:], strict=True)
            ]
        )
        of_state = model[product.state_of]
        of_observation = np.full(emission.num_columns, -1)
        owner = emission.row_of_entry()[emission.values > 0]
        seen = emission.columns[emission.values > 0]
        of_observation[seen] = of_state[owner]
        different = np.flatnonzero(of_observation[seen] != of_state[owner])
        if different.size:
            observation = int(seen[different[0]])
            states = product.state_of[owner[seen == observation]]
            other = states[model[states] != model[states[0]]][0]
            names = f"'{mdp.states[states[0]]}' and '{mdp.states[other]}'"
            finding = (
                f"states {names} enable different actions, and '{product.observations[observation]}' is seen in both"
            )
            raise InputError(
                [Fault("policy.conditions_on", finding, "policies by belief need one set of actions there")]
            )
        return cls([actions[0] for actions in number], of_state, np.maximum(of_observation, 0))


class _Level(NamedTuple):
    """The beliefs of one time that the policy comes to."""

    belief: IntArray  # [reached] -> belief of the program's level
    action: IntArray  # [reached]; -1: not expanded
    states: IntArray  # [reached] -> one of its product states
    source: IntArray  # [arc] -> reached
    observation: IntArray  # [arc]
    target: IntArray  # [arc] -> belief of the next level; -1: not known there


class _Node(NamedTuple):
    """A node of the graph in the making; equal nodes act alike."""

    actions: int  # the set of actions that are enabled there
    action: int
    arcs: tuple[tuple[int, int], ...]  # (observation, node), where that is not `otherwise`


def extract_policy(
    product: Product, search: LeastSearch, multipliers: FloatArray, actions: ActionSets, *, merge: bool = True
) -> Policy:
    """Return the policy that minimises the program from the start at some multipliers, as a graph with one action each.

    product: compiled for policies of the state. search: has the program. multipliers: [requirement].
    actions: the sets of enabled actions. merge: whether beliefs from which on the policy acts alike share a node.
    Raises BudgetError when the graph has too many nodes.
    """
    first, levels = _follow(search, search.stack.choose(multipliers, stop=Stop()))
    nodes = [_Node(one, action, ()) for one, action in enumerate(actions.first)]
    number = {node: index for index, node in enumerate(nodes)}
    otherwise = actions.of_observation
    after = dict[int, int]()  # belief of the next level -> node
    for level in reversed(levels):
        arcs: list[list[tuple[int, int]]] = [[] for _ in range(level.belief.size)]
        moves = zip(level.source.tolist(), level.observation.tolist(), level.target.tolist(), strict=True)
        for source, observation, target in moves:
            following = after.get(target, int(otherwise[observation]))
            if following != otherwise[observation]:
                arcs[source].append((observation, following))
        now = dict[int, int]()
        for index, (belief, action) in enumerate(zip(level.belief.tolist(), level.action.tolist(), strict=True)):
            group = int(actions.of_state[level.states[index]])
            node = _Node(group, action, tuple(sorted(arcs[index])))
            if action < 0:
                now[belief] = group
            elif merge and node in number:
                now[belief] = number[node]
            else:
                now[belief] = number[node] = len(nodes)
                nodes.append(node)
        after = now
    start = otherwise.copy()
    for observation, belief in first:
        start[observation] = after.get(belief, int(otherwise[observation]))
    return _policy(product, nodes, start, otherwise, len(actions.first))


def _follow(search: LeastSearch, chosen: list[IntArray]) -> tuple[list[tuple[int, int]], list[_Level]]:
    """Return the arcs of the start, (observation, belief), and the beliefs of every time that the policy comes to.

    chosen: per level [expanded] the options of the policy.
    """
    from scipy.sparse import csr_array

    prescriptions, program = search.prescriptions, search.stack.top
    assert program is not None
    decisions, levels = prescriptions.decisions, list[_Level]()
    roots = (np.zeros_like(decisions.start_state), decisions.start_state, decisions.start_chance)
    _, observation, _, seen = prescriptions.observe(*roots)
    target = _locate(prescriptions, program.levels[0], seen)
    first = list(zip(observation.tolist(), target.tolist(), strict=True))
    for index, (beliefs, options, best) in enumerate(zip(program.levels, program.options, chosen, strict=True)):
        reached = np.unique(target[target >= 0])
        position = np.full(beliefs.size, -1)
        position[options.belief[: best.size]] = np.arange(best.size)
        at = position[reached]
        expanded = np.flatnonzero(at >= 0)
        part = beliefs.take(reached[expanded])
        rank = best[at[expanded]] - options.start[at[expanded]]
        action = np.full(reached.size, -1)
        if part.size:
            counted = np.cumsum(prescriptions.shared_actions(part), axis=1)
            action[expanded] = np.argmax(counted == rank[:, None] + 1, axis=1)
        none = np.zeros(0, np.int64)
        source, observation, target = none, none, none
        if part.size and index + 1 < len(program.levels):
            owner, entry = expand_rows(part.start, np.arange(part.size))
            choice = prescriptions.choice_of[part.state[entry], action[expanded][owner]]
            shape = (part.size, prescriptions.action.size)
            predicted = csr_array(
                csr_array((part.value[entry], (owner, choice)), shape=shape) @ decisions.choices.ahead
            )
            predicted.sort_indices()
            spread = np.repeat(np.arange(part.size), np.diff(predicted.indptr))
            into, observation, _, seen = prescriptions.observe(
                spread, predicted.indices.astype(np.int64), predicted.data
            )
            source, target = expanded[into], _locate(prescriptions, program.levels[index + 1], seen)
        states = beliefs.state[beliefs.start[reached]]
        levels.append(_Level(reached, action, states, source, observation, target))
    return first, levels


def _locate(prescriptions: Prescriptions, level: Beliefs, beliefs: Beliefs) -> IntArray:
    """Return [belief] -> the belief of a level that it is merged with; -1 where there is none."""
    if not beliefs.size:
        return np.zeros(0, np.int64)
    both = Beliefs(
        np.concatenate((level.start, level.start[-1] + beliefs.start[1:])),
        np.concatenate((level.state, beliefs.state)),
        np.concatenate((level.value, beliefs.value)),
    )
    merged, share, kept = prescriptions.merge(both)
    number = np.full(kept.size, -1)
    number[merged[: level.size]] = np.arange(level.size)
    return np.where(share[level.size :] > 0.5, number[merged[level.size :]], -1)


def _policy(
    product: Product,
    nodes: list[_Node],
    start: IntArray,
    otherwise: IntArray,
    num_sets: int,
) -> Policy:
    """Return the policy of a graph, its nodes named in the order in which they are come to.

    nodes: the first num_sets of them are those of `otherwise`. start, otherwise: [observation] -> node.
    """
    order = [node for node in dict.fromkeys(start.tolist()) if node >= num_sets]
    position = {node: index for index, node in enumerate(order)}
    for node in order:  # grows meanwhile
        for _, after in nodes[node].arcs:
            if after >= num_sets and after not in position:
                position[after] = len(order)
                order.append(after)
    if len(order) + num_sets > MAX_BELIEFS:
        message = f"the policy has {len(order):,} beliefs; the limit is {MAX_BELIEFS:,}; use a shorter horizon"
        raise BudgetError(message)
    rest = [_REST] if num_sets == 1 else [f"{_REST}{index}" for index in range(num_sets)]
    names = tuple([f"b{index}" for index in range(len(order))] + rest)
    numbered = np.array([position.get(node, len(order) + node) for node in range(len(nodes))], dtype=np.int64)
    numbered[:num_sets] = len(order) + np.arange(num_sets)
    following = np.tile(numbered[otherwise], (len(names), 1))
    for index, node in enumerate(order):
        for observation, after in nodes[node].arcs:
            following[index, observation] = numbered[after]
    graph = BeliefGraph(names, product.observations, numbered[start], following, numbered[otherwise])
    listed = [*order, *range(num_sets)]
    rows: dict[RowKey, dict[str, float]] = {
        (name,): {product.actions[nodes[node].action]: 1.0} for name, node in zip(names, listed, strict=True)
    }
    return Policy(PolicyClass((BeliefNode(graph),)), rows)
