"""The metrics of a run, which the nodes of a cluster export to Prometheus.

The ledger exports the metrics of each model, and the driver those of the whole run. The labels are `run`, `model` and `status`;
they are the same at every start of the run.
"""

import time
from collections.abc import Mapping
from typing import Any

from ray.util.metrics import Gauge

from summhay_ray.llm import TOKENS, UNDER_WAY

METRICS_EVERY_S = 1.0
STALLED_S = 60.0
"""A run is stalled if no call and no item has ended for this long. The metric `stalled` reports this; `summhay status` does
not."""

FIGURES = {
    "calls": "Calls that were answered in this start of the run.",
    "input_tokens": "Input tokens of these calls.",
    "output_tokens": "Output tokens of these calls.",
    "retries": "Attempts after the first of a call, in this start.",
    "limited": "Replies with status 429 in this start.",
    "in_flight": "Calls that are being sent.",
    "queued": "Calls that wait for a slot, a rate limit or money.",
    "spent_usd": "Dollars that the run was charged for calls that have ended.",
    "reserved_usd": "Dollars reserved for the worst case of the calls in flight.",
    "uncertain_usd": "Maximum cost in dollars of calls whose outcome is unknown.",
    "cells": "Cells of the run.",
    "cells_done": "Cells that are done without a failure.",
    "cells_failed": "Cells that have ended with a failure.",
    "cells_left": "Cells that are not answered yet.",
    "stalled": "1 if nothing has ended for a minute, cells are left, and no provider demands a pause; else 0.",
    "ended": "1 if this start of the run has ended, else 0.",
    "status": "1 if the label `status` names the current status of the run, else 0.",
}
"""Name -> description of each metric `summhay_NAME`. The metrics of single models come first; the others have an empty label
`model`, since they describe the whole run."""

STATUSES = ("running", "done", "partial", "budget", "limited", "waiting", "interrupted")
"""The values of the label `status` of `summhay_status`; see `StatusResult.status`."""
PROGRESS = ("made", "failed", "retries", "limited", "items_done", TOKENS, UNDER_WAY, "doing")
"""The figures of a snapshot that change when a call or an item ends, or when a model in a worker generates tokens."""


class Metrics:
    """The gauges of one run. A gauge that is never set is not exported."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._gauges = {
            name: Gauge(f"summhay_{name}", text, ("run", "model", *(["status"] if name == "status" else [])))
            for name, text in FIGURES.items()
        }

    def show(self, figures: Mapping[str, float], model: str = "", **tags: str) -> None:
        """Set the gauges of these figures."""
        for name, figure in figures.items():
            self._gauges[name].set(figure, {"run": self._run_id, "model": model, **tags})


class RunMetrics(Metrics):
    """The metrics of a whole run, computed from the ledger's snapshots."""

    def __init__(self, run_id: str, n_cells: int, n_finished: int, n_done: int) -> None:
        """`n_finished`: the number of cells that this start does not answer again. `n_done`: the number of those without a
        failure."""
        super().__init__(run_id)
        self._cells, self._finished, self._done = n_cells, n_finished, n_done
        self._progress: Any = None
        self._moved = time.monotonic()
        self._ended = False

    def running(self, snapshot: Mapping[str, Any]) -> None:
        """Export the state of the run from a snapshot. Does nothing after the run has ended."""
        if self._ended:
            return
        progress, now = [snapshot.get(name) for name in PROGRESS], time.monotonic()
        paused = any(model["paused_s"] for model in snapshot["models"].values())
        if progress != self._progress or paused:
            self._progress, self._moved = progress, now
        # A killed and restarted worker may have counted some cells twice.
        ended = min(snapshot.get("items_done", 0), self._cells - self._finished)
        failed = min(ended, snapshot.get("items_failed", 0))
        self._show_cells(self._done + ended - failed, self._finished - self._done + failed)
        left = self._cells - self._finished - ended
        self.show({"stalled": float(left > 0 and now - self._moved >= STALLED_S), "ended": 0.0})
        self._show_status("running")

    def end(self, status: str, done: int, failed: int) -> None:
        """Export how the run ended, and its numbers of cells."""
        self._ended = True
        self._show_cells(done, failed)
        self.show({"stalled": 0.0, "ended": 1.0})
        self._show_status(status)

    def interrupted(self) -> None:
        """Export that this start was stopped or failed. Leaves the numbers of cells as they are."""
        self._ended = True
        self.show({"stalled": 0.0, "ended": 1.0})
        self._show_status("interrupted")

    def _show_cells(self, done: int, failed: int) -> None:
        left = self._cells - done - failed
        self.show({"cells": self._cells, "cells_done": done, "cells_failed": failed, "cells_left": left})

    def _show_status(self, status: str) -> None:
        for one in STATUSES:
            self.show({"status": float(one == status)}, status=one)
