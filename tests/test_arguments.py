"""Wrong arguments of public calls: one kind of error, one sentence, and nothing is taken silently."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import opaq

WRONG: tuple[Any, ...] = (-1, "x", None, math.nan, [], object())


@cache
def calls(folder: Path) -> dict[str, dict[str, Any]]:
    """A call of every function with arguments that are right: each of them is replaced by what is wrong."""
    problem = replace(opaq.load_problem("two-sink"), horizon=1)
    mdp, product = problem.mdp, opaq.compile_problem(problem)
    uniform = product.process.uniform()
    policy, solution = product.policy(uniform), opaq.solve(problem, starts=1)
    opaq.save_policy(policy, folder / "policy.json", problem=problem)
    seen = opaq.simulate(problem, runs=1)[0].observations
    options = opaq.SolveOptions(starts=1, sequences=0)
    compiled = {"product": product, "pi": uniform}
    point = opaq.StudyPoint("0001", {"horizon": 1}, "converged", objective=solution.measurement.objective)
    return {
        "build_automaton": {"spec": {"states": ["p"], "initial": "p", "edges": []}, "labels": ["a"]},
        "build_grid": {"start": [0, 0], "width": 2, "height": 1},
        "build_mdp": {"transitions": {"s": {"a": "s"}}, "start": "s", "states": ["s"], "actions": ["a"]},
        "build_memory": {"mdp": mdp, "nodes": 2},
        "build_observer": {"mdp": mdp, "emissions": {"*": "o"}},
        "build_problem": {"spec": opaq.problem_to_dict(problem)},
        "build_secret": {"spec": {"last_state": ["q1"]}, "mdp": mdp},
        "certify": {"problem": problem, "time_limit": 1.0},
        "compare": {"problem": problem, "classes": ["state"], "options": options},
        "compile_problem": {"problem": problem},
        "convert": {"source": "two-sink", "target": f"{folder}/two-sink.json"},
        "describe_scenario": {"name": "two-sink"},
        "filter": {"problem": problem, "observations": seen},
        "figure_style": {"style": "ggplot"},
        "enumerate_channel": {"problem": problem},
        "free_memory": {"mdp": mdp, "count": 2},
        "frontier": {"problem": problem, "points": 2, "options": options},
        "gradient": {"problem": problem},
        "history_program": {"problem": problem},
        "load_policy": {"path": f"{folder}/policy.json", "problem": problem},
        "load_problem": {"name_or_path": "two-sink"},
        "load_study": {"folder": f"{folder}"},
        "measure": {"problem": problem},
        "most_revealing": {"problem": problem},
        "observable_operator": {**compiled, "observation": seen[0]},
        "opacity_over_time": {"problem": problem},
        "plot_beliefs": {"problem": problem},
        "plot_comparison": {"comparison": opaq.compare(problem, classes=["state"], starts=1)},
        "plot_frontier": {"points": [(0.0, 1.0)]},
        "plot_opacity_over_time": {"points": [(0, 1.0)]},
        "plot_policy": {"problem": problem},
        "plot_study": {"study": opaq.Study(folder, "two-sink", (point,))},
        "plot_trace": {"solution": solution},
        "problem_schema": {},
        "problem_to_dict": {"problem": problem},
        "read_gymnasium": {"env": "FrozenLake-v1"},
        "read_pomdp": {"path": f"{folder}/tiny.pomdp"},
        "read_prism": {"path": f"{folder}/none.prism"},
        "read_umb": {"path": f"{folder}/none.umb"},
        "register_solver": {"factory": None},
        "replay": {"problem": problem},
        "report": {"problem": problem, "runs": 1},
        "return_optimal_policy": {"problem": problem},
        "runs_to_dataframe": {"runs": opaq.simulate(problem, runs=1)},
        "save_figure": {"figure": opaq.plot_trace(solution), "path": f"{folder}/trace.svg"},
        "save_policy": {"policy": policy, "path": f"{folder}/saved.json"},
        "save_problem": {"problem": problem, "path": f"{folder}/problem.json"},
        "scenario_names": {},
        "scenario_text": {"name": "two-sink"},
        "secret_posterior": {**compiled, "observations": seen},
        "sensors": {"problem": problem, "changes": (), "fixed": True},
        "sequence_probability": {**compiled, "observations": seen},
        "simulate": {"problem": problem, "runs": 1},
        "solve": {"problem": problem, "options": options},
        "start_posterior": {**compiled, "observations": seen},
        "sweep": {"plan": {"problem": "two-sink", "vary": {"horizon": [1]}}, "output": f"{folder}/study"},
        "uniform_policy": {"problem": problem},
    }


FUNCTIONS = [name for name in opaq.__all__ if isinstance(getattr(opaq, name), types.FunctionType)]
# What looks wrong and is not: (function, argument, value).
RIGHT: set[tuple[str, str, str]] = {
    ("plot_frontier", "threshold", "-1"),
    ("report", "output", "'x'"),
    *(("build_grid", name, "[]") for name in ("walls", "traps", "rewards")),
    *(("build_memory", name, "[]") for name in ("update",)),
    ("build_automaton", "labels", "[]"),
    ("plot_policy", "time", "[]"),
    ("replay", "runs", "[]"),
    ("runs_to_dataframe", "runs", "[]"),
    ("sensors", "changes", "[]"),
    ("save_policy", "path", "'x'"),
    ("solve", "run_folder", "'x'"),
    ("sweep", "output", "'x'"),
}


def words(value: Any) -> str:
    return "object()" if type(value) is object else repr(value)


def may_be(parameter: inspect.Parameter, value: Any) -> bool:
    """Whether a value that looks wrong is right: None where nothing need be given, any text where a text is wanted."""
    annotation = str(parameter.annotation)
    if value is None:
        return parameter.default is None
    return value == "x" and parameter.name in ("path", "title") and annotation in ("str", "str | None")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arguments")


def test_every_function_is_called(folder: Path) -> None:
    assert sorted(calls(folder)) == sorted(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_are_refused(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call: Callable[..., Any] = getattr(opaq, name)
    taken = []
    for argument, parameter in inspect.signature(call).parameters.items():
        for value in WRONG if parameter.kind is not parameter.VAR_KEYWORD else ():
            if may_be(parameter, value) or (name, argument, words(value)) in RIGHT:
                continue
            try:
                call(**calls(folder)[name] | {argument: value})
            except opaq.OpaqError:
                continue
            taken.append(f"{argument}={words(value)}")
    assert taken == []
