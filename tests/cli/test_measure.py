"""`opaq measure`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

POLICY = {
    "format": "opaq-policy",
    "version": 1,
    "conditions_on": ["state", "time"],
    "rows": [
        {"state": "q0", "time": 0, "probabilities": {"a": 1, "b": 0}},
        {"state": "q0", "time": 1, "probabilities": {"a": 0, "b": 1}},
        {"state": "q0", "time": 2, "probabilities": {"a": 1, "b": 0}},
    ],
}


@pytest.mark.parametrize(
    ("name", "opacity", "earned", "guess_error"),
    [
        ("grid-last-state-4", 0.09590501570204, 0.10993119080861, 0.014650266044485),
        ("graph", 0.36687189913094, 1.174609375, 0.1220703125),
    ],
)
def test_reference_figures(opaq, name: str, opacity: float, earned: float, guess_error: float) -> None:
    done = opaq("measure", name, "--json", "--mode", "exact", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["opacity"]["method"] == "exact"
    assert told["opacity"]["lower"] == pytest.approx(opacity, abs=1e-12)
    assert told["opacity"]["upper"] == pytest.approx(opacity, abs=1e-12)
    assert told["return"] == pytest.approx(earned, abs=1e-12)
    assert told["leakage"]["value"] == pytest.approx(told["secret_entropy"] - opacity, abs=1e-12)
    assert told["secret_entropy"] >= told["opacity"]["lower"]
    assert told["guess_error"]["value"] == pytest.approx(guess_error, abs=1e-12)


def test_the_task_of_the_grid_is_missed_by_the_uniform_policy_and_that_is_an_answer(opaq) -> None:
    done = opaq("measure", "grid-last-state-4", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["feasible"] is False


def test_waiting_exactly_once_hides_half_a_bit(opaq, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    done = opaq("measure", "two-sink", "--policy", "policy.json", "--json", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["opacity"]["lower"] == pytest.approx(0.5, abs=1e-12)


def test_the_words_go_to_stdout_without_colour(opaq) -> None:
    done = opaq("measure", "two-sink", "-q", FORCE_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "opacity" in done.stdout.lower()
    assert "\x1b" not in done.stdout


def test_sampling_repeats_with_its_seed(opaq) -> None:
    def told(seed: str) -> dict:
        arguments = ["measure", "graph", "--mode", "sampled", "--samples", "200", "--seed", seed, "--json"]
        return json.loads(opaq(*arguments).stdout)["opacity"]

    assert told("3") == told("3")
    assert told("3") != told("4")


def test_a_bad_policy_file_is_named_with_lines(opaq, tmp_path: Path) -> None:
    broken = {**POLICY, "rows": [{"state": "q7", "time": 0, "probabilities": {"a": 0.4}}]}
    (tmp_path / "policy.json").write_text(json.dumps(broken, indent=1))
    done = opaq("measure", "two-sink", "--policy", "policy.json", "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) >= 2
    assert all(line.startswith("opaq: policy.json: rows[0]") for line in done.stderr.splitlines())
    assert "(line 10)" in done.stderr


def test_a_policy_without_a_row_that_matters(opaq, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps({**POLICY, "rows": POLICY["rows"][:1]}))
    done = opaq("measure", "two-sink", "--policy", "policy.json", "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opaq: policy.json: ")


def test_warnings_about_the_policy_are_told(opaq, tmp_path: Path) -> None:
    first = {"state": "q0", "time": 0, "probabilities": {"a": 0.500001, "b": 0.5}}
    (tmp_path / "policy.json").write_text(json.dumps({**POLICY, "rows": [first, *POLICY["rows"][1:]]}))
    done = opaq("measure", "two-sink", "--policy", "policy.json", "--json", "-q")
    assert done.returncode == 0
    assert done.stderr.startswith("opaq: policy.json: warning: rows[0].probabilities: probabilities sum to 1.000001")
    assert "opacity" in json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "idle"),
    [
        (["--mode", "exact", "--samples", "5"], ["--samples"]),
        (["--mode", "exact", "--seed", "1", "--width", "0.1", "--mass", "0"], ["--seed", "--width", "--mass"]),
        (["--mode", "interval", "--samples", "5", "--seed", "0"], ["--samples", "--seed"]),
        (["--mode", "sampled", "--width", "0.1"], ["--width"]),
    ],
)
def test_options_that_the_mode_ignores_are_refused(opaq, arguments: list[str], idle: list[str]) -> None:
    done = opaq("measure", "two-sink", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in told] == idle
    assert all(f"has no effect with --mode {arguments[1]}; it belongs to --mode" in line for line in told)


@pytest.mark.parametrize("arguments", [["--mode", "sampled", "--samples", "5", "--seed", "1"], ["--width", "0.5"]])
def test_options_that_the_mode_uses_are_not(opaq, arguments: list[str]) -> None:
    assert opaq("measure", "two-sink", *arguments).returncode == 0


def test_a_page_fits_the_terminal(opaq) -> None:
    for columns in (60, 100):
        done = opaq("measure", "grid-last-state-4", "--mode", "sampled", "--samples", "50", COLUMNS=str(columns))
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= columns


def test_a_policy_for_another_model_only_if_asked(opaq, tmp_path: Path) -> None:
    text = opaq("examples", "two-sink").stdout
    (tmp_path / "other.yaml").write_text(text.replace("b: {q1: 0.5,", "b: {q1: 0.25, q0: 0.25,"))
    assert opaq("solve", "two-sink", "--starts", "1", "--quiet", "--save-policy", "policy.json").returncode == 0
    given = ("measure", "other.yaml", "--policy", "policy.json", "--json", "-q")
    refused = opaq(*given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("opaq: policy.json: ")
    taken = opaq(*given, "--ignore-model-mismatch")
    assert taken.returncode == 0
    assert 0 < json.loads(taken.stdout)["opacity"]["value"] < 1


def test_budgets_make_intervals(opaq) -> None:
    exact = json.loads(opaq("measure", "graph", "--json", "-q").stdout)["opacity"]["value"]
    done = opaq("measure", "graph", "--mode", "interval", "--max-beliefs", "2", "--width", "0", "--json", "-q")
    told = json.loads(done.stdout)["opacity"]
    assert told["method"] == "interval"
    assert told["lower"] <= exact <= told["upper"]
    assert told["upper"] - told["lower"] > 0.01
    too_small = opaq("measure", "graph", "--mode", "exact", "--max-beliefs", "2", "-q")
    assert (too_small.returncode, too_small.stdout) == (2, "")
    assert "too many for the budget" in too_small.stderr


def test_the_text_of_an_answer(opaq) -> None:
    done = opaq("measure", "two-sink", "-q", COLUMNS="200")
    sentence, _, *lines = done.stdout.splitlines()
    assert sentence.startswith("This policy hides 0.4056 of 0.9544 bits of the secret; the observer's best guess is")
    labels = [line.split("  ")[0] for line in lines if line and not line.startswith(" ")]
    assert labels[:5] == ["opacity", "of at most", "leakage", "guess error", "best guess"]
    assert labels[5:8] == ["min-entropy", "guesswork", "return"]


def test_the_channel_goes_to_a_file(opaq, tmp_path: Path) -> None:
    done = opaq("measure", "two-sink", "--channel", "channel.csv", "-q")
    assert done.returncode == 0
    head, *lines = (tmp_path / "channel.csv").read_text().splitlines()
    assert head == "o_0,o_1,o_2,P(y),P(y | no),P(y | yes)"
    assert sum(float(line.split(",")[4]) for line in lines) == pytest.approx(1)
    again = opaq("measure", "two-sink", "--channel", "channel.csv", "-q")
    assert (again.returncode, again.stdout) == (2, "")
    assert "--overwrite" in again.stderr
    assert opaq("measure", "two-sink", "--channel", "channel.csv", "-q", "--overwrite").returncode == 0
    other = opaq("measure", "two-sink", "--channel", "channel.txt", "-q")
    assert (other.returncode, other.stdout) == (2, "")
    assert "use .csv or .npz" in other.stderr
    text = opaq("examples", "two-sink").stdout
    many = ", ".join(f"sign {number}: 0.005" for number in range(200))
    (tmp_path / "long.yaml").write_text(text.replace("q0: {N: 1}", f"q0: {{{many}}}"))
    large = opaq("measure", "long.yaml", "--channel", "large.npz", "-q")
    assert (large.returncode, large.stdout) == (2, "")
    assert "more than 10,000,000 numbers" in large.stderr


def test_the_capacity_of_an_initial_secret(opaq) -> None:
    asked = ("measure", "grid-initial-state-4", "--capacity", "--max-beliefs", "500", "--mode", "interval", "-q")
    told = json.loads(opaq(*asked, "--json").stdout)
    assert told["capacity"]["bits"]["upper"] >= told["leakage"]["lower"] - 1e-9
    assert 0.5 < told["capacity"]["bits"]["lower"] < told["capacity"]["bits"]["upper"] <= 1.5849625007211562
    assert sum(told["capacity"]["prior"].values()) == pytest.approx(1)
    assert "min-capacity" in opaq(*asked).stdout
    refused = opaq("measure", "two-sink", "--capacity", "-q")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "two-sink: secret: is no initial state" in refused.stderr


@pytest.mark.parametrize("command", [("measure",), ("measure", "--json"), ("solve", "--starts", "1")])
def test_the_warning_that_there_is_nothing_to_hide_is_repeated(opaq, tmp_path: Path, command: tuple[str, ...]) -> None:
    text = opaq("examples", "two-sink").stdout
    (tmp_path / "known.yaml").write_text(re.sub(r"horizon: \d+", "horizon: 0", text))
    asked, *options = command
    done = opaq(asked, "known.yaml", "-q", *options)
    assert done.returncode == 0
    assert "can take one value only, 'no', whatever the policy does; there is nothing to hide" in done.stderr
    assert "there is nothing to hide" in done.stdout.lower()
