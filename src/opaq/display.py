"""Show results in notebooks and turn them into data frames. Imports nothing of opaq but errors.

Models and results come before reports in the order of imports, so that they cannot call them: the function that shows
them is named here, and imported when a notebook first asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from opaq.errors import OpaqError
from opaq.version import pip_install

if TYPE_CHECKING:
    from pandas import DataFrame


VIEW = "opaq.reports.notebook:notebook_html"


class NotebookView:
    """Base of the classes that notebooks show."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the object as HTML; notebooks call this."""
        module, _, function = VIEW.partition(":")
        html: str = getattr(import_module(module), function)(self)
        return html


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> DataFrame:
    """Return one line per row; the columns stand in their order, also where there is no row.

    Raises OpaqError that says how to install pandas where it is missing.
    """
    try:
        from pandas import DataFrame
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise OpaqError(f"tables need pandas: {pip_install('dataframes')}") from error
    return DataFrame({column: [row[column] for row in rows] for column in columns})


def posterior_columns(posteriors: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """Return secret value -> the column of its probability, in the order of the first posterior that names it."""
    values = dict.fromkeys(value for posterior in posteriors for value in posterior)
    return {value: f"P({value})" for value in values}
