"""Work that is bound by CPUs or GPUs: pipelines of Ray Data over pools of actors. Imports Ray.

All pipelines have one shape. The sources of a run are divided into blocks. A pool of actors, which grows and shrinks with the
cluster, takes the blocks; an actor commits its results to the store itself, and returns one small row for a block. The pool
`embed` runs `Workload.compute`. The pool of CPUs prepares and answers the sources that ask no provider. All others go to the
workers (`worker_actor.py`): at once, or as soon as what they need is computed.

Where an actor is killed, Ray starts another and repeats the block; what is already in the store is not computed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from summhay_ray.engine.work.prepared import Left, divided, prepares
from summhay_ray.engine.work.queues import WorkItem, batch_text, read_batch
from summhay_ray.store import Store

Batch = dict[str, NDArray[Any]]
MOST_ITEMS = 128
"""Most items in a block, as far as sources, which are never divided, allow."""
FEW_ITEMS = 16
"""Blocks are larger than this only where there are as many as `BLOCKS`."""
BLOCKS = 64
BLOCKS_AN_ACTOR = 4
"""Least number of blocks for each actor that the pool begins with: with small blocks, nobody waits long for the last one."""
FEW_BLOCKS = 16
"""Where sources read at least so many different things, such as files, a block holds those that read the same one, as far as its
size allows."""


def blocks_of(sources: Iterable[Sequence[Item]], most: int) -> Iterator[list[Item]]:
    """Whole sources in blocks of at most so many items, or of one source. Those that read the same are neighbours."""
    alike: dict[str, list[Sequence[Item]]] = {}
    for items in sources:
        alike.setdefault(items[0].reads, []).append(items)
    for some in alike.values():
        block: list[Item] = []
        for items in some:
            if block and len(block) + len(items) > most:
                yield block
                block = []
            block.extend(items)
        yield block


class Computer:
    """Runs `Workload.compute`. Its models are loaded once."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order
        self._started = time.time()

    # Not in the constructor, whose errors Ray does not report in full.
    @cached_property
    def _workload(self) -> Workload[Any]:
        return stored_workload(Store(self._order.store_uri), self._order.record)

    def __call__(self, batch: Batch) -> Batch:
        took: Counter[str] = Counter()
        for part in json.loads(batch["parts"][0]):
            # Preparing computes what is missing, and reports the error as a failure row.
            with contextlib.suppress(Exception):
                took.update(self._workload.compute(part))
        actor = ray.get_runtime_context().get_actor_id()
        return {**batch, "computed": _column(json.dumps({"actor": actor, "started": self._started, "took": took}))}


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
            items = [work.item for work in read_batch(batch["items"][0])]
            if items:
                for result in asyncio.run_coroutine_threadsafe(self._worker.work_here(items), self._loop).result():
                    counts.update(result.counts())
        # Of an exception, Ray Data keeps the text alone.
        except Exception as problem:  # noqa: BLE001
            error = ray.cloudpickle.dumps(problem)
        return {**batch, "items": _column(""), "counts": _column(json.dumps(counts)), "error": _column(error)}


def _column(value: Any) -> NDArray[Any]:
    return np.array([value], dtype=object)


def _row(number: int, items: Sequence[Item] = (), parts: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    texts = {"items": batch_text([WorkItem(item) for item in items]), "parts": json.dumps([dict(part) for part in parts])}
    return {"number": number, **texts, "computed": "", "counts": "", "error": b""}


class Pools:
    """The pipelines of a start of a run. `counts`: of the items that they have answered."""

    def __init__(self, workload: Workload[Any], order: WorkOrder, pools: Mapping[str, Pool]) -> None:
        self._workload, self._order, self._pools = workload, order, pools
        self.counts: Counter[str] = Counter()
        self.n_parts = self.n_computed = 0
        """Numbers of blocks to compute, and of those that are computed."""
        self._began = time.time()
        self._started: dict[str, float] = {}
        self._sums: Counter[str] = Counter()

    def feeds(self, left: Left) -> list[AsyncGenerator[Left, None]]:
        """Pipelines that run side by side and cover all that is left. They yield what the workers are to answer.

        Raise RayError.
        """
        groups: dict[str, dict[str, Sequence[Item]]] = {}
        rest: dict[str, Sequence[Item]] = {}
        for source, items in left.items():
            parts = self._workload.computations(items) if EMBED in self._pools else ()
            (groups.setdefault(items[0].reads or json.dumps([*parts]), {}) if parts else rest)[source] = items
        called, free = self._divided(rest)
        return [self._at_once(called), self._answered(free), self._computed([*groups.values()])]

    def _divided(self, left: Left) -> tuple[Left, Left]:
        # This start may have no pool, and another driver have left free items alone in the meantime: the workers have them then.
        return divided(self._workload, left) if POOL in self._pools else (left, {})

    async def _at_once(self, sources: Left) -> AsyncGenerator[Left, None]:
        yield sources

    async def _answered(self, sources: Left) -> AsyncGenerator[Left, None]:
        """Answer items that ask only models in this cluster; for the workers, nothing is left."""
        if not sources:
            return
        every = list(sources.values())
        if not prepares(self._workload):
            every = [(item,) for items in every for item in items]
        queues = self._workload.queues()
        n_items, most = sum(map(len, every)), min(queues[items[0].queue].together or MOST_ITEMS for items in every)
        # One actor reads what many items read, where there is enough of that for all.
        if len({items[0].reads for items in every}) < FEW_BLOCKS:
            actors = self._pools[POOL].first
            most = min(most, -(-n_items // (BLOCKS_AN_ACTOR * actors)), max(FEW_ITEMS, -(-n_items // BLOCKS)))
        blocks = blocks_of(every, most)
        async for _ in self._done([_row(number, block) for number, block in enumerate(blocks)], (Answerer,)):
            yield {}

    async def _computed(self, groups: Sequence[Left]) -> AsyncGenerator[Left, None]:
        """Yield the items that need something computed as soon as it is there; answer those of them that ask no provider."""
        sources = {source: items for group in groups for source, items in group.items()}
        spec = self._workload.spec.resources.get(EMBED)
        parts = self._workload.computations(_items(sources), spec.actors.max if spec else 1)
        if len(groups) >= (spec.actors.max if spec else len(parts)):
            halves = [self._divided(group) for group in groups]
            rows = [
                _row(number, _items(free), self._workload.computations(_items(group)))
                for number, (group, (_, free)) in enumerate(zip(groups, halves, strict=True))
            ]
            self.n_parts = len(rows)
            async for number in self._done(rows, (Computer, Answerer) if POOL in self._pools else (Computer,)):
                yield halves[number][0]
            return
        # Fewer groups than actors: each group is divided among the actors, so none is ready before all are.
        self.n_parts = len(parts)
        async for _ in self._done([_row(number, parts=[part]) for number, part in enumerate(parts)], (Computer,)):
            continue
        called, free = self._divided(sources)
        yield called
        async for some in self._answered(free):
            yield some

    async def _done(self, rows: Sequence[Mapping[str, Any]], stages: Sequence[type]) -> AsyncGenerator[int, None]:
        """The numbers of the rows that the stages have mapped, in the order in which they are done."""
        if not rows:
            return
        # Ray Data's iterator blocks, so it runs in a thread of its own.
        thread = ThreadPoolExecutor(max_workers=1)
        batches = self._mapped(rows, stages)
        try:
            while (batch := await asyncio.get_running_loop().run_in_executor(thread, next, batches, None)) is not None:
                for number, computed, counts, error in zip(*(batch[name] for name in ROW), strict=True):
                    if error:
                        raise ray.exceptions.RayError("an actor of a pool failed") from ray.cloudpickle.loads(error)
                    self.counts.update(json.loads(counts or "{}"))
                    if computed:
                        self._note(json.loads(computed))
                    yield int(number)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _mapped(self, rows: Sequence[Mapping[str, Any]], stages: Sequence[type]) -> Iterator[Batch]:
        import ray.data

        configure_ray_data()
        data = ray.data.from_items([dict(row) for row in rows], override_num_blocks=len(rows))
        for actor in stages:
            pool = self._pools[EMBED if actor is Computer else POOL]
            most = max(1, min(pool.most, len(rows)))
            fewest = max(1, min(pool.fewest, most))
            data = data.map_batches(
                actor,
                fn_constructor_args=(self._order,),
                # One block at a time: otherwise the actor that is ready first takes blocks that another one could begin.
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

    def _note(self, computed: Mapping[str, Any]) -> None:
        self.n_computed += 1
        self._started[computed["actor"]] = computed["started"]
        self._sums.update(computed["took"])

    def took(self) -> dict[str, float]:
        """The number of `actors` that computed, the seconds until the last of them had started (`start_s`), and the sums over
        them of what `Workload.compute` returns. Empty if nothing was computed."""
        if not self._started:
            return {}
        # Clocks of two nodes may differ a little.
        figures = {"start_s": max(0.0, max(self._started.values()) - self._began), **self._sums}
        return {"actors": len(self._started), **{name: round(value, 3) for name, value in figures.items()}}


ROW = ("number", "computed", "counts", "error")
"""What an actor gives back for a block."""


def _items(sources: Left) -> list[Item]:
    return [item for items in sources.values() for item in items]
