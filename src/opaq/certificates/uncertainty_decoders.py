"""From the uncertainty of a task to the decoder that bounds it: one registration per kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from opaq.certificates.decoders import Decoder, Entropy, Guesswork, guess_error
from opaq.certificates.decoders import ExpectedLoss as LossDecoder
from opaq.errors import Fault, InputError
from opaq.model import uncertainty as kinds


class Shifted(NamedTuple):
    """A decoder, and what its figures exceed the uncertainty by: decoders need losses that are not negative."""

    decoder: Decoder
    shift: float = 0.0


@singledispatch
def decoder_of(uncertainty: object, secret_values: Sequence[str]) -> Shifted:
    """The decoder of an uncertainty; InputError for one that has none. Register a function for a kind of your own."""
    title = getattr(uncertainty, "title", type(uncertainty).__name__)
    finding = f"no certificate is known for the {title}"
    raise InputError([Fault("task.of", finding, "register a decoder for it, or certify another uncertainty")])


def has_certificate(uncertainty: object) -> bool:
    """Whether there is a decoder for an uncertainty."""
    return decoder_of.dispatch(type(uncertainty)) is not decoder_of.dispatch(object)


@decoder_of.register
def _(uncertainty: kinds.Shannon, secret_values: Sequence[str]) -> Shifted:
    return Shifted(Entropy())


@decoder_of.register
def _(uncertainty: kinds.GuessError, secret_values: Sequence[str]) -> Shifted:
    return Shifted(guess_error(len(secret_values)))


@decoder_of.register
def _(uncertainty: kinds.Guesswork, secret_values: Sequence[str]) -> Shifted:
    return Shifted(Guesswork())


@decoder_of.register
def _(uncertainty: kinds.ExpectedLoss, secret_values: Sequence[str]) -> Shifted:
    rows = [dict(row) for _, row in uncertainty.losses]
    losses = np.array([[row.get(value, 0.0) for value in secret_values] for row in rows])
    shift = max(0.0, -float(losses.min()))
    return Shifted(LossDecoder(losses + shift), shift)
