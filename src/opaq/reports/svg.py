"""Pictures as SVG text, element by element, and SVG as PNG."""

from __future__ import annotations

import math
from importlib.util import find_spec
from xml.sax.saxutils import escape, quoteattr

from opaq.errors import OpaqError

FONT = "DejaVu Sans, Verdana, Arial, Helvetica, sans-serif"
INK, FAINT, PAPER = "#222222", "#d9d9d9", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#9467bd", "#555555")  # told apart by colour-blind readers as well


class RasteriserError(OpaqError):
    """PNG was asked for and the package that makes it is not installed."""


def element(name: str, *content: str, **attributes: str | float) -> str:
    """One element; attribute names are written with underscores for dashes, numbers must be finite."""
    told = "".join(f" {_attribute(key)}={quoteattr(_value(value))}" for key, value in attributes.items())
    return f"<{name}{told}>{''.join(content)}</{name}>" if content else f"<{name}{told}/>"


def text(words: str, x: float, y: float, *, size: float = 12, anchor: str = "start", **attributes: str | float) -> str:
    """Words at a place; anchor is start, middle or end."""
    placed: dict[str, str | float] = {"x": x, "y": y, "font_size": size, "text_anchor": anchor, "fill": INK}
    return element("text", escape(words), **(placed | attributes))


def path(points: list[tuple[float, float]], **attributes: str | float) -> str:
    """A line through the points."""
    steps = " L ".join(f"{_value(x)} {_value(y)}" for x, y in points)
    return element("path", d=f"M {steps}", fill="none", **attributes)


def document(width: float, height: float, *content: str, title: str) -> str:
    """A whole picture on a light background."""
    return element(
        "svg",
        element("title", escape(title)),
        element("rect", width=width, height=height, fill=PAPER),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        font_family=FONT,
    )


def can_rasterise() -> bool:
    """Whether svg_to_png will work."""
    return find_spec("resvg_py") is not None


def svg_to_png(svg: str, *, zoom: float = 2.0) -> bytes:
    """The picture in pixels. Raises RasteriserError without the extra `figures`."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise RasteriserError("PNG pictures need one more package: pip install 'opaq[figures]'") from None
    return bytes(svg_to_bytes(svg_string=svg, zoom=zoom))


def _attribute(name: str) -> str:
    return name.replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise ValueError(f"a picture cannot show {value}")
    return f"{value:.2f}".rstrip("0").rstrip(".")
