"""What a problem file takes from other files: models of other tools, and automata."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.formats.dot import automaton_from_dot
from opaq.formats.gymnasium import read_gymnasium
from opaq.formats.hoa import automaton_from_hoa
from opaq.formats.pomdp.pomdp_reader import read_pomdp
from opaq.formats.prism.storm import read_prism
from opaq.formats.umb.umb_reader import read_umb
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.spec.cursor import UNREAD, at, check_keys, is_number, mapping, name, one_key, shown
from opaq.spec.overlay import KEYS as OVERLAYS
from opaq.spec.overlay import is_overlay, overlaid, read_observer_overlay, states_where
from opaq.spec.problem_part import FOREIGN
from opaq.spec.yaml_reader import read_text

Plain = dict[str, Any]
_OPTIONS = {
    "prism": ("constants", "reward"),
    "jani": ("constants", "reward"),
    "drn": ("reward",),
    "umb": ("reward",),
    "pomdp": (),
    "gymnasium": ("options",),
}
_AUTOMATA: dict[str, Callable[..., Automaton]] = {
    ".hoa": automaton_from_hoa,
    ".dot": automaton_from_dot,
    ".gv": automaton_from_dot,
}


def resolve(spec: Mapping[str, Any], folder: Path, faults: Faults) -> Plain:
    """The mapping of a problem file with all that stands elsewhere read and in its place.

    Paths are relative to `folder`. What could not be read becomes UNREAD, with its faults noted.
    """
    found = dict(spec)
    for part in ("secret", "task"):
        if part in found:
            found[part] = _with_automata(found[part], part, folder, faults)
    place = _foreign(found)
    if place is None:
        return _without_model(found, faults)
    key, stated = place
    for other in FOREIGN:
        found.pop(other, None)
    imported = _read_model(stated, key, folder, faults)
    variables = None if imported is None else imported.variables
    for part in ("observer", "secret", "task", "policy"):
        if part in found:
            found[part] = states_where(found[part], part, faults, variables)
    found["model"] = UNREAD if imported is None else imported.mdp
    if imported is not None and imported.discount is not None:
        found.setdefault("discount", imported.discount)
    if is_overlay(found.get("observer")):
        observer = None if imported is None else read_observer_overlay(found["observer"], "observer", faults, imported)
        found["observer"] = UNREAD if observer is None else observer
    return found


def read_model(kind: str, source: str, options: Mapping[str, Any] | None = None) -> Imported:
    """A model by the kind of its source (see FOREIGN) and a path, or the id of an environment."""
    options = dict(options or {})
    if kind == "gymnasium":
        return read_gymnasium(source, **options)
    if kind == "pomdp":
        return read_pomdp(source)
    if kind == "umb":
        return read_umb(source, **options)
    return read_prism(source, constants=options.pop("constants", {}), **options)


def _foreign(spec: Mapping[str, Any]) -> tuple[str, Plain] | None:
    """Where a foreign model is stated and how: under `model`, or as a key of its own beside no other model."""
    model = spec.get("model")
    if isinstance(model, Mapping) and any(key in FOREIGN for key in model):
        return None if any(key in spec for key in ("grid", *FOREIGN)) else ("model", dict(model))
    own = [key for key in FOREIGN if key in spec]
    if len(own) != 1 or "model" in spec or "grid" in spec:
        return None
    return "", {own[0]: spec[own[0]]}


def _without_model(spec: Plain, faults: Faults) -> Plain:
    """Parts that need a foreign model, where there is none, or more than one, which build tells."""
    several = any(key in spec for key in FOREIGN)
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
    kind = one_key(spec, path, faults, options=FOREIGN)
    if kind is None:
        return None
    before = len(faults.errors)
    check_keys(spec, path, faults, allowed=(kind, *_OPTIONS[kind], *OVERLAYS))
    source = name(spec[kind], at(path, kind), faults)
    options = _read_options(spec, kind, path, faults)
    if source is None or len(faults.errors) > before:
        return None
    place = source if kind == "gymnasium" else str(folder / source)
    try:
        imported = read_model(kind, place, options)
    except InputError as error:
        for fault in error.faults:
            faults.error(at(path, kind), _told(fault, source), fault.advice)
        return None
    for fault in imported.warnings:
        faults.warn(at(path, kind), _told(fault, source), fault.advice)
    laid = overlaid(imported, spec, path, faults)
    return laid if len(faults.errors) == before else None


def _told(fault: Fault, source: str) -> str:
    """A fault inside another file, told in one line of the problem file."""
    return f"{source}: {Fault(fault.where, fault.found, line=fault.line)}"


def _read_options(spec: Mapping[str, Any], kind: str, path: str, faults: Faults) -> Plain:
    """What the reader of a model is told beside the path."""
    if kind == "gymnasium":
        return mapping(spec.get("options", {}), at(path, "options"), faults) or {}
    found: Plain = {}
    if "reward" in spec and "reward" in _OPTIONS[kind]:
        found["reward"] = name(spec["reward"], at(path, "reward"), faults)
    if "constants" in spec and "constants" in _OPTIONS[kind]:
        where = at(path, "constants")
        found["constants"] = mapping(spec["constants"], where, faults) or {}
        for key, value in found["constants"].items():
            if not isinstance(value, bool) and not is_number(value):
                faults.error(at(where, key), f"is {shown(value)}, not a number or true or false")
    return found


def _with_automata(value: Any, path: str, folder: Path, faults: Faults) -> Any:
    """The value with every {automaton: {file: ...}} in it read."""
    if isinstance(value, list):
        return [_with_automata(entry, f"{path}[{place}]", folder, faults) for place, entry in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    found = {key: _with_automata(entry, at(path, key), folder, faults) for key, entry in value.items()}
    drawn = found.get("automaton")
    if isinstance(drawn, Mapping) and set(drawn) == {"file"}:
        found["automaton"] = _read_automaton(drawn["file"], at(at(path, "automaton"), "file"), folder, faults)
    return found


def _read_automaton(value: Any, path: str, folder: Path, faults: Faults) -> Automaton:
    source = name(value, path, faults)
    ending = os.path.splitext(source or "")[1].lower()
    if source is not None and ending not in _AUTOMATA:
        faults.error(path, f"the ending '{ending}' is unknown", f"one of {', '.join(_AUTOMATA)}")
    elif source is not None:
        try:
            return _AUTOMATA[ending](read_text(str(folder / source)))
        except InputError as error:
            for fault in error.faults:
                faults.error(path, _told(fault, source), fault.advice)
    return Automaton(("unread",), 0, frozenset(), ())  # its faults are noted; it stands for what is there
