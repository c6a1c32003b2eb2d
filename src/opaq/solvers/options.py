"""The options of a solve as data: every default and every limit, once. Imports nothing heavy."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from opaq.errors import Fault, Faults, InputError, check_numbers, choose

if TYPE_CHECKING:
    from opaq.beliefs.graph import Budget


Gradients = Literal["exact", "sampled"]
GradientChoice = Literal["auto", "exact", "sampled"]
StartChoice = Literal["mixed", "random", "uniform", "return-optimal"]

MOST_FREE_NODES = 64
LIMITS: dict[str, tuple[float, float]] = {  # number -> least, most
    "memory_nodes": (1, MOST_FREE_NODES),
    "samples": (1, 10**9),
    "num_starts": (1, 10_000),
    "seed": (0, 2**64),
    "nodes": (1, 10**12),
    "memory": (1, 2**60),
    "mass": (0, 1),
    "time": (0, math.inf),
    "processes": (1, 10**6),
    "sequences": (0, 10**6),
    "iterations": (1, 10**12),
    "eta": (0, 1e9),
    "kappa": (0, 1e9),
    "exponent": (0, 1),
}
_FRACTIONS = ("mass", "time", "eta", "kappa", "exponent")  # the other numbers are whole
_MAY_BE_NONE = ("conditions", "memory_nodes", "samples", "num_starts", "time", "processes")


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How a problem is solved. Any instance is valid: InputError lists every fault when one is made.

    Plain values only, so that options can be written to a file (`to_dict`) and read back (`from_dict`).
    """

    solver: str = "natural"
    gradients: GradientChoice = "auto"
    samples: int | None = None  # runs of a sampled gradient; None: as suits the solver
    conditions: str | None = None  # what the policy looks at, e.g. "state,time"; None: as the problem says
    memory_nodes: int | None = None  # of a memory that the policy is free to use; None: no such memory
    num_starts: int | None = None  # None: by need
    start: StartChoice = "mixed"  # where the starts begin
    seed: int = 0
    nodes: int = 200_000  # the most beliefs kept per level
    memory: int = 512 << 20  # bytes for beliefs, at most
    mass: float = 0.0  # the most probability dropped on purpose
    time: float | None = None  # seconds; None: no limit
    processes: int | None = None  # starts that run side by side; None: one per core
    sequences: int = 3  # telling observation sequences in the measurement
    iterations: int = 5000  # of primal-dual
    eta: float = 0.8  # its step size for the policy
    kappa: float = 0.05  # its step size for the multipliers
    exponent: float = 0.0  # its steps fall as k^-exponent and 1/k; 0 keeps them

    def __post_init__(self) -> None:
        faults = Faults()
        _check_choices(self, faults)
        _check_values(self, faults)
        faults.raise_if_any()

    @property
    def budget(self) -> Budget:
        """How much of the belief graph may be kept."""
        from opaq.beliefs.graph import Budget

        return Budget(nodes=self.nodes, mass=self.mass, memory=self.memory)

    def changed(self, **changes: Any) -> Self:
        """The same options with those changed that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Every option by name, as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Options from plain values; those left out have their defaults.

        data: name -> value. Raises InputError with every unknown name and every value of the wrong type or size.
        """
        if not isinstance(data, Mapping):
            raise InputError([Fault("options", f"is of the type {type(data).__name__}", "give a mapping")])
        faults = Faults()
        names = [each.name for each in fields(cls)]
        for unknown in (name for name in data if name not in names):
            faults.error(str(unknown), "is no option of a solve", f"there are {', '.join(names)}")
        try:
            options = cls(**{name: value for name, value in data.items() if name in names})
        except InputError as error:
            faults.errors.extend(error.faults)
        faults.raise_if_any()
        return options


def default_of(name: str) -> Any:
    """The default of one option."""
    (default,) = [each.default for each in fields(SolveOptions) if each.name == name]
    assert default is not MISSING
    return default


def _check_choices(options: SolveOptions, faults: Faults) -> None:
    from opaq.solvers.registry import SOLVERS

    choices = {"solver": tuple(SOLVERS), "gradients": get_args(GradientChoice), "start": get_args(StartChoice)}
    for name, allowed in choices.items():
        try:
            choose(name, getattr(options, name), allowed)
        except InputError as error:
            faults.errors.extend(error.faults)
    if faults.errors:
        return
    if options.gradients == "sampled" and SOLVERS[options.solver].needs_exact:
        faults.errors.append(refuse_sampled_gradients(options.solver))
    for factory in SOLVERS.values():
        for name in factory.options if factory.name != options.solver else ():
            if getattr(options, name) != default_of(name):
                found = f"has no effect with the solver {options.solver}"
                faults.error(name, found, f"it belongs to {factory.name}")


def refuse_sampled_gradients(solver: str) -> Fault:
    """What is said of sampled gradients for a solver that needs exact ones."""
    found = f"sampled gradients do not suit the solver {solver}, which needs exact ones"
    return Fault("gradients", found, "use another solver")


def _check_values(options: SolveOptions, faults: Faults) -> None:
    values: dict[str, Any] = {"conditions": options.conditions}
    if not isinstance(values["conditions"], str | None):
        faults.error("conditions", f"is {options.conditions!r}", "give a text such as 'state,time'")
    values = {name: getattr(options, name) for name in LIMITS}
    for name in [name for name, value in values.items() if value is None and name not in _MAY_BE_NONE]:
        faults.error(name, "is None", "leave it out for the default")
    try:
        limited = {name: (value, *LIMITS[name]) for name, value in values.items()}
        whole = [name for name in LIMITS if name not in _FRACTIONS]
        check_numbers(limited, whole=whole, optional=limited)
    except InputError as error:
        faults.errors.extend(error.faults)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
