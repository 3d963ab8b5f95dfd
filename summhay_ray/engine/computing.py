"""Runs `Workload.compute` on a pool of actors, each with its own models, before items are prepared. Part of the engine room.

Each part stores its results by their content, where `prepare` finds them. If an actor is killed, its part runs again and skips
what is already stored.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.placement import CPUS_A_WORKER, check_gpus
from summhay_ray.engine.ray_data import in_order_and_quiet
from summhay_ray.engine.registry import stored_workload
from summhay_ray.engine.spec import ResourcesSpec
from summhay_ray.engine.worker_actor import WorkOrder
from summhay_ray.store import Store

Batch = dict[str, NDArray[Any]]

COMPUTING = "embed"
"""The key of a spec's `resources` for these actors."""


class Computer:
    """Computes parts for Ray Data. Its models are loaded once and serve all parts."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._actor = uuid.uuid4().hex
        self._started = time.time()

    # Not in the constructor, whose errors Ray does not report in full.
    @cached_property
    def _workload(self) -> Workload[Any]:
        return stored_workload(Store(self._order.store_uri), self._order.record)

    def __call__(self, batch: Batch) -> Batch:
        done = [self._computed(json.loads(text)) for text in batch["part"]]
        return {
            "problem": np.array([problem for problem, _ in done], dtype=object),
            "took": np.array([json.dumps(took) for _, took in done], dtype=object),
            "actor": np.array([self._actor] * len(done), dtype=object),
            "started": np.array([self._started] * len(done)),
        }

    def _computed(self, part: Mapping[str, Any]) -> tuple[str, Mapping[str, float]]:
        """Compute a part. Returns why it failed (empty if it did not) and what was computed."""
        try:
            return "", self._workload.compute(part)
        # `prepare` will compute what is missing now, and report the error as a failure row.
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}", {}


def at_hand(resources: ResourcesSpec) -> ResourcesSpec:
    """The actors' resources: without GPUs where the cluster has none, since the models then run on CPUs."""
    if resources.gpus and not ray.cluster_resources().get("GPU"):
        return resources.model_copy(update={"gpus": 0.0})
    return resources


async def compute(
    parts: Sequence[Mapping[str, Any]], order: WorkOrder, resources: ResourcesSpec, workers: int, told: Callable[[int], None]
) -> dict[str, float]:
    """Return when all parts are computed. `workers`: number of worker actors that also hold CPUs. `told` gets the number of
    finished parts. Raises PlacementError.

    The result has the number of `actors` that computed, the seconds until the last of them had started (`start_s`), and the sums
    over them of what `Workload.compute` returns. It is empty if there are no parts.
    """
    if not parts:
        return {}
    # Without this check, Ray would wait for missing GPUs silently.
    check_gpus({COMPUTING: min(resources.actors, len(parts))}, {COMPUTING: resources})
    began = time.time()
    # Ray Data's iterator blocks, so it runs in a thread of its own.
    thread = ThreadPoolExecutor(max_workers=1)
    try:
        batches = _told(_computed(parts, order, resources, workers), told)
        done = await asyncio.get_running_loop().run_in_executor(thread, list, batches)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
    return took(done, began)


def _told(batches: Iterator[Batch], told: Callable[[int], None]) -> Iterator[Batch]:
    n = 0
    for batch in batches:
        n += len(batch["actor"])
        told(n)
        yield batch


def took(done: Sequence[Batch], began: float) -> dict[str, float]:
    """The result of `compute`, from the batches of `Computer`. `began`: when the actors were ordered, as Unix time."""
    started = {actor: at for batch in done for actor, at in zip(batch["actor"], batch["started"].tolist(), strict=True)}
    sums: Counter[str] = Counter()
    for text in (text for batch in done for text in batch["took"]):
        sums.update(json.loads(text))
    # Clocks of two nodes may differ a little.
    figures = {"start_s": max(0.0, max(started.values()) - began), **sums}
    return {"actors": len(started), **{name: round(value, 3) for name, value in figures.items()}}


def _computed(parts: Sequence[Mapping[str, Any]], order: WorkOrder, resources: ResourcesSpec, workers: int) -> Iterator[Any]:
    import ray.data

    in_order_and_quiet()
    # Leave CPUs for the workers and for the task that reads the parts; otherwise the pool would wait forever.
    free = float(ray.cluster_resources().get("CPU", 1.0)) - CPUS_A_WORKER * (workers + 2)
    actors = min(resources.actors, len(parts))
    data = ray.data.from_items([{"part": json.dumps(part)} for part in parts], override_num_blocks=len(parts)).map_batches(
        Computer,
        fn_constructor_args=(order,),
        # One part at a time: otherwise the actor that is ready first takes what another one could compute beside it.
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=1),
        num_cpus=max(CPUS_A_WORKER, min(resources.cpus, free / actors)),
        num_gpus=resources.gpus or None,
        batch_size=1,
    )
    yield from data.iter_batches(batch_size=None, prefetch_batches=1)
