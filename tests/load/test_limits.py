"""Small inputs that ask for much: each is refused with the number, in little time and memory."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opaq
import opaq.formats.umb.reader as umb
import opaq.spec.yaml as reader
from counting import count_calls
from opaq.errors import BudgetError, InputError
from opaq.formats.umb.archive import pack_archive, read_archive
from opaq.formats.umb.reader import read_umb, write_umb
from opaq.model.arrays import SparseRows
from opaq.model.automaton import Automaton


def written(folder: Path, text: str) -> Path:
    (folder / "problem.yaml").write_text(text)
    return folder / "problem.yaml"


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
@pytest.mark.parametrize("kind", ["umb", "pomdp", "prism", "jani", "drn"])
@pytest.mark.parametrize(
    ("target", "reason"),
    [("/dev/zero", "not a regular file"), ("pipe", "not a regular file"), (".", "is a folder"), ("none", "no such")],
)
def test_models_are_regular_files(tmp_path: Path, kind: str, target: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / f"model.{kind}").symlink_to(target)
    rest = "observer: {from: model}\nsecret: {initial_state: true}\nhorizon: 2\n"
    file = written(tmp_path, f"opaq: 1\n{kind}: model.{kind}\n{rest}")
    with pytest.raises(InputError, match=reason) as caught:
        opaq.load_problem(file)
    assert f"{kind}: model.{kind}: " in str(caught.value)


@pytest.mark.parametrize("kind", ["umb", "pomdp"])
def test_impossible_names_are_faults(tmp_path: Path, kind: str) -> None:
    rest = "observer: {from: model}\nsecret: {initial_state: true}\nhorizon: 2\n"
    with pytest.raises(InputError, match="cannot be the name of a file"):
        opaq.load_problem(written(tmp_path, f'opaq: 1\n{kind}: "x\\0y.{kind}"\n{rest}'))


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_problems_policies_and_automata_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.hoa").symlink_to("/dev/zero")
    problem = opaq.scenario_text("two-sink").replace("last_state: secret", "automaton: {file: zero.hoa}")
    for path in (tmp_path / "pipe.yaml", "/dev/zero"):
        with pytest.raises(InputError, match="not a regular file"):
            opaq.load_problem(path)
        with pytest.raises(InputError, match="not a regular file"):
            opaq.load_policy(path, opaq.load_problem("two-sink"))
    with pytest.raises(InputError, match=r"zero\.hoa: cannot be read: it is a device"):
        opaq.load_problem(written(tmp_path, problem))


@pytest.mark.parametrize("compress", [gzip.compress, pytest.importorskip("lzma").compress])
def test_a_bomb_is_stopped_while_it_unfolds(tmp_path: Path, compress: Any) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("zeros.bin")
        entry.size = 80_000_000
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    file = tmp_path / "bomb.umb"
    file.write_bytes(compress(buffer.getvalue()))
    with pytest.raises(InputError, match=r"more than 67,108,864 bytes once decompressed; store it without"):
        read_umb(file)


TWO: dict[str, Any] = {
    "opaq": 1,
    "model": {
        "states": ["s", "t"],
        "actions": ["a", "b"],
        "start": "s",
        "transitions": {"s": {"a": "s", "b": "t"}, "t": {"*": {"s": 0.5, "t": 0.5}}},
        "labels": {"p": ["s"]},
    },
    "observer": {"emissions": {"*": "o"}},
    "secret": {"last_state": ["t"]},
    "horizon": 3,
}


def refused(spec: dict[str, Any], *, most_bytes: int = 300 << 20) -> str:
    """What a problem is refused with; memory is never taken for it."""
    tracemalloc.start()
    try:
        with pytest.raises((InputError, BudgetError)) as caught:
            opaq.compile_problem(opaq.build_problem(TWO | spec))
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()
    return str(caught.value)


def of_memory(**memory: Any) -> dict[str, Any]:
    return {"policy": {"conditions_on": ["state", {"memory": memory}]}}


def test_products_are_counted_before_they_are_built() -> None:
    assert "at least 20,000 states and 600,000,000 transitions" in refused(of_memory(nodes=10_000, update="free"))
    assert "remembers too much" in refused({"horizon": 2_000, "policy": {"conditions_on": [{"last_states": 1_000}]}})
    start = SparseRows.from_entries([0, 1], [0, 0], [1, 1], shape=(2, 6_000))
    everywhere = SparseRows.from_dense(np.full((1, 6_000), 1 / 6_000))
    update_of = np.zeros((6_000, 2, 2), dtype=np.int64)
    memory = opaq.Memory(tuple(map(str, range(6_000))), start, update_of, everywhere)
    conditions = {"policy": {"conditions_on": ["state", {"memory": memory}]}}
    assert "random updates branch into 215,988,000 transitions" in refused({"horizon": 5, **conditions})


def test_memories_are_counted_before_they_are_built() -> None:
    names = [f"s{place}" for place in range(2_000)]
    model = {"states": names, "actions": ["a"], "start": "s0", "transitions": {name: {"a": name} for name in names}}
    spec = {"model": model, "secret": {"last_state": ["s1"]}}
    assert "make 20,000,000 updates, more than 10,000,000" in refused(spec | of_memory(nodes=10_000))
    model = TWO["model"] | {"actions": [f"a{place}" for place in range(200)], "transitions": {"*": {}}}
    model["transitions"] = {"s": {"*": "t"}, "t": {"*": "s"}}
    assert "make 2,000,000 choices" in refused({"model": model} | of_memory(nodes=10_000, update="free"))


def test_what_a_star_stands_for_is_counted() -> None:
    states, actions = [f"s{place}" for place in range(100)], [f"a{place}" for place in range(3_000)]
    spread = dict.fromkeys(states, 0.01)
    model = {"states": states, "actions": actions, "start": "s0", "transitions": {s: {"*": spread} for s in states}}
    assert "the limit is 20,000,000" in refused({"model": model, "secret": {"last_state": ["s1"]}})
    states = [f"s{place}" for place in range(5_000)]
    model = {
        "states": states,
        "actions": ["a"],
        "start": "s0",
        "transitions": {state: {"*": state} for state in states},
    }
    observer = {"emissions": {"*": {f"o{place}": 1 / 5_000 for place in range(5_000)}}}
    found = refused({"model": model, "secret": {"last_state": ["s1"]}, "observer": observer})
    assert "observer.emissions: has 25,000,000 entries" in found
    model = model | {"actions": actions}
    observer = {"emissions": {"*": "o"}, "after_action": {"a0": {"*": "o"}}}
    model["transitions"] = {state: {"a0": state} for state in states[:5_000]}
    actions.extend(f"b{place}" for place in range(3_000))
    found = refused({"model": model, "secret": {"last_state": ["s1"]}, "observer": observer})
    assert "observer.after_action: has 30,000,000 entries" in found


def test_sensors_are_counted() -> None:
    grid = {"size": [200, 200], "start": [[0, 0]]}
    spec: dict[str, Any] = {key: value for key, value in TWO.items() if key not in ("model", "secret")}
    spec |= {"grid": grid, "secret": {"last_state": [[0, 0]]}}
    noisy = {f"n{place}": {"covers": [[0, 0]], "detects": 0.5, "false_alarm": 0.5} for place in range(10)}
    with pytest.raises(InputError, match="would have 40,960,000 joint outcomes"):
        opaq.build_problem(spec | {"observer": {"sensors": noisy}})
    many = {f"n{place}": {"covers": [[0, 0]], "detects": 0.5} for place in range(1_000)}
    with pytest.raises(InputError, match="1,000 sensors for 40,000 states are 40,000,000 pairs"):
        opaq.build_problem(spec | {"observer": {"sensors": many}})


def test_long_texts_are_refused() -> None:
    edge = {"from": "q", "to": "q", "when": " & ".join(["p"] * 300_000)}
    automaton = {"states": ["q"], "initial": "q", "accepting": [], "edges": [edge]}
    assert "a guard of 1,199,997 characters is too long" in refused({"secret": {"automaton": automaton}})
    assert "a name of 20,000 characters is too long" in refused({"name": "x" * 20_000})


def test_many_unknown_names_are_not_all_compared() -> None:
    names = [f"state number {place}" for place in range(300)]
    model = TWO["model"] | {"states": names, "transitions": {f"{name}!": {"*": "s"} for name in names}}
    assert "did you mean" in refused({"model": model})
    assert count_calls(lambda: refused({"model": model})) < 900_000


def test_automata_over_many_label_sets_are_counted() -> None:
    labels = {f"p{bit}": [f"s{place}" for place in range(4_096) if place >> bit & 1] for bit in range(12)}
    names = [f"s{place}" for place in range(4_096)]
    model = {"states": names, "actions": ["a"], "start": "s0", "transitions": {name: {"a": name} for name in names}}
    automaton = Automaton(tuple(f"q{place}" for place in range(50_000)), 0, frozenset(), ())
    found = refused({"model": model | {"labels": labels}, "secret": {"automaton": automaton}})
    assert "204,800,000 moves" in found


def test_documents_of_very_many_values_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(reader, "MAX_VALUES", 1_000)
    assert reader.parse_yaml("[" + "1," * 900 + "]").data == [1] * 900
    with pytest.raises(InputError, match="holds more than 1,000 values"):
        reader.parse_yaml("[" + "1," * 2_000 + "]")


def with_index(folder: Path, change: Any, **members: bytes) -> Path:
    """A small UMB file with a changed index and further members."""
    problem = opaq.load_problem("two-sink")
    write_umb(folder / "model.umb", problem.mdp, overwrite=True, compressed=False)
    content = {name: bytes(part) for name, part in read_archive(folder / "model.umb").members.items()}
    index = json.loads(content["index.json"])
    change(index)
    added = {name.replace("__", "/") + ".bin": part for name, part in members.items()}
    content |= added | {"index.json": json.dumps(index).encode()}
    (folder / "model.umb").write_bytes(pack_archive(content, compressed=False))
    return folder / "model.umb"


def test_umb_annotations_are_counted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(umb, "MAX_MARKED", 4)
    with pytest.raises(InputError, match=r"the labels up to here mark \d states; the limit is 4|are 6 numbers"):
        read_umb(with_index(tmp_path, lambda index: None))


def test_umb_texts_that_cannot_be_written_again_are_refused(tmp_path: Path) -> None:
    def half(index: dict[str, Any]) -> None:
        next(iter(index["annotations"]["aps"].values()))["alias"] = "\ud800"

    with pytest.raises(InputError, match=r"index\.json: is not JSON"):
        read_umb(with_index(tmp_path, half))


def test_umb_types_of_any_type_are_refused(tmp_path: Path) -> None:
    def listed(index: dict[str, Any]) -> None:
        index["transition-system"]["branch-probability-type"] = {"type": []}

    with pytest.raises(InputError, match=r"the type \[\] cannot be read"):
        read_umb(with_index(tmp_path, listed))


def test_gymnasium_options_are_counted() -> None:
    pytest.importorskip("gymnasium")
    with pytest.raises(InputError, match="the options hold 1,000,004 values and characters"):
        opaq.read_gymnasium("FrozenLake-v1", desc=["F" * 1_000] * 1_000)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"task": {"return_at_least": 1e308}}, "task.return_at_least: is 1e+308, beyond 1e+100"),
        ({"model": TWO["model"] | {"rewards": {"s": -1e200}}}, "model.rewards.s: is -1e+200"),
        ({"model": TWO["model"] | {"rewards": {"s": {"a": 1e101}}}}, "model.rewards.s.a: is 1e+101"),
        ({"model": TWO["model"] | {"rewards": [1e300, 0.0]}}, "model.rewards[0]: is 1e+300"),
        ({"model": TWO["model"] | {"named_rewards": {"n": {"*": 1e300}}}}, "model.named_rewards.n.*: is 1e+300"),
        ({"task": {"requirements": [{"reward": "n", "return_at_least": -1e300}]}}, "return_at_least: is -1e+300"),
    ],
)
def test_rewards_whose_sums_could_overflow_are_refused(spec: dict[str, Any], where: str) -> None:
    assert where in refused(spec)


def test_rewards_of_finished_models_are_checked() -> None:
    mdp = opaq.build_problem(TWO).mdp
    with pytest.raises(InputError, match=r"model.rewards: the reward of state 's' is 1e\+300, beyond 1e\+100"):
        dataclasses.replace(mdp, rewards=np.array([0, 1e300, 0, 0]))


def test_pomdp_rewards_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.pomdp").write_text("states: 1\nactions: 1\nT: * identity\nR: * : * : * 1e200\n")
    with pytest.raises(InputError, match=r"line 4, column 14: the reward 1e\+200 is beyond 1e\+100"):
        opaq.read_pomdp(tmp_path / "a.pomdp")
