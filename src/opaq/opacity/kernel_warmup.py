"""Compile the numerical kernels, or load them from their cache, before work begins that can be interrupted."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.evaluation import PolicyEvaluator
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return, return_gradient
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.model.uncertainty import Guesswork
from opaq.opacity.exact import evaluate, gradient
from opaq.product.compile import compile_problem
from opaq.stop import Stop


def compile_kernels(*, derivatives: bool = False) -> None:
    """Run the kernels that every measurement needs on a tiny problem, so that later calls find them compiled.

    derivatives: also those that searches need. Kernels for rarer work (other uncertainties than opacity, Hessians of
    graphs whose shape does not fit) are compiled when they are first called.
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
    evaluate(process, pi, leaves=(Guesswork().over(("x", "y")),))
    expected_return(process, pi)
    if derivatives:
        theta = np.zeros(process.num_slots)
        gradient(process, theta)
        graph = FrozenGraph.of(process, pi, budget=Budget())
        PolicyEvaluator(graph, process.payoffs).evaluate(pi, stop=Stop())
        graph.sweep(pi + 0j, graph.buffers(np.complex128))
        return_gradient(process, theta)
        return_gradient(process, theta + 0j)
