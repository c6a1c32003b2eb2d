"""Compile the numerical kernels, or load them from their cache, before work begins that can be interrupted."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return, return_gradient
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.model.uncertainty import Guesswork
from opaq.opacity.exact import evaluate, gradient, hessian_vector
from opaq.opacity.sampled import estimate, policy_slope
from opaq.product.compile import compile_problem


def compile_kernels(*, derivatives: bool = False) -> None:
    """Run every kernel once on a problem with two states, so that later calls find it compiled.

    derivatives: also those that solvers need. Takes half a minute the first time on a machine, about a second later.
    """
    mdp = MDP(
        states=("x", "y"),
        actions=("a", "b"),
        start=floats([0.5, 0.5]),
        choice_start=ints([0, 2, 4]),
        choice_action=ints([0, 1, 0, 1]),
        transitions=SparseRows.from_dense([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]),
        rewards=floats([1, 1, 0, 0]),
        labels={},
    )
    observer = Observer(("u", "v"), SparseRows.from_dense([[0.7, 0.3], [0.4, 0.6]]))
    process = compile_problem(Problem(mdp, observer, LastState(StateClasses(("x", "y"), ints([0, 1]))), 2)).process
    pi = process.uniform()
    other = Guesswork().over(("x", "y"))
    evaluate(process, pi, leaves=(other,))
    expected_return(process, pi)
    estimate(process, pi, samples=2, rng=np.random.default_rng(0))
    if derivatives:
        theta = np.zeros(process.num_slots)
        gradient(process, theta)
        gradient(process, theta, leaf=other)
        policy_slope(process, pi, samples=2, rng=np.random.default_rng(0))
        graph = FrozenGraph.of(process, pi, budget=Budget())
        graph.sweep(pi, graph.buffers())
        graph = FrozenGraph.of(process, pi, budget=Budget(), leaf=other)
        graph.sweep(pi, graph.buffers())
        hessian_vector(process, theta, theta + 1.0)
        return_gradient(process, theta)
        return_gradient(process, theta + 0j)
