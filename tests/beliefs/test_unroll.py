"""The belief graph holds what enumeration says the observer believes: every prefix, every mass, every merge."""

from __future__ import annotations

import itertools
from collections import defaultdict
from math import comb

import numpy as np
import pytest

import opaq.beliefs.unroll as unroll_module
import oracles
from beliefs.prefix_oracle import LOST, beginning, belief_by_state, enumerate_prefixes, extreme, ordinary, walk
from opaq.beliefs import large_levels
from opaq.beliefs.graph import IMPOSSIBLE, Budget, Chain, Graph
from opaq.beliefs.leaves import evaluate_leaves, unfinished_cost
from opaq.beliefs.unroll import unroll
from opaq.errors import InputError
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.uncertainty import Guesswork, Shannon, Uncertainty
from opaq.opacity.exact import evaluate
from opaq.opacity.sampled import estimate_thinned
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.spec import build_problem
from opaq.stop import Stop

BELIEF = 1e-9  # merged beliefs agree to 4e-12 per level; enumeration adds thousands of terms
MASS = 1e-12


def build(problem: Problem, policy: Policy | None, **options: object) -> tuple[Product, Chain, Graph]:
    """The graph before the last observation, as measurements use it, with every level."""
    product = compile_problem(problem)
    chain = Chain.of(product.process, product.policy_vector(policy), named=True)
    return product, chain, unroll(chain, steps=problem.horizon, **{"keep": True, **options})


def close(shares: dict, expected: dict, total: float) -> bool:
    """Whether a distribution is the other one, which sums to `total`."""
    return all(abs(shares.get(key, 0.0) - expected.get(key, 0.0) / total) <= BELIEF for key in {*shares, *expected})


def check_graph(problem: Problem, policy: Policy | None) -> int:
    """Every prefix leads to its belief, or to where its secret is settled; returns how many were merged."""
    product, _, graph = build(problem, policy)
    walked, believed = walk(product, graph), enumerate_prefixes(problem, policy)
    mass: dict[tuple[int, int], float] = defaultdict(float)
    settled_mass = 0.0
    for prefix, truth in believed.items():
        if len(prefix) > problem.horizon:
            continue
        total, begin = truth.probability, beginning(walked, prefix)
        if begin is not None:
            settled_mass += total if begin == prefix else 0.0
            if total > LOST:
                assert close({walked.settled[begin]: 1.0}, truth.secret, total), prefix
            continue
        if prefix not in walked.node:  # too unlikely after some observation to be followed
            assert total < 2 * IMPOSSIBLE, prefix
            continue
        mass[walked.node[prefix]] += total
        if total > LOST:
            assert close(belief_by_state(product, graph, *walked.node[prefix]), truth.state, total), prefix
    assert settled_mass == pytest.approx(graph.settled_mass, abs=MASS)
    assert graph.whole
    for depth, level in enumerate(graph.levels[1:], start=1):
        for node in range(level.num_nodes):
            assert level.nodes.mass[node] == pytest.approx(mass[depth, node], abs=MASS)
    # What the graph has and enumeration has not is too small for a float.
    assert all(prefix in believed for prefix, node in walked.node.items() if mass[node] > LOST and prefix)
    return len(walked.node) - graph.num_nodes


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_prefix_leads_to_its_belief(first: int) -> None:
    assert sum(check_graph(*ordinary(number)) for number in range(first, first + 20)) > 20


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_every_prefix_leads_to_its_belief_at_extreme_probabilities(first: int) -> None:
    for number in range(first, first + 20):
        check_graph(*extreme(number))


@pytest.mark.parametrize("model", [ordinary, extreme])
def test_levels_made_at_once_end_like_those_kept_one_by_one(model) -> None:
    for number in range(30):
        problem, policy = model(number)
        _, chain, kept = build(problem, policy)
        bare = unroll(chain, steps=problem.horizon)
        assert len(bare.levels) == 1
        assert (bare.num_nodes, bare.num_entries) == (kept.num_nodes, kept.num_entries)
        assert bare.settled_mass == kept.settled_mass
        assert all(np.array_equal(one, other) for one, other in zip(bare.last, kept.last, strict=True))


def coin(horizon: int) -> Problem:
    """A coin that is heavy on one side or the other, tossed again and again: which side is the secret."""
    return build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["left", "right"],
                "actions": ["toss"],
                "start": {"left": 0.5, "right": 0.5},
                "transitions": {"left": {"toss": "left"}, "right": {"toss": "right"}},
            },
            "observer": {
                "emissions": {"left": {"heads": 0.75, "tails": 0.25}, "right": {"heads": 0.25, "tails": 0.75}}
            },
            "secret": {"last_state": {"left": "left", "right": "right"}},
            "horizon": horizon,
        }
    )


def test_sequences_with_as_many_heads_are_one_node() -> None:
    # After n tosses there are 2^n sequences, and 2n beliefs: by the number of heads and the last toss.
    product, _, graph = build(coin(12), None)
    heads = product.observations.index("heads")
    for tosses, level in enumerate(graph.levels[1:], start=1):
        assert level.num_nodes == 2 * tosses
        nodes = level.nodes
        for node in range(level.num_nodes):
            last_heads = int(nodes.observation[node] == heads)
            share = max(belief_by_state(product, graph, tosses, node).values())
            lead = round(np.log(share / (1 - share)) / np.log(3))  # |heads - tails|
            masses = []
            for count in {(tosses + lead) // 2, (tosses - lead) // 2}:
                ways = comb(tosses - 1, count - last_heads) if count >= last_heads else 0
                masses.append(ways * (3**count + 3 ** (tosses - count)) / 2 / 4**tosses)
            assert min(abs(nodes.mass[node] - mass) for mass in masses) <= MASS
        assert nodes.mass.sum() == pytest.approx(1.0, abs=MASS)


def test_the_likeliest_sequence_of_a_node_is_named_by_its_parents() -> None:
    for number in range(20):
        problem, policy = ordinary(number)
        product, _, graph = build(problem, policy)
        walked, believed = walk(product, graph), enumerate_prefixes(problem, policy)
        likeliest: dict[tuple[int, int], float] = defaultdict(float)
        for prefix, node in walked.node.items():
            if prefix:
                likeliest[node] = max(likeliest[node], believed[prefix].probability)
        for (depth, node), chance in likeliest.items():
            names, at = [], node
            for level in graph.levels[depth:0:-1]:
                names.append(product.observations[level.nodes.observation[at]])
                at = int(level.nodes.parent[at])
            assert graph.levels[depth].nodes.best[node] == pytest.approx(chance, rel=1e-9)
            assert believed[tuple(reversed(names))].probability == pytest.approx(chance, rel=1e-9)


@pytest.mark.parametrize("model", [ordinary, extreme])
@pytest.mark.parametrize("budget", [Budget(nodes=1), Budget(nodes=2), Budget(mass=0.2), Budget(memory=1)], ids=str)
def test_what_is_dropped_widens_the_answer_and_the_truth_stays_inside(model, budget: Budget) -> None:
    num_dropped = 0
    for number in range(25):
        problem, policy = model(number)
        _, chain, graph = build(problem, policy, budget=budget, keep=number % 2 == 0)
        end, joint = evaluate_leaves(chain, graph), oracles.joint(problem, policy)
        kept = graph.last.mass.sum() + graph.settled_mass + graph.dropped_mass
        assert kept == pytest.approx(1.0, abs=1e-9)
        for amounts, most, truth in [
            (end.excess["opacity"], graph.dropped[1], oracles.opacity(joint)),
            (end.excess["guess_error"], graph.dropped[2], oracles.guess_error(joint)),
        ]:
            least = float(graph.last.mass @ amounts)
            assert least - MASS <= truth <= least + most + MASS
        assert graph.last.mass.size <= budget.nodes
        assert budget.mass == 0.0 or graph.dropped_mass <= budget.mass
        num_dropped += not graph.whole
    assert num_dropped >= 3


def test_a_graph_that_must_be_whole_names_the_limit_it_met() -> None:
    whole = build(coin(10), None, whole=True)[2]
    assert (whole.limit, whole.whole) == (None, True)
    for budget, keep, limit in [
        (Budget(nodes=5), False, "beliefs"),
        (Budget(nodes=5), True, "beliefs"),
        (Budget(whole_nodes=5), True, "beliefs"),
        (Budget(memory=1), True, "memory"),
        (Budget(whole_work=10.0), False, "work"),
        (Budget(whole_work=10.0), True, "work"),
    ]:
        graph = build(coin(10), None, whole=True, budget=budget, keep=keep)[2]
        assert (graph.limit, graph.whole) == (limit, False), (budget, keep)


def test_a_budget_is_checked() -> None:
    with pytest.raises(InputError, match="nodes"):
        Budget(nodes=0)
    with pytest.raises(InputError, match="mass"):
        Budget(mass=1.5)


def test_levels_are_reported_as_they_are_made() -> None:
    steps: list[tuple[int, int]] = []
    graph = build(coin(4), None, on_level=lambda levels, nodes: steps.append((levels, nodes)))[2]
    assert steps == [(1, 3), (2, 7), (3, 13), (4, 21)]
    assert graph.num_nodes == 21


def test_a_stop_drops_everything_and_the_truth_stays_inside() -> None:
    for number in range(10):
        problem, policy = ordinary(number)
        product = compile_problem(problem)
        stop = Stop()
        chain = Chain.of(product.process, product.policy_vector(policy), named=True, stop=stop)
        whole = unroll(chain, steps=problem.horizon, keep=True)
        stop.request()
        graph = unroll(chain, steps=problem.horizon, keep=True)
        joint = oracles.joint(problem, policy)
        if problem.horizon:
            assert graph.dropped_mass == pytest.approx(1.0)
            assert oracles.opacity(joint) <= graph.dropped[1] + MASS
        end = evaluate_leaves(chain, whole)  # of the last step nothing is done either
        cost = unfinished_cost(chain, whole, end, Budget())
        assert end.num_done == 0
        assert cost[0] == pytest.approx(whole.last.mass.sum(), abs=MASS)
        assert oracles.opacity(joint) <= cost[1] + MASS
        assert oracles.guess_error(joint) <= cost[2] + MASS


@pytest.mark.parametrize("model", [ordinary, extreme])
@pytest.mark.parametrize("budget", [Budget(mass=1e-12), Budget(nodes=2, mass=0.1)], ids=str)
def test_a_stop_in_the_middle_of_a_level_keeps_the_truth_inside(
    model, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = 0
    for number in range(25):
        problem, policy = model(number)
        product, stop, levels = compile_problem(problem), Stop(), itertools.count()
        pi = product.policy_vector(policy)
        chain = Chain.of(product.process, pi, named=True, stop=stop)

        def expand(*given: object, stop: Stop = stop, levels=levels, last: int = number % 3, **named: object) -> object:
            made = large_levels.expand_level(*given, **named)
            if next(levels) == last:
                stop.request()
            return made

        monkeypatch.setattr(unroll_module, "expand_level", expand)
        graph = unroll(chain, steps=problem.horizon, keep=True, budget=budget)
        running = Chain.of(product.process, pi, named=True)  # so that what is there is evaluated
        end, joint = evaluate_leaves(running, graph), oracles.joint(problem, policy)
        kept = graph.last.mass.sum() + graph.settled_mass + graph.dropped_mass
        assert kept == pytest.approx(1.0, abs=1e-9)
        for amounts, most, truth in [
            (end.excess["opacity"], graph.dropped[1], oracles.opacity(joint)),
            (end.excess["guess_error"], graph.dropped[2], oracles.guess_error(joint)),
        ]:
            least = float(graph.last.mass @ amounts)
            assert least - MASS <= truth <= least + most + MASS
        stopped += stop.requested and graph.dropped_mass > 0.0
    assert stopped >= 5


def sampled_masses(process: HiddenProcess, pi: np.ndarray, seed: int) -> tuple[Graph, np.ndarray]:
    chain = Chain.of(process, pi, named=True)
    graph = unroll(chain, steps=process.horizon, keep=True, samples=400, rng=np.random.default_rng(seed))
    return graph, np.array([graph.settled_mass, *np.sort(graph.last.mass)])


@pytest.mark.parametrize("model", [ordinary, extreme])
def test_sampled_runs_share_the_beliefs_of_the_whole_graph(model) -> None:
    for number in range(20):
        problem, policy = model(number)
        product = compile_problem(problem)
        graph, masses = sampled_masses(product.process, product.policy_vector(policy), number)
        assert masses.sum() == pytest.approx(1.0, abs=1e-9)
        believed = enumerate_prefixes(problem, policy)
        share: dict[tuple[int, int], float] = defaultdict(float)
        for prefix, node in walk(product, graph).node.items():
            if not prefix:
                continue
            truth = believed[prefix]
            share[node] += truth.probability
            assert close(belief_by_state(product, graph, *node), truth.state, truth.probability)
        for (depth, node), chance in share.items():
            nodes = graph.levels[depth].nodes
            assert nodes.mass[node] == pytest.approx(nodes.runs[node] / 400, abs=1e-9)
            assert abs(nodes.mass[node] - chance) <= 6 * np.sqrt(chance * (1 - min(chance, 1)) / 400) + 0.02


def test_thinned_graphs_are_unbiased() -> None:
    """The means of many draws are those of the whole graph, within five of their standard errors."""
    rng, tried = np.random.default_rng(4), 0
    for number in range(200):
        problem, policy = ordinary(number)
        product = compile_problem(problem)
        chain = Chain.of(product.process, product.policy_vector(policy))
        whole, guesswork = unroll(chain, steps=problem.horizon), Guesswork().over(product.secret_values)
        if whole.last.mass.size < 12:
            continue
        tried += 1

        def values(graph: Graph, chain: Chain = chain, leaf: Uncertainty = guesswork) -> list[float]:
            """Opacity, guess error, guesswork and the mass of all sequences."""
            excess = evaluate_leaves(chain, graph, leaves=[leaf]).excess
            return [*(float(graph.last.mass @ each) for each in excess.values()), float(graph.last.mass.sum())]

        drawn = []
        for _ in range(144):
            graph = unroll(chain, steps=problem.horizon, budget=Budget(nodes=5), rng=rng, thin=True)
            assert (graph.thinned, graph.whole) == (True, True)
            assert graph.last.mass.size <= 6
            drawn.append([*values(graph), float(graph.last.mass.sum()) + graph.settled_mass])
        errors = np.std(drawn, axis=0, ddof=1) / 12.0
        assert (errors > 0.0).all()
        assert (np.abs(np.mean(drawn, axis=0) - [*values(whole), 1.0]) <= 5.0 * errors + 1e-12).all()
        if tried == 3:
            return
    pytest.fail("too few graphs were thinned")


def test_a_graph_that_fits_is_not_thinned() -> None:
    problem, policy = ordinary(1)
    product = compile_problem(problem)
    process, pi, rng = product.process, product.policy_vector(policy), np.random.default_rng(0)
    graph = unroll(Chain.of(process, pi), steps=problem.horizon, rng=rng, thin=True)
    assert not graph.thinned
    assert graph.last.mass.tolist() == unroll(Chain.of(process, pi), steps=problem.horizon).last.mass.tolist()
    value, error = estimate_thinned(
        process, pi, nodes=10**6, rng=rng, leaf=Shannon().over(product.secret_values), stop=Stop()
    )
    assert value == pytest.approx(evaluate(process, pi).opacity.value, abs=1e-12)
    assert error == 0.0


def corridor(horizon: int) -> Problem:
    """A corridor of seven cells with a blurred view of their colours: does the run end in the last one?"""
    cells, colours = [f"c{index}" for index in range(7)], ("red", "blue", "green")
    moves = {
        cell: {
            "back": {cells[index - 1 if index else 1]: 0.8, cell: 0.2},
            "on": {cells[index + 1 if index < 6 else 5]: 0.7, cell: 0.3},
        }
        for index, cell in enumerate(cells)
    }
    seen = {cell: {colours[index % 3]: 0.6, colours[(index + 1) % 3]: 0.4} for index, cell in enumerate(cells)}
    return build_problem(
        {
            "opaq": 1,
            "model": {
                "states": cells,
                "actions": ["back", "on"],
                "start": {"c1": 0.5, "c4": 0.5},
                "transitions": moves,
            },
            "observer": {"emissions": seen},
            "secret": {"last_state": ["c6"]},
            "horizon": horizon,
        }
    )


@pytest.mark.parametrize("horizon", [2, 3, 4])
def test_beliefs_that_the_steps_left_cannot_change_are_settled(horizon: int) -> None:
    problem = corridor(horizon)
    product = compile_problem(problem)
    chain = Chain.of(product.process, product.process.uniform())
    late, early = (unroll(chain, steps=horizon, early=early) for early in (False, True))
    truth = oracles.opacity(oracles.enumerate_truth(problem).joint)
    for graph in (late, early):
        excess = evaluate_leaves(chain, graph).excess["opacity"]
        assert float(graph.last.mass @ excess) == pytest.approx(truth, abs=1e-12)
        assert float(graph.last.mass.sum()) + graph.settled_mass == pytest.approx(1.0, abs=1e-12)
    assert early.num_nodes < late.num_nodes
