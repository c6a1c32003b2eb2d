"""Observations that look the same, or are taken for others: channels behind an observer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from opaq.model.arrays import SparseRows
from opaq.model.observer import Observer
from opaq.spec.cursor import Cursor
from opaq.spec.named_rows import rows_by_name
from opaq.spec.names import Known

MAX_ENTRIES = 20_000_000  # of the emissions that noise leaves
_MAX_ALIKE = 2_000  # observations that noise may take for each other


def shared(cursor: Cursor, observer: Observer) -> Observer | None:
    """Observations that look the same: {common name: [observations]}."""
    entries = cursor.entries()
    if entries is None:
        return None
    seen, names = Known.of("observation", observer.observations), list(observer.observations)
    before = len(cursor.faults.errors)
    giver: dict[int, str] = {}
    for key, entry in entries.items():
        for listed in entry.items() or []:
            column = seen.find(listed)
            if column is None:
                continue
            if column in giver:
                listed.error(f"is shared under '{giver[column]}' too", "keep one of them")
            giver[column], names[column] = key, key
    kept = {name for column, name in enumerate(observer.observations) if column not in giver}
    for key in kept & set(entries):
        entries[key].error("is an observation that stays as it is", "list it too, or use another name")
    if len(cursor.faults.errors) > before:
        return None
    left = Known.of("observation", tuple(dict.fromkeys(names)))
    merged = [(left.index or {})[name] for name in names]
    shape = (len(names), len(left))
    channel = SparseRows.from_entries(np.arange(len(names)), merged, np.ones(len(names)), shape=shape)
    return _seen_through(observer, channel, left.listed)


def noisy(cursor: Cursor, observer: Observer) -> Observer | None:
    """Observations taken for others: {keep: probability}, or {observation: {observation: probability}}."""
    entries = cursor.entries()
    if entries is None:
        return None
    if set(entries) == {"keep"} and "keep" not in observer.observations:
        keep = entries["keep"].probability()
        return None if keep is None else _evenly(cursor, observer, keep)
    values = [entry.value for entry in entries.values()]
    mentioned = [str(key) for value in values for key in (value if isinstance(value, Mapping) else [value])]
    heard = tuple(dict.fromkeys([*observer.observations, *mentioned]))
    given, seen = Known.of("observation", observer.observations), Known.of("observation", heard)
    channel = rows_by_name(cursor, given, seen, rest={index: {index: 1.0} for index in range(len(given))})
    if channel is None or _too_dense(cursor, observer, channel):
        return None
    return _seen_through(observer, channel, heard)


def _evenly(cursor: Cursor, observer: Observer, keep: float) -> Observer | None:
    """Each observation is seen with probability `keep`, else one of the others, all as likely.

    The blank that stands for time 0 where observations follow actions is no observation of the model: it stays.
    """
    table = observer.emission if observer.after_action is None else observer.after_action
    taking = np.unique(table.columns)
    if taking.size < 2:
        return observer
    if taking.size > _MAX_ALIKE:
        finding = f"{taking.size:,} observations would be taken for each other, more than {_MAX_ALIKE:,}"
        return cursor.error(finding, "say which: {observation: {observation: probability}}")
    noise = np.eye(len(observer.observations))
    noise[np.ix_(taking, taking)] = (1 - keep) / (taking.size - 1)
    noise[taking, taking] = keep
    channel = SparseRows.from_dense(noise)
    return None if _too_dense(cursor, observer, channel) else _seen_through(observer, channel, observer.observations)


def _too_dense(cursor: Cursor, observer: Observer, channel: SparseRows) -> bool:
    """Whether noise would let too many states show too many observations."""
    after = observer.after_action
    shown = observer.emission.columns if after is None else np.concatenate((observer.emission.columns, after.columns))
    entries = int(np.diff(channel.starts)[shown].sum())
    finding = f"makes {entries:,} emissions, more than {MAX_ENTRIES:,}"
    return cursor.beyond(entries, MAX_ENTRIES, finding, "mix up fewer observations")


def _seen_through(observer: Observer, channel: SparseRows, names: tuple[str, ...]) -> Observer:
    """What is left of the observations after a channel [observation, new observation]."""
    after = observer.after_action
    return dataclasses.replace(
        observer,
        observations=names,
        emission=_through(observer.emission, channel),
        after_action=None if after is None else _through(after, channel),
    )


def _through(emission: SparseRows, channel: SparseRows) -> SparseRows:
    product = (emission.scipy() @ channel.scipy()).tocoo()
    shape = (emission.num_rows, channel.num_columns)
    return SparseRows.from_entries(product.row, product.col, product.data, shape=shape)
