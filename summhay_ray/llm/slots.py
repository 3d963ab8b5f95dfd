"""The slots of one model that a worker holds. Part of the llm room, for the room alone."""

from __future__ import annotations

import asyncio
from collections import deque


class SlotGate:
    """The slots that the ledger lent to this worker, on one event loop. First come, first served.

    A slot permits one call in flight. `lent`: slots that the worker has; `used`: those that calls take.
    """

    def __init__(self) -> None:
        self.lent = 0
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
        """Free a slot. Returns how many slots go back to the ledger."""
        self.used -= 1
        return self._settle()

    def lend(self, n: int) -> None:
        """Add `n` slots lent by the ledger."""
        self.lent += n
        self._keep = None
        self._let_in()

    def keep(self, n: int) -> int:
        """Keep at most `n` slots. Returns how many go back now; the others follow as they become free."""
        self._keep = n
        return self._settle()

    def reset(self) -> None:
        """Forget all slots: the ledger evicted this worker, and no longer counts what it lent."""
        self.lent = 0
        self._keep = None

    def _may_use(self) -> int:
        return self.lent if self._keep is None else min(self.lent, self._keep)

    def _settle(self) -> int:
        surplus = 0
        if self._keep is not None:
            surplus = max(0, min(self.lent - self._keep, self.lent - self.used))
            self.lent -= surplus
            if self.lent <= self._keep:
                self._keep = None
        self._let_in()
        return surplus

    def _let_in(self) -> None:
        while self._waiters and self.used < self._may_use():
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.used += 1
                waiter.set_result(None)
