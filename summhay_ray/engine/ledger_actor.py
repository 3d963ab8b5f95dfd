"""The ledger as a Ray actor, and a worker's way to it. Part of the engine room."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.llm import Batched, Budgets, Ledger, LedgerService, Limits, News, WorkerMessage
from summhay_ray.store import Block, Evicted, LogIndex, Store, StoreError, StoreUnavailable, seal, sweep

SWEEP_PATIENCE_S = 5.0
SWEEPING_S = 60.0
"""A machine that has not swept its disk by then is asked again while it lives; one that is gone is not waited for."""

COMPACT_AGAIN_S = 1.0
TELL_EVERY_S = 2.0
"""While no block is committed, what was spent is."""


def sweep_machine(store_uri: str, awaited: Sequence[str] | None = None) -> list[str]:
    """Bring what dead log writers left on this machine's disk into the store; their names. Waits a little for the `awaited`."""
    return sweep(Store(store_uri).files, SWEEP_PATIENCE_S, awaited)


def lives(node: str) -> bool:
    """Whether Ray takes a node for alive."""
    return any(one["Alive"] and one["NodeID"] == node for one in ray.nodes())


def start_sweeping(node: str, store_uri: str, awaited: Sequence[str] | None = None) -> Any:
    """`sweep_machine` on the machine of a Ray node: a reference to what it gives."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(sweep_machine).options(num_cpus=0, max_retries=2, scheduling_strategy=there).remote(store_uri, awaited)


@ray.remote(num_cpus=0, max_concurrency=10_000)
class LedgerActor:
    """One run's ledger and its commits, on an event loop of its own: workers that listen wait in it.

    `driver`: the number of this start, and how a later one may call it.
    """

    def __init__(self, place: tuple[str, str], driver: tuple[int, str], budgets: Budgets, limits: Mapping[str, Limits]) -> None:
        self._store_uri, self._run_id = place
        self._driver, self._budgets, self._limits = driver, budgets, limits
        self._commits: Batched[Block | None, None] = Batched(self._commit_all)
        self._told_at = float("-inf")
        self._telling: asyncio.Task[None] | None = None
        self._nodes: dict[str, str] = {}
        self._compacting: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the run over and read the log. Raises Superseded, StoreError."""
        # Not in the constructor, of whose errors Ray tells only that there was one.
        store = Store(self._store_uri)
        self._files = store.files
        self._committer = store.run(self._run_id).committer(*self._driver)
        index = LogIndex(self._files)
        index.know(self._run_id, self._committer.spent)
        ledger = Ledger(self._run_id, index, self._budgets, self._limits, probing=True)
        self._service = LedgerService(ledger, self._recover)

    async def exchange(self, worker: str, message: WorkerMessage) -> News:
        return await self._service.exchange(worker, message)

    async def listen(self, worker: str) -> News:
        return await self._service.listen(worker)

    async def sit(self, worker: str, seat: str, node: str) -> None:
        self._nodes[worker] = node
        self._service.sit(worker, seat)

    async def leave(self, worker: str) -> None:
        self._service.leave(worker)

    async def beat(self, worker: str) -> None:
        self._service.beat(worker)

    async def count(self, numbers: Mapping[str, int]) -> None:
        self._service.count(numbers)

    async def snapshot(self) -> dict[str, Any]:
        if time.monotonic() - self._told_at > TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._telling = asyncio.create_task(self._tell())
        return self._service.snapshot()

    async def stop(self) -> None:
        """Nothing that costs money is sent any more."""
        self._service.stop()

    async def commit(self, block: Block, worker: str = "") -> None:
        """Return when the block counts. Raises Superseded where another driver has taken the run over.

        Raises Evicted for a `worker` that was taken for dead: what its rows stand on may be in no log.
        """
        if self._service.ledger.membership.is_evicted(worker):
            raise Evicted(f"worker {worker} was taken for dead; another does its items")
        await self._commits(block)

    async def tell(self) -> None:
        """Commit what was spent until now, though no block comes with it. Raises Superseded, StoreError, OSError."""
        await self._commits(None)

    async def _tell(self) -> None:
        # A store that does not answer now hears of it with the next block, or two seconds later.
        with contextlib.suppress(StoreError, OSError):
            await self.tell()

    async def finish(self) -> None:
        """All is committed: tell what was spent, and leave few large blocks."""
        await self.tell()
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.gather(self._compacting, return_exceptions=True)
        await asyncio.to_thread(self._committer.finish)

    async def _commit_all(self, blocks: Sequence[Block | None]) -> list[None]:
        self._told_at = time.monotonic()
        added, spent = [block for block in blocks if block is not None], self._service.ledger.spent()
        await asyncio.to_thread(self._committer.add, added, spent)
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.create_task(self._compact())
        return [None] * len(blocks)

    async def _compact(self) -> None:
        # What cannot be merged now is merged later: nothing depends on it but the number of reads.
        with contextlib.suppress(StoreError, OSError):
            while await asyncio.to_thread(self._committer.compact):
                await asyncio.sleep(COMPACT_AGAIN_S)

    async def _recover(self, writer: str) -> None:
        """The records of a dead writer that only its machine has; nothing more comes of one whose machine is gone."""
        swept: list[str] = []
        node = self._nodes.get(writer)
        try:
            async with asyncio.timeout(SWEEPING_S):
                swept = await start_sweeping(node, self._store_uri, [writer]) if node else []
        except (ray.exceptions.RayError, TimeoutError) as error:
            # A machine that has gone sweeps nothing; of one that lives the answers must not be given up.
            if lives(str(node)):
                raise StoreUnavailable(f"the disk of node {node} cannot be swept now") from error
        if writer not in swept:
            await asyncio.to_thread(seal, self._files, writer)


class RemoteLedger:
    """The ledger actor as a worker's gateway reaches it (`summhay_ray.llm.LedgerPort`)."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def exchange(self, message: WorkerMessage) -> News:
        """Say something, and hear what there is to know."""
        news: News = await self._actor.exchange.remote(self._worker, message)
        return news

    async def listen(self) -> News:
        """Hear what there is to know as soon as there is something."""
        news: News = await self._actor.listen.remote(self._worker)
        return news

    async def commit(self, block: Block) -> None:
        """Make a block count. Raises RayError (Superseded inside) where it does not."""
        await self._actor.commit.remote(block, self._worker)

    async def leave(self) -> None:
        """Say that the worker ends and has written all."""
        await self._actor.leave.remote(self._worker)

    def sit(self, seat: str) -> None:
        """Take the place of the worker that Ray started this one for; nobody waits for the answer."""
        self._actor.sit.remote(self._worker, seat, ray.get_runtime_context().get_node_id())

    def beat(self) -> None:
        """Say that the worker lives; nobody waits for the answer."""
        self._actor.beat.remote(self._worker)

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters; nobody waits for the answer."""
        self._actor.count.remote(numbers)
