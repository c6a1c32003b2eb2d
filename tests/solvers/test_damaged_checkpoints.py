"""Whatever bytes lie where a checkpoint should be: one clear fault, and no other exception."""

import contextlib
import io
import json
import os
import zipfile
from random import Random

import numpy as np
import pytest

import opaq
from opaq.errors import InputError
from opaq.product.compile import compile_problem
from opaq.solvers.lagrangian import AugmentedLagrangian
from opaq.solvers.loop import Candidate, SolverCheckpoint
from opaq.solvers.objective import Objective
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.runs import _HEX, _SEAL, Checkpoint, _checksum, pack
from stress.damage import damage_bytes


@pytest.fixture(scope="module", params=["lagrangian", "primal-dual"])
def written(request):
    """A good checkpoint: its bytes and the solver's first state."""
    objective = Objective(compile_problem(opaq.load_problem("graph")))
    solver = AugmentedLagrangian() if request.param == "lagrangian" else PrimalDual()
    theta = np.random.default_rng(0).normal(size=objective.process.num_slots)
    template = solver.init(objective, theta)
    rng = np.random.default_rng(7)
    state, info = solver.step(objective, template, rng)
    best = Candidate(theta, 0.5, np.array([0.1]))
    return pack(SolverCheckpoint(state, rng, best, [info.trace, info.trace])), template


def refused(tmp_path, content, template):
    file = tmp_path / "start-0-0.npz"
    file.write_bytes(content)
    with pytest.raises(InputError) as found:
        Checkpoint(file, template).load()
    assert str(file) in str(found.value)
    assert "remove" in str(found.value)
    return str(found.value)


def sealed(members, *, compression=zipfile.ZIP_STORED):
    """A forged file whose checksum is right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
        archive.comment = _SEAL + b"0" * _HEX
    content = buffer.getvalue()[:-_HEX]
    return content + _checksum(content)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}


def test_a_checkpoint_is_a_plain_npz(tmp_path, written):
    content, template = written
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        assert stored["state_theta"].shape == template.theta.shape
    (tmp_path / "a.npz").write_bytes(sealed(members_of(content)))
    again = Checkpoint(tmp_path / "a.npz", template).load()
    assert pack(again) == content


def test_every_damage_is_found(tmp_path, written):
    content, template = written
    for number in range(100):
        damaged = damage_bytes(content, b"another file", Random(number))
        if damaged != content:
            refused(tmp_path, damaged, template)


@pytest.mark.parametrize("seed", range(60))
def test_a_right_checksum_over_damaged_members_does_not_help(tmp_path, written, seed):
    content, template = written
    rng = np.random.default_rng(seed)
    members = members_of(content)
    name = sorted(members)[rng.integers(len(members))]
    member = bytearray(members[name])
    header = member.index(b"\n") + 1  # damage in the numbers may leave good numbers
    member[rng.integers(header)] ^= 1 << int(rng.integers(7))
    file = tmp_path / "start-0-0.npz"
    file.write_bytes(sealed(members | {name: bytes(member)}))
    with contextlib.suppress(InputError):  # no other exception; a header may be changed without a change of meaning
        Checkpoint(file, template).load()


def test_wrong_shapes_types_and_numbers_are_refused(tmp_path, written):
    content, template = written
    members = members_of(content)
    theta, deep = template.theta, b"[" * 900
    huge = npy(theta).replace(str(theta.shape).encode(), b"(9999999999,)"[: len(str(theta.shape))].ljust(5, b"9"))
    replaced = {
        "state_theta": [npy(theta[:-1]), npy(theta.astype(complex)), npy(theta * np.nan), npy(theta * np.inf), huge],
        "state_multipliers": [npy(np.zeros(3)), npy(np.array([np.nan])), npy(np.array(["a"]))],
        "state_iteration": [npy(np.array(1.5)), npy(np.array([1])), npy(np.array("one"))],
        "best_slack": [npy(np.zeros(0)), npy(np.array([-np.inf]))],
        "best_score": [npy(np.array(np.nan))],
        "trace_score": [npy(np.zeros(3)), npy(np.zeros((2, 1))), npy(np.full(2, np.nan))],
        "trace_slack": [npy(np.zeros((2, 7))), npy(np.zeros(2))],
        "trace_iteration": [npy(np.array([0.5, 1.5])), npy(np.array(1))],
        "rng": [
            npy(np.frombuffer(text, dtype=np.uint8))
            for text in (b"{}", b"null", deep, b'{"bit_generator": "MT19937"}', b"\xff")
        ],
    }
    state = json.loads(np.load(io.BytesIO(members["rng"])).tobytes())
    for wrong in (-1, 2**128, 1.5, "1", None):
        text = json.dumps(state | {"state": state["state"] | {"state": wrong}}).encode()
        replaced["rng"].append(npy(np.frombuffer(text, dtype=np.uint8)))
    for name, contents in replaced.items():
        for wrong in contents:
            refused(tmp_path, sealed(members | {name: wrong}), template)
    refused(tmp_path, sealed({name: members[name] for name in members if name != "rng"}), template)
    refused(tmp_path, sealed(members | {"more": npy(np.zeros(1))}), template)


def test_bombs_and_odd_files_are_refused_without_being_unpacked(tmp_path, written):
    content, template = written
    members = members_of(content)
    bomb = members | {"state_theta": bytes(200_000_000)}
    assert "larger than the file" in refused(tmp_path, sealed(bomb, compression=zipfile.ZIP_DEFLATED), template)
    file = tmp_path / "large.npz"
    with file.open("wb") as sparse:
        sparse.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match="no run writes so much"):
        Checkpoint(file, template).load()
    (tmp_path / "folder.npz").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.npz")
    for name in sorted(path.name for path in tmp_path.iterdir() if not path.is_file()):
        with pytest.raises(InputError, match=name):
            Checkpoint(tmp_path / name, template).load()
