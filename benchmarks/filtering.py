"""Plain filtering: the log-likelihood of observation sequences, against hmmlearn and dynamax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import opaq
from benchmarks.peers.hmm import Chain, dynamax_likelihood, hmmlearn_likelihood
from benchmarks.ring import ring
from benchmarks.rows import Comparison, Section, Settings, closeness, comparison_table
from benchmarks.timing import in_turns
from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.opacity.filtering import log_probabilities
from opaq.product.compile import Product, compile_problem
from opaq.simulation.runs import simulate_product

TITLE = "Plain filtering"
EXPLANATION = """
ln P(o_0 .. o_t) of sampled observation sequences under the uniform policy, by the filter behind `opaq.replay`
(compiled, sparse, scaled at every step; it takes names). Peers: *hmmlearn* (its `CategoricalHMM.score`, compiled C++)
and *dynamax* (`hmm_filter` under `jit` and `vmap`, all sequences at once); both take dense arrays. Building those
arrays and compiling are not timed. The engine does not use this filter: it follows all sequences at once, on a graph of
merged beliefs. Only possible sequences are compared: of an impossible one opaq says ln P = -inf,
hmmlearn raises an error and dynamax says 0.
"""
TOLERANCE = 1e-9  # relative


@dataclass(frozen=True, slots=True)
class Case:
    """Sequences of one model, as opaq and as the peers take them."""

    name: str
    product: Product
    chain: Chain
    named: tuple[tuple[str, ...], ...]  # [sequence][time]
    numbered: np.ndarray  # [sequence, time]

    @classmethod
    def of(cls, name: str, problem: opaq.Problem, *, sequences: int) -> Case:
        """Sampled under the uniform policy."""
        product = compile_problem(problem, opaq.PolicyClass(("state",)))
        process = product.process
        pi = process.uniform()
        runs = simulate_product(product, pi, count=sequences, rng=np.random.default_rng(0))
        number = {name: index for index, name in enumerate(product.observations)}
        dense = Chain(
            start_distribution(process),
            transition_matrix(process, process.flow(pi)).toarray(),
            process.emission.dense(),
        )
        numbered = np.array([[number[seen] for seen in run.observations] for run in runs])
        return cls(name, product, dense, tuple(run.observations for run in runs), numbered)

    def likelihood(self) -> np.ndarray:
        """ln P of every sequence by opaq."""
        return np.log(2) * log_probabilities(self.product, self.product.process.uniform(), self.named)


def cases(*, quick: bool) -> list[Case]:
    """Many short sequences, one long one, and a sparse model."""
    grid = opaq.load_problem("grid-last-state-4")
    many, long, cells = (20, 200, 100) if quick else (100, 2_000, 500)
    return [
        Case.of(f"grid, 34 states: {many} sequences of 12", grid, sequences=many),
        Case.of(f"grid, 34 states: 1 sequence of {long + 1:,}", replace(grid, horizon=long), sequences=1),
        Case.of(f"ring, {2 * cells:,} states: 5 sequences of 25", ring(cells=cells, horizon=24), sequences=5),
    ]


def run(settings: Settings) -> Section:
    """Check that the likelihoods agree, then time them in turns."""
    rows, skipped = [], set()
    for case in cases(quick=settings.quick):
        calls, reasons = peer_calls(case)
        skipped |= set(reasons)
        apart = {peer: difference(case, call) for peer, call in calls.items()}
        times = in_turns({"opaq": case.likelihood, **calls}, repeats=settings.repeats)
        rows += [
            Comparison(case.name, "filter", peer, times["opaq"], times[peer], closeness(apart[peer])) for peer in calls
        ]
    return Section(TITLE, EXPLANATION, (comparison_table(rows, settings),), tuple(rows), skipped=tuple(sorted(skipped)))


def peer_calls(case: Case) -> tuple[dict[str, Callable[[], np.ndarray]], list[str]]:
    """Every peer that can be used, and why others cannot."""
    calls, skipped = {}, []
    for name, make in (("hmmlearn", hmmlearn_likelihood), ("dynamax", dynamax_likelihood)):
        try:
            calls[name] = make(case.chain, case.numbered)
        except ValueError:  # the guard against impossible sequences
            raise
        except Exception as error:  # not installed, or it does not fit the version of JAX that is
            skipped.append(f"{name}: {type(error).__name__}: {error}".splitlines()[0])
    return calls, skipped


def difference(case: Case, call: Callable[[], np.ndarray]) -> float:
    """The largest relative difference from opaq's likelihoods. Raises if it is large."""
    ours = case.likelihood()
    apart = float(np.max(np.abs(call() / ours - 1.0)))
    if not apart <= TOLERANCE:
        raise AssertionError(f"{case.name}: log-likelihoods differ by {apart:.2g}")
    return apart
