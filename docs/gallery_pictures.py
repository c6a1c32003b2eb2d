"""The pictures of the gallery. `draw` is all that the gallery knows: another kind of picture goes here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from gallery_figures import bits, bits_above

import opaq
from opaq.reports.grid_view import GridView
from opaq.reports.policy_view import PolicyView

matplotlib.use("Agg")
matplotlib.rcParams |= {"svg.hashsalt": "opaq", "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif"}

import matplotlib.pyplot as plt  # noqa: E402 - after the backend is chosen

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#999999"
MOST_NODES = 40  # larger graphs are no picture
ARROWS = {
    "N": (0, -1),
    "S": (0, 1),
    "E": (1, 0),
    "W": (-1, 0),
    "UP": (0, -1),
    "DOWN": (0, 1),
    "RIGHT": (1, 0),
    "LEFT": (-1, 0),
}


def draw(problem: opaq.Problem, solution: opaq.Solution, figures: dict[str, Any], file: Path) -> None:
    """The model on the left, what stays hidden on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.9), width_ratios=[1.35, 1], layout="constrained")
    view = GridView.of(problem)
    if view is not None:
        _grid(left, problem, view, solution)
    elif problem.mdp.num_states <= MOST_NODES:
        _graph(left, problem)
    else:
        _summary(left, problem)
    _bars(right, figures)
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _grid(axes: Any, problem: opaq.Problem, view: GridView, solution: opaq.Solution) -> None:
    product = solution.product
    shares = PolicyView(product, product.policy_vector(solution.policy)).average()
    seen = np.zeros((view.height, view.width))
    for states in view.coverage.values():
        for state in states:
            seen[view.cells[state][1], view.cells[state][0]] = 1
    axes.imshow(seen, cmap="Blues", vmin=0, vmax=4)
    for x, y in view.walls:
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, color="#444444"))
    for state in view.traps:
        axes.plot(*view.cells[state], "x", color=ORANGE, ms=7)
    for state, actions in shares.items():
        x, y = view.cells[state]
        axes.plot(x, y, ".", color=BLUE, ms=3 if state not in view.traps else 0)
        for action, share in actions.items():
            dx, dy = ARROWS.get(problem.mdp.actions[action], (0, 0))
            if share > 0.05 and state not in view.traps:
                axes.plot(
                    [x, x + 0.42 * share * dx], [y, y + 0.42 * share * dy], color=BLUE, lw=1.4, solid_capstyle="round"
                )
    for label, states in view.labels.items():
        for state in states:
            x, y = view.cells[state]
            axes.text(x - 0.42, y + 0.4, label, fontsize=6, color=GREEN)
    axes.set_xticks(np.arange(view.width + 1) - 0.5, [])
    axes.set_yticks(np.arange(view.height + 1) - 0.5, [])
    axes.grid(color="#cccccc", lw=0.5)
    axes.tick_params(length=0)
    axes.set_title("blue: watched; lines from dots: the policy", fontsize=7)


def _graph(axes: Any, problem: opaq.Problem) -> None:
    import networkx as nx

    mdp, graph = problem.mdp, nx.DiGraph()
    graph.add_nodes_from(range(mdp.num_states))
    sources = mdp.choice_state()[mdp.transitions.row_of_entry()]
    graph.add_edges_from({(int(s), int(t)) for s, t in zip(sources, mdp.transitions.columns, strict=True) if s != t})
    where = nx.kamada_kawai_layout(graph.to_undirected())
    nx.draw_networkx_edges(
        graph, where, ax=axes, edge_color=GREY, width=0.7, arrowsize=6, connectionstyle="arc3,rad=0.08"
    )
    labelled = {int(state) for states in mdp.labels.values() for state in states}
    colours = [ORANGE if state in labelled else BLUE for state in graph]
    nx.draw_networkx_nodes(graph, where, ax=axes, node_size=60 if mdp.num_states > 15 else 160, node_color=colours)
    if mdp.num_states <= 15:
        for state, name in enumerate(mdp.states):
            axes.annotate(name, where[state], xytext=(0, 8), textcoords="offset points", ha="center", fontsize=7)
    axes.margins(0.2)
    axes.axis("off")
    axes.set_title("states and moves; labelled states are orange", fontsize=7)


def _summary(axes: Any, problem: opaq.Problem) -> None:
    mdp = problem.mdp
    lines = (f"{mdp.num_states:,} states", f"{mdp.transitions.values.size:,} transitions", f"horizon {problem.horizon}")
    axes.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", fontsize=11, color="#333333")
    axes.axis("off")


def _bars(axes: Any, figures: dict[str, Any]) -> None:
    rows = [("uniform policy", figures["uniform"], GREY), ("solved", figures["opacity"], BLUE)]
    if figures["bound"] is not None:
        rows.append(("no policy\nexceeds", figures["bound"], ORANGE))
    for place, (_, value, colour) in enumerate(rows):
        shown = bits_above(value) if colour == ORANGE else bits(value)
        axes.barh(place, value, color=colour, height=0.6)
        axes.text(value, place, f" {shown}", va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(value for _, value, _ in rows))
    axes.set_xlabel("bits that stay hidden")
    axes.spines[["top", "right"]].set_visible(False)
