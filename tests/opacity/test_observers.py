"""Several observers and secrets, observers that assume and covert limits, against enumeration; and their laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import observer_oracles
import oracles
from aware_oracles import LazyPolicy
from opaq.beliefs.graph import Budget
from opaq.errors import InputError
from opaq.model.arrays import SparseRows
from opaq.model.conditions import CurrentState, Observations, Time
from opaq.model.figures import Assumption, CovertLimit, Pair, UncertaintyLimit
from opaq.model.observer import Together
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.secret import StateClasses, Trajectory
from opaq.model.uncertainty import GuessError, Shannon
from opaq.opacity.measure import Measurement, measure
from opaq.opacity.targets import limits_of, target_of
from opaq.product.compile import compile_problem
from opaq.spec.problem_part import build_problem
from opaq.stop import Stop
from random_problems import CONDITIONS, SECRETS, random_policy, random_problem

BUDGET = Budget()


def several(rng: np.random.Generator, conditions: tuple[str, ...], **given: object) -> Problem:
    problem = random_problem(rng, conditions=conditions, horizon=2, budget=150, **given)
    return observer_oracles.add_others(rng, problem, secret=str(rng.choice(SECRETS)))


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
def test_every_figure_against_enumeration(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng([22, CONDITIONS.index(conditions)])
    problem = several(rng, conditions)
    policy = random_policy(rng, problem)
    figures = {(one.of, one.for_): one for one in measure(problem, policy, sequences=0).figures}
    assert list(figures) == [(of, for_) for of in ("first", "second") for for_ in ("street", "insider", "both")]
    for (of, for_), figure in figures.items():
        law = observer_oracles.joint(problem, of, for_, policy)
        assert figure.opacity.value == pytest.approx(oracles.opacity(law), abs=1e-12)
        assert figure.guess_error.value == pytest.approx(oracles.guess_error(law), abs=1e-12)
        assert figure.secret_entropy == pytest.approx(oracles.secret_entropy(law), abs=1e-12)
    about = measure(problem.about(of="second", for_="both"), policy, sequences=0)
    assert about.opacity.value == figures["second", "both"].opacity.value
    for of in ("first", "second"):
        least = min(figures[of, name].opacity.value for name in ("street", "insider"))
        assert figures[of, "both"].opacity.value <= least + 1e-12


@pytest.mark.parametrize("count", [1, 2, "all"])
def test_policies_that_look_at_observations_share_them_with_observers_together(count: int) -> None:
    """The policy hears the street: who is together with the street sees the very same, not another draw."""
    rng = np.random.default_rng([23, len(str(count))])
    for _ in range(2):
        problem = several(rng, ("state",), watches_actions=False)
        looks = PolicyClass((CurrentState(), Observations(count)))
        lazy = LazyPolicy(problem, looks, lambda size: rng.dirichlet(np.ones(size)))
        laws = {
            (pair.of, pair.for_): observer_oracles.joint(problem, pair.of, pair.for_, lazy) for pair in problem.figures
        }
        for figure in measure(problem, lazy.policy(), sequences=0).figures:
            law = laws[figure.of, figure.for_]
            assert figure.opacity.value == pytest.approx(oracles.opacity(law), abs=1e-12)
            assert figure.guess_error.value == pytest.approx(oracles.guess_error(law), abs=1e-12)


def _other_model(rng: np.random.Generator, problem: Problem) -> Problem:
    """The problem's model with other probabilities, and fewer of its transitions."""
    table = problem.mdp.transitions
    weights = table.values * rng.uniform(0.2, 1.0, size=table.values.size)
    drop = rng.random(weights.size) < 0.15
    drop[table.starts[:-1]] = False
    weights = np.where(drop, 0.0, weights)
    sums = np.add.reduceat(weights, table.starts[:-1])
    rows = table.row_of_entry()
    shape = (table.num_rows, table.num_columns)
    moved = SparseRows.from_entries(rows, table.columns, weights / sums[rows], shape=shape)
    return replace(problem.mdp, transitions=moved)


@pytest.mark.parametrize("kind", ["policy", "model", "uniform", "aware"])
def test_observers_that_assume_against_enumeration(kind: str) -> None:
    rng = np.random.default_rng([24, len(kind)])
    compared = 0
    for trial in range(4):
        problem = several(rng, ("state",) if kind == "aware" else CONDITIONS[trial % 8], watches_actions=False)
        held = None if kind == "uniform" else random_policy(rng, problem, softmax=trial % 2 == 0)
        mdp = _other_model(rng, problem) if kind == "model" else None
        assumption = Assumption("uniform" if held is None else held, mdp, surprise=None if trial % 3 else 2.5)
        problem = replace(problem, assumptions={"insider": assumption, "street": assumption})
        policy = random_policy(rng, problem)
        if kind == "aware":
            looks = PolicyClass((CurrentState(), Observations(1)))
            policy = LazyPolicy(problem, looks, lambda size: rng.dirichlet(np.ones(size)))
            for pair in problem.figures:
                observer_oracles.joint(problem, pair.of, pair.for_, policy)
        for figure in measure(problem, policy.policy() if kind == "aware" else policy, sequences=0).figures:
            if figure.for_ == "both":
                assert figure.cross_entropy is None
                continue
            bits, wrong, impossible, excluded = observer_oracles.believed(problem, figure.of, figure.for_, policy, held)
            assert figure.cross_entropy.value == pytest.approx(bits, abs=1e-11)
            assert figure.impossible == pytest.approx(impossible, abs=1e-12)
            assert figure.excluded == pytest.approx(excluded, abs=1e-12)
            if not observer_oracles.has_ties(problem, figure.of, figure.for_, held):
                assert figure.guess_error.value == pytest.approx(wrong, abs=1e-12)
                compared += 1
            if assumption.surprise is None:
                assert figure.cross_entropy.value >= figure.opacity.value - 1e-12
    assert compared >= 2


def test_who_assumes_the_truth_is_left_with_the_opacity() -> None:
    rng = np.random.default_rng(25)
    for trial in range(4):
        problem = several(rng, CONDITIONS[trial % len(CONDITIONS)])
        policy = random_policy(rng, problem)
        names = ("street", "insider", "both")
        problem = replace(problem, assumptions=dict.fromkeys(names, Assumption(policy)))
        for figure in measure(problem, policy, sequences=0).figures:
            assert figure.cross_entropy.value == pytest.approx(figure.opacity.value, abs=1e-12)
            assert figure.impossible == figure.excluded == 0.0


def test_trajectories_have_no_figures_of_an_observer_that_assumes() -> None:
    rng = np.random.default_rng(29)
    problem = replace(several(rng, ("state",)), assumptions={"insider": Assumption()})
    way = Trajectory(StateClasses(problem.mdp.states, np.arange(problem.mdp.num_states)))
    problem = replace(problem, secrets={**problem.secrets, "way": way})
    figures = {(one.of, one.for_): one for one in measure(problem, sequences=0).figures}
    assert figures["way", "insider"].cross_entropy is None
    informed = measure(replace(problem, assumptions={}).about(of="way", for_="insider"), sequences=0)
    assert figures["way", "insider"].guess_error == informed.guess_error
    assert figures["first", "insider"].cross_entropy is not None
    with pytest.raises(InputError, match="trajectory is not known"):
        measure(problem.about(of="way", for_="insider"), sequences=0)


def test_the_figure_of_a_task_is_called_what_it_is() -> None:
    problem = several(np.random.default_rng(30), ("state",))
    assuming = replace(problem, assumptions={"insider": Assumption()})
    for name, each in (("opacity", problem), ("cross-entropy", assuming)):
        for of, title in ((Shannon(), name), (GuessError(), "guess error")):
            task = Task(of=of, pairs=(Pair("second", "insider"),))
            assert measure(replace(each, task=task), sequences=0).objective.figure == f"{title} of second for insider"


def test_relative_entropy_against_enumeration() -> None:
    rng = np.random.default_rng(26)
    for trial in range(5):
        problem = several(rng, CONDITIONS[trial % len(CONDITIONS)])
        policy, like = random_policy(rng, problem), random_policy(rng, problem, softmax=trial % 2 == 0)
        for name in problem.observers:
            task = Task(limits=(CovertLimit(like, name, 0.1), CovertLimit(policy, name, 0.0)))
            value, own = measure(replace(problem, task=task), policy, sequences=0).requirements[1:]
            laws = [observer_oracles.joint(problem, "first", name, each) for each in (policy, like)]
            expected = observer_oracles.relative_entropy(*laws)
            assert value.value == pytest.approx(max(expected, 0.0), abs=1e-11)
            assert value.feasible == (expected <= 0.1 + 1e-11)
            assert own.value == pytest.approx(0.0, abs=1e-11)
            assert own.value <= 1e-11


def test_relative_entropy_is_infinite_where_the_reference_never_shows_it() -> None:
    """The reference goes left for sure, and the observer sees where it went."""
    spec = {
        "opaq": 1,
        "model": {
            "states": ["s", "left", "right"],
            "actions": ["l", "r"],
            "start": {"s": 1},
            "transitions": {
                "s": {"l": {"left": 1}, "r": {"right": 1}},
                "left": {"*": {"left": 1}},
                "right": {"*": {"right": 1}},
            },
        },
        "observer": {"emissions": {"s": "s", "left": "left", "right": "right"}},
        "secret": {"last_state": ["left"]},
        "horizon": 1,
    }
    problem = build_problem(spec)
    left, mixed = (
        Policy(PolicyClass(), {("s",): {"l": share, "r": 1 - share}, ("left",): {"l": 1}, ("right",): {"l": 1}})
        for share in (1.0, 0.75)
    )
    asked = replace(problem, task=Task(limits=(CovertLimit(left, "", 5.0), CovertLimit(mixed, "", 0.0))))
    far, near = measure(asked, mixed, sequences=0).requirements[1:]
    assert np.isinf(far.value)
    assert not far.feasible
    assert near.value == 0.0
    restored = Measurement.from_dict(measure(asked, mixed, sequences=0).to_dict())
    assert np.isinf(restored.requirements[1].value)
    one = measure(asked, left, sequences=0).requirements
    assert one[2].value == pytest.approx(np.log2(1 / 0.75))
    believing = replace(problem, assumptions={"observer": Assumption(left)})
    figure = measure(believing, mixed, sequences=0).figures[0]
    assert (figure.impossible, figure.excluded, figure.cross_entropy.value) == (0.25, 0.0, 0.25)


TASKS = {
    "one": Task(pairs=(Pair("second", "insider"),)),
    "mean": Task(pairs=(Pair("first", "street", 1.0), Pair("second", "both", 3.0))),
    "least": Task(pairs=(Pair("first", "street"), Pair("first", "insider")), taken="least"),
    "believer": Task(pairs=(Pair("first", "gullible"),)),
    "limits": Task(
        limits=(
            UncertaintyLimit("second", "street", 0.2, "at_least"),
            UncertaintyLimit("first", "both", 0.1, "at_most"),
            UncertaintyLimit("first", "gullible", 0.3, "at_least"),
            CovertLimit("uniform", "insider", 0.1),
        )
    ),
}


def _with_task(rng: np.random.Generator, task: Task) -> Problem:
    problem = several(rng, ("state",), watches_actions=False)
    observers = {**problem.observers, "gullible": problem.observers["insider"]}
    return replace(problem, observers=observers, assumptions={"gullible": Assumption()}, task=task)


def _expected(name: str, bits: dict[tuple[str, str], float]) -> float:
    """What a task comes to, from the figures of all pairs."""
    street, insider = bits["first", "street"], bits["first", "insider"]
    tasks = {
        "one": bits["second", "insider"],
        "mean": 0.25 * street + 0.75 * bits["second", "both"],
        "least": min(street, insider),
        "believer": bits["first", "gullible"],
        "limits": street,
    }
    return tasks[name]


@pytest.mark.parametrize("name", TASKS)
def test_targets_and_limits_agree_with_the_measured_figures(name: str) -> None:
    rng = np.random.default_rng([27, list(TASKS).index(name)])
    for _ in range(2):
        problem = _with_task(rng, TASKS[name])
        policy = random_policy(rng, problem, softmax=True)
        measurement = measure(problem, policy, sequences=0)
        figures = {(one.of, one.for_): one for one in measurement.figures}
        bits = {pair: (one.cross_entropy or one.opacity).value for pair, one in figures.items()}
        expected = _expected(name, bits)
        assert measurement.uncertainty.value == pytest.approx(expected, abs=1e-12)
        product = compile_problem(problem)
        pi = product.policy_vector(policy)
        amount = target_of(product).evaluate(pi, budget=BUDGET, stop=Stop()).amount
        assert amount.value == pytest.approx(expected, abs=1e-12)
        if name == "limits":
            values = [one.value for one in measurement.requirements[1:]]
            assert values[:3] == pytest.approx(
                [bits["second", "street"], bits["first", "both"], bits["first", "gullible"]], abs=1e-12
            )
            assert [one.direction for one in measurement.requirements[1:]] == [None, "at_most", None, "at_most"]
            met = [values[0] >= 0.2, values[1] <= 0.1, values[2] >= 0.3, values[3] <= 0.1]
            assert measurement.feasible == (all(met) and measurement.requirements[0].feasible)


@pytest.mark.parametrize("name", TASKS)
def test_gradients_of_targets_and_limits_by_differences(name: str) -> None:
    rng = np.random.default_rng([28, list(TASKS).index(name)])
    problem = _with_task(rng, TASKS[name])
    product = compile_problem(problem)
    pi = product.process.softmax(rng.normal(size=product.process.num_slots))
    figures = [limit.figure for limit in limits_of(product)] or [target_of(product)]
    for figure in figures:
        figure = figure.soften(0.1)
        _, slope = figure.slope(pi, budget=BUDGET, stop=Stop())
        swept = figure.freeze(pi, budget=BUDGET, stop=Stop())(pi)[1]
        steps = 1e-6 * np.eye(pi.size)
        values = [[figure.slope(pi + sign * step, budget=BUDGET, stop=Stop())[0] for sign in (1, -1)] for step in steps]
        differences = np.array([(up - down) / 2e-6 for up, down in values])
        # What is seen need not sum to 1 outside the simplex: only differences within a row have a meaning there.
        assert np.allclose(slope, differences, atol=2e-5)
        assert np.allclose(swept, slope, atol=1e-9)


def test_together_of_together_counts_everyone_once() -> None:
    problem = several(np.random.default_rng(29), ("state", "time"))
    nested = Together(("street", "both", "insider"))
    problem = replace(problem, observers={**problem.observers, "all": nested})
    figures = {(one.of, one.for_): one for one in measure(problem, sequences=0).figures}
    assert list(problem.observers["all"].parts) == ["street", "insider"]
    for of in ("first", "second"):
        assert figures[of, "all"].opacity.value == pytest.approx(figures[of, "both"].opacity.value, abs=1e-13)


def test_views_share_rows_and_cost_nothing_with_one_pair() -> None:
    problem = random_problem(np.random.default_rng(30), conditions=("state", "time"))
    product = compile_problem(problem, PolicyClass((CurrentState(), Time())))
    assert product.view("secret", "observer") is product
    assert not product.extras
    assert problem.about() is problem
