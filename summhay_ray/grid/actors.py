"""The ledger as a Ray actor, and a worker's way to it. Part of the grid room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray

from summhay_ray.llm import Budgets, Ledger, LedgerService, Limits, Message, News
from summhay_ray.store import LogIndex, Store


@ray.remote(num_cpus=0, max_concurrency=1000)
class LedgerActor:
    """One run's ledger on an event loop of its own: workers that listen wait in it."""

    def __init__(self, store_uri: str, run_id: str, budgets: Budgets, limits: Mapping[str, Limits]) -> None:
        self._service = LedgerService(Ledger(run_id, LogIndex(Store(store_uri).files), budgets, limits))

    async def exchange(self, worker: str, message: Message) -> News:
        return await self._service.exchange(worker, message)

    async def listen(self, worker: str) -> News:
        return await self._service.listen(worker)

    async def sit(self, worker: str, seat: str) -> None:
        self._service.sit(worker, seat)

    async def beat(self, worker: str) -> None:
        self._service.beat(worker)

    async def count(self, numbers: Mapping[str, int]) -> None:
        self._service.count(numbers)

    async def snapshot(self) -> dict[str, Any]:
        return self._service.snapshot()


class RemoteLedger:
    """The ledger actor as a worker's gateway reaches it (`summhay_ray.llm.LedgerPort`)."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def exchange(self, message: Message) -> News:
        """Say something, and hear what there is to know."""
        news: News = await self._actor.exchange.remote(self._worker, message)
        return news

    async def listen(self) -> News:
        """Hear what there is to know as soon as there is something."""
        news: News = await self._actor.listen.remote(self._worker)
        return news

    def sit(self, seat: str) -> None:
        """Take the place of the worker that Ray started this one for; nobody waits for the answer."""
        self._actor.sit.remote(self._worker, seat)

    def beat(self) -> None:
        """Say that the worker lives; nobody waits for the answer."""
        self._actor.beat.remote(self._worker)

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters; nobody waits for the answer."""
        self._actor.count.remote(numbers)
