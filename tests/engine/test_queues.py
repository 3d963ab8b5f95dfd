"""Items on their way to workers, which are functions here: no queue slows another, and shared prefixes stay together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
import still_time
from hypothesis import given
from hypothesis import strategies as st
from inline_runs import loaded

from summhay_ray.engine import Item
from summhay_ray.engine.ask import EXTRA_PROMPTS, LOCAL_AT_ONCE, Ask
from summhay_ray.engine.run.queues import (
    AHEAD,
    BUDGET_STOPS,
    CALLING_AT_ONCE,
    Dispatcher,
    ItemQueue,
    ItemResult,
    Kind,
    QueueSettings,
    WorkItem,
    batch_text,
    queue_settings,
    read_batch,
)

pytestmark = pytest.mark.core

QUICK, SLOW = "quick", "slow"
REMOTE = {"api_base": "http://127.0.0.1:1/v1", "price": 0}


def work(name: str, queue: str = QUICK, group: str = "") -> WorkItem:
    return WorkItem(Item(f"{queue}-{name}", queue, {"name": name, "numbers": [3, 1]}, group=group))


def queue_of(workers: int = 2, max_in_flight: int = 8, batch_size: int = 4, kind: Kind = "calling") -> ItemQueue:
    return ItemQueue(QueueSettings(kind, workers, max_in_flight, batch_size))


def results_of(batch: Sequence[WorkItem], over_budget: bool = False) -> list[ItemResult]:
    return [ItemResult(one.item.id, over_budget) for one in batch]


def names(batch: Sequence[WorkItem]) -> list[str]:
    return [one.item.data["name"] for one in batch]


def taken(queue: ItemQueue) -> list[tuple[int, list[WorkItem]]]:
    """All batches that the queue gives out before one comes back."""
    found = []
    while (batch := queue.take()) is not None:
        found.append(batch)
    return found


def test_a_batch_is_read_as_it_was_written() -> None:
    problem = {"stage": "context", "error": "missing_scores", "message": "no bm25", "retryable": True}
    item = Item("i2", SLOW, {"n": 1}, "source", "group", 7)
    batch = [work("q1", SLOW), WorkItem(item, {"numbers": [1, 2]}), WorkItem(item, None, problem)]
    assert read_batch(batch_text(batch)) == batch


def test_items_are_spread_evenly_and_bounded_for_each_worker() -> None:
    queue = queue_of(workers=3, max_in_flight=8, batch_size=4)
    for number in range(100):
        queue.put(work(f"q{number}"))
    batches = taken(queue)
    assert Counter(worker for worker, _ in batches) == {0: 2, 1: 2, 2: 2}
    assert {len(batch) for _, batch in batches} == {4}
    assert queue.waiting == 100 - 3 * 8
    worker, batch = batches[1]
    queue.done(worker, results_of(batch))
    assert [worker for worker, _ in taken(queue)] == [worker]


def test_a_group_whose_worker_is_full_does_not_hold_up_others() -> None:
    queue = queue_of(workers=2, max_in_flight=2, batch_size=1)
    for number in range(6):
        queue.put(work(f"g{number}", group="g"))
    queue.put(work("free"))
    batches = taken(queue)
    own = {worker for worker, batch in batches if batch[0].item.group}
    assert len(own) == 1 and len([one for one in batches if one[1][0].item.group]) == 2
    assert [names(batch) for worker, batch in batches if worker not in own] == [["free"]]


def test_items_that_compute_are_spread_whatever_their_group() -> None:
    queue = queue_of(workers=2, max_in_flight=2, batch_size=1, kind="computing")
    for number in range(4):
        queue.put(work(f"g{number}", group="g"))
    assert Counter(worker for worker, _ in taken(queue)) == {0: 2, 1: 2}


def test_an_item_goes_to_the_worker_that_has_read_what_it_reads_unless_that_is_full_and_another_idle() -> None:
    queue = queue_of(workers=2, max_in_flight=4, batch_size=2)
    for number in range(5):
        queue.put(WorkItem(Item(f"a{number}", QUICK, {"name": f"a{number}"}, reads="a"), home=1))
    assert [(worker, names(batch)) for worker, batch in taken(queue)] == [(1, ["a0", "a1"]), (1, ["a2", "a3"]), (0, ["a4"])]
    queue.put(WorkItem(Item("b", QUICK, {"name": "b"}), home=1))
    assert [(worker, names(batch)) for worker, batch in taken(queue)] == [(0, ["b"])]


def test_a_worker_that_runs_out_takes_over_the_last_group_that_waits_for_a_full_one() -> None:
    queue = queue_of(workers=2, max_in_flight=4, batch_size=2)
    for number in range(4):
        for name in ("a", "b", "c"):
            queue.put(WorkItem(Item(f"{name}{number}", QUICK, {"name": f"{name}{number}"}, group=name, reads="r"), home=1))
    sent = [(worker, names(batch)) for worker, batch in taken(queue)]
    assert sent == [(1, ["a0", "b0"]), (1, ["c0", "a1"]), (0, ["c1", "c2"]), (0, ["c3"])]
    queue.put(WorkItem(Item("c4", QUICK, {"name": "c4"}, group="c", reads="r"), home=1))
    queue.done(1, results_of([work("done")] * 4))
    assert [(worker, names(batch)) for worker, batch in taken(queue)] == [(1, ["b1", "a2"]), (1, ["b2", "a3"]), (0, ["c4"])]


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=60), st.integers(1, 4), st.data())
def test_every_item_is_sent_once_whatever_comes_back_first(groups: list[str], workers: int, data: st.DataObject) -> None:
    queue = queue_of(workers=workers, max_in_flight=7, batch_size=3)
    given_items = [work(f"q{number}", group=group) for number, group in enumerate(groups)]
    for one in given_items:
        queue.put(one)
    out: list[tuple[int, list[WorkItem]]] = []
    sent: list[WorkItem] = []
    while True:
        for worker, batch in taken(queue):
            out.append((worker, batch))
            sent.extend(batch)
        if not out:
            break
        worker, batch = out.pop(data.draw(st.integers(0, len(out) - 1)))
        queue.done(worker, results_of(batch))
    assert queue.waiting == 0
    assert sorted(one.item.id for one in sent) == sorted(one.item.id for one in given_items)
    for group in ("a", "b", "c"):
        assert [one for one in sent if one.item.group == group] == [one for one in given_items if one.item.group == group]


def test_a_queue_closes_after_so_many_stops_at_the_budget_in_a_row() -> None:
    queue = queue_of(workers=1, max_in_flight=1000, batch_size=1)
    for number in range(200):
        queue.put(work(f"q{number}"))
    assert queue.take() is not None
    queue.done(0, [ItemResult("x", over_budget=True)] * (BUDGET_STOPS - 1))
    queue.done(0, [ItemResult("y")])
    queue.done(0, [ItemResult("x", over_budget=True)] * (BUDGET_STOPS - 1))
    assert not queue.closed
    queue.done(0, [ItemResult("x", over_budget=True)])
    assert queue.closed and queue.waiting == 0 and queue.take() is None
    queue.put(work("late"))
    assert queue.waiting == 0


class Workers:
    """Workers with a duration for each queue; `refuse` names the items that do not fit into the budget."""

    def __init__(self, seconds: dict[str, float], refuse: Callable[[Item], bool] = lambda item: False) -> None:
        self.seconds = seconds
        self.refuse = refuse
        self.ended: dict[str, float] = {}
        self.answered: list[str] = []
        self.out: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def __call__(self, kind: Kind, worker: int, batch: Sequence[WorkItem]) -> list[ItemResult]:
        queue = batch[0].item.queue
        self.out[queue] += len(batch)
        self.most[queue] = max(self.most[queue], self.out[queue])
        await asyncio.sleep(self.seconds[queue])
        self.out[queue] -= len(batch)
        self.ended[queue] = asyncio.get_running_loop().time()
        items = [one.item for one in batch]
        self.answered.extend(item.id for item in items if not self.refuse(item))
        return [ItemResult(item.id, self.refuse(item), counted=2, failures=1) for item in items]


async def blocks_of(
    items: Sequence[WorkItem], size: int = 16, taken: list[int] | None = None
) -> AsyncGenerator[Sequence[WorkItem], None]:
    for start in range(0, len(items), size):
        if taken is not None:
            taken.append(size)
        yield items[start : start + size]


def dispatch(workers: Workers, items: Sequence[WorkItem], max_in_flight: int = 8, **options: Any) -> tuple[Dispatcher, float]:
    """(the dispatcher at its end, the start on the loop's clock)."""
    queues = {queue: QueueSettings("calling", 2, max_in_flight, 4) for queue in {one.item.queue for one in items}}

    async def run() -> tuple[Dispatcher, float]:
        began = asyncio.get_running_loop().time()
        dispatcher = Dispatcher(queues, workers)
        await dispatcher.run(blocks_of(items, **options))
        return dispatcher, began

    return still_time.run(run())


def test_a_slow_queue_holds_back_no_other() -> None:
    numbers = range(400)
    workers, alone = Workers({QUICK: 0.01, SLOW: 0.04}), Workers({QUICK: 0.01})
    dispatcher, began = dispatch(workers, [work(f"q{number}", queue) for number in numbers for queue in (QUICK, SLOW)])
    _, began_alone = dispatch(alone, [work(f"q{number}") for number in numbers])
    # 400 items, 16 at once, 0.01 s per batch: 0.25 s; the slow queue takes four times as long.
    quick, quick_alone = workers.ended[QUICK] - began, alone.ended[QUICK] - began_alone
    assert quick <= 1.01 * quick_alone < 0.3 < 0.9 < workers.ended[SLOW] - began
    assert workers.most == {QUICK: 16, SLOW: 16}
    assert dispatcher.counts == {"items_done": 800, "counted": 1600, "failures": 800}


def test_a_queue_without_budget_stops_and_the_other_goes_on() -> None:
    items = [work(f"q{number}", queue) for number in range(2000) for queue in (QUICK, SLOW)]
    workers = Workers({QUICK: 0.0, SLOW: 0.0}, refuse=lambda item: item.queue == SLOW and item.data["name"] != "q0")
    dispatcher, _ = dispatch(workers, items)
    assert dispatcher.counts["items_done"] == 2000 + 1
    assert sum(name.startswith(QUICK) for name in workers.answered) == 2000


def test_nothing_more_is_prepared_when_every_queue_has_closed() -> None:
    taken: list[int] = []
    items = [work(f"q{number}") for number in range(5000)]
    workers = Workers({QUICK: 0.0}, refuse=lambda item: True)

    async def run() -> Dispatcher:
        dispatcher = Dispatcher({QUICK: QueueSettings("calling", 1, 100, 4)}, workers)

        async def slow_blocks() -> AsyncGenerator[Sequence[WorkItem], None]:
            async for block in blocks_of(items, taken=taken):
                yield block
                await asyncio.sleep(0.001)

        await dispatcher.run(slow_blocks())
        return dispatcher

    assert asyncio.run(run()).counts == {}
    assert BUDGET_STOPS <= sum(taken) < 1000


def test_others_take_over_from_a_worker_that_is_lost() -> None:
    seats, hangs = {0, 1}, 1
    done: list[str] = []

    async def send(kind: Kind, worker: int, batch: Sequence[WorkItem]) -> Sequence[ItemResult]:
        await (asyncio.Event().wait() if worker == hangs else asyncio.sleep(0.01))
        done.extend(names(batch))
        return results_of(batch)

    async def run() -> None:
        dispatcher = Dispatcher({QUICK: QueueSettings("calling", 2, 4, 2)}, send, {"calling": seats})
        # Two groups: one waits for each worker.
        items = [work(f"q{number}", group=str(number % 2)) for number in range(40)]
        doing = asyncio.ensure_future(dispatcher.run(blocks_of(items)))
        await asyncio.sleep(1.0)
        assert len(done) < 40 and not doing.done()
        seats.remove(hangs)
        dispatcher.give_away("calling", hangs)
        await doing
        assert Counter(done) == Counter(names(items)) and dispatcher.counts["items_done"] == 40

    still_time.run(run())


def test_items_are_sent_to_the_present_workers() -> None:
    workers = Workers({QUICK: 0.01})
    seats = {1}
    sent: list[int] = []

    async def send(kind: Kind, worker: int, batch: Sequence[WorkItem]) -> list[ItemResult]:
        sent.append(worker)
        return await workers(kind, worker, batch)

    async def run() -> None:
        dispatcher = Dispatcher({QUICK: QueueSettings("calling", 3, 4, 2)}, send, {"calling": seats})
        doing = asyncio.ensure_future(dispatcher.run(blocks_of([work(f"q{number}", group="g") for number in range(40)])))
        await asyncio.sleep(0.015)
        (queue,) = dispatcher.of("calling")
        assert set(sent) == {1} and queue.is_full and not queue.is_idle(1)
        # A new worker takes over items, and a worker that has left gets none.
        seats.add(2)
        dispatcher.pump()
        assert sent[-1] in seats
        await doing
        assert dispatcher.counts["items_done"] == 40 and queue.is_idle(1) and set(sent) <= seats

    still_time.run(run())


def test_items_are_prepared_no_faster_than_the_hungriest_queue_needs_them() -> None:
    taken: list[int] = []
    n_items = 3 * AHEAD
    most_waiting = 0

    class Slow(Workers):
        async def __call__(self, kind: Kind, worker: int, batch: Sequence[WorkItem]) -> list[ItemResult]:
            nonlocal most_waiting
            most_waiting = max(most_waiting, sum(taken) - len(self.answered))
            return await super().__call__(kind, worker, batch)

    workers = Slow({QUICK: 0.0})
    dispatch(workers, [work(f"q{number}") for number in range(n_items)], max_in_flight=400, size=500, taken=taken)
    assert len(workers.answered) == n_items
    # The waiting items, the items at two workers, and the last block.
    assert most_waiting <= AHEAD + 2 * 400 + 500


def test_the_first_error_of_a_batch_ends_the_run_as_itself() -> None:
    class Broken(Workers):
        async def __call__(self, kind: Kind, worker: int, batch: Sequence[WorkItem]) -> list[ItemResult]:
            if "q7" in names(batch):
                raise OSError(28, "no space left on device")
            await asyncio.sleep(60)
            return []

    with pytest.raises(OSError, match="no space left"):
        dispatch(Broken({QUICK: 0.0}), [work(f"q{number}") for number in range(32)])


def test_what_calls_and_what_computes_go_to_workers_of_their_own() -> None:
    remote = [{"model": f"openai/{name}", **REMOTE} for name in ("a", "b", "c")]
    limits = {"openai/c": {"concurrency": 3000}}
    grid = loaded(summarizers=[*remote, "offline/lead", "replay/gpt-4o"], limits=limits)
    left = {"openai/a": 4000, "openai/b": 3, "openai/c": 4000, "offline/lead": 4000, "replay/gpt-4o": 2}
    found = queue_settings(grid, left, workers=2)
    assert {name: one.kind for name, one in found.items()} == {
        name: "calling" if name.startswith("openai") else "computing" for name in left
    }
    a, b, c = (found[f"openai/{name}"] for name in "abc")
    assert (a.max_in_flight, a.batch_size, b.batch_size) == (CALLING_AT_ONCE, 16, 1)
    # There is always another item to ask about, whatever the concurrency.
    assert c.max_in_flight == 2 * 3000
    # A local judge computes, too: it gets few items at a time, so that no worker has all that are left.
    assert (found["offline/lead"].max_in_flight, found["replay/gpt-4o"].max_in_flight, found["offline/lead"].batch_size) == (
        32,
        4,
        1,
    )
    judged = loaded(summarizers=["replay/gpt-4o"], judges=[remote[0]])
    assert queue_settings(judged, {"replay/gpt-4o": 4000}, workers=2)["replay/gpt-4o"].max_in_flight == CALLING_AT_ONCE


def test_somewhat_more_items_hold_a_prompt_than_may_ask_the_model_at_once() -> None:
    models = {"summarizers": [{"model": "openai/a", **REMOTE}], "judges": [{"model": "openai/b", **REMOTE}, "offline/judge"]}
    workload = loaded(**models, limits={"openai/b": {"concurrency": 5}})
    ask = Ask(workload, next(workload.items()), None, {})

    async def inside(stage: str, model: str) -> int:
        """How many of 500 items hold a prompt at once."""
        now = most = 0

        async def one() -> None:
            nonlocal now, most
            async with ask.turn(stage, model):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(one() for _ in range(500)))
        return most

    assert asyncio.run(inside("summarize", "openai/a")) == 64 + EXTRA_PROMPTS
    assert asyncio.run(inside("judge", "openai/b")) == 5 + EXTRA_PROMPTS
    assert asyncio.run(inside("judge", "offline/judge")) == LOCAL_AT_ONCE
