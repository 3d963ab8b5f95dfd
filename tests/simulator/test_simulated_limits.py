"""Sliding minutes, compared with a list that is counted each time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.simulator.limits import MINUTE_S, Minute, most_in_a_minute

pytestmark = pytest.mark.core

# Quarters of a second: sums of them are exact.
gaps = st.integers(0, 160).map(lambda quarters: quarters / 4)
events = st.lists(st.tuples(gaps, st.integers(1, 5)), max_size=40)


def test_a_minute_frees_what_is_sixty_seconds_old() -> None:
    minute = Minute()
    minute.take(2, 0.0)
    minute.take(1, 10.0)
    assert minute.wait_s(1, 3, 10.0) == 50.0
    assert minute.wait_s(3, 3, 30.0) == 40.0
    assert minute.wait_s(1, 3, 59.75) == 0.25
    assert minute.wait_s(1, 3, 60.0) == 0.0
    assert [minute.total(now) for now in (60.0, 69.75, 70.0)] == [1, 1, 0]


def test_an_amount_above_the_limit_never_fits() -> None:
    assert Minute().wait_s(11, 10, 0.0) == math.inf


def test_undone_amounts_do_not_count() -> None:
    minute = Minute()
    first, second = minute.take(4, 0.0), minute.take(3, 1.0)
    minute.undo(first)
    assert minute.total(1.0) == 3
    assert minute.total(60.5) == 3
    assert minute.total(61.0) == 0
    minute.undo(second)
    assert minute.total(61.0) == 0


@given(events, st.integers(1, 12))
def test_no_sliding_minute_exceeds_the_limit_and_the_wait_is_exact(events: list[tuple[float, int]], limit: int) -> None:
    minute, now = Minute(), 0.0
    taken: list[tuple[float, int]] = []

    def held(at: float) -> int:
        return sum(amount for time, amount in taken if at - MINUTE_S < time <= at)

    for gap, amount in events:
        now += gap
        wait = minute.wait_s(amount, limit, now)
        if math.isinf(wait):
            assert amount > limit
            continue
        assert (wait == 0) == (held(now) + amount <= limit)
        if wait > 0:
            assert held(now + wait) + amount <= limit
            assert held(now + wait - 0.125) + amount > limit
        else:
            minute.take(amount, now)
            taken.append((now, amount))
        assert held(now) <= limit


@given(st.lists(gaps, max_size=60))
def test_the_most_in_a_minute_is_that_of_the_fullest_one(gaps: list[float]) -> None:
    times, now = [], 0.0
    for gap in gaps:
        times.append(now := now + gap)
    fullest = max((sum(end - MINUTE_S < time <= end for time in times) for end in times), default=0)
    assert most_in_a_minute(times) == fullest
