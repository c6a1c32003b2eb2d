"""What may be said of the policy found: the status follows from evidence at it, not from what a solver claims."""

from __future__ import annotations

from dataclasses import dataclass

from opaq.model.uncertainty import Shannon, Uncertainty
from opaq.opacity.exact import evaluate, further_leaves
from opaq.opacity.measure import Measurement
from opaq.solvers.judge import NO_SECRET, Candidate
from opaq.solvers.objective import Objective
from opaq.solvers.optimality import MAX_HESSIAN, Optimality, optimality
from opaq.solvers.policy_classes import has_many_optima
from opaq.solvers.polish import Polished, polish
from opaq.solvers.starts import Attainable
from opaq.solvers.strategy import UNPROVEN, Status, Trace

_CHEAP_HESSIAN = 2_000_000  # parameters x beliefs up to which the Hessian takes seconds
_FEWEST_EVALUATIONS = 30
_CHEAP_POLISH = 1_000_000  # evaluations x beliefs that take about a second, up to
_CHEAP_EVALUATIONS = 500
_FEWEST_STEPS = 5  # a quarter of the steps of a search, these at least, say how far it still moves
_MANY_OPTIMA = "policies with such a memory often have other local optima that are better"
_CERTIFIED = "the certificate says how good"
_NOTHING_SECRET = (
    "nothing is secret under this policy: its runs have one value of the secret, so it has nothing to hide"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A policy, how the solve ended, and the evidence."""

    candidate: Candidate
    status: Status
    optimality: Optimality | None
    untested: str = ""  # why convergence is not tested, and how far the search still moved
    many_optima: bool = False  # whether policies of this class often have other, better optima


def judge_optimality(
    objective: Objective,
    candidate: Candidate,
    *,
    claimed: Status,
    evaluations: int,
    trace: tuple[Trace, ...] = (),
) -> Verdict:
    """The verdict on a feasible policy that a search ended with, which claims to have ended in some way.

    `trace` is that of the search: where convergence is not tested, the verdict says how far its values still moved.

    A claim of convergence, a limit reached, or a policy no search began from is followed by a polish on exact
    gradients: about as many evaluations as given, more where they are cheap. Then the evidence decides. Raises
    StoppedError when the objective's stop is requested meanwhile.
    """
    if objective.gradients == "sampled":
        status = claimed if claimed in (Status.STOPPED, Status.EDGE) else Status.COMPLETED
        return Verdict(candidate, status, None, _sampled(objective, claimed, trace))
    pi = objective.process.softmax(candidate.theta)
    leaf = objective.leaf
    whole = evaluate(objective.process, pi, leaves=further_leaves(leaf), budget=objective.budget, stop=objective.stop)
    objective.stop.check()
    cheap = leaf.smooth and pi.size <= MAX_HESSIAN and pi.size * whole.num_nodes < _CHEAP_HESSIAN
    exact = whole.of(leaf).method == "exact"
    if claimed is Status.COMPLETED or not exact:
        reason = _untested_verdict(objective, claimed, exact, trace)
        status = claimed if claimed in (Status.STOPPED, Status.EDGE) else Status.COMPLETED
        tested = exact and (leaf.smooth or objective.sign > 0)
        found = optimality(objective, candidate.theta, second_order=cheap).in_units(leaf.scale) if tested else None
        return Verdict(candidate, status, found, reason)
    quick = min(_CHEAP_POLISH // max(whole.num_nodes, 1), _CHEAP_EVALUATIONS)
    allowed = max(evaluations, quick, _FEWEST_EVALUATIONS)
    ended = polish(objective, candidate, evaluations=allowed, second_order=cheap)
    found = ended.optimality.in_units(leaf.scale)
    if not leaf.smooth and (objective.sign < 0 or not ended.optimality.holds):
        return _at_kinks(objective, ended, found)
    if ended.optimality.holds:
        many = has_many_optima(objective.product.policy_class)
        return Verdict(ended.candidate, Status.CONVERGED, found, many_optima=many)
    return Verdict(ended.candidate, Status.STOPPED if ended.gaining else Status.SETTLED, found)


def _at_kinks(objective: Objective, ended: Polished, found: Optimality) -> Verdict:
    """Where a slope can neither confirm nor refute an optimum; for a minimum it bounds nothing, and is not shown."""
    status = Status.STOPPED if ended.gaining and objective.sign > 0 else Status.COMPLETED
    title = objective.product.problem.task.of.title
    shown = found if objective.sign > 0 else None
    return Verdict(ended.candidate, status, shown, f"the {title} has kinks, where no slope proves an optimum")


def _sampled(objective: Objective, claimed: Status, trace: tuple[Trace, ...]) -> str:
    ended = "; the search ended where its samples show no gain beyond their noise" if claimed is Status.SETTLED else ""
    return f"the gradients were sampled{ended}{_movement(objective, trace)}"


def _untested_verdict(objective: Objective, claimed: Status, exact: bool, trace: tuple[Trace, ...]) -> str:
    if claimed is Status.COMPLETED:
        return f"the solver runs the iterations asked for{_movement(objective, trace)}"
    if exact:
        return ""
    size = f"the belief graph is larger than the budget of {objective.budget.nodes:,} beliefs a level"
    return f"{size}{_movement(objective, trace)}"


def _movement(objective: Objective, trace: tuple[Trace, ...]) -> str:
    """Between which values the search still moved in its last steps."""
    last = trace[-max(len(trace) // 4, _FEWEST_STEPS) :]
    if len(last) < 2:
        return ""
    values = [objective.sign * objective.scale * each.score for each in last]
    low, high = f"{min(values) + 0.0:.4f}", f"{max(values) + 0.0:.4f}"
    of = objective.product.problem.task.of.title
    what = f"the estimated {of}" if objective.gradients == "sampled" else f"the {of}"
    steps = f"in the last {len(last):,} of {len(trace):,} steps"
    if low == high:
        return f"; {steps} {what} stayed at {low}"
    return f"; {steps} {what} still moved between {low} and {high}"


def status_text(
    verdict: Verdict, measurement: Measurement, attainable: tuple[Attainable, ...], *, minimise: bool = False
) -> str:
    """The sentence for people, with the figures it rests on."""
    ended = _ended(verdict, measurement, attainable, minimise=minimise)
    return _add_empty_secret(ended, measurement)


def certified_text(found: Optimality, measurement: Measurement, *, many_optima: bool, minimise: bool) -> str:
    """Return the sentence of a converged solve that is shown beside a certificate, which says how good the policy is.

    found: the evidence for a local optimum; many_optima, minimise: as in the verdict and the task.
    """
    text = _converged_text(found, measurement.of, minimise=minimise, many_optima=many_optima, proof=_CERTIFIED)
    return _add_empty_secret(text, measurement)


def _add_empty_secret(text: str, measurement: Measurement) -> str:
    return text if measurement.secret_entropy > NO_SECRET else f"{text}; {_NOTHING_SECRET}"


def _ended(verdict: Verdict, measurement: Measurement, attainable: tuple[Attainable, ...], *, minimise: bool) -> str:
    status, found = verdict.status, verdict.optimality
    sentence: str = status.value
    if status is Status.CONVERGED and found is not None:
        many = verdict.many_optima
        return _converged_text(found, measurement.of, minimise=minimise, many_optima=many, proof=UNPROVEN)
    if status in (Status.SETTLED, Status.STOPPED) and found is not None:
        return f"{sentence} ({_remaining_gain(found, measurement.of)})"
    if status in (Status.COMPLETED, Status.STOPPED) and verdict.untested:
        return f"{sentence}: {verdict.untested}"
    if status in (Status.INFEASIBLE, Status.NOT_FOUND):
        return f"{sentence}; {_closest(measurement, attainable)}"
    if status in (Status.INTERRUPTED, Status.TIME_LIMIT) and not measurement.feasible:
        when = "interrupted" if status is Status.INTERRUPTED else "the time limit was reached"
        return f"{when}: no policy that meets the task was found yet; this one comes closest"
    return sentence


def _converged_text(found: Optimality, of: Uncertainty, *, minimise: bool, many_optima: bool, proof: str) -> str:
    """Return the sentence for a local optimum; `proof` says what is known beyond that."""
    better, many = "downwards" if minimise else "upwards", f"; {_MANY_OPTIMA}" if many_optima else ""
    gain = f"moving probability to another action gains at most {found.residual:.1e} {_unit(of)} per unit"
    if found.curvature is None and of.name != Shannon.name:
        return f"converged: {gain} (a stationary point; its curvature is not tested{many})"
    if found.curvature is None:
        return f"converged: {gain} (a stationary point; too large a problem to test its curvature{many})"
    return f"converged: {gain} and no direction curves {better} (a local optimum{many}; {proof})"


def _unit(of: Uncertainty) -> str:
    return of.unit or f"of {of.title}"


def _remaining_gain(found: Optimality, of: Uncertainty) -> str:
    """What speaks against a local optimum."""
    if not found.stationary:
        return (
            f"moving probability to another action still gains up to {found.residual:.1e} {_unit(of)} per unit, "
            f"converged would be {found.tolerance:.1e}"
        )
    return f"a saddle: the largest curvature is {found.curvature:.1e}, converged would be {found.tolerance:.1e}"


def _closest(measurement: Measurement, attainable: tuple[Attainable, ...]) -> str:
    """How close the policy returned comes."""
    asked = [met for met in measurement.requirements if met.threshold is not None]
    if len(asked) != 1 or len(attainable) != 1:
        return "this policy comes closest"
    most, value = attainable[0].largest, asked[0].value
    if value >= most - 1e-9 * max(1.0, abs(most)):
        return f"this policy earns the most that is attainable, {value:.6g}"
    return f"this policy earns {value:.6g}, the most found in its class (no policy earns more than {most:.6g})"
