"""The ledger as a Ray actor, and a worker's way to it. Part of the grid room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import ray

from summhay_ray.llm import Claim, Grant, Ledger, Limits, Settlement
from summhay_ray.store import LogIndex, Store

R = TypeVar("R")


@ray.remote(num_cpus=0, max_concurrency=1)
class LedgerActor:
    """One run's ledger, one message at a time."""

    def __init__(self, store_uri: str, run_id: str, budget_micros: int | None, limits: Mapping[str, Limits]) -> None:
        self._ledger = Ledger(run_id, LogIndex(Store(store_uri).files), budget_micros, limits)

    def claim(self, worker: str, claims: list[Claim]) -> list[Grant]:
        return self._ledger.claim(worker, claims, time.monotonic())

    def settle(self, worker: str, settlements: list[Settlement]) -> list[None]:
        self._ledger.settle(worker, settlements, time.monotonic())
        return [None] * len(settlements)

    def again(self, claim: Claim, pause_s: float) -> float:
        return self._ledger.again(claim.model, claim, time.monotonic(), pause_s)

    def beat(self, worker: str) -> None:
        self._ledger.beat(worker, time.monotonic())

    def count(self, numbers: Mapping[str, int]) -> None:
        self._ledger.count(numbers)

    def snapshot(self) -> dict[str, Any]:
        return self._ledger.snapshot()


class RemoteLedger:
    """The ledger actor as a worker's gateway reaches it (`summhay_ray.llm.gateway.LedgerPort`)."""

    def __init__(self, actor: Any, worker: str) -> None:
        self._actor = actor
        self._worker = worker

    async def claim(self, claims: list[Claim]) -> Sequence[Grant]:
        grants: list[Grant] = await _result(self._actor.claim.remote(self._worker, claims))
        return grants

    async def settle(self, settlements: list[Settlement]) -> Sequence[None]:
        nothing: list[None] = await _result(self._actor.settle.remote(self._worker, settlements))
        return nothing

    async def again(self, claim: Claim, pause_s: float) -> float:
        seconds: float = await _result(self._actor.again.remote(claim, pause_s))
        return seconds

    def beat(self) -> None:
        """Say that the worker lives; nobody waits for the answer."""
        self._actor.beat.remote(self._worker)

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add to the run's counters; nobody waits for the answer."""
        self._actor.count.remote(numbers)


async def _result(reference: Any) -> Any:
    return await asyncio.wrap_future(reference.future())
