"""The last line of a comparison: what no policy of any class exceeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opaq.certificates.certificate import certify
from opaq.certificates.ladder import Rung
from opaq.certificates.uncertainty_decoders import has_certificate
from opaq.model.problem import Problem
from opaq.solvers.comparison import Comparison
from opaq.stop import Stop, StoppedError


def with_bound(
    comparison: Comparison,
    problem: Problem,
    *,
    time: float,
    stop: Stop | None = None,
    on_progress: Callable[[Rung], None] | None = None,
) -> Comparison:
    """The comparison with a certified bound; without one where the task minimises, is met by no class, or
    is about an uncertainty that has no certificate.

    A comparison whose bound was interrupted says so, and has the best bound by then, if there is one.

    problem: the problem that was compared. time: seconds for the certificate. stop, on_progress: as in `certify`.
    """
    feasible = [rung for rung in comparison.rungs if rung.measurement.feasible]
    if problem.task.minimise or not has_certificate(problem.task.of) or not feasible:
        return comparison
    best = max(feasible, key=lambda rung: rung.measurement.uncertainty.lower)
    conditions = [one for rung in comparison.rungs for one in rung.policy.policy_class.conditions]
    try:
        certificate = certify(
            problem,
            best.policy,
            time=time,
            aware=any(condition.sees_observations for condition in conditions),
            stop=stop,
            on_progress=on_progress,
        )
    except StoppedError:
        bounded = comparison
    else:
        bounded = replace(
            comparison,
            bound=certificate.upper_bound,
            bound_scope=certificate.scope,
            bound_is_trivial=certificate.is_trivial,
        )
    return replace(bounded, interrupted=comparison.interrupted or (stop is not None and stop.interrupted))
