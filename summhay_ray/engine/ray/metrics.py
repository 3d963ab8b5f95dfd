"""A run's figures as metrics of Ray, which each node exports for Prometheus. Part of the engine room; imports Ray."""

from __future__ import annotations

from collections.abc import Mapping

from ray.util.metrics import Gauge

FIGURES = {
    "calls": "Calls that were answered in this start of the run.",
    "input_tokens": "Tokens that these calls read.",
    "output_tokens": "Tokens of their answers.",
    "retries": "Further attempts of calls in this start.",
    "limited": "Replies with status 429 in this start.",
    "in_flight": "Calls that are being sent.",
    "queued": "Calls that wait for a slot, a rate limit or money.",
    "spent_usd": "Dollars that the run was charged for calls that have ended.",
    "reserved_usd": "Dollars reserved for the worst case of the calls in flight.",
    "uncertain_usd": "The most that calls of the run may have cost whose end nobody knows.",
}


class RunMetrics:
    """The metrics `summhay_NAME` of one run, tagged with `run` and `model`."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._gauges = {name: Gauge(f"summhay_{name}", text, ("run", "model")) for name, text in FIGURES.items()}

    def tell(self, models: Mapping[str, Mapping[str, float]]) -> None:
        """Set the metrics. `models`: model -> its figures, as `Ledger.figures` gives them."""
        for model, figures in models.items():
            for name, gauge in self._gauges.items():
                gauge.set(figures[name], {"run": self._run, "model": model})
