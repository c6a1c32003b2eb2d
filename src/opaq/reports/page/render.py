"""The data of a report as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def render_report(data: Mapping[str, Any]) -> str:
    """The whole page; the data stand in it as JSON, in an element that no name can end."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("opaq.reports.page", ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    embedded = Markup(json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPES))
    return environment.get_template("report.html.j2").render(data=data, embedded=embedded)
