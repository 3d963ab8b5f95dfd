"""Limits per minute hold at the provider and are fully used; nothing arrives before a Retry-After has ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from limits import (
    INPUT_TPM,
    RPM,
    Arrivals,
    Pause,
    counting_provider,
    input_tpm,
    own_limit,
    retry_after,
    rpm,
    too_early,
)

BUSY_MACHINE_S = 0.3
"""How long a request may take to be read where tests run beside each other."""
LATE_AT_MOST_S = 0.5 + BUSY_MACHINE_S
"""A grant that is used so late is not used any more, beside that."""


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_ten_seconds_at_limits_that_allow_twenty_calls_a_second() -> None:
    # 1,200 requests per minute are 20 a second; so are 18,000 tokens a second in prompts of about 900 tokens.
    with counting_provider() as provider, ThreadPoolExecutor(3) as pool:
        of_requests = pool.submit(rpm, provider, 1200.0, 1 / 6)
        of_tokens = pool.submit(input_tpm, provider, 1_080_000.0, 1 / 6)
        paused = pool.submit(retry_after, 200, 5)
    # Five seconds contain the limit's calls, and the late ones of the seconds before.
    assert len(of_requests.result().times) == 200 and of_requests.result().most(5.0) <= 20 * (5 + LATE_AT_MOST_S)
    assert of_tokens.result().most(5.0) <= 18_000 * (5 + LATE_AT_MOST_S)
    assert of_requests.result().a_minute() >= 0.6 * 1200 and of_tokens.result().a_minute() >= 0.6 * 1_080_000
    times, pauses = paused.result()
    assert pauses and len(times) == 200 + len(pauses) and too_early(times, pauses, BUSY_MACHINE_S) == []


@pytest.mark.soak
@pytest.mark.parametrize(("measure", "limit"), [(rpm, RPM), (input_tpm, INPUT_TPM)])
def test_no_minute_of_three_holds_too_much(measure: object, limit: float) -> None:
    assert callable(measure)
    with counting_provider() as provider:
        found = measure(provider, limit, 3.0, "ray")
    assert found.most() <= limit and found.a_minute() >= 0.95 * limit


@pytest.mark.soak
def test_a_thousand_calls_keep_every_retry_after() -> None:
    times, pauses = retry_after(1000, executor="ray")
    assert len(times) == 1000 + len(pauses) and too_early(times, pauses) == []


@pytest.mark.soak
def test_half_of_what_we_think_is_what_we_get() -> None:
    times, pauses = own_limit(RPM, 3.0, "ray")
    assert pauses and too_early(times, pauses) == []


@pytest.mark.core
def test_the_most_of_a_window_by_hand() -> None:
    found = Arrivals([0.0, 10.0, 59.9, 60.0, 70.0], [1, 2, 4, 8, 16])
    # [10, 60] has 2 + 4 + 8, and (10, 70] has 4 + 8 + 16: a call from a minute ago does not count.
    assert found.most() == 28 and found.most(10.0) == 16 and found.most(11.0) == 28
    assert found.a_minute() == (1 + 2 + 4 + 8) / 70 * 60


@pytest.mark.core
def test_what_comes_in_a_pause_is_seen() -> None:
    pause = Pause(at=10.0, seconds=2.0)
    assert too_early([9.0, 10.0, 10.04, 12.0, 13.0], [pause]) == []
    assert [round(after, 2) for _, after in too_early([10.06, 11.9], [pause])] == [0.06, 1.9]
