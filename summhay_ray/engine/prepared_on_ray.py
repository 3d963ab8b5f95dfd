"""Streams prepared items to the workers of a run on Ray. Part of the engine room.

The run's own workers prepare: what a worker has read to prepare an item is at hand when it answers it.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from summhay_ray.engine.contract import Item, Workload
from summhay_ray.engine.prepared import batches, prepares
from summhay_ray.engine.queues import WorkItem, read_batch

AHEAD_A_WORKER = 2
"""Batches per worker that are prepared ahead of demand."""
ITEMS_A_BLOCK = 256
"""Size of a block of items if nothing is prepared."""

Worker = tuple[Any, int]
"""A run's actor, and its number among those of its kind."""


async def work_items_of(
    left: Mapping[str, Sequence[Item]], workload: Workload[Any], workers: Sequence[Worker]
) -> AsyncGenerator[Sequence[WorkItem], None]:
    """The remaining items with their prepared data, in blocks. `workers`: the run's actors.

    They prepare in turn, a few batches ahead of demand, so that prepared data does not pile up in this process.
    """
    if not prepares(workload):
        items = [item for some in left.values() for item in some]
        for start in range(0, len(items), ITEMS_A_BLOCK):
            yield [WorkItem(item) for item in items[start : start + ITEMS_A_BLOCK]]
        return
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


def _text(items: Sequence[Item]) -> str:
    return json.dumps([asdict(item) for item in items])
