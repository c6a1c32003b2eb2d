"""What a task is about, in words: the title and the unit of an uncertainty that answers name."""

from __future__ import annotations

from opaq.model.uncertainty import UNCERTAINTIES, Uncertainty


def objective_title(name: str) -> str:
    """In words: "guess error"."""
    return UNCERTAINTIES[name].title if name in UNCERTAINTIES else name.replace("_", " ")


def objective_unit(name: str) -> str:
    """Its unit; empty if it has none, or none is known."""
    return UNCERTAINTIES[name].unit if name in UNCERTAINTIES else ""


def axis_title(name: str, uncertainty: Uncertainty | None = None) -> str:
    """The title with its unit: "opacity (bits)"; `uncertainty` where there is the object itself."""
    title = objective_title(name) if uncertainty is None else uncertainty.title
    unit = objective_unit(name) if uncertainty is None else uncertainty.unit
    return f"{title} ({unit})" if unit else title


def with_unit(value: str, name: str) -> str:
    """A value as it is written, and its unit: "0.5 bits"."""
    return f"{value} {objective_unit(name)}".rstrip()
