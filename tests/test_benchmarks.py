"""The benchmarks compare equal quantities, and their driver writes a well-formed document."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from benchmarks import certificates, filtering, gradients, quality, scaling, values
from benchmarks.document import document
from benchmarks.peers import hmm, loops, numpy_graph, paper_grid
from benchmarks.ring import ring
from benchmarks.rows import Comparison, Settings, comparison_table
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.opacity import exact, sampled
from opaq.product.compile import compile_problem

ROOT = Path(__file__).parents[1]


def test_driver_writes_a_document(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "values", "--output", str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "new" / "benchmarks.md"
    assert done.stdout.split() == [str(file)]
    text = file.read_text(encoding="utf-8")
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == ["The run", "Plain value computation"]
    for row in ("date", "opaq", "processor", "Python", "libraries", "load at the start", "the run took"):
        assert f"\n| {row} | " in text
    assert "quick run" in text
    check_tables(text)
    ratios = re.findall(r"\| Storm \| [\d.,]+ \([\d.,]+ to [\d.,]+\) \|", text)
    assert len(ratios) == 8 or "\nSkipped: Storm: " in text


def test_document_in_the_repository_is_well_formed() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    check_tables(text)
    titles = [each.TITLE for each in (quality, gradients, certificates, scaling, filtering, values)]
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == ["The run", *titles]
    for link in re.findall(r"\]\(([^)]*)\)", text):
        assert (ROOT / "docs" / link).exists()


def check_tables(text: str) -> None:
    """Every row of a table has as many cells as its header."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1, table


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("stormpy", "dynamax.hidden_markov_model", "jax"):
        monkeypatch.setitem(sys.modules, library, None)
    for module in ("storm", "jax_batched", "jax_plain"):
        monkeypatch.delitem(sys.modules, f"benchmarks.peers.{module}", raising=False)
    section = values.run(Settings(quick=True))
    assert section.comparisons == ()
    assert "stormpy" in section.skipped[0]
    assert f"\nSkipped: {section.skipped[0]}\n" in document({"values": section}, {}, Settings(), seconds=1.0)
    assert gradients.jax_estimators(small_grid())[0] == {}
    assert [each.split(":")[0] for each in gradients.jax_estimators(small_grid())[1]] == ["JAX, plain", "JAX, by hand"]
    calls, skipped = filtering.peer_calls(filtering.Case.of("grid", opaq.load_problem("two-sink"), sequences=1))
    assert "dynamax" not in calls
    assert any(each.startswith("dynamax: ") for each in skipped)


def test_what_is_missed_or_weak_is_said() -> None:
    def verdicts(settings: Settings) -> list[str]:
        rows = [Comparison("what", "opaq", "peer", (1.0,), (peer,), "", goal=goal) for peer, goal in timings]
        return [cells[4] for cells in comparison_table(rows, settings).rows]

    timings = [(2.0, None), (0.5, None), (2.0, 2.0), (2.0, 2.5)]
    assert verdicts(Settings()) == ["", "**slower**", "at least 2: met", "at least 2.5: **missed**"]
    for settings in (Settings(quick=True), Settings(busy=True)):
        assert verdicts(settings)[1:] == ["**slower**", "at least 2: not judged", "at least 2.5: not judged"]
        assert "Goals are judged by a full run" in document({}, {}, settings, seconds=1.0)


def test_rings_grow_in_one_thing_at_a_time() -> None:
    sizes = scaling.sizes_of("lanes", "exact", 2, shrunk=10)
    problems = [ring(cells=size.cells, horizon=4, lanes=size.lanes) for size in sizes]
    assert {problem.mdp.num_states for problem in problems} == {80}
    assert [compile_problem(problem).process.num_secrets for problem in problems] == [2, 4, 8, 16]


def test_beliefs_of_a_ring_are_counted() -> None:
    size = replace(scaling.Size("frozen"), cells=40)
    process = compile_problem(ring(cells=size.cells, horizon=size.horizon)).process
    graph = FrozenGraph.of(process, process.uniform(), budget=Budget())
    assert scaling.SHOWN["beliefs"][1](size) == graph.num_nodes
    assert scaling.call(size)() is not None


def small_grid(horizon: int = 4) -> gradients.Case:
    return gradients.Case.of(horizon=horizon, samples=400, looped=5)


def test_peers_have_the_model_of_the_scenario() -> None:
    scenario, problem = paper_grid.last_state_grid(), opaq.load_problem("grid-last-state")
    moves = problem.mdp.transitions.dense().reshape(scenario.transitions.shape)
    np.testing.assert_allclose(moves, scenario.transitions, rtol=0, atol=1e-15)
    np.testing.assert_allclose(problem.mdp.start, scenario.start[0], rtol=0, atol=1e-15)
    emission = problem.observer.emission.dense()
    np.testing.assert_allclose(np.sort(emission, axis=1), np.sort(scenario.emission, axis=1), rtol=0, atol=1e-15)


def test_exact_gradients_agree_with_the_numpy_graph() -> None:
    assert gradients.check_exact(small_grid()) <= 1e-10
    wrong = replace(small_grid(), scenario=paper_grid.last_state_grid(horizon=3))
    with pytest.raises(AssertionError, match="exact gradients differ"):
        gradients.check_exact(wrong)


def test_numpy_graph_agrees_on_the_initial_state() -> None:
    scenario = paper_grid.initial_state_grid(horizon=4)
    product = compile_problem(replace(opaq.load_problem("grid-initial-state"), horizon=4))
    states = np.zeros(product.process.num_rows, dtype=int)
    states[product.process.row] = product.state_of
    theta = paper_grid.random_theta(scenario)
    value, slope = exact.gradient(product.process, theta[states].ravel())
    expected, peer = numpy_graph.gradient(scenario, theta)
    assert value == pytest.approx(expected, abs=1e-11)
    np.testing.assert_allclose(slope, peer[states].ravel(), rtol=0, atol=1e-10)


def test_loops_average_to_the_exact_gradient() -> None:
    """The estimator of every sequence, weighted with its probability, is the exact gradient."""
    case = small_grid(horizon=2)
    scenario, operators = case.scenario, loops.observable_operators(case.scenario, case.theta)
    value, slope = 0.0, np.zeros(case.process.num_slots)
    for sequence in itertools.product(range(scenario.num_observations), repeat=3):
        alpha = scenario.start[0] * scenario.emission[:, sequence[0]]
        for shown in sequence[1:]:
            alpha = operators.steps[shown] @ alpha
        if alpha.sum() > 0:
            entropy, direction = loops.gradient(scenario, case.theta, np.array([sequence]))
            value += alpha.sum() * entropy
            slope += alpha.sum() * case.of_process(direction)
    expected, expected_slope = exact.gradient(case.process, case.logits)
    assert value == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=1e-11)


def test_sampled_gradients_estimate_the_exact_one() -> None:
    case, rng = small_grid(), np.random.default_rng(3)
    theta = case.logits
    slopes = np.array([sampled.gradient(case.process, theta, samples=400, rng=rng)[2] for _ in range(30)])
    check_unbiased(slopes, exact.gradient(case.process, theta)[1])


def check_unbiased(slopes: np.ndarray, true: np.ndarray) -> None:
    """The mean along the true gradient is 1, within four standard errors that are small."""
    along = slopes @ true / (true @ true)
    error = along.std(ddof=1) / np.sqrt(len(along))
    assert error < 0.05
    assert abs(along.mean() - 1.0) <= 4 * error


@pytest.mark.parametrize("form", ["JAX, plain", "JAX, by hand"])
def test_jax_estimates_the_same(form: str) -> None:
    pytest.importorskip("jax", reason="JAX is only in the extra bench")
    case = small_grid()
    estimator = gradients.jax_estimators(case)[0][form]
    assert gradients.check_given(case, estimator) <= 1e-8
    call = gradients.peer_calls(case, {form: estimator})[form]
    check_unbiased(np.array([call()[1] for _ in range(30)]), exact.gradient(case.process, case.logits)[1])


PEERS = {"hmmlearn": hmm.hmmlearn_likelihood, "dynamax": hmm.dynamax_likelihood}


def sequences_of(name: str) -> filtering.Case:
    problem = ring(cells=12, horizon=9) if name == "ring" else opaq.load_problem(name)
    return filtering.Case.of(name, problem, sequences=6)


@pytest.mark.parametrize("name", ["grid-last-state-4", "ring"])
@pytest.mark.parametrize("peer", list(PEERS))
@pytest.mark.filterwarnings("ignore")
def test_likelihoods_agree(peer: str, name: str) -> None:
    pytest.importorskip(peer, reason=f"{peer} is only in the extra bench")
    case = sequences_of(name)
    call = PEERS[peer](case.chain, case.numbered)
    assert filtering.difference(case, call) <= 1e-9
    with pytest.raises(AssertionError, match="log-likelihoods differ"):
        filtering.difference(case, lambda: call() - 1e-6)


@pytest.mark.parametrize("name", ["grid", "ring"])
def test_returns_agree_with_storm(name: str, tmp_path: Path) -> None:
    pytest.importorskip("stormpy", reason="stormpy is only in the extras storm, test and bench")
    from benchmarks.peers import storm

    problem = opaq.load_problem("grid-last-state-4") if name == "grid" else ring(cells=20, horizon=15)
    for question in values.questions(problem, storm, tmp_path):
        assert values.difference(question) <= 1e-7
        with pytest.raises(AssertionError, match="but Storm says"):
            values.difference(replace(question, ours=lambda ours=question.ours: ours() + 1e-3))


def test_machines_and_history_program_bound_the_same_policy() -> None:
    problem = opaq.load_problem("two-sink")
    policy = opaq.solve(problem, conditions="state,time", sequences=0).policy
    machines, histories = certificates.small_calls(problem, policy)
    assert abs(machines() - histories()) <= certificates.GAP
    poor, _ = certificates.small_calls(
        problem, compile_problem(problem).policy(compile_problem(problem).process.uniform())
    )
    with pytest.raises(AssertionError, match="is not close to the policy's"):
        poor()


def test_trivial_bound_is_the_entropy_of_the_secret() -> None:
    problem = opaq.load_problem("grid-initial-state-4")
    assert certificates.trivial_bound(problem) == pytest.approx(np.log2(3), abs=1e-9)


def test_best_known_values_are_neither_out_of_reach_nor_exceeded() -> None:
    for name in quality.QUICK:
        best = opaq.solve(name, sequences=0, workers=1).measurement.opacity.value
        assert best == pytest.approx(quality.BEST_KNOWN[name], abs=1e-4)
