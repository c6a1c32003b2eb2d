"""Read and write what names figures: pairs of a secret and an observer, limits on them, and what observers assume.

    figure  ::= {of: secret, for: observer}                         names may be left out where there is one only
    figures ::= figure | {least: [figure, ...]} | {mean: [{of, for, weight}, ...]}
    limit   ::= {of: secret, for: observer, at_least | at_most: bits}
              | {like: uniform | return_optimal | FILE, for: observer, bits_at_most: bits}
    assumes ::= {policy: uniform | return_optimal | FILE, model: {keys that differ}, surprise: bits}

Policies of files are read for a problem: where it is not known yet, a word stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from opaq.model.figures import POLICY_WORDS, Assumption, CovertLimit, FigureLimit, Pair, UncertaintyLimit
from opaq.model.policy import Policy
from opaq.spec.cursor import Cursor, Scope
from opaq.spec.grammar import NAME, Fields, Key, Plain, Record, ValueType, list_of, number, raw_value
from opaq.spec.policy_table import policy_from_dict, policy_to_dict

Figures = tuple[tuple[Pair, ...], Literal["mean", "least"]]

_BITS = number(0.0)


def _read_weight(cursor: Cursor) -> float | None:
    """Return a number above 0; None after noting anything else."""
    weight = cursor.number()
    return weight if weight is None or weight > 0.0 else cursor.wrong("a number above 0")


_WEIGHT: ValueType[float] = ValueType("a number above 0", _read_weight, {"type": "number", "exclusiveMinimum": 0})


def read_policy(cursor: Cursor) -> Policy | str | None:
    """Return the policy at a cursor: a word, a policy, the mapping of a policy file, or the name of one.

    Where the scope has no problem yet, what has to be read for one is taken as the uniform policy. None after a fault.
    """
    value, problem = cursor.value, cursor.scope.problem
    if isinstance(value, Policy):
        return value
    if isinstance(value, str) and value.replace("-", "_") in POLICY_WORDS:
        return value.replace("-", "_")
    if not isinstance(value, Mapping | str):
        return cursor.wrong("uniform, return_optimal, or the name of a policy file")
    if isinstance(value, str) and cursor.scope.sources is None:
        return cursor.error(f"the file '{value}' cannot be read here", "give the policy itself")
    if problem is None:
        return POLICY_WORDS[0]
    if isinstance(value, str):
        assert cursor.scope.sources is not None
        return cursor.scope.sources.policy(cursor, problem)
    return policy_from_dict(value, problem, faults=cursor.faults, path=cursor.path)


def _write_policy(policy: Any, scope: Scope) -> Any:
    """Return a policy as a file states it: a word, or the mapping of a policy file."""
    return policy if isinstance(policy, str) else policy_to_dict(policy)


POLICY: ValueType[Any] = ValueType(
    "`uniform`, `return_optimal`, or the name of a policy file",
    read_policy,
    (NAME, {"type": "object"}),
    _write_policy,
)


def _name(fields: Fields, key: str) -> str | None:
    """Return the name of a secret (`of`) or an observer (`for`), empty where it is left out; None after a fault."""
    table = fields.cursor.scope.secrets if key == "of" else fields.cursor.scope.observers
    if key in fields:
        cursor = fields.at(key)
        return table.spell(cursor) if table.index is not None else cursor.name()
    if len(table) > 1:
        finding = f"is missing, and there are {len(table)} {table.kind}s"
        return fields.at(key).error(finding, f"name one of {', '.join(table.listed[:5])}")
    return ""


def _make_pair(fields: Fields) -> Pair | None:
    """Return a figure; None after a fault."""
    of, for_ = _name(fields, "of"), _name(fields, "for")
    weight = fields.read("weight") if "weight" in fields.keys else 1.0
    return None if of is None or for_ is None or weight is None else Pair(of, for_, weight)


_OF = Key("of", NAME, "The secret, by its name; left out where there is one only.")
_FOR = Key("for", NAME, "The observer, by its name; left out where there is one only.")
_SHARE = Key("weight", _WEIGHT, "How much it counts in the mean.", default=1.0)
_PAIR: Record[Pair] = Record("figure", "A secret and an observer.", (_OF, _FOR), _make_pair)
_WEIGHED: Record[Pair] = Record("weighed figure", "A figure with its weight.", (_OF, _FOR, _SHARE), _make_pair)


def _make_figures(fields: Fields) -> Figures | None:
    """Return the figures that a task is about, and how they are taken together; None after a fault."""
    several = [key for key in ("least", "mean") if key in fields]
    others = [key for key in ("of", "for", "mean") if key in fields and several and key != several[0]]
    for key in others:
        fields.at(key).error(f"does not go with '{several[0]}'", "keep one of them")
    if others:
        return None
    if not several:
        pair = _make_pair(fields)
        return None if pair is None else ((pair,), "mean")
    pairs: list[Pair] | None = fields.read(several[0])
    if pairs is not None and not pairs:
        return fields.at(several[0]).error("is empty", "name at least one figure")
    taken: Literal["mean", "least"] = "least" if several[0] == "least" else "mean"
    return None if pairs is None else (tuple(pairs), taken)


def _figure_parts(figures: Figures, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    pairs, taken = figures
    stated = [{"of": pair.of, "for": pair.for_, "weight": pair.weight} for pair in pairs]
    plain = [{key: value for key, value in each.items() if value not in ("", 1.0)} for each in stated]
    if taken == "mean" and len(pairs) == 1:
        return {key: value for key, value in plain[0].items() if key != "weight"}
    return {taken: plain}


_LEAST = replace(list_of(_PAIR.shape, "a list of figures"), write=lambda value, _: value)
_MEAN = replace(list_of(_WEIGHED.shape, "a list of figures, each with a `weight` if they differ"), write=_LEAST.write)
FIGURES: Record[Figures] = Record(
    "figures",
    "The figure that the task is about: a secret and an observer, the least of several, or their weighted mean.",
    (
        _OF,
        _FOR,
        Key("least", _LEAST, "Several figures, of which the least counts."),
        Key("mean", _MEAN, "Several figures, of which the weighted mean counts."),
    ),
    _make_figures,
    _figure_parts,
    example="task: {maximise: {least: [{of: goal, for: street}, {of: goal, for: harbour}]}}",
)

LIMIT_KEYS = ("of", "for", "at_least", "at_most", "like", "bits_at_most")


def make_limit(fields: Fields) -> FigureLimit | None:
    """Return a limit of a figure, or of how far the observations may be from a reference; None after a fault.

    fields: those of a requirement, with some of LIMIT_KEYS.
    """
    covert = "like" in fields or "bits_at_most" in fields
    strange = [key for key in fields.given if key not in LIMIT_KEYS]
    strange += [key for key in (("of", "at_least", "at_most") if covert else ()) if key in fields]
    for key in strange:
        fields.at(key).error(f"does not go with '{'like' if covert else 'of and for'}'", "make it one of its own")
    for_ = _name(fields, "for")
    if covert:
        fields.require("like", "name the reference: uniform, return_optimal or a policy file")
        fields.require("bits_at_most", "say how many bits of relative entropy there may be")
        like, bits = (fields.read(key) if key in fields else None for key in ("like", "bits_at_most"))
        return None if strange or for_ is None or like is None or bits is None else CovertLimit(like, for_, bits)
    of, kinds = _name(fields, "of"), [key for key in ("at_least", "at_most") if key in fields]
    if len(kinds) != 1:
        finding = "has both 'at_least' and 'at_most'" if kinds else "says neither 'at_least' nor 'at_most'"
        return fields.cursor.error(finding, "give one of them, in bits")
    bits = fields.read(kinds[0])
    if strange or of is None or for_ is None or bits is None:
        return None
    return UncertaintyLimit(of, for_, bits, "at_least" if kinds[0] == "at_least" else "at_most")


def _limit_parts(limit: FigureLimit, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    if isinstance(limit, CovertLimit):
        parts: Plain = {"like": limit.like, "for": limit.for_, "bits_at_most": limit.threshold}
    else:
        assert isinstance(limit, UncertaintyLimit)
        parts = {"of": limit.of, "for": limit.for_, limit.direction: limit.threshold}
    return {key: value for key, value in parts.items() if value != ""}


LIMIT: Record[FigureLimit] = Record(
    "limit",
    "A limit on what an observer is left with of a secret, or on how far what it sees is from a reference policy's.",
    (
        _OF,
        _FOR,
        Key("at_least", _BITS, "The least it must be left with, in bits."),
        Key("at_most", _BITS, "The most it may be left with, in bits: disclosure."),
        Key("like", POLICY, "The reference policy: what is seen must be distributed nearly as under it."),
        Key("bits_at_most", _BITS, "The most relative entropy from what the reference shows, in bits."),
    ),
    make_limit,
    _limit_parts,
    example="task: {requirements: [{of: goal, for: control, at_most: 0.1}, {like: uniform, for: street, "
    "bits_at_most: 0.2}]}",
)


def _make_assumption(fields: Fields) -> Assumption | None:
    """Return what an observer assumes; None after a fault."""
    policy, surprise = fields.read("policy"), fields.read("surprise")
    cursor, mdp = fields.at("model"), None
    if "model" in fields:
        read = cursor.scope.assume
        mdp = None if read is None else read(cursor)
        if mdp is None:
            return None
    if policy is None or (surprise is None and "surprise" in fields):
        return None
    return Assumption(policy, mdp, surprise)


def _assumption_parts(assumption: Assumption, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    return {"policy": assumption.policy, "model": assumption.mdp, "surprise": assumption.surprise}


_MODEL = raw_value("the keys of `model` or `grid` that differ", {"type": "object"})
ASSUMES: Record[Assumption] = Record(
    "assumes",
    "What an observer takes for granted: its filter runs on this, whatever is true.",
    (
        Key("policy", POLICY, "The policy that it expects.", default="uniform"),
        Key("model", _MODEL, "The model that it expects: only the keys that differ from the true one."),
        Key("surprise", _BITS, "Bits that observations count which it holds impossible; log2 of the number of values."),
    ),
    _make_assumption,
    _assumption_parts,
    example="observer: {sensors: {A: {covers: goal, detects: 0.8}}, assumes: {policy: uniform}}",
)
