"""Commands on problems with several observers: figures, options that name a pair, exit codes."""

from __future__ import annotations

import json

import pytest


def test_measure_tells_every_pair(opaq) -> None:
    told = json.loads(opaq("measure", "disclosure", "--json", "--quiet").stdout)
    assert [(one["of"], one["for"]) for one in told["figures"]] == [("harbour", "street"), ("harbour", "control")]
    assert told["opacity"] == told["figures"][0]["opacity"]
    assert set(told["figures"][0]) == {"of", "for", "opacity", "guess_error", "secret_entropy"}
    limit = told["requirements"][-1]
    assert (limit["direction"], limit["threshold"], limit["feasible"]) == ("at_most", 0.4, False)
    assert told["feasible"] is False
    page = opaq("measure", "disclosure", "--quiet", "--sequences", "0").stdout
    assert "MISSES the threshold at most 0.4" in page
    assert [line.split()[:2] for line in page.splitlines() if line.startswith("harbour ")] == [
        ["harbour", "street"],
        ["harbour", "control"],
    ]


def test_measure_tells_who_assumes(opaq) -> None:
    rival, informed = json.loads(opaq("measure", "believer", "--json", "--quiet").stdout)["figures"]
    assert rival["cross_entropy"]["value"] == pytest.approx(
        rival["opacity"]["value"], abs=1e-12
    )  # uniform is true here
    assert (rival["impossible"], rival["excluded"]) == (0.0, 0.0)
    assert "cross_entropy" not in informed


def test_solve_discloses_to_one_and_hides_from_the_other(opaq) -> None:
    done = opaq("solve", "disclosure", "--json", "--quiet", "--starts", "2", "--save-policy", "p.json")
    told = json.loads(done.stdout)
    street, control = (one["opacity"]["value"] for one in told["figures"])
    assert done.returncode == 0
    assert street > 0.98
    assert control <= 0.4 + 1e-9
    about = json.loads(opaq("measure", "disclosure", "--policy", "p.json", "--for", "control", "--json", "-q").stdout)
    assert about["opacity"]["value"] == pytest.approx(control, abs=1e-12)
    proven = json.loads(opaq("certify", "disclosure", "--policy", "p.json", "--time-limit", "1", "--json", "-q").stdout)
    assert proven["left_out"] == ["opacity for control at most 0.4"]
    assert proven["upper_bound"] >= street


def test_commands_take_the_pair_by_name(opaq) -> None:
    runs = json.loads(opaq("simulate", "disclosure", "--runs", "1", "--for", "control", "--json", "--quiet").stdout)
    assert {step["observation"] for step in runs[0]["steps"]} <= {"depot", "north", "south", "bridge", "harbour"}
    assert opaq("plot", "beliefs", "disclosure", "-o", "b.svg", "--for", "control", "--quiet").returncode == 0
    assert opaq("report", "disclosure", "-o", "r.html", "--for", "control", "--runs", "1", "--quiet").returncode == 0


@pytest.mark.parametrize("command", [("measure",), ("simulate",), ("plot", "beliefs"), ("report",)])
def test_unknown_names_are_faults_of_the_options(opaq, command: tuple[str, ...]) -> None:
    output = ("-o", "file.svg") if command[0] == "plot" else ("-o", "r.html") if command[0] == "report" else ()
    done = opaq(*command, "disclosure", *output, "--of", "harbor", "--for", "nobody")
    assert done.returncode == 2
    assert "--of: there is no secret 'harbor'; did you mean 'harbour'?" in done.stderr
    assert "--for: there is no observer 'nobody'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_varies_the_pair(opaq, tmp_path) -> None:
    plan = "opaq-sweep: 1\nproblem: disclosure\nover: {task.maximise.for: [street, control]}\n"
    (tmp_path / "plan.yaml").write_text(plan, encoding="utf-8")
    done = opaq("check", "plan.yaml")
    assert done.returncode == 0
    assert "task.maximise.for  2: street, control" in done.stdout


LAST_YEAR = """
opaq: 1
model:
  states: [x, y]
  actions: [a, b]
  start: {x: 1}
  transitions: {x: {a: {y: 1}, b: {x: 1}}, y: {"*": {x: 0.5, y: 0.5}}}
  rewards: {y: 1}
observers:
  street: {emissions: {x: {N: 0.9, R: 0.1}, y: {N: 0.3, R: 0.7}}}
  rival: {emissions: {x: {N: 0.9, R: 0.1}, y: {N: 0.3, R: 0.7}}, assumes: {policy: uniform}}
secret: {last_state: [y]}
horizon: 2
task: {maximise: {for: rival}}
"""


def test_tables_have_a_column_for_the_figure_of_the_task(opaq, tmp_path) -> None:
    (tmp_path / "p.yaml").write_text(LAST_YEAR, encoding="utf-8")
    plan = "opaq-sweep: 1\nproblem: p.yaml\nover: {horizon: [2]}\nsolve: {starts: 1}\n"
    (tmp_path / "plan.yaml").write_text(plan, encoding="utf-8")
    told = json.loads(opaq("solve", "p.yaml", "--starts", "1", "--json", "--quiet").stdout)
    reached, opacity = told["objective"]["value"], told["opacity"]["value"]
    assert reached > opacity + 0.01
    head, *rows = opaq("frontier", "p.yaml", "--points", "2", "--quiet", COLUMNS="120").stdout.splitlines()
    assert "cross-entropy for rival" in head
    assert f"{reached:.5f}" in rows[0].split()
    head, row, *_ = opaq("sweep", "plan.yaml", "-o", "study", "--quiet", COLUMNS="120").stdout.splitlines()
    columns = dict(zip(head.split(), row.split(), strict=False))
    assert float(columns["objective"]) == pytest.approx(reached, abs=1e-4)
    assert float(columns["opacity"]) < reached - 0.01
    noted = opaq("compare", "p.yaml", "--classes", "state").stderr
    assert f"state: {reached:.4f} bits" in noted
