"""Figures as files: PDF, SVG and PNG, the same bytes for the same figure."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opaq.choices import check_numbers, check_types, is_flag
from opaq.errors import Fault, InputError
from opaq.files import write_bytes
from opaq.reports.figure_style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".pdf", ".svg", ".png")
DPI = 300
_LIMITS = (30, 2400)
_UNDATED: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}


def save_figure(
    figure: Figure, path: str | os.PathLike[str], *, dpi: int | None = None, overwrite: bool = False
) -> None:
    """Write a figure to a file, whole or not at all.

    figure: what one of the plot functions returned, or any figure of matplotlib.
    path: its ending says the format: .pdf, .svg or .png.
    dpi: pixels per inch of a .png, 30 to 2400; 300 unless given, which most journals ask for.
    overwrite: whether a file that is there already may be replaced.

    Raises InputError when the ending is none of these, or when the file is there or cannot be written.
    """
    is_figure = callable(getattr(figure, "savefig", None))
    check_types(
        {
            "figure": (figure, lambda _: is_figure, "a figure of matplotlib"),
            "path": (path, str | os.PathLike, "the name of a file"),
            "overwrite": (overwrite, is_flag, "True or False"),
        }
    )
    write_bytes(path, figure_bytes(figure, ending_of(path), dpi=dpi), overwrite=overwrite)


def ending_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its ending; InputError lists the endings there are."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        found = f"the ending '{ending}' is no format of figures" if ending else "has no ending"
        raise InputError([Fault("", found, f"use one of {', '.join(ENDINGS)}")], os.fspath(path))
    return ending


def figure_bytes(figure: Figure, ending: str, *, dpi: int | None = None) -> bytes:
    """The content of such a file; nothing in it depends on the date."""
    check_numbers({"dpi": (dpi, *_LIMITS)}, whole=("dpi",), optional=("dpi",))
    content = BytesIO()
    with styled():
        figure.savefig(content, format=ending.removeprefix("."), dpi=dpi or DPI, metadata=_UNDATED[ending])
    return content.getvalue()
