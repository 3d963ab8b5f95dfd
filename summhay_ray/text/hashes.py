"""The hashes that identify a text, and content in JSON."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any


@functools.lru_cache(maxsize=256)
def text_hash(text: str) -> str:
    """sha256 (hex) of a text. Cached, since every request asks for its template's."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def semantic_hash(content: Any) -> str:
    """sha256 (hex) of the canonical JSON of `content`. 1.0 and 1 are equal, and the order of fields does not matter."""
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(content: Any) -> str:
    """`content` as canonical JSON: sorted fields, no blanks, ASCII, whole floats as integers."""
    return json.dumps(_plain(content), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _plain(content: Any) -> Any:
    """The content with whole floats as integers, since 1.0 and 1 mean the same to people and to providers."""
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return int(content) if isinstance(content, float) and content.is_integer() else content
