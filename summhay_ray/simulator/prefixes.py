"""Prompts as tokens, and which of their beginnings were served lately. Part of the simulator room.

Exact: a prompt's cached tokens are the longest beginning, in cl100k tokens, of 1,024 tokens or more in steps of 128, that it
shares with a prompt of the same key and model whose answer was complete less than a lifetime ago.
"""

from __future__ import annotations

import hashlib
import re
from array import array

from summhay_ray.text import encode_tokens

LEAST, STEP = 1024, 128
_TOKEN = array("I").itemsize
_KEPT_BYTES = 256 * 2**20
_KEPT_STEPS = 1_000_000

# What stands after a line break, and is no blank itself, begins a new match of cl100k's pattern, which never looks behind:
# so the tokens of a text are those of its paragraphs, and a paragraph that many prompts share is encoded once.
_PARAGRAPH = re.compile(r"\n(?=\S)")


class Encoder:
    """Texts to cl100k tokens, with the paragraphs remembered."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._lines: dict[str, bytes] = {}
        """Paragraphs that another follows, without their last line break -> the tokens of both."""
        self._ends: dict[str, bytes] = {}
        self._kept, self._most = 0, kept_bytes

    def encode(self, text: str) -> bytes:
        """The tokens of `text`, 4 bytes each; as many as `count_tokens` says."""
        *lines, end = _PARAGRAPH.split(text)
        found = [self._lines.get(line) or self._learn(self._lines, line, line + "\n") for line in lines]
        found.append(self._ends.get(end) or self._learn(self._ends, end, end))
        return b"".join(found)

    def count(self, text: str) -> int:
        """How many tokens `text` has."""
        return len(self.encode(text)) // _TOKEN

    def _learn(self, known: dict[str, bytes], name: str, text: str) -> bytes:
        encoded = array("I", encode_tokens(text)).tobytes()
        if self._kept > self._most:
            self._lines.clear()
            self._ends.clear()
            self._kept = 0
        known[name] = encoded
        self._kept += len(encoded) + 2 * len(name) + 150
        return encoded


def n_tokens(encoded: bytes) -> int:
    """How many tokens `Encoder.encode` gave."""
    return len(encoded) // _TOKEN


def steps(encoded: bytes) -> list[bytes]:
    """A digest for each beginning of 1,024, 1,152, 1,280 ... tokens, shortest first."""
    if len(encoded) < LEAST * _TOKEN:
        return []
    digest = hashlib.blake2b(encoded[: LEAST * _TOKEN], digest_size=16).digest()
    found = [digest]
    width = STEP * _TOKEN
    for start in range(LEAST * _TOKEN, len(encoded) - width + 1, width):
        digest = hashlib.blake2b(digest + encoded[start : start + width], digest_size=16).digest()
        found.append(digest)
    return found


class PrefixCache:
    """The beginnings of the prompts that one key had a model answer, and when last."""

    def __init__(self, kept: int = _KEPT_STEPS) -> None:
        self._served: dict[bytes, float] = {}
        self._most = kept

    def cached_tokens(self, beginnings: list[bytes], now: float, lifetime_s: float) -> int:
        """How many tokens of a prompt with these `steps` are cached."""
        # Whoever served a beginning served every shorter one then, so that the cached ones stand first.
        low, high = 0, len(beginnings)
        while low < high:
            middle = (low + high) // 2
            served = self._served.get(beginnings[middle])
            if served is not None and now - served < lifetime_s:
                low = middle + 1
            else:
                high = middle
        return LEAST + (low - 1) * STEP if low else 0

    def remember(self, beginnings: list[bytes], now: float) -> None:
        """A prompt with these `steps` has been answered."""
        # Longest first, and taken out before, so that what is forgotten first is the oldest, and of that the longest.
        for beginning in reversed(beginnings):
            self._served.pop(beginning, None)
            self._served[beginning] = now
        if len(self._served) > self._most:
            for beginning in list(self._served)[: len(self._served) - self._most // 2]:
                del self._served[beginning]
