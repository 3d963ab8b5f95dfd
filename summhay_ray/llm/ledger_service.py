"""The ledger on an event loop (`LedgerService`), and the client of one worker (`LedgerClient`).

The service grants waiting calls at their time, writes money records, and wakes workers. It is used directly within one process;
the engine also runs it as an actor. The client sends claims and settlements in batches, and obeys grants and pauses. A call
awaits `claim`, is sent at once if it `may_send`, and ends with `settle`. Each exchange with the ledger transports everything
since the last one.
"""

import asyncio
import contextlib
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, TypeVarTuple

from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.ledger_messages import Claim, Grant, News, Settlement, WorkerMessage
from summhay_ray.llm.model_queue import PAUSE_WITHOUT_TIME_S
from summhay_ray.store import MoneyRecord, StoreError, Superseded

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

AGAIN_S = 1.0
"""Seconds before a retry if the store cannot be reached."""


class LedgerPort(NamedTuple):
    """One worker's connection to the ledger."""

    exchange: Callable[[WorkerMessage], Awaitable[News]]
    """Sends a message, and returns the worker's news."""
    listen: Callable[[], Awaitable[News]]
    """Waits for the worker's news and returns it, at the latest after the membership's `listen_s`."""


@dataclass(eq=False)
class LedgerService:
    """The ledger as a service. All methods must be called on one event loop. `record`: writes a money record durably; it is
    called in a thread."""

    ledger: Ledger
    record: Callable[[MoneyRecord], None]
    _recording: asyncio.Task[None] | None = field(init=False, default=None)
    _evicting: asyncio.Task[None] | None = field(init=False, default=None)
    _ending: bool = field(init=False, default=False)
    _bells: dict[str, asyncio.Event] = field(init=False, default_factory=dict)
    _timer: asyncio.TimerHandle | None = field(init=False, default=None)
    _timer_at: float = field(init=False, default=float("inf"))

    def port(self, worker: str) -> LedgerPort:
        """Return the connection to this ledger for a worker in the same process."""
        return LedgerPort(functools.partial(self.exchange, worker), functools.partial(self.listen, worker))

    async def exchange(self, worker: str, message: WorkerMessage) -> News:
        """Process a worker's message, and return its news."""
        now = time.monotonic()
        self.ledger.take(worker, message, now)
        news = self.ledger.collect(worker, now)
        self._ring(now)
        return news

    async def listen(self, worker: str) -> News:
        """Wait for the worker's news and return it, at the latest after `listen_s`."""
        bell = self._bells.setdefault(worker, asyncio.Event())
        if worker not in self.ledger.touched:
            bell.clear()
            # Do not use `wait_for`. Before Python 3.12, it may lose a cancellation that comes together with the bell, so that the
            # worker never ends.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.ledger.membership.listen_s):
                    await bell.wait()
        now = time.monotonic()
        if worker not in self.ledger.touched:
            self.ledger.tend(now)
        news = self.ledger.collect(worker, now)
        self._ring(now)
        return news

    def act(self, verb: Callable[[Ledger, *Ts, float], R], *arguments: *Ts) -> R:
        """Call a method of the ledger, such as `Ledger.beat`, with these arguments and the time, and then process the
        consequences."""
        now = time.monotonic()
        result = verb(self.ledger, *arguments, now)
        self.ledger.tend(now)
        self._ring(now)
        return result

    async def end(self) -> None:
        """Record the end of the session. No call is granted afterwards. Raises Superseded, StoreError, OSError."""
        self.ledger.stop(time.monotonic())
        self._ending = True
        if self._recording is not None:
            await asyncio.wait([self._recording])
        await asyncio.to_thread(self.record, self.ledger.account.last_record())

    def _ring(self, now: float) -> None:
        if not self._ending and self._evicting is None and self.ledger.membership.dying:
            self._evicting = asyncio.create_task(self._evict(set(self.ledger.membership.dying)))
        if not self._ending and self._recording is None and (record := self.ledger.account.record_due(now)) is not None:
            self._recording = asyncio.create_task(self._write(record))
        for worker in self.ledger.to_wake:
            if (bell := self._bells.get(worker)) is not None:
                bell.set()
        self.ledger.to_wake.clear()
        wake_at = self.ledger.next_at
        if wake_at is not None and (wake_at < self._timer_at or self._timer_at <= now):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = wake_at
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wake_at - now), self._wake)

    async def _write(self, record: MoneyRecord) -> None:
        while True:
            try:
                await asyncio.to_thread(self.record, record)
                break
            except Superseded:
                self.ledger.stop(time.monotonic())
                return
            except (StoreError, OSError):
                if self._ending:
                    return
                # Write the same record again, since the reply to the first attempt may have been lost.
                await asyncio.sleep(AGAIN_S)
        now = time.monotonic()
        self._recording = None
        self.ledger.note_durable(now)
        self._ring(now)

    async def _evict(self, dying: set[str]) -> None:
        # Read the log first, since the calls of dead workers must not be sent again before their answers are known. Only one task
        # reads at a time, since entries that are read twice would count twice.
        while True:
            try:
                fetched = await asyncio.to_thread(self.ledger.index.fetch)
                break
            except (StoreError, OSError):
                await asyncio.sleep(AGAIN_S)
        now = time.monotonic()
        # If this process was suspended, workers that seemed dead may have sent heartbeats in the meantime.
        for worker in dying & self.ledger.membership.dying:
            self.ledger.evict(worker, fetched, now)
            fetched = ()
        self._evicting = None
        self._ring(now)

    def _wake(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        now = time.monotonic()
        self.ledger.tend(now)
        self._ring(now)


TRIP_EVERY_S = 0.008
"""Minimum seconds between two exchanges. The first urgent message after an idle time is sent at once."""

COMPUTING_TRIP_EVERY_S = 0.05
"""The same for a worker that asks only local models. It has many items in progress, so that it need not wait for the ledger."""

PATIENT_S = 0.03
"""Seconds for which a message waits for other messages if nobody waits for it, since an exchange is expensive for the ledger."""

LEASE_S = 1.5
"""A call must be sent within this time (plus the interval between news) after its grant. Later, it is claimed again. The age of a
grant counts from the request for the news, since this process may have been suspended before the news arrived."""

LATE_S = 0.5
"""A timed call must be sent within this time after its scheduled time. Later, it would count in another minute, so it is claimed
again."""

CLOSING_S = 10.0
"""Seconds for which `close` waits for the last exchange."""

PAD_S = 0.02
"""Seconds that are added to every pause, since clocks differ."""


class GrantedCall(NamedTuple):
    """A grant that this worker has received. The call may be sent from `at` to `until`, by the event loop's clock."""

    grant: Grant
    at: float
    until: float


@dataclass(eq=False)
class LedgerClient:
    """The ledger client of one worker, on one event loop.

    `evicted` is called if the ledger has evicted this worker as dead, so that its claims will never be answered. `draining` is
    called if no more calls may be sent, because the worker ends or the run stops.
    """

    port: LedgerPort
    evicted: Callable[[], None] | None = None
    draining: Callable[[], None] = lambda: None
    trip_every_s: float = TRIP_EVERY_S
    _tickets: int = field(init=False, default=0)
    _waiting: dict[int, asyncio.Future[GrantedCall]] = field(init=False, default_factory=dict)
    _message: WorkerMessage = field(init=False, default_factory=WorkerMessage)
    """The claims and settlements since the last exchange."""
    _paused: dict[str, float] = field(init=False, default_factory=dict)
    _stopped: set[str] = field(init=False, default_factory=set)
    _halted: bool = field(init=False, default=False)
    _mail: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _urgent: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set if the message must be sent at once."""
    _asked: Counter[str] = field(init=False, default_factory=Counter)
    """Model -> the number of its claims that the ledger has not answered."""
    _models: dict[int, str] = field(init=False, default_factory=dict)
    """Ticket of an unanswered claim -> its model."""
    _flying: set[str] = field(init=False, default_factory=set)
    """Keys of granted calls whose attempt has not ended."""
    _travelling: bool = field(init=False, default=False)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)
    _broken: BaseException | None = field(init=False, default=None)
    _draining: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _closed: bool = field(init=False, default=False)

    def drain(self) -> None:
        """Prepare the worker's end: no more calls may be sent, pauses end, and new claims wait forever."""
        self._draining.set()
        self.draining()

    async def rest(self, seconds: float) -> None:
        """Wait this long, or until the worker must end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def claim(self, claim: Claim) -> GrantedCall:
        """Return the ledger's answer to a claim. Raises the channel's error if the ledger cannot be reached."""
        self._start()
        if self._draining.is_set():
            await asyncio.Future()
        self._tickets += 1
        future: asyncio.Future[GrantedCall] = asyncio.get_running_loop().create_future()
        self._waiting[self._tickets] = future
        self._message.claims.append(claim._replace(ticket=self._tickets))
        self._mail.set()
        # If a claim for the model already waits at the ledger, this claim need not be sent at once.
        if not self._asked[claim.model]:
            self._urgent.set()
        granted = await future
        if granted.grant.state == "go":
            self._flying.add(claim.key)
        return granted

    def ended(self, key: str) -> None:
        """Report that a call's attempt has ended. The call is settled later, but another call may already use its slot."""
        self._message.ended.append(key)
        self._flying.discard(key)
        self._mail.set()
        if self._asked.total():
            self._urgent.set()

    def settle(self, settlement: Settlement) -> None:
        """Report how a call ended, in the next exchange. If the provider demands a pause, this worker pauses at once, and the
        others as soon as the ledger informs them."""
        self._start()
        if settlement.pause_s is not None:
            settlement = settlement._replace(pause_s=settlement.pause_s + PAD_S)
            self._pause(settlement.model, settlement.pause_s or 0.0)
        elif settlement.limited:
            self._pause(settlement.model, PAUSE_WITHOUT_TIME_S + PAD_S)
        self._message.settlements.append(settlement)
        self._flying.discard(settlement.key)
        self._mail.set()
        # An answer may wait until the next attempt ends. All other settlements must be sent at once, since other workers need
        # them.
        if not self._flying or settlement.location is None or settlement.excess or settlement.stop:
            self._urgent.set()

    def _pause(self, model: str, seconds: float) -> None:
        self._paused[model] = max(self._paused.get(model, 0.0), asyncio.get_running_loop().time() + seconds)

    def may_send(self, granted: GrantedCall, model: str, *, paid: bool) -> bool:
        """Return whether the call may be sent now. If not, it is given back and claimed again."""
        now = asyncio.get_running_loop().time()
        if self._draining.is_set() or model in self._stopped or (paid and self._halted):
            return False
        return now <= granted.until and self._paused.get(model, 0.0) <= now

    async def flush(self) -> None:
        """Wait until the ledger has received all messages, or until a timeout."""
        self._urgent.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                # Do not wait if the tasks have ended: an ending event loop has cancelled them, and nothing more can be sent.
                while (
                    self._tasks
                    and self._broken is None
                    and not any(task.done() for task in self._tasks)
                    and (self._mail.is_set() or self._travelling)
                ):
                    await asyncio.sleep(TRIP_EVERY_S)

    async def close(self) -> None:
        """Send the remaining messages, and end the tasks."""
        await self.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks, self._closed = [], True

    def _start(self) -> None:
        if self._broken is not None:
            raise self._broken
        # Calls may still settle after `close`, when the loop ends. Start no task for them, since their answers are in the log.
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._guard(self._travel())), asyncio.create_task(self._guard(self._listen()))]

    async def _guard(self, work: Awaitable[None]) -> None:
        """Await the work. If it fails, the ledger is gone, and the error is raised in all waiting callers, which would otherwise
        wait forever."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        # The channel may raise anything, and every caller must get the error.
        except Exception as error:  # noqa: BLE001
            self._broken = error
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
            self._waiting.clear()

    async def _travel(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._mail.wait()
            if not self._urgent.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENT_S):
                        await self._urgent.wait()
            began = loop.time()
            self._mail.clear()
            self._urgent.clear()
            message, self._message = self._message, WorkerMessage()
            for claim in message.claims:
                self._asked[claim.model] += 1
                self._models[claim.ticket] = claim.model
            self._travelling = True
            self._hear(await self.port.exchange(message), began)
            self._travelling = False
            await asyncio.sleep(max(0.0, began + self.trip_every_s - loop.time()))

    async def _listen(self) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            self._hear(await self.port.listen(), began)

    def _hear(self, news: News, began: float) -> None:
        """Process news that was requested at the time `began`."""
        now = asyncio.get_running_loop().time()
        self._halted = news.halted
        if news.evicted and self.evicted is not None:
            self.evicted()
        if news.stopping and not self._draining.is_set():
            self.drain()
        self._stopped.update(news.stopped)
        for model, seconds in news.paused.items():
            self._pause(model, seconds)
        lease = began + news.next_s + LEASE_S
        for ticket, grant in news.grants:
            if ticket in self._models:
                self._asked[self._models.pop(ticket)] -= 1
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                at = now + grant.wait_s
                until = min(lease, at + LATE_S) if grant.timed else lease
                future.set_result(GrantedCall(grant, at, until))
        if any(not self._asked[claim.model] for claim in self._message.claims):
            self._urgent.set()
