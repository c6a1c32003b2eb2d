"""UMB files: what is written is read back, and no damaged or hostile file gets through."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counting import count_calls, peak_memory
from opaq.errors import InputError
from opaq.formats.umb.reader import induced_chain, read_umb, unfold_observer, write_umb
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer

ROOMS = MDP(
    states=("hall", "vault", "exit"),
    actions=("go", "wait"),
    start=floats([0.25, 0.75, 0]),
    choice_start=ints([0, 2, 4, 5]),
    choice_action=ints([0, 1, 0, 1, 1]),
    transitions=SparseRows.from_dense([[0, 0.5, 0.5], [1, 0, 0], [0.1, 0.2, 0.7], [0, 1, 0], [0, 0, 1]]),
    rewards=floats([1, -2, 3, 0.5, 0]),
    labels={"secret": ints([1]), "a/b ..": ints([0, 2]), "nowhere": ints([])},
)
NOISY = Observer(
    observations=("dark", "bright", "ünder"), emission=SparseRows.from_dense([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])
)
PLAIN = Observer(observations=("dark", "bright"), emission=SparseRows.from_dense([[1, 0], [0, 1], [0, 1]]))
VARIABLES = {"x": np.array([1, -5, 2**40]), "on": np.array([True, False, True]), "heat": np.array([0.5, -1.25, 3])}


def same_rows(first: SparseRows, second: SparseRows) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("starts", "columns", "values")
    ) and (first.num_columns == second.num_columns)


def same(first: MDP, second: MDP) -> bool:
    arrays = ("start", "choice_start", "choice_action", "rewards")
    return (
        (first.states, first.actions) == (second.states, second.actions)
        and all(np.array_equal(getattr(first, name), getattr(second, name)) for name in arrays)
        and same_rows(first.transitions, second.transitions)
        and {name: states.tolist() for name, states in first.labels.items()}
        == {name: states.tolist() for name, states in second.labels.items()}
    )


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("observer", [None, PLAIN, NOISY], ids=["unseen", "plain", "noisy"])
@pytest.mark.parametrize("variables", [{}, VARIABLES], ids=["names", "variables"])
def test_written_is_read_back(tmp_path, compressed, observer, variables) -> None:
    file = tmp_path / "rooms.umb"
    write_umb(file, ROOMS, observer=observer, variables=variables, compressed=compressed)
    found = read_umb(file)
    assert same(found.mdp, ROOMS)
    assert found.warnings == ()
    assert found.variables.keys() == variables.keys()
    for name, values in variables.items():
        assert found.variables[name].dtype == values.dtype
        np.testing.assert_array_equal(found.variables[name], values)
    if observer is None:
        assert found.observer is None
    else:
        assert found.observer is not None
        assert found.observer.observations == observer.observations
        assert same_rows(found.observer.emission, observer.emission)


@pytest.mark.parametrize("states", [("é", "vault ü", "x"), ("a\0b", "é\0", "x")], ids=["letters", "zeros"])
def test_names_of_any_characters_are_read_back(tmp_path, states) -> None:
    write_umb(tmp_path / "rooms.umb", replace(ROOMS, states=states))
    assert read_umb(tmp_path / "rooms.umb").mdp.states == states


def test_names_that_end_within_a_character_are_refused(parts) -> None:
    text = {"actions/choices/strings": "éé".encode(), "actions/choices/string-mapping": words(0, 1, 4)}
    with pytest.raises(InputError, match=r"actions/choices/strings\.bin: is not UTF-8"):
        read_umb(changed(parts, **text))


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress, gzip.compress])
def test_compressions_are_read(tmp_path, compress) -> None:
    write_umb(tmp_path / "plain.umb", ROOMS, compressed=False)
    content = (tmp_path / "plain.umb").read_bytes()
    (tmp_path / "parts.umb").write_bytes(compress(content[:1000]) + compress(content[1000:]) + bytes(8))
    assert same(read_umb(tmp_path / "parts.umb").mdp, ROOMS)


def test_an_existing_file_stays_unless_told(tmp_path) -> None:
    file = tmp_path / "rooms.umb"
    write_umb(file, ROOMS)
    with pytest.raises(InputError, match="exists already"):
        write_umb(file, ROOMS)
    write_umb(file, ROOMS, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rooms.umb"]


def test_rewards_by_name(tmp_path) -> None:
    file = tmp_path / "rooms.umb"
    write_umb(file, ROOMS, rewards={"time": np.ones(5), "gold": np.arange(5.0)})
    found = read_umb(file)
    assert list(found.rewards) == ["time", "gold"]
    assert found.mdp.rewards.tolist() == [1] * 5
    assert read_umb(file, reward="gold").mdp.rewards.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="no reward structure 'fun'; the file has: time, gold"):
        read_umb(file, reward="fun")


def test_the_chain_of_a_policy(tmp_path) -> None:
    policy = [0.5, 0.5, 0.25, 0.75, 1]
    write_umb(tmp_path / "chain.umb", ROOMS, policy=policy, observer=PLAIN)
    found = read_umb(tmp_path / "chain.umb").mdp
    assert same(found, induced_chain(ROOMS, policy))
    np.testing.assert_allclose(found.transitions.dense(), [[0.5, 0.25, 0.25], [0.025, 0.8, 0.175], [0, 0, 1]])
    np.testing.assert_allclose(found.rewards, [-0.5, 1.125, 0])


def test_unfolding_keeps_what_is_seen_with_which_probability() -> None:
    grown, observer = unfold_observer(ROOMS, NOISY)
    assert (np.diff(observer.emission.starts) == 1).all()
    np.testing.assert_allclose(grown.transitions.row_sums(), 1)
    targets, chances = grown.transitions.row(grown.num_choices - 1)
    begin = {grown.states[target]: chance for target, chance in zip(targets, chances, strict=True)}
    assert begin == {"hall~dark": 0.25, "vault~dark": 0.375, "vault~bright": 0.375}
    went = grown.transitions.dense()[int(grown.choice_start[grown.states.index("hall~dark")])]
    assert dict(zip(grown.states, went, strict=True)) == {
        "hall~dark": 0,
        "vault~dark": 0.25,
        "vault~bright": 0.25,
        "exit~ünder": 0.5,
        "start": 0,
    }
    assert [grown.states[state] for state in grown.labels["secret"]] == ["vault~dark", "vault~bright"]


def test_an_observer_of_actions_is_not_cut_down_in_silence(tmp_path) -> None:
    watching = replace(PLAIN, after_action=SparseRows.from_dense(np.tile([0.5, 0.5], (6, 1))))
    with pytest.raises(InputError, match="what is seen depends on actions"):
        write_umb(tmp_path / "rooms.umb", ROOMS, observer=watching)
    with pytest.raises(InputError, match="what is seen depends on actions"):
        unfold_observer(ROOMS, watching)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_models_go_round(tmp_path, data) -> None:
    states = data.draw(st.integers(1, 8))
    counts = data.draw(st.lists(st.integers(1, 3), min_size=states, max_size=states))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    matrix = rng.random((sum(counts), states)) * (rng.random((sum(counts), states)) < 0.6)
    matrix[:, 0] += 1e-3
    mdp = MDP(
        states=tuple(f"q{state}" for state in range(states)),
        actions=("a", "b", "c")[: max(counts)],
        start=floats(rng.dirichlet(np.ones(states)) if states > 1 else [1]),
        choice_start=ints(np.concatenate(([0], np.cumsum(counts)))),
        choice_action=ints(np.concatenate([np.arange(count) for count in counts])),
        transitions=SparseRows.from_dense(matrix / matrix.sum(1, keepdims=True)),
        rewards=floats(rng.normal(size=sum(counts))),
        labels={"l": ints(np.flatnonzero(rng.random(states) < 0.5))},
    )
    write_umb(tmp_path / "random.umb", mdp, overwrite=True)
    assert same(read_umb(tmp_path / "random.umb").mdp, mdp)


# --- files that other tools might write -------------------------------------------------------------------------


def members_of(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}  # type: ignore[union-attr]


def pack(file: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


@pytest.fixture
def parts(tmp_path) -> tuple[Path, dict[str, bytes], dict]:
    """A place for a file, its members, and its index to change."""
    write_umb(tmp_path / "base.umb", ROOMS, observer=PLAIN, variables=VARIABLES)
    members = members_of(tmp_path / "base.umb")
    return tmp_path / "changed.umb", members, json.loads(members["index.json"])


def changed(parts, **members: bytes) -> Path:
    file, base, index = parts
    named = {name.replace("_", "-") + ".bin": content for name, content in members.items()}
    return pack(file, base | {"index.json": json.dumps(index).encode()} | named)


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def without(parts, *names: str):
    file, members, index = parts
    return file, {name: content for name, content in members.items() if name not in names}, index


def test_names_come_from_variables_else_from_numbers(parts) -> None:
    parts = without(parts, "opaq/states/strings.bin", "opaq/states/string-mapping.bin")
    assert read_umb(changed(parts)).mdp.states[:2] == ("x=1,on=true,heat=0.5", "x=-5,on=false,heat=-1.25")
    del parts[2]["valuations"]
    assert read_umb(changed(parts)).mdp.states == ("s0", "s1", "s2")


def test_several_initial_states_are_equally_likely(parts) -> None:
    found = read_umb(changed(without(parts, "opaq/start.bin")))
    assert found.mdp.start.tolist() == [0.5, 0.5, 0]
    assert [str(warning) for warning in found.warnings] == [
        "start: 2 initial states: each is taken to be equally likely; the problem file can state another start"
    ]


def test_choices_of_one_action_are_told_apart(parts) -> None:
    file, members, index = parts
    members["actions/choices/values.bin"] = struct.pack("<5I", 1, 1, 0, 0, 1)
    assert read_umb(changed(parts)).mdp.actions == ("go", "wait", "go.2", "wait.2")
    assert read_umb(file).mdp.choice_action.tolist() == [1, 3, 0, 2, 1]
    index["transition-system"]["#choice-actions"] = 0
    assert read_umb(changed(parts)).mdp.actions == ("a0", "a1")


def test_bits_may_lie_anywhere(parts) -> None:
    """Sizes that are not bytes, offsets, signs, and values that need not be there."""
    parts = without(parts, "opaq/states/strings.bin", "opaq/states/string-mapping.bin")
    fields = [
        {"name": "a", "type": {"type": "uint", "size": 3}, "offset": -2},
        {"name": "b", "type": {"type": "int", "size": 5}},
        {"padding": 3},
        {"name": "c", "type": {"type": "uint", "size": 64}, "offset": -(2**63)},
        {"name": "d", "type": {"type": "uint", "size": 4}, "is-optional": True},
    ]
    wanted = [(-2, -16, -(2**63), 9), (5, 15, 2**63 - 1, None), (0, -1, 7, 0)]
    content = b""
    for a, b, c, d in wanted:
        bits = (a + 2) | (b % 32) << 3 | (c + 2**63) << 11 | ((d or 0) << 1 | (d is not None)) << 75
        content += bits.to_bytes(10, "little")
    parts[2]["valuations"]["states"]["classes"] = [{"variables": fields}]
    parts[1]["valuations/states/valuations.bin"] = content
    found = read_umb(changed(parts)).variables
    for place, name in enumerate("abc"):
        assert found[name].tolist() == [row[place] for row in wanted]
    np.testing.assert_array_equal(found["d"], [9, np.nan, 0])


def test_rewards_of_states_choices_and_branches_add_up(parts) -> None:
    _, members, index = parts
    index["annotations"]["rewards"] = {
        "r": {"applies-to": ["states", "choices", "branches"], "type": {"type": "double"}}
    }
    folder = "annotations/rewards/r"
    members[f"{folder}/states/values.bin"] = doubles(100, 200, 300)
    members[f"{folder}/choices/values.bin"] = doubles(1, 2, 3, 4, 5)
    members[f"{folder}/branches/values.bin"] = doubles(0.2, 0.4, 0, 0, 0, 0.5, 0, 0)
    np.testing.assert_allclose(read_umb(changed(parts)).rewards["r"], [101.3, 102, 203.35, 204, 305])


def test_fractions(parts) -> None:
    _, members, index = parts
    index["annotations"]["rewards"]["reward"]["type"] = {"type": "rational", "size": 256}
    values = [(-3, 4), (1, 3), (2**100, 2**99), (-(2**70), 1), (0, 7)]
    content = b"".join(
        over.to_bytes(16, "little", signed=True) + under.to_bytes(16, "little") for over, under in values
    )
    members["annotations/rewards/reward/choices/values.bin"] = content
    assert read_umb(changed(parts, **members)).mdp.rewards.tolist() == [over / under for over, under in values]


def test_rows_that_miss_one_by_little_are_scaled(parts) -> None:
    found = read_umb(changed(parts, branch_to_probability=doubles(0.5, 0.500004, 1, 0.1, 0.2, 0.7, 1, 1)))
    np.testing.assert_allclose(found.mdp.transitions.row_sums(), 1, atol=1e-15)
    assert "1 choices miss 1 by up to 4e-06" in str(found.warnings[0])


def test_repeated_targets_are_summed_and_zeros_dropped(parts) -> None:
    found = read_umb(changed(parts, branch_to_target=words(1, 1, 0, 2, 1, 0, 1, 2)))
    assert found.mdp.transitions.row(0)[0].tolist() == [1]
    assert found.mdp.transitions.row(2)[0].tolist() == [0, 1, 2]
    assert found.mdp.transitions.row(2)[1].tolist() == [0.7, 0.2, 0.1]


def test_states_without_a_choice_stay(parts) -> None:
    _, _, index = parts
    index["transition-system"]["#choices"] = 4
    index["transition-system"]["#branches"] = 6
    del index["annotations"]["rewards"]
    parts[1]["actions/choices/values.bin"] = struct.pack("<4I", 0, 1, 0, 1)
    members = {
        "state_to_choices": words(0, 2, 2, 4),
        "choice_to_branches": words(0, 2, 3, 4, 6),
        "branch_to_target": words(1, 2, 0, 0, 1, 2),
        "branch_to_probability": doubles(0.5, 0.5, 1, 1, 0.5, 0.5),
    }
    found = read_umb(changed(parts, **members))
    assert found.mdp.choice_start.tolist() == [0, 2, 3, 5]
    assert [found.mdp.actions[action] for action in found.mdp.choice_action] == ["go", "wait", "stay", "go", "wait"]
    assert found.mdp.transitions.dense().tolist() == [
        [0, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0.5, 0.5]
    ]  # fmt: skip
    assert "1 state has no choice (a deadlock)" in str(found.warnings[0])
    index["annotations"]["rewards"] = {"r": {"applies-to": ["states"], "type": {"type": "double", "size": 64}}}
    parts[1]["annotations/rewards/r/states/values.bin"] = doubles(1, 7, 3)
    assert read_umb(changed(parts, **members)).mdp.rewards.tolist() == [1, 1, 7, 3, 3]


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"branch_to_probability": doubles(0.5, 0.4, 1, 0.1, 0.2, 0.7, 1, 1)}, "choice 0: probabilities sum to 0.9"),
        ({"branch_to_probability": doubles(0.5, np.nan, 1, 0.1, 0.2, 0.7, 1, 1)}, "nan is not a probability"),
        ({"branch_to_probability": doubles(1.5, -0.5, 1, 0.1, 0.2, 0.7, 1, 1)}, "-0.5 is not a probability"),
        ({"branch_to_probability": doubles(1)}, "branch-to-probability.bin: holds 8 bytes, but 8 entries of 8 bytes"),
        ({"branch_to_target": words(1, 3, 0, 0, 1, 2, 1, 2)}, "branch-to-target.bin: entry 1 is 3, but there are"),
        ({"branch_to_target": words(1, 2**64 - 1, 0, 0, 1, 2, 1, 2)}, "branch-to-target.bin: entry 1"),
        ({"choice_to_branches": words(0, 3, 2, 6, 7, 8)}, "choice-to-branches.bin: must rise"),
        ({"state_to_choices": words(0, 2, 4, 6)}, "state-to-choices.bin: must rise from 0 to 5"),
        ({"state_is_initial": bytes(8)}, "state-is-initial.bin: marks 0 states, not 2"),
        ({"state_is_initial": bytes(80)}, "state-is-initial.bin: holds 80 bytes, but 3 bits"),
        ({"actions/choices/values": bytes(20)[:19]}, "actions/choices/values.bin: holds 19 bytes"),
        ({"actions/choices/values": struct.pack("<5I", 0, 1, 0, 9, 1)}, "entry 3 is 9, but there are only 2"),
        ({"actions/choices/strings": b"\xff" * 6}, "strings.bin: is not UTF-8"),
        ({"observations/states/values": words(0, 1, 2)}, "observations/states/values.bin: entry 2 is 2"),
        ({"annotations/rewards/reward/choices/values": doubles(1, np.inf, 0, 0, 0)}, "entry 1 is inf, not a finite"),
        ({"valuations/states/valuations": bytes(50)}, "valuations/states/valuations.bin: holds 50 bytes"),
        ({"opaq/start": doubles(0.5, 0.1, 0)}, "opaq/start.bin: is not a distribution"),
    ],
)  # fmt: skip
def test_damaged_members_are_named(parts, members, message) -> None:
    with pytest.raises(InputError) as caught:
        read_umb(changed(parts, **members))
    assert str(caught.value).startswith(str(parts[0]))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("#states", 2**50, "#states is 1125899906842624, not a count"),
        ("#states", 2**39, "has 549,755,813,888 states; at most 5,000,000 can be read"),
        ("#states", 2**22, "state-to-choices.bin: holds 32 bytes, but 4,194,305"),
        ("#observations", 2**39, "observations are declared for 3 states"),
        ("#branches", 2**39, "branch-to-target.bin: holds 64 bytes"),
        ("#choices", 2**39, "choice-to-branches.bin: holds"),
        ("#states", -1, "not a count"),
        ("#states", 3.0, "not a count"),
        ("#states", True, "not a count"),
        ("#states", 0, "has no states"),
        ("#initial-states", 0, "no initial state"),
        ("#players", 2, "a game of 2 players"),
        ("time", "stochastic", "only discrete-time"),
        ("branch-probability-type", {"type": "double-interval"}, "type 'double-interval' cannot be read"),
        ("branch-probability-type", {"type": "double", "size": 10**12}, "a size of 1000000000000 bits"),
        ("branch-probability-type", [], "cannot be read"),
        ("branch-probability-type", None, "probabilities sum to 2, not 1"),
    ],
)
def test_wrong_declarations_are_named(parts, key, value, message) -> None:
    parts[2]["transition-system"][key] = value
    archive = changed(parts)

    def refused() -> None:
        with pytest.raises(InputError, match=message):
            read_umb(archive)

    assert peak_memory(refused) < 32 << 20  # nothing of the declared size was allocated


@pytest.mark.parametrize(
    "index",
    [b"", b"[]", b"{}", b"{" * 100_000, b"[" * 100_000, b"\xff", b'{"transition-system": 3}', b'{"format-version": 9}'],
)
def test_a_wrong_index_is_named(parts, index) -> None:
    with pytest.raises(InputError, match=r"index\.json: "):
        read_umb(pack(parts[0], parts[1] | {"index.json": index}))


def test_every_missing_member_is_named(parts) -> None:
    needed = [name for name in parts[1] if not name.startswith(("opaq/", "actions/")) and name != "index.json"]
    for name in needed:
        with pytest.raises(InputError, match="is missing from the archive") as caught:
            read_umb(changed(without(parts, name)))
        assert name in str(caught.value)


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b", "a\\b"])
def test_names_that_lead_out_are_refused(parts, name) -> None:
    with pytest.raises(InputError, match="leads out of the archive"):
        read_umb(pack(parts[0], parts[1] | {name: b""}))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE]
)
def test_only_plain_files_are_taken(parts, kind) -> None:
    file, members, _ = parts
    pack(file, members)
    with tarfile.open(file, "a") as archive:
        entry = tarfile.TarInfo("state-to-player.bin")
        entry.type = kind
        entry.linkname = "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(InputError, match=r"is not a plain file|is not a whole tar"):
        read_umb(file)


def test_a_member_may_not_come_twice(parts) -> None:
    file, members, _ = parts
    pack(file, members)
    with tarfile.open(file, "a") as archive:
        entry = tarfile.TarInfo("./index.json")
        archive.addfile(entry)
    with pytest.raises(InputError, match="is in the archive twice"):
        read_umb(file)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress], ids=["tar", "gz", "xz"])
def test_every_cut_is_refused_or_harmless(tmp_path, compress) -> None:
    write_umb(tmp_path / "whole.umb", ROOMS, compressed=False)
    whole = compress((tmp_path / "whole.umb").read_bytes())
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        (tmp_path / "cut.umb").write_bytes(whole[:length])
        with contextlib.suppress(InputError):
            assert same(read_umb(tmp_path / "cut.umb").mdp, ROOMS)  # only the empty end of a tar file was cut


def test_every_flipped_byte_is_refused_or_read(tmp_path) -> None:
    write_umb(tmp_path / "whole.umb", ROOMS, observer=NOISY, variables=VARIABLES, compressed=False)
    whole = bytearray((tmp_path / "whole.umb").read_bytes())
    rng = np.random.default_rng(7)
    for place in rng.integers(0, len(whole), 400):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        (tmp_path / "flipped.umb").write_bytes(damaged)
        try:
            found = read_umb(tmp_path / "flipped.umb")
        except InputError:
            continue
        np.testing.assert_allclose(found.mdp.transitions.row_sums(), 1, atol=1e-9)


def test_a_small_file_cannot_unfold_into_all_memory(tmp_path, parts) -> None:
    file = tmp_path / "bomb.umb"
    file.write_bytes(gzip.compress(pack(parts[0], parts[1] | {"zeros.bin": bytes(50_000_000)}).read_bytes()))
    assert file.stat().st_size < 100_000
    with pytest.raises(InputError, match="more than 20,000,000 bytes once decompressed"):
        read_umb(file, max_bytes=20_000_000)
    with pytest.raises(InputError, match="the limit is 20,000,000"):
        read_umb(parts[0], max_bytes=20_000_000)


def test_what_is_no_file_is_told(tmp_path) -> None:
    for name, message in (("none.umb", "no such file"), (".", "is a folder")):
        with pytest.raises(InputError, match=message):
            read_umb(tmp_path / name)


def test_large_models_load_quickly(tmp_path) -> None:
    count = 100_000
    place = np.arange(count)
    rows = np.repeat(np.arange(2 * count), 2)
    mdp = replace(
        ROOMS,
        states=tuple(f"x={state % 400},y={state // 400}" for state in range(count)),
        start=floats(place == 0),
        choice_start=ints(np.arange(count + 1) * 2),
        choice_action=ints(np.tile([0, 1], count)),
        transitions=SparseRows.from_entries(
            rows, (rows // 2 + np.tile([0, 7], 2 * count)) % count, np.full(rows.size, 0.5), shape=(2 * count, count)
        ),
        rewards=floats(np.zeros(2 * count)),
    )
    write_umb(tmp_path / "large.umb", mdp, variables={"x": place % 400, "y": place // 400}, compressed=False)
    assert count_calls(lambda: read_umb(tmp_path / "large.umb")) < count  # arrays at once, not state by state
    assert same(read_umb(tmp_path / "large.umb").mdp, mdp)
