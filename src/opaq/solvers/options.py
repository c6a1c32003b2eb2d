"""Declare the options of a solve: name, type, default, limits and help of each, once. Imports nothing heavy.

`SolveOptions` is that declaration. `solve` and `compare` take its fields as keywords (`with_solve_options`), the
command line makes an option of each (`OPTIONS`), plans of sweeps and run folders keep them as plain values (`to_dict`,
`from_dict`). Adding an option is adding a field.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, get_args

from opaq.errors import Fault, Faults, InputError, check_numbers, choose

if TYPE_CHECKING:
    from opaq.beliefs.graph import Budget


Gradients = Literal["exact", "sampled"]
GradientsUsed = Literal["exact", "cut", "sampled"]
GradientChoice = Literal["auto", "exact", "sampled"]
StartChoice = Literal["mixed", "random", "uniform", "return-optimal", "secret"]

MOST_FREE_NODES = 64
GIB = 2**30  # bytes

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _option(default: Any, text: str, *, least: float | None = None, most: float = math.inf, whole: bool = True) -> Any:
    """Declare one option.

    default: its value where it is not given; None stands for "decided by need", which `text` explains.
    text: the help, a sentence without its full stop.
    least, most: the limits of a number; `whole` says that it has no fraction.
    """
    return field(default=default, metadata={"help": text, "least": least, "most": most, "whole": whole})


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How a problem is solved. Any instance is valid: InputError lists every fault when one is made.

    Plain values only, so that options can be written to a file (`to_dict`) and read back (`from_dict`).
    """

    solver: str = _option("natural", "The method: natural gradient, lagrangian, or primal-dual, the paper's")
    gradients: GradientChoice = _option(
        "auto", "Exact, sampled as in the paper, or auto: exact on as many beliefs as fit"
    )
    samples: int | None = _option(None, "Runs of a sampled gradient", least=1, most=10**9)
    conditions: str | None = _option(
        None, "What the policy looks at, such as state,time (default: as the problem says)"
    )
    memory_nodes: int | None = _option(
        None, "Give the policy a memory of so many nodes, free to use", least=1, most=MOST_FREE_NODES
    )
    starts: int | None = _option(None, "How many starts (default: by need)", least=1, most=10_000)
    start: StartChoice = _option("mixed", "Where the starts begin")
    seed: int = _option(0, "The same seed gives the same answer", least=0, most=2**64)
    max_beliefs: int = _option(1_000_000, "The most beliefs to keep at a time", least=1, most=10**12)
    max_memory: float = _option(0.5, "The most memory for beliefs, in GiB", least=0, most=2**30, whole=False)
    mass: float = _option(0.0, "The most probability to drop on purpose", least=0, most=1, whole=False)
    time_limit: float | None = _option(
        None, "Seconds after which the best policy so far is the answer", least=0, whole=False
    )
    workers: int | None = _option(
        None, "At most so many starts side by side (default: one per core)", least=1, most=10**6
    )
    sequences: int = _option(3, "How many telling observation sequences to show", least=0, most=10**6)
    iterations: int = _option(5000, "Iterations of primal-dual", least=1, most=10**12)
    eta: float = _option(0.8, "Policy step size of primal-dual", least=0, most=1e9, whole=False)
    kappa: float = _option(0.05, "Multiplier step size of primal-dual", least=0, most=1e9, whole=False)
    exponent: float = _option(
        0.0, "Steps of primal-dual fall as k^-exponent and 1/k; 0 keeps them", least=0, most=1, whole=False
    )

    def __post_init__(self) -> None:
        faults = Faults()
        _check_choices(self, faults)
        _check_values(self, faults)
        faults.raise_if_any()

    @property
    def budget(self) -> Budget:
        """Return how much of the belief graph may be kept."""
        from opaq.beliefs.graph import Budget

        return Budget(nodes=self.max_beliefs, mass=self.mass, memory=round(self.max_memory * GIB))

    def with_changes(self, **changes: Any) -> Self:
        """Return the same options with those changed that are not None.

        changes: option -> value. Raises InputError with every unknown name and every value that does not fit.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given) if given.keys() <= OPTIONS.keys() else self.from_dict(self.to_dict() | given)

    def to_dict(self) -> dict[str, Any]:
        """Return every option by name, as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make options from plain values; those left out have their defaults.

        data: name -> value. Raises InputError with every unknown name and every value of the wrong type or size.
        """
        if not isinstance(data, Mapping):
            raise InputError([Fault("options", f"is of the type {type(data).__name__}", "give a mapping")])
        faults = Faults()
        for unknown in (name for name in data if name not in OPTIONS):
            faults.error(str(unknown), "is no option of a solve", f"there are {', '.join(OPTIONS)}")
        try:
            options = cls(**{name: value for name, value in data.items() if name in OPTIONS})
        except InputError as error:
            faults.errors.extend(error.faults)
        faults.raise_if_any()
        return options


OPTIONS: Mapping[str, Field[Any]] = MappingProxyType({each.name: each for each in fields(SolveOptions)})


def default_of(name: str) -> Any:
    """Return the default of one option."""
    default = OPTIONS[name].default
    assert default is not MISSING
    return default


def with_solve_options(*left_out: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Show the options of a solve in the signature of a function that takes them as `**changes`.

    left_out: options that the function does not take. Editors and `help` then list every option with its type.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = {each.name for each in own}
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f"{each.type} | None")
            for name, each in OPTIONS.items()
            if name not in names and name not in left_out
        ]
        function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return function

    return decorate


def _check_choices(options: SolveOptions, faults: Faults) -> None:
    """Add a fault for every choice that does not exist, and for settings of a solver that is not the one chosen."""
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
                message = f"has no effect with the solver {options.solver}"
                faults.error(name, message, f"it belongs to {factory.name}")


def refuse_sampled_gradients(solver: str) -> Fault:
    """Return the fault of sampled gradients for a solver that needs exact ones."""
    message = f"sampled gradients do not suit the solver {solver}, which needs exact ones"
    return Fault("gradients", message, "use another solver")


def _check_values(options: SolveOptions, faults: Faults) -> None:
    """Add a fault for every number that is outside its limits, and for conditions that are no text."""
    if not isinstance(getattr(options, "conditions"), str | None):  # noqa: B009
        faults.error("conditions", f"is {options.conditions!r}", "give a text such as 'state,time'")
    numbers = {name: each for name, each in OPTIONS.items() if each.metadata["least"] is not None}
    for name, each in numbers.items():
        if getattr(options, name) is None and each.default is not None:
            faults.error(name, "is None", "leave it out for the default")
    try:
        check_numbers(
            {
                name: (getattr(options, name), each.metadata["least"], each.metadata["most"])
                for name, each in numbers.items()
            },
            whole=[name for name, each in numbers.items() if each.metadata["whole"]],
            optional=numbers,
        )
    except InputError as error:
        faults.errors.extend(error.faults)
