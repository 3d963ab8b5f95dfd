"""Limits across the whole cluster: requests and tokens per minute, pauses, and concurrent calls. Time is a number."""

from __future__ import annotations

import bisect
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_desk import HERE, ModelQueue

from summhay_ray.llm import Limits
from summhay_ray.llm.ledger import HORIZON_S
from summhay_ray.llm.model_queue import MARGIN, Cap, Pacer

pytestmark = pytest.mark.core


def densest(times: Sequence[float], amounts: Sequence[float]) -> float:
    """The largest sum in any window [t, t + 60)."""
    order = sorted(range(len(times)), key=times.__getitem__)
    starts, sums = [times[i] for i in order], [0.0]
    for i in order:
        sums.append(sums[-1] + amounts[i])
    return max(sums[bisect.bisect_left(starts, start + 60.0 - 1e-6)] - sums[i] for i, start in enumerate(starts))


def sent(pacer: Pacer, now: float, tokens_in: int = 0, tokens_out: int = 0) -> float:
    amounts = {"requests": 1.0, "input": float(tokens_in), "output": float(tokens_out)}
    start = pacer.earliest(now, amounts)
    pacer.take(start, amounts)
    return start


@pytest.mark.parametrize("rpm", [60, 7, 500, 0.5])
def test_no_minute_holds_more_requests_than_the_limit_and_it_is_used(rpm: float) -> None:
    pacer, now, moments = Pacer(Limits(rpm=rpm)), 0.0, random.Random(1)
    times = []
    for _ in range(700):
        now += moments.expovariate(rpm / 30)
        times.append(sent(pacer, now))
    assert densest(times, [1.0] * len(times)) <= max(rpm, 1)
    # Requests come twice as fast as they may be sent.
    assert len(times) / (times[-1] - times[0]) * 60 > rpm * 0.95


def test_a_call_that_is_sent_half_a_second_late_does_not_fill_a_minute_too_much() -> None:
    pacer, late = Pacer(Limits(rpm=600)), random.Random(2)
    times = [sent(pacer, 0.0) + late.uniform(0, 0.5) for _ in range(2000)]
    assert densest(times, [1.0] * len(times)) <= 600


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 900), st.integers(1, 90)), min_size=1, max_size=60))
def test_no_minute_holds_more_tokens_than_the_limits(calls: list[tuple[float, int, int]]) -> None:
    pacer, now, times = Pacer(Limits(input_tpm=1000, output_tpm=100)), 0.0, []
    for gap, tokens_in, tokens_out in calls:
        now += gap
        times.append(sent(pacer, now, tokens_in, tokens_out))
    assert times == sorted(times)
    assert densest(times, [call[1] for call in calls]) <= 1000
    assert densest(times, [call[2] for call in calls]) <= 100


def test_a_call_larger_than_a_minute_goes_alone_after_an_empty_minute() -> None:
    pacer = Pacer(Limits(input_tpm=1000))
    assert sent(pacer, 0.0, 500) == 0.0
    alone = sent(pacer, 1.0, 3000)
    assert 60.0 <= alone <= 61.0
    assert sent(pacer, 61.0, 10) >= alone + 60 * 3000 / 1000


def test_what_a_call_did_not_use_is_given_back() -> None:
    pacer = Pacer(Limits(output_tpm=1000))
    amounts = {"requests": 1.0, "input": 0.0, "output": 900.0}
    permit = pacer.take(pacer.earliest(0.0, amounts), amounts)
    assert permit is not None and pacer.earliest(0.0, amounts) == pytest.approx(60.6)
    pacer.correct(permit, {"output": 90})
    assert pacer.earliest(0.0, amounts) == pytest.approx(60 * 90 / (1000 * MARGIN))
    pacer.correct(permit, {"output": 1800})
    assert pacer.earliest(0.0, amounts) > 100
    pacer.cancel(permit)
    assert pacer.earliest(61.0, amounts) > 100, "its time is gone"


def test_one_throttled_model_does_not_slow_another(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"slow": Limits(rpm=1), "quick": Limits()})
    assert desk.claimed("w", *(f"s{n}" for n in range(50)), model="slow") == ["go"] + ["waits"] * 49
    assert desk.claimed("w", *(f"q{n}" for n in range(50)), model="quick") == ["go"] * 50


def test_a_call_is_granted_shortly_before_its_time_and_wakes_the_ledger_for_it(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(rpm=60 / MARGIN)})
    tickets = desk.claim("w", "a", "b", "c")
    assert desk.states("w", tickets) == ["go", "waits", "waits"]
    assert desk.books.next_at == pytest.approx(1.0 - HORIZON_S)
    desk.say("w", 0.8)
    assert desk.states("w", tickets) == ["go", "go", "waits"]
    grant = desk.grants["w"][tickets[1]]
    assert grant.timed and grant.wait_s == pytest.approx(0.2)


def test_a_pause_holds_for_all_calls_of_the_model(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(), "n": Limits()})
    desk.claim("w", "a")
    desk.settle("w", "a", 0, now=0.5, limited=True, pause_s=10.0, again=True)
    assert "v" not in desk.books.touched and desk.books.collect("v", 0.5).paused == {"m": 10.0}
    parked = desk.claim("v", "b", now=1.0)
    assert desk.states("v", parked) == ["waits"] and desk.books.next_at == pytest.approx(10.5 - HORIZON_S)
    (ticket,) = desk.claim("w", "a", now=1.0, first=True)
    assert desk.claimed("v", "c", now=1.0, model="n") == ["go"]
    for worker in ("w", "v"):
        desk.books.beat(worker, 10.4)
    desk.books.tend(10.4)
    for worker in ("w", "v"):
        desk.hear(worker, 10.4)
    for grant in (desk.grants["w"][ticket], desk.grants["v"][parked[0]]):
        assert grant.state == "go" and 10.4 + grant.wait_s == pytest.approx(10.5)
    assert desk.books.snapshot(11.0)["retries"] == 1


def test_a_call_that_is_given_back_asks_again_and_frees_what_it_had(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(input_tpm=1000 / MARGIN)})
    desk.claim("w", "a", input_tokens=1000)
    desk.settle("w", "a", 0, now=61.0, sent=False, again=True)
    (ticket,) = desk.claim("w", "a", now=61.0, input_tokens=1000, first=True)
    grant = desk.grants["w"][ticket]
    assert grant.state == "go" and grant.wait_s == pytest.approx(0.0)
    assert desk.books.snapshot(61.0)["models"]["m"]["requests"] == 1


def test_a_429_halves_the_calls_at_once_and_answers_raise_them_slowly() -> None:
    cap = Cap(64)
    cap.cut(10.0)
    cap.cut(10.5)
    assert int(cap.now) == 32, "429s that come together count once"
    cap.cut(11.1)
    assert int(cap.now) == 16
    for _ in range(16):
        cap.grow()
    assert 16.9 < cap.now <= 17.0
    for n in range(20):
        cap.cut(20.0 + 2 * n)
    assert cap.now == 1.0


def test_near_the_height_of_the_last_429_the_calls_at_once_grow_with_care() -> None:
    cap = Cap(64)
    cap.cut(0.0)
    answers = {63: 0, 64: 0}
    for height in answers:
        while cap.now < height:
            cap.grow()
            answers[height] += 1
    # From 32 to 63: one round each, 32 + 33 + ... + 62 answers; the last step takes 20 rounds of 63.
    assert answers[63] == pytest.approx(sum(range(32, 63)), rel=0.02)
    assert answers[64] == pytest.approx(20 * 63, rel=0.05)


def test_429s_that_name_no_time_stop_a_model_longer_each_round_until_it_answers() -> None:
    pacer, now, pauses = Pacer(Limits()), 0.0, []
    for _ in range(12):
        pacer.round_of_429s(now)
        pauses.append(pacer.paused_until - now)
        pacer.round_of_429s(now + 0.1)
        assert pacer.paused_until - now == pauses[-1], "those that come together are one round"
        now = pacer.paused_until
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    pacer.rounds = 0
    pacer.round_of_429s(now)
    assert pacer.paused_until - now == pytest.approx(0.25)


def test_a_model_that_answers_nothing_but_429_is_given_up_after_an_hour(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(), "n": Limits()})
    for minute in range(60):
        for model in "mn":
            desk.settle("w", "other", 0, now=60.0 * minute, model=model, limited=True, again=True)
        desk.claimed("w", f"n{minute}", model="n", now=60.0 * minute)
        desk.settle("w", f"n{minute}", 1, now=60.0 * minute, model="n", location=HERE)
    assert desk.claimed("w", "a", now=3600.0) == ["go"]
    for model in "mn":
        desk.settle("w", "other", 0, now=3601.0, model=model, limited=True, again=True)
    desk.settle("w", "a", 0, now=3601.0)
    assert desk.claimed("w", "b", now=3602.0) == ["stopped"] and desk.claimed("w", "c", model="n", now=3602.0) == ["go"]
    assert desk.books.snapshot(3602.0)["stopped"]["m"]["error"] == "quota_exhausted"


def test_after_a_429_fewer_calls_are_sent_at_once(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(concurrency=8)})
    tickets = desk.claim("w", *(f"w{n}" for n in range(20)))
    assert Counter(desk.states("w", tickets)) == {"go": 8, "waits": 12}
    desk.settle("w", "w0", 0, now=1.0, limited=True)
    for n in range(1, 4):
        desk.settle("w", f"w{n}", 0, now=1.0, location=None)
    assert Counter(desk.states("w", tickets)) == {"go": 8, "waits": 12}
    desk.settle("w", "w4", 0, now=1.0, location=None)
    assert Counter(desk.states("w", tickets)) == {"go": 9, "waits": 11}
