"""How objects show themselves in notebooks: which view draws which class. Imports nothing of opaq.

Models and results come before reports in the order of imports, so that they cannot call them: the view of a class is
named here, as the commands are in `commands`, and imported when a notebook first asks for it.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

VIEWS = MappingProxyType(
    {
        name: f"opaq.reports.html_views:{name.lower()}_html"
        for name in ("Problem", "Policy", "Measurement", "Solution", "Certificate", "Comparison", "Replay")
    }
)


class Displayed:
    """Base of the classes that have a view."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The object as HTML; notebooks call this."""
        view = next(VIEWS[kind.__name__] for kind in type(self).__mro__ if kind.__name__ in VIEWS)
        module, _, function = view.partition(":")
        html: str = getattr(import_module(module), function)(self)
        return html
