"""A worker's client of the ledger: sends claims and settlements in batches, and keeps to slots and pauses. Part of the llm room.

A call awaits `claim`, is sent within `slot` unless `hindrance` names an obstacle, and ends with `settle`. One exchange with the
ledger carries everything that has gathered since the last one, so that a thousand calls per second cost twenty exchanges.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from summhay_ray.llm.membership import LISTEN_S
from summhay_ray.llm.messages import Claim, Grant, News, Settlement, WorkerMessage
from summhay_ray.llm.service import LedgerPort
from summhay_ray.llm.slots import SlotGate

TRIP_EVERY_S = 0.05
"""Shortest interval between two exchanges. The first message after a pause travels at once."""

STALE_AFTER_S = 1.5
"""After this time without news, the ledger and its driver may be gone: nothing that costs money is sent until there is news. The
time grows with the number of workers, since news then comes more slowly."""

LATE_S = 0.5
"""A timed call may be sent at most this much after its time. Later, it would count in another minute: it is claimed again."""

CLOSING_S = 10.0
"""How long `close` waits for the last exchange. If it fails, the ledger reads the same from the log."""

PAD_S = 0.02
"""Added to every pause, since clocks differ."""


@dataclass(frozen=True, slots=True)
class GrantedCall:
    """A grant as this worker received it. `at` is when the call may be sent, by the event loop's clock."""

    grant: Grant
    at: float
    epoch: int
    ticket: int


Hindrance = Literal["", "early", "late", "stopped", "lost", "stale"]


class LedgerClient:
    """One worker's client, on one event loop.

    `limited` are the models with limits: all that do not run in the worker. `evicted` is called when the ledger has evicted this
    worker as dead: what it waits for will never come.
    """

    def __init__(self, port: LedgerPort, limited: frozenset[str], evicted: Callable[[], None] | None = None) -> None:
        self._port = port
        self._limited = limited
        self._evicted = evicted
        self._gates: dict[str, SlotGate] = {}
        self._tickets = 0
        self._waiting: dict[int, asyncio.Future[GrantedCall]] = {}
        self._claims: list[Claim] = []
        self._settlements: list[Settlement] = []
        self._pauses: list[tuple[str, float]] = []
        self._limits_met: list[str] = []
        self._untimed: list[str] = []
        self._returned: Counter[str] = Counter()
        self._reused = 0
        self._paused: dict[str, float] = {}
        self.stopped: dict[str, tuple[str, str]] = {}
        self._epoch = 0
        self._halted = False
        self._heard = float("-inf")
        self._slower = 1.0
        self._fresh = asyncio.Event()
        self._mail = asyncio.Event()
        self._travelling = False
        self._tasks: list[asyncio.Task[None]] = []
        self._broken: BaseException | None = None
        self._draining = self._closed = False

    def drain(self) -> None:
        """Prepare the worker's end: calls that are granted but not sent are given back, and new claims wait for ever."""
        self._draining = True
        self._fresh.set()

    async def claim(self, claim: Claim) -> GrantedCall:
        """The ledger's answer to a claim. Raises the channel's error if the ledger cannot be reached."""
        self._start()
        if self._draining:
            await asyncio.Future()
        self._tickets += not claim.again
        ticket = claim.ticket if claim.again else self._tickets
        future: asyncio.Future[GrantedCall] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._claims.append(claim._replace(ticket=ticket))
        self._mail.set()
        return await future

    def settle(self, settlement: Settlement) -> None:
        """Report how a call ended; the next exchange carries it."""
        self._start()
        self._settlements.append(settlement)
        self._mail.set()

    def reused(self) -> None:
        """Report that an answer from this worker's memory was reused. It travels with the next message: nobody waits for it."""
        self._reused += 1

    def limited(self, model: str, *, untimed: bool = False) -> None:
        """Report a 429, so that fewer calls are sent at once. `untimed`: the provider named no time to wait."""
        self._limits_met.append(model)
        if untimed:
            self._untimed.append(model)
        self._mail.set()

    def pause(self, model: str, seconds: float) -> None:
        """Pause the model: this worker sends nothing from now on, the others as soon as they hear of it."""
        now = asyncio.get_running_loop().time()
        self._paused[model] = max(self._paused.get(model, 0.0), now + seconds + PAD_S)
        self._pauses.append((model, seconds + PAD_S))
        self._mail.set()

    @contextlib.asynccontextmanager
    async def slot(self, model: str) -> AsyncIterator[None]:
        """Hold one of the model's slots, and wait until one is free. A model that runs in the worker needs none."""
        if model not in self._limited:
            yield
            return
        gate = self._gate(model)
        await gate.acquire()
        try:
            yield
        finally:
            self._return(model, gate.release())

    def hindrance(self, granted: GrantedCall, model: str, *, paid: bool) -> Hindrance:
        """Why the call must not be sent at this moment; empty if it may be sent."""
        now = asyncio.get_running_loop().time()
        if granted.epoch != self._epoch or self._draining:
            return "lost"
        if model in self.stopped:
            return "stopped"
        if paid and (self._halted or now - self._heard > STALE_AFTER_S * self._slower):
            return "stale"
        if self._paused.get(model, 0.0) > now:
            return "late"
        if granted.at > now:
            return "early"
        return "late" if granted.grant.timed and now > granted.at + LATE_S else ""

    async def news(self) -> None:
        """Wait for news from the ledger that shows the driver alive. Raises the channel's error."""
        if self._draining:
            return
        self._fresh.clear()
        if self._broken is not None:
            raise self._broken
        await self._fresh.wait()
        if self._broken is not None:
            raise self._broken

    async def close(self) -> None:
        """Give all slots back, send what is left, and stop."""
        for model, gate in self._gates.items():
            self._return(model, gate.keep(0))
        if self._reused:
            self._mail.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                # When the event loop ends, it has cancelled the tasks already: nothing more can be sent.
                while self._tasks and not self._is_over() and (self._mail.is_set() or self._travelling):
                    await asyncio.sleep(TRIP_EVERY_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks, self._closed = [], True

    def _is_over(self) -> bool:
        return self._broken is not None or any(task.done() for task in self._tasks)

    def _start(self) -> None:
        if self._broken is not None:
            raise self._broken
        # Calls that end with the loop still settle; the log has them. No task may start after `close`.
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._guard(self._travel())), asyncio.create_task(self._guard(self._listen()))]

    async def _guard(self, work: Awaitable[None]) -> None:
        """Do the work; if it fails, the ledger is gone: raise the error in everyone who waits, so that nobody waits for ever."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        # The channel may raise anything, and every caller must get it.
        except Exception as error:  # noqa: BLE001
            self._broken = error
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
            self._waiting.clear()
            self._fresh.set()

    async def _travel(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._mail.wait()
            began = loop.time()
            self._mail.clear()
            message = WorkerMessage(
                tuple(self._claims),
                tuple(self._settlements),
                tuple(self._limits_met),
                tuple(self._untimed),
                tuple(self._pauses),
                dict(self._returned),
                self._reused,
            )
            self._reused = 0
            self._claims, self._settlements, self._limits_met, self._untimed, self._pauses = [], [], [], [], []
            self._returned.clear()
            self._travelling = True
            self._hear(await self._port.exchange(message))
            self._travelling = False
            await asyncio.sleep(max(0.0, began + TRIP_EVERY_S - loop.time()))

    async def _listen(self) -> None:
        while True:
            self._hear(await self._port.listen())

    def _hear(self, news: News) -> None:
        now = asyncio.get_running_loop().time()
        self._heard = now
        self._halted = news.halted
        self._slower = max(1.0, news.next_s / LISTEN_S)
        if news.epoch != self._epoch:
            self._epoch = news.epoch
            # The ledger has forgotten the slots it had lent. Returning them would reduce those it lends from now on.
            self._returned.clear()
            for gate in self._gates.values():
                gate.reset()
            if self._evicted is not None:
                self._evicted()
        self.stopped.update(news.stopped)
        for model, seconds in news.paused.items():
            self._paused[model] = max(self._paused.get(model, 0.0), now + seconds)
        for model, n in news.slots.items():
            self._gate(model).lend(n)
        for model, n in news.keep.items():
            self._return(model, self._gate(model).keep(n))
        for ticket, grant in news.grants:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(GrantedCall(grant, now + grant.wait_s, self._epoch, ticket))
        if not news.halted:
            self._fresh.set()

    def _gate(self, model: str) -> SlotGate:
        gate = self._gates.get(model)
        if gate is None:
            gate = self._gates[model] = SlotGate()
        return gate

    def _return(self, model: str, n: int) -> None:
        if n:
            self._returned[model] += n
            self._mail.set()
