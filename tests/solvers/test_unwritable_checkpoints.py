"""A disk that fills up while a solve is under way: the answer is not lost, and the user is told."""

from __future__ import annotations

import opaq
from opaq.errors import Fault, InputError
from opaq.solvers import runs


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_search(tmp_path, monkeypatch) -> None:
    def full(path, data, *, overwrite):
        raise InputError([Fault("", "cannot be written: No space left on device")], str(path))

    monkeypatch.setattr(runs, "write_bytes", full)
    steps = []
    solution = opaq.solve(
        opaq.load_problem("two-sink"), starts=1, run_folder=tmp_path / "run", on_step=steps.append, sequences=0
    )
    assert solution.measurement.opacity.value > 0.4
    assert any("No space left" in step.unstored for step in steps)
