"""Runs that are stopped: checkpoints, kill -9, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import opaq
from commands import opaq_command
from opaq.errors import InputError
from opaq.product.compile import compile_problem
from opaq.solvers.lagrangian import AugmentedLagrangian
from opaq.solvers.loop import Candidate, SolverCheckpoint
from opaq.solvers.objective import Objective
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.runs import Checkpoint
from trials import long

SOLVE = [sys.executable, "-m", "opaq", "solve"]


@pytest.mark.parametrize("solver", [AugmentedLagrangian(), PrimalDual()])
def test_snapshots_read_back_bit_for_bit(tmp_path, solver):
    objective = Objective(compile_problem(opaq.load_problem("graph")))
    theta = np.random.default_rng(0).normal(size=objective.process.num_slots)
    rng = np.random.default_rng(7)
    state, info = solver.step(objective, solver.init(objective, theta), rng)
    now = SolverCheckpoint(state, rng, Candidate(theta, 0.5, np.array([0.1])), [info.trace])
    checkpoint = Checkpoint(tmp_path / "start.npz", solver.init(objective, theta))
    assert checkpoint.load() is None
    checkpoint.store(now, final=True)
    again = checkpoint.load()
    assert np.array_equal(again.state.theta, state.theta)
    assert np.array_equal(again.state.multipliers, state.multipliers)
    assert again.state.iteration == state.iteration
    assert again.rng.random() == rng.random()
    assert again.best.score == 0.5
    assert [trace.score for trace in again.traces] == [info.trace.score]
    assert np.array_equal(again.traces[0].slack, info.trace.slack)


def test_a_damaged_checkpoint_is_a_clear_fault(tmp_path):
    objective = Objective(compile_problem(opaq.load_problem("two-sink")))
    solver = PrimalDual()
    file = tmp_path / "start.npz"
    file.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(InputError, match="not a checkpoint of this run"):
        Checkpoint(file, solver.init(objective, np.zeros(objective.process.num_slots))).load()


def answer(*arguments):
    done = opaq_command("solve", *arguments, "--json", "--quiet")
    found = json.loads(done.stdout)
    for timed in ("seconds", "starts"):
        found.pop(timed)
    return found


@long
def test_resume_after_kill_9_gives_the_same_answer_bit_for_bit(tmp_path):
    options = ["graph", "--solver", "primal-dual", "--gradients", "sampled", "--samples", "200"]
    options += ["--iterations", "1500", "--starts", "1", "--start", "random", "--seed", "3"]
    whole = answer(*options)
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*SOLVE, *options, "--run-folder", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not list(folder.glob("start-*.npz")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert answer("--resume", str(folder)) == whole


def test_ctrl_c_tells_the_best_policy_so_far(tmp_path):
    options = ["graph", "--starts", "500", "--workers", "1", "--json"]
    process = subprocess.Popen(
        [*SOLVE, *options, "--run-folder", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    while len(list((tmp_path / "run").rglob("start-*.npz"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    found = json.loads(out)
    assert found["status"] == "interrupted"
    assert found["feasible"]


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    options = ["two-sink", "--starts", "1", "--run-folder", str(tmp_path / "run")]
    assert opaq_command("solve", *options).returncode == 0
    again = opaq_command("solve", *options)
    assert again.returncode == 2
    assert "--resume" in again.stderr


def test_policy_out_and_back(tmp_path):
    file = tmp_path / "policy.json"
    solved = opaq_command("solve", "graph", "--starts", "2", "--save-policy", file, "--json")
    measured = opaq_command("measure", "graph", "--policy", file, "--json")
    assert json.loads(measured.stdout)["opacity"]["value"] == pytest.approx(
        json.loads(solved.stdout)["opacity"]["value"], abs=1e-12
    )
    refused = opaq_command("solve", "graph", "--save-policy", file)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr


def test_infeasible_exits_1_and_says_what_is_attainable(tmp_path):
    text = opaq.scenario_text("graph").replace("return_at_least: 0.2", "return_at_least: 50")
    file = tmp_path / "hard.yaml"
    file.write_text(text)
    done = opaq_command("solve", file, "--save-policy", tmp_path / "hard.json")
    assert done.returncode == 1
    assert "can be at most" in done.stdout
