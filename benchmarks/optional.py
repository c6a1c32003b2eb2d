"""Peers that may not be there: imported quietly, or named with the reason."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType


def load(module: str) -> ModuleType | str:
    """A module of `benchmarks.peers`, or the reason why its library cannot be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some peers use what newer libraries deprecate
            return importlib.import_module(f"benchmarks.peers.{module}")
    except Exception as error:  # an incompatible library may raise anything while it is imported
        return f"{type(error).__name__}: {error}".splitlines()[0]
