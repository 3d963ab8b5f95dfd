"""The simulated prefix caches, which encode prompts and remember the prefixes served recently.

OpenAI's cache is automatic and exact. A prompt's cached tokens are its longest prefix in common with an earlier prompt of the
same key and model. The earlier prompt must have been answered less than a lifetime ago. A prefix has at least 1,024 cl100k
tokens, in steps of 128.
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
"""A request finds stored prefixes that end at a marked block, or up to 19 blocks before it."""
LEAST, STEP = 1024, 128
"""The shortest cached prefix, and the step of longer ones, in tokens."""
_TOKEN = array("I").itemsize
_KEPT_BYTES = 256 * 2**20
_KEPT_STEPS = 1_000_000

# cl100k's pattern has no lookbehind, and starts a new match at a non-blank after a line break. So a text's tokens are those of
# its paragraphs, and a paragraph that many prompts share is encoded only once.
_PARAGRAPH = re.compile(r"\n(?=\S)")


@dataclass(eq=False)
class Encoder:
    """Encodes texts as cl100k tokens, with a cache of paragraphs."""

    kept_bytes: int = _KEPT_BYTES
    _lines: dict[str, bytes] = field(init=False, default_factory=dict)
    """For paragraphs that another one follows: the text without its last line break -> the tokens with it."""
    _ends: dict[str, bytes] = field(init=False, default_factory=dict)
    _kept: int = field(init=False, default=0)

    def encode(self, text: str) -> bytes:
        """Return the tokens of `text`, 4 bytes each. `count_tokens` gives the same number."""
        *lines, end = _PARAGRAPH.split(text)
        found = [self._lines.get(line) or self._learn(self._lines, line, line + "\n") for line in lines]
        found.append(self._ends.get(end) or self._learn(self._ends, end, end))
        return b"".join(found)

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""
        return len(self.encode(text)) // _TOKEN

    def read(self, text: str) -> tuple[int, list[bytes]]:
        """Return the number of tokens in `text`, and its prefixes (see `steps`)."""
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
    """Return a digest of each prefix of 1,024, 1,152, 1,280, ... tokens, shortest first."""
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
    """The prefixes of the prompts answered for one key and model, with the times at which they were last served."""

    kept: int = _KEPT_STEPS
    _served: dict[bytes, float] = field(init=False, default_factory=dict)

    def cached_tokens(self, prefixes: list[bytes], now: float, lifetime_s: float) -> int:
        """Return the number of cached tokens of a prompt with these prefixes (see `steps`)."""
        # A prefix is never served without all shorter ones, so the cached prefixes come first, and binary search works.
        n = bisect_left(prefixes, True, key=lambda prefix: now - self._served.get(prefix, -math.inf) >= lifetime_s)
        return LEAST + (n - 1) * STEP if n else 0

    def remember(self, prefixes: list[bytes], now: float) -> None:
        """Record that a prompt with these prefixes was answered."""
        # The longest is reinserted first. So the oldest prefixes are forgotten first, and among these the longest.
        for prefix in reversed(prefixes):
            self._served.pop(prefix, None)
            self._served[prefix] = now
        if len(self._served) > self.kept:
            for prefix in list(self._served)[: len(self._served) - self.kept // 2]:
                del self._served[prefix]


@dataclass(eq=False)
class MarkedCache:
    """The prefixes that `cache_control` stored for one key and model, as at Anthropic.

    A prefix ends with a block. A request reads the longest stored prefix that ends at a marked block or at most 19 blocks before
    one. It stores the prefixes that end at its marked blocks.
    """

    _until: dict[bytes, tuple[float, float]] = field(init=False, default_factory=dict)
    """Digest of a prefix -> its lifetime in seconds, and the time at which it expires."""

    def longest(self, digests: Sequence[bytes], marked: Iterable[int], now: float) -> int:
        """Return the number of blocks in the longest stored prefix that a request with these marked blocks reads; 0 if there is
        none."""
        within = {place for block in marked for place in range(max(block - LOOKBACK + 1, 0), block + 1)}
        return max((place + 1 for place in within if self._until.get(digests[place], (0, -math.inf))[1] > now), default=0)

    def renew(self, digest: bytes, now: float) -> None:
        """Extend the lifetime of a prefix that was read."""
        lifetime, _ = self._until.pop(digest, (0.0, 0.0))
        self.store(digest, lifetime, now)

    def store(self, digest: bytes, lifetime_s: float, now: float) -> None:
        """Store a prefix. If it already has a longer lifetime, keep that."""
        self._until[digest] = max((lifetime_s, now + lifetime_s), self._until.pop(digest, (0.0, 0.0)))
        while len(self._until) > _KEPT_STEPS:
            del self._until[next(iter(self._until))]
