"""Set how figures look (sizes, colours, plain text), and save them: the same bytes for the same figure.

Comes in: names, sizes, a figure. Goes out: an empty figure to draw on, text that suits it, the bytes of a file.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from opaq.errors import (
    Fault,
    InputError,
    check_numbers,
    check_types,
    choose,
    cut_middle,
    escape_invisible,
    is_flag,
    suggestion,
)
from opaq.files import check_file, write_bytes
from opaq.reports.latex import escape_latex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Column = Literal["single", "double"]

_TALLEST = 9.2  # inches: a page
_NO_LOOKS = (  # settings that say how programs run, and not how figures look
    "backend", "date.epoch", "docstring", "figure.max_open_warning", "figure.raise_window", "interactive", "keymap",
    "savefig.directory", "timezone", "tk.", "toolbar", "webagg.",
)  # fmt: skip
_STYLE: ContextVar[Mapping[str, Any]] = ContextVar("figure style", default=MappingProxyType({}))  # of `figure_style`


class _Widths(Mapping[str, float]):
    """Inches of one column of a paper and of two; where a style states a width of figures, that is both."""

    _OWN: ClassVar[dict[str, float]] = {"single": 3.4, "double": 7.0}

    def __getitem__(self, column: str) -> float:
        return float(_STYLE.get().get("figure.figsize", (self._OWN[column],))[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._OWN)

    def __len__(self) -> int:
        return len(self._OWN)


class _Colours(Sequence[str]):
    """Colours of lines, by Okabe and Ito; those of a style where one is in use that has any."""

    _OWN: ClassVar[tuple[str, ...]] = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

    def __getitem__(self, index: Any) -> Any:
        cycle = _STYLE.get().get("axes.prop_cycle")
        own = cycle.by_key().get("color") if cycle is not None else None
        return own[index % len(own)] if own and isinstance(index, int) else self._OWN[index]

    def __len__(self) -> int:
        return len(self._OWN)


WIDTHS = _Widths()
COLOURS = _Colours()
DASHES = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)))  # lines differ in grey as well
HEAT = "Blues"  # from light to dark: the order survives a grey printer
INK, FAINT, WALL = "#222222", "#d0d0d0", "#5a5a5a"
SMALL = 7.0  # points, of legends and ticks
_LONGEST = 28  # characters of a name
_ALL = 400  # characters of a text that is cut to a width

_FONT = "DejaVu Sans"  # comes with matplotlib, so that a figure looks the same everywhere
_SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": [_FONT],
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.borderaxespad": 0.2,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.0,
    "patch.linewidth": 0.6,
    "hatch.linewidth": 0.4,
    "pdf.fonttype": 42,  # text stays text, as publishers ask
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # the same picture where the font is not installed
    "svg.hashsalt": "opaq",  # the same bytes for the same data
    "text.usetex": False,
}


@contextmanager
def expect(what: str) -> Iterator[None]:
    """Turn what goes wrong while points are read into an InputError; what: the points that are expected, in words."""
    try:
        yield
    except KeyError as missing:
        raise InputError([Fault(str(missing.args[0]), "is missing", f"give {what}")]) from None
    except (TypeError, ValueError, AttributeError, IndexError):
        raise InputError([Fault("", f"does not read as {what}", f"give {what}")]) from None


@contextmanager
def _figure_settings() -> Iterator[None]:
    """Apply the settings of every figure and those of `figure_style`, and restore the user's own afterwards.

    Letters that the fonts of a style lack are taken from opaq's. Raises InputError where matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rcParams, style

    own = _STYLE.get()
    with style.context(["default", _SETTINGS, dict(own)]):
        if own:
            rcParams["font.family"] = [*rcParams["font.family"], _FONT]
        yield


def figure_style(style: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Return a context for `with`: figures are drawn and saved in it with a style of one's own on top of opaq's.

    style: the name of a style of matplotlib ("ggplot"), a file of settings (.mplstyle, matplotlibrc), or "user": what
        differs from matplotlib's defaults in the user's own matplotlibrc, or has been set in this program.

    Fonts, sizes of letters, lines and grids, the colours of lines (axes.prop_cycle) and the width of figures
    (figure.figsize) are taken from it. Raises InputError for a style that is not known or cannot be read.
    """
    check_types({"style": (style, str | os.PathLike, "the name of a style or of a file")})
    require_matplotlib()
    return _use_style(_read_style(os.fspath(style)))


@contextmanager
def _use_style(settings: Mapping[str, Any]) -> Iterator[None]:
    """Put settings on top of opaq's own while the block runs."""
    token = _STYLE.set(settings)
    try:
        yield
    finally:
        _STYLE.reset(token)


def _read_style(name: str) -> Mapping[str, Any]:
    """Return the settings of a style; name: of a style, of a file, or "user"."""
    from matplotlib import rc_params_from_file, rcParams, rcParamsDefault, style

    if name == "user":
        settings = {key: value for key, value in rcParams.items() if value != rcParamsDefault[key]}
    elif name in style.library:
        settings = dict(style.library[name])
    else:
        if not os.path.exists(name) and not Path(name).suffix and os.sep not in name:
            advice = suggestion(name, [*style.library, "user"], kind="style")
            raise InputError([Fault("style", f"'{name}' is no style of matplotlib, nor a file", advice)])
        check_file(name)
        with _one_warning() as said:
            try:
                settings = dict(rc_params_from_file(name, use_default_template=False))
            except (OSError, ValueError, UnicodeDecodeError) as error:
                said.append(str(error))
                settings = {}
        if said:
            raise InputError([Fault("", f"is no style of matplotlib: {' '.join(said[0].split())}")], name)
    return {key: value for key, value in settings.items() if not key.startswith(_NO_LOOKS)}


@contextmanager
def _one_warning() -> Iterator[list[str]]:
    """Collect what matplotlib logs while the block runs, in place of printing it."""
    logger, said = logging.getLogger("matplotlib"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def new_figure(column: str, *, height: float) -> Iterator[Figure]:
    """Yield an empty figure to draw on; it is laid out at the end of the block.

    column: "single" or "double". height: inches, at most a page (9.2).
    Raises InputError for another column, or where matplotlib is not installed.
    """
    choose("column", column, tuple(WIDTHS))
    with _figure_settings():
        figure = _figure_class()(figsize=(WIDTHS[column], min(height, _TALLEST)), layout="constrained")
        yield figure
        for axes in figure.axes if "axes.grid" in _STYLE.get() else ():
            axes.grid(_STYLE.get()["axes.grid"])
        figure.draw_without_rendering()  # ticks are made now, with these settings
        figure.set_layout_engine("none")  # laying out again would move things by rounding errors


@cache
def _figure_class() -> type[Figure]:
    """Return a kind of matplotlib's figures that notebooks show as the last line of a cell, without a magic command."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that says how it looks as a PNG; matplotlib itself does so only for figures of pyplot."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            """Return the picture, sharp on dense screens, and how many pixels wide and high it is to be shown."""
            width, height = (round(_SHOWN * inches) for inches in self.get_size_inches())
            return figure_bytes(self, ".png", dpi=2 * _SHOWN), {"width": width, "height": height}

    return NotebookFigure


def panels(figure: Figure, count: int, *, across: int, **options: Any) -> list[Axes]:
    """Return so many axes in rows of `across`; the last row may be shorter.

    options: further arguments for `Figure.subplots`.
    """
    areas = list(figure.subplots(-(-count // across), across, squeeze=False, **options).flat)
    for spare in areas[count:]:
        spare.remove()
    return areas[:count]


def require_matplotlib() -> None:
    """Raise InputError, in one sentence, where matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        finding = "figures are drawn by the package matplotlib, which is not installed"
        raise InputError([Fault("", finding, "install it with: pip install 'matplotlib>=3.9'")]) from None


def figure_text(name: str, *, most: int = _LONGEST) -> str:
    """Return a name as text of a figure: no mathematics, no control characters, characters of the font alone.

    most: characters; of a longer name the middle is left out.
    """
    text = "".join(char if ord(char) in _glyphs() else _escape_char(char) for char in escape_invisible(name))
    short = cut_middle(text, most)
    return escape_latex(short) if _STYLE.get().get("text.usetex") else short.replace("$", r"\$")


def add_title(figure: Figure, title: str | None, *, column: str) -> None:
    """Write a line above the whole figure, cut to its width; nothing where there is no title.

    column: the width of the figure. Raises InputError where the title is no text.
    """
    check_types({"title": (title, str, "a text")}, optional=("title",))
    if title:
        figure.suptitle(cut_to_width(title, inches=WIDTHS[column] - 0.1, size=8.0), fontsize="medium")


def cut_to_width(name: str, *, inches: float, size: float = SMALL) -> str:
    """Return a name as text of a figure, cut to a width of so many inches; size: points of its letters."""
    text, most = figure_text(name, most=_ALL), _ALL
    while (width := _width(text, size)) > inches and most > 3:
        most = max(3, min(most - 1, int(len(text) * inches / width)))
        text = figure_text(name, most=most)
    return text


def place_legend(axes: Axes, handles: Sequence[Any], names: Sequence[str], *, column: str, share: float = 1.0) -> None:
    """Draw a legend above the axes, where it hides nothing, in as many columns as fit.

    handles, names: the entries; without any, nothing is drawn. column: the width of the figure.
    share: the part of that width that the axes have.
    """
    if not handles:
        return
    widest = max(_width(name, SMALL) for name in names)
    fits = int((share * WIDTHS[column] - 0.45) // (0.5 + widest))
    labels = [f" {name}" if name.startswith("_") else name for name in names]  # matplotlib leaves out "_..."
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        ncols=max(1, min(fits, len(names))),
        borderpad=0.2,
        alignment="left",
    )


def _width(text: str, size: float) -> float:
    """Return the width of a text in inches; size: points of its letters."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=_FONT, size=size)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


@cache
def _glyphs() -> frozenset[int]:
    """Return the code points of the characters that the font has; they are read once."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family=_FONT))).get_charmap())


def _escape_char(char: str) -> str:
    """Return a character that the font lacks as its Unicode escape."""
    return char.encode("unicode_escape").decode()


ENDINGS = (".pdf", ".svg", ".eps", ".png")
_DPI = 300
_SHOWN = 110  # pixels per inch in a notebook
_LIMITS = (30, 2400)
_UNDATED: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
_EPS_DATE = re.compile(rb"%%CreationDate: [^\n]*\n")
_COLOURED = ("facecolor", "edgecolor", "color", "markerfacecolor", "markeredgecolor")


def save_figure(
    figure: Figure, path: str | os.PathLike[str], *, dpi: int | None = None, overwrite: bool = False
) -> None:
    """Write a figure to a file, whole or not at all.

    figure: what one of the plot functions returned, or any figure of matplotlib.
    path: its ending says the format: .pdf, .svg, .eps or .png.
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
    """Return the ending of a file in lower case, which says its format.

    Raises InputError for an ending that is no format of figures; it lists those there are.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        finding = f"the ending '{ending}' is no format of figures" if ending else "has no ending"
        raise InputError([Fault("", finding, f"use one of {', '.join(ENDINGS)}")], os.fspath(path))
    return ending


def figure_bytes(figure: Figure, ending: str, *, dpi: int | None = None) -> bytes:
    """Return the content of a file with the figure; nothing in it depends on the date.

    ending: ".pdf", ".svg", ".eps" or ".png". dpi: pixels per inch of a .png, 30 to 2400; None is 300.
    Raises InputError for another number.
    """
    check_numbers({"dpi": (dpi, *_LIMITS)}, whole=("dpi",), optional=("dpi",))
    content = BytesIO()
    options: dict[str, Any] = {
        "format": ending.removeprefix("."),
        "dpi": dpi or _DPI,
        "metadata": _UNDATED.get(ending, {}),
    }
    with _figure_settings():
        if ending != ".eps":
            figure.savefig(content, **options)
            return content.getvalue()
        with _mix_with_white(figure):
            figure.savefig(content, **options)
        return _EPS_DATE.sub(b"", content.getvalue())


@contextmanager
def _mix_with_white(figure: Figure) -> Iterator[None]:
    """Give what is half transparent a paler colour while the block runs: EPS has no transparency."""
    import numpy as np
    from matplotlib.colors import to_rgba_array

    undo: list[tuple[Any, Any]] = []
    for artist in figure.findobj():
        alpha = artist.get_alpha()
        if getattr(artist, "get_array", lambda: None)() is not None:
            continue  # its colours are those of a map, which are solid
        for name in _COLOURED:
            read, write = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
            before: Any = read() if read is not None and write is not None else "none"
            if write is None or (isinstance(before, str) and before in ("none", "auto")):
                continue
            colours = to_rgba_array(before)
            solid = np.asarray(colours[:, 3] if alpha is None else np.full(len(colours), alpha))
            if np.any((solid > 0.0) & (solid < 1.0)):
                share = solid[:, None]
                mixed = np.column_stack([share * colours[:, :3] + 1.0 - share, np.where(solid > 0.0, 1.0, 0.0)])
                undo.append((write, before))
                write(mixed if np.ndim(before) > 1 else mixed[0])
        if isinstance(alpha, float):
            undo.append((artist.set_alpha, alpha))
            artist.set_alpha(None)
    try:
        yield
    finally:
        for write, before in reversed(undo):
            write(before)
