"""Questions and answers as sentences."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

import opaq
from opaq.opacity.amount import Amount
from opaq.opacity.measure import with_opacity
from opaq.reports.notebook import notebook_html
from opaq.reports.page.cards import cards
from opaq.reports.text.certificate import certificate_sentence
from opaq.reports.text.comparison import comparison_sentence
from opaq.reports.text.measurement import measurement_rows
from opaq.reports.text.sentences import answer_sentence, question_sentence, secret_label


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("two-sink", "hide whether the run ends in “secret” from an observer who sees one of 3 observations"),
        ("graph", "how far the run brings an automaton of 4 states"),
        ("grid-initial-state", "hide where the run starts from"),
    ],
)
def test_the_question_names_the_secret_and_the_observer(name: str, secret: str) -> None:
    question = question_sentence(opaq.load_problem(name))
    assert secret in question
    assert question.endswith("?")
    assert "at each of" in question


def spec(**changes: object) -> opaq.Problem:
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["a", "b", "c"],
                "actions": ["go"],
                "start": {"a": 1},
                "transitions": {"a": {"go": {"b": 0.5, "c": 0.5}}, "b": {"go": "b"}, "c": {"go": "c"}},
                "labels": {"home\n<b>": ["b"], "x" * 100: ["c"]},
            },
            "observer": {"emissions": {"a": "o", "b": "o", "c": "p"}},
            "secret": {"visited": "home\n<b>"},
            "horizon": 2,
        }
        | changes
    )


def test_names_are_printable_and_short() -> None:
    question = question_sentence(spec(task={"reach": "x" * 100, "probability_at_least": 0.5}))
    assert "“home\\n<b>”" in question
    assert "x" * 41 not in question
    assert "must be reached with probability 0.5 or more" in question
    assert question.isprintable()


def test_the_question_tells_what_is_seen_of_actions() -> None:
    seen = {"a": "o", "b": "o", "c": "o"}
    assert "who sees the same observation at each of 3 times?" in question_sentence(spec(observer={"emissions": seen}))
    hears = {"emissions": seen, "actions": True}
    assert "at each of 3 times and a sign of every action?" in question_sentence(spec(observer=hears))
    assert "sees the same observation once?" in question_sentence(spec(observer=hears, horizon=0))


def test_rounding_errors_are_nothing() -> None:
    measured = opaq.measure(spec(secret={"last_state": "a"}))
    noise = replace(measured.opacity, value=1.5e-14, lower=0.0, upper=1e-13)
    told = answer_sentence(replace(measured, opacity=noise, secret_entropy=4.4e-14))
    assert told.startswith("There is nothing to hide")
    told = answer_sentence(replace(measured, opacity=noise, secret_entropy=1.0))
    assert told.startswith("This policy hides 0 of 1 bit")


def test_one_is_singular() -> None:
    measured = opaq.measure(spec(observer={"emissions": {"a": "o", "b": "o", "c": "o"}}))
    words = dict(measurement_rows(measured))
    assert words["opacity"].startswith("1 bit  ")
    assert words["of at most"].startswith("1 bit  ")


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({"last_state": ["b", "c"]}, "whether the run ends in one of 2 secret states"),
        ({"state_at": {"time": 1, "states": "home\n<b>"}}, "whether the run is at time 1 in “home\\n<b>”"),
        ({"steps_ago": {"steps": 1, "states": True}}, "where the run is 1 step before its end"),
        ({"visited": ["b", "c"]}, "whether the run ever visits one of 2 states"),
        ({"visited": "b"}, "whether the run ever visits “home\\n<b>”"),
        ({"regex": "true*", "reveal": "acceptance"}, "whether the run satisfies a formula"),
    ],
)
def test_every_kind_of_secret_has_words(secret: dict, words: str) -> None:
    assert f"hide {words} from" in question_sentence(spec(secret=secret))


def test_the_label_that_is_secret() -> None:
    grid = opaq.load_problem("grid-last-state-4")
    assert secret_label(grid.secret, grid.mdp) == "secret"
    graph = opaq.load_problem("graph")
    assert secret_label(graph.secret, graph.mdp) is None


def test_the_answer_says_bits_guesses_return_and_proof() -> None:
    solution = opaq.solve("two-sink", conditions="state,time", starts=2)
    certificate = opaq.certify("two-sink", solution.policy)
    plain = answer_sentence(solution.measurement)
    assert plain.startswith(
        "This policy hides 0.5515 of 0.9638 bits of the secret; the observer's best guess is wrong in 19.4% of"
    )
    assert "meets the threshold 0" in plain
    proven = answer_sentence(solution.measurement, certificate)
    assert "no policy that meets the task exceeds 0.5515 bits, so that this one is proven optimal to within" in proven
    assert proven == answer_sentence(solution.measurement, opaq.Certificate.from_dict(certificate.to_dict()))


UNSURE = {
    "exact": (opaq.Amount.exact(0.47), "this one is at most 53% below the bound"),
    "rounded up": (opaq.Amount.exact(0.9961), "this one is at most 0.4% below the bound"),
    "estimated": (opaq.Amount(0.9, 0.47, 1.0, "sampled", 0.01), "proven to reach 0.4700, at most 53% below the bound"),
    "an interval": (opaq.Amount.between(0.47, 0.99), "this one is proven to reach 0.4700, at most 53% below the bound"),
    "nothing for certain": (opaq.Amount(0.9, 0.0, 1.0, "sampled", 0.01), ""),
    "next to nothing": (opaq.Amount.between(0.001, 1.0), ""),
}


@pytest.mark.parametrize(("reached", "words"), UNSURE.values(), ids=UNSURE)
def test_how_far_below_the_bound_comes_from_one_stated_pair(reached: opaq.Amount, words: str) -> None:
    certificate = certified(reached, bound=1.0, trivial=1.5)
    for text in said_of(certificate):
        assert words in text
        assert "within" not in text
        assert words or "%" not in text.partition("exceed")[2]
        assert "trivial" not in text


def test_a_trivial_bound_is_called_so() -> None:
    certificate = certified(opaq.Amount.exact(0.47), bound=1.0, trivial=1.0)
    assert certificate.is_trivial
    for text in said_of(certificate):
        assert "the trivial bound: it holds even for an observer who sees nothing" in text
        assert "at most 53% below the bound" in text


def certified(reached: opaq.Amount, *, bound: float, trivial: float) -> opaq.Certificate:
    """A certificate of two-sink with other figures: what a policy reaches, and the bounds."""
    problem = opaq.load_problem("two-sink")
    certificate = opaq.certify(problem, opaq.solve(problem, starts=1).policy, time_limit=1.0)
    assert certificate.trivial_bound == pytest.approx(1.0)
    measurement = with_opacity(certificate.measurement, reached)
    return dataclasses.replace(certificate, measurement=measurement, upper_bound=bound, trivial_bound=trivial)


def said_of(certificate: opaq.Certificate) -> list[str]:
    """The same certificate on a page of `certify`, in the sentence of a report, in a notebook and after `compare`."""
    comparison = opaq.compare("two-sink", classes=["state"], starts=1)
    (rung,) = comparison.rungs
    trivial = certificate.is_trivial
    rungs = (dataclasses.replace(rung, measurement=certificate.measurement),)
    bounded = dataclasses.replace(comparison, rungs=rungs, upper_bound=certificate.upper_bound, is_trivial=trivial)
    return [
        certificate_sentence(certificate),
        answer_sentence(certificate.measurement, certificate),
        notebook_html(certificate),
        comparison_sentence(bounded).replace("it is", "this one is"),
    ]


def test_the_answer_says_how_sure_it_is() -> None:
    measurement = opaq.measure("two-sink", mode="sampled", samples=100)
    assert "hides about 0." in answer_sentence(measurement)
    between = replace(measurement, opacity=opaq.Amount.between(0.25, 0.5))
    assert "hides between 0.25 and 0.5 of" in answer_sentence(between)
    known = replace(measurement, guess_error=opaq.Amount.exact(0.0))
    assert "best guess is always right" in answer_sentence(known)


def test_the_middle_of_an_interval_is_no_finding() -> None:
    measured = opaq.measure("two-sink")
    for error, words in {
        Amount.between(0.0, 0.538): "wrong in at most 53.8% of the runs",
        Amount.between(0.1, 0.538): "wrong in 10% to 53.8% of the runs",
        Amount.between(0.26901, 0.26902): "wrong in 26.9% of the runs",
        Amount.exact(0.269): "wrong in 26.9% of the runs",
        Amount.estimate(0.269, 0.0, 0.5, standard_error=0.004): "wrong in about 26.9% (± 0.4%) of the runs",
    }.items():
        assert words in answer_sentence(replace(measured, guess_error=error))


def test_the_figures_of_a_page_show_intervals_as_such() -> None:
    changes = {name: Amount.between(0.0, 0.5) for name in ("opacity", "guess_error", "leakage")}
    shown = {card.title: card for card in cards(replace(opaq.measure("two-sink"), **changes), None)}
    assert shown["Opacity"].value == shown["Leakage"].value == "0 to 0.500"
    assert shown["Guess error"].value == "0% to 50.0%"
    assert shown["Opacity"].gauge.filled == shown["Guess error"].gauge.filled == 0.0


def test_a_secret_that_is_known_is_no_answer() -> None:
    known = opaq.measure(spec(secret={"last_state": "a"}))
    assert answer_sentence(known) == "There is nothing to hide: the secret is “no” in every run of this policy."
    assert "there is nothing to hide" in dict(measurement_rows(known))["of at most"]
    told = known.to_dict()["warnings"]
    assert told == ["the secret is 'no' in every run of this policy: there is nothing to hide"]
    assert opaq.measure("two-sink").to_dict()["warnings"] == []
    nearly = replace(known, secret_distribution={"no": 1.0, "yes": 1e-16})
    assert "in all but 1e-16 of the runs of this policy" in answer_sentence(nearly)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("battery", "hide when the run is in “busy” from"),
        ("grid-trajectory", "hide where the run is at every time from"),
        ("disclosure", "hide whether the run ends in “east” from an observer “street”"),
    ],
)
def test_questions_name_whole_runs_single_states_and_observers(scenario: str, words: str) -> None:
    assert words in question_sentence(opaq.load_problem(scenario))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"secret": {"trajectory": True}}, "hide where the run is at every time from"),
        (
            {"secret": {"initial_state": True}, "task": {"when": "every"}},
            "hide at every moment, as if it were the last, where the run starts from",
        ),
        (
            {"secret": {"initial_state": True}, "task": {"when": "least"}},
            "hide at the worst moment, as if it were the last, where the run starts from",
        ),
    ],
)
def test_questions_about_all_moments(parts: dict[str, object], words: str) -> None:
    assert words in question_sentence(spec(**parts))


def test_answers_about_other_figures_say_which() -> None:
    measured = opaq.measure("believer", sequences=0)
    assert "; cross-entropy for rival " in answer_sentence(measured)
    assert "cross-entropy" not in answer_sentence(opaq.measure("disclosure", sequences=0))
