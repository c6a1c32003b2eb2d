"""The search for a bound over several observation machines: the best bound so far never gets worse.

On each machine mirror ascent (`ascent`) runs for some time, first for policies that see the observations, whose bound
holds for all; then, with penalties, for those that do not. Every search begins where the last one ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from opaq.beliefs.returns import start_distribution
from opaq.certificates.decoder.ascent import Ascent, Penalties, Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.delay import MOST_WINDOWS
from opaq.certificates.decoder.layers import Layers, TooLargeError, build_layers
from opaq.certificates.decoder.machines import ObservationMachine, ObservationTree, ObservationWindow
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.codec import if_known, infinity, key, unless
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import Uncertainty
from opaq.stop import Deadline, Stop
from opaq.threads import available_cores

_MIXED_IN = 0.2  # of the uniform policy, when a search starts from what another one came to
_MIXED_IN_LATE = 0.05  # the same, of an agent that sees the observations late
_NOTHING = 1e-6  # of the bound: less is not worth a round
_AGREEMENT = 1e-9  # between bounds and measurements
_ROUNDING = 1e-12  # of the uncertainty of a prior, far above what its sums lose
_PATIENCE = 2.0  # seconds between reports
_BYTES_A_WINDOW = 1_000  # the tables of late agents
_HOPE = 1.5  # times the memory that layers may be expected to take, and are still tried
_FEWEST_ROUNDS = 3
_ENOUGH_ROUNDS = 400  # before penalties are worth trying
_FIRST_SHARE = 0.4  # of a machine's time for agents that see the observations, where the others are bounded after them


@dataclass(frozen=True, slots=True)
class BoundStep:
    """What one machine gave, or has given so far.

    machine: the observation machine, by name.
    entries: its size: pairs of a product state and a node of the machine.
    rounds: how many rounds the ascent has made.
    upper: the best upper bound so far, this machine's or an earlier one's; left out where the task minimises.
    sees_observations: whether policies that see the observations are bounded too.
    seconds: the time that the machine took.
    lower: the best lower bound so far, of a task that minimises; left out elsewhere.
    """

    machine: str
    entries: int = field(metadata=key("num_entries"))
    rounds: int = field(metadata=key("num_rounds"))
    upper: float | None = field(metadata={**infinity(math.inf, "upper_bound"), **unless("lower_bound")})
    sees_observations: bool
    seconds: float
    lower: float | None = field(default=None, metadata=key("lower_bound", **if_known()))

    @property
    def bound(self) -> float:
        """The best bound so far: the upper one or, where the task minimises, the lower one."""
        return self.lower if self.lower is not None else math.inf if self.upper is None else self.upper


@dataclass(slots=True, eq=False)
class BoundSearch:
    """The best bounds so far and where searches start.

    achieved: f of a known policy, or -inf; wanted: the gap between bound and achieved that is good enough.
    aware: whether policies that see the observations are to be bounded.
    """

    decisions: Decisions
    uncertainty: Uncertainty  # over the secret's values
    scales: FloatArray  # [requirement]: how far payoffs can move
    aware: bool
    achieved: float
    wanted: float
    memory: int
    stop: Stop
    on_rung: Callable[[BoundStep], None]
    best: Proof
    aware_bound: float
    known: float = -math.inf  # what a measured policy that meets the task reaches: no proof can be below
    workers: int = field(default_factory=available_cores)  # the most threads
    machine: str = "number of secret values"
    reached: float = -math.inf  # what the last search's own policy came to on its machine: no bound is below
    rungs: list[BoundStep] = field(default_factory=list)
    _used: FloatArray | None = None  # [time, choice of a product state], of the last search
    newest: Ascent | None = None  # the one that was begun last
    _best_ascent: Ascent | None = None  # the one that gave the best bound
    _late: Decisions | None = None  # of an agent that sees the observations with a delay
    _needed: dict[tuple[str, int], float] = field(default_factory=dict)  # [machine, delay]: bytes, where it did not fit
    _clock: Deadline = field(default_factory=Deadline)  # of the whole search, without a limit
    _reported: Deadline | None = None  # since the last report

    @property
    def bound(self) -> float:
        """Return the best bound so far for the policies that are to be bounded."""
        return self.aware_bound if self.aware else self.best.bound

    def take(self, proof: Proof, machine: str) -> None:
        """Keep a bound for policies that do not see the observations, proven by other means, if it is lower."""
        if proof.bound < self.best.bound and not self._contradicts(proof):
            self.best, self.machine = proof, machine

    def _contradicts(self, proof: Proof) -> bool:
        """Return whether a policy that was measured refutes a bound: then it was lost to rounding, and is no bound."""
        return not proof.bound >= self.known - _AGREEMENT

    def note(self, rung: BoundStep) -> None:
        """Add a step that is complete to the list, and report it."""
        self.rungs.append(rung)
        self.on_rung(rung)

    @property
    def done(self) -> bool:
        """Return whether the gap is small enough, or no policy meets the task."""
        return self.best.bound - self.achieved <= self.wanted or self.infeasible

    @property
    def infeasible(self) -> bool:
        """Return whether the bound is below anything possible: then no policy meets the thresholds."""
        return self.best.bound < float(self.uncertainty.certain.min())

    def climb(
        self,
        machine: ObservationMachine,
        *,
        deadline: Deadline,
        tolerance: float,
        memory: int | None = None,
        delay: int = 0,
    ) -> bool:
        """Search on one machine until its deadline, or until bound and policy differ by less than the tolerance.

        memory: bytes that the machine's layers may take, at most those of the whole search.
        delay: after how many steps the agent sees an observation; with one, only policies that do not see the
            observations are bounded, and no penalties are needed.
        Returns False when the machine does not fit the memory, or is not expected to: with less it did not by far.
        Raises StoppedError when the stop is requested.
        """
        most, question = min(memory or self.memory, self.memory), (machine.name, delay)
        horizon = self.decisions.process.horizon
        unseen = isinstance(machine, ObservationTree) and delay >= max(horizon, 1)  # the last action hides nothing
        if self._needed.get(question, 0.0) > _HOPE * most:
            return False
        try:
            decisions = self._decide_late(delay, most, unseen=unseen)
            if unseen:  # what is read are kinds of emission, and words are told apart for certain, not by a hash
                machine = ObservationWindow(horizon + 1, decisions.process.num_observations)
            layers = build_layers(decisions, machine, memory=most, stop=self.stop)
        except TooLargeError as error:
            self._needed[question] = error.needed
            return False
        except BudgetError:
            return False
        penalties = Penalties.of(decisions) if delay == 0 and not self.aware else None
        both = penalties is not None and penalties.matter
        sweeper = Sweeper.of(decisions, layers, self.stop, workers=self.workers)
        if self._used is not None:
            sweeper.follow(self._used, uniform_share=_MIXED_IN if delay == 0 else _MIXED_IN_LATE)
        first = deadline
        if both and deadline.seconds is not None:
            first = deadline.limited_to(_FIRST_SHARE * deadline.seconds)
        self._search(sweeper, None, first, tolerance, last=deadline)
        if both and not self.done:
            sweeper.soften(_MIXED_IN)
            self._search(sweeper, penalties, deadline, tolerance, last=deadline)
        return True

    def _decide_late(self, delay: int, memory: int, *, unseen: bool) -> Decisions:
        """Return the decisions of an agent that sees the observations with a delay, or never; the last ones are kept.

        Raises BudgetError when there are more windows than suit the memory (in bytes).
        """
        if delay == 0:
            return self.decisions
        process, forever = self.decisions.process, bool(self.decisions.tails.any())
        if unseen:
            return Decisions.of(process, unseen=True, forever=forever, stop=self.stop)
        if self._late is None or self._late.windows.delay != delay:
            most = min(memory // _BYTES_A_WINDOW, MOST_WINDOWS)
            self._late = Decisions.of(process, delay=delay, most_windows=most, forever=forever, stop=self.stop)
        return self._late

    def _search(
        self, sweeper: Sweeper, penalties: Penalties | None, deadline: Deadline, tolerance: float, *, last: Deadline
    ) -> None:
        """Begin an ascent on one machine and make rounds until the deadline; if there were few, until the last one.

        penalties: for policies that do not see the observations; without them, and without a delay, all are bounded.
        tolerance: the search ends where bound and policy differ by less. last: the deadline of the machine.
        """
        ascent = Ascent.of(
            sweeper, self.uncertainty, multipliers=self.best.multipliers, scales=self.scales, penalties=penalties
        )
        self.newest = ascent
        self._ascend(ascent, deadline, tolerance, last=last)

    def resume(self, *, deadline: Deadline, tolerance: float) -> None:
        """Go on with the ascent that was begun last, or with that of the lowest bound where it has no more to give."""
        ascent = self._open(tolerance)
        if ascent is not None:
            self._ascend(ascent, deadline, tolerance, last=deadline)

    def settled(self, tolerance: float) -> bool:
        """Return whether more rounds would lower the bound by no more than the tolerance, whatever ascent goes on."""
        return self._open(tolerance) is None

    def _open(self, tolerance: float) -> Ascent | None:
        """Return an ascent whose bound can get lower than the best one by more than the tolerance, about."""
        for ascent in (self.newest, self._best_ascent):
            if ascent is not None and self.best.bound - ascent.reached > max(tolerance, _NOTHING):
                return ascent
        return None

    def _ascend(self, ascent: Ascent, deadline: Deadline, tolerance: float, *, last: Deadline) -> None:
        """Make rounds until the deadline, or until bound and policy differ by less than the tolerance.

        However it ends, the average use of actions is kept for the next machine to begin from.
        """
        sweeper = ascent.sweeper
        layers, aware = sweeper.layers, ascent.penalties is None and not sweeper.decisions.windows.late
        self.reached = -math.inf
        first = ascent.rounds
        try:
            while True:
                made = ascent.rounds - first
                few = made < _FEWEST_ROUNDS or (ascent.rounds < _ENOUGH_ROUNDS and not last.passed)
                if deadline.passed and not few:
                    break
                self._take(ascent.round(), layers, aware=aware)
                self.reached = max(self.reached, ascent.reached)
                self._report(ascent, layers, aware)
                if self.done or self.best.bound - self.reached <= tolerance:
                    break
        finally:
            if self._best_ascent is None or ascent.least <= self._best_ascent.least:
                self._best_ascent = ascent
            self._used = sweeper.used_by_state(ascent.average.used)
            self.rungs.append(self._rung(ascent, layers, aware))
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
        """Report the search so far, where the last report is more than two seconds old."""
        if self._reported is None or self._reported.elapsed > _PATIENCE:
            self._reported = Deadline()
            self.on_rung(self._rung(ascent, layers, aware))

    def _rung(self, ascent: Ascent, layers: Layers, aware: bool) -> BoundStep:
        """Return the state of the search on one machine as a step of the certificate."""
        seconds = self._clock.elapsed
        return BoundStep(layers.machine, layers.num_entries, ascent.rounds, self.bound, aware, seconds)


def first_proof(decisions: Decisions, uncertainty: Uncertainty) -> Proof:
    """Return the bound that needs no search, with multipliers 0: `Uncertainty.trivial_bound`, log2 |Z| for opacity.

    A secret that is settled by the first state has the same prior under every policy, and its uncertainty before
    anything is seen bounds that after it: H(Z | Y) <= H(Z).
    """
    bound, process = uncertainty.trivial_bound, decisions.process
    start = start_distribution(process)
    first = np.flatnonzero(start)
    if (process.settled[first] >= 0).all():
        prior = np.bincount(process.settled[first], weights=start[first], minlength=process.num_secrets).astype(
            np.float64
        )
        bound = min(bound, uncertainty.prior_limit(prior) + _ROUNDING * abs(uncertainty.highest))
    return Proof(bound, np.zeros(len(decisions.names)))
