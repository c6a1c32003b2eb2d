"""The page of all public names of `opaq`, made from their signatures and docstrings.

Docstrings are prose; a line that begins with the name of an argument explains it, and becomes an item of a list.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

import opaq

HEAD = """\
# Python names

Every public name of `opaq`, with its docstring; made from the code (`python docs/generate.py`).
[opaq in Python](../python.md) is the guide to them, with examples that run.

```{py:module} opaq
```
"""

# Folder -> heading, in the order in which users meet them.
GROUPS = {
    "loading": "Loading and saving",
    "spec": "Building problems",
    "model": "What a problem is made of",
    "opacity": "Measuring",
    "solvers": "Solving and comparing",
    "certificates": "Certifying",
    "simulation": "Runs, replays and agents",
    "reports": "Reports, figures and conversion",
    "study": "Studies",
    "formats": "Reading models of other tools",
    "product": "Inside: the product",
    "beliefs": "Inside: beliefs",
    "": "Errors, stopping and extensions",
}


def page() -> str:
    """All names, by group."""
    return "\n".join([HEAD, *(line for group in GROUPS for line in _group(group))])


def public_names() -> dict[str, Any]:
    """Every public name but the version."""
    return {name: getattr(opaq, name) for name in sorted(opaq.__all__, key=str.lower) if name != "__version__"}


def _folder(thing: Any) -> str:
    module = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    parts = module.split(".")
    return parts[1] if len(parts) > 2 and parts[1] in GROUPS else ""


def _group(group: str) -> Iterator[str]:
    members = {name: thing for name, thing in public_names().items() if _folder(thing) == group}
    if members:
        yield f"## {GROUPS[group]}"
        yield ""
    for name, thing in sorted(members.items(), key=lambda item: (isinstance(item[1], type), item[0].lower())):
        yield from _entry(name, thing)


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
