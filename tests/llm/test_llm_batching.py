"""Callers share round trips: none is lost if another fails, is cancelled or comes late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from summhay_ray.loops import Batched

pytestmark = pytest.mark.core


class Trips:
    """Doubles its items, records its trips, and waits at the gate."""

    def __init__(self, fail: Callable[[int], BaseException | None] = lambda trip: None) -> None:
        self.trips: list[list[int]] = []
        self.at_once = 0
        self.gate = asyncio.Event()
        self._fail = fail

    async def __call__(self, items: list[int]) -> Sequence[int]:
        self.trips.append(items)
        self.at_once += 1
        assert self.at_once == 1
        await self.gate.wait()
        await asyncio.sleep(0)
        self.at_once -= 1
        error = self._fail(len(self.trips))
        if error:
            raise error
        return [item * 2 for item in items]


async def settled(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)


def test_latecomers_share_the_next_trip_and_results_find_their_callers() -> None:
    async def scene() -> None:
        trips = Trips()
        batched = Batched(trips)
        first = asyncio.ensure_future(batched(1))
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(batched(number)) for number in range(2, 60)]
        await asyncio.sleep(0)
        trips.gate.set()
        assert await settled([first, *rest]) == [number * 2 for number in range(1, 60)]
        assert trips.trips == [[1], list(range(2, 60))]
        assert await batched(70) == 140 and len(trips.trips) == 3

    asyncio.run(scene())


@pytest.mark.parametrize("error", [ValueError("a"), OSError(28, "full"), StopAsyncIteration()])
def test_an_error_reaches_its_trip_alone(error: Exception) -> None:
    async def scene() -> None:
        trips = Trips(lambda trip: error if trip == 1 else None)
        batched = Batched(trips)
        first = [asyncio.ensure_future(batched(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        later = asyncio.ensure_future(batched(3))
        await asyncio.sleep(0)
        trips.gate.set()
        assert await settled([*first, later]) == [error, error, 6]

    asyncio.run(scene())


@pytest.mark.parametrize("results", [[], [1], [1, 2, 3]])
def test_too_few_or_too_many_results_are_everybodys_error(results: list[int]) -> None:
    async def scene() -> None:
        async def work(_: list[int]) -> Sequence[int]:
            return results

        batched: Batched[int, int] = Batched(work)
        for error in await settled([batched(1), batched(2)]):
            assert isinstance(error, RuntimeError) and "for 2 items" in str(error)

    asyncio.run(scene())


def test_a_cancelled_caller_costs_nobody_else() -> None:
    async def scene() -> None:
        trips = Trips()
        batched = Batched(trips)
        calls = [asyncio.ensure_future(batched(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calls[1].cancel()
        trips.gate.set()
        first, cancelled, last = await settled(calls)
        assert (first, last) == (2, 6) and isinstance(cancelled, asyncio.CancelledError)
        assert trips.trips == [[1, 2, 3]]

    asyncio.run(scene())
