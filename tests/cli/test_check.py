"""`opaq check`, `opaq schema` and `opaq examples`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opaq.io import scenarios

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


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_follows_the_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from opaq.io.schema import problem_schema
    from opaq.io.yaml import parse_yaml

    def as_json(value: object) -> object:
        """Keys as JSON knows them."""
        if isinstance(value, dict):
            return {str(key): as_json(entry) for key, entry in value.items()}
        return [as_json(entry) for entry in value] if isinstance(value, list) else value

    jsonschema.validate(as_json(parse_yaml(scenarios.text(name)).data), problem_schema())


def test_examples_are_listed(opaq) -> None:
    done = opaq("examples")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(scenarios.names())


def test_an_example_is_shown(opaq) -> None:
    done = opaq("examples", "two-sink")
    assert (done.returncode, done.stdout, done.stderr) == (0, scenarios.text("two-sink"), "")


def test_an_unknown_example(opaq) -> None:
    done = opaq("examples", "two-sinks")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'two-sink'?" in done.stderr


def test_an_example_is_copied_and_never_overwrites_unasked(opaq, tmp_path: Path) -> None:
    done = opaq("examples", "two-sink", "--to", "mine.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "opaq: wrote mine.yaml\n")
    assert (tmp_path / "mine.yaml").read_text() == scenarios.text("two-sink")
    again = opaq("examples", "graph", "--to", "mine.yaml")
    assert (again.returncode, again.stdout) == (2, "")
    assert "mine.yaml: exists already; use --force to overwrite it" in again.stderr
    assert (tmp_path / "mine.yaml").read_text() == scenarios.text("two-sink")
    assert opaq("examples", "graph", "--to", "mine.yaml", "--force").returncode == 0
    assert (tmp_path / "mine.yaml").read_text() == scenarios.text("graph")
    assert opaq("check", "mine.yaml").returncode == 0


def test_an_example_is_copied_into_a_folder(opaq, tmp_path: Path) -> None:
    assert opaq("examples", "graph", "--to", ".").returncode == 0
    assert (tmp_path / "graph.yaml").exists()
    assert opaq("examples", "graph", "--to", "no/such/file.yaml").returncode == 2
