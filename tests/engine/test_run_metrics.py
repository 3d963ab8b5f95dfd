"""The metrics of a whole run, as its driver shows them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from summhay_ray.engine.ray import metrics

pytestmark = pytest.mark.core

Shown = dict[str, float]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Metric -> the last value, without Ray's exporter."""
    values: Shown = {}

    class Gauge:
        def __init__(self, name: str, *_: object) -> None:
            self.name = name

        def set(self, value: float, _: Mapping[str, str]) -> None:
            values[self.name] = value

    monkeypatch.setattr(metrics, "Gauge", Gauge)
    return values


@pytest.mark.parametrize(
    ("change", "paused_s", "stalled"),
    [({}, 0.0, 1.0), ({"made": 6}, 0.0, 0.0), ({"doing": "computing: 3 of 9 parts"}, 0.0, 0.0), ({}, 4.0, 0.0)],
)
def test_a_run_is_stalled_when_nothing_moves_for_a_minute_and_no_provider_demands_a_pause(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], paused_s: float, stalled: float
) -> None:
    now = 100.0
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now)
    run = metrics.RunMetrics("r1", 10, 2, 2)
    snapshot = {"made": 5, "items_done": 1, "models": {"a": {"paused_s": paused_s}}}
    run.running(snapshot)
    now += 0.9 * metrics.STALLED_S
    run.running(snapshot)
    assert shown["summhay_stalled"] == 0.0
    now += 0.2 * metrics.STALLED_S
    run.running({**snapshot, **change})
    assert (shown["summhay_stalled"], shown["summhay_cells_left"]) == (stalled, 7)
    run.end("done", 10, 0)
    assert (shown["summhay_stalled"], shown["summhay_ended"]) == (0.0, 1.0)
