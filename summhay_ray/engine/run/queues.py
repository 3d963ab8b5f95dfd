"""Sends items to workers, with a separate queue per group of models, so that no model slows down another. Uses no Ray.

Each queue sends items to the workers of its kind, independently of other queues. The number of items in progress is limited for
each queue and worker. Items of one group share a long prompt prefix, so one worker gets them, in order. Its gateway sends the
first of them alone; then the others can use the provider's prompt cache. A worker that runs out of items takes over items that
wait for another worker.
"""

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.engine.spec.spec import ResourcesSpec
from summhay_ray.llm import BatchRequest

T = TypeVar("T")

Kind = str
"""The kind of a worker. `calling` workers ask providers. `computing` workers run models, which would block an event loop with
calls. Any other kind is a family of models that has separate actors by the spec's `resources`, such as `transformers`."""

COMPUTING: Kind = "computing"

CALLING_AT_ONCE = 256
"""Number of items in progress per calling worker: this or, if larger, twice the model's concurrency, so that an item is always
ready. Only items beyond that number can be taken over by another worker."""

COMPUTING_AT_ONCE = (4, 32)
"""Minimum and maximum number of items in progress per computing worker."""

ITEMS_TOGETHER = 16
"""Maximum number of items in a batch. A batch returns when its slowest item is done, so large batches would wait too long."""

BUDGET_STOPS = 64
"""A queue stops sending after the budget has stopped this many consecutive items."""

AHEAD = 4000
"""Items are not prepared while every queue has at least this many waiting items."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An item to answer, with its prepared data, or with the reason why it could not be prepared."""

    item: Item
    prepared: Any = None
    problem: Mapping[str, Any] | None = None
    """The failure of preparing: stage, error, message, retryable."""
    home: int | None = None
    """The number of the worker that prepared the item. This worker has already read the data named by the item's `reads`."""
    decided: Mapping[str, Mapping[str, Any]] | None = None
    """See `Parking`; None for an item that was not parked."""
    writes_input: bool = False
    """Whether the rows of its input (`Workload.input_rows`) are written when its source is prepared."""


_SENT = ("prepared", "problem", "decided", "writes_input")
"""The fields of a work item that are sent, in addition to the fields of its item."""


def batch_text(batch: Sequence[WorkItem]) -> str:
    """Return a batch as JSON text, for `read_batch`."""
    return json.dumps([{**asdict(work.item), **{name: getattr(work, name) for name in _SENT}} for work in batch])


def read_batch(text: str, home: int | None = None) -> list[WorkItem]:
    """Return the work items from the text of `batch_text`."""
    works = json.loads(text)
    own = [{name: work.pop(name) for name in _SENT} for work in works]
    return [WorkItem(item=Item(**work), home=home, **rest) for work, rest in zip(works, own, strict=True)]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The outcome of an item: committed, stopped by the budget, or parked."""

    item_id: str
    over_budget: bool = False
    counted: int = 0
    """Number of its rows in the benchmark's counted table."""
    failures: int = 0
    """Number of its failure rows."""
    parked: tuple[BatchRequest, ...] = ()
    """The requests that wait for a batch, if the item is parked."""

    def counts(self) -> dict[str, int]:
        """Return what this item adds to the counts of the run."""
        return {} if self.over_budget or self.parked else {"items_done": 1, "counted": self.counted, "failures": self.failures}


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The workers to which a queue sends its items, and how many items it sends at a time."""

    kind: Kind
    workers: int
    """Maximum number of workers at any time."""
    max_in_flight: int
    """Maximum number of items in progress on each worker."""
    batch_size: int
    """Maximum size of a batch."""
    calls: bool = True
    """Whether its items ask a provider."""


def queue_settings(
    workload: Workload[Any], left: Mapping[str, int], workers: int, resources: Mapping[str, ResourcesSpec] | None = None
) -> dict[str, QueueSettings]:
    """Return queue -> its settings, for the queues that have items left (`left`: queue -> number of items).

    `workers` is the number of workers of each kind. If a family of models has an entry in `resources`, this entry sets the number
    of its workers instead.
    """
    settings, queues = workload.models.settings(), workload.queues()
    by_queue = {}
    for name, n_items in sorted(left.items()):
        queue = queues[name]
        family = family_of(queue.models, resources or {})
        n_workers = resources[family].actors.max if resources and family else workers
        share = -(-n_items // (n_workers * 4))
        called = [settings[model].limits.concurrency for model in queue.models if not settings[model].local]
        least, most = COMPUTING_AT_ONCE
        # With small batches, computing items finish sooner and are spread more evenly over workers. For calling items it does not
        # matter.
        if queue.max_in_flight is not None:
            max_in_flight = max(1, min(queue.max_in_flight, share) if queue.computes else queue.max_in_flight)
        else:
            # A single worker gets all items, so that its model can answer several of them in one batch.
            max_in_flight = (
                max(CALLING_AT_ONCE, 2 * max(called)) if called else max(least, min(most, share if n_workers > 1 else most))
            )
        batch_size = queue.batch_size or (1 if queue.computes else max(1, min(ITEMS_TOGETHER, share)))
        kind = family or (COMPUTING if queue.computes else "calling")
        by_queue[name] = QueueSettings(kind, n_workers, max_in_flight, batch_size, bool(called))
    return by_queue


def family_of(models: Sequence[str], resources: Mapping[str, ResourcesSpec]) -> str:
    """Return the first family with `resources` to which one of the models belongs; empty if there is none."""
    families = {model.partition("/")[0] for model in models}
    return next((name for name in resources if name in families), "")


class ItemQueue:
    """A queue: its waiting items, and the number of its items in progress on each worker."""

    def __init__(self, settings: QueueSettings, seats: Collection[int] | None = None) -> None:
        """`seats`: the numbers of the current workers; None: all workers of the settings."""
        self.settings, self._seats = settings, range(settings.workers) if seats is None else seats
        self.waiting = 0
        self.closed = False
        """Whether the budget is used up, so that no more items are sent."""
        self._out = [0] * settings.workers
        self._shared: deque[WorkItem] = deque()
        self._own: list[deque[WorkItem]] = [deque() for _ in range(settings.workers)]
        self._groups: dict[str, int] = {}
        self._stops = 0

    def put(self, work: WorkItem) -> None:
        """Add an item. All items of a group wait for the same worker."""
        if self.closed:
            return
        self.waiting += 1
        home = work.home if work.item.reads and work.home in self._seats else None
        if work.item.group and self.settings.kind == "calling":
            known = self._groups.get(work.item.group)
            if known is not None and known in self._seats:
                home = known
            elif home is None:
                home = min(self._seats, key=lambda worker: self._out[worker] + len(self._own[worker]))
            self._groups[work.item.group] = home
        (self._shared if home is None else self._own[home]).append(work)

    def take(self) -> tuple[int, list[WorkItem]] | None:
        """Return the number of a worker and the next batch for it; None if no item waits or no worker has room."""
        for worker in sorted(self._seats, key=lambda worker: (self._out[worker], worker)):
            room = min(self.settings.batch_size, self.settings.max_in_flight - self._out[worker])
            if room <= 0:
                return None
            batch: list[WorkItem] = []
            while len(batch) < room:
                # A worker takes its own items, then unassigned items, and then, if it is nearly idle, items of a full worker.
                if not self._own[worker] and not self._shared and self._out[worker] * 4 < self.settings.max_in_flight:
                    self._take_over(worker)
                if not (waiting := self._own[worker] or self._shared):
                    break
                batch.append(waiting.popleft())
            if batch:
                self._out[worker] += len(batch)
                self.waiting -= len(batch)
                return worker, batch
        return None

    def _take_over(self, worker: int) -> None:
        """Give a worker the last item that waits for a full worker. If the item has a group, move the whole group, unless only
        this group waits there."""
        full = [other for other in self._seats if self._out[other] >= self.settings.max_in_flight]
        if not full or not (waiting := max((self._own[other] for other in full), key=len)):
            return
        group = waiting[-1].item.group
        if not group or self.settings.kind != "calling":
            self._own[worker].append(waiting.pop())
        elif others := [work for work in waiting if work.item.group != group]:
            self._own[worker].extend(work for work in waiting if work.item.group == group)
            self._groups[group] = worker
            waiting.clear()
            waiting.extend(others)

    def put_back(self, worker: int, batch: Sequence[WorkItem]) -> None:
        """Take back a batch and all items that wait for a lost worker, so that any other worker can take them."""
        self._out[worker] -= len(batch)
        if self.closed:
            return
        self.waiting += len(batch)
        self._shared.extendleft(reversed([*batch, *self._own[worker]]))
        self._own[worker].clear()

    def done(self, worker: int, results: Sequence[ItemResult]) -> None:
        """Record the results of a batch."""
        self._out[worker] -= len(results)
        for result in results:
            self._stops = self._stops + 1 if result.over_budget else 0
            if self._stops >= BUDGET_STOPS:
                self.closed, self.waiting = True, 0
                for waiting in (self._shared, *self._own):
                    waiting.clear()

    @property
    def is_full(self) -> bool:
        """Whether items wait although every worker has its maximum number of items."""
        return self.waiting > 0 and all(self._out[worker] >= self.settings.max_in_flight for worker in self._seats)

    @property
    def is_drained(self) -> bool:
        """Whether no item waits or is in progress."""
        return not self.waiting and not any(self._out)

    def is_idle(self, worker: int) -> bool:
        """Return whether a worker has no items in progress and no items wait in the queue."""
        return not self.waiting and not self._out[worker]


class WorkerLost(Exception):
    """Raised if the worker of a request was given up. Send the request to another worker."""


@dataclass
class Pending:
    """The requests that workers have not answered yet."""

    futures: dict[tuple[Kind, int], set[asyncio.Future[Any]]] = field(default_factory=dict)

    async def wait(self, kind: Kind, worker: int, request: Awaitable[T]) -> T:
        """Return the answer to a request. Raises WorkerLost if `give_up` is called for the worker in the meantime."""
        future, task = asyncio.ensure_future(request), asyncio.current_task()
        futures = self.futures.setdefault((kind, worker), set())
        futures.add(future)
        try:
            return await future
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            raise WorkerLost from None
        finally:
            futures.discard(future)

    def give_up(self, kind: Kind, worker: int) -> None:
        """Stop waiting for a worker."""
        for future in self.futures.pop((kind, worker), ()):
            future.cancel()


Send = Callable[[Kind, int, Sequence[WorkItem]], Awaitable[Sequence[ItemResult]]]
"""Sends a batch to a worker (kind, number), and waits until each item is committed or was stopped by the budget."""


class ParkedItems(Protocol):
    """The methods of `BatchQueue` that a dispatcher needs."""

    def park(self, work: WorkItem, requests: Sequence[BatchRequest]) -> None: ...

    def look(self) -> None: ...

    def feed(self, is_drained: Callable[[str], bool]) -> AsyncGenerator[Sequence[WorkItem], None]: ...


class Dispatcher:
    """Sends the items of all queues. `counts`: the items, counted rows and failures of finished batches."""

    def __init__(
        self,
        queues: Mapping[str, QueueSettings],
        send: Send,
        seats: Mapping[Kind, Collection[int]] | None = None,
        batches: ParkedItems | None = None,
    ) -> None:
        """`seats`: kind -> the numbers of the current workers; None: all. Call `pump` after `seats` has changed. `batches` keeps
        the parked items, and returns them through its `feed`."""
        self._queues = {name: ItemQueue(settings, (seats or {}).get(settings.kind)) for name, settings in queues.items()}
        self._send, self._parked = send, batches
        self._feeding = 0
        """Number of feeds that have not ended, apart from the feed of parked items."""
        self._moved = asyncio.Event()
        self._pending = Pending()
        self._batches: asyncio.TaskGroup | None = None
        self.counts: Counter[str] = Counter()

    async def run(self, *feeds: AsyncGenerator[Sequence[WorkItem], None]) -> None:
        """Send all items of the feeds, and return when they are done or when the budget is used up in every queue. Stops at the
        first error of a batch or a feed, and raises it. Feeds pause while every queue has enough items."""
        try:
            async with asyncio.TaskGroup() as self._batches:
                self._feeding = len(feeds)
                for feed in feeds:
                    self._batches.create_task(self._take(feed))
                if self._parked is not None:
                    self._batches.create_task(self._take(self._parked.feed(self.is_drained), is_counted=False))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__

    def is_drained(self, queue: str) -> bool:
        """Return whether all items of a queue are done or parked, so that only parked items can still arrive."""
        return not self._feeding and (queue not in self._queues or self._queues[queue].is_drained)

    async def _take(self, feed: AsyncGenerator[Sequence[WorkItem], None], is_counted: bool = True) -> None:
        """Put the items of a feed into their queues. `is_counted`: whether `_feeding` counts the feed."""
        queues = self._queues.values()
        async with contextlib.aclosing(feed):
            async for block in feed:
                for work in block:
                    self._queues[work.item.queue].put(work)
                self.pump()
                while all(queue.closed or queue.waiting >= AHEAD for queue in queues) and not all(one.closed for one in queues):
                    self._moved.clear()
                    await self._moved.wait()
                if all(queue.closed for queue in queues):
                    break
        if is_counted:
            self._feeding -= 1
            if self._parked is not None:
                self._parked.look()

    def of(self, kind: Kind) -> list[ItemQueue]:
        """Return the queues that send items to workers of this kind."""
        return [queue for queue in self._queues.values() if queue.settings.kind == kind]

    def pump(self, *queues: ItemQueue) -> None:
        """Send the waiting items of these queues (by default of all) to the workers that have room."""
        for queue in queues or self._queues.values():
            while self._batches is not None and (batch := queue.take()) is not None:
                self._batches.create_task(self._send_batch(queue, *batch))

    async def _send_batch(self, queue: ItemQueue, worker: int, batch: Sequence[WorkItem]) -> None:
        kind = queue.settings.kind
        try:
            results = await self._pending.wait(kind, worker, self._send(kind, worker, batch))
        except WorkerLost:
            queue.put_back(worker, batch)
        else:
            for work, result in zip(batch, results, strict=True):
                self.counts.update(result.counts())
                if result.parked and self._parked is not None:
                    self._parked.park(work, result.parked)
            queue.done(worker, results)
        self.pump(queue)
        self._moved.set()
        if self._parked is not None:
            self._parked.look()

    def give_away(self, kind: Kind, worker: int) -> None:
        """Send the items of a lost worker to other workers. First remove the worker from the `seats`."""
        self._pending.give_up(kind, worker)
        for queue in self.of(kind):
            queue.put_back(worker, ())
        self.pump()
