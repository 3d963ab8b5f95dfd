"""What is computed before items are prepared: parts over a pool of actors, each with its models. Part of the engine room.

A part keeps what it computes in the store, as content, so that a part which a killed actor left behind is done again without what
is there already; whoever prepares an item finds it there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.placement import CPUS_A_WORKER, check_gpus
from summhay_ray.engine.ray_data import in_order_and_quiet
from summhay_ray.engine.registry import stored_workload
from summhay_ray.engine.spec import ResourcesSpec
from summhay_ray.engine.worker_actor import Batch, WorkOrder
from summhay_ray.store import Store

COMPUTING = "embed"
"""What a spec's `resources` call the actors that compute."""


class Computer:
    """Computes parts for Ray Data; the models that it has loaded serve all of them."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    # Not in the constructor, of whose errors Ray tells only that there was one.
    @cached_property
    def _workload(self) -> Workload[Any]:
        return stored_workload(Store(self._order.store_uri), self._order.record)

    def __call__(self, batch: Batch) -> Batch:
        return {"problem": np.array([self._computed(json.loads(text)) for text in batch["part"]], dtype=object)}

    def _computed(self, part: Mapping[str, Any]) -> str:
        """Empty; or why the part could not be computed."""
        try:
            self._workload.compute(part)
        # The border of the Ray task: who needs what is missing now computes it again, and tells what is wrong as a row.
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
        return ""


async def compute(parts: Sequence[Mapping[str, Any]], order: WorkOrder, resources: ResourcesSpec, workers: int) -> None:
    """Return when all parts are computed. `workers`: how many others hold a share of the CPUs. Raises PlacementError."""
    if not parts:
        return
    # Ray would wait for them without a word.
    check_gpus({COMPUTING: min(resources.actors, len(parts))}, {COMPUTING: resources})
    # Ray Data's iterator blocks: it has a thread of its own.
    thread = ThreadPoolExecutor(max_workers=1)
    try:
        await asyncio.get_running_loop().run_in_executor(thread, list, _computed(parts, order, resources, workers))
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _computed(parts: Sequence[Mapping[str, Any]], order: WorkOrder, resources: ResourcesSpec, workers: int) -> Iterator[Any]:
    import ray
    import ray.data

    in_order_and_quiet()
    # Beside the workers, and the task that reads the parts: a pool that takes all CPUs waits for ever.
    free = float(ray.cluster_resources().get("CPU", 1.0)) - CPUS_A_WORKER * (workers + 2)
    actors = min(resources.actors, len(parts))
    data = ray.data.from_items([{"part": json.dumps(part)} for part in parts], override_num_blocks=len(parts)).map_batches(
        Computer,
        fn_constructor_args=(order,),
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=max(CPUS_A_WORKER, min(resources.cpus, free / actors)),
        num_gpus=resources.gpus or None,
        batch_size=1,
    )
    yield from data.iter_batches(batch_size=None, prefetch_batches=1)
