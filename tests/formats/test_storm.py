"""Models built by Storm: the sizes others report, and every way a model can bring Storm down."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import opaq.formats.prism.storm as storm
from opaq.errors import InputError
from opaq.formats.prism.storm import _reword, read_prism
from opaq.formats.umb.reader import read_umb, unfold_observer, write_umb
from opaq.model.arrays import SparseRows
from opaq.model.observer import Observer
from opaq.spec.variables import holds

HAS_STORM = importlib.util.find_spec("stormpy") is not None
needs_storm = pytest.mark.skipif(not HAS_STORM, reason="stormpy is not installed")

TWO_ROOMS = """pomdp
observables light endobservables
const double p;
const int K = 2;
formula deep = room = K;
observable "level" = deep ? room - 1 : 0; // seen from the door
module rooms
  room : [0..2] init 0;
  light : bool init false;
  [go] room < 2 -> p : (room' = room + 1) + 1 - p : (light' = !light);
  [] room = 2 -> true;
endmodule
rewards "z_first" room = 1 : 1; [go] room = 1 : 0.5; endrewards
rewards "another" true : 2; endrewards
label "deepest" = deep;
"""


def written(folder: Path, text: str, name: str = "model.prism") -> Path:
    file = folder / name
    file.write_text(text)
    return file


@needs_storm
@pytest.mark.parametrize(
    ("name", "constants", "states", "observations"),
    [
        ("maze2-sl.prism", {"sl": 0.075}, 15, 8),
        ("crypt4.prism", {}, 1972, 510),
        ("network2.prism", {"K": 8, "T": 20}, 4889, 1233),
        ("refuel.nm", {"N": 6, "ENERGY": 8}, 270, 36),
        ("intercept.nm", {"N": 7, "RADIUS": 1}, 4803, 2063),
        ("evade.nm", {"N": 6, "RADIUS": 2}, 4261, 2202),
        ("rocks2.nm", {"N": 4}, 332, 66),
        ("rocks2.nm", {"N": 16}, 6247, 66),
        ("obstacle.nm", {"N": 100}, 10001, 4),
        ("coin2.nm", {"K": 2}, 272, None),
        ("csma2_4.nm", {}, 7958, None),
    ],
)
def test_sizes_of_published_models(
    name: str, constants: dict, states: int, observations: int | None, model_by_others
) -> None:
    found = read_prism(model_by_others(f"prism/{name}"), constants=constants)
    assert found.mdp.num_states == len(set(found.mdp.states)) == states
    np.testing.assert_allclose(found.mdp.transitions.row_sums(), 1, atol=1e-12)
    assert all(warning.where == "deadlocks" for warning in found.warnings)
    assert all(values.shape == (states,) for values in found.variables.values())
    if observations is None:
        assert found.observer is None
    else:
        assert found.observer is not None
        assert len(set(found.observer.observations)) == observations
        assert not any(observation.endswith(".2") for observation in found.observer.observations)


@needs_storm
def test_deadlock_states_earn_their_rewards_and_are_told(tmp_path) -> None:
    text = """mdp
    const double c;
    formula deep = x = 2;
    module m
      x : [0..3] init 0;
      [go] x=0 -> 0.5:(x'=1) + 0.5:(x'=2);
      [go] x=1 -> (x'=3);
    endmodule
    rewards "r" deep : 5 * c; x = 3 : x > 2 ? pow(2, x) : 1; [go] true : 10; endrewards
    rewards true : max(1, x); endrewards
    """
    found = read_prism(written(tmp_path, text), constants={"c": 0.5})
    assert found.mdp.rewards.tolist() == [10, 10, 2.5, 8]
    assert found.rewards["default"].tolist() == [1, 1, 2, 3]
    (warning,) = found.warnings
    assert "2 states have no choice (a deadlock)" in str(warning)
    assert "x=2, x=3" in str(warning)


@needs_storm
def test_rewards_that_could_overflow_are_refused(tmp_path) -> None:
    text = "dtmc module m x : bool init false; [] !x -> (x'=true); endmodule rewards {} : 1e200; endrewards"
    for where in ("x", "!x"):  # a deadlock, and not
        with pytest.raises(InputError, match=r"is 1e\+200, not a finite number up to 1e\+100"):
            read_prism(written(tmp_path, text.replace("{}", where)), constants={})


@needs_storm
def test_a_model_in_full(tmp_path) -> None:
    found = read_prism(written(tmp_path, TWO_ROOMS), constants={"p": 0.25})
    mdp, observer = found.mdp, found.observer
    assert observer is not None
    assert set(mdp.actions) == {"go", "tau"}
    assert mdp.start[mdp.state_index()["light=false,room=0"]] == 1
    state = mdp.state_index()["light=true,room=1"]
    choice = int(mdp.choice_start[state])
    targets, chances = mdp.transitions.row(choice)
    assert {mdp.states[target]: chance for target, chance in zip(targets, chances, strict=True)} == {
        "light=true,room=2": 0.25,
        "light=false,room=1": 0.75,
    }
    assert list(found.rewards) == ["another", "z_first"]
    assert mdp.rewards[choice] == found.rewards["z_first"][choice] == 1.5  # the first of the source, state and choice
    assert mdp.labels["deepest"].tolist() == np.flatnonzero(holds("room = 2", found.variables)).tolist()
    sign = observer.observations[int(observer.emission.row(state)[0][0])]
    assert sign == "light=true,level=0"
    assert set(observer.observations) == {
        f"light={light},level={level}" for light in ("true", "false") for level in (0, 1)
    }
    other = read_prism(tmp_path / "model.prism", constants={"p": 0.25}, reward="another")
    assert set(other.mdp.rewards) == {2.0}


@needs_storm
def test_what_is_written_is_read_by_storm(tmp_path) -> None:
    stormpy = pytest.importorskip("stormpy")
    found = read_prism(written(tmp_path, TWO_ROOMS), constants={"p": 0.25})
    file = tmp_path / "ours.umb"
    write_umb(file, found.mdp, observer=found.observer, variables=found.variables, rewards=found.rewards)
    model = stormpy.build_model_from_umb(str(file))
    assert model.model_type.name == "POMDP"
    assert (model.nr_states, model.nr_choices) == (found.mdp.num_states, found.mdp.num_choices)
    assert list(model.observations) == found.observer.emission.columns.tolist()
    assert set(model.reward_models) == {"another", "z_first"}
    assert sorted(model.labeling.get_states("deepest")) == found.mdp.labels["deepest"].tolist()
    for state in range(model.nr_states):
        values = json.loads(str(model.state_valuations.to_json(state)))
        assert values == {name: array[state] for name, array in found.variables.items()}
    stormpy.io.export_to_umb(model, str(tmp_path / "back.umb"))
    back = read_umb(tmp_path / "back.umb")
    np.testing.assert_array_equal(back.mdp.transitions.dense(), found.mdp.transitions.dense())
    np.testing.assert_array_equal(back.rewards["z_first"], found.rewards["z_first"])


@needs_storm
def test_chains_and_unfolded_models_are_read_by_storm(tmp_path) -> None:
    stormpy = pytest.importorskip("stormpy")
    mdp = read_prism(written(tmp_path, TWO_ROOMS), constants={"p": 0.25}).mdp
    write_umb(tmp_path / "chain.umb", mdp, policy=np.ones(mdp.num_choices))
    assert stormpy.build_model_from_umb(str(tmp_path / "chain.umb")).model_type.name == "DTMC"
    noisy = Observer(
        observations=("a", "b"), emission=SparseRows.from_dense(np.tile([0.25, 0.75], (mdp.num_states, 1)))
    )
    grown, plain = unfold_observer(mdp, noisy)
    write_umb(tmp_path / "noisy.umb", grown, observer=plain)
    model = stormpy.build_model_from_umb(str(tmp_path / "noisy.umb"))
    assert (model.nr_states, model.nr_observations) == (2 * mdp.num_states + 1, 3)


FAULTY = {
    "division by zero": (
        "mdp const int N = 0; module m x : [0..2] init 0; [] true -> (x' = mod(3, N)); endmodule",
        "SIGFPE.*division by zero",
    ),
    "probability by zero": (
        "mdp module m x : [0..2] init 0; [] true -> 1/x : (x' = 1); endmodule",
        "state 0, choice 0: inf is not a probability",
    ),
    "syntax": ("mdp module m x : [0..2 init 0; endmodule", "Storm: .*(pars|expect|Pars)"),
    "out of range": (
        "mdp module m x : [0..2] init 0; [] true -> (x' = x + 1); endmodule",
        "Storm: .*(out-of-bounds|range)",
    ),
    "sum": (
        "mdp module m x : [0..2] init 0; [] true -> 0.5 : (x' = 1) + 0.4 : (x' = 2); endmodule",
        "sum to 0.9, not 1",
    ),
    "open constant": (
        "mdp const int N; const int M; module m x : [0..N] init M; endmodule",
        "constants without a value: N, M",
    ),
    "continuous time": ("ctmc module m x : [0..2] init 0; [] true -> 2 : (x' = 1); endmodule", "type CTMC"),
    "no such type": ("nonsense", "Storm: "),
}


@needs_storm
@pytest.mark.parametrize(("text", "message"), FAULTY.values(), ids=FAULTY.keys())
def test_faulty_models_are_told(tmp_path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_prism(file, constants={}, seconds=60)
    assert str(caught.value).startswith(str(file))
    assert "Traceback" not in str(caught.value)


UNBOUNDED = "mdp module m x : int init 0; [] true -> (x' = x + 1); endmodule"


@needs_storm
def test_a_hang_ends_in_time(tmp_path) -> None:
    with pytest.raises(InputError, match="did not finish within 3 seconds; is a variable unbounded"):
        read_prism(written(tmp_path, UNBOUNDED), constants={}, seconds=3)


@needs_storm
def test_memory_is_limited(tmp_path) -> None:
    with pytest.raises(InputError, match=r"needs more than 0.25 GiB of memory"):
        read_prism(written(tmp_path, UNBOUNDED), constants={}, seconds=300, memory=1 << 28)


@needs_storm
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the child")
def test_an_interrupt_stops_the_child(tmp_path) -> None:
    file = written(tmp_path, UNBOUNDED)
    code = f"from opaq.formats.prism.storm import read_prism\nread_prism({str(file)!r}, constants={{}})"
    # A shell without job control starts background work with SIGINT ignored, and that is inherited.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, **heeding) as parent:
        try:
            child = running_storm(parent.pid)
            parent.send_signal(signal.SIGINT)
            _, told = parent.communicate(timeout=60)
        finally:
            parent.kill()
    assert b"KeyboardInterrupt" in told
    assert not Path(f"/proc/{child}").exists()


def running_storm(parent: int) -> str:
    """The child that runs Storm, once it is there: before that, the parent is still importing modules."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in children.read_text().split():
            if b"storm_child" in Path(f"/proc/{child}/cmdline").read_bytes():
                time.sleep(1)  # it loads the model
                return child
        time.sleep(0.1)
    raise AssertionError("Storm was not started")


DRN = """@type: MDP
@parameters

@reward_models

@nr_states
2
@nr_choices
2
@model
state 0 init
\taction go
\t\t0 : 0.5
\t\t1 : {chance}
state 1 goal
\taction stay
\t\t1 : 1
"""


@needs_storm
def test_drn_is_read_and_checked(tmp_path) -> None:
    found = read_prism(written(tmp_path, DRN.format(chance=0.5), "m.drn"), constants={})
    assert found.mdp.states == ("s0", "s1")
    assert found.mdp.actions == ("go", "stay")
    assert found.mdp.labels["goal"].tolist() == [1]
    for chance, message in (
        ("0.4", "state 0, choice 0: probabilities sum to 0.9, not 1"),
        ("nan", "nan is not a prob"),
    ):
        with pytest.raises(InputError, match=message):
            read_prism(written(tmp_path, DRN.format(chance=chance), "m.drn"), constants={})


@needs_storm
def test_jani_is_read(tmp_path) -> None:
    stormpy = pytest.importorskip("stormpy")
    text = "mdp const int N; module m x : [0..3] init 0; [up] x < N -> (x' = x + 1); [up] x = N -> true; endmodule"
    jani = stormpy.parse_prism_program(str(written(tmp_path, text))).to_jani([])[0]
    stormpy.io.export_jani_to_file(str(tmp_path / "m.jani"), jani)
    found = read_prism(tmp_path / "m.jani", constants={"N": 2})
    assert found.mdp.num_states == 3
    assert sorted(found.variables["x"].tolist()) == [0, 1, 2]
    with pytest.raises(InputError, match="constants without a value: N; give them"):
        read_prism(tmp_path / "m.jani", constants={})


@needs_storm
def test_wrong_requests_are_told(tmp_path) -> None:
    file = written(tmp_path, TWO_ROOMS)
    with pytest.raises(InputError, match="there is no constant q; the model has: p, K"):
        read_prism(file, constants={"q": 1})
    with pytest.raises(InputError, match="no reward structure 'money'; the file has: another, z_first"):
        read_prism(file, constants={"p": 0.5}, reward="money")


def test_files_that_are_not_models(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_prism(tmp_path / "none.prism", constants={})
    with pytest.raises(InputError, match=r"the ending '\.txt' is unknown"):
        read_prism(tmp_path / "none.txt", constants={})


def test_without_storm_the_way_to_get_it_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(storm.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"need stormpy; install it with: pip install 'stormpy>=2.0,<3'"):
        read_prism(written(tmp_path, TWO_ROOMS), constants={"p": 0.5})


@needs_storm
def test_errors_name_the_file_of_the_user_and_the_line(tmp_path) -> None:
    """Storm reads a copy, which nobody has seen."""
    file = tmp_path / "lock.prism"
    file.write_text("mdp\nmodule lock\n  x : [0..3] init 0;\n  [a] x=0 -> (x'=y);\nendmodule\n")
    with pytest.raises(InputError) as caught:
        read_prism(file)
    assert str(caught.value) == f"{file}: Storm: line 4, column 18: expecting <expression>, in: [a] x=0 -> (x'=y);"


def test_the_copy_that_storm_reads_is_not_named() -> None:
    said = "WrongFormatException: cannot open /tmp/opaq-1/model.drn (model.drn)\n\tin line 3\n"
    assert _reword(said, "/tmp/opaq-1/model.drn", "my/lock.drn") == "cannot open my/lock.drn (lock.drn) in line 3"
