"""Damaged files of every format that opaq reads: each is refused by an error of opaq's own, or read; nothing else.

Damage number N is always the same damage of the same file. `KINDS` has one function per format; it makes good files
in a folder and says how they are read. `damage_bytes` and `damage_values` spoil them.
"""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import tarfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import opaq
from commands import opaq_command
from opaq.automata.formula import NotationError
from opaq.automata.translate import language_automaton
from opaq.errors import BudgetError, Fault, InputError
from opaq.formats.dot import automaton_from_dot, automaton_to_dot
from opaq.formats.hoa import automaton_from_hoa, automaton_to_hoa
from opaq.formats.umb.archive import pack_archive
from opaq.formats.umb.reader import write_umb
from opaq.model.automaton import GuardError, parse_guard
from opaq.spec.policy_table import policy_to_dict
from opaq.spec.variables import ExpressionError, evaluate
from opaq.spec.yaml import parse_yaml
from opaq.study.sweep.plan import read_plan
from opaq.study.sweep.points import check_points
from stress.interrupts import bits
from stress.runner import Outcome
from stress.sweep_audit import results
from study.inline_executor import InlineExecutor

SECONDS = 5.0  # for reading one small file
MEMORY = 500 << 20  # bytes that Python and NumPy may hold at once meanwhile
_REFUSALS = (InputError, BudgetError, NotationError, GuardError, ExpressionError)

# --- the corruptor ----------------------------------------------------------------------------------------------

Damage = Callable[[bytes, bytes, Random], bytes]  # (a file, another file, rng) -> the file damaged

_TEXTS = (
    b"999999999999", b"-1", b"1e308", b"1e999", b".nan", b"null", b"[]", b"{}", b"*", b"&a *a", b"[[[[[[[[", b"(",
    b"\x1b[31m", b"\xff\xfe", b": ", b"\n- ", b"\\ud800", b"'", b'"', b"!!python/object:os.system", b"1" * 500,
    b"0x1F", b"true", b"\x00",
)  # fmt: skip
_NUMBERS = (b"1e999", b"-1", b"nan", b"9" * 400, b"1e-400", b"NaN", b"Infinity", b"null", b"true", b'"x"', b"[]", b"{}")


def damage_bytes(data: bytes, other: bytes, rng: Random) -> bytes:
    """Damage the bytes once or a few times: flips, cuts, insertions, swaps, zeros, repeats, splices, nesting."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_DAMAGES)(data, other, rng)
    return data


def _flip(data: bytes, other: bytes, rng: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 30)) if data else 0):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _replace_block(data: bytes, other: bytes, rng: Random) -> bytes:
    """Lose a block, empty it, repeat it, or put random bytes, telling text or a part of another file in its place."""
    first = rng.randrange(len(data) + 1)
    last = first + rng.choice((0, 0, 1, 16, 64, 512, 4096, len(data)))
    block, piece = data[first:last], rng.randrange(len(other) + 1)
    spliced = other[piece : piece + rng.choice((3, 30, 300, len(other)))]
    random = rng.randbytes(rng.choice((1, 4, 100)))
    repeated = data[first : first + 64] * rng.randrange(2, 20)
    return (
        data[:first] + rng.choice((b"", bytes(len(block)), repeated, random, rng.choice(_TEXTS), spliced)) + data[last:]
    )


def _swap_blocks(data: bytes, other: bytes, rng: Random) -> bytes:
    size, swapped = rng.choice((1, 8, 64)), bytearray(data)
    one, two = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    swapped[two : two + size], swapped[one : one + size] = data[one : one + size], data[two : two + size]
    return bytes(swapped)


def _replace_all(data: bytes, other: bytes, rng: Random) -> bytes:
    return rng.choice((b"", other, other, rng.randbytes(100), rng.randbytes(len(data))))


def _nest(data: bytes, other: bytes, rng: Random) -> bytes:
    depth = rng.choice((50, 2_000, 100_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")")))
    deep = opening * depth + b"1" + (closing * depth if rng.random() < 0.7 else b"")
    at = data.find(b": ", rng.randrange(len(data) + 1))
    return data[: at + 2] + deep + data[at + 2 :] if at >= 0 and rng.random() < 0.7 else deep


def _replace_number(data: bytes, other: bytes, rng: Random) -> bytes:
    starts = [at for at in range(len(data)) if data[at : at + 1].isdigit() and not data[at - 1 : at].isdigit()]
    if not starts:
        return _flip(data, other, rng)
    at = end = rng.choice(starts)
    while data[end : end + 1].isdigit():
        end += 1
    return data[:at] + rng.choice(_NUMBERS) + data[end:]


_DAMAGES: tuple[Damage, ...] = (
    _flip, _flip, _replace_block, _replace_block, _replace_block, _swap_blocks, _replace_all, _nest, _replace_number,
)  # fmt: skip

_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2, 3.5, 1e308, float("inf"), float("nan"), 10**30, 2**40, 1_000_000, "", "x", "*", "\x1b[1m",
    "a\nb", "=1+1", "\u202e", [], {}, [[]], {"a": 1}, ["a"], [1, 2], {"type": "double"}, {"type": []}, "states",
    ["states", "states"], "F(p & X q)", "a" * 20_000, [0, 0], {"where": "x"}, {"file": "none.hoa"},
    {"nodes": 10_000, "update": "free"}, {"memory": {"nodes": 3}}, {"last_states": 1_000},
)  # fmt: skip


def damage_values(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return a YAML or JSON file that can be read and says odd things."""
    return json.dumps(_mutate(parse_yaml(data.decode()).data, rng)).encode()


def _damage_index(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return an uncompressed UMB archive whose index says odd things."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    members["index.json"] = json.dumps(_mutate(json.loads(members["index.json"]), rng)).encode()
    return pack_archive(members, compressed=False)


def _mutate(data: Any, rng: Random) -> Any:
    """Copy nested lists and mappings; one or a few entries are lost, renamed, moved or replaced by odd values."""
    changed = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        paths = [path for path in _paths(changed) if path]
        if not paths:
            return changed
        *above, key = rng.choice(paths)
        holder = _entry(changed, above)
        odd, chance = copy.deepcopy(rng.choice(_ODD)), rng.random()
        if chance < 0.15:
            del holder[key]
        elif chance < 0.25 and isinstance(holder, dict):
            holder[odd if isinstance(odd, str) else str(odd)] = holder.pop(key)
        elif chance < 0.35:
            holder[key] = copy.deepcopy(_entry(changed, rng.choice(paths)))
        else:
            holder[key] = odd
    return changed


def _paths(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, entry in entries:
        yield from _paths(entry, (*above, key))


def _entry(data: Any, path: Iterable[Any]) -> Any:
    for key in path:
        data = data[key]
    return data


# --- the formats ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A good file, the function that reads it, and how it is damaged."""

    original: bytes
    read: Callable[[bytes], object]
    damage: Damage = damage_bytes
    guarded: bool = False  # by checksums: what is still read must be what was written


def _in_file(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Read bytes as a file of this name."""

    def read_bytes(data: bytes) -> object:
        file.write_bytes(data)
        return read(file)

    return read_bytes


def _run_command(*arguments: object) -> object:
    """Run a command and return its JSON answer without times; InputError where it refuses in few clear lines."""
    done = opaq_command(*arguments)
    lines = [line for line in done.stderr.splitlines() if "warning" not in line]
    assert "Traceback" not in done.stderr, done.stderr[-300:]
    assert done.returncode in (0, 1, 2, 3), f"exit code {done.returncode}: {done.stderr[-300:]}"
    if done.returncode == 2:
        clear = 1 <= len(lines) <= 30 and all(line.startswith("opaq: ") and len(line) < 1000 for line in lines)
        assert (clear, done.stdout) == (True, ""), f"exit code 2 without clear lines: {done.stderr[:300]!r}"
        raise InputError([Fault("", line) for line in lines])
    return bits(done.stdout) or done.stdout


def _problems(damage: Damage, folder: Path) -> list[Target]:
    read = _in_file(folder / "problem.yaml", lambda file: opaq.compile_problem(opaq.load_problem(file)))
    names = ("two-sink", "graph", "grid-initial-state-4")
    return [Target(opaq.scenario_text(name).encode(), read, damage) for name in names]


def _policies(damage: Damage, folder: Path) -> list[Target]:
    problem = opaq.load_problem("graph")

    def read(file: Path) -> None:
        policy = opaq.load_policy(file, problem, ignore_model_mismatch=True)
        opaq.compile_problem(problem, policy.policy_class).policy_vector(policy)

    memory = opaq.build_memory(problem.mdp, nodes=2, update=[{"from": 0, "to": {0: 0.5, 1: 0.5}}])
    targets = []
    for policy_class in (None, opaq.PolicyClass(("state", "memory"), memory=memory)):
        product = opaq.compile_problem(problem, policy_class)
        policy = policy_to_dict(product.policy(product.policy_vector(None)), problem=problem)
        targets.append(Target(json.dumps(policy, indent=1).encode(), _in_file(folder / "policy.json", read), damage))
    return targets


_PLAN = b"""opaq-sweep: 1
problem: two-sink
over:
  task.return_at_least: [0.0, 0.2]
  horizon: [1, 2]
solve: {starts: 1}
"""


def _plans(damage: Damage, folder: Path) -> list[Target]:
    return [Target(_PLAN, _in_file(folder / "plan.yaml", lambda file: check_points(read_plan(file))), damage)]


def _archives(folder: Path, damage: Damage = damage_bytes) -> list[Target]:
    """Everything that an archive can hold, plain and compressed; an index is damaged inside the plain one."""
    problem, file = opaq.load_problem("two-sink"), folder / "model.umb"
    variables = {"x": np.arange(3), "on": np.array([True, False, True])}
    targets = []
    for compressed in (False, True) if damage is damage_bytes else (False,):
        write_umb(
            file, problem.mdp, observer=problem.observer, variables=variables, compressed=compressed, overwrite=True
        )
        targets.append(Target(file.read_bytes(), _in_file(file, opaq.read_umb), damage))
    return targets


_TIGER = b"""# a comment
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


def _pomdps(folder: Path) -> list[Target]:
    by_others = Path(os.environ["OPAQ_MODELS"]).glob("pomdp/*.pomdp") if os.environ.get("OPAQ_MODELS") else ()
    texts = [_TIGER, *(file.read_bytes() for file in sorted(by_others) if file.stat().st_size < 40_000)]
    return [Target(text, _in_file(folder / "model.pomdp", opaq.read_pomdp)) for text in texts]


_PRISM = b"""pomdp
observables light endobservables
const double p = 0.5;
module rooms
  room : [0..2] init 0;
  light : bool init false;
  [go] room < 2 -> p : (room' = room + 1) + 1 - p : (light' = !light);
  [] room = 2 -> true;
endmodule
rewards "time" room = 1 : 1; endrewards
label "deepest" = room = 2;
"""


def _prism(folder: Path) -> list[Target]:
    return [Target(_PRISM, _in_file(folder / "model.prism", opaq.read_prism))]


def _as_text(original: str, read: Callable[[str], object]) -> Target:
    return Target(original.encode(), lambda data: read(data.decode(errors="replace")))


def _texts(folder: Path) -> list[Target]:
    """Automata in HOA and DOT, formulas, expressions over labels, guards and expressions over variables."""
    automaton, letters = (
        opaq.load_problem("graph").secret.automaton,
        [frozenset(letter) for letter in ("", "p", "q", "pq")],
    )
    formulas = ("F(p & X q) | G !p", "(p U q) -> last", "!(p R (q W p))", "p S (O q & H p)")
    values = {"x": np.arange(5), "y": np.arange(5)}
    return [
        _as_text(automaton_to_hoa(automaton), automaton_from_hoa),
        _as_text(automaton_to_dot(automaton), automaton_from_dot),
        *(_as_text(text, lambda text: language_automaton("ltlf", text, letters)) for text in formulas),
        *(
            _as_text(text, lambda text: language_automaton("regex", text, letters))
            for text in ("(p ; q)* | [p & !q]+", ". {2,3} ; p?")
        ),
        *(_as_text(text, parse_guard) for text in ("p & !q | (true)", '"a b" | q')),
        _as_text("x + 2 * y <= 3 & !(x = y)", lambda text: evaluate(text, values)),
    ]


def _runs(folder: Path) -> list[Target]:
    """Every file of a run of `solve`, and of the same run before it ended; `solve --resume` reads them."""
    run, begun, copied = folder / "run", folder / "begun", folder / "copy"
    _run_command("solve", "two-sink", "--starts", "2", "--run-folder", run, "--json")
    shutil.copytree(run, begun)
    (begun / "result.json").unlink()

    def resume(source: Path, name: str, data: bytes) -> object:
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(source, copied)
        (copied / name).write_bytes(data)
        return _run_command("solve", "--resume", copied, "--json")

    files = [file for source in (run, begun) for file in sorted(source.rglob("*")) if file.is_file()]
    return [Target(file.read_bytes(), partial(resume, file.parent, file.name)) for file in files if file.stat().st_size]


def _measured(folder: Path) -> list[Target]:
    """A policy file and an archive beside a problem, as the command reads them."""
    archive, problem = folder / "model.umb", folder / "umb.yaml"
    policy = json.dumps(policy_to_dict(opaq.solve("two-sink", starts=1).policy)).encode()
    read = _in_file(
        folder / "policy.json", lambda file: _run_command("measure", "two-sink", "--policy", file, "--json")
    )
    observer = "{emissions: {'*': {u: 0.5, v: 0.5}}}"
    problem.write_text(f"{{opaq: 1, umb: model.umb, observer: {observer}, secret: {{last_state: [q1]}}, horizon: 2}}")
    targets = [
        Target(target.original, _in_file(archive, lambda _: _run_command("measure", problem, "--json")))
        for target in _archives(folder)
    ]
    return [Target(policy, read), *targets]


def _journals(folder: Path) -> list[Target]:
    """The journal of a sweep, by itself: what is done is neither lost nor changed, and a bad file is left alone."""
    study, file = folder / "study", folder / "damaged" / "journal.sqlite"
    file.parent.mkdir()
    opaq.sweep(parse_yaml(_PLAN.decode()).data, output=study, executor=InlineExecutor())

    def read(data: bytes) -> object:
        file.write_bytes(data)
        try:
            return opaq.load_study(file.parent).points, results(file.parent)
        finally:
            assert file.read_bytes() == data, "the journal was changed by reading it"

    return [Target((study / "journal.sqlite").read_bytes(), read, guarded=True)]


def _answers(folder: Path) -> list[Target]:
    """What commands print as JSON, where another command reads it."""
    answers = {
        "ladder": ("compare", "two-sink", "--classes", "state; state,time"),
        "trace": ("solve", "two-sink", "--starts", "1"),
        "frontier": ("frontier", "two-sink", "--points", "2"),
    }

    def plot(what: str, file: Path) -> object:
        figure = folder / "figure.svg"
        figure.unlink(missing_ok=True)
        return _run_command("plot", what, "--answer", file, "-o", figure)

    return [
        Target(
            opaq_command(*command, "--json").stdout.encode(),
            _in_file(folder / f"{what}.json", partial(plot, what)),
            damage,
        )
        for what, command in answers.items()
        for damage in (damage_bytes, damage_values)
    ]


KINDS: dict[str, Callable[[Path], list[Target]]] = {
    "problem": partial(_problems, damage_bytes),
    "problem values": partial(_problems, damage_values),
    "policy": partial(_policies, damage_bytes),
    "policy values": partial(_policies, damage_values),
    "sweep plan": partial(_plans, damage_bytes),
    "sweep plan values": partial(_plans, damage_values),
    "umb": _archives,
    "umb index": partial(_archives, damage=_damage_index),
    "pomdp": _pomdps,
    "texts": _texts,
    "run folder": _runs,
    "measured files": _measured,
    "journal": _journals,
    "answers": _answers,
    **({"prism": _prism} if find_spec("stormpy") else {}),
}


# --- trials -----------------------------------------------------------------------------------------------------


def try_damage(kind: str, targets: Sequence[Target], number: int, *, limit_memory: bool = False) -> Outcome:
    """Damage one file and read it; the tallies say how it ended: loaded or refused.

    limit_memory: whether the memory taken is held against MEMORY too, which makes reading slower.
    """
    rng, target = Random(number), targets[number % len(targets)]
    data = target.original
    while data == target.original:
        data = target.damage(data, rng.choice(targets).original, rng)
    if limit_memory:
        tracemalloc.start()
    began, end, failure = time.process_time(), "loaded", ""
    try:
        content = target.read(data)
        if target.guarded and content != target.read(target.original):
            failure = "was read, and says something else"
    except _REFUSALS as error:
        end = "refused"
        str(error).encode("utf-8", "backslashreplace")
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    took = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1] if limit_memory else 0
    if limit_memory:
        tracemalloc.stop()
    if took > SECONDS or peak > MEMORY:
        failure = failure or f"took {took:.1f} s and {peak:,} bytes"
    return Outcome((f"{kind}: {failure}",) if failure else (), {(kind, end): 1.0})
