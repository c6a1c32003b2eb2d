"""The history program as a cone program for Clarabel: a source of candidates, not of proofs.

    maximise f(q) over w >= 0   subject to
    sum_a w(h, a) - sum over (h', a') of w(h', a') P(h | h', a') = start(h)   at every history h,
    q(y, z) = sum over leaves h with secret z of P(y | h) sum_a w(h, a),      rewards . w >= thresholds.

w(h, a) is the probability that history h occurs and a is chosen there. The uncertainty itself writes f in exponential
cones (entropy) or linear rows (guess error). Comes in: a `HistoryProblem`. Goes out: the solver's weights, its
slopes of f by the masses and its multipliers, all with the solver's own errors: `weights` turns the first into a policy
that is evaluated exactly, and the others into a bound that holds whatever numbers were returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep
from typing import Any

import numpy as np

from opaq.certificates.history.weights import HistoryProblem, inflow, weights_of
from opaq.model.arrays import BoolArray, FloatArray
from opaq.stop import Stop

_TIGHT = 1e-10  # tolerances asked of Clarabel at first
_LOOSE = 1e-7
_SMALLEST_UNIT = 1e-30
# Clarabel's own choice for large programs, faer, is slower per step on these; steps beyond the sixtieth gain next to
# nothing (docs/decisions/0011).
_SETTINGS = {"verbose": False, "direct_solve_method": "qdldl", "max_iter": 60}


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


def solve_cone(
    problem: HistoryProblem,
    attempt: Attempt,
    *,
    allowed: BoolArray,
    wanted: BoolArray,
    seconds: float | None,
    stop: Stop,
) -> ConeAnswer | None:
    """Solve the program by Clarabel and return its numbers in the units of the problem; None where they are not finite.

        minimise c . x   subject to   A x + s = b,   s in cones,   with multipliers z.

    x are the weights, the masses and the auxiliary variables of the uncertainty's cone form. With unit u of a choice, v
    of a node and g of a group, x has w / u and q / g, rows of the flow are divided by v, and requirements by their
    largest coefficient. z are the slopes of the maximum, -c . x, by b: those of q - joint w = 0 are the slopes of f by
    the masses; those of -rewards . w <= -thresholds are the multipliers of the requirements, which are not negative.

    attempt: units and settings of the solver.
    allowed: [choice] choices that may have weight. wanted: [requirement] those that are put to the solver.
    seconds: for the solver, None for no limit. stop: polled between its iterations.
    """
    from scipy.sparse import block_array, csr_array, eye_array

    tree, kept = problem.tree, np.flatnonzero(allowed)
    unit, node_unit, group_unit = _units(problem, attempt.scaled)
    flow, start = _flow(problem, unit, node_unit, kept)
    joint = _joint(problem, unit, group_unit)[:, kept]
    rewards = (tree.rewards[kept] * unit[kept, None])[:, wanted].T
    largest = np.abs(rewards).max(axis=1, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0)
    form = problem.uncertainty.cone_form(problem.cells, group_unit)
    num_cells, num_variables = problem.cells.secret.size, form.objective.size
    rows = [
        [flow, None],
        [-joint, eye_array(num_cells, num_variables)],
        [csr_array(-rewards / scale[:, None]), None],
        [-eye_array(kept.size), None],
        [None, -form.rows],
    ]
    solution = _run(
        objective=-np.concatenate([np.zeros(kept.size), form.objective]),
        rows=block_array(rows, format="csc"),
        bounds=np.concatenate(
            [start, np.zeros(num_cells), -tree.thresholds[wanted] / scale, np.zeros(kept.size + form.rows.shape[0])]
        ),
        num_equalities=tree.num_nodes + num_cells,
        num_exponential=form.num_exponential,
        settings=attempt.settings | ({} if seconds is None else {"time_limit": max(seconds, 0.01)}),
        stop=stop,
    )
    scaled_weights, masses, _ = np.split(np.array(solution.x), [kept.size, kept.size + num_cells])
    _, slopes, prices, _ = np.split(np.array(solution.z), np.cumsum([tree.num_nodes, num_cells, scale.size]))
    if not all(np.isfinite(each).all() for each in (scaled_weights, masses, slopes, prices)):
        return None
    weights, multipliers = np.zeros(tree.num_choices), np.zeros(wanted.size)
    weights[kept] = scaled_weights * unit[kept]
    multipliers[wanted] = prices / scale
    cell_unit = group_unit[problem.cells.group]
    return ConeAnswer(weights, masses * cell_unit, slopes / cell_unit, multipliers, str(solution.status))


def _run(
    *,
    objective: FloatArray,
    rows: Any,
    bounds: FloatArray,
    num_equalities: int,
    num_exponential: int,
    settings: dict[str, Any],
    stop: Stop,
) -> Any:
    """Run Clarabel until it ends by itself or is asked to stop; return its last numbers in any case.

    objective: [variable] to be minimised. rows: sparse [row, variable], by columns. bounds: [row].
    num_equalities: of the first rows. num_exponential: of the cones whose triples are the last rows; between them are
        inequalities rows x <= bounds.
    settings: of Clarabel, by name.
    """
    import clarabel
    from scipy.sparse import csc_array

    num_rows, count = rows.shape
    num_inequalities = num_rows - num_equalities - 3 * num_exponential
    cones = [clarabel.ZeroConeT(num_equalities), clarabel.NonnegativeConeT(num_inequalities)]
    cones += [clarabel.ExponentialConeT()] * num_exponential
    chosen = clarabel.DefaultSettings()
    for name, value in (_SETTINGS | settings).items():
        setattr(chosen, name, value)
    solver = clarabel.DefaultSolver(csc_array((count, count)), objective, rows, bounds, cones, chosen)
    solver.set_termination_callback(lambda info: _stop_requested(stop))
    return solver.solve()


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
