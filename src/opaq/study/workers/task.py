"""The task of a worker, its answer, and the function between the two.

A task and its answer hold plain data alone, so that JSON carries them through a pipe without loss: Python writes a
float with as many digits as it takes to read the same float back.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

from opaq.errors import Fault, InputError, OpaqError
from opaq.load import FolderSources
from opaq.model.fingerprint import digest, problem_parts
from opaq.model.problem import Problem
from opaq.solvers.options import SolveOptions
from opaq.stop import Stop
from opaq.version import __version__

_GRACE = 5.0  # seconds beyond its limit that a point has to come to its end, before its worker is ended
_LIBRARIES = ("numpy", "scipy", "numba")


@dataclass(frozen=True, slots=True)
class PointTask:
    """All that solving one point of a sweep takes."""

    problem: Mapping[str, Any]  # the content of its problem file
    fingerprint: str  # of the problem and the options that were checked before the sweep began
    folder: str  # absolute: what paths in the problem are relative to
    options: Mapping[str, Any]  # of the solve, by the names of SolveOptions
    certify: float  # seconds for a certificate; 0: none
    neighbours: Mapping[str, Any] = field(
        default_factory=dict
    )  # name of a point -> its policy, as in a file, or a word
    own: Mapping[str, Any] | None = None  # the answer so far, for which the neighbours are tried; None: none yet
    search: bool = True  # whether a search begins from the best neighbour; else its policy itself is the answer

    @property
    def limit(self) -> float | None:
        """Seconds after which its worker is ended, a few more than the solve and the certificate may take.

        None: never, where the solve has no time limit.
        """
        time = self.options.get("time_limit")
        return None if time is None else float(time) + self.certify + _GRACE


@dataclass(frozen=True, slots=True)
class PointAnswer:
    """What a worker says of a point; the journal of a sweep keeps every field of it."""

    answer: Mapping[str, Any] | None = None  # what `opaq solve --json` prints; None: the point failed, or is kept
    policy: Mapping[str, Any] | None = None  # the content of a policy file; None as above
    seconds: float | None = None  # for all of it, reading and certifying included; None: the worker was ended
    versions: Mapping[str, str] | None = None  # of opaq, Python and the numerical libraries
    warm_from: str | None = None  # the name of the point whose policy the search began from, or is the answer
    error: str = ""  # why the point failed
    kept: bool = False  # whether the answer so far stays: no neighbour's policy is better


def run_task(task: PointTask) -> PointAnswer:
    """Solve a point on one thread, or improve its answer by its neighbours', and certify it where that is asked for.

    Nothing is raised: whatever goes wrong is the answer's `error`, so that one point never stops the others.
    """
    from threadpoolctl import threadpool_limits

    start = perf_counter()
    try:
        with threadpool_limits(1):  # sums over several threads round differently
            answer = _solve_point(task)
    except OpaqError as error:
        answer = PointAnswer(error=" | ".join(str(error).splitlines()))
    except MemoryError:
        answer = PointAnswer(error="out of memory")
    except Exception as error:
        answer = PointAnswer(error=f"{type(error).__name__}: {error} (a fault of opaq itself)")
    return replace(answer, seconds=perf_counter() - start, versions=_versions())


def _solve_point(task: PointTask) -> PointAnswer:
    """Solve a point from its problem file to the answer, which begins from its neighbours' policies where they fit.

    Raises InputError when the problem is not the one that was checked, and whatever else goes wrong.
    """
    # What is imported here brings the compiled kernels, which the process that hands tasks out does without.
    from opaq.solvers.solve import solve
    from opaq.spec.policy_table import policy_to_dict
    from opaq.spec.problem_part import build_problem
    from opaq.study.workers.neighbours import fit_policies, improve_solution

    problem = build_problem(task.problem, sources=FolderSources(Path(task.folder)))
    options = SolveOptions.from_dict(task.options)
    refuse_changed(problem, options, task.fingerprint)
    fitting = fit_policies(problem, options, task.neighbours) if task.neighbours else []
    warm_from: str | None
    if task.own is not None:
        improved = improve_solution(problem, options, fitting, own=task.own, search=task.search)
        if improved is None:
            return PointAnswer(kept=True)
        solution, warm_from = improved
    else:
        first = fitting[0] if fitting else None
        warm_from = None if first is None else first.point
        solution = solve(problem, options=options, initial_policy=None if first is None else first.policy, stop=Stop())
    answer = solution.to_dict()
    if task.certify > 0 and solution.measurement.feasible:
        from opaq.certificates.certify import CertifiedSolution, certify

        certificate = certify(problem, solution, time_limit=task.certify, stop=Stop())
        answer = CertifiedSolution(solution, certificate).to_dict()
    return PointAnswer(answer=answer, policy=policy_to_dict(solution.policy, problem=problem), warm_from=warm_from)


def point_fingerprint(problem: str, options: SolveOptions) -> str:
    """Return the fingerprint of all that decides the answer of a point.

    problem: the digest of the parts of its problem. options: those of its solve, of which the time limit and the
    number of processes do not count.
    """
    decisive = {name: value for name, value in options.to_dict().items() if name not in ("time_limit", "workers")}
    return digest({"problem": problem, "options": decisive})


def refuse_changed(problem: Problem, options: SolveOptions, fingerprint: str) -> None:
    """Raise InputError when a problem and its options are not those that a point of a sweep was checked with.

    problem: as it was read where the point is solved or shown. options: of its solve. fingerprint: as it was recorded
    when the sweep began; it differs when a model or automaton file that the problem names has changed since.
    """
    if point_fingerprint(digest(problem_parts(problem)), options) != fingerprint:
        reason = "is not as it was when the sweep was begun: a file that it names has changed since, or differs here"
        raise InputError(
            [Fault("problem", reason, "restore the file; points that failed for it are solved again on request")]
        )


@cache
def _versions() -> dict[str, str]:
    """Return the versions that an answer was computed with, which are recorded with it: name -> version."""
    libraries = {name: metadata.version(name) for name in _LIBRARIES}
    return {"opaq": __version__, "python": platform.python_version(), **libraries}


def prepare() -> None:
    """Load and compile what every task needs, once per worker, so that no point's time limit pays for it."""
    from opaq.opacity.kernel_warmup import compile_kernels

    compile_kernels(derivatives=True)
