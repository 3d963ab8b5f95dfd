"""A worker and the ledger: messages that share a trip, the reasons that stop a call, and no endless waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import still_time

from summhay_ray.llm import News, WorkerMessage
from summhay_ray.llm.ledger_messages import Claim, Grant, Settlement
from summhay_ray.llm.ledger_service import PAD_S, GrantedCall, LedgerClient

pytestmark = pytest.mark.core

GO = Grant("go")


def grant_all(message: WorkerMessage, **news: Any) -> News:
    """Grant every claim."""
    return News(grants=tuple((claim.ticket, GO) for claim in message.claims), **news)


class Port:
    """A ledger whose answers the test writes; `news` goes to the listener."""

    def __init__(self, answer: Callable[[WorkerMessage], News] = grant_all) -> None:
        self.answer = answer
        self.messages: list[WorkerMessage] = []
        self.open = asyncio.Event()
        self.open.set()
        self.news: asyncio.Queue[News | Exception] = asyncio.Queue()

    async def exchange(self, message: WorkerMessage) -> News:
        self.messages.append(message)
        await self.open.wait()
        return self.answer(message)

    async def listen(self) -> News:
        found = await self.news.get()
        if isinstance(found, Exception):
            raise found
        return found

    def said(self, field: str) -> list[Any]:
        """All received messages, in order."""
        return [one for message in self.messages for one in getattr(message, field)]


def play(scene: Callable[[Port, LedgerClient], Awaitable[None]], answer: Callable[[WorkerMessage], News] = grant_all) -> None:
    """Play one scene in a separate loop, in at most a minute."""

    async def whole() -> None:
        port = Port(answer)
        clerk = LedgerClient(port)
        try:
            await asyncio.wait_for(scene(port, clerk), 60)
        finally:
            port.open.set()
            await clerk.close()

    still_time.run(whole())


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


async def hear(port: Port, clerk: LedgerClient, news: News) -> None:
    """The listener has received it, and all its effects have happened."""
    await port.news.put(news)
    await until(port.news.empty)
    for _ in range(3):
        await asyncio.sleep(0)


def claim(key: str = "k", model: str = "m", **fields: Any) -> Claim:
    return Claim(key, model, worst_micros=5, **fields)


def test_what_comes_while_a_trip_is_under_way_shares_the_next() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        port.open.clear()
        first = [asyncio.create_task(clerk.claim(claim(f"a{n}"))) for n in range(50)]
        await until(lambda: len(port.messages) == 1)
        later = [asyncio.create_task(clerk.claim(claim(f"b{n}"))) for n in range(50)]
        for n in range(20):
            clerk.settle(Settlement(f"s{n}", "m", n))
        clerk.settle(Settlement("p", "m", 0, limited=True, pause_s=1.0))
        await asyncio.sleep(0.02)
        assert len(port.messages) == 1
        port.open.set()
        leaves = await asyncio.gather(*first, *later)
        assert len(port.messages) == 2
        assert [one.key for one in port.said("claims")] == [f"{name}{n}" for name in "ab" for n in range(50)]
        assert [len(message.settlements) for message in port.messages] == [0, 21]
        assert [one.key for one in port.said("settlements")] == [*(f"s{n}" for n in range(20)), "p"]
        assert port.said("settlements")[-1].pause_s == 1.0 + PAD_S
        assert len(leaves) == 100 and [one.ticket for one in port.said("claims")] == list(range(1, 101))

    play(scene)


def test_each_caller_gets_its_own_answer_in_whatever_order_they_come() -> None:
    def answer(message: WorkerMessage) -> News:
        grants = [(one.ticket, Grant("stopped", reason=one.key)) for one in message.claims]
        return News(grants=(*reversed(grants), (10**6, GO)))

    async def scene(port: Port, clerk: LedgerClient) -> None:
        leaves = await asyncio.gather(*(clerk.claim(claim(f"k{n}")) for n in range(9)))
        assert [leave.grant.reason for leave in leaves] == [f"k{n}" for n in range(9)]

    play(scene, answer)


def test_a_caller_that_goes_away_is_not_answered_and_harms_nobody() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        port.open.clear()
        gone, stays = (asyncio.create_task(clerk.claim(claim(key))) for key in ("gone", "stays"))
        await until(lambda: len(port.messages) == 1)
        gone.cancel()
        port.open.set()
        assert (await stays).grant == GO and gone.cancelled()

    play(scene)


@pytest.mark.parametrize("broken", ["exchange", "listen"])
def test_a_broken_channel_reaches_every_caller_now_and_later(broken: str) -> None:
    def answer(message: WorkerMessage) -> News:
        if broken == "exchange":
            raise ConnectionError("the ledger is gone")
        return News()

    async def scene(port: Port, clerk: LedgerClient) -> None:
        asking = [asyncio.create_task(clerk.claim(claim(f"k{n}"))) for n in range(5)]
        if broken == "listen":
            await until(lambda: len(port.messages) == 1)
            await port.news.put(ConnectionError("the ledger is gone"))
        for one in asking:
            with pytest.raises(ConnectionError, match="the ledger is gone"):
                await one
        with pytest.raises(ConnectionError, match="the ledger is gone"):
            await clerk.claim(claim())
        with pytest.raises(ConnectionError):
            clerk.settle(Settlement("k", "m", 1))

    play(scene, answer)


def test_a_pause_holds_here_at_once_for_its_model_alone_and_is_told() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        leave = await clerk.claim(claim())
        clerk.settle(Settlement("a", "m", 0, pause_s=60.0))
        assert not clerk.may_send(leave, "m", paid=True) and clerk.may_send(leave, "n", paid=True)
        # A shorter pause, from another call or from the ledger, does not end it.
        clerk.settle(Settlement("b", "m", 0, pause_s=0.0))
        await hear(port, clerk, News(paused={"m": 0.0, "n": 60.0}))
        assert not clerk.may_send(leave, "m", paid=True) and not clerk.may_send(leave, "n", paid=True)
        await until(lambda: len(port.said("settlements")) == 2)
        assert [one.pause_s for one in port.said("settlements")] == [60.0 + PAD_S, PAD_S]

    play(scene)


def test_a_given_up_model_stops_its_calls_and_no_others() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        leave = await clerk.claim(claim())
        await hear(port, clerk, News(stopped=("m",)))
        await hear(port, clerk, News())
        assert not clerk.may_send(leave, "m", paid=False) and clerk.may_send(leave, "n", paid=False)

    play(scene)


@pytest.mark.parametrize(("at_s", "until_s", "due"), [(0.0, 1.0, True), (-2.0, -1.0, False)])
def test_a_call_is_not_sent_after_its_time(at_s: float, until_s: float, due: bool) -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        await clerk.claim(claim())
        now = asyncio.get_running_loop().time()
        assert clerk.may_send(GrantedCall(GO, now + at_s, now + until_s), "m", paid=True) == due

    play(scene)


def test_a_grant_that_lay_in_a_socket_while_the_process_stood_still_is_old() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        port.open.clear()
        asking = asyncio.create_task(clerk.claim(claim()))
        await until(lambda: len(port.messages) == 1)
        await asyncio.sleep(30.0)
        port.open.set()
        assert not clerk.may_send(await asking, "m", paid=True)

    play(scene)


def test_for_a_silent_driver_nothing_is_paid_and_what_is_free_goes_on() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        granted = await clerk.claim(claim())
        await hear(port, clerk, News(halted=True))
        assert not clerk.may_send(granted, "m", paid=True) and clerk.may_send(granted, "m", paid=False)
        await hear(port, clerk, News())
        assert clerk.may_send(granted, "m", paid=True)

    play(scene)


def test_an_evicted_worker_is_informed_before_it_sends_anything() -> None:
    async def scene() -> None:
        port, told = Port(lambda message: grant_all(message, evicted=True)), asyncio.Event()
        clerk = LedgerClient(port, told.set)
        await clerk.claim(claim())
        assert told.is_set()
        await clerk.close()

    still_time.run(scene())


def test_a_leave_begins_when_its_time_comes() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        before = asyncio.get_running_loop().time()
        leave = await clerk.claim(claim())
        assert before + 30 <= leave.at <= asyncio.get_running_loop().time() + 30

    play(scene, lambda message: News(grants=tuple((one.ticket, Grant("go", wait_s=30.0)) for one in message.claims)))


def test_what_was_said_last_is_delivered_before_the_end() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        clerk.settle(Settlement("k", "m", 7))
        await clerk.close()
        assert [one.usd_micros for one in port.said("settlements")] == [7]

    play(scene)


def test_what_settles_after_the_end_begins_nothing() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        clerk.settle(Settlement("k", "m", 7))
        await clerk.close()
        before = asyncio.all_tasks()
        clerk.settle(Settlement("late", "m", 7))
        assert asyncio.all_tasks() == before, "a task that nobody ends is destroyed with the loop"

    play(scene)
