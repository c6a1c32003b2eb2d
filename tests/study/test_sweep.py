"""Sweeps: what is recorded, what is done again and what is not, and folders that cannot be used."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import opaq
from opaq.files import lock_folder
from opaq.study.workers.executor import Ended
from opaq.study.workers.task import PointAnswer
from stress.sweep_audit import audit, counts, results
from study.inline_executor import InlineExecutor

PLAN: dict[str, Any] = {
    "opaq-sweep": 1,
    "problem": "two-sink",
    "over": {"task.return_at_least": [0.2, 0.4, 9], "policy.conditions_on": [["state"], ["state", "time"]]},
    "solve": {"starts": 1},
}
SHORT = {"starts": 1, "solver": "primal-dual", "iterations": 20}


def swept(folder: Path, executor: InlineExecutor | None = None, **more: Any) -> opaq.Study:
    return opaq.sweep(PLAN, output=folder, executor=executor or InlineExecutor(), **more)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    swept(folder)
    return folder


def test_each_point_is_what_solving_it_gives(alone: Path) -> None:
    study = opaq.load_study(alone)
    assert [point.status for point in study.points] == ["converged"] * 4 + ["infeasible"] * 2
    assert len(study.infeasible) == 2
    for name in ("0003", "0004"):  # no neighbour to begin from
        point = next(point for point in study.points if point.name == name)
        spec = opaq.problem_to_dict(opaq.load_problem("two-sink"))
        spec["policy"] = {"conditions_on": point.parameters["policy.conditions_on"]}
        spec["task"] = {"return_at_least": point.parameters["task.return_at_least"]}
        problem = opaq.build_problem(spec)
        direct = opaq.solve(problem, starts=1)
        assert point.opacity == direct.measurement.opacity
        assert point.expected_return == direct.measurement.expected_return
        saved = opaq.load_policy(alone / str(point.policy_file), problem)
        assert opaq.measure(problem, saved).opacity.value == pytest.approx(point.opacity.value, abs=1e-12)
        assert study.answer(point)["opacity"]["value"] == point.opacity.value
        assert study.policy(point) == json.loads((alone / str(point.policy_file)).read_text())


def test_the_table_has_a_row_per_point(alone: Path) -> None:
    study = opaq.load_study(alone)
    with open(alone / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["point"] for row in rows] == ["0001", "0002", "0003", "0004", "0005", "0006"]
    assert [float(row["opacity"]) for row in rows] == [point.opacity.value for point in study.points]
    assert rows[1]["policy.conditions_on"] == '["state", "time"]'
    assert rows[0]["task.return_at_least"] == "0.2"
    assert {"opacity_lower", "opacity_upper", "return", "guess_error", "status", "seconds", "seed"} <= set(rows[0])
    assert audit(alone) == []


def test_text_in_the_table_is_never_a_formula(tmp_path: Path) -> None:
    names = ["=1+1", "+a", "-a", "@a", "-2", "plain"]
    over = {"name": names, "task.return_at_least": [-0.5]}
    opaq.sweep(PLAN | {"over": over, "solve": SHORT}, output=tmp_path, executor=InlineExecutor())
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["'=1+1", "'+a", "'-a", "'@a", "-2", "plain"]
    assert {row["task.return_at_least"] for row in rows} == {"-0.5"}
    assert [point.parameters["name"] for point in opaq.load_study(tmp_path).points] == names


def test_the_table_as_a_dataframe(alone: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = opaq.load_study(alone).to_dataframe()
    assert list(table["status"])[-1] == "infeasible"
    assert table["opacity"].dtype == "float64"
    pytest.importorskip("pyarrow")
    assert pandas.read_parquet(alone / "results.parquet").equals(table)


def test_points_along_a_threshold_begin_from_the_harder_one(tmp_path: Path) -> None:
    plan = PLAN | {"over": {"task.return_at_least": [0.5, 1.5, 1.2]}}
    executor = InlineExecutor()
    study = opaq.sweep(plan, output=tmp_path, executor=executor)
    assert executor.solved == [0, 1, 2]
    assert [point.warm_from for point in study.points] == [None, None, "0002"]
    assert study.answer("0003")["starts"][0]["kind"] == "warm"
    assert study.points[2].opacity.value >= study.points[1].opacity.value


def test_what_is_done_is_never_done_again(alone: Path, tmp_path: Path) -> None:
    stop = opaq.Stop()

    def stop_at_three(count: int) -> None:
        if count == 3:
            stop.request()

    begun = swept(tmp_path, InlineExecutor(stop_at_three), stop=stop)
    assert begun.interrupted
    assert len(begun.unfinished) == 3
    with open(tmp_path / "results.csv", newline="") as file:
        assert sum(bool(row["opacity"]) for row in csv.DictReader(file)) == 3
    (tmp_path / "policies" / "0001.json").unlink()  # files are made from the journal
    executor = InlineExecutor()
    assert not swept(tmp_path, executor).unfinished
    assert len(executor.solved) == 3
    assert executor.closed
    assert audit(tmp_path, alone) == []
    again = InlineExecutor()
    swept(tmp_path, again)
    assert again.begun == []


def test_a_lost_worker_is_replaced_and_a_point_that_kills_them_fails(alone: Path, tmp_path: Path) -> None:
    lost = Ended(0, "lost", None, "its process was ended by SIGKILL")
    executor = InlineExecutor(lambda count: lost if count in (1, 3) else None)
    swept(tmp_path / "some", executor)
    assert audit(tmp_path / "some", alone) == []
    assert counts(tmp_path / "some") == {"sessions": 1, "done": 12, "lost": 2}

    executor = InlineExecutor(lambda count: lost if executor.begun[-1] == 5 else None)
    study = swept(tmp_path / "one", executor)
    assert [point.name for point in study.failed] == ["0006"]
    assert "lost 5 times, the last time: its process was ended by SIGKILL" in study.failed[0].error
    assert len(study.unfinished) == 0


def test_failed_points_are_solved_again_when_asked(alone: Path, tmp_path: Path) -> None:
    late = Ended(0, "late", None, "it took longer than 1 s")
    said: list[str] = []
    executor = InlineExecutor(lambda count: late if executor.begun[-1] == 4 else None)
    swept(tmp_path, executor, on_progress=lambda progress: said.append(progress.message))
    assert [message for message in said if message] == [
        'point 0005 (task.return_at_least 9, policy.conditions_on ["state"]) failed: it took longer than 1 s'
    ]
    left = InlineExecutor()
    assert len(swept(tmp_path, left).failed) == 1
    assert left.begun == []
    again = InlineExecutor()
    assert not swept(tmp_path, again, retry=True).failed
    assert again.solved == [4]
    assert audit(tmp_path, alone) == []


def test_solving_a_failed_point_again_repairs_those_that_begin_from_it(tmp_path: Path) -> None:
    plan = PLAN | {"over": {"task.return_at_least": [1.5, 1.4, 1.3, 1.2, 1.1]}, "solve": SHORT}
    opaq.sweep(plan, output=tmp_path / "alone", executor=InlineExecutor())
    lost = Ended(0, "lost", None, "its process was ended by SIGKILL")
    executor = InlineExecutor(lambda count: lost if executor.begun[-1] == 0 else None)
    damaged = opaq.sweep(plan, output=tmp_path / "killed", executor=executor)
    assert [point.warm_from for point in damaged.points] == [None, None, "0002", None, "0004"]
    stop = opaq.Stop()
    again = InlineExecutor(lambda count: stop.request() if count == 2 else None)
    partly = opaq.sweep(plan, output=tmp_path / "killed", executor=again, retry=True, stop=stop)
    assert again.solved == [0, 1]
    assert [point.name for point in partly.unfinished] == ["0003"]  # what it began from is no more
    rest = InlineExecutor()
    repaired = opaq.sweep(plan, output=tmp_path / "killed", executor=rest)
    assert rest.solved == [2]
    assert [point.warm_from for point in repaired.points] == [None, "0001", "0002", None, "0004"]
    assert audit(tmp_path / "killed", tmp_path / "alone") == []
    assert counts(tmp_path / "killed")["outdated"] == 2 + 6  # solved from nothing; later passes without point 0001


def test_a_point_that_fails_again_leaves_the_others_alone(tmp_path: Path) -> None:
    plan = PLAN | {"over": {"task.return_at_least": [1.5, 1.4, 1.3]}, "solve": SHORT}
    late = Ended(0, "late", None, "it took longer than 1 s")
    opaq.sweep(plan, output=tmp_path, executor=InlineExecutor(lambda count: late if count == 1 else None))
    again = InlineExecutor(lambda count: late)
    assert len(opaq.sweep(plan, output=tmp_path, executor=again, retry=True).failed) == 1
    assert again.solved == [0]


def test_a_model_file_that_changes_fails_the_points_that_would_mix_two_models(tmp_path: Path) -> None:
    model = tmp_path / "chain.POMDP"
    text = (
        "discount: 1\nvalues: reward\nstates: a b c\nactions: go\nobservations: dark\nstart: a\n"
        "T: go : a\n0 {} {}\nT: go : b\n0 1 0\nT: go : c\n0 0 1\nO: * : * : dark 1\n"
    )
    model.write_text(text.format(0.5, 0.5))
    problem = {"opaq": 1, "pomdp": str(model), "observer": {"emissions": {"*": "dark"}}, "secret": {"last_state": "b"}}
    plan = PLAN | {"problem": problem, "over": {"horizon": [1, 2, 3]}}

    def change(count: int) -> None:
        model.write_text(text.format(*((0.5, 0.5) if count == 1 else (0.9, 0.1))))

    study = opaq.sweep(plan, output=tmp_path / "out", executor=InlineExecutor(change))
    assert [point.status for point in study.points] == ["converged", "failed", "failed"]
    assert (
        "problem: is not as it was when the sweep was begun: a file that it names has changed" in study.points[1].error
    )
    page = opaq.report(study, output=tmp_path / "page.html", points=1)
    assert "1 could not be made (problem: is not as it was when the sweep was begun" in page.html
    with pytest.raises(opaq.InputError, match="problem: is not as it was"):
        opaq.sweep(plan, output=tmp_path / "out", executor=InlineExecutor(), retry=True)
    model.write_text(text.format(0.5, 0.5))
    restored = opaq.sweep(plan, output=tmp_path / "out", executor=InlineExecutor(), retry=True)
    assert [point.opacity.value for point in restored.points] == [1.0, 1.0, 1.0]


def test_a_fault_in_one_point_does_not_stop_the_others(tmp_path: Path) -> None:
    plan = PLAN | {"over": {"horizon": [2, 3]}, "time_limit": 60}
    broken = Ended(0, "answered", PointAnswer(error="MemoryError", seconds=1.0, versions={}))
    study = opaq.sweep(plan, output=tmp_path, executor=InlineExecutor(lambda count: broken if count == 1 else None))
    assert [point.status for point in study.points] == ["failed", "converged"]


def test_bounds_are_recorded_when_asked_for(tmp_path: Path) -> None:
    study = opaq.sweep(PLAN | {"over": {"horizon": [2]}, "certify": 5}, output=tmp_path, executor=InlineExecutor())
    (point,) = study.points
    assert point.upper_bound >= point.opacity.value
    assert point.gap == pytest.approx(point.upper_bound - point.opacity.lower)


def test_a_problem_may_be_an_object(alone: Path, tmp_path: Path) -> None:
    study = opaq.sweep(PLAN | {"problem": opaq.load_problem("two-sink")}, output=tmp_path, executor=InlineExecutor())
    assert [point.opacity for point in study.points] == [point.opacity for point in opaq.load_study(alone).points]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"over": {"horizon": [2]}}, r"over\.horizon: .* in the folder, \[2\] now; use another folder"),
        ({"over": {"horizon": [2]}}, r"over\.task\.return_at_least: \[.*\] in the folder, not there now"),
        ({"over": {"horizon": [*range(2, 90), 97]}}, r"over\.horizon: .* in the folder, .*\[2, 3, .* now"),
        ({"solve": {"starts": 2}}, r"solve\.starts: 1 in the folder, 2 now"),
        ({"problem": "graph"}, "problem: is not as it was when the sweep was begun"),
        ({"certify": True}, r"certify: 0.0 in the folder, 60.0 now"),
    ],
)
def test_the_folder_of_another_plan_is_refused(alone: Path, change: dict[str, Any], words: str) -> None:
    before = results(alone)
    with pytest.raises(opaq.InputError, match=words):
        opaq.sweep(PLAN | change, output=alone, executor=InlineExecutor())
    assert results(alone) == before


def test_another_time_limit_is_not_another_plan(alone: Path) -> None:
    assert opaq.sweep(PLAN | {"time_limit": 99}, output=alone, executor=InlineExecutor(), time_limit=50).points


def test_two_sweeps_on_one_folder(tmp_path: Path) -> None:
    tmp_path.joinpath("busy").mkdir()
    with lock_folder(tmp_path / "busy"), pytest.raises(opaq.InputError, match=r"another process .* is working on this"):
        swept(tmp_path / "busy")


@pytest.mark.parametrize("damage", ["all", "head", "middle", "empty"])
def test_a_damaged_journal_is_refused_and_left_alone(alone: Path, tmp_path: Path, damage: str) -> None:
    swept(tmp_path)
    file = tmp_path / "journal.sqlite"
    content = bytearray(file.read_bytes())
    garbage = os.urandom(len(content))
    parts = {"all": slice(None), "head": slice(0, 64), "middle": slice(4096, 16384)}
    if damage == "empty":
        content = bytearray()
    else:
        content[parts[damage]] = garbage[parts[damage]]
    file.write_bytes(content)
    for call in (lambda: swept(tmp_path), lambda: opaq.load_study(tmp_path)):
        with pytest.raises(opaq.InputError, match=r"journal.*(damaged|is not the journal of a sweep)"):
            call()
    assert file.read_bytes() == content
    assert len(list((tmp_path / "policies").iterdir())) == 6


def test_a_flipped_bit_in_a_journal_is_refused_or_changes_nothing(alone: Path, tmp_path: Path) -> None:
    content = (alone / "journal.sqlite").read_bytes()
    study, rows, rng, refused = opaq.load_study(alone), results(alone), Random(0), list[str]()
    bits = [*range(18 * 8, 20 * 8), *range(60 * 8, 64 * 8), *(rng.randrange(8 * len(content)) for _ in range(200))]
    bits += [8 * place + 7 for place in range(3000, 4096, 40)]  # names of tables and columns that are no text any more
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "journal.sqlite").write_bytes(flipped)
        try:
            assert opaq.load_study(tmp_path).points == study.points
            assert results(tmp_path) == rows
        except opaq.InputError as error:
            refused.append(str(error))
    assert len(refused) > len(bits) / 4
    assert [words for words in refused if not re.search("damaged.*restore the file from a copy", words)] == []


@pytest.mark.parametrize(
    "change",
    [
        "plan SET value = 'true' WHERE part = 'certify'",
        "plan SET value = 'no JSON' WHERE part = 'over'",
        "points SET parameters = replace(parameters, '0.2', '0.3')",
        "points SET warm_from = 1",
        "sessions SET executor = 'ray'",
        "attempts SET ending = 'lost'",
        "results SET answer = replace(answer, '\"feasible\": true', '\"feasible\": false')",
        "results SET answer = '[1'",
        "results SET seconds = seconds + 1",
        "results SET answer = replace(answer, '0.2', '0.3')",
        "results SET policy = NULL",
        "results SET point = point + 10",
    ],
)
def test_a_record_that_does_not_match_its_checksum_is_refused(alone: Path, tmp_path: Path, change: str) -> None:
    shutil.copy(alone / "journal.sqlite", tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal, journal:
        journal.execute(f"UPDATE {change}")
    for call in (lambda: swept(tmp_path), lambda: opaq.load_study(tmp_path)):
        with pytest.raises(
            opaq.InputError, match=r"the journal is damaged \(a row of .* its checksum\); nothing was ch"
        ):
            call()


def test_results_without_a_journal_are_not_overwritten(alone: Path, tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("mine\n")
    with pytest.raises(opaq.InputError, match="but no journal"):
        swept(tmp_path)
    assert (tmp_path / "results.csv").read_text() == "mine\n"


def mounted(path: Path, options: str) -> None:
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a file system needs the rights of root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    mounted(path, "size=1m")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_is_said_and_nothing_is_lost(alone: Path, small_disk: Path) -> None:
    def fill(count: int) -> None:
        if count == 4:
            with open(small_disk / "filler", "wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(4096))

    executor = InlineExecutor(fill)
    with pytest.raises(opaq.InputError, match=r"(cannot be|full)"):
        swept(small_disk / "out", executor)
    assert executor.closed
    (small_disk / "filler").unlink()
    again = InlineExecutor()
    swept(small_disk / "out", again)
    assert len(again.solved) in (2, 3)
    assert audit(small_disk / "out", alone) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    if os.geteuid():
        path.mkdir()
        path.chmod(0o500)
    else:
        mounted(path, "ro,size=1m")
    try:
        with pytest.raises(opaq.InputError, match=r"cannot be|may not"):
            swept(path)
    finally:
        if not os.geteuid():
            subprocess.run(["umount", "-l", str(path)], check=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(opaq.InputError, match="cannot be made a folder"):
        swept(tmp_path / "file" / "out")


def test_the_journal_keeps_one_result_per_point(alone: Path) -> None:
    with sqlite3.connect(alone / "journal.sqlite") as journal, pytest.raises(sqlite3.IntegrityError):
        journal.execute("INSERT INTO results SELECT * FROM results WHERE point = 0")


@pytest.mark.parametrize("on", ["lokal", "ray://", "ray:/x"])
def test_an_unknown_executor_is_refused(on: str, tmp_path: Path) -> None:
    with pytest.raises(opaq.InputError, match="use local, ray or ray://HOST:PORT"):
        opaq.sweep(PLAN, output=tmp_path / "out", executor=on)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", ["file", "word", "plan"])
def test_points_begin_from_a_policy_that_is_given(given: str, tmp_path: Path) -> None:
    problem = opaq.load_problem("two-sink")
    opaq.save_policy(opaq.solve(problem, starts=1).policy, tmp_path / "first.csv", problem=problem)
    plan = {"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [2, 3]}, "solve": SHORT, "warm": False}
    initial: Any = "return-optimal" if given == "word" else str(tmp_path / "first.csv")
    if given == "plan":
        file = tmp_path / "plan.yaml"
        file.write_text(json.dumps(plan | {"initial_policy": "first.csv"}))  # beside the plan
        study = opaq.sweep(file, output=tmp_path / "out", executor=InlineExecutor())
    else:
        study = opaq.sweep(plan, output=tmp_path / "out", executor=InlineExecutor(), initial_policy=initial)
    assert [point.warm_from for point in study.points] == ["initial policy"] * 2
    kinds = [study.answer(point)["starts"][0]["kind"] for point in study.points]
    assert kinds == ["warm", "warm"]
    with pytest.raises(opaq.InputError, match="initial_policy"):  # another sweep than the one that was begun
        opaq.sweep(plan, output=tmp_path / "out", executor=InlineExecutor(), initial_policy="uniform")
    with pytest.raises(opaq.InputError):
        opaq.sweep(plan, output=tmp_path / "no", executor=InlineExecutor(), initial_policy=str(tmp_path / "none.csv"))


def test_points_that_have_neighbours_begin_from_them(tmp_path: Path) -> None:
    plan = {"opaq-sweep": 1, "problem": "two-sink", "over": {"horizon": [2, 3, 4]}, "solve": SHORT}
    study = opaq.sweep(plan, output=tmp_path, executor=InlineExecutor(), initial_policy="return-optimal")
    begun = [point.warm_from for point in study.points]
    assert begun[0] == "initial policy"
    assert set(begun[1:]) <= {"0001", "0002", "initial policy"}
