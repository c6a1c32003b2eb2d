"""The history program as a convex program for cvxpy and Clarabel: a source of candidates, not of proofs.

    maximise f(q) over w >= 0   subject to
    sum_a w(h, a) - sum over (h', a') of w(h', a') P(h | h', a') = start(h)   at every history h,
    q(y, z) = sum over leaves h with secret z of P(y | h) sum_a w(h, a),      rewards . w >= thresholds.

w(h, a) is the probability that history h occurs and a is chosen there. f is written in exponential cones (entropy) or
linear ones (guess error) by the uncertainty itself. Comes in: a `HistoryProblem`. Goes out: the solver's weights, its
slopes of f by the masses and its multipliers, all with the solver's own errors: `weights` turns the first into a policy
that is evaluated exactly, and the others into a bound that holds whatever numbers were returned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np

from opaq.certificates.history.weights import HistoryProblem, inflow, weights_of
from opaq.errors import OpaqError
from opaq.model.arrays import BoolArray, FloatArray
from opaq.stop import Stop

_TIGHT = 1e-10  # tolerances asked of Clarabel at first
_LOOSE = 1e-7
_SMALLEST_UNIT = 1e-30


@dataclass(frozen=True, slots=True, eq=False)
class ConeAnswer:
    """What the solver returned, whatever it says of it: weights, multipliers and the slopes of the uncertainty."""

    weights: FloatArray  # [choice]
    masses: FloatArray  # [cell], as the solver sees them: small where an interior point leaves them small
    slopes: FloatArray  # [cell]
    multipliers: FloatArray  # [requirement]
    status: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to put the program to the solver."""

    scaled: bool  # weights and cells in units of what the uniform policy gives them
    settings: dict[str, Any]


ATTEMPTS = (
    Attempt(False, {"tol_gap_abs": _TIGHT, "tol_gap_rel": _TIGHT, "tol_feas": _TIGHT}),
    Attempt(True, {"tol_gap_abs": _TIGHT, "tol_gap_rel": _TIGHT, "tol_feas": _TIGHT}),
    Attempt(True, {"tol_gap_abs": _LOOSE, "tol_gap_rel": _LOOSE, "tol_feas": _LOOSE, "max_step_fraction": 0.9}),
)


def require_convex() -> None:
    """Raise OpaqError where the extra is not installed."""
    try:
        import clarabel  # noqa: F401
        import cvxpy  # noqa: F401
    except ImportError as missing:
        raise OpaqError(f"the history program needs {missing.name}: pip install 'opaq[convex]'") from missing


def solve_cone(
    problem: HistoryProblem,
    attempt: Attempt,
    *,
    allowed: BoolArray,
    wanted: BoolArray,
    seconds: float | None,
    stop: Stop,
) -> ConeAnswer | None:
    """Solve the program by Clarabel and return its numbers; None where it returns none.

        maximise f(masses) over weights w >= 0 of choices with
        flow: out(h) - sum over (h', a') of w(h', a') P(h | h', a') = start(h) at every node h,
        masses = likelihood x (weights at the leaves), rewards . w >= thresholds.

    attempt: units and settings of the solver.
    allowed: [choice] choices that may have weight. wanted: [requirement] those that are put to the solver.
    seconds: for the solver, None for no limit. stop: polled between its iterations.
    """
    program = _Program(problem, attempt.scaled, allowed, wanted)
    settings = dict(attempt.settings) | ({} if seconds is None else {"time_limit": max(seconds, 0.01)})
    return program.solve(settings, stop)


class _Program:
    """The program in cvxpy's terms, in units that make its numbers of similar size.

    With unit u of a choice, v of a node and g of a group, the solver sees w / u, rows of the flow divided by v and
    masses divided by g. f is positively homogeneous, so that it is taken of the scaled masses and multiplied by g per
    group.
    """

    def __init__(self, problem: HistoryProblem, scaled: bool, allowed: BoolArray, wanted: BoolArray) -> None:
        """State the program for the choices that are allowed and the requirements that are wanted.

        scaled: use units (`_units`). allowed: [choice]. wanted: [requirement].
        """
        import cvxpy

        self._problem, self._allowed, self._wanted = problem, allowed, wanted
        self._unit, node_unit, self._group_unit = _units(problem, scaled)
        kept = np.flatnonzero(allowed)
        self._weights = cvxpy.Variable(kept.size, nonneg=True)
        self._masses = cvxpy.Variable(problem.cells.secret.size)
        flow, start = _flow(problem, self._unit, node_unit, kept)
        joint = _joint(problem, self._unit, self._group_unit)[:, kept]
        self._linked = self._masses == joint @ self._weights
        value, belonging = problem.uncertainty.expression(problem.cells, self._masses, self._group_unit)
        self._scale, self._reached = self._requirements(kept)
        constraints = [flow @ self._weights == start, self._linked, *belonging, *self._reached]
        self._program = cvxpy.Problem(cvxpy.Maximize(value), constraints)

    def _requirements(self, kept: Any) -> tuple[FloatArray, list[Any]]:
        """Return [wanted] the largest coefficient of each requirement, and the requirements in units of it.

        kept: the choices that are allowed, ascending.
        """
        rewards = (self._problem.tree.rewards[kept] * self._unit[kept, None])[:, self._wanted].T
        largest = np.abs(rewards).max(axis=1, initial=0.0)
        scale = np.where(largest > 0.0, largest, 1.0)
        if not scale.size:
            return scale, []
        thresholds = self._problem.tree.thresholds[self._wanted]
        return scale, [(rewards / scale[:, None]) @ self._weights >= thresholds / scale]

    def solve(self, settings: dict[str, Any], stop: Stop) -> ConeAnswer | None:
        """Run the solver once and return its numbers; None where it fails or returns no finite weights.

        settings: of Clarabel. Its warnings are not the user's, and are dropped.
        """
        import cvxpy

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data, chain, inverse = self._program.get_problem_data(cvxpy.CLARABEL, solver_opts=settings)
                self._program.unpack_results(_run(data, settings, stop), chain, inverse)
            except (cvxpy.error.SolverError, ValueError, ArithmeticError):
                return None
        if self._weights.value is None or not np.isfinite(self._weights.value).all():
            return None
        return self._answer()

    def _answer(self) -> ConeAnswer:
        """Return the solver's numbers in the units of the problem.

        Weights are multiplied by u, masses by g; slopes are divided by g, multipliers by the scale of their
        requirement.
        """
        problem, kept = self._problem, np.flatnonzero(self._allowed)
        weights = np.zeros(problem.tree.num_choices)
        weights[kept] = self._weights.value * self._unit[kept]
        unit = self._group_unit[problem.cells.group]
        multipliers = np.zeros(self._wanted.size)
        if self._reached and self._reached[0].dual_value is not None:
            multipliers[self._wanted] = np.abs(np.atleast_1d(self._reached[0].dual_value)) / self._scale
        dual = self._linked.dual_value
        slopes = np.zeros(unit.size) if dual is None else np.asarray(dual) / unit
        return ConeAnswer(weights, self._masses.value * unit, slopes, multipliers, str(self._program.status))


def _run(data: dict[str, Any], settings: dict[str, Any], stop: Stop) -> SimpleNamespace:
    """Run Clarabel on cvxpy's data until it ends by itself or is asked to stop; return its last numbers in any case.

    data: cvxpy's c, A, b and dimensions of the cones: minimise c . x with b - A x in the cones. settings: by name.

    cvxpy drops the numbers of a run that failed. They are candidates like any others, so such a run is presented as
    one that ran out of time.
    """
    import clarabel
    from scipy.sparse import csc_array

    dims, count = data["dims"], data["c"].size
    cones = [clarabel.ZeroConeT(dims.zero), clarabel.NonnegativeConeT(dims.nonneg)]
    cones += [clarabel.ExponentialConeT()] * dims.exp
    chosen = clarabel.DefaultSettings()
    for name, value in ({"verbose": False} | settings).items():
        setattr(chosen, name, value)
    solver = clarabel.DefaultSolver(csc_array((count, count)), data["c"], data["A"], data["b"], cones, chosen)
    solver.set_termination_callback(lambda info: _stop_requested(stop))
    raw = solver.solve()
    status = str(raw.status) if str(raw.status) in ("Solved", "AlmostSolved") else "MaxTime"
    kept = {name: getattr(raw, name) for name in ("x", "z", "obj_val", "solve_time", "iterations")}
    return SimpleNamespace(status=status, **kept)


def _stop_requested(stop: Stop) -> bool:
    """Return whether to stop; other threads, which may be the ones that ask, get a turn first."""
    sleep(1e-4)
    return stop.requested


def _units(problem: HistoryProblem, scaled: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return [choice], [node], [group]: what the uniform policy gives each, at least 1e-30.

    1 where nothing is scaled.
    """
    tree, cells = problem.tree, problem.cells
    if not scaled:
        return np.ones(tree.num_choices), np.ones(tree.num_nodes), np.ones(cells.num_groups)
    counts = np.diff(tree.choice_start)
    weights = weights_of(tree, np.repeat(1.0 / counts, counts))
    totals = np.bincount(cells.group, weights=problem.masses(weights), minlength=cells.num_groups).astype(np.float64)
    of_choice, of_node, of_group = (np.maximum(one, _SMALLEST_UNIT) for one in (weights, inflow(tree, weights), totals))
    return of_choice, of_node, of_group


def _flow(problem: HistoryProblem, unit: FloatArray, node_unit: FloatArray, kept: Any) -> tuple[Any, FloatArray]:
    """Return sparse [node, choice] what flows out less what flows in, and [node] the start, both in units.

    unit: [choice]. node_unit: [node]. kept: the choices that are allowed, which are the columns.
    """
    from scipy.sparse import csr_array, diags_array

    tree = problem.tree
    node = tree.node_of_choice()
    out = csr_array((np.ones(node.size), (node, np.arange(node.size))), shape=(tree.num_nodes, node.size))
    balance = diags_array(1.0 / node_unit) @ (out - tree.ahead().T) @ diags_array(unit)
    return csr_array(balance)[:, kept], tree.start / node_unit


def _joint(problem: HistoryProblem, unit: FloatArray, group_unit: FloatArray) -> Any:
    """Return sparse [cell, choice]: P(y, z) per unit of weight of a choice at a leaf. unit: [choice].

    group_unit: [group].
    """
    from scipy.sparse import csr_array, diags_array

    tree = problem.tree
    last = tree.choices_at(tree.times[-1])
    count = last.stop - last.start
    leaf = tree.node_of_choice()[last] - tree.leaves.start
    entries = (leaf, np.arange(last.start, last.stop))
    ends = csr_array((np.ones(count), entries), shape=(tree.secret.size, tree.num_choices))
    rows = diags_array(1.0 / group_unit[problem.cells.group])
    return csr_array(rows @ problem.likelihood @ ends @ diags_array(unit))
