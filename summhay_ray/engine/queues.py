"""How items reach the workers: one queue a group of models, so that no model slows another. Part of the engine room; no Ray.

A queue sends its items to the workers of its kind on its own account: how many of them are out at a worker is bounded for each
queue and worker, and a queue that is slow holds back nobody. Items of a group, which share a long prefix, go to one worker, in
order, so that the gateway there can send the first of them alone.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.engine.contract import Item, Workload
from summhay_ray.engine.spec import ResourcesSpec

Kind = str
"""Of a worker: `calling`, or `computing`, as models that run in the worker would hold up the calls of others in its event loop;
or the family of models that the spec's `resources` give actors of their own, such as `transformers`."""

CALLING_AT_ONCE = 2000
"""At least; and twice what a model of the queue may be asked at once, so that there is always a next one to ask."""

COMPUTING_AT_ONCE = (4, 32)

ITEMS_TOGETHER = 16
"""A batch travels as one task, and is done when its last item is: more would wait for the slowest."""

BUDGET_STOPS = 64
"""Items in a row that did not fit into the budget: then the queue sends no more."""

AHEAD = 4000
"""Items that wait in each queue: while every queue has so many, nothing more is prepared."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An item on its way to a worker, with what was prepared for it, or why nothing was."""

    item: Item
    prepared: Any = None
    problem: Mapping[str, Any] | None = None
    """stage, error, message, retryable."""


def batch_text(batch: Sequence[WorkItem]) -> str:
    """A batch as JSON text."""
    return json.dumps([{**asdict(work.item), "prepared": work.prepared, "problem": work.problem} for work in batch])


def read_batch(text: str) -> list[WorkItem]:
    """The work items of `batch_text`."""
    found = json.loads(text)
    return [WorkItem(prepared=one.pop("prepared"), problem=one.pop("problem"), item=Item(**one)) for one in found]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of an item: committed, or stopped at the budget."""

    item_id: str
    over_budget: bool = False
    counted: int = 0
    """Rows of the benchmark's counted table."""
    failures: int = 0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Where a queue's items go, and how many at once."""

    kind: Kind
    workers: int
    at_once: int
    """Items that may be out at each worker."""
    together: int
    """Items that travel together, at most."""


def queue_settings(
    workload: Workload[Any], left: Mapping[str, int], workers: int, resources: Mapping[str, ResourcesSpec] | None = None
) -> dict[str, QueueSettings]:
    """Queue -> its settings, for the queues that have items left (`left`: how many). `workers`: of each kind; of a family that
    has `resources`, as many as these say."""
    settings, queues = workload.settings(), workload.queues()
    found = {}
    for name, n_items in sorted(left.items()):
        queue = queues[name]
        asked = {model.partition("/")[0] for model in queue.models}
        family = next((one for one in resources or {} if one in asked), "")
        own = resources[family].actors if resources and family else workers
        share = -(-n_items // (own * 4))
        called = [settings[model].limits.concurrency for model in queue.models if not settings[model].local]
        least, most = COMPUTING_AT_ONCE
        # Only what computes from its first to its last word is done sooner, and spread better, a few items at a time.
        if queue.at_once is not None:
            at_once = max(1, min(queue.at_once, share) if queue.computes else queue.at_once)
        else:
            at_once = max(CALLING_AT_ONCE, 2 * max(called)) if called else max(least, min(most, share))
        together = queue.together or (1 if queue.computes else max(1, min(ITEMS_TOGETHER, share)))
        found[name] = QueueSettings(family or ("computing" if queue.computes else "calling"), own, at_once, together)
    return found


class ItemQueue:
    """The items of one queue: those that wait, and how many are out at each worker."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.waiting = 0
        self.closed = False
        """The budget is used up: nothing more is sent."""
        self._out = [0] * settings.workers
        self._shared: deque[WorkItem] = deque()
        self._own: list[deque[WorkItem]] = [deque() for _ in range(settings.workers)]
        self._groups: dict[str, int] = {}
        self._stops = 0

    def put(self, work: WorkItem) -> None:
        """Queue an item; one of a group goes to the worker that has the group."""
        if self.closed:
            return
        self.waiting += 1
        if not work.item.group or self.settings.kind != "calling":
            self._shared.append(work)
            return
        idlest = min(range(self.settings.workers), key=lambda worker: self._out[worker] + len(self._own[worker]))
        self._own[self._groups.setdefault(work.item.group, idlest)].append(work)

    def take(self) -> tuple[int, list[WorkItem]] | None:
        """The next batch and the worker that it goes to; None while nothing waits or no worker has room."""
        for worker in sorted(range(self.settings.workers), key=self._out.__getitem__):
            if self._out[worker] >= self.settings.at_once:
                return None
            batch: list[WorkItem] = []
            while len(batch) < self.settings.together and (waiting := self._own[worker] or self._shared):
                batch.append(waiting.popleft())
            if batch:
                self._out[worker] += len(batch)
                self.waiting -= len(batch)
                return worker, batch
        return None

    def done(self, worker: int, results: Sequence[ItemResult]) -> None:
        """A batch came back."""
        self._out[worker] -= len(results)
        for result in results:
            self._stops = self._stops + 1 if result.over_budget else 0
            if self._stops >= BUDGET_STOPS:
                self._close()

    def _close(self) -> None:
        self.closed, self.waiting = True, 0
        for waiting in (self._shared, *self._own):
            waiting.clear()


Send = Callable[[Kind, int, Sequence[WorkItem]], Awaitable[Sequence[ItemResult]]]
"""Hand a batch to a worker (kind, index) and wait until all its items are committed or given up."""


class Dispatcher:
    """Feeds all queues at once. `counts`: items, counted rows and failures of the batches that came back."""

    def __init__(self, queues: Mapping[str, QueueSettings], send: Send) -> None:
        self._queues = {name: ItemQueue(settings) for name, settings in queues.items()}
        self._send = send
        self._moved = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def run(self, blocks: AsyncIterator[Sequence[WorkItem]]) -> None:
        """Until every item is done, or every queue has used up its budget. The first error of any batch ends all, raised."""
        try:
            async with asyncio.TaskGroup() as batches:
                async for block in blocks:
                    for work in block:
                        self._queues[work.item.queue].put(work)
                    for queue in self._queues.values():
                        self._pump(queue, batches)
                    await self._hungry()
                    if all(queue.closed for queue in self._queues.values()):
                        break
        except BaseExceptionGroup as found:
            raise found.exceptions[0] from None

    def _pump(self, queue: ItemQueue, batches: asyncio.TaskGroup) -> None:
        while (batch := queue.take()) is not None:
            batches.create_task(self._one(queue, *batch, batches))

    async def _one(self, queue: ItemQueue, worker: int, batch: Sequence[WorkItem], batches: asyncio.TaskGroup) -> None:
        results = await self._send(queue.settings.kind, worker, batch)
        for result in results:
            if not result.over_budget:
                self.counts.update({"items_done": 1, "counted": result.counted, "failures": result.failures})
        queue.done(worker, results)
        self._pump(queue, batches)
        self._moved.set()

    async def _hungry(self) -> None:
        while all(queue.closed or queue.waiting >= AHEAD for queue in self._queues.values()):
            if all(queue.closed for queue in self._queues.values()):
                return
            self._moved.clear()
            await self._moved.wait()
