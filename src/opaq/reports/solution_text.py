"""Solutions as words for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from opaq.reports.layout import WIDTH, row
from opaq.reports.measurement_text import measurement_to_dict, render_measurement

Solution = Any  # an opaq.solvers.solution.Solution; reports know no solver, only what they are given


def solution_to_dict(solution: Solution) -> dict[str, Any]:
    """The measurement of the policy found, and how it was found."""
    found = measurement_to_dict(solution.measurement)
    found |= {
        "status": solution.status.name.lower(),
        "status_text": solution.status_text,
        "solver": solution.solver,
        "gradients": solution.gradients,
        "seconds": solution.seconds,
        "seed": solution.seed,
        "attainable": [
            {"name": most.name, "largest": most.largest, "threshold": most.threshold} for most in solution.attainable
        ],
        "optimality": _optimality(solution.optimality),
        "starts": [
            {
                "start": result.place,
                "kind": result.kind,
                "status": result.status.name.lower(),
                "opacity": abs(result.best.score),
                "feasible": result.best.feasible,
                "iterations": result.iterations,
                "seconds": result.seconds,
            }
            for result in solution.starts
        ],
        "trace": [
            {
                "iteration": trace.iteration,
                "opacity": abs(trace.score),
                "slack": trace.slack.tolist(),
                "multipliers": trace.multipliers.tolist(),
            }
            for trace in solution.trace
        ],
    }
    return found


def render_solution(solution: Solution, *, width: int = WIDTH) -> str:
    """The answer as a page for people, `width` columns wide."""
    rows = [("starts", _spread(solution))]
    if solution.optimality is not None:
        rows.append(("optimality", _optimality_words(solution.optimality)))
    method = f"solver {solution.solver} on {solution.gradients} gradients"
    rows.append(("time", f"{solution.seconds:.1f} s, {method}, seed {solution.seed}"))
    above = [("status", solution.status_text)]
    above += [
        ("attainable", f"{most.name} can be at most {most.largest:.6g}; {most.threshold:.6g} is asked")
        for most in solution.attainable
        if solution.status.name in ("INFEASIBLE", "NOT_FOUND")
    ]
    return "\n".join(
        [
            *(line for label, text in above for line in row(label, text, width=width)),
            render_measurement(solution.measurement, width=width),
            "",
            *(line for label, text in rows for line in row(label, text, width=width)),
        ]
    )


def _optimality(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "gradient_norm": found.gradient_norm,
        "residual": found.residual,
        "tolerance": found.tolerance,
        "multipliers": found.multipliers.tolist(),
        "curvature": found.curvature,
    }


def _spread(solution: Solution) -> str:
    scores = sorted((abs(result.best.score) for result in solution.starts if result.best.feasible), reverse=True)
    if not scores:
        return f"none of {len(solution.starts)} starts ended feasible"
    middle = scores[len(scores) // 2]
    words = f"{len(scores)} of {len(solution.starts)} feasible; opacity from {scores[-1]:.4f} to {scores[0]:.4f}"
    return f"{words}, median {middle:.4f}"


def _optimality_words(found: Any) -> str:
    words = f"at most {found.residual:.1e} bits per unit of probability moved, gradient {found.gradient_norm:.1e}"
    if found.curvature is not None:
        words += f", largest curvature {found.curvature:.1e} (a local maximum has none above 0)"
    return words
