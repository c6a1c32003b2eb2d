"""What a task is about: `of`, the uncertainty that is maximised or minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opaq.errors import Faults
from opaq.model.secret import Language, Secret, Visited
from opaq.model.uncertainty import UNCERTAINTIES, ExpectedLoss, Shannon, Uncertainty
from opaq.spec.cursor import at, check_keys, mapping, name, suggestion, wrong
from opaq.spec.cursor import reward as read_loss

KEY = "of"
_LOSS = "loss"


def read_uncertainty(spec: Mapping[str, Any], path: str, faults: Faults) -> Uncertainty | None:
    """The uncertainty of a task from its mapping: opacity, unless `of` says otherwise."""
    value, where = spec.get(KEY, Shannon.name), at(path, KEY)
    if isinstance(value, Mapping):
        return _read_losses(value, where, faults)
    if isinstance(value, str) and value in UNCERTAINTIES:
        return UNCERTAINTIES[value]
    if isinstance(value, str):
        choices = (*UNCERTAINTIES, _LOSS)
        advice = "give the losses: loss: {GUESS: {VALUE: number, ...}, ...}" if value == _LOSS else None
        faults.error(where, f"unknown uncertainty '{value}'", advice or suggestion(value, choices, kind="uncertainty"))
        return None
    wrong(value, where, faults, f"one of {', '.join(UNCERTAINTIES)}, or a mapping with '{_LOSS}'")
    return None


def write_uncertainty(uncertainty: Uncertainty) -> dict[str, Any]:
    """The part of a task's mapping that states it; nothing for opacity."""
    if isinstance(uncertainty, ExpectedLoss):
        return {KEY: {_LOSS: {guess: dict(row) for guess, row in uncertainty.losses}}}
    return {} if uncertainty == Shannon() else {KEY: uncertainty.name}


def check_uncertainty(uncertainty: Uncertainty, secret: Secret, path: str, faults: Faults) -> None:
    """Note losses for values that the secret does not have."""
    if not isinstance(uncertainty, ExpectedLoss):
        return
    values = _secret_values(secret)
    for guess, row in uncertainty.losses:
        for value, _ in row:
            if value not in values:
                where = at(at(at(at(path, KEY), _LOSS), guess), value)
                faults.error(where, f"the secret has no value '{value}'", suggestion(value, values, kind="value"))


def _read_losses(spec: Mapping[str, Any], path: str, faults: Faults) -> ExpectedLoss | None:
    meant = check_keys(spec, path, faults, allowed=(_LOSS,))
    if _LOSS not in spec:
        if not meant:
            faults.error(path, f"has no '{_LOSS}'", "write loss: {GUESS: {VALUE: number, ...}, ...}")
        return None
    where = at(path, _LOSS)
    guesses = mapping(spec[_LOSS], where, faults)
    if guesses is None:
        return None
    if not guesses:
        faults.error(where, "is empty", "name at least one guess")
        return None
    rows = {str(guess): _read_row(guess, row, at(where, guess), faults) for guess, row in guesses.items()}
    if any(row is None for row in rows.values()):
        return None
    return ExpectedLoss.of({guess: row for guess, row in rows.items() if row is not None})


def _read_row(guess: Any, value: Any, path: str, faults: Faults) -> dict[str, float] | None:
    """The losses of one guess by secret value."""
    row = mapping(value, path, faults)
    if name(guess, path, faults) is None or row is None:
        return None
    losses = {str(secret): read_loss(loss, at(path, secret), faults) for secret, loss in row.items()}
    if any(loss is None for loss in losses.values()):
        return None
    return {secret: loss for secret, loss in losses.items() if loss is not None}


def _secret_values(secret: Secret) -> Sequence[str]:
    """The names of all values that a secret may have."""
    match secret:
        case Visited():
            return ("yes", "no")
        case Language(automaton, reveal):
            return automaton.states if reveal == "progress" else ("yes", "no")
        case _:
            return secret.classes.names
