"""The page about errors: every message on it is what the command printed when the page was made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import opaq
from opaq.cli.main import main

HEAD = """\
# Errors and exit codes

A command ends with one of these codes; [Answers](../answers.md#exit-codes) has the same table for scripts.

| code | meaning | what to do |
|---|---|---|
| 0 | done | |
| 1 | it ran, but no policy that meets the task exists or was found | lower a threshold |
| 2 | bad input, an output that cannot be written, or more than the budget | read stderr: one line per fault |
| 3 | a feasible policy, but not converged | give more time, or take it as it is |
| 70 | a fault of opaq itself, or out of memory | report it with the problem file; `--debug` shows where |
| 74 | stdout is closed or full | |
| 130, 143 | interrupted by Ctrl-C, by SIGTERM | what was certain by then has been printed |

## How a fault reads

A fault is one line on stderr: the file, the path of the key within it, what was found, what to do, and the line of the
file. All faults of a file are reported at once, so one run of `opaq check` is enough. In Python the same lines are the
`faults` of an `opaq.InputError`; each has `where`, `found`, `advice` and `line`. Nothing is printed on stdout and
nothing is written when the input is bad.

What follows was printed by the commands when this page was made (`python docs/generate.py`).
"""

BASE = """\
opaq: 1
model:
  states: [home, road, vault]
  actions: [wait, go]
  start: home
  transitions:
    home: {wait: home, go: road}
    road: {"*": {vault: 0.5, home: 0.5}}
    vault: {"*": vault}
  rewards: {vault: 1}
observer:
  emissions: {home: quiet, road: {quiet: 0.5, steps: 0.5}, vault: quiet}
secret: {last_state: [vault]}
horizon: 3
"""

# Title, what is changed in BASE (old text -> new text), the command, and a sentence.
CASES: list[tuple[str, dict[str, str], str, str]] = [
    (
        "Probabilities that do not sum to 1",
        {"vault: 0.5, home: 0.5}": "vault: 0.5, home: 0.3}"},
        "check problem.yaml",
        "Sums within 1e-5 of 1 are scaled with a warning; anything more is a fault.",
    ),
    (
        "A name that is spelled differently somewhere",
        {"vault: quiet}": "vaults: quiet}", "[vault]": "[valt]"},
        "check problem.yaml",
        "One line per fault. Names that look alike are suggested.",
    ),
    ("An unknown key", {"horizon": "horizont"}, "check problem.yaml", "Keys that look alike are suggested as well."),
    ("Text that is no YAML", {"start: home": "start: [home"}, "check problem.yaml", ""),
    (
        "A task that no policy can do",
        {"horizon: 3": "horizon: 3\ntask: {return_at_least: 9}"},
        "solve problem.yaml --quiet",
        "",
    ),
    (
        "A formula with a mistake",
        {"{last_state: [vault]}": "{ltlf: 'F(vault &', reveal: acceptance}"},
        "check problem.yaml",
        "",
    ),
    ("A scenario that does not exist", {}, "measure two-sinks", ""),
    (
        "An option without effect",
        {},
        "measure problem.yaml --mode exact --samples 100",
        "Options that would be ignored are refused.",
    ),
    (
        "A file that is there already",
        {},
        "examples two-sink --output problem.yaml",
        "Nothing of yours is overwritten without `--overwrite`.",
    ),
    (
        "A policy of another model",
        {},
        "measure problem.yaml --policy policy.json",
        "`--ignore-model-mismatch` takes it all the same, if its rows fit.",
    ),
    ("More than the budget", {}, "measure grid-last-state-4 --mode exact --max-beliefs 10 --quiet", ""),
]


def page() -> str:
    """The codes, and the common faults with what the commands say."""
    return "\n".join([HEAD, *(line for case in CASES for line in _case(*case))])


def _case(title: str, changes: dict[str, str], command: str, sentence: str) -> Iterator[str]:
    text = BASE
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    code, shown = run(command, text)
    yield f"## {title}"
    yield ""
    if changes:
        yield from ("```yaml skip", *(line for line in text.splitlines() if line not in BASE.splitlines()), "```", "")
    yield from ("```console", f"$ opaq {command}", *shown.rstrip().splitlines(), "```", "")
    yield f"Exit code {code}. {sentence}".strip()
    yield ""


def run(command: str, problem: str) -> tuple[int, str]:
    """Run a command beside a problem file and a policy of another model: exit code, and the lines people see first."""
    out, err = StringIO(), StringIO()
    width = os.environ.get("COLUMNS")
    with TemporaryDirectory() as folder, chdir(folder):
        Path("problem.yaml").write_text(problem)
        stated = opaq.load_problem("two-sink")
        opaq.save_policy(opaq.Policy(stated.policy_class, {("q0",): {"a": 1.0}}), "policy.json", problem=stated)
        os.environ["COLUMNS"] = "100"
        with redirect_stdout(out), redirect_stderr(err):
            code = main(command.split())
    os.environ.pop("COLUMNS")
    if width is not None:
        os.environ["COLUMNS"] = width
    first = out.getvalue().partition("\n\n")[0]
    return code, "\n".join(part for part in (err.getvalue().rstrip(), first) if part)
