"""What a benchmark returns: comparisons with their spread over repeats, in sections of the document."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a run is, and on what kind of machine."""

    quick: bool = False
    repeats: int = REPEATS
    busy: bool = False  # whether the machine had other work when the run began

    @property
    def judged(self) -> bool:
        """Whether goals are judged: they are meant for full sizes on an idle machine."""
        return not (self.quick or self.busy)


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over repeats."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self) -> str:
        """Median, and the range in brackets."""
        return f"{number(self.median)} ({number(self.least)} to {number(self.most)})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """opaq against a peer that computes the same quantity: seconds of every repeat, taken in turns."""

    name: str  # what is computed
    ours: str
    peer: str
    our_seconds: tuple[float, ...]
    peer_seconds: tuple[float, ...]
    same: str  # how far the two answers were apart, or why they are comparable
    goal: float | None = None  # the ratio aimed at; None: none was set
    stopped: int = 0  # in so many repeats the peer was stopped before it was done: the ratio is a lower bound

    @property
    def ratio(self) -> Spread:
        """How many times as long the peer takes; repeat by repeat."""
        pairs = zip(self.our_seconds, self.peer_seconds, strict=True)
        return Spread.of([peer / ours for ours, peer in pairs])

    def verdict(self, settings: Settings) -> str:
        """Whether the goal is met, or whether opaq is slower where there is no goal."""
        if self.goal is None:
            return "**slower**" if self.ratio.median < 1 else ""
        return f"at least {number(self.goal)}: {judgement(self.ratio.median >= self.goal, settings)}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of every repeat for growing sizes of one thing."""

    what: str
    mode: str
    sizes: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]  # [size][repeat]


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's part of the document."""

    title: str
    explanation: str
    tables: tuple[Table, ...]
    comparisons: tuple[Comparison, ...] = ()
    curves: tuple[Curve, ...] = ()
    skipped: tuple[str, ...] = field(default=())  # peers that did not take part, and why


def judgement(met: bool, settings: Settings) -> str:
    """What is said of a goal."""
    if not settings.judged:
        return "not judged"
    return "met" if met else "**missed**"


def comparison_table(comparisons: Sequence[Comparison], settings: Settings) -> Table:
    """Ratios first; seconds stand beside them as context."""
    header = ("what", "opaq", "peer", "peer / opaq, median (range)", "goal", "same answer", "context: opaq, peer")
    return Table(header, tuple(_cells(each, settings) for each in comparisons))


def _cells(each: Comparison, settings: Settings) -> tuple[str, ...]:
    ratio = each.ratio.text()
    if each.stopped:
        ratio = f"at least {ratio}; peer stopped in {each.stopped} of {len(each.peer_seconds)}"
    ours, peer = (statistics.median(times) for times in (each.our_seconds, each.peer_seconds))
    context = f"{duration(ours)}, {'over ' if each.stopped else ''}{duration(peer)}"
    return (each.name, each.ours, each.peer, ratio, each.verdict(settings), each.same, context)


def number(value: float) -> str:
    """Two or three digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def duration(value: float) -> str:
    """Seconds in a unit that suits them."""
    for limit, unit, scale in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{number(value * scale)} {unit}"
    return f"{number(value)} s"


def closeness(apart: float) -> str:
    """How far two answers were apart, in words."""
    return f"to {apart:.0e}" if apart > 0 else "exactly"
