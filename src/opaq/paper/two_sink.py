"""The two-sink example (paper, section III.A): memory pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.load import load_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import PolicyClass
from opaq.model.uncertainty import plogp
from opaq.opacity.measure import Measurement, measure_product
from opaq.paper.outcomes import ExperimentResult, Finding, row_of_measurement
from opaq.paper.settings import ReproductionSettings
from opaq.product.compile import Product, compile_problem
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TITLE = "Two sinks, last-state secret (horizon 2)"
_TIMED = PolicyClass(("state", "time"))


def run(effort: ReproductionSettings) -> ExperimentResult:
    """Markov policies against the closed form, and policies with memory."""
    problem = load_problem("two-sink")
    closed, alpha = _largest()
    markov = effort.by_default(problem)
    waiting = wait_once(compile_problem(problem, _TIMED))
    timed = effort.by_default(problem, policy_class=_TIMED)
    findings = (
        _row_of_note("paper, Markov policies", closed, f"the largest value of the closed form, at alpha = {alpha:.4f}"),
        _row_of_note("paper, a first, then b", 0.5, "finite memory"),
        row_of_measurement(
            "default solver, Markov policies",
            markov.measurement,
            seconds=markov.seconds,
            status=markov.status.name.lower(),
        ),
        row_of_measurement("a first, then b", waiting),
        row_of_measurement(
            "default solver, timed policies",
            timed.measurement,
            seconds=timed.seconds,
            note="b at time 1 with less than certainty hides more",
            status=timed.status.name.lower(),
        ),
    )
    figure = _figure(compile_problem(problem), timed.measurement.opacity.value)
    return ExperimentResult("two-sink", TITLE, findings, {"two-sink": figure})


def closed_form(alpha: FloatArray) -> FloatArray:
    """H(Z | Y) of the Markov policy with P(a | q0) = alpha (paper, section III.A)."""
    silent_secret = -(alpha**2) / 4 + alpha / 8 + 1 / 8
    silent_other = 3 * alpha**2 / 4 + alpha / 8 + 1 / 8
    return plogp(silent_secret + silent_other) - plogp(silent_secret) - plogp(silent_other)


def markov_opacity(product: Product, alpha: float) -> float:
    """The same by evaluation of the belief graph."""
    share = {("q0", "a"): alpha, ("q0", "b"): 1.0 - alpha}
    return measure_product(product, _vector(product, share)).opacity.value


def wait_once(product: Product) -> Measurement:
    """The policy "a first, then b", measured."""
    share = {("q0", 0, "a"): 1.0, ("q0", 0, "b"): 0.0, ("q0", 1, "a"): 0.0, ("q0", 1, "b"): 1.0}
    return measure_product(product, _vector(product, share))


def _vector(product: Product, share: Mapping[Any, float]) -> FloatArray:
    """The uniform policy but for the given (row, action) pairs."""
    process, actions = product.process, product.problem.mdp.actions
    keys = [(*product.rows[row], actions[product.slot_action[slot]]) for slot, row in enumerate(process.row_of_slot())]
    return np.array([share.get(key, value) for key, value in zip(keys, process.uniform(), strict=True)])


def _largest() -> tuple[float, float]:
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda alpha: -float(closed_form(np.array(alpha))), bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
    )
    return -float(found.fun), float(found.x)


def _row_of_note(source: str, opacity: float, note: str) -> Finding:
    return Finding(source, opacity, None, None, "published", None, None, None, None, note)


def _figure(product: Product, timed: float) -> Figure:
    alphas = np.linspace(0.0, 1.0, 201)
    curve = list(zip(alphas.tolist(), closed_form(alphas).tolist(), strict=True))
    marks = [(alpha, markov_opacity(product, alpha)) for alpha in np.linspace(0.0, 1.0, 21).tolist()]
    chart = Chart(
        "alpha = P(a | q0)",
        "opacity (bits)",
        [
            Line("Markov policies, closed form", curve),
            Line("Markov policies, evaluated", marks, style="marks", colour=1),
        ],
        [
            LevelLine("a first, then b (finite memory): 0.5", 0.5),
            LevelLine(f"best timed policy: {timed:.4f}", timed, colour=2),
        ],
    )
    title = "Two sinks: no Markov policy hides as much as waiting once"
    return plot_charts([chart], column="double", title=title, plot_height=2.1)
