"""The hash that identifies a text."""

from __future__ import annotations

import functools
import hashlib


@functools.lru_cache(maxsize=256)
def text_hash(text: str) -> str:
    """sha256 (hex) of a text. Cached, since every request asks for its template's."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
