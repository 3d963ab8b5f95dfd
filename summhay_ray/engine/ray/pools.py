"""Runs CPU-bound and GPU-bound work as Ray Data pipelines over pools of actors.

All pipelines work in the same way. The sources of a run are grouped into blocks. A pool of actors processes the
blocks, and grows and shrinks with the cluster. An actor commits its results to the store itself, and returns one small row per
block. The pool `embed` runs `Workload.compute`. The pool of CPUs prepares and answers the sources that ask no provider. All other
sources go to the workers (`worker_actor.py`) as soon as their computations are done.

If an actor is killed, Ray starts another one, which repeats the block. Results that are already in the store are not computed
again.
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
"""Maximum number of items in a block. A larger source is a separate block, since sources are never divided."""
FEW_ITEMS = 16
"""Blocks are larger than this only if there are at least `BLOCKS` blocks."""
BLOCKS = 64
BLOCKS_AN_ACTOR = 4
"""Minimum number of blocks per initial actor of the pool. With small blocks, the wait for the last one is short."""
FEW_BLOCKS = 16
"""If the sources read fewer different inputs (such as files) than this, blocks are smaller, so that several actors can share the
sources of one input."""


def blocks_of(sources: Iterable[Sequence[Item]], most: int) -> Iterator[list[Item]]:
    """Yield whole sources in blocks of at most `most` items, or of one larger source. Sources that read the same input are
    adjacent."""
    alike: dict[str, list[Sequence[Item]]] = {}
    for items in sources:
        alike.setdefault(items[0].reads, []).append(items)
    for some in alike.values():
        yield from _join(some, most)


def _join(lists: Iterable[Sequence[Item]], most: int) -> Iterator[list[Item]]:
    """Join neighbouring lists to lists of at most `most` items. Longer lists stay unchanged."""
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
    """Runs `Workload.compute` in an actor, which loads its models once."""

    order: WorkOrder
    started: float = field(default_factory=time.time)

    # This is not in the constructor, since Ray does not report the constructor's errors in full.
    @cached_property
    def _workload(self) -> Workload[Any]:
        return stored_workload(Store(self.order.store_uri), self.order.record)

    def __call__(self, batch: Batch) -> Batch:
        took: Counter[str] = Counter()
        for part in json.loads(batch["parts"][0]):
            # After an error, `prepare` computes the missing results, or reports the error as a failure row.
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
        # Ray Data gives its actors no names, so use the id. A restarted actor has the same id, and so replaces the one that died.
        return WorkerActor(self._order, POOL, ray.get_runtime_context().get_actor_id()[:8])

    def __call__(self, batch: Batch) -> Batch:
        counts, error = Counter[str](), b""
        try:
            if works := read_batch(zlib.decompress(batch["items"][0]).decode("ascii")):
                for result in asyncio.run_coroutine_threadsafe(self._worker.work_here(works), self._loop).result():
                    counts.update(result.counts())
        # Return the exception itself, since Ray Data would keep only its text.
        except Exception as problem:  # noqa: BLE001
            error = ray.cloudpickle.dumps(problem)
        return {**batch, "items": _column(b""), "counts": _column(json.dumps(counts)), "error": _column(error)}


def _column(value: Any) -> NDArray[Any]:
    return np.array([value], dtype=object)


@dataclass
class Pools:
    """The pipelines of one start of a run. `counts`: the counts of the items that the pipelines have answered."""

    workload: Workload[Any]
    order: WorkOrder
    pools: Mapping[str, Pool]
    counts: Counter[str] = field(default_factory=Counter, init=False)
    n_parts: int = field(default=0, init=False)
    """The number of blocks to compute."""
    n_computed: int = field(default=0, init=False)
    """The number of computed blocks."""
    _began: float = field(default_factory=time.time, init=False)
    _started: dict[str, float] = field(default_factory=dict, init=False)
    _sums: Counter[str] = field(default_factory=Counter, init=False)
    _first: Collection[str] = field(default=(), init=False)

    def feeds(self, left: Left, first: Collection[str]) -> list[AsyncGenerator[Left, None]]:
        """Return pipelines for all remaining items. They run in parallel, and yield the items that the workers must answer.

        `first`: the sources of `first_readers`. The pipelines raise RayError.
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
        # If this start has no pool, the workers also answer items that an earlier driver had intended for a pool.
        return divided(self.workload, left) if POOL in self.pools else (left, {})

    async def _pass_on(self, sources: Left) -> AsyncGenerator[Left, None]:
        yield sources

    async def _answer(self, sources: Left) -> AsyncGenerator[Left, None]:
        """Answer items that ask only models in this cluster. Yields no items for the workers."""
        if not sources:
            return
        every = list(sources.values())
        if not prepares(self.workload):
            every = [(item,) for items in every for item in items]
        queues = self.workload.queues()
        n_items, most = sum(map(len, every)), min(queues[items[0].queue].batch_size or MOST_ITEMS for items in every)
        # If there are enough inputs for all actors, items that read the same input go to one actor.
        if len({items[0].reads for items in every}) < FEW_BLOCKS:
            actors = self.pools[POOL].first
            most = min(most, -(-n_items // (BLOCKS_AN_ACTOR * actors)), max(FEW_ITEMS, -(-n_items // BLOCKS)))
        # Each block costs the driver and the ledger some time, so many small inputs share a block.
        blocks = _join(blocks_of(every, most), min(most, n_items // BLOCKS))
        async for _ in self._map_rows([self._row(number, block) for number, block in enumerate(blocks)], (Answerer,)):
            yield {}

    async def _compute(self, groups: Sequence[Left]) -> AsyncGenerator[Left, None]:
        """Run the computations of items. Then answer the items that ask no provider, and yield the others for the workers."""
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
        # There are fewer groups than actors. So each group is divided among the actors, and all groups are ready at the same
        # time.
        self.n_parts = len(parts)
        async for _ in self._map_rows([self._row(number, parts=[part]) for number, part in enumerate(parts)], (Computer,)):
            continue
        called, free = self._divided(sources)
        yield called
        async for some in self._answer(free):
            yield some

    def _row(self, number: int, items: Sequence[Item] = (), parts: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        works = [WorkItem(item, writes_input=item.source in self._first) for item in items]
        # Compress the items, since the driver keeps the rows of all blocks in memory until the end.
        packed = zlib.compress(batch_text(works).encode("ascii"), level=1)
        parts_text = json.dumps([dict(part) for part in parts])
        return {"number": number, "items": packed, "parts": parts_text, "computed": "", "counts": "", "error": b""}

    async def _map_rows(self, rows: Sequence[Mapping[str, Any]], stages: Sequence[type]) -> AsyncGenerator[int, None]:
        """Map the rows through the stages, and yield the number of each row as soon as it is done."""
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
                # Send an actor one block at a time. Otherwise the first ready actor takes blocks that another actor could start.
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
        """Return the number of `actors` that computed, the seconds until the last of them had started (`start_s`), and the summed
        results of `Workload.compute`. Empty if there was no computation."""
        if not self._started:
            return {}
        # Clocks of two nodes may differ a little.
        figures = {"start_s": max(0.0, max(self._started.values()) - self._began), **self._sums}
        return {"actors": len(self._started), **{name: round(value, 3) for name, value in figures.items()}}


ROW = ("number", "computed", "counts", "error")
"""The columns of the row that an actor returns per block."""


def _items(sources: Left) -> list[Item]:
    return [item for items in sources.values() for item in items]
