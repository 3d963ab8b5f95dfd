"""What is to be asked, as Ray Data, streaming: units -> contexts, stored summaries as they are, topics. Part of the grid room.

Ray Data hands out whole batches and puts answers back in order, so that one slow call would hold up the others of its actor: it
makes contexts and reads summaries, which is computing, and calls go another way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np
import ray.data
from ray.data import ActorPoolStrategy

from summhay_ray.grid.cells import Unit
from summhay_ray.grid.lanes import Packet, Packing, order_text, read_order
from summhay_ray.grid.over_ray import in_order_and_quiet
from summhay_ray.grid.placing import CPUS_A_WORKER, Work
from summhay_ray.grid.rejudging import Rejudging, Slice, read_slice, slice_text
from summhay_ray.grid.synth_topics import stored_topics
from summhay_ray.grid.synthesizing import Synthesizing, topic_cell
from summhay_ray.grid.worker import Batch, ContextWorker, WorkOrder
from summhay_ray.store import Store
from summhay_ray.synth import Topic

UNITS_A_BATCH = 16

Read = Callable[[str], Iterable[Packet]]


async def packets_of(work: Work, order: WorkOrder, first: asyncio.Event) -> AsyncGenerator[Sequence[Packet], None]:
    """All that is left as packets; `first` is set when there is one. Ray Data's iterator blocks: it has a thread of its own."""
    blocks, read = _blocks(work, order)
    thread, loop = ThreadPoolExecutor(max_workers=1), asyncio.get_running_loop()
    try:
        while (block := await loop.run_in_executor(thread, next, blocks, None)) is not None:
            first.set()
            yield [packet for text in block["unit"] for packet in read(text)]
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _blocks(work: Work, order: WorkOrder) -> tuple[Iterator[Any], Read]:
    """The blocks of what is left, in order, and how their texts are read."""
    if isinstance(work.grid, Synthesizing):
        return _topics(work, order)
    return _summaries(work, work.grid, order) if isinstance(work.grid, Rejudging) else _contexts(work, order)


def _topics(work: Work, order: WorkOrder) -> tuple[Iterator[Any], Read]:
    """Some topics at a time, in order, with what their haystacks are made of."""
    cells = [cell.cell_id for cells in work.left.values() for cell in cells]
    rows = [{"unit": json.dumps(cells[start : start + UNITS_A_BATCH])} for start in range(0, len(cells), UNITS_A_BATCH)]
    return _through(TopicReader, rows, 1, work, order), read_order


def _contexts(work: Work, order: WorkOrder) -> tuple[Iterator[Any], Read]:
    """Blocks of units with their contexts, in order."""
    packing = Packing(work.grid, work.left, work.lanes)

    def read(text: str) -> Sequence[Packet]:
        found = json.loads(text)
        return packing.pack(Unit(**found["unit"]), found["context"], found["problem"])

    rows = [{"unit": json.dumps(asdict(unit))} for unit in work.left]
    batch = max(1, min(UNITS_A_BATCH, len(rows) // (work.contexts * 4)))
    return _through(ContextWorker, rows, batch, work, order), read


def _summaries(work: Work, grid: Rejudging, order: WorkOrder) -> tuple[Iterator[Any], Read]:
    """Slices of the stored summaries, in order, without those that are judged already."""
    wanted = {cell.cell_id for cells in work.left.values() for cell in cells}
    parts = [Slice(one.block, tuple(cell for cell in one.cells if cell.cell_id in wanted)) for one in grid.slices]
    rows = [{"unit": slice_text(grid.source.run_id, part)} for part in parts if part.cells]

    def read(text: str) -> Iterator[Packet]:
        return (replace(packet, asked=grid.asked_of(packet.cells[0].cell_id)) for packet in read_order(text))

    return _through(SummaryReader, rows, 1, work, order), read if grid.asked else read_order


def _through(worker: type[Any], rows: Sequence[Any], batch: int, work: Work, order: WorkOrder) -> Iterator[Any]:
    in_order_and_quiet()
    data = ray.data.from_items(list(rows), override_num_blocks=-(-len(rows) // batch)).map_batches(
        worker,
        fn_constructor_args=(order,),
        compute=ActorPoolStrategy(size=work.contexts),
        num_cpus=CPUS_A_WORKER,
        batch_size=batch,
    )
    return iter(data.iter_batches(batch_size=None, prefetch_batches=1))


class TopicReader:
    """Reads topics, context texts and all; gives one row for some of them: their packets, as an order's text."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    @cached_property
    def _topics(self) -> Mapping[str, Topic]:
        store = Store(self._order.store_uri)
        return dict(stored_topics(store, store.run(self._order.run_id).record))

    def __call__(self, batch: Batch) -> Batch:
        return {"unit": np.array([order_text(list(map(self._packet, json.loads(text)))) for text in batch["unit"]], dtype=object)}

    def _packet(self, cell_id: str) -> Packet:
        topic = self._topics[cell_id]
        return Packet(0, (topic_cell(cell_id, topic),), topic=asdict(topic))


class SummaryReader:
    """Reads slices of the stored summaries; gives one row a slice: its packets, as an order's text."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    # Not in the constructor, of whose errors Ray tells only that there was one.
    @cached_property
    def _store(self) -> Store:
        return Store(self._order.store_uri)

    def __call__(self, batch: Batch) -> Batch:
        return {"unit": np.array([order_text(list(self._packets(text))) for text in batch["unit"]], dtype=object)}

    def _packets(self, text: str) -> Iterator[Packet]:
        run_id, part = read_slice(text)
        for cell, summary in part.summaries(self._store.run(run_id)):
            yield Packet(0, (cell,), summary=asdict(summary))
