"""The channel from a secret to the observations, P(y | z) of a policy: enumerated, and its capacity.

The channel of an initial secret does not depend on how the secret is distributed, so that one can ask for the
distribution that gives away most. Observation sequences that leave the same belief have proportional columns, which
counts for no distribution: the leaves of the belief graph are the channel, without a list of all sequences. A part of
the graph that is dropped leaves bounds: an observer who learns nothing from it, and one who learns the secret.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.returns import secret_distribution
from opaq.beliefs.secret_prediction import SecretPredictions
from opaq.beliefs.unroll import unroll
from opaq.display import data_frame
from opaq.errors import BudgetError, Fault, InputError, check_numbers
from opaq.files import write_bytes, write_text
from opaq.model.arrays import ContentEq, FloatArray, IntArray, expand_rows
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import InitialState, StateClasses, refuse_trajectory
from opaq.opacity.amount import Amount
from opaq.opacity.policies import compile_for_policy
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

if TYPE_CHECKING:
    from pandas import DataFrame

_ENDINGS = (".csv", ".npz")
_TOLERANCE = 1e-9  # bits between the two bounds on a capacity that are close enough
_MOST_ROUNDS = 20_000
_MOST_ENDS = 50_000_000  # (sequence, last state) pairs of a channel at a time: some GB
_LEAST_SHARE = 1e-300  # of a value in a distribution, so that logarithms stay finite
_TINY = 5e-324  # the smallest double
_ROUNDING = 1e-12  # bits: more than sums over columns are off by


# -- the channel, sequence by sequence --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Channel(ContentEq):
    """P(y | z) of a policy: one row per value of the secret, one column per observation sequence.

    secret_values: those of positive probability, in the order of the rows.
    prior: [value] P(Z = z) under the policy.
    observations: the names of single observations.
    sequences: [sequence, time] -> observation.
    matrix: [value, sequence] P(y | z); rows sum to 1.
    """

    secret_values: tuple[str, ...]
    prior: FloatArray
    observations: tuple[str, ...]
    sequences: IntArray
    matrix: FloatArray

    def __repr__(self) -> str:
        return f"<Channel from {self.matrix.shape[0]} secret values to {self.matrix.shape[1]:,} observation sequences>"

    def to_dict(self) -> dict[str, Any]:
        """Return the channel as plain data; sequences are written out by the names of their observations."""
        return {
            "result": "channel",
            "secret_values": list(self.secret_values),
            "prior": self.prior.tolist(),
            "sequences": [[self.observations[each] for each in seen] for seen in self.sequences],
            "channel": self.matrix.tolist(),
        }

    def to_dataframe(self) -> DataFrame:
        """Return one line per sequence: o_0 .. o_T, P(y), and P(y | value) by value."""
        head, lines = self._head(), self._lines()
        return data_frame([dict(zip(head, line, strict=True)) for line in lines], head)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the channel to a file.

        path: ends in .csv (one line per sequence: o_0 .. o_T, P(y), then P(y | value) by value) or in .npz (arrays
            `channel` [value, sequence], `prior`, `secret_values`, `observations` and `sequences`, as NumPy reads them).
        overwrite: replace a file that exists. Raises InputError otherwise, for other endings, and where it cannot be
            written.
        """
        check_channel_file(path)
        if Path(path).suffix.lower() == ".npz":
            arrays: dict[str, Any] = {
                "channel": self.matrix,
                "prior": self.prior,
                "secret_values": np.array(self.secret_values),
                "observations": np.array(self.observations),
                "sequences": self.sequences,
            }
            buffer = BytesIO()
            np.savez_compressed(buffer, **arrays)
            write_bytes(path, buffer.getvalue(), overwrite=overwrite)
            return
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._head())
        writer.writerows(self._lines())
        write_text(path, text.getvalue(), overwrite=overwrite)

    def _head(self) -> list[str]:
        """Return the names of the columns of a table."""
        times = [f"o_{time}" for time in range(self.sequences.shape[1])]
        return [*times, "P(y)", *(f"P(y | {value})" for value in self.secret_values)]

    def _lines(self) -> list[list[Any]]:
        """Return the lines of a table, one per sequence."""
        total = self.prior @ self.matrix
        return [
            [*(self.observations[each] for each in seen), float(chance), *given.tolist()]
            for seen, chance, given in zip(self.sequences, total, self.matrix.T, strict=True)
        ]


def check_channel_file(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a channel can be written to a file of this name."""
    if Path(path).suffix.lower() not in _ENDINGS:
        raise InputError([Fault("", "has an unknown ending", f"use {' or '.join(_ENDINGS)}")], os.fspath(path))


def enumerate_channel(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    max_entries: int = 10_000_000,
) -> Channel:
    """Return P(y | z) of a policy, one column per observation sequence of positive probability.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object or the name of a file; None is the uniform policy.
    max_entries: the most numbers in the channel, values of the secret times sequences. Raises BudgetError beyond.
    """
    check_numbers({"max_entries": (max_entries, 1, 10**9)}, whole=("max_entries",))
    product, pi = compile_for_policy(problem, policy)
    refuse_trajectory(product.problem.secret)
    return channel_of_product(product, pi, max_entries=max_entries)


def channel_of_product(
    product: Product, pi: FloatArray, *, max_entries: int = 10_000_000, stop: Stop | None = None
) -> Channel:
    """Return the channel of a policy vector of a compiled problem, as `enumerate_channel` does.

    pi: [slot] action probabilities of every policy row. Raises StoppedError when `stop` is requested meanwhile.
    """
    from scipy.sparse import csr_array

    process, stop = product.process, stop or Stop()
    size = process.num_states + 1  # the source is the last state
    moves = csr_array((process.flow(pi), process.edge_target, process.edge_start), shape=(size, size))
    masses = csr_array(([1.0], ([0], [size - 1])), shape=(1, size))  # [sequence, state] P(o_0 .. o_t, x_t)
    sequences = np.zeros((1, 0), dtype=np.int64)
    for time in range(process.horizon + 1):
        stop.check()
        ahead = (masses @ moves).tocoo()
        ends = int(np.diff(process.emission.starts)[ahead.col].sum())  # each sequence has at most one per state
        if ends > min(_MOST_ENDS, max_entries * size // process.num_secrets):
            raise _too_many(masses.shape[0], time, process, max_entries)
        entry, pair = expand_rows(process.emission.starts, ahead.col.astype(np.int64))
        mass = ahead.data[entry] * process.emission.values[pair]
        kept = mass > 0.0
        entry, pair, mass = entry[kept], pair[kept], mass[kept]
        codes = ahead.row[entry].astype(np.int64) * process.num_observations + process.emission.columns[pair]
        reached, sequence = np.unique(codes, return_inverse=True)
        if reached.size * process.num_secrets > max_entries:
            raise _too_many(masses.shape[0], time, process, max_entries)
        before, observation = np.divmod(reached, process.num_observations)
        sequences = np.column_stack([sequences[before], observation])
        masses = csr_array((mass, (sequence, ahead.col[entry])), shape=(reached.size, size))
    of_value = csr_array((np.ones(size - 1), (np.arange(size - 1), process.secret)), shape=(size, process.num_secrets))
    joint = (masses @ of_value).toarray().T
    prior = joint.sum(axis=1)
    some = prior > 0.0
    return Channel(
        tuple(name for name, there in zip(product.secret_values, some, strict=True) if there),
        prior[some],
        tuple(product.observations),
        sequences,
        joint[some] / prior[some, None],
    )


def _too_many(sequences: int, time: int, process: HiddenProcess, max_entries: int) -> BudgetError:
    """Return the error for a channel that grows too large. sequences: how many there are of `time` observations."""
    return BudgetError(
        f"the channel has {sequences:,} observation sequences after {time} of {process.horizon + 1} observations; "
        f"after the next one, with {process.num_secrets} values of the secret, it would have more than {max_entries:,} "
        "numbers: shorten the horizon, or merge observations or secret values"
    )


# -- capacity ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most that a policy gives away of an initial secret, over all distributions of the secret.

    bits: the largest leakage, max over P(z) of H(Z) - H(Z | Y), in bits.
    prior: secret value -> probability: a distribution whose leakage is at least the lower end of `bits`.
    min_entropy: the largest min-entropy leakage in bits, log2 of sum over y of max over z of P(y | z); the uniform
        distribution reaches it.
    """

    bits: Amount
    prior: Mapping[str, float]
    min_entropy: Amount


def bound_capacity(problem: Problem, policy: Policy | None, *, budget: Budget, stop: Stop) -> Capacity:
    """Return the capacity of the channel from an initial secret to the observations under a policy.

    The distribution of the start among the states of one value stays as it is; that of the values is varied, over those
    of positive probability. policy: None is the uniform one. budget: of the belief graph. stop: ends the work with what
    is certain by then. Raises InputError for secrets that are no initial state.
    """
    classes = check_initial(problem)
    product = compile_problem(_with_uniform_secret(problem, classes), policy.policy_class if policy else None)
    names, leaves, dropped = _merge_channel(product, product.policy_vector(policy), budget, stop)
    from scipy.sparse import csr_array, diags_array, vstack

    blind = vstack([leaves, csr_array(dropped[None, :])], format="csr")  # the observer learns nothing of the rest
    low, share = maximise_leakage(blind, stop)
    least = float(np.log2(max(1.0, _sum_of_largest(blind))))
    high, most = low, least
    if dropped.any():  # the observer is told the secret
        told = vstack([leaves, diags_array(dropped)], format="csr")
        high, most = maximise_leakage(told, stop)[0], float(np.log2(max(1.0, _sum_of_largest(told))))
    top = math.log2(len(dropped))
    return Capacity(
        Amount.between(max(0.0, low.lower), min(top, max(low.lower, high.upper))),
        dict(zip(names, share.tolist(), strict=True)),
        Amount.between(min(least, top), min(most, top)),
    )


def check_initial(problem: Problem) -> StateClasses:
    """Return the values of the initial secret of a problem; raises InputError for other secrets."""
    if not isinstance(problem.secret, InitialState):
        finding = "is no initial state: how it is distributed follows from the policy, so that it has no capacity"
        raise InputError([Fault("secret", finding, "ask for the capacity of a secret {initial_state: ...}")])
    return problem.secret.classes


def _with_uniform_secret(problem: Problem, classes: StateClasses) -> Problem:
    """Return the problem with a start at which all values of positive probability are equally likely.

    classes: those of the initial secret.
    """
    shares = np.bincount(classes.of_state, weights=problem.mdp.start, minlength=len(classes.names))
    each = shares[classes.of_state]  # at least the probability of the state: shares of it do not overflow
    start = np.divide(problem.mdp.start, each, out=np.zeros_like(each), where=each > 0.0)
    return replace(problem, mdp=replace(problem.mdp, start=start / start.sum()))


def _merge_channel(
    product: Product, pi: FloatArray, budget: Budget, stop: Stop
) -> tuple[tuple[str, ...], Any, FloatArray]:
    """Return the values, sparse [column, value] P(column | value), and what is dropped; columns in proportion are one.

    Values of probability 0 are left out; [value] what is dropped of P(. | value) may be in any columns.

    product: of a problem whose secret values, of positive probability, are equally likely.
    """
    from scipy.sparse import csr_array, diags_array, vstack

    process = product.process
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon + 1, budget=budget, keep=True)
    prior = secret_distribution(process, pi)
    known = np.zeros(process.num_secrets)
    for level in graph.levels:
        known += np.bincount(level.known.value, weights=np.real(level.known.mass), minlength=process.num_secrets)
    joint = csr_array((0, process.num_secrets))
    if len(graph.levels) == process.horizon + 2 and graph.last.mass.size:
        last = SecretPredictions.of(process, np.real(chain.moves.flow), steps=0)
        leaves = np.arange(graph.last.mass.size)
        posterior = last.predict(graph.last, process.horizon, leaves, pair_state=chain.pairs.state)
        joint = csr_array(diags_array(np.real(graph.last.mass)) @ posterior)
    some = prior > 0.0
    merged = vstack([joint, diags_array(known)], format="csr")[:, np.flatnonzero(some)] @ diags_array(1.0 / prior[some])
    whole = graph.dropped_mass == 0.0 and not stop.requested
    dropped = np.zeros(int(some.sum())) if whole else np.maximum(0.0, 1.0 - np.asarray(merged.sum(axis=0)))
    names = tuple(product.secret_values[value] for value in np.flatnonzero(some))
    return names, csr_array(merged), dropped


def maximise_leakage(channel: Any, stop: Stop) -> tuple[Amount, FloatArray]:
    """Return max over P(z) of I(Z; Y) within its bounds, in bits, and the distribution of the lower one.

    By the algorithm of Blahut and Arimoto (1972): with D_z = sum_y P(y | z) log2(P(y | z) / P(y)),

        sum_z P(z) D_z <= capacity <= max_z D_z,      P(z) <- P(z) 2^(step D_z) / sum,

    for every P. A step of 1 never lowers the left side; longer ones are taken as long as they do not.

    channel: sparse [y, z] P(y | z). stop: ends the work with the bounds that there are.
    """
    from scipy.sparse import csr_array

    channel = csr_array(channel)
    channel.eliminate_zeros()
    count = channel.shape[1]
    own = channel.copy()
    own.data = own.data * np.log2(own.data)
    entropies, columns = np.asarray(own.sum(axis=0)), csr_array(channel.T)

    def divergences(share: FloatArray) -> FloatArray:
        """Return [z]: D_z under a distribution."""
        chance = np.asarray(channel @ share)
        return np.asarray(entropies - columns @ np.log2(np.maximum(chance, _TINY)))

    share = np.full(count, 1.0 / count)
    gained = divergences(share)
    low, high, step = float(share @ gained), float(gained.max()), 1.0
    for _ in range(_MOST_ROUNDS):
        if high - low <= _TOLERANCE or stop.requested:
            break
        moved = np.maximum(share * np.exp2(step * (gained - gained.max())), _LEAST_SHARE)
        moved /= moved.sum()
        ahead = divergences(moved)
        if float(moved @ ahead) < low and step > 1.0:
            step = max(1.0, 0.25 * step)
            continue
        share, gained, step = moved, ahead, 2.0 * step
        low, high = max(low, float(share @ gained)), min(high, float(gained.max()))
    return Amount.between(max(0.0, low - _ROUNDING), max(0.0, high) + _ROUNDING), share


def _sum_of_largest(channel: Any) -> float:
    """Return the sum over y of max over z of P(y | z); channel: sparse [y, z]."""
    return float(channel.max(axis=1).sum())
