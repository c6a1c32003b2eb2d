"""The commands beyond `measure` on extreme models: an answer or a refusal that is promised, and no warning on the way.

What the answers claim is confirmed by stress.measuring and stress.solving; here every command must have one, as text
and as JSON without "NaN". Model number N is always the same model with the same calls.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np

from opaq.certificates.certify import certify
from opaq.errors import BudgetError, InputError
from opaq.model.arrays import floats
from opaq.model.observer import Observer
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Task
from opaq.model.uncertainty import ExpectedLoss, GuessError, Guesswork, Shannon, Uncertainty
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem
from opaq.reports.layout import Page, render_text
from opaq.reports.report import report
from opaq.reports.text.certificate import certificate_page
from opaq.reports.text.frontier import frontier_page
from opaq.reports.text.measurement import measurement_page
from opaq.reports.text.runs import runs_page
from opaq.reports.text.sensors import ranking_page
from opaq.reports.text.solution import solution_page
from opaq.simulation.replay import replay
from opaq.simulation.runs import simulate
from opaq.solvers.options import SolveOptions
from opaq.solvers.solve import solve
from opaq.stop import StoppedError
from opaq.study.front.frontier import frontier
from opaq.study.sensors import sensors
from random_problems import Rng
from stress.extremes import Case, extreme_model
from stress.runner import Outcome

SECONDS = 0.4  # for a call that takes a time limit
SENSORS = ("null", "A", "B", "A+B")
TINY_THRESHOLDS = (0.0, 5e-324, -5e-324, 1e-300, 1e-16, -1e-13)
_QUICK = SolveOptions(starts=1, workers=1, sequences=1)


def try_commands(number: int, commands: tuple[str, ...] = (), *, traces: bool = False) -> Outcome:
    """Run every command (or those named) on one extreme model; warnings are failures.

    traces: whether a failure says where it came from.
    """
    problem, policy = audited_model(number)
    failures, tallies = [], {}
    for name in commands or COMMANDS:
        begun = perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                COMMANDS[name](problem, policy)
        except (InputError, BudgetError, StoppedError) as error:
            refusal = f"{name}: {type(error).__name__}: {error}"
            tallies["refusals", refusal[:120]] = 1.0
            if not _is_promised(name, error):
                failures.append(refusal)
        except Exception as error:
            trace = "".join(traceback.format_tb(error.__traceback__)[-4:]) if traces else ""
            failures.append(f"{name}: {type(error).__name__}: {error}\n{trace}".rstrip())
        tallies["seconds", name] = perf_counter() - begun
    return Outcome(tuple(failures), tallies)


def audited_model(number: int) -> tuple[Problem, Policy | None]:
    """An extreme model whose observer may be one of sensors, with a task about any uncertainty and tiny thresholds."""
    problem, policy = extreme_model(Case.of(number))
    rng = np.random.default_rng([0xA0D, number])
    problem = replace(problem, name=f"model {number}", task=_task(rng, problem))
    if rng.random() < 0.6 and isinstance(problem.observer, Observer):
        observer = problem.observer
        problem = replace(problem, observer=replace(observer, observations=SENSORS[: len(observer.observations)]))
    if rng.random() < 0.15:
        tiny = float(rng.choice([5e-324, 1e-300, 1e-16]))
        problem = replace(problem, mdp=replace(problem.mdp, rewards=floats(np.sign(problem.mdp.rewards) * tiny)))
    return problem, policy if rng.random() < 0.8 else None


def _task(rng: Rng, problem: Problem) -> Task:
    task = problem.task
    if task.return_at_least is not None and rng.random() < 0.5:
        task = replace(task, return_at_least=float(rng.choice(TINY_THRESHOLDS)))
    requirements = tuple(
        replace(one, threshold=float(rng.choice((0.0, 5e-324, 1e-300, 1e-16, 1.0)))) if rng.random() < 0.4 else one
        for one in task.requirements
    )
    return replace(task, requirements=requirements, of=_uncertainty(rng, problem), minimise=bool(rng.random() < 0.1))


def _uncertainty(rng: Rng, problem: Problem) -> Uncertainty:
    match rng.choice(4, p=[0.6, 0.15, 0.1, 0.15]):
        case 1:
            return GuessError()
        case 2:
            return Guesswork()
        case 3:
            values = compile_problem(problem).secret_values
            sizes = (0.0, 5e-324, 1e-300, 1e-16, 1.0, 3.0)
            return ExpectedLoss.of({guess: {z: float(rng.choice(sizes)) for z in values} for guess in ("one", "two")})
    return Shannon()


def _is_promised(name: str, error: Exception) -> bool:
    """Whether a command may refuse a model that is valid."""
    return isinstance(error, StoppedError) or any(words in str(error) for words in PROMISED.get(name, ()))


PROMISED = {  # what may be refused in these models, by command
    "certify": ("asks for as little as possible",),
    "sensors": ("only one observation", "no sensor"),
    "frontier": ("asks for as little as possible",),
}


def _print(answer: object, *pages: str | Page) -> None:
    """As the commands do: text for people, JSON for programs."""
    json.dumps(answer, allow_nan=False)
    for page in pages:
        assert page if isinstance(page, str) else render_text(page)


def _measure(problem: Problem, policy: Policy | None) -> None:
    for mode in ("auto", "interval", "sampled"):
        measurement = measure(problem, policy, mode=mode, samples=30)
        _print(measurement.to_dict(), measurement_page(measurement))


def _solve(problem: Problem, policy: Policy | None) -> None:
    solution = solve(problem, options=replace(_QUICK, time_limit=SECONDS))
    _print(solution.to_dict(), solution_page(solution))


def _certify(problem: Problem, policy: Policy | None) -> None:
    certificate = certify(problem, policy, time_limit=SECONDS)
    _print(certificate.to_dict(), certificate_page(certificate))


def _report(problem: Problem, policy: Policy | None) -> None:
    report(problem, policy, runs=2)


def _sensors(problem: Problem, policy: Policy | None) -> None:
    ranking = sensors(problem, policy, fixed=True, workers=1)
    _print(ranking.to_dict(), ranking_page(ranking))


def _best_sensors(problem: Problem, policy: Policy | None) -> None:
    ranking = sensors(problem, policy, options=_QUICK, changes=["x0.5"], time_limit=SECONDS)
    _print(ranking.to_dict(), ranking_page(ranking))


def _replay(problem: Problem, policy: Policy | None) -> None:
    simulate(problem, policy, runs=20)
    replays = replay(problem, policy, runs=5)
    _print([run.to_dict() for run in replays], runs_page(replays))
    replay(problem, policy, observations=[moment.observation for moment in replays[0].steps])


def _frontier(problem: Problem, policy: Policy | None) -> None:
    front = frontier(problem, points=3, options=_QUICK, time_limit=SECONDS)
    _print(front.to_dict(), frontier_page(front))


COMMANDS: dict[str, Callable[[Problem, Policy | None], None]] = {
    "measure": _measure,
    "certify": _certify,
    "report": _report,
    "sensors --fixed": _sensors,
    "sensors": _best_sensors,
    "simulate": _replay,
    "frontier": _frontier,
    "solve": _solve,
}
