"""Collect the data of a report: one object of plain values that the page shows (docs/answers.md).

Comes in: a compiled problem, a policy, its measurement and further answers. Goes out: what JSON can hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.codec import encode
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import entropy
from opaq.opacity.measure import Measurement
from opaq.opacity.over_time import Confidences, OpacityOverTime, knowledge_over_time
from opaq.opacity.sequences import ObservedSequence
from opaq.product.compile import Product
from opaq.reports.answers import GivenAnswers
from opaq.reports.grid import GridView, PolicyView, Shares
from opaq.reports.limits import LIMITS, ReportLimits
from opaq.reports.model_picture import model_to_dict
from opaq.reports.text.sentences import answer_sentence, question_sentence
from opaq.simulation.replay import BeliefTrace, draw_conditional_runs, reconstruct_runs, trace_beliefs
from opaq.simulation.runs import Run, simulate_product
from opaq.spec.policy_table import policy_to_dict
from opaq.stop import Stop
from opaq.version import __version__

_CELLS_AT_ONCE = 20_000_000  # of beliefs
_DRAWN = "the observations are given; states and actions are one run drawn from all that show them"


@dataclass(frozen=True, slots=True)
class _AnnotatedRun:
    """A run and the words and figures that the page shows with it.

    kind: "sampled", "revealing" or "confusing". title, note: words above and below it.
    probability: that of its observations; None for a sampled run. bits: their leakage or opacity; None likewise.
    """

    run: Run
    kind: str
    title: str
    note: str
    probability: float | None = None
    bits: float | None = None


def _runs_of_report(
    product: Product,
    pi: FloatArray,
    measurement: Measurement,
    *,
    runs: int | None,
    rng: np.random.Generator,
    limits: ReportLimits = LIMITS,
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return the steps of every run, with the beliefs of the observer, and the title, secret and note of each run.

    product, pi: the compiled problem and the policy as a vector.
    measurement: gives the most revealing and most confusing observations, of which one run each is drawn.
    runs: how many are sampled; None leaves that to the limits.
    rng: draws all of them. limits: how many entries of beliefs are kept.
    """
    annotated = [*_sample_runs(product, pi, limits.num_runs(runs, product.process.horizon), rng)]
    annotated += _sequence_runs(product, pi, "revealing", measurement.revealing, rng)
    annotated += _sequence_runs(product, pi, "confusing", measurement.confusing, rng)
    annotated = [_shorten_run(one, limits.longest_run) for one in annotated]
    steps = sum(len(one.run.observations) for one in annotated)
    writer = _StepWriter(
        product,
        limits.states_per_step(steps),
        limits.secrets_per_step(steps, len(product.secret_values)),
    )
    shown = [one.run for one in annotated]
    guesses = reconstruct_runs(product, pi, shown)
    traces = zip(_traces(product, pi, shown), guesses, strict=True)
    replays = [writer.steps(trace, guess) for trace, guess in traces]
    return replays, [_info(one) for one in annotated]


def _traces(product: Product, pi: FloatArray, runs: Sequence[Run]) -> Iterator[BeliefTrace]:
    """Yield the beliefs along runs, filtered for as many runs at a time as memory allows."""
    longest = max(len(run.observations) for run in runs)
    at_once = max(1, _CELLS_AT_ONCE // (longest * max(len(product.secret_values), product.problem.mdp.num_states)))
    for first in range(0, len(runs), at_once):
        yield from trace_beliefs(product, pi, runs[first : first + at_once])


def _sample_runs(product: Product, pi: FloatArray, count: int, rng: np.random.Generator) -> list[_AnnotatedRun]:
    """Return `count` runs drawn at random from those of the policy, numbered from 1."""
    return [
        _AnnotatedRun(run, "sampled", f"Sampled run {number}", "drawn at random from all runs of the policy")
        for number, run in enumerate(simulate_product(product, pi, count=count, rng=rng), start=1)
    ]


def _sequence_runs(
    product: Product, pi: FloatArray, kind: str, sequences: Sequence[ObservedSequence], rng: np.random.Generator
) -> list[_AnnotatedRun]:
    """Return one run for every observed sequence, its states and actions drawn given the observations.

    kind: "revealing" or "confusing", which titles name.
    """
    annotated = []
    for number, sequence in enumerate(sequences, start=1):
        (run,) = draw_conditional_runs(product, pi, sequence.observations, count=1, rng=rng)
        ends = "" if sequence.complete else "; whatever follows, the secret is out"
        title = f"Most {kind} observations" if number == 1 else f"Most {kind} observations, no. {number}"
        probability = sequence.likeliest if sequence.probability is None else sequence.probability
        annotated.append(_AnnotatedRun(run, kind, title, _DRAWN + ends, probability, sequence.bits))
    return annotated


def _shorten_run(annotated: _AnnotatedRun, longest: int) -> _AnnotatedRun:
    """Return the run as it is or, where it has more than `longest` steps, its beginning with a note that says so."""
    run, length = annotated.run, len(annotated.run.observations)
    if length <= longest:
        return annotated
    short = replace(
        run, states=run.states[:longest], actions=run.actions[:longest], observations=run.observations[:longest]
    )
    return replace(annotated, run=short, note=f"{annotated.note}; the first {longest:,} of {length:,} steps")


def _info(annotated: _AnnotatedRun) -> dict[str, Any]:
    """Return the kind, title, secret, probability, bits and note of a run, under the keys of the page."""
    return {
        "kind": annotated.kind,
        "title": annotated.title,
        "secret": annotated.run.secret,
        "probability": annotated.probability,
        "bits": annotated.bits,
        "note": annotated.note,
    }


@dataclass(frozen=True, slots=True)
class _StepWriter:
    """Writes runs with beliefs as plain data; of large beliefs the likeliest entries.

    most_states, most_secrets: entries that are kept of every belief; the rest is summed up.
    """

    product: Product
    most_states: int
    most_secrets: int

    def steps(self, trace: BeliefTrace, guesses: Sequence[str | None]) -> list[dict[str, Any]]:
        """Return every step of one run: time, state, action, observation, beliefs, and the entropy in bits.

        guesses: [time], of a trajectory: what the most likely run has at that time. It stands beside the true word.
        """
        run = trace.run
        return [
            {
                "time": time,
                "state": state,
                "action": self._action(action),
                "observation": seen,
                **self._belief(trace.secrets[time]),
                **self._states(trace.states[[time]]),
                "entropy": entropy(trace.secrets[time]),
                **self._guess(state, guesses[time]),
            }
            for time, (state, action, seen) in enumerate(zip(run.states, run.actions, run.observations, strict=True))
        ]

    def _action(self, name: str) -> str:
        """Return the model's action; with a free memory, rows choose pairs (action, next node)."""
        actions = self.product.problem.mdp.actions
        return actions[self.product.actions.index(name) * len(actions) // len(self.product.actions)]

    def _guess(self, state: str, guess: str | None) -> dict[str, Any]:
        """Return the true word of a moment and that of the most likely run; nothing where no trajectory is secret."""
        problem = self.product.problem
        if guess is None or not isinstance(problem.secret, Trajectory):
            return {}
        classes = problem.secret.classes
        return {"word": classes.names[classes.of_state[problem.mdp.state_index()[state]]], "guess": guess}

    def _belief(self, shares: FloatArray) -> dict[str, Any]:
        """Return the belief over secret values: all of them, or the likeliest and the probability of the rest."""
        names = self.product.secret_values
        if self.most_secrets >= len(names):
            return {"belief": dict(zip(names, shares.tolist(), strict=True))}
        order = np.argsort(-shares, kind="stable")[: self.most_secrets]
        kept = {names[value]: float(shares[value]) for value in order if shares[value] > 0}
        return {"belief": kept, "belief_rest": max(0.0, 1.0 - sum(kept.values()))}

    def _states(self, belief: Any) -> dict[str, Any]:
        """Return the belief over states, [state, probability] from the likeliest on, and the probability of the rest.

        belief: one sparse row over the model's states.
        """
        row = belief.tocoo()
        order = np.lexsort((row.col, -row.data))
        kept = [[int(row.col[entry]), float(row.data[entry])] for entry in order[: self.most_states]]
        rest = row.data[order[self.most_states :]].sum()
        return {"states": kept, "rest": float(rest)}


FORMAT, VERSION = "opaq-report", 1
_DIGITS = 4  # of a policy's probabilities
_BOUND = "upper bound"
_ALL_MOMENTS = "left out: the task is about all moments of a run, not about its end"
_NEGLIGIBLE = 5e-4  # actions below are left out of the policy


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """The inputs of a report: the compiled problem, the policy, its measurement, and further answers.

    problem_text: the content of the problem's file; empty where there is none.
    """

    product: Product
    pi: FloatArray
    policy: Policy | None  # None: the uniform policy
    measurement: Measurement
    answers: GivenAnswers
    problem_text: str


def report_data(
    inputs: ReportInputs,
    *,
    runs: int | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    limits: ReportLimits = LIMITS,
) -> dict[str, Any]:
    """Return the object that the page shows, made of what JSON can hold; its keys are a promise (docs/answers.md).

    inputs: the policy, its measurement and further answers.
    runs: how many sampled runs; None leaves that to the limits. seed: makes the runs repeatable.
    stop: ends the figures over time early, which are then left out.
    limits: how much of everything is kept.

    Raises InputError where the answers are about another problem or policy.
    """
    product, pi, measurement, answers = inputs.product, inputs.pi, inputs.measurement, inputs.answers
    answers.check(measurement)  # before the work
    view = PolicyView(product, pi)
    average = view.average()
    replays, info = _runs_of_report(
        product, pi, measurement, runs=runs, rng=np.random.default_rng([seed, 0]), limits=limits
    )
    over, confidences = knowledge_over_time(
        product.process, pi, measurement, rng=np.random.default_rng([seed, 1]), stop=stop or Stop()
    )
    data = {
        "format": FORMAT,
        "version": VERSION,
        "opaq": __version__,
        "kind": "problem",
        "title": measurement.problem or "problem",
        "problem": measurement.problem,
        "opacity": encode(measurement.opacity),
        "question": question_sentence(product.problem),
        "answer": "",  # this and the next three: `with_answers`
        "measurement": _measurement(measurement, limits),
        "solution": None,
        "certificate": None,
        "comparison": None,
        "model": model_to_dict(product, average, limits=limits),
        "policy": _policy(view, average, given=inputs.policy is not None, limits=limits),
        "runs": replays,
        "run_info": info,
        "over_time": None if over is None else _over_time(over, limits),
        "posteriors": None if confidences is None else _posteriors(confidences, measurement),
        "how": _how(measurement, over, confidences),
        **_texts(inputs, limits),
    }
    return with_answers(encode(data), measurement, answers, limits=limits)


def with_answers(
    data: Mapping[str, Any], measurement: Measurement, answers: GivenAnswers, *, limits: ReportLimits = LIMITS
) -> dict[str, Any]:
    """Return the data of a report that shows these answers beside the measurement.

    data: of a report; its own answers are replaced. measurement: that of the policy of the report.
    answers: the solution, certificate and comparison to show. limits: how long a trace may be.

    Raises InputError where the answers are about another problem or policy.
    """
    answers.check(measurement)
    answers, text = answers.agree()
    certificate = answers.certificate
    how = [row for row in data["how"] if row["number"] != _BOUND]
    if certificate is not None:
        how.append({"number": _BOUND, "text": f"{text}; holds for {certificate.scope}"})
    parts = {
        "answer": answer_sentence(measurement, certificate),
        "solution": answers.solution_data(most_steps=limits.trace_points),
        "certificate": answers.certificate_data(measurement, text),
        "comparison": answers.comparison_data(),
        "how": how,
    }
    return {**data, **parts}


def _measurement(measurement: Measurement, limits: ReportLimits) -> dict[str, Any]:
    """Return the measurement as `measure` prints it; posteriors of very many values are cut to the likeliest."""
    data = measurement.to_dict()
    for sequence in (*data["revealing"], *data["confusing"]):
        posterior = sequence["posterior"]
        if len(posterior) > limits.all_secrets:
            likely = sorted(posterior.items(), key=lambda item: -item[1])[: limits.all_secrets // 10]
            sequence["posterior"] = {name: share for name, share in likely if share > 0}
            sequence["posterior_rest"] = max(0.0, 1.0 - sum(sequence["posterior"].values()))
    return data


def _policy(view: PolicyView, average: Shares, *, given: bool, limits: ReportLimits) -> dict[str, Any]:
    """Return P(action | state) averaged and, where it changes and fits the limits, by time.

    Where the model is a grid, how often states are visited goes with both.
    given: False for the uniform policy that stands in where none was named.
    """
    entries, times = sum(map(len, average.values())), view.product.process.horizon + 1
    fits = entries * times <= limits.policy_entries
    by_time = [_shares(shares) for shares in view.by_time()] if fits and view.changes_with_time else None
    grid = GridView.of(view.product.problem) is not None
    return {
        "conditions_on": list(view.product.policy_class.conditions_on),
        "given": given,
        "average": _shares(average),
        "by_time": by_time,
        "by_time_left_out": view.changes_with_time and not fits,
        "occupation": _visits(view.occupation()) if grid else None,
        "occupation_by_time": list(map(_visits, view.occupation_by_time())) if grid and by_time is not None else None,
    }


def _shares(shares: Shares) -> list[list[Any]]:
    """Return [state, [[action, probability], ...]] by state; actions below 0.0005 are left out."""
    return [
        [state, [[action, round(p, _DIGITS)] for action, p in sorted(row.items()) if p >= _NEGLIGIBLE]]
        for state, row in sorted(shares.items())
    ]


def _visits(occupied: FloatArray) -> list[list[Any]]:
    """Return [state, expected number of visits] by state, where there are any; six digits."""
    return [[state, float(f"{occupied[state]:.6g}")] for state in np.flatnonzero(occupied).tolist()]


def _over_time(over: OpacityOverTime, limits: ReportLimits) -> dict[str, Any]:
    """Return opacity and guess error by time; of many times every so many are kept, the last one among them."""
    last = over.opacity.size - 1
    every = -(-over.opacity.size // limits.time_points)
    columns = (over.opacity.tolist(), over.lower.tolist(), over.upper.tolist(), over.guess_error.tolist())
    points = [
        {"time": time, "opacity": opacity, "lower": lower, "upper": upper, "guess_error": error}
        for time, (opacity, lower, upper, error) in enumerate(zip(*columns, strict=True))
        if (last - time) % every == 0
    ]
    return {"method": over.method, "explanation": over.explanation, "samples": over.samples, "points": points}


def _posteriors(confidences: Confidences, measurement: Measurement) -> dict[str, Any]:
    """Return how sure the observer is in the end, as bins of confidence, and how often its best guess is wrong.

    measurement: gives that share, its guess error, where the confidences or that error itself are exact.
    """
    edges = confidences.edges.tolist()
    columns = zip(edges, edges[1:], confidences.right.tolist(), confidences.wrong.tolist(), strict=False)
    known = "exact" in (confidences.method, measurement.guess_error.method)
    wrong = measurement.guess_error.value if known else float(confidences.wrong.sum())
    return {
        "method": confidences.method,
        "explanation": confidences.explanation,
        "samples": confidences.samples,
        "bins": [{"from": low, "to": high, "right": right, "wrong": wrong} for low, high, right, wrong in columns],
        "sure": confidences.sure,
        "unsure": confidences.unsure,
        "wrong": wrong,
        "wrong_method": "exact" if known else confidences.method,
    }


def _how(
    measurement: Measurement,
    over: OpacityOverTime | None,
    confidences: Confidences | None,
) -> list[dict[str, str]]:
    """Return how every number but the bound came about, in words; None stands for figures that were left out."""
    missing = "left out: the time was up, or the model is too large for it"
    at_end = missing if measurement.opacity_per_step is None and measurement.moments is None else _ALL_MOMENTS
    rows = [
        ("opacity", measurement.explanation),
        ("return", "exact, by a sweep over the model's states"),
        ("opacity over time", missing if over is None else over.explanation),
        ("final beliefs", at_end if confidences is None else confidences.explanation),
        ("runs", "beliefs by Bayes' rule from the policy, the model and what was observed so far"),
    ]
    return [{"number": number, "text": text} for number, text in rows]


def _texts(inputs: ReportInputs, limits: ReportLimits) -> dict[str, Any]:
    """Return the texts of problem and policy where they are short enough to be read; else None, and why."""
    length, problem, left_out = len(inputs.problem_text), inputs.problem_text or None, None
    if problem is None:
        left_out = "the problem was made in Python, and is too large for this page or cannot be written as a file"
    elif length > limits.problem_text:
        problem, left_out = None, f"its {length:,} characters are too many for this page"
    policy = None
    if inputs.policy is not None and len(inputs.policy.rows) <= limits.policy_text // 20:
        table = policy_to_dict(inputs.policy, problem=inputs.product.problem)
        policy = json.dumps(table, indent=1, ensure_ascii=False)
        policy = policy if len(policy) <= limits.policy_text else None
    return {"problem_text": problem, "problem_text_left_out": left_out, "policy_text": policy}
