"""What the paper reports, and the settings it reports it for (section VI and the published experiments)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """The figures of one experiment; opacity and return are the authors' estimates from sampled runs."""

    opacity: float
    expected_return: float
    guess_error: float | None = None
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Constant step sizes, iterations and sampled runs an iteration of the primal-dual method."""

    eta: float
    kappa: float
    iterations: int
    samples: int = 2000


@dataclass(frozen=True, slots=True)
class Experiment:
    """One scenario the paper solves."""

    scenario: str
    title: str
    published: Published
    settings: Settings
    timed: bool = False  # whether timed policies are solved for as well


_AS_TEXT = "published code: 4 moves, 11 transitions; here the text: 5 actions, 12 transitions"
_GRAPH_AS_TEXT = "published code: the variant graph-published; here the text"
_LAST, _INITIAL = Settings(eta=0.8, kappa=0.05, iterations=5000), Settings(eta=0.5, kappa=0.05, iterations=5000)
_GRAPH = Settings(eta=1.0, kappa=0.2, iterations=1000)
_LOGGED = 14.4 * 3600  # seconds, by the log of the published initial-state run

EXPERIMENTS = (
    Experiment(
        "grid-last-state-4",
        "Grid, last-state secret, as published (4 moves, horizon 11)",
        Published(0.888, 0.313),
        _LAST,
    ),
    Experiment(
        "grid-last-state",
        "Grid, last-state secret, as in the text (5 actions, horizon 12)",
        Published(0.888, 0.313, note=_AS_TEXT),
        _LAST,
    ),
    Experiment(
        "grid-initial-state-4",
        "Grid, initial-state secret, as published (4 moves, horizon 11)",
        Published(1.01, 0.311, seconds=_LOGGED),
        _INITIAL,
    ),
    Experiment(
        "grid-initial-state",
        "Grid, initial-state secret, as in the text (5 actions, horizon 12)",
        Published(1.01, 0.311, seconds=_LOGGED, note=_AS_TEXT),
        _INITIAL,
    ),
    Experiment(
        "graph-published",
        "Graph, language secret, as published (horizon 4)",
        Published(1.115, 0.207, 0.384, note="exact return of the published policy: 0.191, below 0.2"),
        _GRAPH,
        timed=True,
    ),
    Experiment(
        "graph",
        "Graph, language secret, as in the text (horizon 5)",
        Published(1.115, 0.207, 0.384, note=_GRAPH_AS_TEXT),
        _GRAPH,
        timed=True,
    ),
)
