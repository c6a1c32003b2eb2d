"""Compile the numerical kernels, or load them from their cache, before work begins that can be interrupted.

Compiling holds the interpreter's lock, so threads cannot share it, but processes can: an assistant, a second process,
compiles the kernels of a search from the last to the first and keeps them in the cache, where this process finds them
when it comes to them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from opaq.beliefs.dynamic_program import largest_return
from opaq.beliefs.evaluation import PolicyEvaluator
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.returns import expected_return, return_gradient
from opaq.beliefs.unroll import unroll
from opaq.kernel_cache import announce_compiling
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.model.uncertainty import Guesswork
from opaq.opacity.exact import evaluate, gradient
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Stop


def compile_kernels(
    *, derivatives: bool = False, processes: int = 1, announce: Callable[[], None] = lambda: None
) -> None:
    """Run the kernels that every measurement needs on a tiny problem, so that later calls find them compiled.

    derivatives: also those that searches need. Kernels for rarer work (other uncertainties than opacity, Hessians of
        graphs whose shape does not fit) are compiled when they are first called.
    processes: with more than 1, an assistant compiles a part of what searches need, where anything is to be compiled.
    announce: called before the first kernel is compiled; not at all where machine code of all of them is kept.
    """
    process, assistants = _tiny_process(), list[subprocess.Popen[bytes]]()

    def begin() -> None:
        announce()
        if derivatives and processes > 1:
            with suppress(OSError):  # no process can be started: this one compiles all
                assistants.append(_start_assistant())

    with announce_compiling(begin), _end_all(assistants):
        unroll(Chain.of(process, process.uniform()), steps=process.horizon)
        for assistant in assistants:
            _let_go_on(assistant)
        evaluate(process, process.uniform(), leaves=(Guesswork().over(("x", "y")),))
        expected_return(process, process.uniform())
        if derivatives:
            for step in (*_graph_steps(process), *_payoff_steps(process)):
                step()


def _tiny_process() -> HiddenProcess:
    """Return the process of a problem with two states and two observations, after two steps."""
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
    return compile_problem(Problem(mdp, observer, LastState(StateClasses(("x", "y"), ints([0, 1]))), 2)).process


def _graph_steps(process: HiddenProcess) -> tuple[Callable[[], object], ...]:
    """Return calls of the kernels of derivatives that need a belief graph: an iteration, gradients, Hessians."""
    pi, theta = process.uniform(), np.zeros(process.num_slots)

    def graph() -> FrozenGraph:
        return FrozenGraph.of(process, pi, budget=Budget())

    return (
        lambda: PolicyEvaluator(graph(), process.payoffs).evaluate(pi, stop=Stop()),
        lambda: gradient(process, theta),
        lambda: graph().sweep(pi + 0j, graph().buffers(np.complex128)),
    )


def _payoff_steps(process: HiddenProcess) -> tuple[Callable[[], object], ...]:
    """Return calls of the kernels of payoffs, which need no belief graph."""
    theta = np.zeros(process.num_slots)
    return (
        lambda: largest_return(process),
        lambda: return_gradient(process, theta),
        lambda: return_gradient(process, theta + 0j),
    )


def _start_assistant() -> subprocess.Popen[bytes]:
    """Start a process that runs `assist` with the modules that this one finds."""
    program = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import assist; assist()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def assist() -> None:
    """Compile the kernels of a search from the last to the first: the work of an assistant.

    Those of belief graphs wait for a byte on stdin: it comes when the kernel that makes graphs, which takes longest, is
    in the cache; there is none when the process that started this one has ended.
    """
    process = _tiny_process()
    for step in reversed(_payoff_steps(process)):
        step()
    if sys.stdin.read(1):
        for step in reversed(_graph_steps(process)):
            step()


def _let_go_on(assistant: subprocess.Popen[bytes]) -> None:
    """Send an assistant the byte that it waits for; nothing happens if it has ended."""
    assert assistant.stdin is not None
    with suppress(OSError):
        assistant.stdin.write(b".")
        assistant.stdin.flush()


@contextmanager
def _end_all(assistants: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """End the assistants after the block: what they still compile is compiled here, too."""
    try:
        yield
    finally:
        for assistant in assistants:
            assistant.terminate()
            assistant.communicate()
