"""The solvers by name. A new one is a file with a FACTORY, and a line here (or a call of `register_solver`)."""

from __future__ import annotations

from dataclasses import replace

from opaq.errors import Fault, InputError, check_types, choose
from opaq.solvers import lagrangian, natural, primal_dual
from opaq.solvers.strategy import Plan, PlanRequest, Solver, SolverFactory, single_round

SOLVERS: dict[str, SolverFactory] = {
    factory.name: factory for factory in (natural.FACTORY, lagrangian.FACTORY, primal_dual.FACTORY)
}


def register_solver(factory: SolverFactory) -> None:
    """Make a solver known under its name, to `solve`, `compare` and the command.

    factory: how it is made and what it can use. Raises InputError when the name is taken.
    """
    check_types({"factory": (factory, SolverFactory, "an opaq.SolverFactory")})
    if factory.name in SOLVERS:
        raise InputError([Fault("solver", f"'{factory.name}' is registered already", "choose another name")])
    SOLVERS[factory.name] = factory


def factory_of(solver: Solver | str) -> SolverFactory:
    """Return the factory of a solver: of its name, or of a strategy with settings of its own.

    All starts of such a strategy run to their end. Raises InputError for an unknown name and for what is no solver.
    """
    if isinstance(solver, str):
        return SOLVERS[choose("solver", solver, tuple(SOLVERS))]
    if not callable(getattr(solver, "step", None)):
        finding = f"is of the type {type(solver).__name__}"
        raise InputError([Fault("solver", finding, f"use one of {', '.join(SOLVERS)}, or a solver object")])

    def plan(request: PlanRequest) -> Plan:
        return single_round(solver, request)

    known = SOLVERS.get(solver.name, SolverFactory(solver.name, plan))
    return replace(known, plan=plan, options=(), climbs_classes=False, cuts_if_large=False)
