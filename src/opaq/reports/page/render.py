"""Render the data of a report as one HTML page: templates, style and scripts put into one text.

Comes in: the data as a mapping (docs/answers.md). Goes out: a page that needs no other file and no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

from opaq.certificates.certify import Certificate
from opaq.codec import decode, encode
from opaq.errors import Faults
from opaq.opacity.measure import Measurement
from opaq.reports.layout import TextTable
from opaq.reports.page.cards import NOISE, Card, cards, leakage_figures, study_cards
from opaq.reports.report_data import FORMAT, VERSION
from opaq.reports.study_page import StudyPage
from opaq.reports.text.measurement import figure_tables

if TYPE_CHECKING:
    from jinja2 import Environment

_Part = TypeVar("_Part")

_STYLE = ("page.css", "report.css")
_STUDY_STYLE = (*_STYLE, "study.css")
_STUDY_SCRIPTS = (
    "elements.js",
    "charts.js",
    "frame.js",
    "study_columns.js",
    "study_filter.js",
    "study_plot.js",
    "study_table.js",
    "study.js",
)
_SCRIPTS = (
    "elements.js",
    "charts.js",
    "map_marks.js",
    "grid_map.js",
    "graph_map.js",
    "model_picture.js",
    "belief_panels.js",
    "replay.js",
    "outcomes.js",
    "policy_table.js",
    "frame.js",
    "main.js",
)
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def render_report(data: Mapping[str, Any], pairs: Mapping[str, str] | None = None) -> str:
    """Return one self-contained page: it opens from a file, asks nothing of a network and works in light and dark.

    data: a report's data, `{"format": "opaq-report", "version": 1, ...}`. What is null or missing is left out of the
    page; data of another format or of a later version give a page that says so.
    pairs: secret and observer in words -> the page about them, empty for those that this page is about; where there
    are several, the page lets one choose.
    """
    fault, pairs = _fault(data), pairs or {}
    sections = [] if fault else [section for section in _sections(data) if section["shown"]]
    return _render(
        "report.html.j2",
        scripts=_SCRIPTS,
        data=data,
        fault=fault,
        cards=[] if fault else _cards(data),
        leakage=[] if fault else leakage_figures(_read(Measurement, data["measurement"])),
        sections=sections,
        shown={section["id"] for section in sections},
        figures=None if fault else _figures(_read(Measurement, data["measurement"])),
        pairs=list(pairs),
        pages=embed_json([page or None for page in pairs.values()]),
    )


def _figures(measurement: Measurement) -> TextTable | None:
    """Return the table of all secrets and observers; None where there is one of each."""
    return next(iter(figure_tables(measurement.figures)), None)


def render_study(data: Mapping[str, Any]) -> str:
    """Return the page of a sweep or a front: a plot, and a table that is sorted and filtered.

    data: `{"format": "opaq-report", "version": 1, "kind": "study", ...}`; data of another format or of a later version
    give a page that says so. Raises InputError where keys of a study are missing or do not fit.
    """
    fault = _fault(data)
    return _render(
        "study.html.j2",
        scripts=_STUDY_SCRIPTS,
        style=_STUDY_STYLE,
        data=data,
        fault=fault,
        cards=[] if fault else study_cards(_read(StudyPage, data)),
    )


def _cards(data: Mapping[str, Any]) -> list[Card]:
    """Return the figures at the head of the page of a policy, from its measurement and any certificate."""
    measured, proven = data["measurement"], data.get("certificate")
    if proven is None:
        return cards(_read(Measurement, measured), None)
    certificate = _read(Certificate, {**measured, **proven})
    return cards(_read(Measurement, measured), certificate, str(proven.get("status_text", "")))


def _read(cls: type[_Part], data: Mapping[str, Any]) -> _Part:
    """Return a part of the data as the object that it was made from. Raises InputError with all that does not fit.

    cls: the class of the object.
    """
    faults = Faults()
    part = decode(cls, data, faults=faults)
    faults.raise_if_any()
    assert part is not None  # else there is a fault
    return part


def embed_json(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return the data as JSON that no name in it can break out of: it stands inside a script element."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:  # JSON has no infinity
        text = json.dumps(encode(data), ensure_ascii=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _fault(data: Mapping[str, Any]) -> str:
    """Return a sentence that says why the data cannot be shown; empty where they can."""
    if data.get("format") != FORMAT:
        return "This file does not hold the data of an opaq report."
    version = data.get("version")
    if version != VERSION:
        return f"This report has data of version {version}; this page knows version {VERSION}. Use a newer opaq."
    return ""


def _sections(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of the page in their order: id, title, and under "shown" whether there is anything in them."""
    solution, policy = data.get("solution") or {}, data.get("policy") or {}
    parts: Sequence[tuple[str, str, object]] = (
        ("model", "The model", data.get("model")),
        ("replay", "Belief replay", data.get("runs")),
        ("outcomes", "How sure the observer gets", data.get("posteriors")),
        ("decline", "Opacity over time", data.get("over_time")),
        ("leakage", "What observing adds to a guess", data["measurement"]["secret_entropy"] > NOISE),
        ("figures", "Every secret and observer", len(data["measurement"].get("figures", ())) > 1),
        ("search", "The search", solution.get("trace")),
        ("classes", "What a policy may look at", data.get("comparison")),
        ("certificate", "How much better could it be?", data.get("certificate")),
        ("policy", "The policy", policy.get("average")),
        ("how", "How the numbers were obtained", data.get("how")),
        ("files", "The problem file", data.get("problem_text") or data.get("problem_text_left_out")),
    )
    return [{"id": name, "title": title, "shown": bool(content)} for name, title, content in parts]


def _render(
    template: str, *, scripts: Sequence[str], data: Mapping[str, Any], style: Sequence[str] = _STYLE, **values: Any
) -> str:
    """Return a page from its template.

    scripts, style: names of files that are put into it. data: embedded as JSON, and given to the template.
    values: further values for the template. The page allows no other scripts: it states the hashes of its own.
    """
    script, theme = _script(scripts), _text("theme.js")
    page: str = (
        _environment()
        .get_template(template)
        .render(
            data=data,
            embedded=embed_json(data),
            style="\n".join(map(_text, style)),
            script=script,
            theme=theme,
            hashes=" ".join(f"'sha256-{_digest(source)}'" for source in (theme, script)),
            **values,
        )
    )
    # A lone surrogate, of a file name that is no text for one, has no UTF-8: it is spelt out, which JSON reads as well.
    return page.encode("utf-8", "backslashreplace").decode()


def _script(files: Sequence[str]) -> str:
    """Return the files as one script, in one scope of their own and in strict mode."""
    return "(() => {\n'use strict';\n" + "\n".join(map(_text, files)) + "\n})();"


def _digest(script: str) -> str:
    """Return the SHA-256 of a script in base64, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _text(name: str) -> str:
    """Return the text of a file of this package; it is read once."""
    return (resources.files("opaq.reports.page") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    """Return jinja2 as templates need it: all values escaped, unknown names an error; made once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("opaq.reports", "page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
