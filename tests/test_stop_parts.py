"""A stop for one part of the work, and for one call."""

from __future__ import annotations

import signal
from time import monotonic, sleep

import pytest

import opaq
from opaq.stop import INTERRUPTED, TIME_IS_UP, Deadline, Stop, StoppedError, interruptible


def test_a_part_ends_with_the_whole_and_not_the_other_way_round() -> None:
    whole = Stop()
    with whole.part() as one, whole.part() as other:
        one.request(TIME_IS_UP)
        assert (one.requested, other.requested, whole.requested) == (True, False, False)
        whole.request()
        assert (other.requested, other.reason) == (True, INTERRUPTED)
        assert one.interrupted
    with whole.part() as late:
        assert late.interrupted


def test_a_part_has_a_time_of_its_own() -> None:
    whole, begun = Stop(), monotonic()
    with whole.part(0.01) as part:
        while not part.requested and monotonic() - begun < 30:
            sleep(0.005)
        assert part.reason == TIME_IS_UP
    assert not whole.requested


def test_leaving_an_inner_stage_takes_nothing_back_that_an_outer_one_asked_for() -> None:
    stop, begun = Stop(), monotonic()
    with stop.stage(0.01):
        with stop.stage(0.0):
            while monotonic() - begun < 0.2:
                sleep(0.005)
        assert stop.requested
        with stop.stage(None):
            pass
        assert stop.requested
    assert not stop.requested


def test_an_inner_stage_that_ends_first_is_over_when_it_is_left() -> None:
    stop, begun = Stop(), monotonic()
    with stop.stage(1000.0):
        with stop.stage(0.0):
            while not stop.requested and monotonic() - begun < 30:
                sleep(0.005)
            assert stop.requested
        assert not stop.requested


def test_a_deadline_counts_from_the_entry_of_the_call() -> None:
    begun = monotonic()
    call = Deadline()
    sleep(0.02)
    deadline = call.limited_to(1000.0)
    assert 0.02 <= deadline.elapsed <= monotonic() - begun + 0.001
    assert 1000.0 - (monotonic() - begun) - 0.001 <= deadline.left <= 999.98
    assert deadline.share(0.5) == pytest.approx(0.5 * deadline.left, abs=1.0)
    assert deadline.share(3.0) <= 999.98
    part = deadline.part(0.25)
    assert part.seconds == pytest.approx(250.0, abs=1.0)
    assert part.elapsed < deadline.elapsed
    assert not deadline.passed
    assert call.limited_to(0.01).passed
    assert call.limited_to(0.01).left == 0.0


def test_without_a_limit_there_is_no_share() -> None:
    deadline = Deadline()
    assert (deadline.left, deadline.share(0.5), deadline.passed) == (None, None, False)
    assert deadline.part(0.5).left is None


def test_work_that_ended_says_why_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front whose first point had no time said nothing: its own stop had not been requested."""
    from opaq.study.front.search import FrontSearch

    def end(*arguments, stop: Stop, **options):
        stop.request(TIME_IS_UP)  # that of the point alone
        stop.check()

    assert str(StoppedError()) == str(StoppedError("")) == TIME_IS_UP
    monkeypatch.setattr(FrontSearch, "solve", end)
    with pytest.raises(StoppedError, match=TIME_IS_UP):
        opaq.frontier("two-sink", points=3)


def press_ctrl_c(stop: Stop) -> None:
    """Send the signal, and wait until the thread that listens has heard it."""
    begun = monotonic()
    signal.raise_signal(signal.SIGINT)
    while not stop.requested and monotonic() - begun < 30:
        sleep(0.005)


def call(stop: Stop | None = None, *, keep_answer: bool, has_answer: bool, act=press_ctrl_c) -> str:
    """A call whose work ends with an answer or without one."""
    with interruptible(stop, keep_answer=keep_answer) as asked:
        act(asked)
        if not has_answer:
            asked.check()
        return f"ended: {asked.reason}"


def test_an_answer_after_ctrl_c_is_returned_only_where_it_is_to_be_kept() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert call(keep_answer=True, has_answer=True) == "ended: interrupted"
    with pytest.raises(KeyboardInterrupt):
        call(keep_answer=False, has_answer=True)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("keep_answer", [True, False])
def test_work_without_an_answer_ends_as_it_was_asked_to(keep_answer: bool) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        call(keep_answer=keep_answer, has_answer=False)
    assert raised.value.__suppress_context__  # one line, not the course of the work
    with pytest.raises(StoppedError, match=TIME_IS_UP):
        call(keep_answer=keep_answer, has_answer=False, act=lambda stop: stop.request(TIME_IS_UP))


@pytest.mark.parametrize("keep_answer", [True, False])
def test_a_stop_of_the_callers_is_used_as_it_is(keep_answer: bool) -> None:
    before, stop = signal.getsignal(signal.SIGINT), Stop()
    with interruptible(stop, keep_answer=keep_answer) as asked:
        assert asked is stop
        assert signal.getsignal(signal.SIGINT) is before
    assert call(stop, keep_answer=keep_answer, has_answer=True, act=Stop.request) == "ended: interrupted"
    with pytest.raises(StoppedError, match=INTERRUPTED):
        call(stop, keep_answer=keep_answer, has_answer=False, act=Stop.request)


def test_ctrl_c_before_a_certificate_has_a_problem_is_a_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a StoppedError."""
    from opaq.certificates import certify

    compile_problem = certify.compile_problem

    def interrupted(*arguments, stop: Stop, **more):
        press_ctrl_c(stop)
        stop.check()
        return compile_problem(*arguments, stop=stop, **more)

    monkeypatch.setattr(certify, "compile_problem", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opaq.certify("two-sink", time_limit=5.0)
