"""Results that are ready need no task, and a run does not change the garbage collector of its caller's process."""

from __future__ import annotations

import asyncio
import threading

import pytest

from summhay_ray.loops import Abandoned, Ready, check_wanted, gather, run_loop


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
        # The first one waits for the last one, so they must run concurrently.
        work = [Ready(0), late(1, event, None), Ready(2), Ready(3), late(4, None, event)]
        return await asyncio.wait_for(gather(work), 60)

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
    assert max(tasks) <= 4
    assert asyncio.run(gather([Ready(5)])) == [5]


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


def test_a_loop_that_ends_does_not_wait_for_its_threads_and_they_stop_between_batches() -> None:
    begun, going, ended = threading.Event(), threading.Event(), threading.Event()

    def compute() -> None:
        begun.set()
        going.wait(60)
        try:
            check_wanted()
        except Abandoned:
            ended.set()

    async def main() -> None:
        computing = asyncio.create_task(asyncio.to_thread(compute))
        await asyncio.to_thread(begun.wait, 60)
        computing.cancel()
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        run_loop(main)
    assert not ended.is_set()
    going.set()
    assert ended.wait(60)
    check_wanted()
