"""The history program: the best that any policy which sees only the states can do, for small problems.

A policy that remembers all states is a vector of weights over the histories, and the uncertainty is concave in it
(`weights`). A cone solver or mirror ascent proposes weights, slopes and multipliers; a bracket keeps what they prove: a
policy that meets the task is a lower end, costs and multipliers are an upper end. No number of a solver is believed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.search import BoundSearch, BoundStep
from opaq.certificates.history.cone import ATTEMPTS, ConeAnswer, solve_cone
from opaq.certificates.history.policy import extract_policy
from opaq.certificates.history.tree import HistoryChoices, grow_tree, observe_tree
from opaq.certificates.history.weights import (
    PRESSURES,
    HistoryProblem,
    InnerPoint,
    choice_values,
    inner_point,
    meets,
    policy_of,
    repair_weights,
    weights_of,
)
from opaq.codec import encode
from opaq.display import NotebookView, data_frame
from opaq.errors import BudgetError, Fault, InputError, InvariantError, check_numbers, check_types, choose
from opaq.load import as_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import refuse_trajectory
from opaq.model.uncertainty import UNCERTAINTIES, GuessError, Shannon, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, measure
from opaq.opacity.targets import is_plain
from opaq.product.compile import Product, compile_problem
from opaq.stop import Deadline, Stop, StoppedError, interruptible

if TYPE_CHECKING:
    from pandas import DataFrame

_SMALLEST = (0.0, 1e-7, 1e-4)  # probabilities below this may count as 0, if that does better
_BLIND_SHARES = (1e-3, 1e-6, 1e-9)  # shares of guessing blindly in a decoder
_PENALTY, _STEP, _LONGEST = 3.0, 0.3, 10.0  # of the mirror ascent


class _Bracket:
    """Between the value of a policy that meets the task and a bound that no such policy exceeds.

    lower is f of `weights`, computed from the tree; upper is the bound that `multipliers` and some costs prove.
    """

    def __init__(self, problem: HistoryProblem, inner: InnerPoint) -> None:
        self._problem, self._inner = problem, inner
        self.lower, self.upper = -np.inf, np.inf
        self.weights, self.multipliers = inner.weights, np.zeros(inner.wanted.size)

    @property
    def gap(self) -> float:
        """Return the width of the bracket, upper - lower."""
        return self.upper - self.lower

    def try_policy(self, policy: FloatArray) -> None:
        """Keep a policy [choice], moved into the task where it misses it by a little, if it does better."""
        weights = repair_weights(self._problem, weights_of(self._problem.tree, policy), self._inner)
        value = self._problem.value(weights)
        if meets(self._problem, weights) and value > self.lower:
            self.lower, self.weights = value, weights

    def try_bound(self, costs: FloatArray, multipliers: FloatArray) -> None:
        """Keep a bound if it is lower.

        costs: [cell], valid. multipliers: [requirement], negative ones count as 0. Where the task leaves no room,
            multipliers of
        its faces are added, with one pressure after the other.
        """
        for pressure in PRESSURES if self._inner.faces else (0.0,):
            held = self._inner.add_faces(np.maximum(multipliers, 0.0), pressure)
            bound = self._problem.upper_bound(costs, held)
            if bound < self.upper:
                self.upper, self.multipliers = bound, held

    def try_answer(self, answer: ConeAnswer) -> None:
        """Keep the policies and bounds that a solver's numbers give, whatever the solver says of them."""
        problem = self._problem
        for least in _SMALLEST:
            self.try_policy(policy_of(problem.tree, answer.weights, least=least))
        self.try_bound(problem.uncertainty.nearest_costs(answer.slopes, problem.cells), answer.multipliers)
        self.try_posterior(answer.masses, answer.multipliers)

    def try_posterior(self, masses: FloatArray, multipliers: FloatArray) -> None:
        """Keep the bounds of decoders that fit given masses [cell], if they are lower."""
        for share in _BLIND_SHARES:
            self.try_bound(self._problem.costs(masses, uniform=share), multipliers)


def ascend(bracket: _Bracket, problem: HistoryProblem, inner: InnerPoint, *, steps: int, stop: Stop) -> Iterator[float]:
    """Narrow a bracket by mirror ascent on the tree, pi <- pi exp(step Q); yields the gap after every step.

    Slower than a cone solver and needs none. Q are the values of choices for the costs of the present posterior and the
    multipliers of an augmented Lagrangian, max(0, l - rho slack); l follows these slowly.

    inner: says which choices are allowed. steps: the most. stop: ends it early.
    """
    tree = problem.tree
    policy = _inside(problem, inner, bracket.weights)
    multipliers = bracket.multipliers.copy()
    for count in range(steps):
        if stop.requested:
            return
        weights = weights_of(tree, policy)
        pressure = np.maximum(multipliers - _PENALTY * problem.slack(weights), 0.0)
        masses = problem.masses(weights)
        bracket.try_policy(policy)
        bracket.try_posterior(masses, pressure)
        yield bracket.gap
        costs = problem.leaf_costs(problem.costs(masses, uniform=1e-6))
        values, node = choice_values(tree, costs, pressure, policy)
        advantage = np.clip(values - np.repeat(node, np.diff(tree.choice_start)), -_LONGEST, _LONGEST)
        step = _STEP / (1.0 + count / 200.0)
        policy = policy_of(tree, policy * np.exp(step * advantage))
        multipliers += 0.05 * (pressure - multipliers)


def _inside(problem: HistoryProblem, inner: InnerPoint, weights: FloatArray) -> FloatArray:
    """Return [choice]: the policy of given weights [choice] with a little, 1%, of every allowed choice."""
    tree = problem.tree
    even = policy_of(tree, inner.allowed.astype(np.float64))
    return 0.99 * policy_of(tree, weights) + 0.01 * even


_FIRST_STEPS, _ASCENT_STEPS = 100, 2000
_CELLS_A_SECOND = 5000  # with more of them than this in the time left, the solver would hardly begin
_LAST_SECONDS = 10.0  # for the engine to measure the policy, beyond any time limit
_AGREEMENT = 1e-9  # between the tree's value of a policy and the engine's


class HistoryStatus(Enum):
    """How a history program ended; the value is the sentence users read."""

    OPTIMAL = "optimal: no policy that sees only the states does better by more than the gap asked for"
    BRACKET = "bracketed: the optimum is proven to lie in the interval, which is wider than the gap asked for"
    STOPPED = "stopped early: the optimum is proven to lie in the interval"
    INFEASIBLE = "infeasible: no policy at all meets the task"
    NOT_FOUND = "no policy found that meets the task, though the task is not proven infeasible"


@dataclass(frozen=True, slots=True, repr=False)
class HistoryOptimum(NotebookView):
    """The optimum over all policies that see the states s_0 .. s_t, with any memory, but not the observations.

    The lower end of `value` is the exact value of a policy that meets the task, the upper end a proven bound; both are
    computed from the tree, not taken from the solver. Without a policy that meets the task `value` is None.
    """

    uncertainty: str
    value: Amount | None
    policy: Policy | None  # reaches the lower end; None where its table would be too large
    measurement: Measurement | None  # of the policy, by the engine
    returns: Mapping[str, float]  # requirement -> what the policy reaches of it
    prices: Mapping[str, float]  # requirement -> multiplier: what one more unit of its threshold costs, about
    status: HistoryStatus
    num_histories: int  # merged
    num_choices: int
    num_sequences: int  # merged, and only those that leave the secret open
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data; the policy is left out, which `opaq.save_policy` writes."""
        plain: dict[str, Any] = encode(replace(self, policy=None, measurement=None))
        measured = None if self.measurement is None else self.measurement.to_dict()
        return {name: value for name, value in plain.items() if name != "policy"} | {"measurement": measured}

    def to_dataframe(self) -> DataFrame:
        """Return one line per requirement: what the policy reaches of it, and what one more unit of it costs."""
        lines = [
            {"requirement": name, "reached": reached, "price": self.prices.get(name)}
            for name, reached in self.returns.items()
        ]
        return data_frame(lines, ("requirement", "reached", "price"))

    def __repr__(self) -> str:
        value = "none" if self.value is None else f"[{self.value.lower:.6f}, {self.value.upper:.6f}]"
        sizes = f"{self.num_histories:,} histories, {self.num_sequences:,} sequences"
        return f"HistoryOptimum({self.uncertainty} {value}, {self.status.name.lower()}, {sizes}, {self.seconds:.1f} s)"


def history_program(
    problem: Problem | str | os.PathLike[str],
    *,
    uncertainty: str = "opacity",
    max_histories: int = 20_000,
    gap: float = 1e-4,
    time_limit: float | None = None,
    stop: Stop | None = None,
) -> HistoryOptimum:
    """Bound the largest uncertainty that any policy reaches which sees s_0 .. s_t and meets the task, from both sides.

    problem: an object, the name of a file, or the name of a scenario.
    uncertainty: "opacity" (bits) or "guess_error" (probability that the best guess of the secret is wrong).
    max_histories: the most histories, after merging exchangeable ones; Clarabel takes seconds for some thousands.
    gap: the width of the interval at which the search ends.
    time_limit: seconds after which the interval so far is the answer; so it is when `stop` is requested or, without a
        stop, after Ctrl-C. A policy is measured for up to ten seconds more. Only when there is no interval yet,
        StoppedError (KeyboardInterrupt after Ctrl-C) is raised.
    stop: ends the work as `time_limit` does when the caller requests it.

    The problem's own policy class plays no part. Raises InputError when the task asks for the least opacity or for an
    endless return, BudgetError when there are too many histories, and StoppedError when there was no time for any
    interval.
    """
    deadline = Deadline(time_limit)
    choose("uncertainty", uncertainty, tuple(name for name, each in UNCERTAINTIES.items() if each.has_cone))
    limits = {
        "max_histories": (max_histories, 1, 10**9),
        "gap": (gap, 0, math.inf),
        "time_limit": (time_limit, 0, math.inf),
    }
    check_numbers(limits, whole=("max_histories",), optional=("time_limit",))
    check_types({"stop": (stop, Stop, "an opaq.Stop")}, optional=("stop",))
    loaded_problem = as_problem(problem)
    _check(loaded_problem)
    with interruptible(stop) as active_stop, active_stop.stage(deadline.left):
        product = compile_problem(loaded_problem, PolicyClass(("state",)), stop=active_stop)
        return solve_histories(
            product, uncertainty=uncertainty, max_histories=max_histories, gap=gap, deadline=deadline, stop=active_stop
        )


def solve_histories(
    product: Product, *, uncertainty: str, max_histories: int, gap: float, deadline: Deadline, stop: Stop
) -> HistoryOptimum:
    """Solve the history program of a problem that is compiled for policies that look at the state.

    deadline: of the program; when it passes, as when `stop` is requested, the interval so far is the answer.
    uncertainty, max_histories, gap and what is raised: as in `history_program`.
    """
    _check(product.problem)
    with stop.stage(deadline.left):
        search = _HistorySearch(product, UNCERTAINTIES[uncertainty], max_histories, stop)
        return search.run(gap, deadline)


def _check(problem: Problem) -> None:
    """Raise InputError where the task minimises or its return counts for ever."""
    faults = []
    if not is_plain(problem):
        finding = "is about several figures, limits some, or about an observer that assumes"
        faults.append(Fault("task", finding, "the history program has one figure: certify the problem"))
    if problem.task.minimise:
        finding = "is minimise, but the least opacity is not a convex program"
        faults.append(Fault("task.objective", finding, "the history program only maximises"))
    if problem.task.over == "forever":
        faults.append(Fault("task.over", "histories end at the horizon", "write 'over: horizon'"))
    if problem.task.when != "end":
        faults.append(Fault("task.when", "the history program is about the end of runs", "leave it out"))
    if faults:
        raise InputError(faults)
    refuse_trajectory(problem.secret)


class _HistorySearch:
    """One run: the tree, and the way from a first interval to one that is narrow enough."""

    def __init__(self, product: Product, uncertainty: Uncertainty, max_histories: int, stop: Stop) -> None:
        self._stop, self._product = stop, product
        process = product.process
        self._requirements = tuple(payoff for payoff in process.payoffs if payoff.threshold is not None)
        self._moves = HistoryChoices.of(process, self._requirements)
        tree = grow_tree(process, self._moves, self._requirements, max_histories=max_histories, stop=stop)
        likelihood, cells = observe_tree(tree, self._moves, num_secrets=process.num_secrets, stop=stop)
        self._problem = HistoryProblem(tree, likelihood, cells, uncertainty.over(self._product.secret_values))

    def run(self, gap: float, deadline: Deadline) -> HistoryOptimum:
        """Narrow the interval until the gap is reached or there is nothing left to try."""
        inner = inner_point(self._problem)
        bracket = _Bracket(self._problem, inner)
        if not inner.feasible:
            status = HistoryStatus.INFEASIBLE if inner.proven_infeasible else HistoryStatus.NOT_FOUND
            return self._optimum(bracket, status, None, deadline)
        self._begin(bracket, inner)
        self._narrow(bracket, inner, gap, deadline)
        status = HistoryStatus.OPTIMAL if bracket.gap <= gap else HistoryStatus.BRACKET
        if status is HistoryStatus.BRACKET and (self._stop.requested or deadline.passed):
            status = HistoryStatus.STOPPED
        return self._optimum(bracket, status, self._policy(bracket), deadline)

    def _begin(self, bracket: _Bracket, inner: InnerPoint) -> None:
        """Make a first interval without any search."""
        tree, nothing = self._problem.tree, np.zeros(inner.wanted.size)
        bracket.try_policy(policy_of(tree, inner.weights))
        bracket.try_policy(policy_of(tree, inner.allowed.astype(np.float64)))
        masses = self._problem.masses(bracket.weights)
        bracket.try_posterior(masses, nothing)
        blind = self._problem.costs(masses, uniform=1.0)
        bracket.try_bound(blind, nothing)  # no decoder need do worse than one that guesses blindly

    def _narrow(self, bracket: _Bracket, inner: InnerPoint, gap: float, deadline: Deadline) -> None:
        """Run the cone solver in several ways and, where none of them is enough, mirror ascent.

        Where time is limited or the program is large the solver may not get far: then a short ascent comes first.
        """
        if deadline.seconds is not None or self._problem.cells.secret.size > _CELLS_A_SECOND:
            self._ascend(bracket, inner, gap, steps=_FIRST_STEPS, deadline=deadline.part(0.25))
        for attempt in ATTEMPTS:
            if bracket.gap <= gap or self._stop.requested:
                return
            seconds = deadline.share(0.5)
            if seconds is not None and self._problem.cells.secret.size > _CELLS_A_SECOND * seconds:
                break
            parts = {"allowed": inner.allowed, "wanted": inner.wanted}
            answer = solve_cone(self._problem, attempt, **parts, seconds=seconds, stop=self._stop)
            if answer is not None:
                bracket.try_answer(answer)
        self._ascend(bracket, inner, gap, steps=_ASCENT_STEPS, deadline=deadline)

    def _ascend(self, bracket: _Bracket, inner: InnerPoint, gap: float, *, steps: int, deadline: Deadline) -> None:
        """Narrow the bracket by at most `steps` steps of mirror ascent, until gap or deadline is reached."""
        for reached in ascend(bracket, self._problem, inner, steps=steps, stop=self._stop):
            if reached <= gap or deadline.passed:
                return

    def _policy(self, bracket: _Bracket) -> Policy | None:
        """Return the policy of the bracket's lower end in the user's names; None where its table would be too large."""
        policy = policy_of(self._problem.tree, bracket.weights)
        return extract_policy(self._product, self._moves, self._problem.tree, policy)

    def _optimum(
        self, bracket: _Bracket, status: HistoryStatus, policy: Policy | None, deadline: Deadline
    ) -> HistoryOptimum:
        """Return the answer. Raises InvariantError where the bracket is empty, or the engine measures another value."""
        problem, tree = self._problem, self._problem.tree
        if bracket.upper < bracket.lower - _AGREEMENT:
            raise InvariantError(f"a policy reaches {bracket.lower:.12g}, above the bound {bracket.upper:.12g}")
        names = [payoff.name for payoff in self._requirements]
        returns = (problem.slack(bracket.weights) + tree.thresholds).tolist()
        measurement = (
            None if policy is None else _measure_policy(self._product, policy, bracket.lower, problem.uncertainty)
        )
        return HistoryOptimum(
            uncertainty=problem.uncertainty.name,
            value=Amount.between(bracket.lower, bracket.upper) if np.isfinite(bracket.lower) else None,
            policy=policy,
            measurement=measurement,
            returns=dict(zip(names, returns, strict=True)),
            prices=dict(zip(names, bracket.multipliers.tolist(), strict=True)),
            status=status,
            num_histories=tree.num_nodes,
            num_choices=tree.num_choices,
            num_sequences=problem.cells.num_groups,
            seconds=deadline.elapsed,
        )


def _measure_policy(product: Product, policy: Policy, value: float, uncertainty: Uncertainty) -> Measurement | None:
    """Return the engine's own measurement of the policy, which must agree; None where an exact one takes too long.

    value: f of the policy by the tree. Raises InvariantError where the two differ by more than 1e-9, or the policy is
    measured to miss the task.
    """
    stop = Stop()
    try:
        with stop.limit(_LAST_SECONDS):
            measurement = measure(product.problem, policy, mode="exact", sequences=0, stop=stop)
    except (BudgetError, StoppedError):
        return None
    reached = {Shannon.name: measurement.opacity, GuessError.name: measurement.guess_error}[uncertainty.name]
    if reached.method != "exact":  # time was up
        return None
    if abs(reached.value - value) > _AGREEMENT or not measurement.feasible:
        raise InvariantError(
            f"the policy of the history program measures {reached.value:.12g}, not {value:.12g}"
            f"{'' if measurement.feasible else ', and misses the task'}: an error in opaq"
        )
    return measurement


MACHINE = "history program: all state histories"
_MOST_HISTORIES = 5_000  # up to half a minute of work, which pays; beyond, other bounds are better in the same time
_FEW_HISTORIES = 1_000  # about a second of work
_LEAST_SECONDS = 0.1  # enough for some hundred histories


def climb_histories(
    ladder: BoundSearch, product: Product, deadline: Deadline, *, quick: bool = False
) -> HistoryOptimum | None:
    """Bound the policies that do not see the observations by the history program, as one step of a search.

    Returns None where it does not apply: for other policies, endless returns, uncertainties without a cone form, too
    many histories or too little time.

    product: compiled for policies that look at the state. deadline: of the program, which begins now.
    quick: whether it is only of use where it takes a second or so.
    Raises StoppedError when the ladder's stop is requested meanwhile.
    """
    task = product.problem.task
    if ladder.aware or not task.of.has_cone or task.over == "forever":
        return None
    if (deadline.seconds or 0.0) < _LEAST_SECONDS:
        return None
    try:
        optimum = solve_histories(
            product,
            uncertainty=task.of.name,
            max_histories=_FEW_HISTORIES if quick else _MOST_HISTORIES,
            gap=min(ladder.wanted / 10.0, 1e-4),
            deadline=deadline,
            stop=ladder.stop,
        )
    except (BudgetError, InputError):
        return None
    except StoppedError:
        if ladder.stop.requested:
            raise
        return None
    if optimum.value is not None:
        prices = np.array([optimum.prices.get(name, 0.0) for name in ladder.decisions.names])
        ladder.take(Proof(optimum.value.upper, prices), MACHINE)
        ladder.note(BoundStep(MACHINE, optimum.num_histories, 1, ladder.bound, False, deadline.elapsed))
    return optimum
