"""The faults of requests: reproducible, and in the requested fractions."""

from __future__ import annotations

from collections import Counter

import pytest

from summhay_ray.simulator import Settings
from summhay_ray.simulator.faults import draw, skew

pytestmark = pytest.mark.core

N = 4000


def test_faults_have_the_requested_fractions() -> None:
    settings = Settings(errors=0.1, drops=0.05, refusals=0.2, no_usage=0.3, wrong_usage=0.1)
    fates = [draw(settings, "m", f"prompt {n}", 0) for n in range(N)]
    faults = Counter(fate.fault for fate in fates)
    usage = Counter(fate.usage_fault for fate in fates)
    assert set(faults) == {"errors", "drops", "refusals", ""}
    # Four standard deviations of a fraction of 4,000 are at most 0.032.
    for name, fraction in {"errors": 0.1, "drops": 0.05, "refusals": 0.2, "": 0.65}.items():
        assert faults[name] / N == pytest.approx(fraction, abs=0.032)
    for name, fraction in {"no_usage": 0.3, "wrong_usage": 0.1, "": 0.6}.items():
        assert usage[name] / N == pytest.approx(fraction, abs=0.032)


def test_a_fate_depends_on_seed_model_prompt_and_attempt_alone() -> None:
    settings = Settings(errors=0.5, latency=1.0, latency_spread=0.5)
    first = draw(settings, "m", "prompt", 0)
    assert draw(settings, "m", "prompt", 0) == first
    other = Settings(errors=0.5, latency=1.0, latency_spread=0.5, seed=1)
    others = [draw(other, "m", "prompt", 0), draw(settings, "n", "prompt", 0), draw(settings, "m", "a prompt", 0)]
    assert first not in [*others, draw(settings, "m", "prompt", 1)]


def test_a_retry_can_succeed() -> None:
    settings = Settings(errors=0.5)
    faults = [draw(settings, "m", "prompt", attempt).fault for attempt in range(20)]
    assert set(faults) == {"errors", ""}


def test_latencies_are_uniform_around_the_mean() -> None:
    settings = Settings(latency=2.0, latency_spread=0.25)
    latencies = [draw(settings, "m", f"prompt {n}", 0).latency_s for n in range(N)]
    assert 1.5 <= min(latencies) < 1.52 and 2.48 < max(latencies) <= 2.5
    # The standard deviation of the mean is 0.5 / sqrt(12 * 4,000) = 0.0023.
    assert sum(latencies) / N == pytest.approx(2.0, abs=0.01)
    assert draw(Settings(latency=2.0), "m", "prompt", 0).latency_s == 2.0


def test_the_skew_depends_on_the_prompt() -> None:
    settings = Settings(token_skew=0.1)
    factors = [skew(settings, "m", f"prompt {n}") for n in range(N)]
    assert 0.9 <= min(factors) < 0.901 and 1.099 < max(factors) <= 1.1
    assert skew(settings, "m", "prompt 7") == factors[7]
    assert skew(Settings(), "m", "prompt 7") == 1.0
