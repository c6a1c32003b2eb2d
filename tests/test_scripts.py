"""opaq as people use it first: calls at the top level of a script, with no guard."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import opaq
from dataclasses import replace
problem = opaq.load_problem("grid-last-state-4")
problem = replace(problem, horizon=6)
solution = opaq.solve(problem, starts=2, workers=2, time_limit=20)
print(solution.measurement.feasible, len(solution.starts))
"""


def test_solve_at_the_top_level_of_a_script(tmp_path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "2"]
    assert done.stderr == ""
