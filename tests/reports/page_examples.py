"""Data of reports, built from the library's public parts alone: what the tests of the page show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

import opaq
from opaq.formats.plain import yaml_text
from opaq.model.arrays import FloatArray
from opaq.opacity.operators import filtered
from opaq.product.compile import Product
from opaq.reports.certificate_text import certificate_to_dict
from opaq.reports.comparison_text import comparison_to_dict
from opaq.reports.grid_view import GridView, coverage, traps
from opaq.reports.measurement_text import amount_to_dict, measurement_to_dict
from opaq.reports.policy_view import PolicyView, Shares
from opaq.reports.solution_text import solution_to_dict
from opaq.simulation.replay import Replay, replayed
from opaq.simulation.runs import Run, compiled, simulated


@dataclass(frozen=True, slots=True)
class Example:
    """A problem and a policy (None: uniform), and what a report holds of them."""

    problem: opaq.Problem
    policy: opaq.Policy | None
    data: dict[str, Any]


MOST_DRAWN = 400  # states of a graph with a picture
MOST_BELIEVED = 300  # states listed in one belief


def report_data(
    problem: opaq.Problem,
    policy: opaq.Policy | None = None,
    *,
    text: str = "",
    solution: Any = None,
    certificate: Any = None,
    comparison: Any = None,
    runs: int = 3,
    samples: int = 400,
    samples_only: bool = False,
) -> dict[str, Any]:
    """All that a page shows of one policy."""
    product, pi = compiled(problem, policy)
    mode = {"mode": "sampled", "samples": 50} if samples_only else {}
    measurement = opaq.measure(problem, policy, sequences=2, **mode)
    shown, info = _shown_runs(product, pi, measurement, runs)
    finals = replayed(product, pi, simulated(product, pi, count=samples, rng=np.random.default_rng(5)))
    view = PolicyView(product, pi)
    answer = f"This policy hides {measurement.opacity.value:.3f} of {measurement.secret_entropy:.3f} bits."
    return {
        "format": "opaq-report",
        "version": 1,
        "opaq": opaq.__version__,
        "kind": "problem",
        "title": problem.name,
        "problem": problem.name,
        "opacity": amount_to_dict(measurement.opacity),
        "question": f"How much does “{problem.name}” leak of its secret to an observer of its sensors?",
        "answer": f"{answer} The best guess of the secret is wrong with probability "
        f"{measurement.guess_error.value:.3f}.",
        "measurement": measurement_to_dict(measurement),
        "solution": None if solution is None else _only_new(solution_to_dict(solution), measurement),
        "certificate": None if certificate is None else certificate_to_dict(certificate),
        "comparison": None if comparison is None else comparison_to_dict(comparison),
        "model": _model(product, view),
        "policy": _policy(view, given=policy is not None),
        "runs": [_moments(product, pi, run) for run in shown],
        "run_info": info,
        "over_time": _over_time(finals),
        "posteriors": _posteriors(finals),
        "how": [
            {"number": "opacity", "text": measurement.explanation},
            {"number": "return", "text": "exact: dynamic programming over the product states"},
        ],
        "problem_text": text or yaml_text(opaq.problem_to_dict(problem)),
        "policy_text": None,
    }


def _only_new(solution: dict[str, Any], measurement: opaq.Measurement) -> dict[str, Any]:
    return {key: value for key, value in solution.items() if key not in measurement_to_dict(measurement)}


def _model(product: Product, view: PolicyView) -> dict[str, Any]:
    problem = product.problem
    mdp, grid = problem.mdp, GridView.of(problem)
    graph = None if grid or mdp.num_states > MOST_DRAWN else _graph(problem, view.average())
    return {
        "kind": "grid" if grid else "graph" if graph else "table",
        "states": list(mdp.states),
        "actions": list(mdp.actions),
        "observations": list(product.observations),
        "secret_values": list(product.secret_values),
        "sizes": {
            "states": mdp.num_states,
            "actions": len(mdp.actions),
            "observations": len(product.observations),
            "secret_values": len(product.secret_values),
            "product_states": product.process.num_states,
            "horizon": problem.horizon,
        },
        "start": [[int(state), float(mdp.start[state])] for state in np.flatnonzero(mdp.start)],
        "traps": list(traps(mdp)),
        "labels": {label: states.tolist() for label, states in mdp.labels.items()},
        "secret_label": "secret" if "secret" in mdp.labels else None,
        "coverage": [
            {"observation": name, "states": [[state, share] for state, share in states.items()]}
            for name, states in coverage(problem).items()
        ],
        "grid": {"width": grid.width, "height": grid.height, "cells": [list(cell) for cell in grid.cells]}
        if grid
        else None,
        "graph": graph,
    }


def _graph(problem: opaq.Problem, average: Shares) -> dict[str, Any]:
    """Positions by networkx, edges weighted by the policy (uniform where a state cannot occur)."""
    mdp = problem.mdp
    state_of, action_of = mdp.choice_state(), mdp.choice_action
    edges: dict[tuple[int, int], tuple[float, list[int]]] = {}
    choices = mdp.transitions.row_of_entry()
    for choice, target, chance in zip(choices, mdp.transitions.columns, mdp.transitions.values, strict=True):
        source, action = int(state_of[choice]), int(action_of[choice])
        weight, actions = edges.get((source, int(target)), (0.0, []))
        share = average.get(source, {}).get(action, 0.0)
        edges[source, int(target)] = (weight + share * float(chance), [*actions, action])
    drawn = nx.Graph((source, target) for source, target in edges if source != target)
    drawn.add_nodes_from(range(mdp.num_states))
    spread = nx.kamada_kawai_layout(drawn) if mdp.num_states < 50 else nx.spring_layout(drawn, seed=1)
    points = np.array([spread[state] for state in range(mdp.num_states)])
    points = (points - points.min(axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-9)
    return {
        "positions": points.round(4).tolist(),
        "edges": [[source, target, min(1.0, p), sorted(set(by))] for (source, target), (p, by) in edges.items()],
    }


def _policy(view: PolicyView, *, given: bool) -> dict[str, Any]:
    timed = view.changes_with_time
    return {
        "conditions_on": list(view.product.policy_class.conditions_on),
        "given": given,
        "average": _shares(view.average()),
        "by_time": [_shares(shares) for shares in view.by_time()] if timed else None,
    }


def _shares(shares: Shares) -> list[Any]:
    return [[state, [[action, round(p, 4)] for action, p in row.items() if p >= 5e-4]] for state, row in shares.items()]


def _shown_runs(
    product: Product, pi: FloatArray, measurement: opaq.Measurement, count: int
) -> tuple[list[Replay], list[dict[str, Any]]]:
    sampled = replayed(product, pi, simulated(product, pi, count=count, rng=np.random.default_rng(7)))
    info = [
        {"kind": "sampled", "title": f"Sampled run {number}", "secret": run.secret, "probability": None, "bits": None}
        for number, run in enumerate(sampled, start=1)
    ]
    shown = list(sampled)
    for kind, sequences in {"revealing": measurement.revealing, "confusing": measurement.confusing}.items():
        for number, sequence in enumerate(sequences, start=1):
            run = _drawn(product, pi, sequence.observations)
            shown += replayed(product, pi, [run])
            info.append(
                {
                    "kind": kind,
                    "title": f"Most {kind} {number}",
                    "secret": run.secret,
                    "probability": sequence.probability,
                    "bits": sequence.bits,
                    "note": "One run drawn among those that show these observations.",
                }
            )
    return shown, [{"note": ""} | entry for entry in info]


def _drawn(product: Product, pi: FloatArray, observations: Sequence[str]) -> Run:
    """A run that shows these observations: drawn until one does, or else without states and actions."""
    rng = np.random.default_rng(11)
    for run in simulated(product, pi, count=2000, rng=rng):
        if run.observations[: len(observations)] == tuple(observations):
            end = len(observations)
            return Run(run.states[:end], run.actions[:end], tuple(observations), run.secret)
    return Run((), (), tuple(observations), "")


def _moments(product: Product, pi: FloatArray, run: Replay) -> list[dict[str, Any]]:
    beliefs = filtered(product, pi, [moment.observation for moment in run.moments])
    return [
        {
            "time": moment.time,
            "state": moment.state,
            "action": moment.action,
            "observation": moment.observation,
            "belief": dict(moment.posterior),
            **_states(product, belief),
            "entropy": entropy(moment.posterior.values()),
        }
        for moment, (belief, _) in zip(run.moments, beliefs, strict=True)
    ]


def _states(product: Product, belief: FloatArray) -> dict[str, Any]:
    """P(s_t | o_0 .. o_t) of the likeliest states, and of all others together."""
    shares = np.bincount(product.state_of, weights=belief, minlength=product.problem.mdp.num_states)
    order = [int(state) for state in np.argsort(-shares, kind="stable")[:MOST_BELIEVED] if shares[state] > 0]
    rest = max(0.0, 1.0 - float(shares[order].sum())) if len(order) == MOST_BELIEVED else 0.0
    return {"states": [[state, float(shares[state])] for state in order], "rest": rest}


def entropy(shares: Iterable[float]) -> float:
    return max(0.0, -sum(p * math.log2(p) for p in shares if p > 0))


def _over_time(runs: Sequence[Replay]) -> dict[str, Any]:
    points = []
    for time in range(len(runs[0].moments)):
        posteriors = [run.moments[time].posterior for run in runs]
        bits = np.array([entropy(posterior.values()) for posterior in posteriors])
        error = 2 * float(bits.std()) / math.sqrt(len(runs))
        points.append(
            {
                "time": time,
                "opacity": float(bits.mean()),
                "lower": max(0.0, float(bits.mean()) - error),
                "upper": float(bits.mean()) + error,
                "guess_error": float(np.mean([1 - max(posterior.values()) for posterior in posteriors])),
            }
        )
    return {"method": "estimate", "explanation": f"{len(runs):,} sampled runs, two standard errors", "points": points}


def _posteriors(runs: Sequence[Replay]) -> dict[str, Any]:
    edges = np.linspace(0, 1, 21)
    right, wrong = np.zeros(20), np.zeros(20)
    sure = 0.0
    for run in runs:
        value, confidence = max(run.moments[-1].posterior.items(), key=lambda item: item[1])
        index = min(19, int(confidence * 20))
        (right if value == run.secret else wrong)[index] += 1 / len(runs)
        sure += (confidence >= 0.99) / len(runs)
    bins = [
        {"from": float(edges[i]), "to": float(edges[i + 1]), "right": float(right[i]), "wrong": float(wrong[i])}
        for i in range(20)
    ]
    explanation = f"{len(runs):,} sampled runs"
    figures = {"sure": sure, "unsure": 1 - sure, "wrong": float(wrong.sum())}
    return {"method": "estimate", "explanation": explanation, "bins": bins} | figures


@cache
def grid_example() -> Example:
    """The grid of the paper with a timed policy and its certificate."""
    problem = opaq.load_problem("grid-last-state-4")
    solution = opaq.solve(problem, conditions="state,time", num_starts=1, seed=1)
    certificate = opaq.certify(problem, solution.policy, gap=0.02, time=3)
    text = opaq.scenarios.text("grid-last-state-4")
    data = report_data(problem, solution.policy, text=text, solution=solution, certificate=certificate)
    return Example(problem, solution.policy, data)


@cache
def graph_example() -> Example:
    """The graph of the paper with a solved policy and everything else a report can hold."""
    problem = opaq.load_problem("graph")
    solution = opaq.solve(problem, num_starts=1, seed=1)
    certificate = opaq.certify(problem, solution.policy, time=2)
    comparison = opaq.compare(problem, classes=["state", "state,automaton", "state,time"], num_starts=1)
    extras = {"solution": solution, "certificate": certificate, "comparison": comparison}
    data = report_data(problem, solution.policy, text=opaq.scenarios.text("graph"), **extras)
    return Example(problem, solution.policy, data)


@cache
def ring_example(num_states: int = 300) -> Example:
    """A generated model: rooms around a ring with short cuts, watched in eight sectors; the uniform policy."""
    rng = np.random.default_rng(3)
    names = [f"room{number}" for number in range(num_states)]
    far = rng.integers(0, num_states, size=num_states)
    transitions = {
        name: {
            "on": {names[(number + 1) % num_states]: 0.9, name: 0.1},
            "leap": {names[far[number] if number % 10 == 0 else (number + 3) % num_states]: 1},
        }
        for number, name in enumerate(names)
    }
    sectors = {name: f"sector {number * 8 // num_states}" for number, name in enumerate(names)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": f"ring of {num_states} rooms",
            "model": {
                "states": names,
                "actions": ["on", "leap"],
                "start": {names[0]: 0.5, names[num_states // 2]: 0.5},
                "transitions": transitions,
                "labels": {"vault": names[::7]},
            },
            "observer": {"emissions": {name: {sectors[name]: 0.6, "quiet": 0.4} for name in names}},
            "secret": {"last_state": "vault"},
            "horizon": 8,
        }
    )
    return Example(problem, None, report_data(problem, samples=100))


@cache
def table_example() -> Example:
    """The same model without a picture."""
    ring = ring_example()
    model = ring.data["model"] | {"kind": "table", "graph": None}
    return Example(ring.problem, None, ring.data | {"model": model})


@cache
def warehouse_example(side: int = 100) -> Example:
    """10,000 cells with walls, sensors and a quarter that is secret; the uniform policy."""
    walls = [[column, row] for column in range(4, side, 8) for row in range(2, side) if row % 12 > 2]
    taken = {tuple(wall) for wall in walls}

    def block(left: int, top: int, size: int) -> list[list[int]]:
        cells = [[x, y] for x in range(left, left + size) for y in range(top, top + size)]
        return [cell for cell in cells if tuple(cell) not in taken and max(cell) < side]

    middle, quarter = side // 2, side // 4
    corners = {f"S{i}": (9 + 30 * (i % 3), 5 + 32 * (i // 3)) for i in range(9)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "warehouse of 10,000 cells",
            "grid": {
                "size": [side, side],
                "walls": walls,
                "slip": 0.05,
                "start": block(middle - 3, middle - 3, 6),
                "labels": {"secret": block(0, 0, middle), "goal": block(quarter, quarter, 3)},
            },
            "observer": {
                "sensors": {name: {"covers": block(*corner, 7), "detects": 0.8} for name, corner in corners.items()}
            },
            "secret": {"last_state": "secret"},
            "horizon": 20,
        }
    )
    data = report_data(problem, runs=2, samples=30, text="# generated: 100 x 100 cells\n", samples_only=True)
    return Example(problem, None, data)


HOSTILE: Mapping[str, str] = {
    "script": "<script>alert(1)</script>",
    "end": "</script><img src=x onerror=alert(2)>",
    "quotes": "\"'`&amp;<b>bold</b>",
    "rtl": "‮שלום مرحبا",
    "long": "x" * 200,
    "proto": "__proto__",
    "newline": "two\nlines {{ 7*7 }} {% raw %}",
}


@cache
def hostile_example() -> Example:
    """States, actions, observations and labels called what no one should be called."""
    names = list(HOSTILE.values())
    after = {name: names[(number + 1) % len(names)] for number, name in enumerate(names)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "</title><script>alert(3)</script> & “names”",
            "model": {
                "states": names,
                "actions": ["<i>go</i>", "constructor"],
                "start": {names[0]: 0.5, names[3]: 0.5},
                "transitions": {
                    name: {"<i>go</i>": {after[name]: 0.7, name: 0.3}, "constructor": {HOSTILE["proto"]: 1}}
                    for name in names
                },
                "labels": {"hasOwnProperty": [HOSTILE["proto"], HOSTILE["rtl"]]},
            },
            "observer": {"emissions": {name: {name: 0.5, "toString": 0.5} for name in names}},
            "secret": {"initial_state": True},
            "horizon": 5,
        }
    )
    return Example(problem, None, report_data(problem))


EXAMPLES = {
    "grid": grid_example,
    "graph": graph_example,
    "ring": ring_example,
    "table": table_example,
    "warehouse": warehouse_example,
    "hostile": hostile_example,
}
