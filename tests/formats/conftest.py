"""Real models by others: they are no part of the repository, and the environment says where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def model_by_others() -> Callable[[str], Path]:
    """The path of a model in the folder OPAQ_MODELS; a test whose model is not there is skipped, by name."""

    def locate(name: str) -> Path:
        folder = os.environ.get("OPAQ_MODELS")
        if not folder:
            pytest.skip(f"{name}: OPAQ_MODELS names no folder of models (CONTRIBUTING.md)")
        if not (Path(folder) / name).exists():
            pytest.skip(f"{name} is not in {folder} (OPAQ_MODELS)")
        return Path(folder) / name

    return locate
