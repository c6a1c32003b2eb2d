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
from benchmarks.rows import Comparison, Curve, Section, Settings, comparison_table
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


def test_partial_runs_leave_the_document_alone() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr


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


def row(ours: tuple[float, ...], peer: tuple[float, ...], **more: object) -> Comparison:
    return Comparison("what", "opaq", "peer", ours, peer, "to 1e-9", **more)  # type: ignore[arg-type]


def test_ratios_are_taken_within_a_repeat() -> None:
    ratio = row((1.0, 2.0, 4.0), (3.0, 4.0, 20.0)).ratio
    assert (ratio.least, ratio.median, ratio.most) == (2.0, 3.0, 5.0)


@pytest.mark.parametrize(
    ("peer", "goal", "verdict"),
    [
        (2.0, None, ""),
        (0.5, None, "**slower**"),
        (2.0, 2.0, "at least 2: met"),
        (2.0, 2.5, "at least 2.5: **missed**"),
    ],
)
def test_misses_are_shown(peer: float, goal: float | None, verdict: str) -> None:
    cells = comparison_table([row((1.0,), (peer,), goal=goal)], Settings()).rows[0]
    assert cells[4] == verdict


@pytest.mark.parametrize("settings", [Settings(quick=True), Settings(busy=True)])
def test_goals_are_not_judged_by_weak_runs(settings: Settings) -> None:
    table = comparison_table([row((1.0,), (3.0,), goal=2.0), row((1.0,), (0.5,))], settings)
    assert [cells[4] for cells in table.rows] == ["at least 2: not judged", "**slower**"]
    text = document({"x": Section("X", "", (table,))}, {}, settings, seconds=1.0)
    assert "Goals are judged by a full run on an idle machine only." in text
    assert ("not to be quoted" in text) == settings.busy


def test_stopped_peers_give_lower_bounds() -> None:
    cells = comparison_table([row((1.0, 1.0), (30.0, 30.0), stopped=1)], Settings()).rows[0]
    assert cells[3] == "at least 30 (30 to 30); peer stopped in 1 of 2"
    assert cells[6] == "1 s, over 30 s"


def test_exponents() -> None:
    sizes = (10, 20, 40)
    curve = Curve("states", "exact", sizes, tuple((3e-6 * n**1.5, 1e-3 * n) for n in sizes))
    assert scaling.exponents(curve) == pytest.approx([1.5, 1.0])
    cells = scaling.curve_table([curve], Settings()).rows[0]
    assert cells[2:4] == ("1.25 (1.00 to 1.50)", "**missed**")
    section = Section("Scaling", "", (scaling.curve_table([curve], Settings()),), curves=(curve,))
    assert "pictures/benchmarks-scaling.svg" in document({"scaling": section}, {}, Settings(), seconds=1.0)


def test_rings_grow_in_one_thing_at_a_time() -> None:
    sizes = scaling.sizes_of("lanes", "exact", 2, shrunk=10)
    problems = [ring(cells=size.cells, horizon=4, lanes=size.lanes) for size in sizes]
    assert {problem.mdp.num_states for problem in problems} == {80}
    assert [compile_problem(problem).process.num_secrets for problem in problems] == [2, 4, 8, 16]
    plain, shaded = (opaq.measure(ring(cells=8, horizon=6, shades=shades), sequences=0) for shades in (1, 3))
    assert shaded.opacity.value == pytest.approx(plain.opacity.value, abs=1e-12)
    assert plain.opacity.value > 0.1
    count = scaling.SHOWN["shades"][1]
    assert count(replace(sizes[0], shades=3)) == len(ring(cells=40, horizon=1, shades=3).observer.observations)


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


@pytest.mark.filterwarnings("ignore")
def test_impossible_sequences() -> None:
    """Why dynamax is guarded: it calls an impossible sequence certain, where hmmlearn refuses."""
    chain = hmm.Chain(np.array([1.0, 0.0]), np.eye(2), np.eye(2))
    impossible = np.array([[0, 1]])
    pytest.importorskip("hmmlearn")
    with pytest.raises(ValueError, match="underflow"):
        hmm.hmmlearn_likelihood(chain, impossible)()
    pytest.importorskip("dynamax", reason="dynamax is only in the extra bench")
    with pytest.raises(ValueError, match="compare possible sequences only"):
        hmm.dynamax_likelihood(chain, impossible)


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
    pytest.importorskip("cvxpy")
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


@pytest.mark.parametrize("solver", ["natural", "lagrangian", "primal-dual"])
def test_every_solver_is_timed_to_the_same_quality(solver: str) -> None:
    assert quality.attempt("two-sink", solver, seed=0, limit=60.0).reached is not None


def test_best_known_values_are_neither_out_of_reach_nor_exceeded() -> None:
    for name in quality.QUICK:
        best = opaq.solve(name, sequences=0, workers=1).measurement.opacity.value
        assert best == pytest.approx(quality.BEST_KNOWN[name], abs=1e-4)
