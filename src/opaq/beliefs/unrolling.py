"""Building the belief graph of a chain, level by level, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opaq.beliefs.expansion import expand, expand_levels
from opaq.beliefs.graph import Budget, Chain, Graph, Level, Limit
from opaq.beliefs.kernels import Arcs, Known, Nodes, NumberArray, Room
from opaq.beliefs.trimming import Trimmer, take
from opaq.model.arrays import FloatArray
from opaq.model.leaf import Leaf

OnLevel = Callable[[int, int], None]
_NO_NUMBERS = np.zeros(0)
_SMALL_LEVEL = 512  # levels of at most this many nodes are made many at a time
_LEVELS_A_CALL = 256
_MOST_LEVELS = 100  # a graph with more nodes than this many full levels is not built as a whole
_TINY_MASS = 1e-300


def _root(chain: Chain, samples: int) -> Level:
    """Before anything is seen: the source for certain."""
    one: NumberArray = np.ones_like(chain.moves.flow[:1])
    source = np.array([chain.pairs.state.size - 1], dtype=np.uint32)
    zero, zero32 = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    return _bare(Nodes(np.array([0, 1]), source, one, one, np.ones(1), zero, zero32, np.array([samples])))


def _bare(nodes: Nodes) -> Level:
    """A level of which only the nodes are known."""
    nothing = np.zeros(0, dtype=np.int64)
    return Level(nodes, Arcs(nothing, nothing, _NO_NUMBERS), Known(nothing, nothing, nothing, _NO_NUMBERS))


def unroll(
    chain: Chain,
    *,
    steps: int,
    budget: Budget | None = None,
    keep: bool = False,
    whole: bool = False,
    leaves: Sequence[Leaf] = (),
    samples: int = 0,
    rng: np.random.Generator | None = None,
    on_level: OnLevel | None = None,
) -> Graph:
    """The belief graph after `steps` observations; with `samples`, only what that many sampled runs visit.

    `keep` keeps every level, for gradients and for naming sequences. With `whole`, the first level that does not fit
    the budget (or very many levels that do) ends the work: the graph returned is not whole then, and says which limit
    it met. When the chain's stop is requested, what has not been expanded counts as dropped, for opacity, guess error
    and the `leaves`. A graph of sampled runs is never trimmed.
    `on_level` is told (levels done, nodes so far).
    """
    trimmer = Trimmer(chain, budget or Budget(), keep, leaves=tuple(leaves), whole=whole, sampled=samples > 0)
    level = _root(chain, samples)
    levels, num_nodes, num_entries, settled_mass, used, time = [level], 1, 1, 0.0, 0, 0
    dropped, limit = trimmer.nothing, None
    while time < steps and limit is None:
        if chain.stop.requested:  # what has not been expanded counts as dropped
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(level.num_nodes))
            levels = [*levels[:-1], take(level, np.zeros(0, dtype=np.int64))]
            break
        if trimmer.may_skip_ahead and level.num_nodes <= _SMALL_LEVEL:
            at_once = min(steps - time, _LEVELS_A_CALL)
            level, made, new_nodes, new_entries, settled = _steps(chain, level, trimmer, rng, steps=at_once)
            num_nodes, num_entries = num_nodes + new_nodes, num_entries + new_entries
            settled_mass, time = settled_mass + settled, time + made
            levels = [level]
            if made:
                _tell(on_level, time, num_nodes)
                limit = _exceeded(chain, trimmer.budget, num_nodes, num_entries) if whole else None
                continue
        child, reached, settled = _step(chain, level, rng, keep=keep, room=trimmer.room(used))
        if whole and not chain.stop.requested:
            limit = trimmer.exceeded(child, used, complete=reached == level.num_nodes)
        else:
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(reached, level.num_nodes))
            child, cost = trimmer.trim(child, time, used)
            dropped = dropped + cost
        num_nodes += child.num_nodes
        num_entries += child.nodes.pair.size
        settled_mass += settled
        used = used + child.num_bytes if keep else 0
        levels = [*levels, child] if keep else [child]
        level = child
        time += 1
        _tell(on_level, time, num_nodes)
        if whole and limit is None:
            limit = _exceeded(chain, trimmer.budget, num_nodes, num_entries)
    if limit is not None:
        dropped[0] = max(dropped[0], _TINY_MASS)
    return Graph(tuple(levels), num_nodes, num_entries, settled_mass, dropped, limit)


def _exceeded(chain: Chain, budget: Budget, num_nodes: int, num_entries: int) -> Limit | None:
    """What all levels together exceed."""
    if num_nodes > _MOST_LEVELS * budget.most_whole:
        return "beliefs"
    if budget.whole_work is None:
        return None
    per_state = chain.moves.target.size + chain.pairs.state.size  # edges that leave it, observations made in it
    return "work" if num_entries * per_state > budget.whole_work * chain.process.num_states else None


def _tell(on_level: OnLevel | None, levels: int, num_nodes: int) -> None:
    if on_level is not None:
        on_level(levels, num_nodes)


def _draws(level: Level, rng: np.random.Generator | None, *, levels: int) -> FloatArray:
    """One uniform number per sampled run and level; none where nothing is sampled."""
    runs = int(level.nodes.runs.sum()) if rng is not None else 0
    return rng.random((levels, runs)) if rng is not None and runs else np.zeros((levels, 0))


def _step(
    chain: Chain, level: Level, rng: np.random.Generator | None, *, keep: bool, room: Room
) -> tuple[Level, int, float]:
    """The next level, how many nodes of this one were expanded, and the mass that was settled."""
    draws, settled = _draws(level, rng, levels=1)[0], chain.process.settled
    *parts, reached, mass = expand(level.nodes, chain.moves, chain.pairs, settled, draws, chain.work, keep, room)
    return Level(*parts), int(reached), float(mass)


def _steps(
    chain: Chain, level: Level, trimmer: Trimmer, rng: np.random.Generator | None, *, steps: int
) -> tuple[Level, int, int, int, float]:
    """Several levels at once while they are small: the last one, how many, their nodes and entries, settled mass."""
    draws = _draws(level, rng, levels=steps)
    nodes, made, num_nodes, num_entries, settled = expand_levels(
        level.nodes,
        chain.moves,
        chain.pairs,
        chain.process.settled,
        draws,
        chain.work,
        steps,
        min(_SMALL_LEVEL, trimmer.max_nodes),
        trimmer.room(0),
    )
    return (_bare(nodes) if made else level), int(made), int(num_nodes), int(num_entries), float(settled)
