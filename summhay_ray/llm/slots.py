"""A worker's share of a model's calls at once. Part of the llm room, for the room alone."""

from __future__ import annotations

import asyncio
from collections import deque


class SlotGate:
    """Slots that the ledger lent to this worker; one event loop. First come, first served."""

    def __init__(self) -> None:
        self.held = 0
        self.used = 0
        self._keep: int | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a slot."""
        if self.used < self._may_use() and not self._waiters:
            self.used += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.used -= 1
                self._let_in()
            raise

    def release(self) -> int:
        """A slot is free again; gives how many go back to the ledger."""
        self.used -= 1
        return self._settle()

    def lend(self, n: int) -> None:
        """The ledger gives `n` further slots."""
        self.held += n
        self._keep = None
        self._let_in()

    def keep(self, n: int) -> int:
        """No more than `n` may be kept; gives how many go back now, others follow as they become free."""
        self._keep = n
        return self._settle()

    def reset(self) -> None:
        """The ledger took this worker for dead: nothing that it lent counts any more."""
        self.held = 0
        self._keep = None

    def _may_use(self) -> int:
        return self.held if self._keep is None else min(self.held, self._keep)

    def _settle(self) -> int:
        surplus = 0
        if self._keep is not None:
            surplus = max(0, min(self.held - self._keep, self.held - self.used))
            self.held -= surplus
            if self.held <= self._keep:
                self._keep = None
        self._let_in()
        return surplus

    def _let_in(self) -> None:
        while self._waiters and self.used < self._may_use():
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.used += 1
                waiter.set_result(None)
