"""Show results in notebooks and turn them into data frames. Imports nothing of opaq.

Models and results come before reports in the order of imports, so that they cannot call them: the view of a class is
named here, as the commands are in `commands`, and imported when a notebook first asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opaq.errors import OpaqError

if TYPE_CHECKING:
    from pandas import DataFrame


VIEWS = MappingProxyType(
    {
        name: f"opaq.reports.notebook:{name.lower()}_html"
        for name in ("Problem", "Policy", "Measurement", "Solution", "Certificate", "Comparison", "Replay")
    }
)


class NotebookView:
    """Base of the classes that have a view."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The object as HTML; notebooks call this."""
        view = next(VIEWS[kind.__name__] for kind in type(self).__mro__ if kind.__name__ in VIEWS)
        module, _, function = view.partition(":")
        html: str = getattr(import_module(module), function)(self)
        return html


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> DataFrame:
    """One line per row; the columns stand in their order, also where there is no row."""
    try:
        from pandas import DataFrame
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise OpaqError("tables need pandas: pip install 'opaq[dataframes]'") from error
    return DataFrame({column: [row[column] for row in rows] for column in columns})


def posterior_columns(posteriors: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """Secret value -> the column of its probability, in the order of the first posterior that names it."""
    values = dict.fromkeys(value for posterior in posteriors for value in posterior)
    return {value: f"P({value})" for value in values}
