"""A run goes on only with the problem and options it was begun with, one process at a time."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import opaq
from commands import opaq_command
from opaq.errors import InputError
from opaq.files import lock_folder
from opaq.model.arrays import SparseRows, floats
from opaq.model.fingerprint import digest, problem_parts
from opaq.model.problem import Task
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.runs import RECORD_FILE, RunRecord, describe_differences, read_run
from random_problems import random_problem

SOLVE = [sys.executable, "-m", "opaq", "solve"]
FEW = PrimalDual(iterations=3)


def command(*arguments):
    return opaq_command("solve", *arguments)


def changed(problem):
    """Every kind of change that makes another problem, and what is said of it."""
    mdp = problem.mdp
    values = mdp.transitions.values.copy()
    row = int(np.flatnonzero(np.diff(mdp.transitions.starts) >= 2)[0])
    first = int(mdp.transitions.starts[row])
    values[first : first + 2] += [1e-6, -1e-6]
    emission = problem.observer.emission
    shown = emission.values.copy()
    shown[shown == 0.5] = np.resize([0.25, 0.75], (shown == 0.5).sum())
    return {
        "the horizon was 3 and is 2": replace(problem, horizon=2),
        "the discount was 1 and is 0.5": replace(problem, discount=0.5),
        "the least return asked for was 0.2": replace(problem, task=Task(return_at_least=0.25)),
        "the direction of the search": replace(problem, task=replace(problem.task, minimise=True)),
        "the transitions differ": replace(
            problem, mdp=replace(mdp, transitions=replace(mdp.transitions, values=floats(values)))
        ),
        "the rewards differ": replace(problem, mdp=replace(mdp, rewards=floats(mdp.rewards + 1e-3))),
        "the start distribution differs": replace(problem, mdp=replace(mdp, start=floats(np.roll(mdp.start, 1)))),
        "the observer differs": replace(
            problem,
            observer=replace(problem.observer, emission=replace(emission, values=floats(shown))),
        ),
        "the conditions of the policy were state, automaton and are state, time": replace(
            problem, policy_class=replace(problem.policy_class, conditions_on=("state", "time"))
        ),
    }


def small():
    return replace(opaq.load_problem("graph"), horizon=3)


@pytest.mark.parametrize("words", list(changed(small())))
def test_another_problem_in_the_same_folder_is_refused_with_what_differs(tmp_path, words):
    problem = small()
    opaq.solve(problem, solver=FEW, starts=1, run_folder=tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        opaq.solve(changed(problem)[words], solver=FEW, starts=1, run_folder=tmp_path)
    assert "another folder" in str(refused.value)
    assert len(refused.value.faults) <= 2


def test_another_number_of_states_is_one_fault():
    parts = problem_parts(random_problem(np.random.default_rng(0), conditions=("state",)))
    other = parts | {"number of states": 77, "transitions": "sha256:0", "rewards": "sha256:0", "observer": "sha256:0"}
    assert describe_differences(parts, other) == [f"the number of states was {parts['number of states']} and is 77"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "seed: 0 in the run, 1 now"),
        ({"starts": 2}, "starts: 1 in the run, 2 now"),
        ({"start": "random"}, "start: mixed in the run, random now"),
        ({"gradients": "sampled"}, "gradients: exact in the run, sampled now"),
        ({"solver": PrimalDual(iterations=4)}, "solver.iterations: 3 in the run, 4 now"),
        ({"solver": None}, "solver: primal-dual in the run, natural now"),
        ({"max_beliefs": 1000}, "budget.nodes: 1000000 in the run, 1000 now"),
    ],
)
def test_other_options_in_the_same_folder_are_refused(tmp_path, options, words):
    same = {"solver": FEW, "starts": 1, "run_folder": tmp_path}
    opaq.solve(small(), **same)
    opaq.solve(small(), **same, workers=2)
    with pytest.raises(InputError, match=words):
        opaq.solve(small(), **(same | options))


def test_another_warm_policy_is_refused(tmp_path):
    problem = small()
    one, two = (opaq.solve(problem, solver=PrimalDual(iterations=count), starts=1).policy for count in (1, 9))
    opaq.solve(problem, solver=FEW, starts=1, initial_policy=one, run_folder=tmp_path)
    with pytest.raises(InputError, match="warm policy: another one"):
        opaq.solve(problem, solver=FEW, starts=1, initial_policy=two, run_folder=tmp_path)


def test_checkpoints_without_a_record_are_refused(tmp_path):
    opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)
    (tmp_path / RECORD_FILE).unlink()
    with pytest.raises(InputError, match="no record of their problem; remove them"):
        opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)
    done = command("graph", "--run-folder", tmp_path)
    assert done.returncode == 2
    assert "no record of their problem" in done.stderr


def test_another_version_is_noted_and_another_checkpoint_format_refused(tmp_path):
    opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)
    record = RunRecord.read(tmp_path)
    (tmp_path / RECORD_FILE).write_text(replace(record, opaq=("0.0.9",)).text())
    opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)
    assert RunRecord.read(tmp_path).opaq == ("0.0.9", opaq.__version__)
    (tmp_path / RECORD_FILE).write_text(replace(record, opaq=("0.0.9",), checkpoints=1).text())
    with pytest.raises(InputError, match=r"written by opaq 0\.0\.9 in format 1"):
        opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)


def test_an_edited_problem_is_refused_on_resume_and_the_old_text_is_kept(tmp_path):
    file, folder = tmp_path / "mine.yaml", tmp_path / "run"
    file.write_text(opaq.scenario_text("graph"))
    options = ["--solver", "primal-dual", "--iterations", "3", "--starts", "1"]
    assert command(file, *options, "--run-folder", folder).returncode == 0
    assert (folder / "problem.yaml").read_text() == file.read_text()
    file.write_text(file.read_text().replace("return_at_least: 0.2", "return_at_least: 0.3"))
    done = command("--resume", folder)
    assert done.returncode == 2
    assert "the least return asked for was 0.2" in done.stderr
    file.unlink()
    done = command("--resume", folder)
    assert done.returncode == 2
    assert "problem.yaml" in done.stderr


def test_options_beside_resume_must_agree(tmp_path):
    folder = tmp_path / "run"
    options = ["--solver", "primal-dual", "--iterations", "3", "--starts", "1"]
    assert command("graph", *options, "--run-folder", folder).returncode == 0
    assert command("--resume", folder, "--starts", "1", "--workers", "1", "--seed", "0", "--json").returncode == 0
    done = command("--resume", folder, "--seed", "1", "--starts", "2")
    assert done.returncode == 2
    assert "--seed: 0 in the run, 1 now" in done.stderr
    assert "--starts: 1 in the run, 2 now" in done.stderr
    assert command("--resume", folder, "--run-folder", tmp_path / "other").returncode == 2


def test_a_faulty_problem_leaves_no_run_behind(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("opaq: 1\n")
    assert command(file, "--run-folder", tmp_path / "run").returncode == 2
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_run_is_told_as_such(tmp_path):
    done = command("--resume", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "holds no run" in done.stderr


def test_fingerprints_see_values_and_not_rounding():
    assert digest(np.array([0.1 + 0.2, 1.0])) == digest(np.array([0.3, 1.0]))
    assert digest(np.array([0.3, 1.0])) != digest(np.array([0.3 + 1e-9, 1.0]))
    assert digest(np.zeros((2, 3))) != digest(np.zeros((3, 2)))
    assert digest(("a", "b")) != digest(("ab",))
    assert digest(SparseRows.from_dense(np.eye(2))) != digest(SparseRows.from_dense(np.eye(3)))
    rng = np.random.default_rng(0)
    for _ in range(20):
        problem = random_problem(rng)
        assert problem_parts(problem) == problem_parts(replace(problem, name="another name"))


def test_a_second_process_is_refused_and_a_killed_one_leaves_nothing(tmp_path):
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*SOLVE, "graph", "--starts", "500", "--workers", "1", "--run-folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not list(folder.rglob("start-*.npz")) and process.poll() is None:
        time.sleep(0.05)
    done = command("--resume", folder)
    assert done.returncode == 2
    assert f"another process ({process.pid}) is working on this run" in done.stderr
    assert command("graph", "--run-folder", folder).returncode == 2
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with lock_folder(folder):
        pass


def test_one_process_holds_a_folder_once(tmp_path):
    with (
        lock_folder(tmp_path),
        pytest.raises(InputError, match=f"another process \\({os.getpid()}\\)"),
        lock_folder(tmp_path),
    ):
        pass
    with lock_folder(tmp_path):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"format": "opaq-run", "version": 1, "problem": "graph", "options": {}}',
        b'{"format": "opaq-run", "version": 2}',
        b'{"format": "opaq-run", "version": 2, "checksum": NaN}',
        b"[" * 200_000,
        b'{"format": "opaq-run", "version": ' + b"9" * 5000 + b"}",
        b" " * (1 << 21),
    ],
)
def test_any_other_record_is_a_clear_fault(tmp_path, content):
    (tmp_path / RECORD_FILE).write_bytes(content)
    with pytest.raises(InputError, match=RECORD_FILE):
        RunRecord.read(tmp_path)


def test_a_record_with_one_byte_changed_is_a_clear_fault(tmp_path):
    opaq.solve(small(), solver=FEW, starts=1, run_folder=tmp_path)
    whole = (tmp_path / RECORD_FILE).read_bytes()
    before = json.loads(whole)
    rng = np.random.default_rng(0)
    for _ in range(100):
        torn = bytearray(whole)
        torn[rng.integers(len(torn))] ^= 1 << int(rng.integers(8))
        (tmp_path / RECORD_FILE).write_bytes(bytes(torn))
        try:
            record = RunRecord.read(tmp_path)
        except InputError:
            continue
        assert record.problem == before["problem"]  # only white space was changed


def test_one_call_keeps_all_that_the_command_keeps(tmp_path):
    options = {"starts": 1, "solver": "primal-dual", "iterations": 3, "run_folder": tmp_path / "run"}
    solution = opaq.solve("two-sink", **options)
    names = {file.name for file in (tmp_path / "run").iterdir()} - {".lock"}
    assert {"run.json", "problem.yaml", "result.json", "policy.json"} <= names
    kept = opaq.Solution.from_dict(json.loads((tmp_path / "run" / "result.json").read_text()))
    assert kept.measurement.opacity == solution.measurement.opacity
    assert opaq.load_policy(tmp_path / "run" / "policy.json", opaq.load_problem("two-sink")) == solution.policy
    source, recorded, _ = read_run(tmp_path / "run")
    assert (source, recorded["starts"], recorded["initial_policy"]) == ("two-sink", 1, None)
    again = opaq.solve("two-sink", **options)
    assert np.array_equal(again.pi, solution.pi)
