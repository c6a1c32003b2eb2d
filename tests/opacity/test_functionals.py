"""Every figure by the same methods: values, slopes, frozen graphs, estimates, softness and limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from opaq.beliefs.graph import STEP, Budget
from opaq.model.uncertainty import GuessError, Guesswork, Shannon, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.functionals import Functional, Leaf, Least, Limit, Linear, Mix
from opaq.product.compile import Product, compile_problem
from opaq.stop import Stop
from random_problems import random_problem

BUDGET, DIFFERENCE = Budget(), 1e-6


def _leaf(product: Product, uncertainty: Uncertainty | None = None) -> Leaf:
    return Leaf(product.process, (uncertainty or Shannon()).over(product.secret_values))


def _linear(product: Product) -> Linear:
    return Linear(product.process, product.process.payoffs[0])


FIGURES: dict[str, Callable[[Product], Functional]] = {
    "opacity": _leaf,
    "guesswork": lambda product: _leaf(product, Guesswork()),
    "guess error": lambda product: _leaf(product, GuessError()),
    "payoff": _linear,
    "mean": lambda product: Mix((_leaf(product), _linear(product)), np.array([0.7, -0.3])),
    "least": lambda product: Least((_leaf(product), _linear(product))),
    "nested": lambda product: Least((Mix((_leaf(product),), np.array([2.0])), _linear(product))),
}


def _cases(name: str, count: int = 2, *, softness: float = 0.1) -> list[tuple[Functional, np.ndarray]]:
    rng = np.random.default_rng([22, list(FIGURES).index(name)])
    products = [compile_problem(random_problem(rng, horizon=2, budget=1000)) for _ in range(count)]
    return [
        (FIGURES[name](product).soften(softness), product.process.softmax(rng.normal(size=product.process.num_slots)))
        for product in products
    ]


def _values(figure: Functional, pi: np.ndarray) -> float:
    return figure.slope(pi, budget=BUDGET, stop=Stop())[0]


@pytest.mark.parametrize("name", FIGURES)
def test_slopes_against_differences(name: str) -> None:
    for figure, pi in _cases(name):
        value, slope = figure.slope(pi, budget=BUDGET, stop=Stop())
        steps = DIFFERENCE * np.eye(pi.size)
        differences = [(_values(figure, pi + step) - _values(figure, pi - step)) / (2 * DIFFERENCE) for step in steps]
        assert np.allclose(slope, differences, atol=1e-6)
        prior, prior_slope = figure.prior(pi, stop=Stop())
        assert np.isfinite(prior)
        assert prior_slope.shape == pi.shape
        assert np.isfinite(value)


@pytest.mark.parametrize("name", FIGURES)
def test_frozen_graphs_give_the_same_far_away(name: str) -> None:
    """The policy moves to a pure one, where supports change and graphs are built anew."""
    rng = np.random.default_rng(3)
    for figure, pi in _cases(name):
        sweep, pure = figure.freeze(pi, budget=BUDGET, stop=Stop()), np.where(pi >= 0.5, 1.0, 0.0)
        for share in (1.0, 0.7, 0.0) if abs(pure.sum() - pi.sum()) < 0.1 else (1.0,):
            moved = share * pi + (1.0 - share) * pure
            expected, slope = figure.slope(moved, budget=BUDGET, stop=Stop())
            value, swept = sweep(moved)
            assert value == pytest.approx(expected, abs=1e-12)
            assert share == 0.0 or np.allclose(swept, slope, atol=1e-10)  # at the boundary slopes are not unique
        direction = rng.normal(size=pi.size)
        if figure.smooth:
            along = np.imag(sweep(pi + 1j * STEP * direction)[1]) / STEP
            step = 1e-6 * direction
            differences = (sweep(pi + step)[1] - sweep(pi - step)[1]) / 2e-6
            assert np.allclose(along, differences, atol=1e-5 * max(1.0, np.abs(differences).max()))


@pytest.mark.parametrize("name", FIGURES)
def test_estimates_are_near_and_within_the_bounds(name: str) -> None:
    for figure, pi in _cases(name, 2, softness=0.0):
        amount, _, dropped = figure.evaluate(pi, budget=BUDGET, stop=Stop())
        least, most = figure.bounds
        assert least - 1e-12 <= amount.value <= most + 1e-12
        assert dropped == 0.0
        rng = np.random.default_rng(1)
        mean = figure.estimate(pi, nodes=10_000, rng=rng, stop=Stop())
        assert mean.value == pytest.approx(_values(figure, pi), abs=1e-9)
        assert mean.standard_error == pytest.approx(0.0, abs=1e-12)
        value, error, slope = figure.sample(pi, samples=4000, rng=rng, stop=Stop())
        assert abs(value - _values(figure, pi)) <= 6.0 * error + 0.02
        assert slope.shape == pi.shape


def test_cut_graphs_enclose_the_value() -> None:
    """A budget of one belief per level leaves intervals; a negative weight turns its interval round."""
    product = compile_problem(random_problem(np.random.default_rng(5), secret="last_state", horizon=3))
    leaf, pi = _leaf(product), product.process.uniform()
    figures = [Mix((leaf, leaf), np.array([0.5, -1.5])), Least((leaf, _linear(product)))]
    for figure in figures:
        whole = figure.evaluate(pi, budget=BUDGET, stop=Stop()).amount
        cut = figure.evaluate(pi, budget=Budget(nodes=1), stop=Stop()).amount
        assert cut.lower - 1e-12 <= whole.value <= cut.upper + 1e-12
    assert leaf.evaluate(pi, budget=Budget(nodes=1), stop=Stop()).amount.method == "interval"


def test_least_is_the_smallest_and_its_weights_are_on_the_simplex() -> None:
    values = np.array([0.4, 0.1, 0.3])
    product = compile_problem(random_problem(np.random.default_rng(6)))
    least = Least((_leaf(product),) * 3)
    assert least.combine(values)[0] == 0.1
    assert least.combine(values)[1].tolist() == [0.0, 1.0, 0.0]
    for softness in (1.0, 0.1, 1e-3):
        value, weights = least.soften(softness).combine(values)
        assert 0.1 <= value <= 0.1 + softness * np.log(3.0)
        assert weights.sum() == pytest.approx(1.0)


def test_limits_take_the_worse_end() -> None:
    product = compile_problem(random_problem(np.random.default_rng(6)))
    leaf, amount = _leaf(product), Amount.between(0.2, 0.5)
    assert Limit("a", leaf, 0.3, 1.0).slack(amount) == pytest.approx(-0.1)
    assert Limit("a", leaf, 0.3, -1.0).slack(amount) == pytest.approx(-0.2)
    assert Limit("a", leaf, 0.25, -1.0).most_slack == pytest.approx(0.25)
    assert Limit("a", leaf, 0.25, 1.0).most_slack == pytest.approx(np.log2(len(product.secret_values)) - 0.25)
