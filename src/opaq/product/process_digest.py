"""A digest of every bit of a hidden process: where it is the same, so is all that is computed from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from opaq.product.process import HiddenProcess


def process_digest(process: HiddenProcess) -> str:
    """ "sha256:..." of all arrays and numbers; `opaq.model.fingerprint` leaves room for rounding, this does not."""
    content = hashlib.sha256()
    for piece in _pieces(process):
        content.update(piece)
    return f"sha256:{content.hexdigest()}"


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for field in fields(value):
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        yield f"{len(value)} items".encode()
        for item in value:
            yield from _pieces(item)
    elif hasattr(value, "indptr"):  # a sparse array of SciPy; its index type is chosen by its size alone
        yield from _pieces((value.shape, value.indptr, value.indices, value.data))
    else:
        yield repr(value).encode()
