"""The page of a report as text: what it holds without a browser."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.opacity.filtering import filter_states
from opaq.opacity.measure import with_opacity
from opaq.opacity.policies import compile_for_policy
from opaq.reports.numbers import page_number, page_percent
from opaq.reports.page.cards import Card, cards
from opaq.reports.page.render import embed_json, render_report
from reports.page_examples import EXAMPLES, HOSTILE, Example, graph_example, hostile_example
from trials import part_of

SECTIONS = [
    "model", "replay", "outcomes", "decline", "leakage", "search", "classes", "certificate", "policy", "how", "files",
]  # fmt: skip


def entropy(shares: Iterable[float]) -> float:
    return max(0.0, -sum(p * math.log2(p) for p in shares if p > 0))


class Outline(HTMLParser):
    """Elements, identifiers and what stands in script elements, as a browser would read them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [found[name] or "" for name in ("src", "href") if name in found]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def graph() -> Example:
    return graph_example()


@pytest.fixture(scope="module")
def hostile() -> Example:
    return hostile_example()


def test_the_parts_are_files_of_the_package() -> None:
    names = {entry.name for entry in (resources.files("opaq.reports") / "page").iterdir()}
    assert {"base.html.j2", "report.html.j2", "page.css", "report.css", "main.js", "replay.js"} <= names


def test_everything_given_is_shown_in_order(graph: Example) -> None:
    outline = Outline(render_report(graph.data))
    assert [name for name in outline.ids if name in SECTIONS] == SECTIONS
    assert graph.data["answer"] in outline.text
    assert graph.data["question"] in outline.text


def test_what_is_not_given_is_left_out(graph: Example) -> None:
    gone = dict.fromkeys(["solution", "certificate", "comparison", "over_time", "posteriors", "policy_text"])
    outline = Outline(render_report(graph.data | gone | {"runs": [], "run_info": []}))
    assert [name for name in outline.ids if name in SECTIONS] == ["model", "leakage", "policy", "how", "files"]


def test_the_page_asks_for_nothing(graph: Example) -> None:
    page = render_report(graph.data)
    assert all(link.startswith(("#", "data:")) for link in Outline(page).links)
    assert "default-src 'none'" in page
    assert not re.search(r"@import|url\(", page)


def test_embedded_data_are_the_data(hostile: Example) -> None:
    page = render_report(hostile.data)
    (data, *_) = [script for script in Outline(page).scripts if script.startswith('{"format"')]
    assert json.loads(data) == json.loads(json.dumps(hostile.data))
    assert not set("<>&") & set(data)


def test_line_separators_are_escaped() -> None:
    assert embed_json({"name": "a\u2028b\u2029</script>&"}) == r'{"name":"a\u2028b\u2029\u003c/script\u003e\u0026"}'


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert json.loads(embed_json({"a": [math.inf, 1.5, (math.nan,)]})) == {"a": [None, 1.5, [None]]}


def test_hostile_names_add_no_element(hostile: Example) -> None:
    tame = json.loads(json.dumps(hostile.data))
    tame |= {"title": "tame", "question": "tame", "answer": "tame", "problem_text": "tame"}
    assert Outline(render_report(hostile.data)).tags == Outline(render_report(tame)).tags
    assert HOSTILE["script"] in Outline(render_report(hostile.data)).text


def test_no_script_holds_what_would_end_it(graph: Example) -> None:
    page = render_report(graph.data)
    assert page.count("</script>") == len([tag for tag in Outline(page).tags if tag == "script"])
    assert "innerHTML" not in page


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 2}, "data of version 2"), ({"format": "other"}, "does not hold the data of an opaq report")],
)
def test_other_data_give_a_message(graph: Example, change: dict[str, object], message: str) -> None:
    outline = Outline(render_report(graph.data | change))
    assert message in outline.text
    assert "model" not in outline.ids


def test_data_of_the_future_need_no_key_we_know() -> None:
    assert "data of version 9" in Outline(render_report({"format": "opaq-report", "version": 9})).text


def read(graph: Example) -> tuple[opaq.Measurement, opaq.Certificate]:
    """What the page of the graph is about."""
    measured = graph.data["measurement"]
    return opaq.Measurement.from_dict(measured), opaq.Certificate.from_dict(measured | graph.data["certificate"])


def test_the_cards_say_what_was_measured(graph: Example) -> None:
    measurement, certificate = read(graph)
    opacity, error, reward, gap = cards(measurement, certificate)
    assert opacity.value == f"{measurement.opacity.value:.3f}"
    assert opacity.how == "exact"
    assert error.value == f"{100 * measurement.guess_error.value:.1f}%"
    assert (reward.state, reward.notes[0].text) == ("good", "meets the threshold 0.200")
    assert gap.value == f"≤ {certificate.gap:.4f}"
    bound = float(gap.notes[0].text.split()[3])
    assert certificate.upper_bound <= bound <= certificate.upper_bound + 1e-4
    assert cards(measurement, None)[-1].title == "Leakage"
    assert opacity.value in render_report(graph.data)


def test_the_card_of_a_certificate_names_its_pair_of_numbers(graph: Example) -> None:
    measurement, certificate = read(graph)

    def notes(reached: float, trivial: float) -> list[str]:
        shown = with_opacity(measurement, opaq.Amount.exact(reached))
        stated = replace(certificate, measurement=shown, upper_bound=1.0, trivial_bound=trivial)
        *_, card = cards(shown, stated)
        return [note.text for note in card.notes]

    assert notes(0.47, 1.0) == [
        "no policy exceeds 1.0000 bits",
        "the trivial bound: it holds even for an observer who sees nothing",
        "this one is proven to reach 0.4700, at most 53% below that",
    ]
    assert notes(0.0, 2.0) == ["no policy exceeds 1.0000 bits"]


def card_of(measurement: opaq.Measurement, *requirements: opaq.RequirementResult, **changes: Any) -> Card:
    return cards(replace(measurement, requirements=requirements, **changes), None)[2]


def test_a_missed_threshold_is_marked(graph: Example) -> None:
    card = card_of(read(graph)[0], opaq.RequirementResult("return", 0.1, 0.2))
    assert (card.state, card.notes[0].text) == ("bad", "misses the threshold 0.200")


def test_a_task_without_a_return_has_a_card(graph: Example) -> None:
    reach = opaq.RequirementResult("probability of reaching harbour", 0.978, 0.9)
    card = card_of(read(graph)[0], opaq.RequirementResult("return", 0.0, None), reach, threshold=None)
    assert (card.title, card.value, card.state) == ("Task", "met", "good")
    assert [note.text for note in card.notes] == ["probability of reaching harbour 0.978 meets the threshold 0.900"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9669, "0.967"), (1e-9, "0"), (2.34e-5, "2.3 × 10⁻⁵"), (-1.5, "−1.500"), (math.inf, "∞"), (1234.5, "1,234.500")],
)
def test_figures(value: float, text: str) -> None:
    assert page_number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (1e-6, "<0.1%"), (0.4631, "46.3%"), (0.99999, ">99.9%"), (1, "100%")]
)
def test_shares_are_not_rounded_to_certainty(share: float, text: str) -> None:
    assert page_percent(share) == text


def test_templates_are_loaded_only_when_a_page_is_made() -> None:
    code = "import sys, opaq.reports.page.render; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", part_of(["graph", "ring", "hostile", "warehouse", "grid"], 3))
def test_the_data_are_those_of_the_engine(name: str) -> None:
    example: Example = EXAMPLES[name]()
    product, pi = compile_for_policy(example.problem, example.policy)
    runs = example.data["runs"] if name != "warehouse" else [example.data["runs"][0][:4]]
    for run in runs:
        for time, moment in enumerate(run):
            observations = [earlier["observation"] for earlier in run[: time + 1]]
            posterior = opaq.secret_posterior(product, pi, observations)
            assert moment["belief"] == pytest.approx(posterior, abs=1e-9)
            assert moment["entropy"] == pytest.approx(entropy(posterior.values()), abs=1e-9)
            joint = np.bincount(product.state_of, weights=filter_states(product, pi, observations)[-1][0])
            shares = joint / joint.sum()
            listed = [state for state, _ in moment["states"]]
            assert [share for _, share in moment["states"]] == pytest.approx(shares[listed].tolist(), abs=1e-9)
            assert moment["rest"] == pytest.approx(1 - shares[listed].sum(), abs=1e-9)
