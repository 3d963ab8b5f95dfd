"""Calls without Ray: a gateway and a ledger in this process, opened at the first call. Part of the grid room, for bench."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from summhay_ray.grid.keeping import Keeping
from summhay_ray.grid.local import make_local_models
from summhay_ray.haystack import ReleasedFile
from summhay_ray.llm import FREE, Budgets, Gateway, Ledger, LedgerService, LocalPort, ModelSettings, Request, register
from summhay_ray.outcome import Outcome
from summhay_ray.records import RawAnswer
from summhay_ray.store import LogIndex, Store, StoreError, begin, has_ended, open_log, pack, seal_rest, sweep

STAGE = "judge"
SEAT = "bench"
SWEEP_PATIENCE_S = 5.0
LOOK_S = 1.0
DRAIN_S = 60.0
"""The longest that an end which somebody forces waits for the answers that are on their way."""


class Office:
    """An async context: `ask` answers from the response log or calls, within the budget; leaving it settles and says so.

    `source` is kept in the store, so that whoever finds the run's calls in the log finds what they were about. Nothing is opened,
    and nothing written, where nothing is asked. Raises StoreError where another run is being paid for in the store.
    """

    def __init__(
        self, store: Store, run_id: str, source: bytes, settings: Mapping[str, ModelSettings], budget_micros: int | None
    ) -> None:
        self._store, self._run_id, self._source = store, run_id, source
        self._settings, self._budget = settings, budget_micros
        self._opening = asyncio.Lock()
        self._gateway: Gateway | None = None
        self._stack = contextlib.AsyncExitStack()
        self._broken_off = False
        self.snapshot: dict[str, Any] = {}

    async def __aenter__(self) -> Office:
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self._broken_off = raised[0] is not None
        await self._stack.__aexit__(*raised)

    async def ask(self, request: Request) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        """The outcome, and the raw answer where there is one. Raises LookupError for a model that has no settings."""
        async with self._opening:
            if self._gateway is None:
                self._gateway = await self._open()
        if request.model not in self._settings:
            raise LookupError(f"model {request.model!r} is asked, but not named; name it in the spec's judges")
        return await self._gateway.complete(request, STAGE)

    async def _open(self) -> Gateway:
        files = self._store.files
        await asyncio.to_thread(files.check)
        await asyncio.to_thread(self._store.put_object, "annotations", self._source)
        paying = any(settings.price != FREE for settings in self._settings.values())
        tenure = await asyncio.to_thread(begin, files, self._run_id, paying, {SEAT: 1})
        keeping = self._stack.enter_context(Keeping(tenure))
        if files.folder is None:
            await asyncio.to_thread(self._tidy, tenure.record.earlier)
        if any(settings.local for settings in self._settings.values()):
            await asyncio.to_thread(register, make_local_models(_no_release))
        log = open_log(files, tenure.number, f"{SEAT}-0")
        self._stack.callback(log.close)
        limits = {model: settings.limits for model, settings in self._settings.items() if not settings.local}
        index = LogIndex(files)
        ledger = await asyncio.to_thread(Ledger, self._run_id, index, Budgets(self._budget), limits)
        service = LedgerService(ledger)
        gateway = Gateway(self._settings, LocalPort(service, log.writer), files, log, self._run_id)
        # It beats until the gateway is closed: who does not is taken for dead.
        watch = asyncio.create_task(self._tend(service, log.writer, keeping))
        self._stack.callback(watch.cancel)
        self._stack.push_async_callback(self._close, gateway, service, keeping)
        return gateway

    async def _tend(self, service: LedgerService, worker: str, keeping: Keeping) -> None:
        """Beat for the one worker, and send nothing more once another start has taken the run over."""
        while True:
            service.beat(worker)
            if keeping.superseded:
                service.stop()
            await asyncio.sleep(LOOK_S)

    async def _close(self, gateway: Gateway, service: LedgerService, keeping: Keeping) -> None:
        if self._broken_off:
            # What is on its way is paid for: it is waited for and kept.
            await gateway.drain(DRAIN_S)
        await gateway.close()
        self.snapshot = service.snapshot()
        keeping.how = "stopped" if self._broken_off else "done"

    def _tidy(self, earlier: tuple[int, ...]) -> None:
        """Far away the log of a start that died may lie on this machine's disk: what it paid for must be seen."""
        files = self._store.files
        sweep(files, SWEEP_PATIENCE_S, None)
        for number in earlier:
            if has_ended(files, number):
                seal_rest(files, number)
        with contextlib.suppress(StoreError, OSError):
            pack(files)


def _no_release(haystack_id: str) -> ReleasedFile:
    raise LookupError("annotations hold no released answers; name stored/KEY instead of replay/...")
