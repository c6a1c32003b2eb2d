"""Pages for people: the right numbers beside the right names, within the width, harmless to a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

import opaq
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.measure import Measurement, RequirementResult, with_opacity
from opaq.opacity.sequences import ObservedSequence
from opaq.reports.layout import GLUE, Page, TextTable, list_shares, rank_shares, render_terminal, render_text
from opaq.reports.numbers import number
from opaq.reports.text.measurement import measurement_page
from opaq.reports.text.names import Changes, ShortNames, tell_apart
from opaq.reports.text.runs import runs_page
from opaq.reports.text.solution import search_rows, solution_page
from opaq.simulation.replay import replay
from trials import long

EVIL = "a\x1b[31m\n\u202eb"


def sequence(observations: tuple[str, ...], **changes: object) -> ObservedSequence:
    usual = ObservedSequence(observations, True, 0.0796, 0.0352, {"yes": 0.75, "no": 0.25}, 0.1, num_sequences=4)
    return replace(usual, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    return opaq.measure(opaq.load_problem("two-sink"))


def shown(measurement: Measurement, *sequences: ObservedSequence, width: int = 100) -> str:
    page = render_text(
        measurement_page(replace(measurement, revealing=(), confusing=sequences), width=width), width=width
    )
    return page.partition("most confusing observations\n")[2]


def test_the_sequence_and_its_group_have_each_their_probability(measurement: Measurement) -> None:
    cases = {
        4: "probability 0.0352 (0.0796 with 3 others that leave the same belief); 0.1 bits of opacity; ",
        2: "probability 0.0352 (0.0796 with 1 other that leaves the same belief); ",
        1: "probability 0.0352; 0.1 bits",
        None: "probability 0.0352 (0.0796 with all that leave the same belief); ",
    }
    for count, words in cases.items():
        assert words in shown(measurement, sequence(("A",), num_sequences=count), width=200)


def test_the_probability_of_a_group_that_is_not_known_is_left_out(measurement: Measurement) -> None:
    alone = sequence(("A",), probability=None, num_sequences=None)
    changed = replace(measurement, revealing=(), confusing=(alone,))
    page = render_text(measurement_page(changed, width=200), width=200)
    assert "most confusing observations of those looked at" in page
    assert "probability 0.0352; 0.1 bits of opacity; secret" in page
    assert changed.to_dict()["confusing"][0]["probability"] is None
    tiny = replace(measurement, revealing=(), confusing=(replace(alone, likeliest=0.0, bits=0.0),))
    assert "probability below 1e-300; secret" in render_text(measurement_page(tiny, width=200), width=200)


def test_both_are_in_the_json(measurement: Measurement) -> None:
    (told,) = replace(measurement, confusing=(sequence(("A",)),)).to_dict()["confusing"]
    assert (told["likeliest"], told["probability"], told["num_sequences"]) == (0.0352, 0.0796, 4)


def test_repetitions_cannot_be_read_as_names(measurement: Measurement) -> None:
    page = shown(measurement, sequence(("null", "null", "null", "x3"), complete=False))
    assert page.splitlines()[0] == "  null (3 times) -> x3 -> ..."


def test_the_middle_of_a_long_sequence_is_left_out(measurement: Measurement) -> None:
    names = tuple(f"o{count}" for count in range(100_000))
    page = shown(measurement, sequence(names))
    assert "o11 -> ... (99,976 more) ... -> o99988" in page.replace("\n    ", " ")
    assert len(page) < 1000


def variables(**values: int) -> str:
    """As an observation of a PRISM model is named: some 500 characters."""
    return ",".join(f"variable_{name}={values.get(name, 0)}" for name in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")


def test_of_many_variables_only_what_changes_is_shown(measurement: Measurement) -> None:
    first, second, third = variables(), variables(a=1), variables(a=1, b=2)
    assert len(first) > 450
    page = shown(measurement, sequence((first, second, second, third)))
    assert page.splitlines()[0] == ("  variable_a=0, variable_b=0 -> variable_a=1 (2 times) -> variable_b=2")
    assert "in all observations: variable_c=0, variable_d=0," in page
    assert max(map(len, page.splitlines())) <= 100


def test_long_names_without_variables_get_marks_and_a_legend(measurement: Measurement) -> None:
    names = tuple(f"{letter} {'very long ' * 12}name" for letter in "AB")
    page = shown(measurement, sequence((*names, names[0])))
    assert page.splitlines()[0] == "  [1] -> [2] -> [1]"
    assert "  [1]  A very long" in page
    assert max(map(len, page.splitlines())) <= 100


def test_short_names_stay() -> None:
    assert ShortNames.of(["a=1,b=2", "a=1,b=3"])["a=1,b=2"] == "a=1,b=2"
    assert Changes.of(["a=1,b=2", "a=1,b=3"]) is None
    assert ShortNames.of([]).notes("states", width=80) == []


@pytest.mark.parametrize(
    ("value", "words"), [(1.2e-17, "0"), (-3e-16, "0"), (0.0, "0"), (2e-12, "2e-12"), (0.5, "0.5"), (1 / 3, "0.333333")]
)
def test_noise_is_shown_as_0(value: float, words: str) -> None:
    assert number(value) == words


def test_an_opacity_of_rounding_errors_is_0(measurement: Measurement) -> None:
    noise = replace(measurement, opacity=Amount.exact(1.2e-17), secret_entropy=0.0, leakage=Amount.exact(0.0))
    page = render_text(measurement_page(noise))
    assert "opacity      0 bits" in page
    assert "of at most   0 bits   H(secret), the uncertainty before observing" in page
    assert noise.to_dict()["opacity"]["value"] == 1.2e-17


def evil_problem() -> Problem:
    emissions = {"q0": {EVIL: 1}, "q1": {"R": 0.5, EVIL: 0.5}}
    return opaq.build_problem(
        {
            "opaq": 1,
            "name": EVIL,
            "model": {
                "states": ["q0", "q1", EVIL],
                "actions": [EVIL, "b"],
                "start": {"q0": 1},
                "transitions": {
                    "q0": {EVIL: {"q0": 1}, "b": {"q1": 0.5, EVIL: 0.5}},
                    "q1": {"*": {"q1": 1}},
                    EVIL: {"*": {EVIL: 1}},
                },
                "named_rewards": {EVIL: {"*": 1}},
            },
            "observer": {"emissions": {**emissions, EVIL: {"B": 0.5, EVIL: 0.5}}},
            "secret": {"last_state": {EVIL: [EVIL], "other": ["q0", "q1"]}},
            "horizon": 2,
            "task": {"requirements": [{"reward": EVIL, "return_at_least": 0}]},
        }
    )


def harmless(page: str) -> bool:
    return all(char.isprintable() for char in page.replace("\n", "")) and "\\x1b[31m\\n\\u202e" in page


def test_names_cannot_steer_the_terminal() -> None:
    problem = evil_problem()
    pages = [
        render_text(measurement_page(opaq.measure(problem))),
        render_text(solution_page(opaq.solve(problem, starts=1, workers=1))),
        render_text(runs_page(replay(problem, runs=3))),
    ]
    for page in pages:
        assert harmless(page)


def test_names_of_requirements_too(measurement: Measurement) -> None:
    page = render_text(measurement_page(replace(measurement, requirements=(RequirementResult(EVIL, 1.0, None),))))
    assert harmless(page)


def test_runs_fit_the_width() -> None:
    runs = replay("graph", runs=2)
    assert max(map(len, render_text(runs_page(runs, width=60), width=60).splitlines())) <= 60


def test_the_starts_say_that_the_best_was_polished() -> None:
    solution = opaq.solve("two-sink", starts=2)
    plain, *_ = dict(search_rows(solution)).values()
    assert "polished" not in plain
    opacity = solution.measurement.opacity
    better = replace(opacity, value=opacity.value + 0.01, lower=opacity.value, upper=opacity.upper + 0.02)
    measurement = with_opacity(solution.measurement, better)
    told = dict(search_rows(replace(solution, measurement=measurement)))["starts"]
    assert told == f"{plain}; the best was then polished to {better.value:.4f}"


def test_the_median_of_two_starts_lies_between_them() -> None:
    solution = opaq.solve("two-sink", starts=2)
    scores = 0.1, 0.3
    starts = tuple(replace(start, value=score) for start, score in zip(solution.starts, scores, strict=True))
    told = dict(search_rows(replace(solution, starts=starts)))["starts"]
    assert "opacity from 0.1000 to 0.3000, median 0.2000" in told


@long
def test_values_of_sampled_starts_are_estimates_with_their_error() -> None:
    # They were shown as values, above what the policy hides.
    solution = opaq.solve("grid-last-state-4", gradients="sampled", samples=60, starts=2, time_limit=5, sequences=0)
    errors = [start["standard_error"] for start in solution.to_dict()["starts"]]
    assert all(0.0 < error < 0.1 for error in errors)
    told = dict(search_rows(solution))["starts"]
    assert f"(estimates, each ± {max(errors):.1g} or less)" in told
    assert "polished" not in told
    assert solution.starts_to_dataframe()["standard_error"].tolist() == errors
    exact = opaq.solve("two-sink", starts=1)
    assert exact.to_dict()["starts"][0]["standard_error"] is None
    assert "estimate" not in dict(search_rows(exact))["starts"]


def test_a_table_that_is_too_wide_is_a_block_per_row() -> None:
    """At 40 columns, plain and on a terminal; in a file, which is 100 wide, the same table stays a table."""
    head = ("class of policies", "opacity in bits", "how it ended")
    table = TextTable(head, (("state, time", "0.55146", "converged"), ("any policy", "<= 0.6", "")), numbers=(1,))
    blocks = [
        "class of policies state, time",
        "  opacity in bits  0.55146",
        "  how it ended     converged",
        "class of policies any policy",
        "  opacity in bits  <= 0.6",
    ]
    assert render_text(Page("", (table,)), width=40).splitlines() == blocks
    assert render_terminal(Page("", (table,)), width=40, styled=False).splitlines() == blocks
    assert render_text(Page("", (table,)), width=100).splitlines()[1] == "state, time                0.55146  converged"


def test_the_last_column_of_a_narrow_table_wraps_between_words() -> None:
    table = TextTable(("time", "believed"), (("0", f"no{GLUE}0.625, yes{GLUE}0.375"),))
    for lines in (
        render_text(Page("", (table,)), width=18).splitlines(),
        render_terminal(Page("", (table,)), width=18, styled=False).splitlines(),
    ):
        assert lines == ["time  believed", "0     no 0.625,", "      yes 0.375"]


@pytest.mark.parametrize(
    ("value", "beside", "shown"),
    [(1.6e-44, None, "0"), (1.6e-44, 1.0, "0"), (1.6e-44, 1e-40, "1.6e-44"), (-3e-13, 0.0, "0"), (2e-12, 5.0, "2e-12")],
)
def test_rounding_errors_are_shown_as_0(value: float, beside: float | None, shown: str) -> None:
    assert number(value, beside=beside) == shown


def test_lists_say_how_many_more_there_are() -> None:
    ranked = rank_shares({"a": 0.5, "b": 0.2, "c": 0.2, "d": 0.1, "e": 0.0}, least=0.0)
    assert list_shares(ranked, str.upper, "{:.1f}".format, most=2).replace(GLUE, " ") == "A 0.5, B 0.2, and 2 more"
    assert list_shares(ranked, str.upper, "{:.1f}".format, most=4).replace(GLUE, " ") == "A 0.5, B 0.2, C 0.2, D 0.1"


def test_names_of_states_keep_what_tells_them_apart() -> None:
    assert tell_apart(["mode=0,x=1,y=2", "mode=0,x=2,y=2", "mode=0,x=2,y=3"]) == ["x=1,y=2", "x=2,y=2", "x=2,y=3"]
    assert tell_apart(["x=1,y=2", "x=2,y=3"]) is None  # nothing to leave out
    assert tell_apart(["a", "b=2"]) is None
    assert tell_apart(["mode=0"]) is None
