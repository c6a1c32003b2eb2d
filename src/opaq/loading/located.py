"""Faults of a file, told with its lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opaq.errors import Faults, InputError
from opaq.spec.yaml_reader import Document, with_lines


@contextmanager
def located(document: Document, source: str, warnings: Faults | None) -> Iterator[Faults]:
    """A list of faults to note: with their lines, errors are raised in the end and warnings go to `warnings`."""
    noted = Faults()
    try:
        yield noted
        noted.raise_if_any()
    except InputError as error:
        raise InputError(with_lines(error.faults, document.lines), source) from None
    finally:
        if warnings is not None:
            warnings.warnings.extend(with_lines(noted.warnings, document.lines))
