"""Tables of pandas, which is optional: the one function behind every `to_dataframe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opaq.errors import OpaqError

if TYPE_CHECKING:
    from pandas import DataFrame


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
