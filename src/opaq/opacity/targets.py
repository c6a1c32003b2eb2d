"""What the task of a compiled problem is about, and what it limits, as functionals of the policy vector.

A figure is a pair of a secret and an observer: the uncertainty of an observer who knows model and policy, or the
cross-entropy of one that assumes. A task maximises one of them, the weighted mean or the least of several, and may
limit others, or how far what an observer sees is from what a reference policy shows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opaq.model.arrays import SparseRows
from opaq.model.figures import Assumption, CovertLimit, FigureLimit, Pair, UncertaintyLimit
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Task
from opaq.model.uncertainty import GuessError, Shannon, Uncertainty
from opaq.opacity.assumed import EXCLUDED_BITS, assumed_filter, believer, final_payoff
from opaq.opacity.functionals import Functional, Least, Limit, Linear, Mix, figure_of
from opaq.opacity.levels import Levels
from opaq.opacity.policies import RETURN_OPTIMAL, as_policy
from opaq.product.compile import Product
from opaq.product.process import Payoff


def target_pairs(problem: Problem) -> tuple[Pair, ...]:
    """Return the pairs that the task is about, by their names: those that it states, or that of the problem."""
    return tuple(map(problem.complete, problem.task.pairs)) or (Pair(problem.of, problem.for_),)


def is_plain(problem: Problem) -> bool:
    """Return whether a task is about the one uncertainty of the problem's own pair, without limits on figures."""
    pairs, own = target_pairs(problem), [(problem.of, problem.for_)]
    assuming = any(pair.for_ in problem.assumptions for pair in pairs)
    return [(pair.of, pair.for_) for pair in pairs] == own and not problem.task.limits and not assuming


def target_of(product: Product) -> Functional:
    """Return the figure that the task of a compiled problem is about.

    Raises BudgetError where the filter of an observer that assumes is too large.
    """
    task, pairs = product.problem.task, target_pairs(product.problem)
    figures = tuple(pair_figure(product, pair.of, pair.for_, task) for pair in pairs)
    if len(figures) == 1:
        return figures[0]
    return Least(figures) if task.taken == "least" else Mix(figures, pair_weights(pairs))


def pair_weights(pairs: tuple[Pair, ...]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return [pair]: the weights of a mean, which sum to 1."""
    weights = np.array([pair.weight for pair in pairs])
    return np.asarray(weights / weights.sum())


def pair_figure(product: Product, of: str, for_: str, task: Task) -> Functional:
    """Return the figure of a secret and an observer, by their names, as a task asks for it."""
    if for_ not in product.problem.assumptions:
        return figure_of(product.view(of, for_), task)
    assuming = believer(product, of, for_)
    return Linear(assuming.process, assuming.guess_error if isinstance(task.of, GuessError) else assuming.cross_entropy)


def limits_of(product: Product) -> tuple[Limit, ...]:
    """Return the requirements on figures of the task of a compiled problem; each is made once."""
    limits = product.problem.task.limits
    for limit in limits:
        if limit not in product.extras:
            product.extras[limit] = _limit(product, limit)
    return tuple(product.extras[limit] for limit in limits)


def _limit(product: Product, limit: FigureLimit) -> Limit:
    """Return a requirement on a figure."""
    problem = product.problem
    if isinstance(limit, CovertLimit):
        for_ = problem.complete(Pair(problem.of, limit.for_)).for_
        like = "the reference" if isinstance(limit.like, Policy) else limit.like.replace("_", "-")
        whom = f" for {for_}" if len(problem.observers) > 1 else ""
        return Limit(f"relative entropy to {like}{whom}", _covert(product, limit, for_), limit.threshold, -1.0)
    assert isinstance(limit, UncertaintyLimit)
    pair = problem.complete(Pair(limit.of, limit.for_))
    figure = pair_figure(product, pair.of, pair.for_, Task())
    sign = 1.0 if limit.direction == "at_least" else -1.0
    return Limit(figure_title(problem, pair), figure, limit.threshold, sign)


def covert_references(problem: Problem) -> list[Policy]:
    """Return the policies that covert limits of the task refer to, but for the uniform one: they meet these limits."""
    plain = replace(problem, task=Task(), assumptions={})
    stated = [limit.like for limit in problem.task.limits if isinstance(limit, CovertLimit) and limit.like != "uniform"]
    return [as_policy(RETURN_OPTIMAL if like == "return_optimal" else like, plain) for like in stated]


def figure_title(problem: Problem, pair: Pair, uncertainty: Uncertainty | None = None) -> str:
    """Return a figure in words: "opacity of goal for street", without names that are the only ones.

    uncertainty: how it is measured; in bits unless given.
    """
    of = uncertainty or Shannon()
    kind = "cross-entropy" if pair.for_ in problem.assumptions and isinstance(of, Shannon) else of.title
    secret = f" of {pair.of}" if len(problem.secrets) > 1 else ""
    return f"{kind}{secret}{f' for {pair.for_}' if len(problem.observers) > 1 else ''}"


def target_title(problem: Problem) -> str:
    """Return what the task is about in words: a figure, the least or the mean of several."""
    pairs = target_pairs(problem)
    titles = [figure_title(problem, pair, problem.task.of) for pair in pairs]
    if len(pairs) == 1:
        return titles[0]
    if problem.task.taken == "mean" and len({pair.weight for pair in pairs}) > 1:
        shares = pair_weights(pairs).tolist()
        titles = [f"{share:.3g} {title}" for share, title in zip(shares, titles, strict=True)]
    return f"{problem.task.taken} of {', '.join(titles[:-1])} and {titles[-1]}"


def _covert(product: Product, limit: CovertLimit, for_: str) -> Functional:
    """Return D(P(Y) || P_like(Y)) = E[-log2 P_like(Y)] - H(Y) of what an observer sees, in bits.

    Infinite where something is seen that never is under the reference.
    """
    problem, of = product.problem, product.problem.of
    filter = assumed_filter(problem, Assumption(limit.like), of=of, for_=for_, bits=True)
    view = product.view(of, for_, assumed=filter.graph)
    process, node = view.process, view.beliefs
    assert node is not None
    lost = node == filter.impossible
    bits = np.where(lost, EXCLUDED_BITS, filter.bits[node])
    counts = np.diff(process.row_start)[process.row]  # every action of a state pays the same
    state = np.repeat(np.arange(process.num_states), counts)
    begin = np.cumsum(counts) - counts
    slot = np.arange(state.size) - np.repeat(begin - process.row_start[process.row], counts)
    paid = SparseRows.from_entries(state, slot, bits[state], shape=(process.num_states, process.num_slots))
    cost = Payoff("bits of the reference", paid, np.zeros(process.num_states), 1.0, None)
    seen = Linear(process, cost, final_payoff(process, "impossible", lost))
    return Mix((seen, Levels.outputs(product.view(of, for_).process)), np.array([1.0, -1.0]))
