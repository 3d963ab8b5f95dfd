"""A gateway over a ledger in this process and a provider over real HTTP, for the tests of the llm room."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from summhay_ray.llm import (
    Budgets,
    Gateway,
    Ledger,
    LedgerService,
    Limits,
    LocalModel,
    ModelSettings,
    Price,
    RawAnswer,
    Request,
)
from summhay_ray.llm.ledger_service import TRIP_EVERY_S
from summhay_ray.outcome import Outcome
from summhay_ray.store import LocalFiles, LogIndex, LogWriter
from summhay_ray.store.money import MoneyRecords

R = TypeVar("R")

SESSIONS = itertools.count(time.time_ns())
"""Every room is a session of its own; those of a later process are later."""

OPEN: list[Gateway] = []
"""Every gateway that a test made, for `close_all`."""

MODEL = "openai/fake"
PRICE = Price(2.0, 10.0)
KEY_ENV, KEY = "TEST_FAKE_PROVIDER_KEY", "canary-0123456789abcdefghij"


def close_all(loop: asyncio.AbstractEventLoop) -> None:
    """Close every gateway that a test made, and end its remaining tasks, like `asyncio.run`."""
    # Keep a reference until they end: a pending call that is garbage-collected would fail in another test.
    pending = asyncio.all_tasks(loop)
    while OPEN:
        loop.run_until_complete(OPEN.pop().close())
    cancel_all(loop)
    pending.clear()


def cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """End every task of the loop."""
    while left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def settings_of(base: str, **changes: Any) -> ModelSettings:
    """The fake model's settings."""
    known = {"api_base": base, "api_key_env": KEY_ENV, "transport": "direct", "timeout_s": 60.0, "limits": Limits(concurrency=64)}
    return ModelSettings(**{"model": MODEL, "price": PRICE, **known, **changes})


@dataclass
class Room:
    """A store, a ledger and a gateway; `again()` is the next run on the same store."""

    root: Path
    settings: Sequence[ModelSettings]
    loop: asyncio.AbstractEventLoop
    budget_micros: int | None = None
    run_id: str = "run"
    local: Mapping[str, LocalModel] = field(default_factory=dict)
    ledger: Ledger = field(init=False)
    gateway: Gateway = field(init=False)

    def __post_init__(self) -> None:
        files = LocalFiles(self.root)
        limits = {settings.model: settings.limits for settings in self.settings}
        self.session = next(SESSIONS)
        records = MoneyRecords(files, self.run_id)
        earlier_record = records.take_over(self.session) if records.newest() is not None else None
        self.ledger = Ledger(
            self.run_id, self.index(), Budgets(self.budget_micros), limits, session=self.session, earlier_record=earlier_record
        )
        self.service = LedgerService(self.ledger, records.append)
        self.gateway, self.log = self.worker()

    def worker(self) -> tuple[Gateway, LogWriter]:
        """Another worker of the same run."""
        files = LocalFiles(self.root)
        log = LogWriter(files, self.session)
        models = {settings.model: settings for settings in self.settings}
        gateway = Gateway(models, self.service.port(log.writer), files, log, self.run_id, local=self.local)
        OPEN.append(gateway)
        return gateway, log

    def again(self, **changes: Any) -> Room:
        """A later run, or another run, on the same store."""
        known = {"budget_micros": self.budget_micros, "run_id": self.run_id, "settings": self.settings, "local": self.local}
        return Room(self.root, loop=self.loop, **{**known, **changes})

    def run(self, work: Awaitable[R]) -> R:
        """Wait for it, at most a minute."""
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    def ask(self, *prompts: str, **fields: Any) -> list[tuple[Outcome[RawAnswer], RawAnswer | None]]:
        """Ask all questions at once."""

        async def all_at_once() -> list[tuple[Outcome[RawAnswer], RawAnswer | None]]:
            return list(await asyncio.gather(*(self.gateway.complete(request(prompt, **fields)) for prompt in prompts)))

        return self.run(all_at_once())

    def one(self, prompt: str = "a prompt", **fields: Any) -> tuple[Any, RawAnswer | None]:
        """Ask once."""
        return self.ask(prompt, **fields)[0]

    def told(self, asked: Request) -> tuple[Any, RawAnswer | None]:
        """The gateway's result for a request."""

        async def wait() -> tuple[Any, RawAnswer | None]:
            found: tuple[Any, RawAnswer | None] = await self.gateway.complete(asked)
            return found

        return self.run(wait())

    @property
    def money(self) -> tuple[int, int]:
        """(spent, reserved) in the ledger, after all messages have arrived."""
        self.run(asyncio.sleep(1.5 * TRIP_EVERY_S))
        return self.ledger.account.spent["", ""], self.ledger.account.reserved["", ""]

    @property
    def in_flight(self) -> int:
        """Calls that the ledger has granted and that have not ended."""
        self.run(asyncio.sleep(1.5 * TRIP_EVERY_S))
        return len(self.ledger._flights)

    def index(self) -> LogIndex:
        """The log on disk."""
        index = LogIndex(LocalFiles(self.root))
        index.refresh()
        return index

    def records(self) -> list[dict[str, Any]]:
        """Every record of the log."""
        index = self.index()
        return [record for key in index.answers if (record := index.read(key)) is not None]

    def on_disk(self) -> bytes:
        """All bytes of the store."""
        return b"".join(file.read_bytes() for file in sorted(self.root.rglob("*")) if file.is_file())


def request(prompt: str = "a prompt", **fields: Any) -> Request:
    """A request to the fake model."""
    return Request(**{"model": MODEL, "messages": prompt, "sampling": {"max_tokens": 20, "temperature": 0}, **fields})
