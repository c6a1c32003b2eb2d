"""Make the page of a measurement: figures, and the observations that tell most and least.

Comes in: a `Measurement`. Goes out: a `Page`, and the rows and sequences that other pages show as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from opaq.opacity.amount import Amount
from opaq.opacity.figures import Figure
from opaq.opacity.leakage import GuessLeakage
from opaq.opacity.measure import Measurement, RequirementResult
from opaq.opacity.sequences import ObservedSequence
from opaq.reports.layout import WIDTH, Facts, Lines, Page, Part, TextTable, list_shares, rank_shares, wrap_lines
from opaq.reports.numbers import NOISE, amount_words, number, with_unit
from opaq.reports.text.names import Changes, ShortNames
from opaq.reports.text.sentences import answer_sentence

_SHOWN_VALUES = 6  # the likeliest secret values listed beside a sequence
_LEAST = 1e-300  # probabilities below are near the end of what floats hold
_SHOWN_RUNS = 12  # observations shown at each end of a long sequence


def measurement_page(measurement: Measurement, *, width: int = WIDTH) -> Page:
    """Return the page of a measurement: figures of the policy, and telling observations.

    width: columns, for the lines of long sequences.
    """
    facts: tuple[Part, ...] = (Facts(measurement_rows(measurement)), *figure_tables(measurement.figures))
    title = f"Measurement of {measurement.problem}" if measurement.problem else "Measurement"
    return Page(answer_sentence(measurement), (*facts, *sequence_parts(measurement, width=width)), title)


def measurement_rows(measurement: Measurement) -> tuple[tuple[str, str], ...]:
    """Return the figures as pairs of a label and words; thresholds that are missed say so in capitals."""
    error, fano = amount_words(measurement.guess_error), number(measurement.fano_bound)
    blind = f"{number(measurement.secret_guess_error)} without observing"
    entropy = with_unit(number(measurement.secret_entropy), "bits")
    hidden = "" if measurement.constant_secret is None else ": there is nothing to hide"
    return (
        ("opacity", f"{with_unit(amount_words(measurement.opacity), 'bits')}   H(secret | observations)"),
        ("of at most", f"{entropy}   H(secret), the uncertainty before observing{hidden}"),
        *_moment_rows(measurement),
        ("leakage", with_unit(amount_words(measurement.leakage), "bits")),
        (
            "guess error",
            f"{error}, {blind}   (Fano: at least {fano})",
        ),
        ("best guess", _guess_words(measurement.vulnerability)),
        ("min-entropy", f"{with_unit(amount_words(measurement.min_entropy_leakage), 'bits')} of min-entropy leakage"),
        *_guesswork_rows(measurement),
        *(
            (
                measurement.of.title,
                f"{amount_words(amount)}, {number(measurement.secret_uncertainty)} without observing",
            )
            for amount in _further(measurement).values()
        ),
        *_leakage_rows(measurement),
        *((requirement.name, _requirement(requirement)) for requirement in measurement.requirements),
        ("how", measurement.explanation),
        *_limit_rows(measurement),
    )


def figure_tables(figures: Sequence[Figure]) -> tuple[TextTable, ...]:
    """Return a table of what every observer is left with of every secret; none where there is one of each."""
    if len(figures) <= 1 and not any(figure.cross_entropy for figure in figures):
        return ()
    assuming = any(figure.cross_entropy is not None for figure in figures)
    head = ["secret", "observer", "opacity in bits", "of at most", "guess error"]
    head += ["cross-entropy", "impossible"] if assuming else []
    rows = [
        (
            figure.of,
            figure.for_,
            str(figure.opacity),
            number(figure.secret_entropy),
            str(figure.guess_error),
            *(_assumed_cells(figure) if assuming else ()),
        )
        for figure in figures
    ]
    notes = ("cross-entropy, guess error and what was impossible are those of an observer that assumes",)
    return (
        TextTable(
            tuple(head), tuple(rows), range(2, len(head)), "every secret and observer", notes if assuming else ()
        ),
    )


def _assumed_cells(figure: Figure) -> tuple[str, str]:
    """Return the cells of an observer that assumes; empty ones of others."""
    if figure.cross_entropy is None:
        return "", ""
    bits = "infinite" if math.isinf(figure.cross_entropy.value) else str(figure.cross_entropy)
    return bits, number(figure.impossible or 0.0)


def _moment_rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return rows on the moments of a run, where the figure is one of all of them."""
    rows = list[tuple[str, str]]()
    if measurement.opacity_per_step is not None:
        rows.append(("per step", with_unit(amount_words(measurement.opacity_per_step), "bits")))
    if measurement.moments:
        values = [amount.value for amount in measurement.moments]
        least, most = (f"{number(value)} at time {values.index(value)}" for value in (min(values), max(values)))
        rows.append(("moments", f"from {least} to {most}, in bits"))
    if measurement.steps_guessed is not None:
        rows.append(("steps right", f"{amount_words(measurement.steps_guessed)} of the steps of a run, each guessed"))
    rate = measurement.rate
    if rate is not None:
        hidden, known = (with_unit(amount_words(each), "bits") for each in (rate.opacity, rate.secret))
        told = amount_words(rate.leakage)
        rows.append(("rate", f"{hidden} per step of an endless run, of {known}; {told} are learnt"))
    return rows


def _guesswork_rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return the row on guesswork, where it is known."""
    if measurement.guesswork is None or measurement.secret_guesswork is None:
        return []
    guesses, before = with_unit(amount_words(measurement.guesswork), "guesses"), number(measurement.secret_guesswork)
    return [("guesswork", f"{guesses} until right, {before} without observing")]


def _guess_words(leakage: GuessLeakage) -> str:
    """Return how likely the best guess is right, and what observing adds."""
    factor = f", multiplicative {amount_words(leakage.multiplicative)}" if leakage.multiplicative is not None else ""
    right = f"right with probability {amount_words(leakage.posterior)}, {number(leakage.prior)} without observing"
    return f"{right}   (vulnerability; additive leakage {amount_words(leakage.additive)}{factor})"


def _leakage_rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return rows on the leakage of a loss that the task is about, and on the capacity, where there are any."""
    rows, leakage, most = list[tuple[str, str]](), measurement.g_leakage, measurement.capacity
    if leakage is not None:
        factor = leakage.multiplicative
        times = "" if factor is None else f", the loss divided by {amount_words(factor)} (multiplicative)"
        if factor is not None and leakage.prior < 0.0:
            times = f", the gain times {amount_words(factor)} (multiplicative)"
        rows.append(("g-leakage", f"{amount_words(leakage.additive)} (additive){times}"))
    if most is not None:
        shares = list_shares(rank_shares(most.prior, least=NOISE), str, "{:.3g}".format, most=_SHOWN_VALUES)
        bits = with_unit(amount_words(most.bits), "bits")
        rows.append(("capacity", f"{bits}, the most leakage over all priors, at {shares}"))
        rows.append(("min-capacity", f"{with_unit(amount_words(most.min_entropy), 'bits')} of min-entropy leakage"))
    return rows


def _limit_rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return a row on what would make the answer exact, where it is not; else none."""
    limit = measurement.exactness_limit
    if limit is None or measurement.uncertainty.method == "exact":
        return []
    words = limit.advice
    if limit.expected_nodes is not None and limit.expected_seconds is not None:
        beliefs, seconds = f"{limit.expected_nodes:.2g}", max(1.0, limit.expected_seconds)
        whole = f"some {float(beliefs):,.0f} beliefs and {float(f'{seconds:.1g}'):,.0f} s"
        words += f"; the whole graph takes {whole} if its levels grow on as the last ones did"
    return [("to be exact", words)]


def _further(measurement: Measurement) -> dict[str, Amount]:
    """Return the task's own uncertainty by name, unless it is one of those that are always measured."""
    name = measurement.of.name
    return {} if name in ("opacity", "guess_error", "guesswork") else {name: measurement.uncertainty}


def _requirement(met: RequirementResult) -> str:
    """Return the value of a requirement, and whether it meets its threshold."""
    if met.threshold is None:
        return f"{number(met.value)}   (no threshold)"
    asked = "at most " if met.direction == "at_most" else ""
    verdict = f"{'meets' if met.feasible else 'MISSES'} the threshold {asked}{met.threshold:.6g}"
    if math.isinf(met.value):
        return f"infinite   ({verdict})"
    return f"{number(met.value, beside=met.threshold)}   ({verdict})"


def sequence_parts(measurement: Measurement, *, width: int) -> tuple[Lines, ...]:
    """Return the most revealing and the most confusing observations, and a legend of the short names in them.

    width: columns to wrap to. Groups without a sequence are left out.
    """
    groups = [
        ("most revealing observations", "leakage", measurement.revealing),
        ("most confusing observations", "opacity", measurement.confusing),
    ]
    return sequence_lines(groups, width=width)


def sequence_lines(groups: Sequence[tuple[str, str, Sequence[ObservedSequence]]], *, width: int) -> tuple[Lines, ...]:
    """Return groups of sequences, and a legend of the short names in them.

    groups: (title, what the bits are a part of, sequences); those without a sequence are left out.
    width: columns to wrap to.
    """
    everything = [sequence for *_, sequences in groups for sequence in sequences]
    names = [name for sequence in everything for name in sequence.observations]
    observations = Changes.of(names) or ShortNames.of(names)
    ranked = [rank_shares(sequence.posterior, least=NOISE)[:_SHOWN_VALUES] for sequence in everything]
    secrets = ShortNames.of(name for shares in ranked for name, _ in shares)
    parts = []
    for title, share_of, sequences in groups:
        title += " of those looked at" if any(each.probability is None for each in sequences) else ""
        lines = [line for each in sequences for line in _sequence(each, share_of, observations, secrets, width)]
        parts += [Lines(tuple(lines), title)] if lines else []
    for kind, legend in {"observations": observations, "secret values": secrets}.items():
        _, *notes = legend.notes(kind, width=width) or [""]
        parts += [Lines(tuple(notes))] if notes else []
    return tuple(parts)


def _sequence(
    sequence: ObservedSequence, share_of: str, observations: ShortNames | Changes, secrets: ShortNames, width: int
) -> list[str]:
    """Return one sequence as lines: the observations, then their probability, bits and posterior.

    share_of: what the bits are a part of, "leakage" or "opacity". observations, secrets: the short names.
    """
    seen = _count_repetitions(sequence.observations, observations) + ("" if sequence.complete else " -> ...")
    weight = _probability(sequence)
    if sequence.probability is not None or sequence.likeliest >= _LEAST:
        weight += f"; {with_unit(number(sequence.bits, 3), 'bits')} of {share_of}"
    ranked = rank_shares(sequence.posterior, least=NOISE)
    posterior = list_shares(ranked, secrets.__getitem__, "{:.3g}".format, most=_SHOWN_VALUES)
    return [
        *wrap_lines(seen, first="  ", rest="    ", width=width),
        *wrap_lines(f"{weight}; secret: {posterior}", first="      ", rest="      ", width=width),
    ]


def _probability(sequence: ObservedSequence) -> str:
    """Return the probability of a sequence and, where known, of all that leave the observer with the same belief."""
    alone = f"probability {sequence.likeliest:.3g}" if sequence.likeliest >= _LEAST else f"probability below {_LEAST}"
    if sequence.probability is None:
        return alone
    together = f"{sequence.probability:.3g}"
    if sequence.num_sequences is None:
        if sequence.probability <= sequence.likeliest * (1 + 1e-9):
            return alone
        return f"{alone} ({together} with all that leave the same belief)"
    others = sequence.num_sequences - 1
    if others == 0:
        return alone
    leave = "1 other that leaves" if others == 1 else f"{others:,} others that leave"
    return f"{alone} ({together} with {leave} the same belief)"


def _count_repetitions(observations: Sequence[str], names: ShortNames | Changes) -> str:
    """Return the sequence in its order, repetitions counted, the middle of a long one left out.

    names: the short names, or the changes from one observation to the next.
    """
    runs = _runs(observations)
    if len(runs) <= 2 * _SHOWN_RUNS:
        return _chain(runs, names)
    left_out = sum(count for _, count in runs[_SHOWN_RUNS:-_SHOWN_RUNS])
    ends = _chain(runs[:_SHOWN_RUNS], names), _chain(runs[-_SHOWN_RUNS:], names)
    return f" -> ... ({left_out:,} more) ... -> ".join(ends)


def _chain(runs: Sequence[tuple[str, int]], names: ShortNames | Changes) -> str:
    """Return observations joined by arrows; runs: pairs of an observation and how often it is repeated."""
    distinct = [name for name, _ in runs]
    words = names.words(distinct) if isinstance(names, Changes) else [names[name] for name in distinct]
    counts = [count for _, count in runs]
    return " -> ".join(
        word if count == 1 else f"{word} ({count:,} times)" for word, count in zip(words, counts, strict=True)
    )


def _runs(observations: Sequence[str]) -> list[tuple[str, int]]:
    """Return every observation with how often it is repeated in a row."""
    return [(name, len(list(same))) for name, same in groupby(observations)]
