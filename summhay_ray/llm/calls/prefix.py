"""Calls that share a long prefix: one goes first, the others follow once the provider has cached it.

Providers discount the beginning of a prompt if they have read it a few minutes before (from about 1,024 tokens on). The queries
of one haystack under one ordering share their documents; sent all at once, each would pay for them in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

SHORTEST = 4096
"""Shortest prefix, in characters: about the 1,024 tokens from which on providers cache."""

LIFETIME_S = 240.0
"""How long a prefix is assumed to stay cached after its last use; providers promise at least five minutes."""


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


@dataclass(eq=False)
class Turn:
    """A call's turn to be sent."""

    answered: bool | None = None
    """Whether the provider answered and so has read the prompt; None if nothing was sent. Whoever takes the turn says it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class PrefixGate:
    """Holds back the calls of one worker, on one event loop, that share a prefix with a leading call.

    For each prefix that is not cached, one call leads, and the others with that prefix wait for its end. If the leader was not
    sent after all, the next call leads; if it was sent and not answered, all go on, or they might fail one by one. All calls take
    shorter prefixes first, so that they cannot wait in a circle.
    """

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        self._warm_until: dict[str, float] = {}
        """In the order in which they get cold."""
        self._leading: dict[str, Turn] = {}

    @contextlib.asynccontextmanager
    async def turn(self, prefixes: tuple[str, ...]) -> AsyncIterator[Turn]:
        """A context in which the call is sent, once it is its turn."""
        turn = Turn()
        try:
            for prefix in prefixes:
                await self._wait(prefix, turn)
            yield turn
        finally:
            if turn.answered:
                # Note that the provider has cached these.
                now = asyncio.get_running_loop().time()
                for prefix in prefixes:
                    self._warm_until.pop(prefix, None)
                    self._warm_until[prefix] = now + self._lifetime_s
                while self._warm_until and next(iter(self._warm_until.values())) < now:
                    del self._warm_until[next(iter(self._warm_until))]
            for prefix in prefixes:
                if self._leading.get(prefix) is turn:
                    del self._leading[prefix]
            turn.ended.set()

    async def _wait(self, prefix: str, turn: Turn) -> None:
        """Return when the prefix is cached, its leader has failed, or the call leads for it."""
        loop = asyncio.get_running_loop()
        while self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.setdefault(prefix, turn)
            if leader is turn:
                return
            await leader.ended.wait()
            if leader.answered is False:
                return
