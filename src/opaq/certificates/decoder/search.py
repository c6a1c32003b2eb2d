"""From cheap to fine machines while time remains: the best bound so far never gets worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from opaq.certificates.decoder.ascent import Ascent, Penalties, Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.decoders import Decoder
from opaq.certificates.decoder.layers import Layers, build_layers
from opaq.certificates.decoder.machines import ObservationMachine
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.codec import infinity, key
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.stop import Stop

_MIXED_IN = 0.2  # of the uniform policy, when a search starts from what another one came to
_AGREEMENT = 1e-9  # between bounds and measurements
_PATIENCE = 2.0  # seconds between reports
_FEWEST_ROUNDS = 3
_ENOUGH_ROUNDS = 400  # before penalties are worth trying
_FIRST_SHARE = 0.4  # of a machine's time for agents that see the observations, where the others are bounded after them


@dataclass(frozen=True, slots=True)
class BoundStep:
    """What one machine gave, or has given so far.

    machine: the observation machine, by name.
    entries: its size: pairs of a product state and a node of the machine.
    rounds: how many rounds the ascent has made.
    bound: the best upper bound so far, this machine's or an earlier one's.
    sees_observations: whether policies that see the observations are bounded too.
    seconds: the time that the machine took.
    """

    machine: str
    entries: int = field(metadata=key("num_entries"))
    rounds: int = field(metadata=key("num_rounds"))
    bound: float = field(metadata=infinity(math.inf, "upper_bound"))
    sees_observations: bool
    seconds: float


OnRung = Callable[[BoundStep], None]


@dataclass(slots=True, eq=False)
class BoundSearch:
    """The best bounds so far and where searches start.

    achieved: f of a known policy, or -inf; wanted: the gap between bound and achieved that is good enough.
    aware: whether policies that see the observations are to be bounded.
    """

    decisions: Decisions
    decoder: Decoder
    scales: FloatArray  # [requirement]: how far payoffs can move
    aware: bool
    achieved: float
    wanted: float
    memory: int
    stop: Stop
    on_rung: OnRung
    best: Proof
    aware_bound: float
    known: float = -math.inf  # what a measured policy that meets the task reaches: no proof can be below
    machine: str = "number of secret values"
    reached: float = -math.inf  # what the last search's own policy came to on its machine: no bound is below
    rungs: list[BoundStep] = field(default_factory=list)
    _used: FloatArray | None = None
    _begun: float = field(default_factory=perf_counter)
    _told: float = 0.0

    @property
    def bound(self) -> float:
        """The best so far for the policies that are to be bounded."""
        return self.aware_bound if self.aware else self.best.bound

    def take(self, proof: Proof, machine: str) -> None:
        """A bound for policies that do not see the observations, found by other means."""
        if proof.bound < self.best.bound and not self._contradicts(proof):
            self.best, self.machine = proof, machine

    def _contradicts(self, proof: Proof) -> bool:
        """Whether a policy that was measured refutes a bound: then it was lost to rounding, and is no bound."""
        return not proof.bound >= self.known - _AGREEMENT

    def note(self, rung: BoundStep) -> None:
        """One more rung that is done."""
        self.rungs.append(rung)
        self.on_rung(rung)

    @property
    def done(self) -> bool:
        """Whether the gap is small enough, or no policy meets the task."""
        return self.best.bound - self.achieved <= self.wanted or self.infeasible

    @property
    def infeasible(self) -> bool:
        """Whether the bound is below anything possible: then no policy meets the thresholds."""
        return self.best.bound < float(self.decoder.certain(self.decisions.process.num_secrets).min())

    def climb(
        self, machine: ObservationMachine, *, seconds: float, tolerance: float, memory: int | None = None
    ) -> bool:
        """Search on one machine for some time, or until bound and policy differ by less than the tolerance.

        Returns False when the machine does not fit the memory. Raises StoppedError when the stop is requested.
        """
        begun = perf_counter()
        try:
            layers = build_layers(
                self.decisions, machine, memory=min(memory or self.memory, self.memory), stop=self.stop
            )
        except BudgetError:
            return False
        penalties = Penalties.of(self.decisions)
        both = not self.aware and penalties.matter
        sweeper = Sweeper.of(self.decisions, layers, self.stop)
        if self._used is not None:
            sweeper.follow(self._used, mixed=_MIXED_IN)
        share = _FIRST_SHARE if both else 1.0
        self._search(sweeper, None, begun + seconds * share, tolerance, last=begun + seconds)
        if both and not self.done:
            sweeper.soften(_MIXED_IN)
            self._search(sweeper, penalties, begun + seconds, tolerance, last=begun + seconds)
        return True

    def _search(
        self, sweeper: Sweeper, penalties: Penalties | None, deadline: float, tolerance: float, *, last: float
    ) -> None:
        """Rounds until the deadline; if there were few, until the last moment."""
        layers = sweeper.layers
        ascent = Ascent.of(
            sweeper, self.decoder, multipliers=self.best.multipliers, scales=self.scales, penalties=penalties
        )
        self.reached = -math.inf
        try:
            for proof in _rounds(ascent, deadline, last):
                self._take(proof, layers, aware=penalties is None)
                self.reached = max(self.reached, ascent.reached)
                self._report(ascent, layers, penalties is None)
                if self.done or self.best.bound - self.reached <= tolerance:
                    break
        finally:
            self._used = ascent.average.used
            self.rungs.append(self._rung(ascent, layers, penalties is None))
        self.on_rung(self.rungs[-1])

    def _take(self, proof: Proof, layers: Layers, *, aware: bool) -> None:
        """Keep a bound that is better than the best one."""
        if self._contradicts(proof):
            return
        if aware:
            self.aware_bound = min(self.aware_bound, proof.bound)
        if proof.bound < self.best.bound:
            self.best, self.machine = proof, layers.machine

    def _report(self, ascent: Ascent, layers: Layers, aware: bool) -> None:
        if perf_counter() - self._told > _PATIENCE:
            self._told = perf_counter()
            self.on_rung(self._rung(ascent, layers, aware))

    def _rung(self, ascent: Ascent, layers: Layers, aware: bool) -> BoundStep:
        took = perf_counter() - self._begun
        return BoundStep(layers.machine, layers.num_entries, ascent.rounds, self.bound, aware, took)


def _rounds(ascent: Ascent, deadline: float, last: float) -> Iterator[Proof]:
    """Rounds until the deadline; then more, up to enough, until the last moment; a few in any case."""
    while (
        ascent.rounds < _FEWEST_ROUNDS
        or perf_counter() < deadline
        or (ascent.rounds < _ENOUGH_ROUNDS and perf_counter() < last)
    ):
        yield ascent.round()


def first_proof(decisions: Decisions, decoder: Decoder) -> Proof:
    """What is certain without a search: f of a uniform secret."""
    process = decisions.process
    return Proof(decoder.most(process.num_secrets), np.zeros(len(decisions.names)))
