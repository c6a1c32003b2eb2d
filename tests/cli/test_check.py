"""`opaq check`, `opaq schema` and `opaq examples`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opaq import load
from opaq.spec.yaml import parse_yaml

BROKEN = """\
opaq: 1
model:
  states: [q0, q1]
  actions: [a]
  start: {q0: 1}
  transitions:
    q0:
      a: {q0: 0.3, q1: 0.5}
    q1: {a: {q1: 1}}
observer:
  emissions: {q0: {N: 1}, q1: {N: 1}}
secret: {last_state: [q9]}
horizon: 2
"""


def test_a_fine_problem_is_summed_up(opaq) -> None:
    done = opaq("check", "graph")
    assert (done.returncode, done.stderr) == (0, "")
    for fact in ("graph: fine", "7: 0, 1, 2", "2: a1, a2", "4: q0, q1, q2, q3", "5 transitions", "at least 0.2"):
        assert fact in done.stdout


def test_every_fault_of_every_file_is_told_with_its_line(opaq, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    (tmp_path / "twice.yaml").write_text("a: 1\na: 2\nb: 1\nb: 2\n")
    done = opaq("check", "broken.yaml", "two-sink", "twice.yaml", "missing.yaml")
    assert done.returncode == 2
    assert done.stdout.startswith("two-sink: fine\n")
    told = done.stderr.splitlines()
    assert all(line.startswith("opaq: ") for line in told)
    assert (
        "opaq: broken.yaml: model.transitions.q0.a: probabilities sum to 0.8, not 1; make them sum to 1 (line 8)"
        in told
    )
    assert any(line.startswith("opaq: broken.yaml: secret.last_state") and line.endswith("(line 12)") for line in told)
    assert any("twice.yaml: a: the key appears twice, on lines 1 and 2" in line for line in told)
    assert any("twice.yaml: b: the key appears twice, on lines 3 and 4" in line for line in told)
    assert "opaq: missing.yaml: no such file; check the name and the current folder" in told


def test_warnings_are_told_and_do_not_fail(opaq, tmp_path: Path) -> None:
    text = BROKEN.replace("q0: 0.3", "q0: 0.500001").replace("q9", "q1")
    (tmp_path / "slack.yaml").write_text(text)
    done = opaq("check", "slack.yaml")
    assert done.returncode == 0
    assert "opaq: slack.yaml: warning: model.transitions.q0.a: probabilities sum to 1.000001" in done.stderr
    assert "(line 8)" in done.stderr
    assert "slack.yaml: fine" in done.stdout


def test_names_in_a_file_do_not_reach_the_terminal_raw(opaq, tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(BROKEN.replace("[q9]", '["\\e[31mred\\n"]'))
    done = opaq("check", "evil.yaml")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_the_schema_is_json(opaq) -> None:
    done = opaq("schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["$schema"].startswith("https://json-schema.org/")


@pytest.mark.parametrize("name", load.scenario_names())
def test_every_scenario_follows_the_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from opaq.spec.problem_part import problem_schema
    from opaq.spec.yaml import parse_yaml

    def as_json(value: object) -> object:
        """Keys as JSON knows them."""
        if isinstance(value, dict):
            return {str(key): as_json(entry) for key, entry in value.items()}
        return [as_json(entry) for entry in value] if isinstance(value, list) else value

    jsonschema.validate(as_json(parse_yaml(load.scenario_text(name)).data), problem_schema())


def test_examples_are_listed(opaq) -> None:
    done = opaq("examples")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(load.scenario_names())


def test_an_example_is_shown(opaq) -> None:
    done = opaq("examples", "two-sink")
    assert (done.returncode, done.stdout, done.stderr) == (0, load.scenario_text("two-sink"), "")


def test_an_unknown_example(opaq) -> None:
    done = opaq("examples", "two-sinks")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'two-sink'?" in done.stderr


def test_an_example_is_copied_and_never_overwrites_unasked(opaq, tmp_path: Path) -> None:
    done = opaq("examples", "two-sink", "--output", "mine.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "opaq: wrote mine.yaml\n")
    assert (tmp_path / "mine.yaml").read_text() == load.scenario_text("two-sink")
    again = opaq("examples", "graph", "--output", "mine.yaml")
    assert (again.returncode, again.stdout) == (2, "")
    assert "mine.yaml: exists already; use --overwrite to overwrite it" in again.stderr
    assert (tmp_path / "mine.yaml").read_text() == load.scenario_text("two-sink")
    assert opaq("examples", "graph", "--output", "mine.yaml", "--overwrite").returncode == 0
    assert (tmp_path / "mine.yaml").read_text() == load.scenario_text("graph")
    assert opaq("check", "mine.yaml").returncode == 0


def test_an_example_is_copied_into_a_folder(opaq, tmp_path: Path) -> None:
    assert opaq("examples", "graph", "--output", ".").returncode == 0
    assert (tmp_path / "graph.yaml").exists()
    assert opaq("examples", "graph", "--output", "no/such/file.yaml").returncode == 2


def test_a_secret_that_every_observer_knows_is_a_warning(opaq, tmp_path: Path) -> None:
    fine = BROKEN.replace("q0: 0.3", "q0: 0.5").replace("[q9]", "[q1]")
    (tmp_path / "two.yaml").write_text(fine)
    # q1 is never left, but the state after one step is q0 or q1; before any step it is q0 only
    (tmp_path / "one.yaml").write_text(fine.replace("horizon: 2", "horizon: 0"))
    timed = "secret: {state_at: {time: 1, states: {other: [q0], end: [q1]}}}"
    certain = fine.replace("a: {q0: 0.5, q1: 0.5}", "a: {q1: 1}").replace("secret: {last_state: [q1]}", timed)
    (tmp_path / "timed.yaml").write_text(certain)
    done = opaq("check", "two.yaml", "one.yaml", "timed.yaml")
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "one value only" in line]
    assert told == [
        "opaq: one.yaml: warning: secret: can take one value only, 'no', whatever the policy does; "
        "there is nothing to hide",
        "opaq: timed.yaml: warning: secret: can take one value only, 'end', whatever the policy does; "
        "there is nothing to hide",
    ]


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [
        ("model.prism", "a PRISM model", "  prism: model.prism"),
        ("model.nm", "a PRISM model", "  prism: model.nm"),
        ("model.jani", "a JANI model", "  jani: model.jani"),
        ("model.drn", "a DRN model", "  drn: model.drn"),
        ("model.umb", "a UMB model", "  umb: model.umb"),
        ("model.pomdp", "a POMDP model", "  pomdp: model.pomdp"),
        ("secret.hoa", "an automaton", "  secret: {automaton: {file: secret.hoa}}"),
        ("secret.dot", "a drawing of an automaton", "  secret: {automaton: {file: secret.dot}}"),
    ],
)
def test_files_of_other_kinds_are_told_what_to_do_with(opaq, tmp_path: Path, name: str, kind: str, line: str) -> None:
    (tmp_path / name).write_bytes(b"mdp\nmodule m { : [\n\x00\xff")
    for command in (["check", name], ["measure", name], ["measure", "two-sink", "--policy", name]):
        done = opaq(*command)
        assert (done.returncode, done.stdout) == (2, "")
        first, *example = done.stderr.splitlines()
        assert first.startswith(f"opaq: {name}: is {kind}, not a p")
        assert line in ["", *example]
        if line and not line.startswith("  secret"):
            assert set(parse_yaml("\n".join(example)).data) >= {"opaq", "observer", "secret", "horizon"}
    missing = opaq("measure", f"no-{name}")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert f"opaq: no-{name}: no such file" in missing.stderr


def test_a_table_is_a_policy(opaq, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(b"state,a\n\x00\xff")
    done = opaq("check", "table.csv")
    advice = "give the problem it is for, and this file as its policy"
    assert (done.returncode, done.stderr) == (2, f"opaq: table.csv: is a table, not a problem; {advice}\n")
    done = opaq("measure", "two-sink", "--policy", "table.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "opaq: table.csv: not a text file" in done.stderr


def test_problems_and_policies_are_not_mixed_up(opaq, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"format": "opaq-policy", "version": 1, "rows": []}')
    done = opaq("measure", "policy.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "opaq: policy.json: is a policy, not a problem; give the problem it is for, and this file as its policy\n"
    )
    (tmp_path / "problem.yaml").write_text(load.scenario_text("two-sink"))
    done = opaq("measure", "two-sink", "--policy", "problem.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opaq: problem.yaml: is a problem, not a policy; give this file as the problem")


def test_very_many_faults_are_counted(opaq, tmp_path: Path) -> None:
    rows = "".join(f"    x{place}: {{a: {{q1: 1}}}}\n" for place in range(1_000))
    (tmp_path / "many.yaml").write_text(BROKEN.replace("    q1: {a: {q1: 1}}\n", rows))
    done = opaq("check", "many.yaml")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 201
    assert "more faults" in done.stderr.splitlines()[-1]


EVIL = ["\x1b[31m", "\x9b31m", "\u202e", "\u2028", "\r\n"]


@pytest.mark.parametrize("evil", EVIL)
def test_no_name_steers_a_terminal_or_another_tool(opaq, tmp_path: Path, evil: str) -> None:
    name, label = f"q{evil}1", f"p{evil}q"
    spec = {
        "opaq": 1,
        "name": f"n{evil}m",
        "model": {
            "states": ["q0", name],
            "actions": ["=1+1", f"b{evil}c"],
            "start": "q0",
            "transitions": {"q0": {"*": {"q0": 0.5, name: 0.5}}, name: {"*": name}},
            "labels": {label: [name]},
            "named_rewards": {f"r{evil}s": {"q0": 1}},
        },
        "observer": {"emissions": {"q0": f"o{evil}p", name: "o"}},
        "secret": {"automaton": {"states": ["a", f"z{evil}z"], "initial": "a", "accepting": [f"z{evil}z"],
                                 "edges": [{"from": "a", "to": f"z{evil}z", "when": f'"{label}"'}]}},
        "horizon": 2,
        "task": {"requirements": [{"reward": f"r{evil}s", "return_at_least": 0}]},
    }  # fmt: skip
    (tmp_path / "evil.json").write_text(json.dumps(spec))
    rows = [{"state": state, "probabilities": {"=1+1": 0.5, f"b{evil}c": 0.5}} for state in ("q0", name)]
    policy = {"format": "opaq-policy", "version": 1, "rows": rows}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    shown = [
        opaq("check", "evil.json"),
        *(opaq("convert", "evil.json", target) for target in ("evil.dot", "evil.hoa")),
        *(opaq("convert", "policy.json", target, "--problem", "evil.json") for target in ("policy.csv", "policy.txt")),
    ]
    assert [done.returncode for done in shown] == [0] * 5
    files = [
        (tmp_path / target).read_bytes().decode() for target in ("evil.dot", "evil.hoa", "policy.csv", "policy.txt")
    ]
    for text in [*(done.stdout + done.stderr for done in shown), *files]:
        assert all(character.isprintable() or character == "\n" for character in text)
    assert "'=1+1" in files[2]
    assert len(files[2].splitlines()) == len(files[3].splitlines()) == 3


PLAN = """\
opaq-sweep: 1
problem: two-sink
over: {horizon: [2, 3]}
together:
  - {discount: 0.9, task.return_at_least: 0.5}
  - {discount: 0.8, task.return_at_least: 0.4}
certify: 5
"""


def test_a_plan_is_checked_without_running_it(opaq, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = opaq("check", "plan.yaml", "two-sink")
    assert (done.returncode, done.stderr) == (0, "")
    facts = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]
    assert ["points", "4"] in facts
    assert ["horizon", "2: 2, 3"] in facts
    assert ["together", "discount, task.return_at_least"] in facts
    assert "plan.yaml: fine" in done.stdout
    assert "two-sink: fine" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_every_fault_of_a_plan_is_told_at_once(opaq, tmp_path: Path) -> None:
    broken = PLAN.replace("0.8,", "8,").replace("[2, 3]", "[2, x]").replace("certify:", "solve: {starts: 0}\ncertfy:")
    (tmp_path / "plan.yaml").write_text(broken)
    done = opaq("check", "plan.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    for words in ("certfy: unknown key", "solve.starts", "discount: is 8", "horizon: 'x' is text"):
        assert words in done.stderr
