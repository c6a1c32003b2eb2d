"""The pages of all public names of `opaq`, one per area, made from their signatures and docstrings.

Docstrings are prose; a line that begins with the name of an argument explains it, and becomes an item of a list.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import opaq

HEAD = """\
# Python names

Every public name of `opaq`, by area, with its docstring; made from the code (`python docs/generate.py`).
[opaq in Python](../python.md) is the guide to them, with examples that run.

```{py:module} opaq
```
"""


class Area(NamedTuple):
    """One page: its file, its heading, and the folders of `opaq` whose names it has."""

    file: str
    title: str
    folders: tuple[str, ...]


# In the order in which users meet them; the last one has all that is in no folder.
AREAS = (
    Area("problems", "Problems: loading, building, saving", ("load", "spec")),
    Area("model", "What a problem is made of", ("model",)),
    Area("measure", "Measuring", ("opacity",)),
    Area("solve", "Solving and comparing", ("solvers",)),
    Area("certify", "Certifying", ("certificates",)),
    Area("runs", "Runs, replays and agents", ("simulation",)),
    Area("reports", "Reports and figures", ("reports",)),
    Area("studies", "Studies", ("study",)),
    Area("formats", "Models of other tools", ("formats", "automata")),
    Area("inside", "Inside: products and beliefs", ("product", "beliefs")),
    Area("other", "Errors, stopping and extensions", ()),
)


def pages() -> dict[str, Callable[[], str]]:
    """Return file -> what writes it: the list of areas, and a page for each."""
    return {"reference/api.md": page} | {f"reference/api/{area.file}.md": partial(_area_page, area) for area in AREAS}


def page() -> str:
    """The list of all names by area."""
    lines = [HEAD]
    for area in AREAS:
        names = ", ".join(f"{{py:obj}}`{name} <opaq.{name}>`" for name in _names_of(area))
        lines += [f"**[{area.title}](api/{area.file}.md)**: {names}", ""]
    files = "\n".join(f"api/{area.file}" for area in AREAS)
    return "\n".join([*lines, f"```{{toctree}}\n:hidden:\n\n{files}\n```", ""])


def _area_page(area: Area) -> str:
    """The names of one area, functions first."""
    head = f"# {area.title}\n\nMade from the code (`python docs/generate.py`); [all areas](../api.md).\n"
    members = _names_of(area)
    entries = [line for name, thing in members.items() for line in _entry(name, thing)]
    return "\n".join([head, "```{py:currentmodule} opaq\n```\n", *entries])


def public_names() -> dict[str, Any]:
    """Every public name but the version."""
    return {name: getattr(opaq, name) for name in sorted(opaq.__all__, key=str.lower) if name != "__version__"}


def _names_of(area: Area) -> dict[str, Any]:
    """The public names of an area, functions first, each by the alphabet."""
    folders = {folder for each in AREAS for folder in each.folders}

    def folder(thing: Any) -> str:
        module = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
        name = "solvers" if thing is opaq.solve else [*module.split("."), ""][1]  # which stands above certificates
        return name if name in folders else ""

    members = {name: thing for name, thing in public_names().items() if folder(thing) in (area.folders or ("",))}
    return dict(sorted(members.items(), key=lambda item: (isinstance(item[1], type), item[0].lower())))


def _entry(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, ModuleType):
        yield f"::::{{py:data}} {name}"
    elif isinstance(thing, type):
        yield f"::::{{py:class}} {name}{_class_signature(thing)}"
    else:
        yield f"::::{{py:function}} {name}{_signature(thing)}"
    yield ""
    arguments = set(inspect.signature(thing).parameters) if inspect.isfunction(thing) else set()
    yield from _prose(inspect.getdoc(thing) or "", arguments)
    if isinstance(thing, type):
        yield from _members(thing)
    yield "::::"
    yield ""


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        for member in kind:
            yield from ("", f":::{{py:attribute}} {member.name}", "", str(member.value), ":::")
        return
    for name, member in vars(kind).items():
        found = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or not inspect.getdoc(found):
            continue
        if isinstance(found, property):
            yield from ("", f":::{{py:property}} {name}", "")
            yield from _prose(inspect.getdoc(found) or "", set())
            yield ":::"
        elif inspect.isfunction(found):
            yield from ("", f":::{{py:method}} {name}{_signature(found, method=not isinstance(member, staticmethod))}")
            yield from (":classmethod:",) if isinstance(member, classmethod) else ()
            yield ""
            yield from _prose(inspect.getdoc(found) or "", set(inspect.signature(found).parameters))
            yield ":::"


def _class_signature(kind: type) -> str:
    if is_dataclass(kind) or (inspect.isfunction(vars(kind).get("__init__")) and not issubclass(kind, Exception)):
        return _signature(kind.__init__, method=True, returns=False)
    return ""


def _signature(function: Any, *, method: bool = False, returns: bool = True) -> str:
    """The arguments as they are written, objects as defaults left out."""
    signature = inspect.signature(function)
    shown, keyword_only = [], False
    for parameter in list(signature.parameters.values())[1 if method else 0 :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        keyword_only |= parameter.kind is parameter.VAR_POSITIONAL
        shown.append(_parameter(parameter))
    back = signature.return_annotation if returns else signature.empty
    return f"({', '.join(shown)})" + (f" -> {_annotation(back)}" if back is not signature.empty else "")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    default = ""
    if parameter.default is not parameter.empty:
        plain = parameter.default is None or isinstance(parameter.default, str | int | float | bool | tuple)
        shown = repr(parameter.default)
        default = f" = {shown if plain and '<' not in shown and 'object' not in shown else '...'}"
    return f"{stars}{parameter.name}{annotation}{default}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _prose(text: str, arguments: set[str]) -> Iterator[str]:
    """A docstring as Markdown: paragraphs, and a list where lines begin with names of arguments."""
    previous, within = "", False
    for line in text.replace("<", "\\<").splitlines():
        first = re.match(r"`?(\w+)`?(?=[,:( ]|$)", line)
        ended = not previous or previous.endswith((".", ";", ":", ")"))
        if first and first[1] in arguments and ended:
            yield from ("",) if previous and not within else ()
            yield "- " + re.sub(r"^((?:`?\w+`?(?:, )?)+):", lambda match: f"**{match[1].replace('`', '')}**:", line)
            within = True
        elif within and (not line or (ended and line.startswith(("Raises", "The ", "A ", "Without")))):
            within = False
            yield from ("", line) if line else ("",)
        else:
            yield f"  {line}" if within and line else line
        previous = line
    yield ""
