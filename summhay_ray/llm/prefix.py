"""Calls that share a long prefix: the first goes alone, the others when the provider has it in its cache. Part of the llm room.

Providers discount a prompt's beginning that they have just read (from about 1,024 tokens on, for minutes). All queries of one
haystack under one ordering share their documents; sent all at once, each would pay for them in full.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable

LONG = 4096
"""Characters that must be equal for a prefix to count as shared: about the 1,024 tokens from which providers cache."""

LIFETIME_S = 240.0
"""How long a prefix is taken to be cached after its last use; providers promise five minutes and more."""

_KEPT = 4096


def prefix_of(model: str, prompt: str) -> str:
    """What two prompts of a model share if they share a long prefix; empty for a short prompt."""
    if len(prompt) < LONG:
        return ""
    return hashlib.sha256(f"{model}\0{prompt[:LONG]}".encode("utf-8", "surrogatepass")).hexdigest()


class PrefixGate:
    """One worker's, on one event loop."""

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        self._warm_until: dict[str, float] = {}
        self._leading: dict[str, asyncio.Future[None]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, prefix: str) -> AsyncIterator[Callable[[], None]]:
        """The calls's turn to be sent; it calls what it is given once the provider has answered it.

        Where the prefix is not in the cache, one call leads and the others wait for its end; if it was not answered, the
        next one leads.
        """
        loop = asyncio.get_running_loop()
        while prefix and self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.get(prefix)
            if leader is None:
                break
            await asyncio.wait([leader])
        else:
            yield lambda: self._warm(prefix)
            return
        mine = self._leading[prefix] = loop.create_future()
        try:
            yield lambda: self._warm(prefix)
        finally:
            del self._leading[prefix]
            mine.set_result(None)

    def _warm(self, prefix: str) -> None:
        if not prefix:
            return
        now = asyncio.get_running_loop().time()
        if len(self._warm_until) >= _KEPT:
            self._warm_until = {name: until for name, until in self._warm_until.items() if until >= now}
        self._warm_until[prefix] = now + self._lifetime_s
