"""Streams prepared items to the workers, with Ray Data if there are many sources. Part of the engine room.

Ray Data is only used to prepare, which is computing. It works on whole batches and keeps their order, so that one slow model call
would hold up the others of its actor. Since a pipeline takes some 10 s to start, the run's workers prepare if there are few
sources; then Ray Data and pandas are not even imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from summhay_ray.engine.contract import Item
from summhay_ray.engine.placement import CPUS_A_WORKER, Placement
from summhay_ray.engine.prepared import SOURCES_A_BATCH, batches, prepares
from summhay_ray.engine.queues import WorkItem, read_batch
from summhay_ray.engine.worker_actor import Preparer, WorkOrder

AHEAD_A_WORKER = 2
"""Batches per worker that are prepared ahead of demand."""
ITEMS_A_BLOCK = 256
"""Size of a block of items if nothing is prepared."""

Worker = tuple[Any, int]
"""A run's actor, and its number among those of its kind."""


def in_order_and_quiet() -> None:
    """Configure this process's pipelines: results keep the order of the input, and nothing is printed."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # The errors that it logs are raised as well; without this, a stopped stream would print its traceback.
    logging.getLogger("ray.data.exceptions").setLevel(logging.CRITICAL)


async def work_items_of(
    left: Mapping[str, Sequence[Item]], placement: Placement, order: WorkOrder, workers: Sequence[Worker], first: asyncio.Event
) -> AsyncGenerator[Sequence[WorkItem], None]:
    """The remaining items with their prepared data, in blocks; `first` is set with the first one. `workers`: the run's actors."""
    if not prepares(placement.workload):
        blocks = _unprepared(left)
    elif placement.preparers:
        blocks = _by_pipeline(left, placement, order)
    else:
        blocks = _by_workers(left, workers)
    async with contextlib.aclosing(blocks):
        async for block in blocks:
            first.set()
            yield block


async def _unprepared(left: Mapping[str, Sequence[Item]]) -> AsyncGenerator[Sequence[WorkItem], None]:
    items = [item for some in left.values() for item in some]
    for start in range(0, len(items), ITEMS_A_BLOCK):
        yield [WorkItem(item) for item in items[start : start + ITEMS_A_BLOCK]]


async def _by_workers(left: Mapping[str, Sequence[Item]], workers: Sequence[Worker]) -> AsyncGenerator[Sequence[WorkItem], None]:
    """The workers prepare in turn, a few batches ahead of demand, so that prepared data does not pile up in this process."""
    waiting: deque[tuple[Any, int]] = deque()

    async def next_block() -> list[WorkItem]:
        texts, home = waiting.popleft()
        return [work for text in await texts for work in read_batch(text, home)]

    for sources, (worker, home) in zip(batches(left, len(workers)), itertools.cycle(workers), strict=False):
        waiting.append((worker.prepare.remote({source: _text(items) for source, items in sources.items()}), home))
        if len(waiting) > AHEAD_A_WORKER * len(workers):
            yield await next_block()
    while waiting:
        yield await next_block()


async def _by_pipeline(
    left: Mapping[str, Sequence[Item]], placement: Placement, order: WorkOrder
) -> AsyncGenerator[Sequence[WorkItem], None]:
    blocks = _prepared(left, placement, order)
    # Ray Data's iterator blocks, so it runs in a thread of its own.
    thread, loop = ThreadPoolExecutor(max_workers=1), asyncio.get_running_loop()
    try:
        while (block := await loop.run_in_executor(thread, next, blocks, None)) is not None:
            yield [work for text in block["batch"] for work in read_batch(text)]
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _text(items: Sequence[Item]) -> str:
    return json.dumps([asdict(item) for item in items])


def _prepared(left: Mapping[str, Sequence[Item]], placement: Placement, order: WorkOrder) -> Iterator[Any]:
    import ray.data

    in_order_and_quiet()
    rows = [{"source": source, "items": _text(items)} for source, items in left.items()]
    batch = max(1, min(SOURCES_A_BATCH, len(rows) // (placement.preparers * 4)))
    data = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // batch)).map_batches(
        Preparer,
        fn_constructor_args=(order,),
        compute=ray.data.ActorPoolStrategy(size=placement.preparers),
        num_cpus=CPUS_A_WORKER,
        batch_size=batch,
    )
    return iter(data.iter_batches(batch_size=None, prefetch_batches=1))
