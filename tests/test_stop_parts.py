"""A stop for one part of the work."""

from __future__ import annotations

from time import monotonic, sleep

from opaq.stop import INTERRUPTED, TIME_IS_UP, Stop


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
