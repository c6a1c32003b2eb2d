"""Bounds on figures of all moments of a run: trajectories, every moment, the least one.

For any decoders r that read a machine's nodes m_t, and words W_t of the states,

    H(W_0 .. W_T | Y) <= E[-log2 r(W_T | m_T)] + sum over t < T of E[-log2 r(W_t | W_t+1, m_t)],
    sum over t of w_t H(Z_t | o_0 .. o_t) <= sum over t of w_t E[-log2 r(Z_t | m_t)],

since r defines a distribution of the words given y, whatever it is, and a cross-entropy is never below the entropy. The
right sides are sums of costs paid on the way, on transitions of the layers and on their entries, so that dynamic
programming finds the largest value over all policies, those that see the observations included: a proof for any r and
any multipliers. The least moment is at most every mixture of moments. The search for good ones is that of `ascent`:
accelerated mirror ascent, with the posteriors of the averages as decoders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.layers import Layer, Layers
from opaq.certificates.decoder.numbering import number_distinct, number_within
from opaq.certificates.rounding import slack
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.uncertainty import Cells, Uncertainty
from opaq.stop import Stop

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_DUAL_STEP = 2.0  # of the multipliers, for proximal steps of length 1
_EVERY = 8  # rounds between bounds of the average costs
_LEAST = 1e-100  # probabilities of actions do not fall below
_LEAST_SOFTNESS = 0.05  # of the weights of moments, in the unit of the figure


class _Step(NamedTuple):
    """One time of the layers, as sparse matrices; a link is (entry, next state), an option (entry, action)."""

    owner: IntArray  # [option] -> entry
    first: IntArray  # [entry]: its first option
    choice: IntArray  # [option] -> choice of the decisions
    onward: csr_array | None  # [option, link]: P(x' | x, a); None at the last time
    ahead: IntArray  # [link] -> (node, next state)
    emits: csr_array | None  # [(node, next state), entry of the next layer]: E(o | x')
    cell: IntArray  # [link] or [entry] -> cell
    cells: Cells
    on_links: bool


class _Flow(NamedTuple):
    """The effect of a policy: linear in the distribution of runs."""

    masses: tuple[FloatArray, ...]  # [time][cell]
    payoffs: FloatArray  # [requirement]

    def mix(self, other: _Flow, weight: float) -> _Flow:
        """Return (1 - weight) x this + weight x other."""
        masses = zip(self.masses, other.masses, strict=True)
        mixed = tuple(one + weight * (two - one) for one, two in masses)
        return _Flow(mixed, self.payoffs + weight * (other.payoffs - self.payoffs))


def _make_cells(group: IntArray, value: IntArray) -> tuple[IntArray, Cells]:
    """Return [case] -> cell, and the cells: the values that occur in every group. group, value: [case]."""
    cell, example = number_within(group, value)
    start = np.concatenate(([0], np.cumsum(np.bincount(group[example]))))
    return cell, Cells.of(start, value[example])


def _make_step(decisions: Decisions, layer: Layer, after: Layer | None, *, run: bool) -> _Step:
    """Lay out one time. after: the next layer; None at the last time. run: costs are for transitions between words."""
    from scipy.sparse import csr_array

    moves, words = decisions.moves, decisions.process.secret
    state = moves.pair_state[layer.pair].astype(np.int64)
    node = np.repeat(np.arange(layer.node_start.size - 1), np.diff(layer.node_start))
    owner, choice = expand_rows(moves.choice_start, state)
    first = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=state.size))[:-1]))
    if after is None:
        cell, cells = _make_cells(node, words[state])
        return _Step(owner, first, choice, None, np.zeros(0, np.int64), None, cell, cells, on_links=False)
    option, branch = expand_rows(moves.branch_start, choice)
    target, size = moves.branch_target[branch].astype(np.int64), decisions.process.num_states
    links, link = np.unique(owner[option] * size + target, return_inverse=True)
    entry, target = links // size, links % size
    next_node = np.repeat(np.arange(node.max(initial=0) + 1), np.diff(layer.next_start))
    followers = next_node * size + layer.next_state
    order = np.argsort(followers)
    ahead = order[np.searchsorted(followers, node[entry] * size + target, sorter=order)]
    onward = csr_array((moves.branch_chance[branch], (option, link.reshape(-1))), shape=(owner.size, links.size))
    index, pair = expand_rows(moves.pair_start, layer.next_state.astype(np.int64))
    shape = (layer.next_state.size, after.pair.size)
    emits = csr_array((moves.pair_chance[pair], (index, layer.child.astype(np.int64))), shape=shape)
    if run:
        group, _ = number_distinct(node[entry], words[target])
        cell, cells = _make_cells(group, words[state[entry]])
    else:
        cell, cells = _make_cells(node, words[state])
    return _Step(owner, first, choice, onward, ahead, emits, cell, cells, on_links=run)


@dataclass(slots=True, eq=False)
class MomentsAscent:
    """The state of a search on one machine."""

    decisions: Decisions
    layers: Layers
    uncertainty: Uncertainty
    weights: FloatArray  # [time]
    least: bool  # whether the least of the moments is bounded, not their weighted sum
    multipliers: FloatArray
    scales: FloatArray  # [requirement]: how far payoffs can move
    stop: Stop
    steps: list[_Step]
    root: FloatArray  # [entry at time 0]
    policy: list[FloatArray]  # [time][option]
    flow: _Flow
    average: _Flow
    rounds: int = 0
    mean: list[FloatArray] | None = None  # the average costs of all rounds
    mean_multipliers: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls,
        decisions: Decisions,
        layers: Layers,
        uncertainty: Uncertainty,
        *,
        weights: FloatArray,
        run: bool,
        least: bool,
        multipliers: FloatArray,
        scales: FloatArray,
        stop: Stop,
    ) -> MomentsAscent:
        """Begin at the uniform policy.

        uncertainty: over the words. weights: [time], all 1 for a run. run: whether all words together are the secret.
        """
        steps = []
        for layer, after in zip(layers.layers, (*layers.layers[1:], None), strict=True):
            stop.check()
            steps.append(_make_step(decisions, layer, after, run=run))
        moves = decisions.moves
        owner, pair = expand_rows(moves.pair_start, decisions.start_state)
        chance = decisions.start_chance[owner] * moves.pair_chance[pair]
        root = np.bincount(layers.root, weights=chance, minlength=layers.layers[0].pair.size).astype(np.float64)
        policy = [1.0 / np.bincount(step.owner)[step.owner] for step in steps]
        nothing = _Flow((), np.zeros(0))
        ascent = cls(
            decisions, layers, uncertainty, weights, least, multipliers, scales, stop, steps, root, policy, nothing,
            nothing,
        )  # fmt: skip
        ascent.flow = ascent.average = ascent.follow()
        return ascent

    def follow(self) -> _Flow:
        """Follow the policy forwards and return the masses of cells, and the payoffs."""
        decisions, mass, masses = self.decisions, self.root, list[FloatArray]()
        payoffs = np.zeros(len(decisions.names))
        for time, step in enumerate(self.steps):
            self.stop.check()
            used = mass[step.owner] * self.policy[time]
            payoffs += decisions.discounts**time * (decisions.rewards[:, step.choice] @ used)
            if step.onward is None or step.emits is None:
                payoffs += decisions.tails[:, step.choice] @ used
                state = decisions.moves.pair_state[self.layers.layers[time].pair]
                payoffs += decisions.finals[:, state] @ mass
            link = None if step.onward is None else step.onward.T @ used
            counted = link if step.on_links and link is not None else mass
            size = step.cells.secret.size
            masses.append(np.bincount(step.cell, weights=counted, minlength=size).astype(np.float64))
            if link is not None and step.emits is not None:
                mass = step.emits.T @ np.bincount(step.ahead, weights=link, minlength=step.emits.shape[0])
        return _Flow(tuple(masses), payoffs)

    def round(self) -> Proof:
        """Improve the policy once, and return the bound that the costs of this round prove.

        Raises StoppedError when the stop is requested meanwhile.
        """
        theta = 2.0 / (self.rounds + 2.0)
        middle = self.average.mix(self.flow, theta)
        weights = self._moment_weights(middle)
        costs = [
            weight * self._decoder_costs(masses, step.cells)
            for weight, masses, step in zip(weights, middle.masses, self.steps, strict=True)
        ]
        length = self.uncertainty.step(self.rounds) / max(1.0, float(weights.max()) if self.least else 1.0)
        proof = Proof(self._sweep(costs, self.multipliers, length / theta), self.multipliers)
        self._blend(costs)
        if self.rounds % _EVERY == _EVERY - 1 and self.mean is not None:
            averaged = Proof(self._sweep(self.mean, self.mean_multipliers), self.mean_multipliers)
            proof = min(proof, averaged, key=lambda one: one.bound)
        before, self.flow = self.flow, self.follow()
        self.average = self.average.mix(self.flow, theta)
        missing = self.decisions.thresholds - before.mix(self.flow, 2.0).payoffs
        moved = self.multipliers + _DUAL_STEP / length * theta * missing / self.scales**2
        self.multipliers = np.maximum(0.0, moved)
        self.rounds += 1
        return proof

    def _decoder_costs(self, masses: FloatArray, cells: Cells) -> FloatArray:
        """Return [cell] the costs of a decoder for these masses [cell], smoothed less from round to round."""
        return self.uncertainty.decoder_costs(masses, cells, self.uncertainty.smoothing(self.rounds, cells.num_groups))

    def _values(self, flow: _Flow) -> FloatArray:
        """Return [time] what the decoder leaves uncertain at every moment."""
        parts = zip(flow.masses, self.steps, strict=True)
        return np.array([self.uncertainty.total(masses, step.cells) for masses, step in parts])

    def _moment_weights(self, flow: _Flow) -> FloatArray:
        """Return [time] the weights of the moments: given ones or, of the least, more for moments of small values."""
        if not self.least:
            return self.weights
        values = self._values(flow)
        shares = np.exp((values.min() - values) / _LEAST_SOFTNESS)
        return np.asarray(shares / shares.sum())

    @property
    def reached(self) -> float:
        """Return what the average policy reaches on this machine; -inf while it misses a threshold."""
        spare = self.average.payoffs - self.decisions.thresholds
        if np.any(-spare > 0.01 * self.scales):
            return -math.inf
        values = self._values(self.average)
        missed = float(self.multipliers @ np.minimum(spare, 0.0))
        return missed + (float(values.min()) if self.least else float(self.weights @ values))

    def _blend(self, costs: list[FloatArray]) -> None:
        """Add costs and multipliers to their averages, in which later rounds weigh more: averages prove bounds too."""
        weight = 3.0 / (self.rounds + 3.0)
        if self.mean is None:
            self.mean, self.mean_multipliers = costs, self.multipliers
            return
        self.mean = [one + weight * (two - one) for one, two in zip(self.mean, costs, strict=True)]
        self.mean_multipliers = self.mean_multipliers + weight * (self.multipliers - self.mean_multipliers)

    def _sweep(self, costs: list[FloatArray], multipliers: FloatArray, length: float = 0.0) -> float:
        """Return the bound: the largest value of any policy with these costs [time][cell], rounded up.

        length: of a mirror step of the policy on the way, pi <- pi exp(length Q) / normaliser, as in `Sweeper.improve`;
            0 leaves it as it is.
        """
        decisions, soft, hard = self.decisions, np.zeros(0), np.zeros(0)
        for time in range(len(self.steps) - 1, -1, -1):
            self.stop.check()
            step, own = self.steps[time], costs[time][self.steps[time].cell]
            paid = decisions.paid(multipliers, time)[step.choice]
            wish = best = paid
            if step.onward is not None and step.emits is not None:
                on_way = own if step.on_links else np.zeros(step.ahead.size)
                best = paid + step.onward @ (on_way + (step.emits @ hard)[step.ahead])
                if length:
                    wish = paid + step.onward @ (on_way + (step.emits @ soft)[step.ahead])
            ended = 0.0 if step.on_links else own
            if step.onward is None:
                ended = own + decisions.final(multipliers)[decisions.moves.pair_state[self.layers.layers[time].pair]]
            hard = np.maximum.reduceat(best, step.first) + ended
            if length:
                highest = np.maximum.reduceat(wish, step.first)
                grown = self.policy[time] * np.exp(length * (wish - highest[step.owner]))
                total = np.add.reduceat(grown, step.first)
                self.policy[time] = np.maximum(grown / total[step.owner], _LEAST)
                soft = highest + np.log(total) / length + ended
        value = float(self.root @ hard) - float(multipliers @ decisions.thresholds)
        largest = np.array([sum(float(np.abs(one).max(initial=0.0)) for one in costs)])
        rounding = slack(decisions, largest, multipliers, None)
        return value + rounding * (1.0 + self.rounds / 100.0)  # averages of costs are rounded in every round


def unsettled(decisions: Decisions) -> Decisions:
    """Return the decisions with no secret settled: every moment counts, whatever follows."""
    process, none = decisions.process, np.full(decisions.process.num_states, -1)
    return replace(decisions, process=replace(process, settled=none, lasting=none))


def possible_bits(decisions: Decisions) -> float:
    """Return the bits of a trajectory that need no search: log2 of how many words each moment can have, added up."""
    process = decisions.process
    reached, total = decisions.start_state, 0.0
    for time in range(process.horizon + 1):
        if time:
            _, edge = expand_rows(process.edge_start, reached)
            reached = np.unique(process.edge_target[edge])
        total += math.log2(max(1, np.unique(process.secret[reached]).size))
    return total * (1.0 + 1e-12)
