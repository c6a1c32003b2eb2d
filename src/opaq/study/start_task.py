"""Some seconds of one start of a solve as plain data, and the function that runs them in a worker.

A start is run slice by slice: each begins from the snapshot that the one before ended with, and no step is left half
done, so that the end is the same bit for bit as in one go, wherever the slices ran and however often one was lost.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from opaq.errors import Fault, InputError
from opaq.version import __version__

if TYPE_CHECKING:
    from opaq.product.compile import Product
    from opaq.solvers.loop import SolverCheckpoint
    from opaq.solvers.objective import Objective
    from opaq.solvers.race import Job
    from opaq.solvers.strategy import Solver

SLICE = 2.0  # seconds: what an interrupt loses at most, but for the step that a start is at
LARGE = 1 << 16  # characters of a problem that is sent only to a worker that asks for it
OWN_KINDS = "workers know what is in opaq itself and nothing more; solve without them, in this process"


@dataclass(frozen=True, slots=True)
class SentProblem:
    """A compiled problem on its way to workers: what they compile, and what must come of it."""

    text: str
    digest: str

    @classmethod
    def of(cls, product: Product) -> SentProblem:
        """The problem with the policy class that it was compiled for. Raises InputError for kinds that workers lack."""
        from opaq.product.process_digest import process_digest
        from opaq.spec.problem_part import problem_to_dict

        _refuse_own_kinds(product)
        stated = problem_to_dict(replace(product.problem, policy_class=product.policy_class))
        return cls(json.dumps(stated), process_digest(product.process))


def _refuse_own_kinds(product: Product) -> None:
    problem = product.problem
    parts = {"observer": problem.observer, "secret": problem.secret, "task.of": problem.task.of}
    parts |= {f"policy.{one.key}": one for one in product.policy_class.conditions}
    faults = [
        Fault(path, f"{type(part).__name__} is not known to workers", OWN_KINDS)
        for path, part in parts.items()
        if type(part).__module__.partition(".")[0] != "opaq"
    ]
    if faults:
        raise InputError(faults)


def slice_task(job: Job, problem: SentProblem, begin: SolverCheckpoint | None, *, whole: bool) -> dict[str, Any]:
    """All that the next slice of a start takes, as plain data; a large problem itself only if the task is to be whole.

    Raises InputError for a solver that workers lack.
    """
    from opaq.solvers.runs import pack

    objective = job.objective
    return {
        "kind": "start",
        "version": __version__,
        "problem": problem.text if whole or len(problem.text) < LARGE else None,
        "digest": problem.digest,
        "gradients": objective.gradients,
        "samples": objective.samples,
        "budget": asdict(objective.budget),
        "sizes": None if objective.sizes is None else objective.sizes.tolist(),
        "solver": _solver_to_plain(job.solver),
        "place": job.start.place,
        "start": job.start.kind,
        "theta": job.start.theta.tolist(),
        "seed": job.seed,
        "judge_every": job.judge_every,
        "begin": None if begin is None else base64.b64encode(pack(begin)).decode(),
        "seconds": SLICE,
    }


def end_of(answer: Mapping[str, Any], template: Any) -> SolverCheckpoint:
    """The snapshot that a slice ended with; `template` is a state of its solver."""
    from opaq.solvers.runs import read_snapshot

    return read_snapshot(base64.b64decode(answer["end"]), template)


def solve_slice(task: Mapping[str, Any]) -> dict[str, Any]:
    """Run one slice, or say that the problem is missing here.

    Raises InputError when this worker would not come to the same result.
    """
    import numpy as np

    from opaq.solvers.loop import run_slice
    from opaq.solvers.runs import pack
    from opaq.solvers.starts import Start

    if task["problem"] is None and task["digest"] not in _compiled:
        return {"missing": "problem"}
    objective, solver = _objective(task), _solver_from_plain(task["solver"])
    start = Start(task["place"], task["start"], np.array(task["theta"], dtype=np.float64))
    begin = None if task["begin"] is None else end_of({"end": task["begin"]}, solver.init(objective, start.theta))
    end = run_slice(
        objective,
        solver,
        start,
        seed=task["seed"],
        begin=begin,
        judge_every=task["judge_every"],
        seconds=task["seconds"],
    )
    return {"end": base64.b64encode(pack(end)).decode()}


_compiled: dict[str, Product] = {}  # the problem that this worker has compiled last, by its digest


def _objective(task: Mapping[str, Any]) -> Objective:
    import numpy as np

    from opaq.beliefs.graph import Budget
    from opaq.solvers.objective import Objective

    if task["digest"] not in _compiled:
        product = _product(task)
        _compiled.clear()
        _compiled[task["digest"]] = product
    sizes = None if task["sizes"] is None else np.array(task["sizes"], dtype=np.float64)
    return Objective(
        _compiled[task["digest"]],
        gradients=task["gradients"],
        samples=task["samples"],
        budget=Budget(**task["budget"]),
        sizes=sizes,
    )


def _product(task: Mapping[str, Any]) -> Product:
    from opaq.product.compile import compile_problem
    from opaq.product.process_digest import process_digest
    from opaq.spec.problem_part import build_problem

    if task["version"] != __version__:
        found = f"this worker has opaq {__version__}, the solve was begun with {task['version']}"
        raise InputError([Fault("", found, "install the same version everywhere")])
    product = compile_problem(build_problem(json.loads(task["problem"])))
    if process_digest(product.process) != task["digest"]:
        found = "the problem is not the same bit for bit on this worker"
        raise InputError([Fault("", found, "install the same libraries everywhere, or solve without workers")])
    return product


def _strategies() -> dict[str, type[Any]]:
    from opaq.solvers.lagrangian import AugmentedLagrangian
    from opaq.solvers.natural import NaturalGradient
    from opaq.solvers.primal_dual import PrimalDual

    return {strategy.__name__: strategy for strategy in (NaturalGradient, AugmentedLagrangian, PrimalDual)}


def _solver_to_plain(solver: Solver) -> dict[str, Any]:
    name = type(solver).__name__
    if _strategies().get(name) is not type(solver):
        raise InputError([Fault("solver", f"{solver.name} ({name}) is not known to workers", OWN_KINDS)])
    settings: Any = solver
    return {"strategy": name, "settings": asdict(settings)}


def _solver_from_plain(data: Mapping[str, Any]) -> Solver:
    solver: Solver = _strategies()[data["strategy"]](**data["settings"])
    return solver
