"""Random certificates: no policy exceeds its bound, or gets below it. Number N is always of the same problem."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import opaq
import oracles
from least_oracle import least, tiny_problem
from opaq.certificates.decoder.ascent import Ascent
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.layers import build_layers
from opaq.certificates.decoder.machines import (
    ObservationMachine,
    ObservationTree,
    ObservationWindow,
    rounded_belief_machine,
)
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.certificates.payoffs import largest_payoffs, payoff_scales
from opaq.model.conditions import Observations
from opaq.model.policy import PolicyClass
from opaq.model.problem import Task
from opaq.product.compile import compile_problem
from opaq.stop import Stop
from random_problems import random_policy, random_problem
from stress.runner import Outcome

SECONDS = 0.5  # for every certificate
POLICIES = 5  # random ones of the problem's class
ROUNDS = 40  # of every ascent of a late agent
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


def try_late(number: int) -> Outcome:
    """Bound one random problem by agents that see the observations late, with every delay, or never.

    No bound may be below the optimum, that of the history program: a policy that was measured. Every second problem has
    a requirement.
    """
    rng = np.random.default_rng(number)
    problem = random_problem(rng, conditions=("state",), horizon=int(rng.integers(1, 4)), budget=600)
    if number % 2:
        problem = replace(problem, task=Task())
    optimum = opaq.history_program(problem, gap=1e-5, time_limit=2.0).value
    if optimum is None:
        return Outcome((), {("late", "no policy meets the task"): 1.0})
    product = compile_problem(problem, PolicyClass(("state",)))
    process, uncertainty = product.process, problem.task.of.over(product.secret_values)
    scales = payoff_scales(process, largest_payoffs(Decisions.of(process), stop=Stop()))
    rounded = rounded_belief_machine(process, process.uniform(), most_nodes=1 + number % 40, name="rounded")
    wrong = []
    unseen = Decisions.of(process, unseen=True)
    agents: list[tuple[Decisions, ObservationMachine]] = [
        (unseen, ObservationWindow(process.horizon + 1, unseen.process.num_observations))
    ]
    for delay in range(process.horizon + 2):
        agents += [(Decisions.of(process, delay=delay), machine) for machine in (ObservationTree(), rounded)]
    for decisions, machine in agents:
        layers = build_layers(decisions, machine, memory=1 << 28, stop=Stop())
        multipliers = np.zeros(len(decisions.names))
        ascent = Ascent.of(Sweeper.of(decisions, layers, Stop()), uncertainty, multipliers=multipliers, scales=scales)
        for _ in range(ROUNDS):
            ascent.round()
        if ascent.least < optimum.lower - _ROUNDING:
            wrong.append(f"{optimum.lower!r} is above {ascent.least!r}: {layers.machine}")
    return Outcome(tuple(wrong), {("late", "bounded"): 1.0})


def try_least(number: int) -> Outcome:
    """Certify one tiny random problem that minimises, against every deterministic policy.

    Policies that see the observations alone, of every problem; those that see the state too, where they are few.
    """
    problem = tiny_problem(np.random.default_rng(number), requirements=number % 3, horizon=1 + number // 3 % 2)
    blind = replace(problem, policy_class=PolicyClass((Observations("all"),)))
    pairs = [(opaq.certify(blind), least(problem, sees_states=False))]
    if problem.horizon == 1 and problem.mdp.num_states == 2:
        pairs.append((opaq.certify(problem), least(problem, sees_states=True)))
    wrong, counts = [], dict[tuple[str, str], float]()
    for certificate, optimum in pairs:
        if certificate.lower_bound is None or not certificate.lower_bound <= optimum + 1e-9:
            wrong.append(f"{optimum!r} is below {certificate.lower_bound!r}")
        elif number % 3 == 0 and not abs(certificate.lower_bound - optimum) <= 1e-9:
            wrong.append(f"{certificate.lower_bound!r} is not the optimum {optimum!r}")
        counts["status", certificate.status.name.lower()] = 1.0
    return Outcome(tuple(wrong), counts)
