"""What every solver must do, whatever its method."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from opaq.model.problem import Problem, Reach, Task
from opaq.solvers.loop import Progress
from opaq.solvers.options import default_of
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.registry import SOLVERS
from opaq.solvers.solve import Solution, solve
from opaq.solvers.strategy import PlanRequest, Solver, Status
from trials import part_of

pytestmark = pytest.mark.parametrize("name", list(SOLVERS))


def strategy(name: str) -> Solver | str:
    """Solvers by name; the paper's takes the steps of its graph experiment, and fewer iterations."""
    return PrimalDual(eta=1.0, kappa=0.2, iterations=400) if name == "primal-dual" else name


def run(problem: Problem, name: str, **options: object) -> Solution:
    return solve(problem, solver=strategy(name), **({"starts": 2, "workers": 1} | options))  # type: ignore[arg-type]


def keeps_its_word(problem: Problem, found: Solution) -> None:
    """The task is met under exact evaluation, or the status says that it is not; the figures are the policy's."""
    again = opaq.measure(problem, found.policy, sequences=0)
    assert again.opacity.value == pytest.approx(found.measurement.opacity.value, abs=1e-12)
    assert again.feasible == found.measurement.feasible
    assert found.measurement.feasible == (found.status not in (Status.INFEASIBLE, Status.NOT_FOUND))
    if found.measurement.feasible:
        for met in again.requirements:
            assert met.threshold is None or met.slack >= -1e-12 * max(1.0, abs(met.threshold))


def test_its_factory_agrees_with_the_strategies_it_makes(name: str) -> None:
    factory = SOLVERS[name]
    defaults = {option: default_of(option) for option in factory.options}
    for gradients in ("exact",) if factory.needs_exact else ("exact", "sampled"):
        for num_starts in (None, 1, 5):
            plan = factory.plan(PlanRequest(gradients, 500, num_starts, defaults))
            assert {each.name for each in plan.rounds} == {name}
            assert [each.max_steps for each in plan.rounds] == sorted({each.max_steps for each in plan.rounds})
            assert len(plan.kept) == len(plan.rounds)
            assert num_starts is None or plan.waves == (num_starts,)


def test_sampled_gradients_are_used_or_refused(name: str) -> None:
    problem = opaq.load_problem("two-sink")
    if SOLVERS[name].needs_exact:
        with pytest.raises(opaq.InputError, match="needs exact ones"):
            run(problem, name, gradients="sampled")
    else:
        found = run(problem, name, gradients="sampled", samples=50)
        assert found.gradients == "sampled"
        assert found.status in (Status.COMPLETED, Status.STOPPED, Status.EDGE)
        keeps_its_word(problem, found)


def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    problem = opaq.load_problem("graph-published")
    one, two = (run(problem, name, seed=7, workers=count) for count in (1, 2))
    assert np.array_equal(one.pi, two.pi)
    assert one.measurement.opacity == two.measurement.opacity
    assert [start.value for start in one.starts] == [start.value for start in two.starts]
    other = run(problem, name, seed=8, start="random")
    assert not np.array_equal(one.pi, other.pi)


@pytest.mark.parametrize("threshold", part_of([0.6, 100.0, 0.2, 1.0], 2))
def test_the_threshold_is_met_exactly_or_said_not_to_be(name: str, threshold: float) -> None:
    problem = replace(opaq.load_problem("graph"), task=Task(return_at_least=threshold))
    found = run(problem, name)
    keeps_its_word(problem, found)
    assert (found.status is Status.INFEASIBLE) == (found.attainable[0].largest < threshold)


def test_it_beats_the_uniform_policy(name: str) -> None:
    problem = opaq.load_problem("graph")
    found = run(problem, name)
    assert found.measurement.feasible
    assert found.measurement.opacity.value > opaq.measure(problem, sequences=0).opacity.value + 0.5


def test_minimise_finds_transparency(name: str) -> None:
    problem = replace(opaq.load_problem("graph"), task=Task(return_at_least=0.2, minimise=True))
    found = run(problem, name)
    keeps_its_word(problem, found)
    assert found.measurement.opacity.value < opaq.measure(problem, sequences=0).opacity.value


def test_several_requirements_hold_together(name: str) -> None:
    base = opaq.load_problem("graph")
    target = base.mdp.labels[sorted(base.mdp.labels)[0]]
    reach = Reach(np.asarray(target), 0.3, "the target")
    problem = replace(base, task=Task(return_at_least=0.2, requirements=(reach,)))
    found = run(problem, name)
    keeps_its_word(problem, found)
    assert len(found.attainable) == 2
    assert found.measurement.feasible


def test_a_stopped_run_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    problem, options = opaq.load_problem("graph-published"), {"seed": 3}
    whole = run(problem, name, **options)
    for count in (1, 3, 7):  # stopped after so many more steps, each time from where the last one stopped
        stop = opaq.Stop()
        seen: list[Progress] = []

        def step(progress: Progress, seen: list[Progress] = seen, stop: opaq.Stop = stop, count: int = count) -> None:
            seen.append(progress)
            if len(seen) == count:
                stop.request()

        stopped = run(problem, name, **options, run_folder=tmp_path, stop=stop, on_step=step)
        assert stopped.status in (Status.INTERRUPTED, whole.status)
    resumed = run(problem, name, **options, run_folder=tmp_path)
    assert np.array_equal(resumed.pi, whole.pi)
    assert resumed.status is whole.status
    assert resumed.measurement.opacity == whole.measurement.opacity


def test_a_request_to_stop_ends_it_soon_with_a_policy(name: str) -> None:
    problem, stop = opaq.load_problem("grid-last-state-4"), opaq.Stop()

    def step(progress: Progress) -> None:
        if progress.trace.iteration >= 2:
            stop.request()

    found = solve(problem, solver=name, starts=2, stop=stop, on_step=step)
    assert found.status is Status.INTERRUPTED
    assert found.policy.rows
    assert np.isfinite(found.pi).all()
