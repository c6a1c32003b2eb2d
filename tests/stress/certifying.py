"""Random certificates: no policy exceeds its bound. Certificate number N is always of the same problem."""

from __future__ import annotations

import math

import numpy as np

import opaq
import oracles
from opaq.certificates.decoder.machines import ObservationTree, ObservationWindow
from random_problems import random_policy, random_problem
from stress.runner import Outcome

SECONDS = 0.5  # for every certificate
POLICIES = 5  # random ones of the problem's class
_ROUNDING = 1e-12  # of the enumeration, which adds up to a thousand logarithms


def try_certificate(number: int) -> Outcome:
    """Certify one random problem; random policies that meet the task, by enumeration, must not exceed the bound.

    A task that one of them meets is thereby not called infeasible: its bound would be minus infinity. Small problems go
    to the history program; every second one is bounded by observation machines alone.
    """
    rng = np.random.default_rng(number)
    problem = random_problem(rng, budget=1000)
    machines = (ObservationWindow(2, len(problem.observer.seen_names)), ObservationTree()) if number % 2 else None
    certificate = opaq.certify(problem, gap=0.01, time_limit=SECONDS, machines=machines)
    wrong = ["not a number"] if math.isnan(certificate.upper_bound) else []
    for _ in range(POLICIES):
        policy = random_policy(rng, problem)
        threshold = problem.task.return_at_least
        if threshold is None or oracles.expected_return(problem, policy) >= threshold:
            opacity = oracles.opacity(oracles.joint(problem, policy))
            if opacity > certificate.upper_bound + _ROUNDING:
                wrong.append(f"{opacity!r} is above {certificate.upper_bound!r}")
    return Outcome(tuple(wrong), {("status", certificate.status.name.lower()): 1.0})
