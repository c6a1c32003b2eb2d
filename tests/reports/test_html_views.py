"""What notebooks show: well-formed, escaped, short, and for every class that has a view."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import opaq
from opaq.display import VIEW, NotebookView

EVIL = "<script>alert('1')</script>\"&\x1b[2J\u202e"
LABEL = "<script>x</script>"


def evil_problem() -> opaq.Problem:
    """Every name of the user's is markup."""
    name = f"{{}}{EVIL}".format
    states, stop = [name("0"), name("1")], name("stop")
    return opaq.build_problem(
        {
            "opaq": 1,
            "name": EVIL,
            "model": {
                "states": states,
                "actions": [name("go"), stop],
                "start": states[0],
                "transitions": {
                    states[0]: {name("go"): {states[0]: 0.5, states[1]: 0.5}, stop: states[1]},
                    states[1]: {"*": states[1]},
                },
                "labels": {LABEL: [states[1]]},
            },
            "observer": {"emissions": {states[0]: {name("a"): 0.6, "b": 0.4}, states[1]: {name("a"): 0.4, "b": 0.6}}},
            "secret": {"last_state": True},
            "horizon": 1,
            "task": {"reach": LABEL, "probability_at_least": 0.3},
        }
    )


def results(problem: opaq.Problem) -> list[Any]:
    """One of every class that has a view."""
    solution = opaq.solve(problem, starts=1)
    certificate = opaq.certify(problem, solution.policy, time_limit=3.0)
    comparison = opaq.compare(problem, classes=["state", "state,time"], starts=1)
    replay = opaq.replay(problem, solution.policy, runs=1)[0]
    front = opaq.frontier(problem, points=2)
    ranking = opaq.sensors(problem, fixed=True, changes=[])
    point = opaq.StudyPoint(EVIL, {EVIL: EVIL}, "failed", error=EVIL)
    study = opaq.Study(Path(EVIL), EVIL, (point,))
    filtering = opaq.filter(problem, [step.observation for step in replay.steps], solution.policy)
    shown = [problem, solution, solution.policy, solution.measurement, certificate, comparison, replay]
    shown += [front, ranking, study, opaq.CertifiedSolution(solution, certificate), filtering]
    shown += [opaq.most_revealing(problem), opaq.opacity_over_time(problem), opaq.history_program(problem)]
    return [*shown, opaq.report(problem, solution=solution, runs=1)]


EVIL_RESULTS = results(evil_problem())
TABLES = [thing for thing in EVIL_RESULTS if not isinstance(thing, opaq.Report)]
NAMELESS = (opaq.OpacityOverTime, opaq.HistoryOptimum)  # they show numbers alone


def test_every_class_with_a_view_was_tested() -> None:
    assert {type(thing) for thing in EVIL_RESULTS} == {
        cls for name in opaq.__all__ if isinstance(cls := getattr(opaq, name), type) and issubclass(cls, NotebookView)
    }


def test_the_view_is_where_it_is_named() -> None:
    module, _, function = VIEW.partition(":")
    assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("thing", TABLES, ids=lambda thing: type(thing).__name__)
def test_names_cannot_become_markup(thing: Any) -> None:
    html = thing._repr_html_()
    assert "script>" not in html.replace("script&gt;", "")
    assert ("&lt;script&gt;" in html) == (not isinstance(thing, NAMELESS))
    assert all(char.isprintable() for char in html)
    root = ElementTree.fromstring(html)  # every element is closed, every attribute quoted
    assert {element.tag for element in root.iter()} <= {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert {name for element in root.iter() for name in element.attrib} <= {"style"}


@pytest.mark.parametrize("thing", TABLES, ids=lambda thing: type(thing).__name__)
def test_colours_are_those_of_the_page(thing: Any) -> None:
    """On light pages and on dark ones: nothing sets a colour but in shares of grey that both show."""
    html = thing._repr_html_()
    assert set(re.findall(r"(?<![-\w])color:([^;\"]+)", html)) <= {"inherit"}
    assert set(re.findall(r"background:([^;\"]+)", html)) <= {"none"}


@pytest.mark.parametrize("thing", EVIL_RESULTS[1:], ids=lambda thing: type(thing).__name__)
def test_every_result_is_a_table_and_plain_data(thing: Any) -> None:
    assert len(thing.to_dataframe().columns) > 0
    if not isinstance(thing, opaq.Policy):  # which `save_policy` writes
        assert json.loads(json.dumps(thing.to_dict(), allow_nan=False))


def test_a_report_is_the_page_itself_in_a_frame() -> None:
    report = EVIL_RESULTS[-1]
    found: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))  # type: ignore[method-assign]
    parser.feed(report._repr_html_())
    ((tag, attributes),) = found
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts"  # and neither the notebook's origin nor its storage
    assert attributes["srcdoc"] == report.html


def test_a_grid_comes_with_a_picture() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    drawn = picture(problem._repr_html_())
    assert len(drawn.findall("{*}rect")) == 36
    assert not drawn.findall("{*}path")
    solution = opaq.solve(problem, starts=1, time_limit=1.5)
    drawn = picture(solution._repr_html_())
    assert len(drawn.findall("{*}path")) >= 20  # arrows
    assert "currentColor" in solution._repr_html_()


def picture(html: str) -> ElementTree.Element:
    (drawn,) = re.findall(r"<svg.*</svg>", html)
    return ElementTree.fromstring(drawn)


def test_long_things_stay_short() -> None:
    policy_class = opaq.PolicyClass(("state",))
    policy = opaq.Policy(policy_class, {(f"{number}" + "x" * 300,): {"a": 1.0} for number in range(5000)})
    html = policy._repr_html_()
    assert len(html) < 20_000
    assert "and 4,976 more" in html
    wide = opaq.build_problem(
        {
            "opaq": 1,
            "grid": {"size": [60, 60], "start": [0, 0]},
            "observer": {"emissions": {"*": "dark"}},
            "secret": {"last_state": True},
            "horizon": 2,
        }
    )
    assert "<svg" not in wide._repr_html_()


def test_the_sentence_stands_above_the_figures() -> None:
    html = opaq.measure("two-sink")._repr_html_()
    assert html.index("This policy hides 0.4056 of 0.9544 bits") < html.index("<table") < html.index("guess error")


def test_a_minimum_is_not_called_the_most() -> None:
    comparison = opaq.compare("two-sink", classes=["state", "state,time"], starts=1)
    assert "the most of 2 classes" in comparison._repr_html_()
    least = replace(comparison, objective=replace(comparison.objective, direction="minimise"))
    assert "Policies by state reach opacity 0.4088 bits, the least of 2 classes." in least._repr_html_()
