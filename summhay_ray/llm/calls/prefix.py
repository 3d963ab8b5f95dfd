"""Calls that share a long prefix: one goes first, the others follow once the provider has cached it. Part of the llm room.

Providers discount the beginning of a prompt if they have read it a few minutes before (from about 1,024 tokens on). The queries
of one haystack under one ordering share their documents; sent all at once, each would pay for them in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator, Callable

SHORTEST = 4096
"""Shortest prefix, in characters: about the 1,024 tokens from which on providers cache."""

LIFETIME_S = 240.0
"""How long a prefix is assumed to stay cached after its last use; providers promise at least five minutes."""

_KEPT = 65_536


def prefixes_of(model: str, prompt: str) -> tuple[str, ...]:
    """Hashes of the prompt's prefixes of 4,096, 8,192, ... characters, the last of them the whole prompt. Empty for a short one.

    The model is part of the hash. Two prompts have those prefixes in common that lie within their shared text, so that one call
    can lead for a haystack's documents and another for the text that follows them.
    """
    return _prefixes(model, prompt) if len(prompt) >= SHORTEST else ()


# The repeats of a query send the same prompt.
@functools.lru_cache(maxsize=8)
def _prefixes(model: str, prompt: str) -> tuple[str, ...]:
    hasher = hashlib.sha256(f"{model}\0".encode())
    hashes, start, end = [], 0, SHORTEST
    while start < len(prompt):
        hasher.update(prompt[start:end].encode("utf-8", "surrogatepass"))
        hashes.append(hasher.hexdigest())
        start, end = end, end * 2
    return tuple(hashes)


class Turn:
    """A call's turn to be sent. The call reports how it ended: `answered()`, `failed()`, or neither if it was not sent."""

    def __init__(self, warm: Callable[[], None]) -> None:
        self.answered = warm
        self.in_vain = False

    def failed(self) -> None:
        """Report that the provider did not answer. The waiting calls go on without a new leader, or all might fail one by one."""
        self.in_vain = True


class _Leader:
    """A leading call, as those see it that wait for its end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.in_vain = False

    def end(self, in_vain: bool) -> None:
        self.in_vain = in_vain
        self.ended.set()


class PrefixGate:
    """Holds back the calls of one worker, on one event loop, that share a prefix with a leading call."""

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        self._warm_until: dict[str, float] = {}
        self._look_through_at = _KEPT
        """Cold prefixes are dropped when there are this many."""
        self._leading: dict[str, _Leader] = {}

    @contextlib.asynccontextmanager
    async def turn(self, prefixes: tuple[str, ...]) -> AsyncIterator[Turn]:
        """Wait for the call's turn. The caller reports to the turn how the call ended.

        For each prefix that is not cached, one call leads, and the others with that prefix wait for its end. If the leader was
        not sent after all, the next call leads. All calls take shorter prefixes first, so that they cannot wait in a circle.
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
                self._leading.pop(prefix).end(turn.in_vain)

    async def _lead(self, prefix: str) -> bool:
        """Whether the call leads for the prefix. If another one leads, wait until the prefix is cached or a leader has failed."""
        loop = asyncio.get_running_loop()
        while self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.get(prefix)
            if leader is None:
                self._leading[prefix] = _Leader()
                return True
            await leader.ended.wait()
            if leader.in_vain:
                return False
        return False

    def _warm(self, prefixes: tuple[str, ...]) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._warm_until) >= self._look_through_at:
            self._warm_until = {name: until for name, until in self._warm_until.items() if until >= now}
            self._look_through_at = max(_KEPT, 2 * len(self._warm_until))
        self._warm_until.update(dict.fromkeys(prefixes, now + self._lifetime_s))
