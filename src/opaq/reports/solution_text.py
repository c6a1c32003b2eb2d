"""Solutions as words for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from opaq.reports.measurement_text import amount_to_dict, amount_words, measurement_to_dict

Solution = Any  # an opaq.solvers.solve.Solution; reports know no solver, only what they are given


def solution_to_dict(solution: Solution) -> dict[str, Any]:
    """The measurement of the policy found, and how it was found."""
    found = measurement_to_dict(solution.measurement)
    of, task = solution.measurement.of, solution.product.problem.task
    found |= {
        "objective": {
            "direction": "minimise" if task.minimise else "maximise",
            "of": of.name,
            **amount_to_dict(solution.measurement.uncertainty),
        },
        "status": solution.status.name.lower(),
        "status_text": solution.status_text,
        "interrupted": solution.status.name == "INTERRUPTED",
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
                "start": result.index,
                "kind": result.kind,
                "status": result.status.name.lower(),
                of.name: solution.value_of(result.best.score),
                "standard_error": abs(solution.value_of(result.best.error)) or None,
                "feasible": result.best.feasible,
                "iterations": result.iterations,
                "seconds": result.seconds,
            }
            for result in solution.starts
        ],
        "trace": [
            {
                "iteration": trace.iteration,
                of.name: solution.value_of(trace.score),
                "slack": trace.slack.tolist(),
                "multipliers": trace.multipliers.tolist(),
            }
            for trace in solution.trace
        ],
    }
    return found


def verdict_rows(solution: Solution) -> tuple[tuple[str, str], ...]:
    """How the search ended, what it was for where that is not the opacity, and what is attainable if it missed."""
    attainable = [
        ("attainable", f"{most.name} can be at most {most.largest:.6g}; {most.threshold:.6g} is asked")
        for most in solution.attainable
        if solution.status.name in ("INFEASIBLE", "NOT_FOUND")
    ]
    return (("status", solution.status_text), *_aim(solution), *attainable)


def search_rows(solution: Solution) -> tuple[tuple[str, str], ...]:
    """How the policy was found."""
    rows = [("starts", _spread(solution))]
    if solution.optimality is not None:
        unit = solution.measurement.of.unit or f"of {solution.measurement.of.title}"
        rows.append(("optimality", _optimality_words(solution.optimality, unit, minimise=_minimises(solution))))
    method = f"solver {solution.solver} on {solution.gradients} gradients"
    return (*rows, ("time", f"{solution.seconds:.1f} s, {method}, seed {solution.seed}"))


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
    feasible = [result.best for result in solution.starts if result.best.feasible]
    if not feasible:
        return f"none of {len(solution.starts)} starts ended feasible"
    count = f"{len(feasible)} of {len(solution.starts)} feasible"
    idle = sum(solution.hides_nothing(best) for best in feasible)
    if idle == len(feasible):
        each = "its policy has" if idle == 1 else "each of their policies has"
        return f"{count}; {each} nothing to hide (one value of the secret), which says nothing of an optimum"
    scores = sorted((solution.value_of(best.score) for best in feasible), reverse=True)
    spread = f"{solution.measurement.of.title} from {scores[-1]:.4f} to {scores[0]:.4f}, median {median(scores):.4f}"
    error = max(abs(solution.value_of(best.error)) for best in feasible)
    estimated = f" (estimates, each ± {error:.1g} or less)" if error else ""
    secretless = f"; {idle} of them with nothing to hide (one value of the secret)" if idle else ""
    return f"{count}; {spread}{estimated}{secretless}{_polish_note(solution, scores)}"


def _polish_note(solution: Solution, scores: Sequence[float]) -> str:
    """That the answer is better than what any start ended with, where four digits show it."""
    if solution.gradients == "sampled":
        return ""
    reached, minimise = solution.measurement.uncertainty, _minimises(solution)
    best = min(scores) if minimise else max(scores)
    better = reached.value < best if minimise else reached.value > best
    if reached.method != "exact" or not better or f"{best:.4f}" == f"{reached.value:.4f}":
        return ""
    return f"; the best was then polished to {reached.value:.4f}"


def _aim(solution: Solution) -> list[tuple[str, str]]:
    """What was maximised or minimised, unless it is the opacity that is shown anyway."""
    measurement, minimise = solution.measurement, solution.product.problem.task.minimise
    if measurement.of.name == "opacity":
        return []
    unit = f" {measurement.of.unit}" if measurement.of.unit else ""
    words = f"{measurement.of.title}: {amount_words(measurement.uncertainty)}{unit}"
    return [("minimised" if minimise else "maximised", words)]


def _minimises(solution: Solution) -> bool:
    return bool(solution.product.problem.task.minimise)


def _optimality_words(found: Any, unit: str, *, minimise: bool) -> str:
    """Curvatures are those of what is maximised: of a minimum, with the other sign."""
    words = f"at most {found.residual:.1e} {unit} per unit of probability moved, gradient {found.gradient_norm:.1e}"
    if found.curvature is None:
        return words
    if minimise:
        return f"{words}, smallest curvature {-found.curvature:.1e} (a local minimum has none below 0)"
    return f"{words}, largest curvature {found.curvature:.1e} (a local maximum has none above 0)"
