"""Guessing the run: how often the most likely trajectory is right, and how many of its moments are guessed right.

With W_t the secret's value of the state at time t, the observer's best guess of the whole trajectory after y is right
with probability max over w of P(w | y), and that of one moment on its own with max over w of P(W_t = w | y):

    right = sum over y of max_w P(w, y),     share = 1 / (T + 1) sum over t, y of max_w P(W_t = w, y).

Where the words tell the states (no two states that can follow one state have the same word), the first is a maximum
over paths: Viterbi's recursion on v_y(x) = max over paths to x of P(path, y). Vectors that are proportional have the
same future, so that sequences merge as they do in the belief graph. In other cases several vectors are kept per
sequence, one for each word sequence that no other one exceeds in every state.

Comes in: a process and a policy vector. Goes out: both figures, exact where all sequences fit, else from sampled runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.model.arrays import FloatArray, IntArray
from opaq.opacity.amount import Amount
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_SEQUENCES = 20_000  # that are enumerated
_MOST_CELLS = 4_000_000  # of an array [sequence, state] or [sequence, edge]
_MOST_VECTORS = 60_000  # that a level of Viterbi's recursion may have
_MOST_SEARCHED = 400  # sequences whose word sequences are searched, where words do not tell the states
_MOST_CANDIDATES = 64  # word sequences kept per observation sequence where words do not tell the states
_DIGITS = 10  # vectors that agree so far are one


@dataclass(frozen=True, slots=True)
class RunGuess:
    """What the observer's best guesses of the whole run are worth."""

    right: Amount  # probability that the most likely trajectory is the true one
    share: Amount  # of the moments of a run that are guessed right, expected


class _Sequences(NamedTuple):
    """Observation sequences, each with its weight: P(y) for all of them, 1 / number for sampled ones."""

    observations: IntArray  # [sequence, time]
    weight: FloatArray  # [sequence]
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class _ViewedChain:
    """A process under one policy, as sparse matrices; words are the secret's values of states."""

    process: HiddenProcess
    start: FloatArray  # [state]
    moves: csr_array  # [state, state]
    seen: Any  # sparse [observation, state]: E(o | x)
    words: csr_array  # [state, word]
    stop: Stop

    @classmethod
    def of(cls, process: HiddenProcess, pi: FloatArray, stop: Stop) -> _ViewedChain:
        from scipy.sparse import csr_array

        emission, size = process.emission, process.num_states
        shape = (emission.num_columns, size)
        seen = csr_array((emission.values, (emission.columns, emission.row_of_entry())), shape=shape)
        words = csr_array((np.ones(size), (np.arange(size), process.secret)), shape=(size, process.num_secrets))
        moves = csr_array(transition_matrix(process, process.flow(pi)), copy=True)
        moves.eliminate_zeros()
        return cls(process, start_distribution(process), moves, seen, words, stop)

    @property
    def words_tell_states(self) -> bool:
        """Whether the words so far always tell the state: no two next states of a state have the same word."""
        words, num = self.process.secret, self.process.num_secrets
        owner = np.repeat(np.arange(self.moves.shape[0]), np.diff(self.moves.indptr))
        codes = owner * num + words[self.moves.indices]
        first = words[np.flatnonzero(self.start)]
        return np.unique(codes).size == codes.size and np.unique(first).size == first.size

    def emit(self, now: FloatArray, observation: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return [row, state] times E(o | x) of every row's own observation, rows summing to 1, and the sums [row]."""
        now = now * self.seen[observation].toarray()
        total = now.sum(axis=1)
        return now / np.where(total > 0.0, total, 1.0)[:, None], total


def guess_run(
    process: HiddenProcess, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop | None = None
) -> RunGuess:
    """Return what the best guesses of the run of a policy vector [slot] are worth.

    The secret's value of a state is its word. samples, rng: of runs, where the observation sequences are too many.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    chain = _ViewedChain.of(process, pi, stop or Stop())
    sequences = _enumerate(chain) or _sample(chain, samples, rng)
    shares = _moment_shares(chain, sequences)
    share = _amount(shares, shares, sequences)
    right = _best_paths(chain) if chain.words_tell_states else None
    if right is not None:
        return RunGuess(Amount.exact(right), share)
    if chain.words_tell_states:
        likeliest = _viterbi(chain, sequences)
        return RunGuess(_amount(likeliest, likeliest, sequences), share)
    if sequences.weight.size > _MOST_SEARCHED:
        sequences = _sample(chain, min(samples, _MOST_SEARCHED), rng)
    return RunGuess(_amount(*_best_words(chain, sequences), sequences), share)


def _amount(values: FloatArray, most: FloatArray, sequences: _Sequences) -> Amount:
    """Return the mean of values [sequence]: exact for all sequences, else an estimate with its standard error.

    most: [sequence], what a value may be instead at most; an interval, or a larger error, where that is more.
    """
    mean, highest = (min(1.0, float(sequences.weight @ each)) for each in (values, most))
    if sequences.exact:
        return Amount.between(mean, highest)
    error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0
    return Amount.estimate(mean, 0.0, 1.0, standard_error=error + highest - mean)


def _enumerate(chain: _ViewedChain) -> _Sequences | None:
    """Return all observation sequences of positive probability; None where they are too many."""
    process = chain.process
    most = min(_MOST_SEQUENCES, _MOST_CELLS // max(process.num_states, process.num_observations))
    now, weight, seen = chain.start[None, :], np.ones(1), np.zeros((1, 0), dtype=np.int64)
    for time in range(process.horizon + 1):
        chain.stop.check()
        ahead = now if time == 0 else now @ chain.moves
        chance = ahead @ chain.seen.T
        row, observation = np.nonzero(chance > 0.0)
        if row.size > most:
            return None
        now, _ = chain.emit(ahead[row], observation)
        weight, seen = weight[row] * chance[row, observation], np.column_stack((seen[row], observation))
    return _Sequences(seen, weight, exact=True)


def _sample(chain: _ViewedChain, samples: int, rng: np.random.Generator) -> _Sequences:
    """Draw observation sequences by the observer's own predictions."""
    process = chain.process
    count = max(2, min(samples, _MOST_CELLS // max(process.num_states, process.num_observations)))
    now, seen = np.repeat(chain.start[None, :], count, axis=0), np.zeros((count, process.horizon + 1), dtype=np.int64)
    for time in range(process.horizon + 1):
        chain.stop.check()
        ahead = now if time == 0 else now @ chain.moves
        chance = np.cumsum(ahead @ chain.seen.T, axis=1)
        drawn = rng.random(count) * chance[:, -1]
        seen[:, time] = (chance <= drawn[:, None]).sum(axis=1)
        now, _ = chain.emit(ahead, seen[:, time])
    return _Sequences(seen, np.full(count, 1.0 / count), exact=False)


def _moment_shares(chain: _ViewedChain, sequences: _Sequences) -> FloatArray:
    """Return [sequence]: the mean over t of max_w P(W_t = w | y), by one pass forwards and one back."""
    times, count = sequences.observations.shape[1], sequences.weight.size
    shares, block = np.zeros(count), max(1, _MOST_CELLS // (times * chain.process.num_states))
    for first in range(0, count, block):
        seen = sequences.observations[first : first + block]
        filtered = list[FloatArray]()
        for time in range(times):
            chain.stop.check()
            ahead = np.repeat(chain.start[None, :], seen.shape[0], axis=0) if time == 0 else filtered[-1] @ chain.moves
            filtered.append(chain.emit(ahead, seen[:, time])[0])
        later = np.ones_like(filtered[-1])
        for time in range(times - 1, -1, -1):
            smoothed = filtered[time] * later
            told = smoothed @ chain.words
            shares[first : first + block] += told.max(axis=1) / told.sum(axis=1) / times
            later = (chain.moves @ chain.emit(later, seen[:, time])[0].T).T
    return shares


def _path_maxima(chain: _ViewedChain) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
    """Return the edges by target: sources, probabilities, where each target's edges begin, and the targets."""
    by_target = chain.moves.tocsc()
    reached = np.flatnonzero(np.diff(by_target.indptr))
    return by_target.indices.astype(np.int64), by_target.data, by_target.indptr[reached].astype(np.int64), reached


def _ahead_of_paths(chain: _ViewedChain, now: FloatArray, edges: tuple[Any, ...]) -> FloatArray:
    """Return [row, state]: the most likely path to every next state, from those to the states now [row, state]."""
    source, probability, heads, reached = edges
    ahead = np.zeros_like(now)
    block = max(1, _MOST_CELLS // max(source.size, 1))
    for first in range(0, now.shape[0], block):
        chain.stop.check()
        paths = now[first : first + block][:, source] * probability
        if source.size:
            ahead[first : first + block, reached] = np.maximum.reduceat(paths, heads, axis=1)
    return ahead


def _best_paths(chain: _ViewedChain) -> float | None:
    """Return sum over y of max over paths of P(path, y); None where there are too many distinct vectors.

    Vectors are told apart by two random projections, as beliefs are by hashes.
    """
    process, edges = chain.process, _path_maxima(chain)
    most = min(_MOST_VECTORS, _MOST_CELLS // max(process.num_states, 1))
    keys = np.random.default_rng(0x0BAC).random((process.num_states, 2))
    now, weight = chain.start[None, :], np.ones(1)
    for time in range(process.horizon + 1):
        ahead = now if time == 0 else _ahead_of_paths(chain, now, edges)
        made, weights = [], []
        for observation in range(process.num_observations):
            chain.stop.check()
            vectors, total = chain.emit(ahead, np.full(ahead.shape[0], observation))
            kept = total > 0.0
            _, example, group = np.unique(
                np.round(vectors[kept] @ keys, _DIGITS), axis=0, return_index=True, return_inverse=True
            )
            made.append(vectors[kept][example])
            weights.append(np.bincount(group.reshape(-1), weights=(weight * total)[kept], minlength=example.size))
            if sum(part.shape[0] for part in made) > most:
                return None
        now, weight = np.concatenate(made), np.concatenate(weights)
    return min(1.0, float(weight @ now.max(axis=1)))


def _viterbi(chain: _ViewedChain, sequences: _Sequences) -> FloatArray:
    """Return [sequence]: max over paths of P(path | y), where words tell the states."""
    edges, seen = _path_maxima(chain), sequences.observations
    best = belief = np.repeat(chain.start[None, :], seen.shape[0], axis=0)
    odds = np.zeros(seen.shape[0])  # log of P(best path, y) over P(y), less what is in `best`
    for time in range(seen.shape[1]):
        if time:
            best, belief = _ahead_of_paths(chain, best, edges), belief @ chain.moves
        best, grown = chain.emit(best, seen[:, time])
        belief, chance = chain.emit(belief, seen[:, time])
        odds += np.log(grown) - np.log(chance)
    return np.asarray(np.exp(odds) * best.max(axis=1))


def _best_words(chain: _ViewedChain, sequences: _Sequences) -> tuple[FloatArray, FloatArray]:
    """Return [sequence]: max over word sequences w of P(w | y), by keeping those that no other one exceeds throughout.

    Beyond _MOST_CANDIDATES the least likely ones go, and the value may be too small; the second array is what it is at
    most: P(w_0 .. w_t, y_0 .. y_t) of words that were let go never rises with t.
    """
    best, most = np.zeros(sequences.weight.size), np.zeros(sequences.weight.size)
    for index, seen in enumerate(sequences.observations):
        chain.stop.check()
        vectors = belief = chain.start[None, :]
        for time, observation in enumerate(seen):
            if time:
                vectors, belief = vectors @ chain.moves, belief @ chain.moves
            shown = chain.seen[[observation]].toarray()
            belief, vectors = belief * shown, vectors * shown
            scale = float(belief.sum())
            belief, (vectors, lost) = belief / scale, _undominated(chain, vectors / scale)
            most[index] = max(most[index] / scale, lost)
        best[index] = float(vectors.sum(axis=1).max(initial=0.0))  # 0 where all that explain the rest were let go
    return best, np.maximum(best, np.minimum(most, 1.0))


def _undominated(chain: _ViewedChain, vectors: FloatArray) -> tuple[FloatArray, float]:
    """Split vectors [candidate, state] by the word of the state, and return those that no other one exceeds.

    Also returns the largest sum of a vector that is let go although none exceeds it; 0 where all fit.
    """
    state, lost = np.flatnonzero((vectors > 0.0).sum(axis=0)), 0.0
    kept = []
    for word in np.unique(chain.process.secret[state]):
        told = np.where(chain.process.secret == word, vectors, 0.0)
        told = told[told.any(axis=1)]
        told = told[np.argsort(-told.sum(axis=1), kind="stable")]
        lost = max(lost, float(told[4 * _MOST_CANDIDATES :].sum(axis=1).max(initial=0.0)))
        chosen = list[FloatArray]()
        for vector in told[: 4 * _MOST_CANDIDATES]:
            if not any((vector <= other).all() for other in chosen):
                chosen.append(vector)
        kept += chosen
    rows = np.array(kept).reshape(-1, vectors.shape[1])
    rows = rows[np.argsort(-rows.sum(axis=1), kind="stable")]
    return rows[:_MOST_CANDIDATES], max(lost, float(rows[_MOST_CANDIDATES:].sum(axis=1).max(initial=0.0)))


def likeliest_paths(process: HiddenProcess, pi: FloatArray, sequences: Sequence[IntArray]) -> list[IntArray]:
    """Return per sequence [time] the product states of the most likely path, given what was observed (Viterbi).

    sequences: numbers of observations [time] of positive probability; they may end before the run does.
    """
    chain = _ViewedChain.of(process, pi, Stop())
    moves, paths = chain.moves.tocoo(), list[IntArray]()
    for observations in sequences:
        best, back = chain.start[None, :], list[IntArray]()
        for time, observation in enumerate(observations):
            if time:
                ways = best[0][moves.row] * moves.data
                order = np.lexsort((moves.row, -ways, moves.col))  # per target the likeliest, then the first
                target, first = np.unique(moves.col[order], return_index=True)
                source, best = np.zeros(process.num_states, dtype=np.int64), np.zeros((1, process.num_states))
                source[target], best[0, target] = moves.row[order[first]], ways[order[first]]
                back.append(source)
            best, _ = chain.emit(best, np.array([observation]))
        path = [int(best[0].argmax())] if len(observations) else []
        for source in reversed(back):
            path.append(int(source[path[-1]]))
        paths.append(np.array(path[::-1], dtype=np.int64))
    return paths
