"""How a run is read whose benchmark says nothing else: scored by `score` and `report`, its items as samples. Part of the engine
room."""

from __future__ import annotations

from typing import Any

from summhay_ray.engine.contract import BaseReader, Results, W
from summhay_ray.engine.items import Compat
from summhay_ray.engine.read.explain import explained
from summhay_ray.engine.read.item_samples import item_samples
from summhay_ray.engine.read.scoring import scored
from summhay_ray.engine.samples import Samples
from summhay_ray.store import RunStore


class RunReader(BaseReader[W]):
    """The base of readers."""

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """See `BaseReader`."""
        self.compat = compat
        return scored(self.workload, run)

    def samples(self, run: RunStore) -> Samples:
        """See `BaseReader`."""
        return item_samples(self.workload, run)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `BaseReader`."""
        return explained(self.workload, run, key)
