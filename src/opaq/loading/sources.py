"""What a problem file takes from other files: models of other tools, and automata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.formats.registry import FORMATS, Format, ending_of, endings, format_of, formats_of
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.spec.cursor import UNREAD, at, check_keys, is_number, mapping, name, one_key, shown
from opaq.spec.overlay import KEYS as OVERLAYS
from opaq.spec.overlay import is_overlay, overlaid, read_observer_overlay, states_where

Plain = dict[str, Any]


def resolve(spec: Mapping[str, Any], folder: Path, faults: Faults) -> Plain:
    """The mapping of a problem file with all that stands elsewhere read and in its place.

    Paths are relative to `folder`. What could not be read becomes UNREAD, with its faults noted.
    """
    resolved = dict(spec)
    for part in ("secret", "task"):
        if part in resolved:
            resolved[part] = _with_automata(resolved[part], part, folder, faults)
    foreign = _foreign(resolved)
    if foreign is None:
        return _without_model(resolved, faults)
    key, stated = foreign
    for other in _foreign_keys():
        resolved.pop(other, None)
    imported = _read_model(stated, key, folder, faults)
    variables = None if imported is None else imported.variables
    for part in ("observer", "secret", "task", "policy"):
        if part in resolved:
            resolved[part] = states_where(resolved[part], part, faults, variables)
    resolved["model"] = UNREAD if imported is None else imported.mdp
    if imported is not None and imported.discount is not None:
        resolved.setdefault("discount", imported.discount)
    if is_overlay(resolved.get("observer")):
        observer = (
            None if imported is None else read_observer_overlay(resolved["observer"], "observer", faults, imported)
        )
        resolved["observer"] = UNREAD if observer is None else observer
    return resolved


def _foreign_keys() -> tuple[str, ...]:
    """The keys of a problem file that name a model of another format."""
    return tuple(format.name for format in formats_of("model"))


def _foreign(spec: Mapping[str, Any]) -> tuple[str, Plain] | None:
    """Where a foreign model is stated and how: under `model`, or as a key of its own beside no other model."""
    model, foreign = spec.get("model"), _foreign_keys()
    if isinstance(model, Mapping) and any(key in foreign for key in model):
        return None if any(key in spec for key in ("grid", *foreign)) else ("model", dict(model))
    own = [key for key in foreign if key in spec]
    if len(own) != 1 or "model" in spec or "grid" in spec:
        return None
    return "", {own[0]: spec[own[0]]}


def _without_model(spec: Plain, faults: Faults) -> Plain:
    """Parts that need a foreign model, where there is none, or more than one, which build tells."""
    several = any(key in spec for key in _foreign_keys())
    for part in ("observer", "secret", "task", "policy"):
        if part in spec:
            spec[part] = states_where(spec[part], part, faults, None if several else {})
    if is_overlay(spec.get("observer")):
        key = "from" if "from" in spec["observer"] else "variables"
        if not several:
            faults.error(at("observer", key), "needs a model from another file", "give emissions or sensors")
        spec["observer"] = UNREAD
    return spec


def _read_model(stated: Plain, path: str, folder: Path, faults: Faults) -> Imported | None:
    spec = mapping(stated, path, faults) or {}
    kind = one_key(spec, path, faults, options=_foreign_keys())
    if kind is None:
        return None
    before, format = len(faults.errors), FORMATS[kind]
    check_keys(spec, path, faults, allowed=(kind, *(option.name for option in format.options), *OVERLAYS))
    source = name(spec[kind], at(path, kind), faults)
    options = _read_options(spec, format, path, faults)
    if source is None or len(faults.errors) > before:
        return None
    try:
        imported: Imported = format.read(str(folder / source) if format.is_file else source, **options)
    except InputError as error:
        for fault in error.faults:
            faults.error(at(path, kind), _in_one_line(fault, source), fault.advice)
        return None
    for fault in imported.warnings:
        faults.warn(at(path, kind), _in_one_line(fault, source), fault.advice)
    laid = overlaid(imported, spec, path, faults)
    return laid if len(faults.errors) == before else None


def _in_one_line(fault: Fault, source: str) -> str:
    """A fault inside another file, told in one line of the problem file."""
    return f"{source}: {Fault(fault.where, fault.found, line=fault.line)}"


def _read_options(spec: Mapping[str, Any], format: Format, path: str, faults: Faults) -> Plain:
    """What the reader of a model is told beside the path."""
    options: Plain = {}
    for option in format.options:
        if option.name not in spec:
            continue
        value, where = spec[option.name], at(path, option.name)
        if option.type == "name":
            options[option.name] = name(value, where, faults)
            continue
        options[option.name] = mapping(value, where, faults) or {}
        for key, entry in options[option.name].items() if option.type == "values" else ():
            if not isinstance(entry, bool) and not is_number(entry):
                faults.error(at(where, key), f"is {shown(entry)}, not a number or true or false")
    return options


def _with_automata(value: Any, path: str, folder: Path, faults: Faults) -> Any:
    """The value with every {automaton: {file: ...}} in it read."""
    if isinstance(value, list):
        return [_with_automata(entry, f"{path}[{index}]", folder, faults) for index, entry in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    resolved = {key: _with_automata(entry, at(path, key), folder, faults) for key, entry in value.items()}
    drawn = resolved.get("automaton")
    if isinstance(drawn, Mapping) and set(drawn) == {"file"}:
        resolved["automaton"] = _read_automaton(drawn["file"], at(at(path, "automaton"), "file"), folder, faults)
    return resolved


def _read_automaton(value: Any, path: str, folder: Path, faults: Faults) -> Automaton:
    source = name(value, path, faults)
    format = None if source is None else format_of(source)
    if source is not None and (format is None or format not in formats_of("automaton")):
        known = f"one of {', '.join(endings(formats_of('automaton')))}"
        faults.error(path, f"the ending '{ending_of(source)}' is unknown", known)
    elif source is not None and format is not None:
        try:
            automaton: Automaton = format.read(str(folder / source))
            return automaton
        except InputError as error:
            for fault in error.faults:
                faults.error(path, _in_one_line(fault, source), fault.advice)
    return Automaton(("unread",), 0, frozenset(), ())  # its faults are noted; it stands for what is there
