"""The simulated prefix caches: encode prompts and remember the prefixes served recently.

OpenAI's is automatic and exact: a prompt's cached tokens are its longest prefix, of at least 1,024 cl100k tokens in steps of 128,
that it shares with a prompt of the same key and model whose answer was completed less than a lifetime ago.
"""

import hashlib
import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from summhay_ray.text import encode_tokens

LOOKBACK = 20
"""Blocks, up to a marked one, whose prefixes are searched."""
LEAST, STEP = 1024, 128
"""The shortest cached prefix, and the step of longer ones, in tokens."""
_TOKEN = array("I").itemsize
_KEPT_BYTES = 256 * 2**20
_KEPT_STEPS = 1_000_000

# cl100k's pattern has no lookbehind and starts a new match at a non-blank after a line break. A text's tokens are therefore those
# of its paragraphs, and a paragraph that many prompts share is encoded only once.
_PARAGRAPH = re.compile(r"\n(?=\S)")


@dataclass(eq=False)
class Encoder:
    """Encodes texts as cl100k tokens, with a cache of paragraphs."""

    kept_bytes: int = _KEPT_BYTES
    _lines: dict[str, bytes] = field(init=False, default_factory=dict)
    """A paragraph before another one, without its last line break -> its tokens with the line break."""
    _ends: dict[str, bytes] = field(init=False, default_factory=dict)
    _kept: int = field(init=False, default=0)

    def encode(self, text: str) -> bytes:
        """The tokens of `text`, 4 bytes each; `count_tokens` gives the same number."""
        *lines, end = _PARAGRAPH.split(text)
        found = [self._lines.get(line) or self._learn(self._lines, line, line + "\n") for line in lines]
        found.append(self._ends.get(end) or self._learn(self._ends, end, end))
        return b"".join(found)

    def count(self, text: str) -> int:
        """The number of tokens in `text`."""
        return len(self.encode(text)) // _TOKEN

    def read(self, text: str) -> tuple[int, list[bytes]]:
        """The number of tokens in `text`, and its prefixes (see `steps`)."""
        encoded = self.encode(text)
        return len(encoded) // _TOKEN, steps(encoded)

    def _learn(self, known: dict[str, bytes], name: str, text: str) -> bytes:
        encoded = array("I", encode_tokens(text)).tobytes()
        if self._kept > self.kept_bytes:
            self._lines.clear()
            self._ends.clear()
            self._kept = 0
        known[name] = encoded
        self._kept += len(encoded) + 2 * len(name) + 150
        return encoded


def steps(encoded: bytes) -> list[bytes]:
    """A digest of each prefix of 1,024, 1,152, 1,280, ... tokens, shortest first."""
    if len(encoded) < LEAST * _TOKEN:
        return []
    digest = hashlib.blake2b(encoded[: LEAST * _TOKEN], digest_size=16).digest()
    found = [digest]
    width = STEP * _TOKEN
    for start in range(LEAST * _TOKEN, len(encoded) - width + 1, width):
        digest = hashlib.blake2b(digest + encoded[start : start + width], digest_size=16).digest()
        found.append(digest)
    return found


@dataclass(eq=False)
class PrefixCache:
    """The prefixes of the prompts answered for one key and model, with the time they were last served."""

    kept: int = _KEPT_STEPS
    _served: dict[bytes, float] = field(init=False, default_factory=dict)

    def cached_tokens(self, prefixes: list[bytes], now: float, lifetime_s: float) -> int:
        """The number of cached tokens of a prompt with these prefixes (see `steps`)."""
        # A prefix is never served without all shorter ones, so the cached prefixes come first: binary search works.
        n = bisect_left(prefixes, True, key=lambda prefix: now - self._served.get(prefix, -math.inf) >= lifetime_s)
        return LEAST + (n - 1) * STEP if n else 0

    def remember(self, prefixes: list[bytes], now: float) -> None:
        """Note that a prompt with these prefixes was answered."""
        # Reinserted longest first, so that the oldest are forgotten first, and among these the longest.
        for prefix in reversed(prefixes):
            self._served.pop(prefix, None)
            self._served[prefix] = now
        if len(self._served) > self.kept:
            for prefix in list(self._served)[: len(self._served) - self.kept // 2]:
                del self._served[prefix]


@dataclass(eq=False)
class MarkedCache:
    """The prefixes that `cache_control` stored for one key and model, as at Anthropic.

    A prefix ends with a block. A request reads the longest stored one that ends at a marked block or at most 19 blocks before it,
    and stores those that end at its marked blocks.
    """

    _until: dict[bytes, tuple[float, float]] = field(init=False, default_factory=dict)
    """Digest of a prefix -> its lifetime in seconds, and the time at which it ends."""

    def longest(self, digests: Sequence[bytes], marked: Iterable[int], now: float) -> int:
        """The number of blocks in the longest stored prefix that a request with these marked blocks reads; 0 for none."""
        within = {place for block in marked for place in range(max(block - LOOKBACK + 1, 0), block + 1)}
        return max((place + 1 for place in within if self._until.get(digests[place], (0, -math.inf))[1] > now), default=0)

    def renew(self, digest: bytes, now: float) -> None:
        """Extend the lifetime of a prefix that was read."""
        lifetime, _ = self._until.pop(digest, (0.0, 0.0))
        self.store(digest, lifetime, now)

    def store(self, digest: bytes, lifetime_s: float, now: float) -> None:
        """Store a prefix. A longer lifetime that it already has is kept."""
        self._until[digest] = max((lifetime_s, now + lifetime_s), self._until.pop(digest, (0.0, 0.0)))
        while len(self._until) > _KEPT_STEPS:
            del self._until[next(iter(self._until))]
