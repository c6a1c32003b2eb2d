"""A fingerprint of a model, so that a policy file can say which model it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from opaq.model.mdp import MDP

_BITS = 40  # of a float's 53: what two machines may round differently does not count


def model_fingerprint(mdp: MDP) -> str:
    """ "sha256:..." over names, start, transitions, rewards and labels; the same on every platform."""
    digest = hashlib.sha256(b"opaq-model-1")
    for part in _parts(mdp):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(mdp: MDP) -> Iterable[bytes]:
    """Every part of a model in a fixed order, as bytes."""
    yield from _names(mdp.states)
    yield from _names(mdp.actions)
    yield _rounded(mdp.start)
    yield _whole(mdp.choice_start)
    yield _whole(mdp.choice_action)
    row, column, value = mdp.transitions.row_of_entry(), mdp.transitions.columns, mdp.transitions.values
    order = np.lexsort((column, row))
    kept = order[value[order] != 0]
    yield _whole(row[kept])
    yield _whole(column[kept])
    yield _rounded(value[kept])
    yield _rounded(mdp.rewards)
    for reward in sorted(mdp.named_rewards):
        yield reward.encode("utf-8", "surrogatepass")
        yield _rounded(mdp.named_rewards[reward])
    yield b"labels"
    for label in sorted(mdp.labels):
        yield label.encode("utf-8", "surrogatepass")
        yield _whole(np.sort(mdp.labels[label]))


def _names(names: tuple[str, ...]) -> Iterable[bytes]:
    yield len(names).to_bytes(8, "little")
    yield from (name.encode("utf-8", "surrogatepass") for name in names)


def _whole(values: Any) -> bytes:
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def _rounded(values: Any) -> bytes:
    """Floats as whole numbers of 40 bits and exponents; -0.0 is 0.0."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64) + 0.0)
    whole = np.rint(mantissa * 2.0**_BITS).astype(np.int64)
    carried = np.abs(whole) == 2**_BITS
    whole, exponent = np.where(carried, whole // 2, whole), np.where(carried, exponent + 1, exponent)
    return _whole(whole) + _whole(np.where(whole == 0, 0, exponent))
