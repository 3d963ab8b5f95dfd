"""Streams prepared items to the workers of a run on Ray. Part of the engine room.

The run's own workers prepare what asks a provider: what a worker has read to prepare an item is at hand when it answers it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.engine.work.prepared import batches, prepares
from summhay_ray.engine.work.queues import WorkItem, batch_text, read_batch

AHEAD_A_WORKER = 2
"""Batches per worker that are prepared ahead of demand."""
ITEMS_A_BLOCK = 256
"""Size of a block of items if nothing is prepared."""

Prepare = Callable[[str], tuple[Awaitable[str], int]]
"""Gives a batch to a worker: the same with prepared data, and the worker's number among those of its kind."""


async def work_items_of(
    left: Mapping[str, Sequence[Item]], workload: Workload[Any], prepare: Prepare, workers: int
) -> AsyncGenerator[Sequence[WorkItem], None]:
    """The remaining items with their prepared data, in blocks. `workers`: the number of the run's actors.

    They prepare in turn, a few batches ahead of demand, so that prepared data does not pile up in this process.
    """
    if not prepares(workload):
        items = [item for some in left.values() for item in some]
        for start in range(0, len(items), ITEMS_A_BLOCK):
            yield [WorkItem(item) for item in items[start : start + ITEMS_A_BLOCK]]
        return
    waiting: deque[tuple[Awaitable[str], int]] = deque()

    async def next_block() -> list[WorkItem]:
        text, home = waiting.popleft()
        return read_batch(await text, home)

    for sources in batches(left, workers):
        waiting.append(prepare(batch_text([WorkItem(item) for items in sources.values() for item in items])))
        if len(waiting) > AHEAD_A_WORKER * workers:
            yield await next_block()
    while waiting:
        yield await next_block()
