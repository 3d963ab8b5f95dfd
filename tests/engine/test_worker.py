"""Items are committed in groups, each as soon as possible, and a failed item is a row that stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import still_time

from summhay_ray.engine.run.worker import COMMIT_EVERY_S, ITEMS_A_COMMIT, Answered
from summhay_ray.loops import Batched

pytestmark = pytest.mark.core


def answered(number: int) -> Answered:
    return Answered(f"item-{number}", {})


def commit_all(seconds: Sequence[float], every_s: float, slow_commit_s: float = 0.0) -> list[list[str]]:
    """Commit items that take `seconds`, and return the commits."""
    made: list[list[str]] = []

    async def commit(ready: Sequence[Answered]) -> Sequence[None]:
        await asyncio.sleep(slow_commit_s)
        made.append([done.item_id for done in ready])
        return [None] * len(ready)

    async def run() -> None:
        commits = Batched(commit, every_s, ITEMS_A_COMMIT)

        async def one(number: int, wait_s: float) -> None:
            with commits.under_way():
                await asyncio.sleep(wait_s)
            await commits(answered(number))
            assert any(f"item-{number}" in names for names in made), "kept before it was committed"

        await asyncio.gather(*(one(number, wait_s) for number, wait_s in enumerate(seconds)))

    still_time.run(run())
    return made


def test_items_are_committed_together() -> None:
    # The last item is ready after 0.1 s: no other item is in progress then, and all are committed.
    assert [len(names) for names in commit_all([0.0, 0.05, 0.1], every_s=60)] == [3]
    assert [len(names) for names in commit_all([0.0] * ITEMS_A_COMMIT + [0.2], every_s=60)] == [ITEMS_A_COMMIT, 1]
    # No item waits longer for others.
    assert [len(names) for names in commit_all([0.0, 0.0, 0.6], every_s=0.2)] == [2, 1]


def test_what_is_ready_during_a_commit_goes_with_the_next() -> None:
    made = commit_all([0.0, *[0.05 + number / 100 for number in range(10)]], every_s=0.01, slow_commit_s=0.3)
    assert sorted(name for names in made for name in names) == sorted(f"item-{number}" for number in range(11))
    assert len(made) <= 3


def test_a_commit_that_fails_is_an_error_of_every_item_of_it() -> None:
    async def full(_: Sequence[Answered]) -> Sequence[None]:
        raise OSError(28, "no space left on device")

    async def run() -> list[Any]:
        commits = Batched(full, COMMIT_EVERY_S, ITEMS_A_COMMIT)
        return await asyncio.gather(*(commits(answered(number)) for number in range(3)), return_exceptions=True)

    assert [type(one) for one in asyncio.run(run())] == [OSError] * 3


def test_ready_items_wait_for_the_given_time() -> None:
    made: list[float] = []

    async def commit(ready: Any) -> Sequence[None]:
        made.append(asyncio.get_running_loop().time())
        return [None]

    async def run(every_s: float) -> float:
        commits, began = Batched(commit, every_s, ITEMS_A_COMMIT), asyncio.get_running_loop().time()
        with commits.under_way():
            await commits(answered(0))
        return made[-1] - began

    assert [still_time.run(run(every_s)) for every_s in (0.05, 2.0, 62.5)] == pytest.approx([0.05, 2.0, 62.5], abs=1e-3)
