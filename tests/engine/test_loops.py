"""Answers at hand take no task; a run leaves the garbage collector of the process that called it as it was."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from summhay_ray.loops import COLLECT_AFTER, SWITCH_S, Ready, collecting_rarely, switching_often, together


def test_the_collector_is_restored_after_a_run_and_no_full_collection_comes_before_it() -> None:
    before, full = gc.get_threshold(), gc.get_stats()[2]["collections"]
    with collecting_rarely():
        assert gc.get_threshold() == COLLECT_AFTER and gc.get_freeze_count() > 1000
        assert gc.get_stats()[2]["collections"] == full
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_threads_yield_sooner_during_a_run_alone() -> None:
    before = sys.getswitchinterval()
    with switching_often():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S) != before
    assert sys.getswitchinterval() == before


def test_results_keep_their_order_and_only_what_is_not_ready_takes_a_task() -> None:
    tasks: list[int] = []

    async def late(number: int, after: asyncio.Event | None, sets: asyncio.Event | None) -> int:
        tasks.append(len(asyncio.all_tasks()))
        if after is not None:
            await after.wait()
        if sets is not None:
            sets.set()
        return number

    async def main() -> list[int]:
        event = asyncio.Event()
        # The first waits for the last: one after the other they would wait for ever.
        work = [Ready(0), late(1, event, None), Ready(2), Ready(3), late(4, None, event)]
        return await asyncio.wait_for(together(work), 10)

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
    assert max(tasks) <= 4
    assert asyncio.run(together([Ready(5)])) == [5]


def test_one_ready_answer_is_awaited_without_suspending() -> None:
    async def ask() -> str:
        return await Ready("known")

    coroutine = ask()
    try:
        coroutine.send(None)
    except StopIteration as done:
        assert done.value == "known"
    else:
        raise AssertionError("it was suspended")
