"""Reports: every figure against what it is of, names that break nothing, and sizes that stay small."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.codec import encode
from opaq.opacity import over_time
from opaq.opacity.measure import measure_product
from opaq.reports.answers import GivenAnswers
from opaq.reports.limits import ReportLimits
from opaq.reports.model_picture import graph_layout
from opaq.reports.page.render import render_report
from opaq.reports.report_data import ReportInputs, report_data
from trials import part_of


class _Embedded(HTMLParser):
    """What a browser would see in the element with the data."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.texts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = dict(attrs).get("id") == "opaq-report"
        if tag == "script":
            self.scripts.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def embedded(html: str) -> dict[str, Any]:
    """The data, as a browser reads them out of the page."""
    page = _Embedded()
    page.feed(html)
    assert [script.get("type") for script in page.scripts if script.get("id") == "opaq-report"] == ["application/json"]
    found: dict[str, Any] = json.loads("".join(page.texts))
    return found


GRID = opaq.report("grid-last-state-4")


@pytest.mark.parametrize("name", ["grid-initial-state-4", "graph-published", "two-sink"])
def test_the_page_holds_the_data(name: str) -> None:
    made = opaq.report(name)
    data = embedded(made.html)
    assert data == made.data
    assert (data["format"], data["version"], data["kind"]) == ("opaq-report", 1, "problem")
    assert data["title"] == data["problem"] == name
    assert data["opacity"] == encode(opaq.measure(name).opacity)
    assert data["question"].endswith("?")
    assert data["problem_text"] == opaq.scenario_text(name)
    assert data["policy"]["given"] is False
    assert data["policy_text"] is None
    assert len(made.html.encode()) < 1_500_000
    assert (data["solution"], data["certificate"], data["comparison"]) == (None, None, None)


@pytest.mark.parametrize("name", ["grid-last-state-4", "graph-published"])
def test_the_beliefs_of_every_step_are_those_of_a_filter(name: str) -> None:
    data = opaq.report(name, runs=4, seed=3).data
    problem = opaq.load_problem(name)
    product = opaq.compile_problem(problem)
    pi = product.policy_vector(None)
    assert len(data["runs"]) == len(data["run_info"]) == 4 + 6
    for run, info in zip(data["runs"], data["run_info"], strict=True):
        seen = [step["observation"] for step in run]
        assert [step["time"] for step in run] == list(range(len(run)))
        assert len(run) == problem.horizon + 1 or info["kind"] == "revealing"
        for time, step in enumerate(run):
            exact = opaq.secret_posterior(product, pi, seen[: time + 1])
            assert step["belief"] == pytest.approx(exact, abs=1e-12)
            assert step["entropy"] == pytest.approx(-sum(p * np.log2(p) for p in exact.values() if p > 0), abs=1e-9)
            filtered = np.bincount(
                product.state_of,
                weights=_filter(product, pi, seen[: time + 1]),
                minlength=problem.mdp.num_states,
            )
            shown = np.zeros(problem.mdp.num_states)
            for state, share in step["states"]:
                shown[state] = share
            assert shown == pytest.approx(filtered, abs=1e-12)
            assert step["rest"] == 0.0
            assert step["state"] in problem.mdp.states
            assert step["action"] in problem.mdp.actions
            assert filtered[problem.mdp.states.index(step["state"])] > 0
        if info["secret"]:
            assert run[-1]["belief"][info["secret"]] > 0
    kinds = [info["kind"] for info in data["run_info"]]
    assert kinds == ["sampled"] * 4 + ["revealing"] * 3 + ["confusing"] * 3
    for sequence, run in zip(data["measurement"]["revealing"], data["runs"][4:7], strict=True):
        assert sequence["observations"] == [step["observation"] for step in run]
        assert run[-1]["belief"] == pytest.approx(sequence["posterior"], abs=1e-9)


def _filter(product: opaq.Product, pi: np.ndarray, seen: list[str]) -> np.ndarray:
    """P(x_t | o_0 .. o_t) by the paper's observable operators, one dense matrix per observation."""
    process = product.process
    first = int(process.edge_start[process.num_states])
    now = np.zeros(process.num_states)
    now[process.edge_target[first:]] = process.edge_base[first:]
    emission = process.emission.scipy().toarray()
    for before in seen[:-1]:
        now = opaq.observable_operator(product, pi, before) @ now
    now = now * emission[:, product.observations.index(seen[-1])]
    return now / now.sum()


def test_over_time_and_final_beliefs() -> None:
    data, measurement = GRID.data, opaq.measure("grid-last-state-4")
    points = data["over_time"]["points"]
    assert [point["time"] for point in points] == list(range(12))
    assert points[-1]["opacity"] == pytest.approx(measurement.opacity.value, abs=1e-9)
    assert points[-1]["guess_error"] == pytest.approx(measurement.guess_error.value, abs=1e-9)
    assert points[0]["opacity"] <= measurement.secret_entropy
    bins = data["posteriors"]["bins"]
    assert sum(each["wrong"] for each in bins) == pytest.approx(measurement.guess_error.value, abs=1e-9)
    assert sum(each["right"] + each["wrong"] for each in bins) == pytest.approx(1.0, abs=1e-9)
    assert data["posteriors"]["wrong"] == pytest.approx(measurement.guess_error.value, abs=1e-9)
    assert {row["number"] for row in data["how"]} >= {"opacity", "opacity over time", "final beliefs"}


def test_what_is_known_exactly_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_time, "_MOST_NODES", 0)  # as if the graph of beliefs were too large to be kept
    monkeypatch.setattr(over_time, "_NARROW", -1.0)
    problem = opaq.load_problem("graph-published")
    data = opaq.report(problem).data
    posteriors, over = data["posteriors"], data["over_time"]
    assert (posteriors["method"], posteriors["samples"]) == ("estimate", 1000)
    exact = data["measurement"]["guess_error"]
    assert exact["method"] == "exact"
    assert (posteriors["wrong"], posteriors["wrong_method"]) == (exact["value"], "exact")
    assert (over["method"], over["samples"]) == ("estimate", 1000)
    assert over["points"][-1]["opacity"] == data["opacity"]["value"]
    assert over["explanation"] == "estimated from 1,000 sampled runs; the last point is exact, as measured"


@pytest.mark.parametrize("tighter", ["certificate", "comparison"])
def test_one_page_has_one_bound(tighter: str) -> None:
    problem = opaq.load_problem("graph-published")
    bounds = {"certificate": 1.6, "comparison": 1.6} | {tighter: 1.5}
    certificate = replace(opaq.certify(problem, time_limit=0.5), upper_bound=bounds["certificate"])
    objective = opaq.Target("maximise", opaq.Shannon())
    comparison = opaq.Comparison(problem.name, objective, (), (), seed=0, seconds=0.0)
    comparison = replace(comparison, upper_bound=bounds["comparison"], scope=certificate.scope)
    data = opaq.report(problem, certificate=certificate, comparison=comparison, runs=1).data
    assert (data["certificate"]["upper_bound"], data["comparison"]["upper_bound"]) == (1.5, 1.5)
    assert "exceeds 1.5 bits" in data["answer"] or "exceeds 1.5000 bits" in data["answer"]
    assert ("comparison" in data["certificate"]["status_text"]) == (tighter == "comparison")
    assert data["certificate"]["gap"] == pytest.approx(1.5 - data["opacity"]["value"])
    comparison = replace(comparison, scope="any policy at all")  # another claim: both stay
    data = opaq.report(problem, certificate=certificate, comparison=comparison, runs=1).data
    assert (data["certificate"]["upper_bound"], data["comparison"]["upper_bound"]) == (*bounds.values(),)


def test_a_long_problem_file_is_left_out_with_a_reason() -> None:
    data = _limited(opaq.load_problem("graph-published"), ReportLimits(problem_text=3))
    assert data["problem_text"] is None
    assert "too many for this page" in data["problem_text_left_out"]


def test_the_picture_of_a_grid() -> None:
    model = GRID.data["model"]
    assert model["kind"] == "grid"
    assert (model["grid"]["width"], model["grid"]["height"], len(model["grid"]["cells"])) == (6, 6, 34)
    assert model["graph"] is None
    assert model["secret_label"] == "secret"
    assert {model["states"][state] for state in model["labels"]["secret"]} == {"(2,0)", "(2,3)", "(4,5)"}
    assert {model["states"][state] for state in model["traps"]} == {"(1,1)", "(3,2)", "(1,4)"}
    assert {row["observation"] for row in model["coverage"]} == {"A", "B", "C", "D", "E"}
    assert model["coverage_stated"] is True
    assert sum(chance for _, chance in model["start"]) == pytest.approx(1.0)


def test_the_picture_of_a_graph() -> None:
    problem = opaq.load_problem("graph-published")
    policy = opaq.solve(problem, starts=1).policy
    data = opaq.report(problem, policy).data
    graph, states = data["model"]["graph"], data["model"]["states"]
    assert data["model"]["kind"] == "graph"
    assert len(graph["positions"]) == len(states)
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in graph["positions"])
    leaving = dict.fromkeys(range(len(states)), 0.0)
    taken: dict[tuple[int, int], float] = {}
    for source, _, chance, actions, chances in graph["edges"]:
        leaving[source] += chance
        assert actions
        for action, each in zip(actions, chances, strict=True):
            taken[source, action] = taken.get((source, action), 0.0) + each
    assert all(total == pytest.approx(1.0, abs=1e-5) for total in taken.values())
    visited = {state for state, _ in data["policy"]["average"]}
    assert all(leaving[state] == pytest.approx(1.0, abs=1e-5) for state in visited)
    for state, row in data["policy"]["average"]:
        assert sum(p for _, p in row) == pytest.approx(1.0, abs=3e-3)
        assert states[state] in problem.mdp.states
    assert data["policy"]["given"] is True
    assert len(data["policy"]["by_time"]) == problem.horizon + 1  # it also looks at the automaton
    assert json.loads(data["policy_text"])["format"] == "opaq-policy"


def test_layouts_are_stable_and_close_to_distances() -> None:
    ring = [(state, (state + 1) % 20) for state in range(20)]
    positions = graph_layout(20, ring, [3])
    assert (positions == graph_layout(20, ring, [3])).all()
    radius = np.linalg.norm(positions - positions.mean(axis=0), axis=1)
    assert np.ptp(radius) < 0.05
    assert positions[3, 0] == positions[:, 0].min()
    rng = np.random.default_rng(0)
    edges = [(int(state), int(target)) for state in range(1, 300) for target in rng.integers(0, state, 2)]
    large = graph_layout(300, edges, [0])
    gaps = np.linalg.norm(large[:, None] - large[None], axis=2) + np.eye(300)
    assert gaps.min() > 1e-3  # no two states on one spot
    assert graph_layout(1, [], [0]).tolist() == [[0.5, 0.5]]
    apart = graph_layout(4, [(0, 1), (2, 3)], [0])
    assert np.linalg.norm(apart[0] - apart[2]) > np.linalg.norm(apart[0] - apart[1])


SOLUTION = opaq.solve("two-sink", starts=2)
CERTIFICATE = opaq.certify("two-sink", SOLUTION.policy)
COMPARISON = opaq.compare("two-sink", classes=["state", "state, time"], starts=1)


def test_answers_beside_the_measurement_as_objects_and_as_json() -> None:
    objects = opaq.report("two-sink", solution=SOLUTION, certificate=CERTIFICATE, comparison=COMPARISON).data
    texts = json.loads(json.dumps([SOLUTION.to_dict(), CERTIFICATE.to_dict(), COMPARISON.to_dict()]))
    plain = opaq.report("two-sink", SOLUTION.policy, solution=texts[0], certificate=texts[1], comparison=texts[2]).data
    for key in ("certificate", "comparison", "runs", "answer", "model", "policy"):
        assert json.loads(json.dumps(objects[key])) == json.loads(json.dumps(plain[key])), key
    assert objects["solution"]["trace"][-1] == texts[0]["trace"][-1]
    assert "revealing" not in objects["solution"]
    assert objects["certificate"]["upper_bound"] == CERTIFICATE.upper_bound
    assert objects["certificate"]["gap"] == pytest.approx(CERTIFICATE.gap, abs=1e-9)
    assert objects["certificate"]["ladder"]
    assert [rung["class"] for rung in objects["comparison"]["classes"]] == ["state", "state, time"]
    assert "no policy that meets the task exceeds" in objects["answer"]
    assert objects["opacity"] == encode(SOLUTION.measurement.opacity)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"solution": SOLUTION.to_dict()}, "solution: is about another policy"),
        ({"solution": SOLUTION.to_dict() | {"problem": "x"}}, "solution: is about the problem 'x'"),
        ({"solution": {"opacity": 3}}, "solution: is no solution; give what opaq solve prints as JSON"),
        ({"solution": SOLUTION.to_dict() | {"opacity": 3}}, "solution.opacity: is 3, not a mapping"),
        ({"certificate": CERTIFICATE.to_dict() | {"ladder": [1]}}, "certificate.ladder[0]: is 1, not a mapping"),
        ({"certificate": replace(CERTIFICATE, problem="y")}, "certificate: is about the problem 'y', not 'two-sink'"),
        ({"comparison": COMPARISON.to_dict() | {"unreached": "no"}}, "comparison.unreached: is 'no', not a list"),
        ({"comparison": 3}, "comparison: is of the type int; give what opaq compare found, an object or its JSON"),
        ({"policy": opaq.Policy(opaq.PolicyClass(), {}), "solution": SOLUTION}, "policy: is not that of the solution"),
        ({"runs": 0}, "runs: is 0"),
        ({"time_limit": -1}, "time_limit: is -1"),
        ({"output": "no/such/folder.html"}, "does not exist"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(opaq.InputError) as refused:
        opaq.report("two-sink", **arguments)
    assert words in str(refused.value)


def test_the_problem_of_a_solution_is_the_problem_of_its_report() -> None:
    with pytest.raises(opaq.InputError, match="as it was then"):
        opaq.report(replace(opaq.load_problem("two-sink"), horizon=3), solution=SOLUTION)


def test_files_are_not_overwritten_unasked(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    made = opaq.report("two-sink", output=file)
    assert file.read_text(encoding="utf-8") == made.html
    with pytest.raises(opaq.InputError, match="exists already"):
        opaq.report("two-sink", output=file)
    with pytest.raises(opaq.InputError, match="exists already"):
        made.save(file)
    made.save(file, overwrite=True)
    assert opaq.report("two-sink", output=file, overwrite=True, seed=1).html != made.html


def test_the_seed_decides() -> None:
    assert opaq.report("graph-published", seed=4).data["runs"] == opaq.report("graph-published", seed=4).data["runs"]
    assert opaq.report("graph-published", seed=4).data["runs"] != opaq.report("graph-published", seed=5).data["runs"]


NAMES = [
    "<script>alert(1)</script>",
    "</script>",
    "<!--",
    "]]>",
    "\"quoted\" & 'single'",
    "אבג \u202e RTL",
    "line\nbreak \u2028 \u2029 end",
    "x" * 200,
    "12",
    "1e5",
    "__proto__",
    "constructor",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "\\u003c",
    "𝔘 😀",
    "\\\ud800 lone \udcff",
]
LABELS = {name for name in NAMES if not set(name) & set('"&|!~()')}


def strange(kind: str) -> opaq.Problem:
    """A ring of states with such names, for states, actions, observations and labels alike."""
    states = [f"{name} {kind}" if kind else name for name in NAMES]
    after = dict(zip(states, [*states[1:], states[0]], strict=True))
    return opaq.build_problem(
        {
            "opaq": 1,
            "name": "</title><script>alert(2)</script>\udcff",
            "model": {
                "states": states,
                "actions": ["__proto__", "</script>"],
                "start": {state: 1 / len(states) for state in states},
                "transitions": {
                    state: {"__proto__": {state: 0.5, after[state]: 0.5}, "</script>": {after[state]: 1}}
                    for state in states
                },
                "labels": {name: [state] for name, state in zip(NAMES, states, strict=True) if name in LABELS},
            },
            "observer": {
                "emissions": {state: {name: 0.1, "nothing": 0.9} for name, state in zip(NAMES, states, strict=True)}
            },
            "secret": {"last_state": True},
            "horizon": 3,
        }
    )


@pytest.mark.parametrize("kind", ["", "s"])
def test_strange_names_come_through_as_they_are(kind: str) -> None:
    problem = strange(kind)
    made = opaq.report(problem)
    data = embedded(made.html)
    assert data == made.data
    assert made.html.encode().decode() == made.html  # a lone surrogate has no UTF-8
    assert tuple(data["model"]["states"]) == problem.mdp.states
    assert tuple(data["model"]["actions"]) == problem.mdp.actions
    assert set(data["model"]["labels"]) == LABELS
    assert {*data["model"]["observations"]} == {*NAMES, "nothing"}
    assert set(data["runs"][0][0]["belief"]) == set(problem.mdp.states)
    assert data["title"] == problem.name
    scripts = re.findall(r"<script[^>]*>", made.html)
    assert all("alert" not in script for script in scripts)
    assert "<script>alert" not in made.html
    assert made.html.count("</script>") == len(scripts)


def test_large_beliefs_are_cut_and_say_so() -> None:
    limits = ReportLimits(state_entries=0, secret_entries=0, all_secrets=4, graph_states=3, policy_entries=1)
    data = _limited(strange(""), limits)
    step = next(step for run in data["runs"] for step in run if step["observation"] == "nothing")
    assert data["model"]["kind"] == "table"
    assert (data["model"]["grid"], data["model"]["graph"]) == (None, None)
    assert len(step["states"]) == len(step["belief"]) == 3
    shares = [share for _, share in step["states"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) + step["rest"] == pytest.approx(1.0, abs=1e-12)
    assert sum(step["belief"].values()) + step["belief_rest"] == pytest.approx(1.0, abs=1e-12)
    for sequence in data["measurement"]["confusing"]:
        assert sum(sequence["posterior"].values()) + sequence["posterior_rest"] == pytest.approx(1.0, abs=1e-9)


def _limited(problem: opaq.Problem, limits: ReportLimits) -> dict[str, Any]:
    """The data of a report with limits of its own."""
    product = opaq.compile_problem(problem)
    answers = GivenAnswers()
    inputs = ReportInputs(product, product.policy_vector(None), None, opaq.measure(problem), answers, "text")
    return report_data(inputs, limits=limits)


def test_long_runs_are_cut_and_policies_by_time_left_out() -> None:
    limits = ReportLimits(longest_run=2, run_steps=4, problem_text=3, policy_entries=1, time_points=2)
    data = _limited(replace(strange(""), policy_class=opaq.PolicyClass(("state", "time"))), limits)
    assert len(data["runs"][0]) == 2
    assert "the first 2 of 4 steps" in data["run_info"][0]["note"]
    assert [info["kind"] for info in data["run_info"]].count("sampled") == 2
    assert (data["policy"]["by_time"], data["policy"]["by_time_left_out"]) == (None, True)
    assert data["problem_text"] is None
    assert [point["time"] for point in data["over_time"]["points"]] == [1, 3]


@pytest.mark.parametrize("grid", part_of([True, False], 1))
def test_a_large_model_gives_a_page_of_a_few_megabytes(grid: bool) -> None:
    """10,000 states; measured roughly, since only the size of the page is the point."""
    problem = large_grid() if grid else large_plain()
    product = opaq.compile_problem(problem)
    pi = product.policy_vector(None)
    measurement = measure_product(product, pi, mode="sampled", samples=20)
    stop = opaq.Stop()
    stop.request()
    inputs = ReportInputs(product, pi, None, measurement, GivenAnswers(), "")
    data = report_data(inputs, stop=stop)
    html = render_report(data)
    assert len(html.encode()) < 4_500_000  # the page's own style and script take some more
    assert data["over_time"] is None
    assert data["model"]["kind"] == ("grid" if grid else "table")
    assert len(data["model"]["states"]) == 10_000


def large_grid() -> opaq.Problem:
    cells = [[column, row] for column in range(3, 9) for row in range(50)]
    return opaq.build_problem(
        {
            "opaq": 1,
            "grid": {"size": [100, 100], "slip": 0.1, "start": {"column": 0}, "labels": {"secret": cells}},
            "observer": {"sensors": {"A": {"covers": cells, "detects": 0.7}}},
            "secret": {"last_state": True},
            "horizon": 12,
        }
    )


def large_plain() -> opaq.Problem:
    size = 10_000
    states = [f"state {number}" for number in range(size)]
    moves = {
        state: {
            "a": {states[(number + 1) % size]: 0.9, states[(number * 7 + 4) % size]: 0.1},
            "b": {states[(number * 13 + 1) % size]: 1},
        }
        for number, state in enumerate(states)
    }
    seen = {state: {f"seen {number % 7}": 0.8, "none": 0.2} for number, state in enumerate(states)}
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": states,
                "actions": ["a", "b"],
                "start": dict.fromkeys(states[:50], 0.02),
                "transitions": moves,
            },
            "observer": {"emissions": seen},
            "secret": {"last_state": True},
            "horizon": 12,
        }
    )


def test_a_short_time_gives_what_there_is() -> None:
    data = opaq.report("grid-last-state", time_limit=2.0).data
    assert data["runs"]
    assert 0 <= data["opacity"]["lower"] <= data["opacity"]["upper"]
    stop = opaq.Stop()
    stop.request()
    with pytest.raises(opaq.StoppedError):
        opaq.report("grid-last-state", stop=stop)


def test_progress_is_told() -> None:
    words: list[str] = []
    opaq.report("two-sink", on_progress=words.append)
    assert "replaying runs" in words


def test_reports_compare_by_content_and_print_shortly() -> None:
    same = replace(GRID)
    assert same == GRID
    assert hash(GRID) == hash(same)
    assert opaq.report("grid-last-state-4", seed=1, runs=1) != GRID
    assert len(repr(GRID)) < 100
    assert "12 runs" in repr(GRID)
