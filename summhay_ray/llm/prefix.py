"""Sends one of the calls that share a long prefix first, and the others as soon as the provider has cached the prefix.

Providers discount a prompt's prefix if they have read it a few minutes earlier, and if it has at least about 1,024 tokens. The
queries of one haystack under one ordering share their documents. If they were sent at the same time, each would pay the full
price for them.
"""

import asyncio
import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

SHORTEST = 4096
"""Shortest prefix in characters: about 1,024 tokens, which is the shortest prefix that providers cache."""

LIFETIME_S = 240.0
"""Seconds for which a prefix is assumed to stay cached after its last use. Providers promise at least five minutes."""


def prefixes_of(model: str, prompt: str) -> tuple[str, ...]:
    """Return hashes of the prompt's prefixes of 4,096, 8,192, ... characters; the last one is the whole prompt. Empty for a short
    prompt.

    The model is part of the hash. Two prompts have the same hashes for all prefixes within their common text. So all calls with
    the same documents may have one leader, and those that also share the text after the documents another one.
    """
    return _prefixes(model, prompt) if len(prompt) >= SHORTEST else ()


# Cached, since the repeats of a query have the same prompt.
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
    """Whether the provider answered, and so has read the prompt; None if nothing was sent. The caller sets this."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class PrefixGate:
    """Delays a worker's calls that share a prefix with a leading call. It works on one event loop.

    For each prefix that is not cached, one call leads, and the other calls with that prefix wait for its end. If the leader was
    not sent, the next call leads. If it was sent but not answered, all other calls are sent at once, since they might fail one by
    one. All calls wait for shorter prefixes first, so that they never wait for each other.
    """

    lifetime_s: float = LIFETIME_S
    _warm_until: dict[str, float] = field(default_factory=dict)
    """Prefix -> the time when its cache entry expires, in ascending order."""
    _leading: dict[str, Turn] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def turn(self, prefixes: tuple[str, ...]) -> AsyncIterator[Turn]:
        """Return a context in which the call is sent. It is entered when it is the call's turn."""
        turn = Turn()
        try:
            for prefix in prefixes:
                await self._wait(prefix, turn)
            yield turn
        finally:
            if turn.answered:
                # The provider has now cached these prefixes.
                now = asyncio.get_running_loop().time()
                for prefix in prefixes:
                    self._warm_until.pop(prefix, None)
                    self._warm_until[prefix] = now + self.lifetime_s
                while self._warm_until and next(iter(self._warm_until.values())) < now:
                    del self._warm_until[next(iter(self._warm_until))]
            for prefix in prefixes:
                if self._leading.get(prefix) is turn:
                    del self._leading[prefix]
            turn.ended.set()

    async def _wait(self, prefix: str, turn: Turn) -> None:
        """Wait until the prefix is cached, its leader has failed, or this call becomes the leader."""
        loop = asyncio.get_running_loop()
        while self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.setdefault(prefix, turn)
            if leader is turn:
                return
            await leader.ended.wait()
            if leader.answered is False:
                return
