"""Prepares sources before their items are answered. No Ray."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item, Prepared
from summhay_ray.engine.work.queues import WorkItem, answers_here, batch_text, read_batch
from summhay_ray.errors import UserError
from summhay_ray.outcome import Failed
from summhay_ray.plugins import error_line
from summhay_ray.store import Finished

Left = Mapping[str, Sequence[Item]]
"""Source -> its unfinished items."""

SOURCES_A_BATCH = 32
"""Maximum number of sources in a batch, which is prepared and whose rows are committed at once."""
AHEAD_A_WORKER = 2
"""Batches per worker that are prepared ahead of demand."""
ITEMS_A_BLOCK = 256
"""Size of a block of items if nothing is prepared."""

Prepare = Callable[[str], tuple[Awaitable[str], int]]
"""Sends a batch to a worker. Returns the batch with prepared data, and the worker's number among those of its kind."""


def batches(left: Left, workers: int = 1) -> Iterator[dict[str, Sequence[Item]]]:
    """The sources and their items in batches for the workers.

    A worker's first batch is one source, so that calls begin soon. Later batches are as large as possible while each worker still
    gets several. The sources of a batch read the same input.
    """
    alike: dict[str, list[str]] = {}
    for source, items in left.items():
        alike.setdefault(items[0].reads, []).append(source)
    most, number = max(1, min(SOURCES_A_BATCH, len(left) // (4 * workers))), 0
    for sources in alike.values():
        start = 0
        while together := sources[start : start + (1 if number < workers else most)]:
            yield {source: left[source] for source in together}
            start, number = start + len(together), number + 1


def prepares(workload: Workload[Any]) -> bool:
    """Whether the benchmark overrides `prepare`."""
    return type(workload).prepare is not Workload.prepare


def divided(workload: Workload[Any], left: Left) -> tuple[Left, Left]:
    """(The items for the workers, the items for a pool), by source.

    The items of a pool ask no provider. A source is prepared once: if one of its items asks a provider, the workers get all of
    them.
    """
    here = {name for name in workload.queues() if answers_here(workload, name)}
    workers, pool = dict[str, Sequence[Item]](), dict[str, Sequence[Item]]()
    for source, items in left.items():
        free = [item for item in items if item.queue in here]
        called = [item for item in items if item.queue not in here]
        if called and prepares(workload):
            free, called = [], [*items]
        workers |= {source: called} if called else {}
        pool |= {source: free} if free else {}
    return workers, pool


def prepared(workload: Workload[Any], source: str, items: Sequence[Item], planning: bool = False) -> Prepared:
    """The prepared data of a source's items, or a problem if the benchmark's code raises. Raises OSError, UserError and, in the
    main thread, KeyboardInterrupt.

    `planning`: call the cheaper `sketch` instead of `prepare`.
    """
    try:
        return workload.sketch(source, items) if planning else workload.prepare(source, items)
    except (OSError, UserError):
        raise
    # The benchmark's own code may raise anything. Only this source's items fail.
    except BaseException as error:
        # Ctrl-C interrupts only the main thread.
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return Prepared(problem=Failed("benchmark_error", error_line(error), retryable=True))


def work_items(items: Sequence[Item], ready: Prepared) -> list[WorkItem]:
    """The items as work items, with their prepared data or problem."""
    problem: Mapping[str, Any] | None = None
    if ready.problem is not None:
        retry = getattr(ready.problem, "retryable", False)
        problem = {"stage": ready.stage, "error": ready.problem.error, "message": ready.problem.message, "retryable": retry}
    return [WorkItem(item, ready.own.get(item.id, ready.shared), problem) for item in items]


def finished_source(source: str, ready: Prepared) -> Finished | None:
    """The rows that preparing a source made, ready to be committed; None if there are none."""
    rows = {table: list(records) for table, records in ready.rows.items() if len(records)}
    return Finished(source, rows) if rows else None


async def work_items_of(
    left: Mapping[str, Sequence[Item]], workload: Workload[Any], prepare: Prepare, workers: int
) -> AsyncGenerator[Sequence[WorkItem], None]:
    """The remaining items with their prepared data, in blocks. `workers`: the number of the run's actors.

    They prepare only a few batches ahead of demand, so that prepared data does not pile up in this process.
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
