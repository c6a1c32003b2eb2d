"""Damage real files at random and feed them to every parser: only opaq's own errors may come out.

`python benchmarks/fuzz.py [SECONDS]` (60 a parser by default). Seeds: the bundled scenarios, small texts
written here and, where OPAQ_MODELS names a folder of models by others, its `pomdp/*.pomdp`.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import opaq
from opaq import load
from opaq.automata.formula import NotationError
from opaq.automata.translate import language_automaton
from opaq.errors import OpaqError
from opaq.formats.dot import automaton_from_dot, automaton_to_dot
from opaq.formats.hoa import automaton_from_hoa, automaton_to_hoa
from opaq.formats.pomdp.reader import read_pomdp
from opaq.formats.umb.reader import read_umb, write_umb
from opaq.model.automaton import GuardError, parse_guard
from opaq.spec.variables import ExpressionError, evaluate

ALPHABET = (frozenset(), frozenset("p"), frozenset("q"), frozenset("pq"))
OWN = (OpaqError, NotationError, GuardError, ExpressionError)


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, (seeds, parse) in targets(Path(folder)).items():
            count, worst = fuzz(seeds, parse, seconds)
            print(f"{name:12} {count:8,} damaged inputs, slowest {worst:.2f} s, only our own errors", flush=True)


def targets(folder: Path) -> dict[str, tuple[list[bytes], Callable[[bytes], object]]]:
    graph = opaq.load_problem("graph")
    automaton = graph.secret.automaton
    write_umb(folder / "seed.umb", graph.mdp, observer=graph.observer)
    texts = [load.scenario_text(name).encode() for name in load.scenario_names()]
    models = sorted(Path(os.environ["OPAQ_MODELS"]).glob("pomdp/*.pomdp")) if os.environ.get("OPAQ_MODELS") else []
    pomdps = [file.read_bytes() for file in models if file.stat().st_size < 40_000]
    formulas = [b"F(p & X q) | G !p", b"(p U q) -> last", b"!(p R (q W p))", b"p S (O q & H p)"]
    regexes = [b"(p ; q)* | [p & !q]+", b". {2,3} ; p?"]
    guards = [b"p & !q | (true)", b'"a b" | q']
    return {
        "problem": (texts, _in_file(folder / "problem.yaml", opaq.load_problem)),
        "pomdp": (pomdps or [b"discount: 0.9\nstates: 2\n"], _in_file(folder / "m.pomdp", read_pomdp)),
        "umb": ([(folder / "seed.umb").read_bytes()], _in_file(folder / "m.umb", read_umb)),
        "hoa": ([automaton_to_hoa(automaton).encode()], lambda data: automaton_from_hoa(_text(data))),
        "dot": ([automaton_to_dot(automaton).encode()], lambda data: automaton_from_dot(_text(data))),
        "ltlf": (formulas, lambda data: language_automaton("ltlf", _text(data), ALPHABET)),
        "regex": (regexes, lambda data: language_automaton("regex", _text(data), ALPHABET)),
        "guard": (guards, lambda data: parse_guard(_text(data))),
        "expression": ([b"x + 2 * y <= 3 & !(x = y)"], lambda data: evaluate(_text(data), {"x": ints(), "y": ints()})),
    }


def ints() -> object:
    import numpy as np

    return np.arange(5)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _in_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return parse


def fuzz(seeds: list[bytes], parse: Callable[[bytes], object], seconds: float) -> tuple[int, float]:
    """How many damaged inputs were tried, and the slowest; anything but our own errors ends the run."""
    rng, end, count, worst = random.Random(0), time.monotonic() + seconds, 0, 0.0
    while time.monotonic() < end:
        data = damage(rng, rng.choice(seeds), rng.choice(seeds))
        began = time.monotonic()
        with contextlib.suppress(*OWN):
            parse(data)
        worst = max(worst, time.monotonic() - began)
        count += 1
    return count, worst


def damage(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Some random edits."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            found[at : at + rng.choice((1, 1, 5, 50))] = b""
        elif kind == 1:
            found[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
        elif kind == 2:
            found[at : at + 1] = rng.choice(
                (b"9" * 20, b"-1", b"nan", b"1e999", b"{", b"[", b"(", b"*", b"&a", b"\x00")
            )
        elif kind == 3:
            cut = rng.randrange(len(other) + 1)
            found[at:at] = other[cut : cut + rng.choice((3, 30, 300))]
        elif kind == 4:
            found[at:at] = found[max(0, at - 20) : at] * rng.choice((1, 3, 100))
        else:
            found = found[:at] if rng.random() < 0.2 else found
    return bytes(found)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
