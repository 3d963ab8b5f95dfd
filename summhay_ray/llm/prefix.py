"""Calls that share a long prefix: the first goes alone, the others when the provider has it in its cache. Part of the llm room.

Providers discount a prompt's beginning that they have just read (from about 1,024 tokens on, for minutes). All queries of one
haystack under one ordering share their documents; sent all at once, each would pay for them in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable

SHORTEST = 4096
"""Characters from which on a shared beginning counts: about the 1,024 tokens from which providers cache."""

LIFETIME_S = 240.0
"""How long a prefix is taken to be cached after its last use; providers promise five minutes and more."""

_KEPT = 65_536


def prefixes_of(model: str, prompt: str) -> tuple[str, ...]:
    """What a prompt may share with others of its model: its beginnings of 4,096, 8,192, ... characters, and all of it.

    Empty for a short prompt. Two prompts share as many of them as they share text, so that the one that leads for the
    documents of a haystack need not lead for what follows them.
    """
    if len(prompt) < SHORTEST:
        return ()
    hasher = hashlib.sha256(f"{model}\0".encode())
    found, start, end = [], 0, SHORTEST
    while start < len(prompt):
        hasher.update(prompt[start:end].encode("utf-8", "surrogatepass"))
        found.append(hasher.hexdigest())
        start, end = end, end * 2
    return tuple(found)


class Turn:
    """What a call says of its end: the provider answered it, or it was sent in vain."""

    def __init__(self, warm: Callable[[], None]) -> None:
        self.answered = warm
        self.in_vain = False

    def failed(self) -> None:
        """The provider did not answer: who waits for the call goes on without another leader, or all would fail in a row."""
        self.in_vain = True


class PrefixGate:
    """One worker's, on one event loop."""

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        self._warm_until: dict[str, float] = {}
        self._leading: dict[str, asyncio.Future[bool]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, prefixes: tuple[str, ...]) -> AsyncIterator[Turn]:
        """The call's turn to be sent; it tells the turn how it ended.

        Of each beginning that is not in the cache one call leads, and the others that share it wait for its end; if it was
        not sent after all, the next one leads. Shorter beginnings are taken first by all, so that nobody waits in a circle.
        """
        mine: list[str] = []
        turn = Turn(lambda: self._warm(prefixes))
        try:
            for prefix in prefixes:
                if await self._lead(prefix):
                    mine.append(prefix)
            yield turn
        finally:
            for prefix in mine:
                self._leading.pop(prefix).set_result(turn.in_vain)

    async def _lead(self, prefix: str) -> bool:
        """Whether the call leads; waits for who leads, until the beginning is in the cache or nobody leads."""
        loop = asyncio.get_running_loop()
        while self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.get(prefix)
            if leader is None:
                self._leading[prefix] = loop.create_future()
                return True
            await asyncio.wait([leader])
            if leader.result():
                return False
        return False

    def _warm(self, prefixes: tuple[str, ...]) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._warm_until) >= _KEPT:
            self._warm_until = {name: until for name, until in self._warm_until.items() if until >= now}
        self._warm_until.update(dict.fromkeys(prefixes, now + self._lifetime_s))
