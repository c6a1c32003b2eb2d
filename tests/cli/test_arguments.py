"""What the command line is told: help, misspelt words, values that do not fit, completion; all faults at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opaq.commands import COMMANDS

PROGRAM = str(Path(sys.executable).parent / "opaq")
BROKEN = """
opaq: 1
model: {states: [a], actions: [x], start: {a: 0.5}, transitions: {a: {x: {b: 1}}}}
observer: {emissions: {a: {o: 1}}}
secret: {initial_state: true}
horizon: 1
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_options_take(opaq, name: str) -> None:
    text = opaq(name, "--help").stdout
    assert "<" not in text
    assert "<=" not in text
    assert f"Usage: opaq {name} [OPTIONS]" in text


def test_summaries_are_whole(opaq) -> None:
    text = opaq("--help").stdout
    assert "..." not in text.split("Commands:")[1]
    words = " ".join(text.split())
    assert (
        "Prove how much any policy could hide, whatever it remembers (or how little, where the task minimises)."
        in words
    )


@pytest.mark.parametrize("columns", [40, 200])
def test_help_fits_the_terminal(columns: int) -> None:
    for arguments in (["--help"], ["solve", "--help"], ["sensors", "--help"], ["plot", "--help"]):
        done = subprocess.run(
            [PROGRAM, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": str(columns)},
        )
        assert max(map(len, done.stdout.splitlines())) <= min(columns, 80)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["slove", "two-sink"], "'slove' is not a command; did you mean 'opaq solve'?"),
        (["qqq"], "'qqq' is not a command; opaq --help lists them"),
        (["--jsn"], "--jsn: is not an option of opaq; opaq --help lists the options"),
        (["solve", "two-sink", "--time-limt", "3"],
         "--time-limt: is not an option of opaq solve; did you mean --time-limit?"),
        (["measure", "two-sink", "--time-limt=3"],
         "--time-limt: is not an option of opaq measure; did you mean --time-limit?"),
        (["measure", "two-sink", "-z"], "-z: is not an option of opaq measure; opaq measure --help lists the options"),
        (["measure", "two-sink", "--seed", "1.5"], "--seed: is '1.5'; give a whole number, at least 0"),
        (["measure", "two-sink", "--mass", "2"], "--mass: is 2.0; give a number, from 0 to 1"),
        (["measure", "two-sink", "--mass", "nan"], "--mass: is nan; give a number, from 0 to 1"),
        (["measure", "two-sink", "--seed"], "--seed: lacks its value; give it after --seed: N"),
        (["measure", "two-sink", "--json=yes"], "--json: takes no value, and has 'yes'; write --json alone"),
        (["measure", "two-sink", "graph"], "'graph' is one argument too many; leave it out"),
        (["simulate", "two-sink", "--runs", "0"], "--runs: is 0; give a whole number, from 1 to 10,000,000"),
        (["plot", "-o", "x.pdf"],
         "WHAT: is missing; give the figure. One of policy, beliefs, trace, ladder, frontier, study"),
        (["measure"], "PROBLEM: is missing; give a problem file or the name of a scenario"),
        (["plot", "policy", "two-sink"], "--output: is missing; give the file to write: .pdf, .svg, .eps or .png"),
        (["plot", "polcy", "two-sink", "-o", "x.pdf"],
         "WHAT: 'polcy' is not a choice; did you mean 'policy'? "
         "use one of policy, beliefs, trace, ladder, frontier, study"),
        (["measure", "two-sink", "--mode", "exakt"],
         "--mode: 'exakt' is not a choice; did you mean 'exact'? use one of auto, exact, interval, sampled"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_what_was_given(opaq, arguments: list[str], told: str) -> None:
    done = opaq(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"opaq: {told}\n"


def test_a_file_in_place_of_a_command(opaq, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BROKEN)
    done = opaq("mine.yaml")
    assert (
        done.stderr == "opaq: 'mine.yaml' is not a command; name one before the file, such as opaq measure mine.yaml\n"
    )


def test_all_faults_of_options_and_files_at_once(opaq, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BROKEN)
    done = opaq("solve", "mine.yaml", "--sede", "3", "--starts", "0", "--gradients", "exat", "--time-limit", "x")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in lines[:4]] == ["--sede", "--gradients", "--starts", "--time-limit"]
    assert lines[4:] == opaq("check", "mine.yaml").stderr.splitlines()
    assert len(lines) > 5


def test_faults_that_a_command_finds_come_with_those_of_the_file(opaq, tmp_path: Path) -> None:
    """`--samples` is a fine number, and idle; the command itself says so, before it reads the file."""
    (tmp_path / "mine.yaml").write_text(BROKEN)
    done = opaq("measure", "mine.yaml", "--mode", "exact", "--samples", "3")
    own, *others = done.stderr.splitlines()
    assert own == "opaq: --samples: has no effect with --mode exact; it belongs to --mode sampled and --mode auto"
    assert others == opaq("check", "mine.yaml").stderr.splitlines()


def test_a_fault_of_the_problem_is_told_once(opaq, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BROKEN)
    lines = opaq("measure", "mine.yaml").stderr.splitlines()
    assert len(lines) == len(set(lines)) == len(opaq("check", "mine.yaml").stderr.splitlines())


def test_a_bad_policy_beside_a_bad_option(opaq) -> None:
    done = opaq("measure", "two-sink", "--policy", "nowhere.json", "--seed", "x")
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == ["--seed", "nowhere.json"]


def test_help_is_shown_in_spite_of_mistakes(opaq) -> None:
    done = opaq("measure", "--nothing", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: opaq measure" in done.stdout


def test_values_that_begin_with_a_dash_and_words_after_two_dashes(opaq) -> None:
    done = opaq("measure", "two-sink", "--width", "-1")
    assert done.stderr == "opaq: --width: is -1.0; give a number, at least 0\n"
    assert opaq("measure", "--", "--two-sink").stderr.startswith("opaq: no scenario is called '--two-sink'")


def complete(line: str, tmp_path: Path) -> list[str]:
    """What bash offers for the last word of a line, by the script that opaq gives it."""
    script = f"""
    PATH={Path(PROGRAM).parent}:$PATH
    source <(_OPAQ_COMPLETE=source_bash opaq)
    COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}
    _opaq_completion opaq
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("opaq mea", ["measure"]),
        ("opaq solve --time", ["--time-limit"]),
        ("opaq measure --mode in", ["interval"]),
        ("opaq measure two", ["two.yaml", "two-sink"]),
        ("opaq measure two-sink --policy u", ["uniform"]),
        ("opaq solve two-sink --initial-policy p", ["p.csv"]),
    ],
)
def test_a_shell_completes(line: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "two.yaml").touch()
    (tmp_path / "p.csv").touch()
    assert complete(line, tmp_path) == offered


def test_the_script_can_be_shown() -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [PROGRAM, "--show-completion", "zsh"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "compdef _opaq_completion opaq" in done.stdout


def test_files_that_are_no_problems_are_not_taken_for_one(opaq, tmp_path: Path) -> None:
    """`convert` reads models of other tools; what is wrong with an option is then all that is wrong."""
    (tmp_path / "model.pomdp").write_text("discount: 1\nvalues: reward\nstates: 1\nactions: 1\nobservations: 1\n")
    done = opaq("convert", "model.pomdp", "out.umb", "--constant", "N=3")
    assert done.stderr == "opaq: --constant: only PRISM and JANI models have constants; leave it out\n"
    done = opaq("convert", "model.pomdp", "out.umb", "--constnt", "N=3")
    assert done.stderr == "opaq: --constnt: is not an option of opaq convert; did you mean --constant?\n"


def test_faults_of_the_body_of_a_command_come_together(opaq, tmp_path: Path) -> None:
    """Options that are idle, files that cannot be written, the file of the problem, and what it has no use for."""
    done = opaq(
        "solve", "two-sink", "--eta", "1", "--gap", "1x", "--report", str(tmp_path / "no" / "r.html"), "--grid"
    )  # fmt: skip
    assert done.returncode == 2
    words = ["opaq: --eta:", "opaq: --gap: '1x'", "does not exist", "opaq: two-sink: --grid: the problem is no grid"]
    lines = done.stderr.splitlines()
    assert all(word in line for word, line in zip(words, lines, strict=True))
    (tmp_path / "mine.yaml").write_text(BROKEN)
    mine = len(opaq("check", "mine.yaml").stderr.splitlines())
    for arguments, own in [
        (["measure", "mine.yaml", "--mode", "exact", "--seed", "1", "--channel", "c.doc"], ["--seed", "c.doc"]),
        (["frontier", "mine.yaml", "--format", "latex", "--json", "--plot", "f.doc"], ["--format", "f.doc"]),
        (["sensors", "mine.yaml", "--fixed", "--conditions", "state", "--plot", "f.doc"], ["--conditions", "f.doc"]),
        (["report", "mine.yaml", "-o", "-", "--points", "3"], ["-o", "--points"]),
        (["plot", "policy", "mine.yaml", "-o", "f.pdf", "--dpi", "90", "--time", "x"], ["--dpi", "--time"]),
    ]:
        lines = opaq(*arguments).stderr.splitlines()
        assert [line.split(":")[1].strip() for line in lines[:-mine]] == own, arguments


def test_a_misspelt_name_of_a_policy_is_recognised(opaq) -> None:
    done = opaq("measure", "two-sink", "--policy", "unifrom")
    assert (done.returncode, done.stderr) == (2, "opaq: unifrom: no such file; did you mean 'uniform'?\n")
