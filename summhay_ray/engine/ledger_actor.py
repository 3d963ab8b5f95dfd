"""The ledger as a Ray actor, and the workers' client of it. Part of the engine room."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.engine.execution import SPENDING_EVERY_S, SWEEP_PATIENCE_S
from summhay_ray.llm import Batched, Budgets, Ledger, LedgerService, Limits, News, Packed, WorkerMessage
from summhay_ray.store import Block, Evicted, LogIndex, Store, StoreError, StoreUnavailable, seal, sweep

SWEEPING_S = 60.0
"""Longest time, in seconds, for a machine to sweep its disk. After it, a live one is asked again, a dead one given up."""

COMPACT_AGAIN_S = 1.0


def sweep_machine(store_uri: str, awaited: Sequence[str] | None = None) -> list[str]:
    """Upload the logs that dead writers left on this machine's disk; returns the writers. Waits a little for those `awaited`."""
    return sweep(Store(store_uri).files, SWEEP_PATIENCE_S, awaited)


def lives(node: str) -> bool:
    """Whether Ray considers a node alive."""
    return any(known["Alive"] and known["NodeID"] == node for known in ray.nodes())


def start_sweeping(node: str, store_uri: str, awaited: Sequence[str] | None = None) -> Any:
    """Start `sweep_machine` on a Ray node; returns a reference to its result."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(sweep_machine).options(num_cpus=0, max_retries=2, scheduling_strategy=there).remote(store_uri, awaited)


@ray.remote(num_cpus=0, max_concurrency=10_000)
class LedgerActor:
    """One run's ledger and committer. It is async, since listening workers wait in it.

    `place`: the store's URI and the run's id. `driver`: the number of this start, and a description of its driver.
    """

    def __init__(self, place: tuple[str, str], driver: tuple[int, str], budgets: Budgets, limits: Mapping[str, Limits]) -> None:
        self._store_uri, self._run_id = place
        self._driver, self._budgets, self._limits = driver, budgets, limits
        self._commits: Batched[Block | None, None] = Batched(self._commit_all)
        self._committed_at = float("-inf")
        self._committing: asyncio.Task[None] | None = None
        self._nodes: dict[str, str] = {}
        self._compacting: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Take the run over and read the log. Raises Superseded, StoreError."""
        # Not in the constructor, whose errors Ray does not report in full.
        store = Store(self._store_uri)
        self._files = store.files
        self._committer = store.run(self._run_id).committer(*self._driver)
        index = LogIndex(self._files)
        index.know(self._run_id, self._committer.spent)
        ledger = Ledger(self._run_id, index, self._budgets, self._limits, probing=True)
        self._service = LedgerService(ledger, self._recover)

    async def exchange(self, worker: str, message: Packed) -> Packed:
        return (await self._service.exchange(worker, WorkerMessage.unpacked(message))).packed()

    async def listen(self, worker: str) -> Packed:
        return (await self._service.listen(worker)).packed()

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
        if time.monotonic() - self._committed_at > SPENDING_EVERY_S:
            self._committed_at = time.monotonic()
            self._committing = asyncio.create_task(self._try_commit_spending())
        return self._service.snapshot()

    async def stop(self) -> None:
        """Grant no further calls that cost money."""
        self._service.stop()

    async def commit(self, block: Block, worker: str = "") -> None:
        """Return when the block is committed. Raises Superseded if another driver has taken the run over.

        Raises Evicted for a `worker` that was considered dead, since the answers behind its rows may be missing in the log.
        """
        if self._service.ledger.membership.is_evicted(worker):
            raise Evicted(f"worker {worker} was taken for dead; another does its items")
        await self._commits(block)

    async def commit_spending(self) -> None:
        """Commit the spending so far, without a block. Raises Superseded, StoreError, OSError."""
        await self._commits(None)

    async def _try_commit_spending(self) -> None:
        # If the store does not answer, the next block or the next call commits the spending.
        with contextlib.suppress(StoreError, OSError):
            await self.commit_spending()

    async def finish(self) -> None:
        """After the last block: commit the spending, and merge the blocks into few large ones."""
        await self.commit_spending()
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.gather(self._compacting, return_exceptions=True)
        await asyncio.to_thread(self._committer.finish)

    async def _commit_all(self, blocks: Sequence[Block | None]) -> list[None]:
        self._committed_at = time.monotonic()
        added, spent = [block for block in blocks if block is not None], self._service.ledger.spent()
        await asyncio.to_thread(self._committer.add, added, spent)
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.create_task(self._compact())
        return [None] * len(blocks)

    async def _compact(self) -> None:
        # Merging only saves reads; if it fails now, it happens later.
        with contextlib.suppress(StoreError, OSError):
            while await asyncio.to_thread(self._committer.compact):
                await asyncio.sleep(COMPACT_AGAIN_S)

    async def _recover(self, writer: str) -> None:
        """Upload the records of a dead writer from its machine's disk; if the machine is gone, seal the writer's log as it is."""
        swept: list[str] = []
        node = self._nodes.get(writer)
        try:
            async with asyncio.timeout(SWEEPING_S):
                swept = await start_sweeping(node, self._store_uri, [writer]) if node else []
        except (ray.exceptions.RayError, TimeoutError) as error:
            # The answers on a live machine must not be given up; a machine that is gone cannot be swept.
            if lives(str(node)):
                raise StoreUnavailable(f"the disk of node {node} cannot be swept now") from error
        if writer not in swept:
            await asyncio.to_thread(seal, self._files, writer)


class RemoteLedger:
    """A worker's client of the ledger actor (`summhay_ray.llm.LedgerPort`)."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def exchange(self, message: WorkerMessage) -> News:
        """Send a message; returns the ledger's news."""
        return News.unpacked(await self._actor.exchange.remote(self._worker, message.packed()))

    async def listen(self) -> News:
        """Wait for the ledger's next news."""
        return News.unpacked(await self._actor.listen.remote(self._worker))

    async def commit(self, block: Block) -> None:
        """Commit a block. Raises RayError, for example with Superseded inside, if that fails."""
        await self._actor.commit.remote(block, self._worker)

    async def leave(self) -> None:
        """Report that the worker ends and has written everything."""
        await self._actor.leave.remote(self._worker)

    def sit(self, seat: str) -> None:
        """Take over the seat of the worker that this one replaces. Does not wait for the ledger."""
        self._actor.sit.remote(self._worker, seat, ray.get_runtime_context().get_node_id())

    def beat(self) -> None:
        """Report that the worker is alive. Does not wait for the ledger."""
        self._actor.beat.remote(self._worker)

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters. Does not wait for the ledger."""
        self._actor.count.remote(numbers)
