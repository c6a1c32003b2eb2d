"""Certificates: seconds until the proven bound is close, against the trivial bound and the history program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import opaq
from benchmarks.rows import Comparison, Section, Settings, Spread, Table, comparison_table, duration
from opaq.certificates.decoder.machines import ObservationTree, ObservationWindow
from opaq.certificates.decoder.search import BoundStep
from opaq.product.compile import compile_problem

TITLE = "Certificates"
EXPLANATION = """
A certificate is a proven upper bound on the opacity of every policy that meets the task. A policy on (state, time) is
solved for once (not timed here) and certified in every repeat. The *trivial bound* is what needs no search, the
entropy of the secret where the policy cannot change it; the figure is by how many times the gap between the policy
and the bound is smaller than with the trivial bound. `certify` decides by itself which observation machines to use,
and whether the history program. A share of the gap that was not closed in the time given is shown as a miss.

On small problems the optimum over all policies that see the states is a convex program over state histories, solved
by Clarabel: the *history program*. The last table sets the observation machines alone (one observation,
then the tree of all observations) against it: seconds to a bound that exceeds the policy by at most the gap. `graph`
is left out: its best policies on (state, time) and on (state, automaton, time) are 0.03 and 0.002 bits below the
optimum, and the gap asked for is 0.002.
"""
GRIDS = ("grid-last-state-4", "grid-last-state", "grid-initial-state-4")
SMALL = ("two-sink", "graph-published")
SHARES = (0.5, 0.9, 0.99)  # of the gap between the policy and the trivial bound
GAP = 2e-3
ROUNDING = 1e-5  # the policy is this close to the optimum


@dataclass(frozen=True, slots=True)
class Climb:
    """One certificate: the bounds with their times."""

    value: float  # of the policy
    points: tuple[tuple[float, float], ...]  # (seconds, bound)
    bound: float
    seconds: float

    def first(self, wanted: float) -> float | None:
        """The seconds until the bound was at most so large."""
        return next((seconds for seconds, bound in self.points if bound <= wanted), None)


def run(settings: Settings) -> Section:
    """The grids with a time limit, the small problems to a gap."""
    problems, limit = grids(quick=settings.quick), 3.0 if settings.quick else 8.0
    ladders = ladder_table([(each, climbs(each, limit=limit, repeats=settings.repeats)) for each in problems], limit)
    small = SMALL[:1] if settings.quick else SMALL
    rows = tuple(against_histories(name, repeats=settings.repeats) for name in small)
    return Section(TITLE, EXPLANATION, (ladders, comparison_table(rows, settings)), rows)


def grids(*, quick: bool) -> list[opaq.Problem]:
    """The paper's grids; one with a short horizon for a quick run."""
    if quick:
        return [replace(opaq.load_problem(GRIDS[0]), horizon=6)]
    return [opaq.load_problem(name) for name in GRIDS]


def climbs(problem: opaq.Problem, *, limit: float, repeats: int) -> list[Climb]:
    """The same policy certified in every repeat."""
    policy = opaq.solve(problem, conditions="state,time", time_limit=limit, sequences=0).policy
    certify(problem, policy, limit=1.0)  # compiles
    return [certify(problem, policy, limit=limit) for _ in range(repeats)]


def certify(problem: opaq.Problem, policy: opaq.Policy, *, limit: float) -> Climb:
    """Bounds as they fall."""
    points: list[tuple[float, float]] = []
    began = perf_counter()

    def note(rung: BoundStep) -> None:
        points.append((perf_counter() - began, rung.bound))

    certificate = opaq.certify(problem, policy, gap=1e-3, time_limit=limit, on_progress=note)
    points.append((certificate.seconds, certificate.upper_bound))
    assert certificate.reached is not None
    return Climb(certificate.reached.lower, tuple(points), certificate.upper_bound, certificate.seconds)


def trivial_bound(problem: opaq.Problem) -> float:
    """The bound that needs no search."""
    return opaq.certify(problem, time_limit=0.0).upper_bound


def ladder_table(ladders: Sequence[tuple[opaq.Problem, Sequence[Climb]]], limit: float) -> Table:
    """How much smaller the gap is, and after which time which share was closed."""
    seconds = tuple(f"context: {100 * share:.3g}% of the gap closed after" for share in SHARES)
    bounds = ("policy", "trivial bound", "bound, worst repeat", "trivial gap / gap, median (range)")
    rows = []
    for problem, ladder in ladders:
        trivial, value = trivial_bound(problem), ladder[0].value
        tighter = Spread.of([(trivial - value) / max(climb.bound - value, 1e-12) for climb in ladder])
        closed = (_closed(ladder, trivial - share * (trivial - value)) for share in SHARES)
        worst = max(climb.bound for climb in ladder)
        name = f"{problem.name}, horizon {problem.horizon}"
        rows.append((name, f"{value:.4f}", f"{trivial:.4f}", f"{worst:.4f}", tighter.text(), *closed))
    return Table(
        ("scenario", *bounds, *seconds),
        tuple(rows),
        f"Time limit of a certificate: {limit:g} s, or until the gap is 1e-3 bits.",
    )


def _closed(ladder: Sequence[Climb], wanted: float) -> str:
    times = [climb.first(wanted) for climb in ladder]
    done = [each for each in times if each is not None]
    missed = f"**missed** in {len(times) - len(done)} of {len(times)}" if len(done) < len(times) else ""
    if not done:
        return missed
    spread = Spread.of(done)
    text = f"{duration(spread.median)} ({duration(spread.least)} to {duration(spread.most)})"
    return f"{text}; {missed}" if missed else text


def against_histories(name: str, *, repeats: int) -> Comparison:
    """Observation machines and the history program to the same gap, in turns."""
    problem = opaq.load_problem(name)
    policy = opaq.solve(problem, conditions="state,time", sequences=0).policy
    machines, histories = small_calls(problem, policy)
    bounds = (machines(), histories())
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, seconds in zip((machines, histories), times, strict=True):
            began = perf_counter()
            call()
            seconds.append(perf_counter() - began)
    same = f"both bounds within {GAP:g} of the policy ({abs(bounds[0] - bounds[1]):.0e} apart)"
    return Comparison(name, "observation machines", "history program", tuple(times[0]), tuple(times[1]), same)


def small_calls(problem: opaq.Problem, policy: opaq.Policy) -> tuple[Callable[[], float], Callable[[], float]]:
    """The bound by observation machines and by the history program; both raise where it is not close enough."""
    product = compile_problem(problem, policy.policy_class)
    value = opaq.measure(problem, policy, sequences=0).opacity.lower
    ladder = (ObservationWindow(1, product.process.num_observations), ObservationTree())

    def close(bound: float) -> float:
        if not value - ROUNDING <= bound <= value + GAP + ROUNDING:
            raise AssertionError(f"{problem.name}: the bound {bound:.6f} is not close to the policy's {value:.6f}")
        return bound

    def machines() -> float:
        return close(opaq.certify(problem, policy, gap=GAP, time_limit=60.0, machines=ladder).upper_bound)

    def histories() -> float:
        optimum = opaq.history_program(problem, gap=GAP, time_limit=60.0).value
        assert optimum is not None
        return close(optimum.upper)

    return machines, histories
