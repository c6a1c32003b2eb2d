"""Damaged inputs: random corruptions of bytes, and what reading them may do (load, or refuse; nothing else)."""

from __future__ import annotations

import copy
import io
import json
import tarfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import opaq
from opaq.errors import BudgetError, InputError
from opaq.formats.umb.archive import archive_bytes
from opaq.formats.umb.reader import read_umb, write_umb
from opaq.spec.policy_table import policy_to_dict
from opaq.spec.yaml import parse_yaml

KINDS = ("problem", "problem values", "policy", "policy values", "umb", "umb index", "pomdp")

SECONDS = 5.0
MEMORY = 500 << 20  # bytes that Python and NumPy may hold at once while one small file is read

TIGER = b"""# a comment
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: hear-left hear-right
start: uniform
T: listen
identity
T: open-left
uniform
T: open-right : * : * 0.5
O: listen
0.85 0.15
0.15 0.85
O: open-left
uniform
O: open-right
uniform
R: listen : * : * : * -1
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-right : *
-100 -100
"""


def corrupted(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes after one or a few random damages: flipped bits, cuts, insertions, swaps, zeroed or repeated blocks."""
    damaged = bytearray(data)
    for _ in range(int(rng.geometric(0.6))):
        _DAMAGES[int(rng.integers(len(_DAMAGES)))](damaged, rng)
    return bytes(damaged)


def _block(data: bytearray, rng: np.random.Generator) -> slice:
    first = int(rng.integers(len(data) + 1))
    return slice(first, first + int(rng.integers(1, 64)))


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data) + 1)) :]


def _drop(data: bytearray, rng: np.random.Generator) -> None:
    del data[_block(data, rng)]


def _insert(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(data) + 1))
    data[place:place] = rng.bytes(int(rng.integers(1, 16)))


def _insert_text(data: bytearray, rng: np.random.Generator) -> None:
    """Signs and numbers that mean something to a parser."""
    place = int(rng.integers(len(data) + 1))
    data[place:place] = _TEXTS[int(rng.integers(len(_TEXTS)))]


def _swap(data: bytearray, rng: np.random.Generator) -> None:
    if data:
        one, other = (int(place) for place in rng.integers(len(data), size=2))
        data[one], data[other] = data[other], data[one]


def _zero(data: bytearray, rng: np.random.Generator) -> None:
    where = _block(data, rng)
    data[where] = bytes(len(data[where]))


def _repeat(data: bytearray, rng: np.random.Generator) -> None:
    where = _block(data, rng)
    data[where] = data[where] * int(rng.integers(2, 20))


_TEXTS = (
    b"999999999999", b"-1", b"1e308", b".nan", b"null", b"[]", b"{}", b"*", b"&a *a", b"[[[[[[[[", b"\x1b[31m",
    b"\xff\xfe", b": ", b"\n- ", b"\\ud800", b"'", b'"', b"!!python/object:os.system", b"1" * 500, b"0x1F", b"true",
)  # fmt: skip
_DAMAGES: tuple[Callable[[bytearray, np.random.Generator], None], ...] = (
    _flip, _cut, _drop, _insert, _insert_text, _swap, _zero, _repeat,
)  # fmt: skip


def mutated(data: Any, rng: np.random.Generator) -> Any:
    """A copy of nested lists and mappings in which one or a few entries are lost, moved or replaced by odd values."""
    changed = copy.deepcopy(data)
    for _ in range(int(rng.geometric(0.6))):
        places = [place for place in _places(changed) if place]
        if not places:
            return changed
        *above, key = places[int(rng.integers(len(places)))]
        holder = _entry(changed, above)
        odd, chance = copy.deepcopy(_ODD[int(rng.integers(len(_ODD)))]), rng.random()
        if chance < 0.15:
            del holder[key]
        elif chance < 0.25 and isinstance(holder, dict):
            holder[odd if isinstance(odd, str) else str(odd)] = holder.pop(key)
        elif chance < 0.35:
            holder[key] = copy.deepcopy(_entry(changed, places[int(rng.integers(len(places)))]))
        else:
            holder[key] = odd
    return changed


def _places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, entry in entries:
        yield from _places(entry, (*above, key))


def _entry(data: Any, place: Iterable[Any]) -> Any:
    for key in place:
        data = data[key]
    return data


_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2, 3.5, 1e308, float("inf"), float("nan"), 10**30, 2**40, 1_000_000, "", "x", "*", "\x1b[1m",
    "a\nb", "=1+1", "\u202e", [], {}, [[]], {"a": 1}, ["a"], [1, 2], {"type": "double"}, {"type": []}, "states",
    ["states", "states"], "F(p & X q)", "a" * 20_000, [0, 0], {"where": "x"}, {"file": "none.hoa"},
    {"nodes": 10_000, "update": "free"}, {"memory": {"nodes": 3}}, {"last_states": 1_000},
)  # fmt: skip


# --- kinds of inputs --------------------------------------------------------------------------------------------


def problem_file(data: bytes, folder: Path) -> None:
    """Read and compile a problem."""
    file = folder / "problem.yaml"
    file.write_bytes(data)
    opaq.compile_problem(opaq.load_problem(file))


def policy_file(data: bytes, folder: Path) -> None:
    """Read a policy, whatever model it says it is for, and lay it over the problem."""
    file = folder / "policy.json"
    file.write_bytes(data)
    problem = opaq.load_problem("graph")
    policy = opaq.load_policy(file, problem, ignore_model_mismatch=True)
    opaq.compile_problem(problem, policy.policy_class).policy_vector(policy)


def umb_file(data: bytes, folder: Path) -> None:
    """Read a UMB model."""
    file = folder / "model.umb"
    file.write_bytes(data)
    read_umb(file)


def pomdp_file(data: bytes, folder: Path) -> None:
    """Read a POMDP model."""
    file = folder / "model.pomdp"
    file.write_bytes(data)
    opaq.read_pomdp(file)


Damage = Callable[[bytes, np.random.Generator], bytes]


def damaged_values(data: bytes, rng: np.random.Generator) -> bytes:
    """A YAML or JSON file that can be read and says odd things."""
    return json.dumps(mutated(parse_yaml(data.decode()).data, rng)).encode()


def damaged_index(data: bytes, rng: np.random.Generator) -> bytes:
    """An uncompressed UMB archive whose index says odd things."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    members["index.json"] = json.dumps(mutated(json.loads(members["index.json"]), rng)).encode()
    return archive_bytes(members, compressed=False)


def samples(folder: Path) -> dict[str, tuple[list[bytes], Callable[[bytes, Path], None], Damage]]:
    """Kind of input -> valid files of it, what reads them, and how they are damaged."""
    problems = [opaq.scenario_text(name).encode() for name in ("two-sink", "graph", "grid-initial-state-4")]
    archives = list(_archives(folder))
    return {
        "problem": (problems, problem_file, corrupted),
        "problem values": (problems, problem_file, damaged_values),
        "policy": (_policies(), policy_file, corrupted),
        "policy values": (_policies(), policy_file, damaged_values),
        "umb": (archives, umb_file, corrupted),
        "umb index": (archives[:1], umb_file, damaged_index),
        "pomdp": ([TIGER], pomdp_file, corrupted),
    }


def _policies() -> list[bytes]:
    problem = opaq.load_problem("graph")
    product = opaq.compile_problem(problem)
    uniform = policy_to_dict(product.policy(product.policy_vector(None)), problem=problem)
    memory = opaq.build_memory(problem.mdp, nodes=2, update=[{"from": 0, "to": {0: 0.5, 1: 0.5}}])
    product = opaq.compile_problem(problem, opaq.PolicyClass(("state", "memory"), memory=memory))
    remembering = policy_to_dict(product.policy(product.policy_vector(None)), problem=problem)
    return [json.dumps(policy, indent=1).encode() for policy in (uniform, remembering)]


def _archives(folder: Path) -> Iterator[bytes]:
    """A model with everything a file can hold, as a plain archive and compressed."""
    problem = opaq.load_problem("two-sink")
    for compressed in (False, True):
        file = folder / f"sample{compressed}.umb"
        variables = {"x": np.arange(3), "on": np.array([True, False, True])}
        options: dict[str, Any] = {"observer": problem.observer, "variables": variables, "overwrite": True}
        write_umb(file, problem.mdp, **options, compressed=compressed)
        yield file.read_bytes()


# --- trials -----------------------------------------------------------------------------------------------------


def trial(kind: str, count: int, *, seed: int, folder: Path, limit_memory: bool = False) -> Counter[str]:
    """Read `count` corruptions of one kind of input; raises AssertionError for any that neither loads nor is refused.

    The bytes tried last are kept in `folder` as tried.KIND.
    """
    rng = np.random.default_rng(seed)
    originals, read, damage = samples(folder)[kind]
    for original in originals:
        read(original, folder)
    ends: Counter[str] = Counter()
    for number in range(count):
        data = damage(originals[number % len(originals)], rng)
        (folder / f"tried.{kind.replace(' ', '-')}").write_bytes(data)
        ends[_outcome(read, data, folder, f"{kind}, seed {seed}, corruption {number}", limit_memory=limit_memory)] += 1
    return ends


def _outcome(read: Callable[[bytes, Path], None], data: bytes, folder: Path, where: str, *, limit_memory: bool) -> str:
    if limit_memory:
        tracemalloc.start()
    began = time.process_time()
    try:
        read(data, folder)
        end = "loaded"
    except (InputError, BudgetError) as error:
        str(error).encode("utf-8", "backslashreplace")
        end = type(error).__name__
    except BaseException as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
    took = time.process_time() - began
    assert took < SECONDS, f"{where}: took {took:.1f} s"
    if limit_memory:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY, f"{where}: took {peak:,} bytes"
    return end
