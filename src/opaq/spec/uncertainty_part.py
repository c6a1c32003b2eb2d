"""What a task is about: `of`, the uncertainty that is maximised or minimised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opaq.choices import suggestion
from opaq.model.uncertainty import UNCERTAINTIES, ExpectedLoss, Uncertainty
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Key, Record, Shape
from opaq.spec.names import Names
from opaq.spec.shapes import REWARD, map_of

_LOSS_ADVICE = "loss: {GUESS: {VALUE: number, ...}, ...}"


def _read(cursor: Cursor) -> Uncertainty | None:
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
    fields = LOSSES.open(cursor)
    if fields is None or "loss" not in fields:
        if fields is not None and not fields.meant:
            cursor.error("has no 'loss'", f"write {_LOSS_ADVICE}")
        return None
    losses: dict[str, dict[str, float]] | None = fields.read("loss")
    if losses is not None and not losses:
        return fields.at("loss").error("is empty", "name at least one guess")
    return None if losses is None else ExpectedLoss.of(losses)


def _write(uncertainty: Uncertainty, names: Names) -> Any:
    if isinstance(uncertainty, ExpectedLoss):
        return {"loss": {guess: dict(row) for guess, row in uncertainty.losses}}
    return uncertainty.name


_ROWS = map_of(map_of(REWARD, "value -> number"), "guess -> `{secret value: number}`")
LOSSES: Record[Any] = Record(
    "loss",
    "The expected loss of the observer's best guess.",
    (Key("loss", _ROWS, "Every guess with its losses by secret value; those not named are 0."),),
    example="task: {of: {loss: {yes: {no: 1}, no: {yes: 5}}}}",
)
UNCERTAINTY: Shape[Uncertainty] = Shape(
    "`opacity` (bits), `guess_error` (the probability that the best guess is wrong), `guesswork` (the mean number of "
    "guesses), or `{loss: ...}`",
    _read,
    (lambda known: {"enum": list(UNCERTAINTIES)}, lambda known: LOSSES.schema(known) | {"required": ["loss"]}),
    _write,
    inside=(LOSSES.shape,),
)
