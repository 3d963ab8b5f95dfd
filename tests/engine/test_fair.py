"""No model slows another: one summarizer and one judge are limited to 60 requests per minute, and the others are fast."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from runs import start, write_spec
from simulated_provider import KEY, Simulated, in_thread

from summhay_ray.simulator.start import short_answer

pytestmark = pytest.mark.timeout(300)

REPEATS, LATENCY_S, AT_ONCE = 6, 0.3, 4
CALLS = {"quick": 4 * REPEATS, "quick-judge": 22}
"""Four queries; the 22 insights of two samples, each asked once: short answers are all alike."""

PATIENCE_S = 120.0
ENOUGH_S = 10.0


def seconds_of(provider: Simulated, folder: Path, slow: Sequence[str]) -> dict[str, float]:
    """Model -> seconds from its first to its last call, as the provider saw them; the run is then stopped."""
    reach = {"api_base": provider.base, "api_key_env": "SUMMHAY_TEST_KEY", "price": 0, "max_tokens": 100}
    limits = {f"openai/{name}": {"concurrency": AT_ONCE} for name in CALLS} | {f"openai/{name}": {"rpm": 60} for name in slow}
    folder.mkdir()
    spec = write_spec(
        folder,
        {
            "haystacks": ["sample/news"],
            "retrievers": ["bm25"],
            "token_budget": 1500,
            "repeats": REPEATS,
            "summarizers": [{"model": f"openai/{name}", **reach} for name in ("quick", *slow) if "judge" not in name],
            "judges": [{"model": f"openai/{name}", **reach} for name in ("quick-judge", *slow) if "judge" in name],
            "limits": limits,
            "executor": "inline",
        },
    )
    provider.reset()
    process = start(spec, folder / "store")
    try:
        end = time.monotonic() + PATIENCE_S
        times: dict[str, list[float]] = {}
        while time.monotonic() < end and any(len(times.get(name, ())) < n for name, n in CALLS.items()):
            assert process.poll() is None or not slow, process.communicate()
            time.sleep(0.5)
            times = {}
            for call in provider.calls():
                times.setdefault(call["model"], []).append(call["time"])
        # The slow summarizer's texts are judged, too: as many of the fast judge's calls are timed as it has alone.
        times |= {name: sorted(times[name])[:n] for name, n in CALLS.items()}
        assert {name: len(times[name]) for name in CALLS} == CALLS
        assert all(0 < len(times[name]) <= 60 for name in slow)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    return {name: max(times[name]) - min(times[name]) for name in CALLS}


def test_a_throttled_summarizer_and_a_throttled_judge_slow_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMMHAY_TEST_KEY", KEY)
    with in_thread(short_answer, latency=LATENCY_S) as provider:
        seconds = seconds_of(provider, tmp_path / "beside", ["slow", "slow-judge"])
    # Alone they take under 2 s; waiting for a model with 60 requests per minute would take 20 s or more.
    assert max(seconds.values()) <= ENOUGH_S, seconds
