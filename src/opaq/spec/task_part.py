"""Read and write the task: thresholds on returns and probabilities, and the uncertainty that is optimised.

The mapping of `task` comes in, a `model.Task` goes out, and back. A requirement is a return or an event, one event may
stand in the task directly, and `of` names the uncertainty: opacity if left out.

    return  ::= {reward: named reward, return_at_least: number}
    event   ::= {reach: states | automaton: ... | ltlf: text | regex: text, probability_at_least: p, name: text}
    of      ::= name of an uncertainty | {loss: {guess: {secret value: number}}}

    task: {return_at_least: 0.1, requirements: [{reach: goal, probability_at_least: 0.9}]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from opaq.errors import suggestion
from opaq.model.figures import FigureLimit, Pair
from opaq.model.problem import (
    Reach,
    Requirement,
    ReturnAtLeast,
    Satisfy,
    Task,
    check_requirement,
    check_task,
    needs_discount,
)
from opaq.model.uncertainty import UNCERTAINTIES, ExpectedLoss, Shannon, Uncertainty
from opaq.spec.automaton_part import LANGUAGE_KEYS, MINIMAL, read_language
from opaq.spec.cursor import Cursor, Scope
from opaq.spec.figure_part import FIGURES, LIMIT, LIMIT_KEYS, make_limit
from opaq.spec.grammar import (
    NAME,
    PROBABILITY,
    REWARD,
    Fields,
    Key,
    Kind,
    Plain,
    Record,
    Union,
    ValueType,
    accept_object,
    any_required,
    list_of,
    map_of,
    one_of,
)
from opaq.spec.sets import STATES, read_only_states

_LOSS_ADVICE = "loss: {GUESS: {VALUE: number, ...}, ...}"


def _read(cursor: Cursor) -> Uncertainty | None:
    """Return an uncertainty by name, or the expected loss of {loss: ...}; None after a fault.

    cursor: one of the names in UNCERTAINTIES, e.g. "guess_error", or the mapping.
    """
    value = cursor.value
    if isinstance(value, Mapping):
        return _read_losses(cursor)
    if isinstance(value, str) and value in UNCERTAINTIES:
        return UNCERTAINTIES[value]
    if isinstance(value, str):
        known = suggestion(value, (*UNCERTAINTIES, "loss"), kind="uncertainty")
        advice = f"give the losses: {_LOSS_ADVICE}" if value == "loss" else known
        return cursor.error(f"unknown uncertainty '{value}'", advice)
    return cursor.wrong(f"one of {', '.join(UNCERTAINTIES)}, or a mapping with 'loss'")


def _read_losses(cursor: Cursor) -> ExpectedLoss | None:
    """Return the expected loss of {loss: {guess: {value: number}}}; None after a fault.

    Losses that are not named are 0; at least one guess is needed. They are not compared with the secret here.
    """
    fields = _LOSSES.open(cursor)
    if fields is None or "loss" not in fields:
        if fields is not None and not fields.misspelled:
            cursor.error("has no 'loss'", f"write {_LOSS_ADVICE}")
        return None
    losses: dict[str, dict[str, float]] | None = fields.read("loss")
    if losses is not None and not losses:
        return fields.at("loss").error("is empty", "name at least one guess")
    return None if losses is None else ExpectedLoss.of(losses)


def _write(uncertainty: Uncertainty, scope: Scope) -> Any:
    """Return an uncertainty as a file states it: its name, or its losses."""
    if isinstance(uncertainty, ExpectedLoss):
        return {"loss": {guess: dict(row) for guess, row in uncertainty.losses}}
    return uncertainty.name


_ROWS = map_of(map_of(REWARD, "value -> number"), "guess -> `{secret value: number}`")
_LOSSES: Record[Any] = Record(
    "loss",
    "The expected loss of the observer's best guess.",
    (Key("loss", _ROWS, "Every guess with its losses by secret value; those not named are 0."),),
    example="task: {of: {loss: {yes: {no: 1}, no: {yes: 5}}}}",
)
_UNCERTAINTY: ValueType[Uncertainty] = ValueType(
    "`opacity` (bits), `guess_error` (the probability that the best guess is wrong), `guesswork` (the mean number of "
    "guesses), or `{loss: ...}`",
    _read,
    (lambda known: {"enum": list(UNCERTAINTIES)}, lambda known: _LOSSES.schema(known) | {"required": ["loss"]}),
    _write,
    inside=(_LOSSES.shape,),
)


def _check_task(cursor: Cursor, task: Task) -> None:
    """Note when a finished task does not fit the model."""
    check_task(task, cursor.faults, cursor.path, **_scope_arguments(cursor), discount=cursor.scope.discount)


def _make(fields: Fields) -> Task | None:
    """Build the task; an event that stands directly in it becomes the first requirement.

    fields: the keys of _TASK. Requirements that are unusable are noted and left out; None when `of` is unusable.
    """
    value = fields.at("return_at_least").value
    threshold = None if value is None else fields.read("return_at_least")
    over, objective, of = fields.read("over"), fields.read("objective"), fields.read("of")
    pairs, taken, objective = _read_figures(fields, objective)
    _check_forever(fields.cursor, over)
    shorthand = (
        [_make_event(_EVENT.record.choose(fields))] if any(key.name in fields for key in _EVENT.record.keys) else []
    )
    requirements = [*shorthand, *(fields.read("requirements") or [])]
    usable = tuple(each for each in requirements if isinstance(each, Requirement))
    limits = tuple(each for each in requirements if isinstance(each, FigureLimit))
    return (
        None
        if of is None
        else Task(
            threshold,
            over or "horizon",
            usable,
            objective == "minimise",
            of,
            fields.read("when") or "end",
            pairs,
            taken,
            limits,
        )
    )


def _read_figures(fields: Fields, objective: str | None) -> tuple[tuple[Pair, ...], Any, str | None]:
    """Return the figures of `maximise` or `minimise`, how they are taken together, and which of the two it is."""
    keys = [key for key in ("maximise", "minimise") if key in fields]
    if len(keys) == 2 or (keys and "objective" in fields):
        other = "objective" if "objective" in fields else keys[0]
        fields.at(keys[-1]).error(f"does not go with '{other}'", "keep one of them")
    if not keys:
        return (), "mean", objective
    pairs, taken = fields.read(keys[0]) or ((), "mean")
    if keys[0] == "minimise" and taken == "least":
        fields.at("minimise").error("the least of several cannot be minimised", "minimise one figure, or the mean")
        return pairs, "mean", keys[0]
    return pairs, taken, keys[0]


def _check_forever(cursor: Cursor, over: str | None) -> None:
    """Note a return over all time without a discount below 1, which may be infinite.

    cursor: the task, in a scope with the discount; over: "horizon" or "forever", None when it could not be read.
    """
    discount = cursor.scope.discount
    if over == "forever" and discount is not None and discount >= 1:
        cursor.child("over", over).error(*needs_discount(discount))


def _check(cursor: Cursor, requirement: Requirement | FigureLimit) -> None:
    """Note when a finished requirement does not fit the model; a problem checks limits of figures."""
    if isinstance(requirement, FigureLimit):
        return
    check_requirement(requirement, cursor.faults, cursor.path, **_scope_arguments(cursor))


def _scope_arguments(cursor: Cursor) -> Plain:
    """Return what a task may refer to, as arguments of the model's own checks: num_states, labels and rewards."""
    names = cursor.scope
    return {"num_states": names.states.size, "labels": names.labels, "rewards": names.rewards}


def _make_requirement(fields: Fields) -> Requirement | FigureLimit | None:
    """Return a requirement: a limit of a figure, a return or an event, by the keys that are there; None after a fault.

    fields: the keys of all. Keys of an event beside those of a return are faults.
    """
    if any(key in fields for key in LIMIT_KEYS):
        return make_limit(fields)
    if "reward" not in fields and "return_at_least" not in fields:
        return _make_event(_EVENT.record.choose(fields))
    for key in _EVENT.record.keys:
        if key.name in fields:
            fields.at(key.name).error("does not go with a return", "make it a requirement of its own")
    for key in _RETURN.keys:
        fields.require(key.name, key.required)
    reward, threshold = fields.read("reward"), fields.read("return_at_least")
    if reward is None or threshold is None:
        return None
    requirement = ReturnAtLeast(reward, threshold)
    _check(fields.cursor, requirement)
    return requirement


def _make_event(fields: Fields) -> Requirement | None:
    """Return an event: states to be reached or a language to be satisfied, with at least some probability.

    fields: has its kind, `probability_at_least`, and perhaps `name`, which is otherwise made of the event itself.
    Returns None after a fault.
    """
    fields.require("probability_at_least", _CHANCE.required)
    threshold, title = fields.read("probability_at_least"), fields.read("name")
    event: Reach | Satisfy | None = None if fields.kind is None else _EVENT.kinds[fields.kind].make(fields)
    if event is None or threshold is None or title is None:
        return None
    return dataclasses.replace(event, threshold=threshold, name=title or event.name)


def _make_reach(fields: Fields) -> Reach | None:
    """Return the event that some states are visited; its threshold is filled in by the caller.

    An empty set of states is a warning: it is never reached. Returns None after a fault.
    """
    cursor = fields.at("reach")
    states = read_only_states(cursor)
    if states is None:
        return None
    if not states.size:
        cursor.warn("holds no state", "it is never reached")
    return Reach(states, 0.0, _states_text(cursor.value))


def _make_satisfy(fields: Fields) -> Satisfy | None:
    """Return the event that the run is in a language; its threshold is filled in by the caller. None after a fault.

    It is called by its formula or expression, or "the automaton".
    """
    automaton, text = read_language(fields, accepts=True), fields.at(str(fields.kind)).value
    title = text.strip() if isinstance(text, str) else "the automaton"
    return None if automaton is None else Satisfy(automaton, 0.0, title)


def _states_text(states: Any) -> str:
    """Return what a set of states is called: as it is written, up to four names of a list; else "the states"."""
    if not isinstance(states, list | tuple):
        return str(states) if isinstance(states, str | int) else "the states"
    return ", ".join(map(str, states)) if 0 < len(states) <= 4 else "the states"


def _event_parts(key: str, attribute: str) -> Callable[[Any, Scope], Plain]:
    """Return a `parts` for events that states the attribute under the key, the threshold and the name.

    key: "reach" or "automaton"; attribute: what the event calls its value.
    """
    keys = {key: attribute, "probability_at_least": "threshold", "name": "name"}
    return lambda event, _: {name: getattr(event, part) for name, part in keys.items()}


def _parts(task: Task, scope: Scope) -> Plain:
    """Return the values of the keys, to be written; opacity, the default of `of`, is left out."""
    return {
        "return_at_least": task.return_at_least,
        "over": task.over,
        "objective": "minimise" if task.minimise and not task.pairs else "maximise",
        "of": None if task.of == Shannon() else task.of,
        "when": task.when,
        "requirements": [*task.requirements, *task.limits],
    } | ({"minimise" if task.minimise else "maximise": (task.pairs, task.taken)} if task.pairs else {})


def _write_requirement(requirement: Requirement | FigureLimit, scope: Scope) -> Any:
    """Return a requirement as a file states it, by its class."""
    record: Any = _RETURN if isinstance(requirement, ReturnAtLeast) else _EVENT.record
    record = LIMIT if isinstance(requirement, FigureLimit) else record
    return record.write(requirement, scope)


_CHANCE = Key(
    "probability_at_least",
    PROBABILITY,
    "The probability with which it must happen within the horizon.",
    required="give the threshold, a number from 0 to 1",
)
_REACH = Key("reach", STATES, "States of which some must be visited.")
_EVENT: Union[Any] = Union.of(
    "event",
    "Something that must happen with at least some probability.",
    [
        Kind(_REACH, _make_reach, Reach, _event_parts("reach", "states")),
        Kind(LANGUAGE_KEYS["automaton"], _make_satisfy, Satisfy, _event_parts("automaton", "automaton")),
        Kind(LANGUAGE_KEYS["ltlf"], _make_satisfy),
        Kind(LANGUAGE_KEYS["regex"], _make_satisfy),
    ],
    (_CHANCE, MINIMAL, Key("name", NAME, "What reports call it.", default="")),
    example="task: {reach: goal, probability_at_least: 0.9}",
)
_RETURN: Record[Any] = Record(
    "return",
    "A threshold on the return of a named reward.",
    (
        Key("reward", NAME, "One of the model's named rewards.", required="name one of the model's named_rewards"),
        Key("return_at_least", REWARD, "The threshold.", required="give the threshold"),
    ),
    _make_requirement,
    lambda requirement, _: {"reward": requirement.reward, "return_at_least": requirement.threshold},
)


def _optional(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return keys that may be left out and go with anything: where they are needed depends on others."""
    return tuple(dataclasses.replace(key, required="", goes_with=()) for key in keys)


_EITHER: Record[Any] = Record(
    "requirement", "", _optional((*_RETURN.keys, *_EVENT.record.keys, *LIMIT.keys)), _make_requirement
)
_REQUIREMENT: ValueType[Requirement | FigureLimit] = accept_object(
    ValueType(
        "a mapping: [return](#return), [event](#event) or [limit](#limit)",
        _EITHER.read,
        (_RETURN.shape, _EVENT.shape, LIMIT.shape),
        _write_requirement,
        ref="requirement",
        inside=(_RETURN.shape, _EVENT.shape, LIMIT.shape),
    ),
    lambda value: isinstance(value, ReturnAtLeast | Reach | Satisfy | FigureLimit),
    _check,
)
_NEEDS: Mapping[str, Any] = {
    **{name: {"required": ["probability_at_least"]} for name in _EVENT.kinds},
    "probability_at_least": {"oneOf": [{"required": [name]} for name in _EVENT.kinds]},
    "minimal": any_required(MINIMAL.goes_with),
    "name": any_required(_EVENT.kinds),
}
_THRESHOLD: ValueType[float] = ValueType("a number", Cursor.reward, {"type": ["number", "null"]})
_OVER = "The return of the horizon, or of ever (needs a discount below 1)."
_OBJECTIVE = "Maximise the uncertainty of the observer, or minimise it (transparency)."
_WHEN = (
    "The uncertainty after the last observation; that of every moment about the secret's value then, summed up and "
    "discounted; or that of the moment at which it is least."
)
_LISTED = list_of(_REQUIREMENT, "a list of returns, events and limits of figures")
_TASK: Record[Task] = Record(
    "task",
    "What must get done: a return, and requirements; one event may stand here directly.",
    (
        Key("return_at_least", _THRESHOLD, "The threshold on the expected return; left out, there is none."),
        Key("over", one_of("horizon", "forever"), _OVER, default="horizon"),
        Key("objective", one_of("maximise", "minimise"), _OBJECTIVE, default="maximise"),
        Key("of", _UNCERTAINTY, "Which uncertainty; opacity if left out.", default=Shannon()),
        Key("when", one_of("end", "every", "least"), _WHEN, default="end"),
        Key("maximise", FIGURES.shape, "The figure to maximise, where there are several."),
        Key("minimise", FIGURES.shape, "The figure to minimise, where there are several."),
        Key("requirements", _LISTED, "Further requirements, all of which must be met."),
        *_optional(_EVENT.record.keys),
    ),
    _make,
    _parts,
    example="""\
task:
  return_at_least: 0.1
  requirements:
    - {reward: fuel, return_at_least: -10}
    - {reach: goal, probability_at_least: 0.9}""",
    constraints={"dependentSchemas": _NEEDS},
)
ANY_TASK: ValueType[Task] = accept_object(_TASK.shape, Task, _check_task)
