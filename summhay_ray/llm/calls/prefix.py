"""Calls that share a long prefix: one goes first, the others follow once the provider has cached it. Part of the llm room.

Providers discount the beginning of a prompt if they have read it a few minutes before (from about 1,024 tokens on). The queries
of one haystack under one ordering share their documents; sent all at once, each would pay for them in full.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib

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
    """A call's turn to be sent, as a context. The call reports how it ended: `answered()`, `failed()`, or neither if it was not
    sent."""

    def __init__(self, gate: PrefixGate, prefixes: tuple[str, ...]) -> None:
        self._gate, self._prefixes = gate, prefixes
        self.ended = asyncio.Event()
        self.in_vain = False

    async def __aenter__(self) -> Turn:
        try:
            for prefix in self._prefixes:
                await self._gate.wait(prefix, self)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._gate.leave(self._prefixes, self)
        self.ended.set()

    def answered(self) -> None:
        """Report that the provider has read the prompt."""
        self._gate.warm(self._prefixes)

    def failed(self) -> None:
        """Report that the provider did not answer. The waiting calls go on without a new leader, or all might fail one by one."""
        self.in_vain = True


class PrefixGate:
    """Holds back the calls of one worker, on one event loop, that share a prefix with a leading call.

    For each prefix that is not cached, one call leads, and the others with that prefix wait for its end. If the leader was not
    sent after all, the next call leads. All calls take shorter prefixes first, so that they cannot wait in a circle.
    """

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        self._warm_until: dict[str, float] = {}
        self._look_through_at = _KEPT
        """Cold prefixes are dropped when there are this many."""
        self._leading: dict[str, Turn] = {}

    def turn(self, prefixes: tuple[str, ...]) -> Turn:
        """A context in which the call is sent, once it is its turn."""
        return Turn(self, prefixes)

    async def wait(self, prefix: str, turn: Turn) -> None:
        """Return when the prefix is cached, its leader has failed, or the call leads for it."""
        loop = asyncio.get_running_loop()
        while self._warm_until.get(prefix, 0.0) < loop.time():
            leader = self._leading.setdefault(prefix, turn)
            if leader is turn:
                return
            await leader.ended.wait()
            if leader.in_vain:
                return

    def leave(self, prefixes: tuple[str, ...], turn: Turn) -> None:
        """Lead no more."""
        for prefix in prefixes:
            if self._leading.get(prefix) is turn:
                del self._leading[prefix]

    def warm(self, prefixes: tuple[str, ...]) -> None:
        """Note that the provider has cached these."""
        now = asyncio.get_running_loop().time()
        if len(self._warm_until) >= self._look_through_at:
            self._warm_until = {name: until for name, until in self._warm_until.items() if until >= now}
            self._look_through_at = max(_KEPT, 2 * len(self._warm_until))
        self._warm_until.update(dict.fromkeys(prefixes, now + self._lifetime_s))
