"""The public names: all load, what they return is public too, every argument is explained, objects print shortly."""

from __future__ import annotations

import inspect
import re
import types
import typing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from pandas import DataFrame
from scipy.sparse import csr_array

import opaq
from random_problems import random_policy, random_problem

FUNCTIONS = [name for name in opaq.__all__ if inspect.isfunction(getattr(opaq, name))]
PUBLIC = {getattr(opaq, name) for name in opaq.__all__ if isinstance(getattr(opaq, name), type)}
GUIDE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in opaq.__all__ if name != "__version__"])
def test_every_public_name_loads_and_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(opaq, name))
    assert name in dir(opaq)


ADDING = [name for name in opaq.extensions.__all__ if name.startswith("add_")]


@pytest.mark.parametrize("name", [*FUNCTIONS, *ADDING])
def test_every_argument_is_explained(name: str) -> None:
    function = getattr(opaq.extensions if name in ADDING else opaq, name)
    text = inspect.getdoc(function) or ""
    missing = [
        argument for argument in inspect.signature(function).parameters if not re.search(rf"\b{argument}\b", text)
    ]
    assert missing == []


def classes_in(annotation: Any) -> set[type]:
    """The classes of opaq that an annotation mentions."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return {annotation} if annotation.__module__.startswith("opaq.") else set()
    return {found for part in typing.get_args(annotation) for found in classes_in(part)}


def hints(thing: Any) -> dict[str, Any]:
    """Annotations with names resolved; what is imported for type checkers only is looked up in the public names."""
    module = inspect.getmodule(thing)
    names = (
        vars(module)
        | {name: getattr(opaq, name) for name in opaq.__all__}
        | {"csr_array": csr_array, "DataFrame": DataFrame, "Figure": Figure}
    )
    return typing.get_type_hints(thing, globalns=names)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_is_public(name: str) -> None:
    returned = classes_in(hints(getattr(opaq, name)).get("return"))
    assert returned <= PUBLIC


def objects() -> list[Any]:
    """One of every kind of object that users meet."""
    problem = opaq.load_problem("graph")
    solution = opaq.solve(problem, starts=2)
    comparison = opaq.compare("two-sink", classes=["state", "memory:2"], starts=1)
    measurement = solution.measurement
    replayed = opaq.replay("graph", runs=1)
    grid = opaq.load_problem("grid-last-state-4")
    found = [problem, grid, problem.mdp, grid.mdp, problem.observer, problem.secret, grid.secret, problem.task]
    found += [problem.policy_class, problem.mdp.transitions, opaq.free_memory(grid.mdp, 2), problem.secret.automaton]
    found += [measurement, measurement.opacity, *measurement.requirements, *measurement.revealing]
    found += [solution, solution.policy, solution.optimality, solution.trace[0], solution.starts[0], solution.product]
    found += [solution.product.process, *solution.attainable, solution.starts[0].result.best]
    found += [comparison, *comparison.rungs, *replayed, replayed[0].steps[0], *opaq.simulate("graph", runs=1)]
    return [*found, opaq.SolveOptions(), opaq.Budget(), opaq.NaturalGradient(), opaq.PrimalDual(), opaq.Status.EDGE]


def test_objects_print_shortly_and_can_be_compared_and_hashed() -> None:
    things = objects()
    for thing in things:
        text, copy = repr(thing), thing if isinstance(thing, Enum) else replace(thing)
        assert len(text) <= (420 if isinstance(thing, opaq.SolveOptions) else 200), text
        assert type(thing).__name__ in text
        assert "\n" not in text
        assert thing != "another thing"
        assert any(thing == other for other in things)
        assert hash(thing) == hash(copy) or thing != copy


@pytest.mark.parametrize("seed", range(5))
def test_problems_and_policies_are_equal_by_content(seed: int) -> None:
    one, two = (random_problem(np.random.default_rng(seed)) for _ in range(2))
    assert one is not two
    assert one == two
    assert hash(one) == hash(two)
    mine, theirs = (random_policy(np.random.default_rng(seed), one) for _ in range(2))
    assert mine == theirs
    assert hash(mine) == hash(theirs)
    rewards = one.mdp.rewards.copy()
    rewards[-1] += 1e-9
    assert one != replace(one, mdp=replace(one.mdp, rewards=rewards))
    assert one != replace(one, horizon=one.horizon + 1)
    assert one.observer != replace(one.observer, observations=tuple(f"{name}'" for name in one.observer.observations))


def test_equality_sees_the_kind_of_a_secret() -> None:
    classes = opaq.StateClasses(("a", "b"), np.array([0, 1, 1]))
    assert opaq.LastState(classes) == opaq.LastState(replace(classes))
    assert opaq.LastState(classes) != opaq.InitialState(classes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: opaq.measure("two-sink", mode="guess"), "mode: 'guess' is not a choice; use one of auto, exact"),
        (lambda: opaq.solve("two-sink", solver="newton"), "solver: 'newton' is not a choice; use one of natural"),
        (lambda: opaq.solve("two-sink", gradients="exakt"), "gradients: 'exakt' is not a choice; did you mean 'exact'"),
        (lambda: opaq.solve("two-sink", start="xyz"), "start: 'xyz' is not a choice; use one of mixed"),
        (lambda: opaq.solve("two-sink", solver="lagrangian", gradients="sampled"), "do not suit the solver lagrangian"),
        (
            lambda: opaq.solve("two-sink", solver=opaq.AugmentedLagrangian(), gradients="sampled"),
            "do not suit the solver lagrangian",
        ),
        (
            lambda: opaq.solve("two-sink", eta=0.5),
            "eta: has no effect with the solver natural; it belongs to primal-dual",
        ),
        (lambda: opaq.simulate("two-sink", runs=0), "runs: is 0; give a whole number"),
        (lambda: opaq.measure(3), "problem: is of the type int; give a Problem, the name of a file, or"),
        (lambda: opaq.measure("two-sink", 3), "policy: is of the type int; give a Policy, the name of a file,"),
        (lambda: opaq.measure("two-sinks"), "no scenario is called 'two-sinks'; did you mean 'two-sink'"),
        (lambda: opaq.compare("two-sink", classes=[opaq.PolicyClass(("stat",))]), "unknown condition 'stat'"),
        (lambda: opaq.compare("two-sink", classes=[opaq.PolicyClass("state")]), "give a tuple of words"),
        (lambda: opaq.compare("two-sink", classes=[7]), "policy class: is of the type int"),
        (lambda: opaq.solve("two-sink", policy_class=opaq.PolicyClass(("memory",))), "give memory, the machine"),
        (lambda: opaq.replay("graph", observations=["0", "4", "4"]), "observations"),
    ],
)
def test_wrong_arguments_are_refused_with_what_to_do(call: Any, words: str) -> None:
    with pytest.raises(opaq.InputError) as refused:
        call()
    assert words in str(refused.value)


def test_problems_and_policies_by_object_file_and_name(tmp_path: Path) -> None:
    file, saved = tmp_path / "mine.yaml", tmp_path / "policy.json"
    file.write_text(opaq.scenario_text("two-sink"))
    problem = opaq.load_problem(file)
    policy = opaq.solve(problem, starts=1).policy
    opaq.save_policy(policy, saved, problem=problem)
    values = {
        opaq.measure(stated, chosen).opacity.value
        for stated in ("two-sink", str(file), file, problem)
        for chosen in (policy, saved, str(saved))
    }
    assert len(values) == 1
    for call in (opaq.simulate, opaq.replay, opaq.gradient):
        assert call(file, saved) == call(problem, policy)
    assert opaq.solve(file, starts=1, initial_policy=saved).measurement.opacity.value == pytest.approx(
        values.pop(), abs=1e-6
    )
    assert opaq.compare(file, classes=["state"], starts=1).rungs[0].policy == policy


def test_the_guide_names_every_function() -> None:
    assert [name for name in FUNCTIONS if not re.search(rf"\b{name}\b", GUIDE)] == []


def test_modules_of_the_package_are_not_hidden_by_names() -> None:
    folder = Path(opaq.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules.isdisjoint(name for name in opaq.__all__ if not isinstance(getattr(opaq, name), types.ModuleType))
