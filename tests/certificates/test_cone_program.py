"""The program that is written for Clarabel against the same program stated in cvxpy, and against its own definition."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cvxpy
import numpy as np
import pytest

import opaq
from opaq.certificates.history.cone import ATTEMPTS, Attempt, ConeAnswer, solve_cone
from opaq.certificates.history.tree import HistoryChoices, grow_tree, observe_tree
from opaq.certificates.history.weights import HistoryProblem, InnerPoint, choice_values, inner_point
from opaq.model.policy import PolicyClass
from opaq.model.problem import Task
from opaq.model.uncertainty import UNCERTAINTIES, Cells
from opaq.product.compile import compile_problem
from opaq.stop import Stop
from random_problems import random_problem
from trials import part_of

TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def state_program(problem: opaq.Problem, uncertainty: str) -> HistoryProblem:
    """The history program of a problem."""
    product = compile_problem(problem, PolicyClass(("state",)))
    process = product.process
    requirements = tuple(payoff for payoff in process.payoffs if payoff.threshold is not None)
    choices = HistoryChoices.of(process, requirements)
    tree = grow_tree(process, choices, requirements, max_histories=10**4, stop=Stop())
    likelihood, cells = observe_tree(tree, choices, num_secrets=process.num_secrets, stop=Stop())
    return HistoryProblem(tree, likelihood, cells, UNCERTAINTIES[uncertainty].over(product.secret_values))


def solve(program: HistoryProblem, inner: InnerPoint, attempt: Attempt = ATTEMPTS[0]) -> ConeAnswer:
    answer = solve_cone(program, attempt, allowed=inner.allowed, wanted=inner.wanted, seconds=None, stop=Stop())
    assert answer is not None
    return answer


def raise_thresholds(program: HistoryProblem) -> HistoryProblem:
    """Ask for more than the policy reaches that hides most: half of the way to the most that any policy reaches."""
    tree = program.tree
    reached = program.slack(solve(program, inner_point(program)).weights) + tree.thresholds
    nothing = np.zeros(tree.secret.size)
    most = np.array([tree.start @ choice_values(tree, nothing, unit)[1] for unit in np.eye(reached.size)])
    return replace(program, tree=replace(tree, thresholds=0.5 * (reached + most)))


def bound(program: HistoryProblem, slopes: np.ndarray, multipliers: np.ndarray) -> float:
    """What slopes of f and multipliers prove."""
    costs = program.uncertainty.nearest_costs(slopes, program.cells)
    return program.upper_bound(costs, np.maximum(multipliers, 0.0))


def solve_in_cvxpy(program: HistoryProblem, inner: InnerPoint) -> tuple[float, float]:
    """The optimum, and what the multipliers prove."""
    tree, cells, wanted = program.tree, program.cells, inner.wanted
    weights = cvxpy.Variable(tree.num_choices, nonneg=True)
    masses = cvxpy.Variable(cells.secret.size)
    node = tree.node_of_choice()
    out = np.zeros((tree.num_nodes, tree.num_choices))
    out[node, np.arange(node.size)] = 1.0
    leaves = out[tree.leaves]
    linked = masses == (program.likelihood @ leaves) @ weights
    by_group = np.eye(cells.num_groups)[cells.group]
    if program.uncertainty.name == "opacity":
        value = -cvxpy.sum(cvxpy.rel_entr(masses, by_group @ (by_group.T @ masses))) / np.log(2.0)
        constraints = []
    else:
        largest = cvxpy.Variable(cells.num_groups)
        value, constraints = cvxpy.sum(masses) - cvxpy.sum(largest), [by_group @ largest >= masses]
    constraints += [linked, (out - tree.ahead().T.toarray()) @ weights == tree.start]
    if not inner.allowed.all():
        constraints.append(weights[np.flatnonzero(~inner.allowed)] == 0)
    reached = tree.rewards[:, wanted].T @ weights >= tree.thresholds[wanted]
    stated = cvxpy.Problem(cvxpy.Maximize(value), constraints + ([reached] if wanted.any() else []))
    optimum = stated.solve(solver=cvxpy.CLARABEL, **TIGHT)
    multipliers = np.zeros(wanted.size)
    if wanted.any():
        multipliers[wanted] = reached.dual_value
    return float(optimum), bound(program, linked.dual_value, multipliers)


@pytest.mark.parametrize("uncertainty", ["opacity", "guess_error"])
@pytest.mark.parametrize("attempt", ATTEMPTS[:2], ids=["plain", "scaled"])
def test_cvxpy_finds_the_same_optimum_and_proves_the_same_bound(uncertainty: str, attempt: Attempt) -> None:
    compared = priced = 0
    for number in part_of(range(30), 15):
        problem = random_problem(np.random.default_rng([number, 31]), watches_actions=number % 3 == 0)
        program = raise_thresholds(state_program(replace(problem, task=Task(-100.0)), uncertainty))
        inner = inner_point(program)
        if not inner.feasible or inner.faces:  # without room the bound needs more than the solver's multipliers
            continue
        answer = solve(program, inner, attempt)
        if answer.status != "Solved":  # Clarabel gives up on one of them in units: the other attempts are for that
            continue
        optimum, proven = solve_in_cvxpy(program, inner)
        assert program.value(np.maximum(answer.weights, 0.0)) == pytest.approx(optimum, abs=1e-7), number
        assert program.masses(answer.weights) == pytest.approx(answer.masses, abs=1e-8), number
        ours = bound(program, answer.slopes, answer.multipliers)
        assert ours >= optimum - 1e-9, number
        assert ours == pytest.approx(proven, abs=1e-6), number
        compared += 1
        priced += bool(answer.multipliers.max(initial=0.0) > 1e-3)
    assert compared >= 10
    assert priced >= 2


@pytest.mark.parametrize("uncertainty", [name for name, each in UNCERTAINTIES.items() if each.has_cone])
def test_a_cone_form_has_the_uncertainty_as_its_maximum(uncertainty: str) -> None:
    """Any x in the cones is below f, and the best auxiliary variables reach it."""
    cells = Cells.of(np.array([0, 1, 3, 6]), np.array([1, 0, 2, 0, 1, 2]))
    one, rng = UNCERTAINTIES[uncertainty].over(("a", "b", "c")), np.random.default_rng(0)
    unit = rng.uniform(0.1, 3.0, size=3)
    form = one.cone_form(cells, unit)
    for _ in range(5):
        masses = rng.random(6)
        variables = cvxpy.Variable(form.objective.size)
        rows = form.rows @ variables
        linear = form.rows.shape[0] - 3 * form.num_exponential
        constraints = [variables[:6] == masses]
        if linear:
            constraints.append(rows[:linear] >= 0)
        if form.num_exponential:
            constraints.append(cvxpy.ExpCone(rows[linear::3], rows[linear + 1 :: 3], rows[linear + 2 :: 3]))
        best = cvxpy.Problem(cvxpy.Maximize(form.objective @ variables), constraints).solve(
            solver=cvxpy.CLARABEL, **TIGHT
        )
        assert best == pytest.approx(one.total(masses * unit[cells.group], cells), abs=1e-8)


def test_cvxpy_is_an_oracle_of_the_tests_alone() -> None:
    for file in Path(opaq.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "cvxpy" not in text, file
        top = [each for each in ast.parse(text).body if isinstance(each, ast.Import | ast.ImportFrom)]
        assert not any("clarabel" in ast.unparse(each) for each in top), file


def test_the_optimum_needs_no_optional_part() -> None:
    """`opaq certify` on the graph, in a process where no package of an extra can be imported."""
    code = """
import sys
for name in ("cvxpy", "stormpy", "gymnasium", "pandas", "pyarrow", "ray"):
    sys.modules[name] = None
from opaq.cli.interrupts import run
sys.argv = ["opaq", "certify", "graph", "--json"]
run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    certificate = json.loads(done.stdout)
    assert "optimum" in certificate["status"]
    assert certificate["upper_bound"] == pytest.approx(1.185045462, abs=1e-4)
