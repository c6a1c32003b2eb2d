"""The pictures of the page about concepts, from real computations: `python docs/pictures/concepts.py`.

It writes the figures that the page quotes to concepts.json; a test holds the page against them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import opaq
from opaq.opacity.filtering import filter_states

matplotlib.use("Agg")
matplotlib.rcParams |= {"svg.hashsalt": "opaq", "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif"}

import matplotlib.pyplot as plt  # noqa: E402 - after the backend is chosen

FOLDER = Path(__file__).parent
PATROL = FOLDER.parent.parent / "examples" / "patrol.yaml"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#999999"
SEED = 3  # of the run that is shown
POLICIES = 400  # in the cloud of bits and guesses


def main() -> None:
    """Compute everything, draw it, print the figures."""
    figures = belief() | clock(draw=True) | certificate() | bits_and_guesses()
    (FOLDER / "concepts.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def belief() -> dict[str, str]:
    """One run of the solved patrol: where the drone is, and where the observer believes it to be."""
    problem = opaq.load_problem(PATROL)
    solution = opaq.solve(problem, starts=2)
    product = solution.product
    (run,) = opaq.simulate(problem, solution.policy, runs=1, seed=SEED)
    steps = filter_states(product, product.policy_vector(solution.policy), run.observations)
    heat = np.array([np.bincount(product.state_of, weights=now, minlength=6) for now, _ in steps])
    (replay,) = opaq.replay(problem, solution.policy, runs=[run])
    yes = [moment.belief.get("yes", 0.0) for moment in replay.steps]

    figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.8), width_ratios=[1.6, 1], layout="constrained")
    image = left.imshow(heat, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    left.plot(
        [problem.mdp.states.index(state) for state in run.states],
        range(len(run.states)),
        "o-",
        color=ORANGE,
        ms=4,
        lw=1,
    )
    left.set_xticks(range(6), ["0", "1\nkey", "2", "3", "4\narchive", "5\nend"])
    left.set_yticks(range(len(run.states)), [f"t={t}  {seen}" for t, seen in enumerate(run.observations)])
    left.set_title("belief over cells (blue), the drone (orange)", fontsize=8)
    figure.colorbar(image, ax=left, shrink=0.8)
    right.barh(range(len(yes)), yes, color=BLUE, height=0.7)
    right.set_xlim(0, 1)
    right.invert_yaxis()
    right.set_yticks(range(len(yes)), [f"t={t}" for t in range(len(yes))])
    right.set_title('P(secret is "yes" | seen so far)', fontsize=8)
    _save(figure, "belief")
    return {"belief_secret": replay.secret, "belief_prior": f"{yes[0]:.2f}", "belief_last": f"{yes[-1]:.2f}"}


def clock(*, draw: bool) -> dict[str, str]:
    """Two sinks: every policy without a clock, against the best one with a clock."""
    problem = opaq.load_problem("two-sink")
    chances = np.linspace(0, 1, 41)
    curve = [_without_clock(problem, chance).opacity.value for chance in chances]
    timed = opaq.solve(problem, conditions="state,time", starts=2)
    first, second = (timed.policy.rows[("q0", time)].get("b", 0.0) for time in (0, 1))
    best, most = max(curve), timed.measurement.opacity.value
    if draw:
        figure, axes = plt.subplots(figsize=(4.6, 2.6), layout="constrained")
        axes.plot(chances, curve, color=BLUE, label="without a clock")
        axes.axhline(most, color=ORANGE, label="best with a clock")
        axes.set_xlabel("probability of b in q0 (a waits, b moves on)")
        axes.set_ylabel("opacity (bits)")
        axes.set_ylim(0, 0.62)
        axes.legend(frameon=False, loc="lower center")
        axes.spines[["top", "right"]].set_visible(False)
        _save(figure, "clock")
    exact = opaq.solve(problem, starts=2).measurement.opacity.value
    assert best <= exact + 1e-9
    return {
        "without_clock": f"{exact:.4f}",
        "with_clock": f"{most:.4f}",
        "b_at_0": f"{first:.2f}",
        "b_at_1": f"{second:.2f}",
    }


def _without_clock(problem: opaq.Problem, chance: float) -> opaq.Measurement:
    rows = {("q0",): {"a": 1 - chance, "b": chance}, ("q1",): {"a": 1.0}, ("q2",): {"a": 1.0}}
    return opaq.measure(problem, opaq.Policy(problem.policy_class, rows), sequences=0)


def certificate() -> dict[str, str]:
    """The patrol: what policies reach from below, and what is proven from above."""
    problem = opaq.load_problem(PATROL)
    uniform = opaq.measure(problem, sequences=0)
    solution = opaq.solve(problem, starts=2)
    timed = opaq.solve(problem, starts=2, conditions="state,automaton,time")
    proven = opaq.certify(problem, timed.policy, time_limit=120.0)
    reached = [uniform.opacity.value, solution.measurement.opacity.value, timed.measurement.opacity.value]
    bound = np.ceil(proven.upper_bound * 1e4) / 1e4
    figure, axes = plt.subplots(figsize=(6.6, 1.7), layout="constrained")
    axes.axvspan(0, reached[2], color="#d7e9f4")
    axes.axvspan(reached[2], bound, color="#dddddd")
    axes.axvspan(bound, 1, color="#f7dccb")
    marks = [("solved", reached[1], BLUE, 0.75), ("with a clock", reached[2], BLUE, 0.45)]
    for name, value, colour, height in [*marks, ("bound", bound, ORANGE, 0.15)]:
        axes.axvline(value, color=colour, lw=1.6)
        axes.text(value - 0.0006, height, f"{name} {value:.4f}", ha="right", va="center")
    axes.text(0.7415, 0.75, "no policy is here", ha="center", va="center", color=ORANGE)
    axes.set_xlim(0.69, 0.75)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xlabel("opacity (bits); blue: reached, grey: not known, orange: proven out of reach")
    axes.spines[["top", "right", "left"]].set_visible(False)
    _save(figure, "certificate-line")
    names = ("patrol_uniform", "patrol_solved", "patrol_clock")
    return {name: f"{value:.4f}" for name, value in zip(names, reached, strict=True)} | {"patrol_bound": f"{bound:.4f}"}


def bits_and_guesses() -> dict[str, str]:
    """Random policies of two sinks: bits that stay hidden against wrong guesses."""
    problem = opaq.load_problem("two-sink")
    timed = opaq.PolicyClass(("state", "time"))
    rng = np.random.default_rng(0)
    cloud = np.array([_random_policy(problem, timed, rng) for _ in range(POLICIES)])
    best = opaq.solve(problem, conditions="state,time", starts=2).measurement
    sure = opaq.measure(problem, opaq.Policy(timed, _rows(0.0, 1.0)), sequences=0)
    errors = np.linspace(1e-6, 0.5, 200)
    fano = -errors * np.log2(errors) - (1 - errors) * np.log2(1 - errors)
    figure, axes = plt.subplots(figsize=(4.6, 3.0), layout="constrained")
    axes.fill_betweenx(errors, 2 * errors, fano, color="#eeeeee", label="possible with two values")
    axes.plot(cloud[:, 0], cloud[:, 1], ".", color=BLUE, ms=3, alpha=0.6, label="random policies")
    points = (("most bits", best, ORANGE), ("a first, then b", sure, GREEN))
    for name, measured, colour in points:
        axes.plot(measured.opacity.value, measured.guess_error.value, "o", color=colour, label=name)
    axes.set_xlabel("opacity (bits)")
    axes.set_ylabel("probability of a wrong guess")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 0.5)
    axes.legend(frameon=False, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, "bits-and-guesses")
    return {
        "most_bits": f"{best.opacity.value:.4f}",
        "most_bits_error": f"{best.guess_error.value:.4f}",
        "wait_bits": f"{sure.opacity.value:.4f}",
        "wait_error": f"{sure.guess_error.value:.4f}",
    }


def _random_policy(problem: opaq.Problem, timed: opaq.PolicyClass, rng: np.random.Generator) -> tuple[float, float]:
    measured = opaq.measure(problem, opaq.Policy(timed, _rows(*rng.random(2).tolist())), sequences=0)
    return measured.opacity.value, measured.guess_error.value


def _rows(first: float, second: float) -> dict[Any, dict[str, float]]:
    rows: dict[Any, dict[str, float]] = {(state, time): {"a": 1.0} for state in ("q0", "q1", "q2") for time in range(3)}
    rows[("q0", 0)] = {"a": 1 - first, "b": first}
    rows[("q0", 1)] = {"a": 1 - second, "b": second}
    return {key: row for key, row in rows.items() if key not in {("q1", 0), ("q2", 0)}}


def _save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
