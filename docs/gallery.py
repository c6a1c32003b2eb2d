"""The gallery: every bundled scenario and every example, solved, with its figures and a picture.

`python docs/gallery.py` solves all of them again (ten minutes on two idle cores), `python docs/gallery.py tiger` one of
them, `python docs/gallery.py --page` only writes the page from the figures that are there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import opaq

sys.path.insert(0, str(Path(__file__).parent))

from gallery_figures import bits, bits_above
from report_pictures import middle_of, picture

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
FOLDER = DOCS / "gallery"
FIGURES = FOLDER / "figures.json"
STARTS, SECONDS = 2, 900.0  # of a solve; the limit is a guard: a search that it cuts off depends on the machine
BOUND_SECONDS = 20.0

# What each models, what is secret and who watches; the order of the page.
TEXTS = {
    "two-sink": "The smallest problem in which memory pays. The agent waits in `q0` and then falls into "
    "one of two sinks. The observer hears a sink half of the time; which of the two it was is "
    "the secret.",
    "graph-published": "A walk on a small graph with noisy sensors at some nodes. The secret is how far an "
    "automaton that reads goals and secret places has come. This is the variant of the paper's "
    "published experiments, horizon 4.",
    "graph": "The same graph as the text of the paper describes it, horizon 5; it differs in four details, "
    "which the file names.",
    "grid-last-state-4": "A robot on a 6 x 6 grid with walls, traps and five sensors that detect it with "
    "probability 0.7. The secret is whether it ends in a secret cell; it has to collect a "
    "return of 0.3 from the goals on the way. Four moves, horizon 11.",
    "grid-last-state": "The same robot with a fifth action, staying put, and one step more.",
    "grid-initial-state-4": "The same grid; now the secret is in which of three corners the robot started, so "
    "everything it does afterwards may give it away. Four moves, horizon 11.",
    "grid-initial-state": "The same with staying put and one step more: the largest of the paper's problems.",
    "disclosure": "A convoy drives to one of two harbours. A camera in the street must not learn which, "
    "the control room must: it may be left with 0.4 bits of it. Bits are those of the street.",
    "believer": "A guard ends at one of two doors. A rival takes it for one who walks at random, and is led to "
    "the wrong door; bits are those that an informed listener is left with, who must not know too much either.",
    "warehouse": "A robot crosses a 40 x 40 warehouse between seven racks to one of three docks, watched by five "
    "cameras. The secret is at which dock it ends. Too many observations are possible for exact gradients: they are "
    "sampled, and the figures are estimates.",
    "grid-trajectory": "The same grid with four moves; now the whole way of the robot is the secret, cell by cell: "
    "location privacy. There are many ways, so there are many bits.",
    "battery": "A battery of one unit in front of a smart meter. The secret is when the household was busy, in every "
    "one of 13 steps; a fair coin decides. In the long run no such battery hides more than half a bit per step.",
    "courier": "A courier drives from home to the harbour and may go past a depot. The secret is whether "
    "it did. It has to arrive with probability 0.9 and may burn six units of fuel at most. "
    "The observer hears engines, loudest at the depot.",
    "crowds": "Anonymous messages: members pass a message on until one of them delivers it, and five of "
    "fifteen collude. The secret is who sent it; the colluders see who handed it to the first "
    "of them. There is nothing to decide here, so the figures are those of the protocol, "
    "known in closed form.",
    "cryptographers": "Dining cryptographers: one of three has paid, and a fourth sees two coins and what "
    "everybody says. The protocol is perfect, and opaq says so: all of the log2 3 bits stay "
    "hidden.",
    "frozen-lake": "Gymnasium's frozen lake without slipping. The walker has to reach the goal with "
    "probability 0.8 and hides whether it went through the upper right corner; a camera "
    "covers the right half, and falling into a hole is heard.",
    "hallway": "A robot in a hallway of seven cells, from a `.pomdp` file. It has to reach the exit in "
    "the east and hides in which half it started. The observer overhears the robot's own "
    "sensor readings, one in five lost in noise.",
    "machine": "A machine wears out while it makes parts, from a `.pomdp` file. A competitor sees the "
    "parts and must not learn whether the machine is still as new.",
    "patrol": "A drone flies along a corridor of six cells. The secret is a language: whether it "
    "fetched the key and then photographed the archive, in this order. Two microphones "
    "listen.",
    "tiger": "The tiger behind one of two doors, from a `.pomdp` file. Here the agent knows where the "
    "tiger is and the observer does not: the agent has to earn its reward and hides the door.",
}


def source_of(name: str) -> str:
    """What `load_problem` takes: the name of a scenario, or the file of an example."""
    return name if name in opaq.scenario_names() else str(EXAMPLES / f"{name}.yaml")


def figures_of(name: str) -> tuple[dict[str, Any], opaq.Problem, opaq.Solution]:
    """The headline figures of one problem: measured, solved and bounded."""
    problem = opaq.load_problem(source_of(name))
    uniform = opaq.measure(problem, sequences=0)
    solution = opaq.solve(problem, starts=STARTS, time_limit=SECONDS)
    certificate = opaq.certify(problem, solution.policy, time_limit=BOUND_SECONDS)
    best = solution.measurement
    opacity = not problem.assumptions  # else the task is about the cross-entropy of who assumes
    figures = {
        "states": problem.mdp.num_states,
        "horizon": problem.horizon,
        "secret_entropy": best.secret_entropy,
        "uniform": uniform.opacity.value,
        "opacity": best.opacity.value,
        "guess_error": best.guess_error.value,
        "return": best.expected_return,
        "bound": certificate.upper_bound if isinstance(problem.task.of, opaq.Shannon) and opacity else None,
        "status": solution.status.name.lower(),
    }
    return figures, problem, solution


def page(figures: dict[str, dict[str, Any]]) -> str:
    """The page of all problems."""
    return "\n".join(
        ["# Gallery", "", *_head(figures), "", *(line for name in TEXTS for line in _entry(name, figures[name]))]
    )


def _head(figures: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "The bundled scenarios and the problems of [examples](../examples/courier.yaml), solved"
    yield f"with the default settings but {STARTS} starts, all but the warehouse to convergence. Bits are those of the"
    yield "secret that the observer does not know; *bound* is what no policy can exceed, as proven in runs of"
    yield f"{BOUND_SECONDS:.0f} seconds each; how tight it is depends on the machine and its load. This page and its"
    yield "pictures are made by `python docs/gallery.py`."
    yield ""
    yield "| problem | states | horizon | uniform policy | solved | bound | guess error | return |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in TEXTS:
        it = figures[name]
        cells = (f"[{name}](#{name})", it["states"], it["horizon"], bits(it["uniform"]), bits(it["opacity"]))
        more = (bits_above(it["bound"]), f"{it['guess_error']:.3f}", f"{it['return']:.3f}")
        yield f"| {' | '.join(str(cell) for cell in (*cells, *more))} |"


def _entry(name: str, it: dict[str, Any]) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield TEXTS[name]
    yield ""
    yield f"![A run of {name} in its report: what happens, and what the observer believes](gallery/{name}.png)"
    yield ""
    yield f"A uniform policy hides {bits(it['uniform'])} bits, the one found {bits(it['opacity'])}; " + _limit(it)
    yield f"The observer's best guess is then wrong with probability {it['guess_error']:.3f}."
    yield ""
    yield f"`opaq solve {name if name in opaq.scenario_names() else f'examples/{name}.yaml'}`"
    yield ""


def _limit(it: dict[str, Any]) -> str:
    return (
        "there is no bound in bits of opacity, as its task is about another figure."
        if it["bound"] is None
        else f"no policy hides more than {bits_above(it['bound'])}."
    )


def main(arguments: list[str]) -> None:
    """Solve what is asked for, then write the page."""
    names = [] if "--page" in arguments else (arguments or list(TEXTS))
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in names:
        before = figures.get(name, {}).get("bound")
        figures[name], problem, solution = figures_of(name)
        if before is not None and figures[name]["bound"] is not None:
            figures[name]["bound"] = min(before, figures[name]["bound"])  # a proof stays one
        report = opaq.report(problem, solution=solution, time_limit=60)
        run, time = middle_of(report, "confusing")
        picture(report, FOLDER / f"{name}.png", run=run, time=time)
        FIGURES.write_text(
            json.dumps({key: figures[key] for key in TEXTS if key in figures}, indent=1) + "\n", encoding="utf-8"
        )
        print(name, figures[name], flush=True)
    if all(name in figures for name in TEXTS):
        (DOCS / "gallery.md").write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
