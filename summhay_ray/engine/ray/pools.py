"""Runs CPU-bound and GPU-bound work as Ray Data pipelines over pools of actors. Imports Ray.

All pipelines have one shape. The sources of a run are divided into blocks. A pool of actors, which grows and shrinks with the
cluster, takes the blocks; an actor commits its results to the store itself, and returns one small row for a block. The pool
`embed` runs `Workload.compute`. The pool of CPUs prepares and answers the sources that ask no provider. All others go to the
workers (`worker_actor.py`), as soon as the results that they need are computed.

If an actor is killed, Ray starts another one and repeats the block. Results that are already in the store are not computed again.
"""

import asyncio
import contextlib
import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import ray
import ray.cloudpickle
from numpy.typing import NDArray

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.placement import EMBED, POOL, Pool
from summhay_ray.engine.ray.session import configure_ray_data
from summhay_ray.engine.ray.worker_actor import WorkerActor, WorkOrder
from summhay_ray.engine.registry import stored_workload
from summhay_ray.engine.run.queues import WorkItem, batch_text, read_batch
from summhay_ray.engine.run.worker import Left, divided, prepares
from summhay_ray.store import Store

Batch = dict[str, NDArray[Any]]
MOST_ITEMS = 128
"""Maximum number of items in a block. A larger source is a block of its own, since sources are never divided."""
FEW_ITEMS = 16
"""Blocks are larger than this only if there are at least `BLOCKS` blocks."""
BLOCKS = 64
BLOCKS_AN_ACTOR = 4
"""Minimum number of blocks per initial actor of the pool: small blocks shorten the wait for the last one."""
FEW_BLOCKS = 16
"""If sources read at least this many different inputs, such as files, each block holds sources that read the same input, up to
its size."""


def blocks_of(sources: Iterable[Sequence[Item]], most: int) -> Iterator[list[Item]]:
    """Whole sources in blocks of at most `most` items, or of one source. Sources that read the same input are adjacent."""
    alike: dict[str, list[Sequence[Item]]] = {}
    for items in sources:
        alike.setdefault(items[0].reads, []).append(items)
    for some in alike.values():
        yield from _join(some, most)


def _join(lists: Iterable[Sequence[Item]], most: int) -> Iterator[list[Item]]:
    """Neighbours joined to lists of at most `most` items; a longer list stays as it is."""
    joined: list[Item] = []
    for items in lists:
        if joined and len(joined) + len(items) > most:
            yield joined
            joined = []
        joined.extend(items)
    if joined:
        yield joined


@dataclass(eq=False)
class Computer:
    """Runs `Workload.compute`. Its models are loaded once."""

    order: WorkOrder
    started: float = field(default_factory=time.time)

    # Not in the constructor, whose errors Ray does not report in full.
    @cached_property
    def _workload(self) -> Workload[Any]:
        return stored_workload(Store(self.order.store_uri), self.order.record)

    def __call__(self, batch: Batch) -> Batch:
        took: Counter[str] = Counter()
        for part in json.loads(batch["parts"][0]):
            # Preparing computes what is missing, and reports the error as a failure row.
            with contextlib.suppress(Exception):
                took.update(self._workload.compute(part))
        actor = ray.get_runtime_context().get_actor_id()
        return {**batch, "computed": _column(json.dumps({"actor": actor, "started": self.started, "took": took}))}


class Answerer:
    """Prepares and answers items that ask only models in this cluster."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    @cached_property
    def _worker(self) -> WorkerActor:
        # Ray Data gives its actors no names. One that Ray starts again has the same id, and takes the place of the one that died.
        return WorkerActor(self._order, POOL, ray.get_runtime_context().get_actor_id()[:8])

    def __call__(self, batch: Batch) -> Batch:
        counts, error = Counter[str](), b""
        try:
            if works := read_batch(zlib.decompress(batch["items"][0]).decode("ascii")):
                for result in asyncio.run_coroutine_threadsafe(self._worker.work_here(works), self._loop).result():
                    counts.update(result.counts())
        # Ray Data keeps only the text of an exception.
        except Exception as problem:  # noqa: BLE001
            error = ray.cloudpickle.dumps(problem)
        return {**batch, "items": _column(b""), "counts": _column(json.dumps(counts)), "error": _column(error)}


def _column(value: Any) -> NDArray[Any]:
    return np.array([value], dtype=object)


@dataclass
class Pools:
    """The pipelines of one start of a run. `counts`: the counts of the items that they have answered."""

    workload: Workload[Any]
    order: WorkOrder
    pools: Mapping[str, Pool]
    counts: Counter[str] = field(default_factory=Counter, init=False)
    n_parts: int = field(default=0, init=False)
    """The number of blocks to compute."""
    n_computed: int = field(default=0, init=False)
    """The number of blocks that are computed."""
    _began: float = field(default_factory=time.time, init=False)
    _started: dict[str, float] = field(default_factory=dict, init=False)
    _sums: Counter[str] = field(default_factory=Counter, init=False)
    _first: Collection[str] = field(default=(), init=False)

    def feeds(self, left: Left, first: Collection[str]) -> list[AsyncGenerator[Left, None]]:
        """Pipelines that run in parallel and cover all remaining items. They yield the items for the workers to answer.

        `first`: the sources of `first_readers`. Raise RayError.
        """
        self._first = first
        groups: dict[str, dict[str, Sequence[Item]]] = {}
        rest: dict[str, Sequence[Item]] = {}
        for source, items in left.items():
            parts = self.workload.computations(items) if EMBED in self.pools else ()
            (groups.setdefault(items[0].reads or json.dumps([*parts]), {}) if parts else rest)[source] = items
        called, free = self._divided(rest)
        return [self._pass_on(called), self._answer(free), self._compute([*groups.values()])]

    def _divided(self, left: Left) -> tuple[Left, Left]:
        # This start may have no pool, although an earlier driver has left items for a pool. Then the workers answer them.
        return divided(self.workload, left) if POOL in self.pools else (left, {})

    async def _pass_on(self, sources: Left) -> AsyncGenerator[Left, None]:
        yield sources

    async def _answer(self, sources: Left) -> AsyncGenerator[Left, None]:
        """Answer items that ask only models in this cluster; yields nothing for the workers."""
        if not sources:
            return
        every = list(sources.values())
        if not prepares(self.workload):
            every = [(item,) for items in every for item in items]
        queues = self.workload.queues()
        n_items, most = sum(map(len, every)), min(queues[items[0].queue].batch_size or MOST_ITEMS for items in every)
        # Items that read the same input go to one actor, if there are enough inputs for all actors.
        if len({items[0].reads for items in every}) < FEW_BLOCKS:
            actors = self.pools[POOL].first
            most = min(most, -(-n_items // (BLOCKS_AN_ACTOR * actors)), max(FEW_ITEMS, -(-n_items // BLOCKS)))
        # Each block costs the driver and the ledger some time: many small inputs share one.
        blocks = _join(blocks_of(every, most), min(most, n_items // BLOCKS))
        async for _ in self._map_rows([self._row(number, block) for number, block in enumerate(blocks)], (Answerer,)):
            yield {}

    async def _compute(self, groups: Sequence[Left]) -> AsyncGenerator[Left, None]:
        """Compute what items need. Answer those that ask no provider, and yield the others as soon as their results are
        computed."""
        sources = {source: items for group in groups for source, items in group.items()}
        spec = self.workload.spec.resources.get(EMBED)
        parts = self.workload.computations(_items(sources), spec.actors.max if spec else 1)
        if len(groups) >= (spec.actors.max if spec else len(parts)):
            halves = [self._divided(group) for group in groups]
            rows = [
                self._row(number, _items(free), self.workload.computations(_items(group)))
                for number, (group, (_, free)) in enumerate(zip(groups, halves, strict=True))
            ]
            self.n_parts = len(rows)
            async for number in self._map_rows(rows, (Computer, Answerer) if POOL in self.pools else (Computer,)):
                yield halves[number][0]
            return
        # Fewer groups than actors: each group is divided among the actors, so none is ready before all are.
        self.n_parts = len(parts)
        async for _ in self._map_rows([self._row(number, parts=[part]) for number, part in enumerate(parts)], (Computer,)):
            continue
        called, free = self._divided(sources)
        yield called
        async for some in self._answer(free):
            yield some

    def _row(self, number: int, items: Sequence[Item] = (), parts: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        works = [WorkItem(item, writes_input=item.source in self._first) for item in items]
        # The rows of all blocks are in the driver's memory until the end.
        packed = zlib.compress(batch_text(works).encode("ascii"), level=1)
        parts_text = json.dumps([dict(part) for part in parts])
        return {"number": number, "items": packed, "parts": parts_text, "computed": "", "counts": "", "error": b""}

    async def _map_rows(self, rows: Sequence[Mapping[str, Any]], stages: Sequence[type]) -> AsyncGenerator[int, None]:
        """The numbers of the rows that the stages have mapped, in the order in which they are done."""
        if not rows:
            return
        # Ray Data's iterator blocks, so it runs in a separate thread.
        thread = ThreadPoolExecutor(max_workers=1)
        batches = self._map_batches(rows, stages)
        try:
            while (batch := await asyncio.get_running_loop().run_in_executor(thread, next, batches, None)) is not None:
                for number, computed, counts, error in zip(*(batch[name] for name in ROW), strict=True):
                    if error:
                        raise ray.exceptions.RayError("an actor of a pool failed") from ray.cloudpickle.loads(error)
                    self.counts.update(json.loads(counts or "{}"))
                    if computed:
                        took = json.loads(computed)
                        self.n_computed += 1
                        self._started[took["actor"]] = took["started"]
                        self._sums.update(took["took"])
                    yield int(number)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _map_batches(self, rows: Sequence[Mapping[str, Any]], stages: Sequence[type]) -> Iterator[Batch]:
        import ray.data

        configure_ray_data()
        data = ray.data.from_items([dict(row) for row in rows], override_num_blocks=len(rows))
        for actor in stages:
            pool = self.pools[EMBED if actor is Computer else POOL]
            most = max(1, min(pool.most, len(rows)))
            fewest = max(1, min(pool.fewest, most))
            data = data.map_batches(
                actor,
                fn_constructor_args=(self.order,),
                # One block per actor at a time: otherwise the first ready actor takes blocks that another one could start.
                compute=ray.data.ActorPoolStrategy(
                    min_size=fewest,
                    max_size=most,
                    initial_size=max(fewest, min(pool.first, most)),
                    max_tasks_in_flight_per_actor=1,
                ),
                num_cpus=pool.cpus,
                num_gpus=pool.gpus or None,
                batch_size=1,
            )
        yield from data.iter_batches(batch_size=None, prefetch_batches=1)

    def took(self) -> dict[str, float]:
        """The number of `actors` that computed, the seconds until the last of them had started (`start_s`), and the sums over
        them of what `Workload.compute` returns. Empty if there was no computation."""
        if not self._started:
            return {}
        # Clocks of two nodes may differ a little.
        figures = {"start_s": max(0.0, max(self._started.values()) - self._began), **self._sums}
        return {"actors": len(self._started), **{name: round(value, 3) for name, value in figures.items()}}


ROW = ("number", "computed", "counts", "error")
"""The columns of the row that an actor returns for a block."""


def _items(sources: Left) -> list[Item]:
    return [item for items in sources.values() for item in items]
