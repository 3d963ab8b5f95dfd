"""Simulated embeddings and relevance scores, computed from hashed and common words."""

import base64
import functools
import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int) -> list[float]:
    """Return a unit vector, (dimensions,). Texts with common words have similar vectors; a text has the same vector on every
    machine."""
    vector = [0.0] * dimensions
    for word, n in Counter(_WORD.findall(text.lower())).items():
        number = _hashed(word)
        vector[(number >> 1) % dimensions] += math.sqrt(n) if number & 1 else -math.sqrt(n)
    norm = math.sqrt(sum(value * value for value in vector))
    if norm == 0:
        # Without words, or with words that cancel out, return a unit vector anyway, as a real provider does.
        vector[_hashed(text) % dimensions] = norm = 1.0
    return [value / norm for value in vector]


SEARCH_TOKENS, SEARCH_DOCUMENTS = 500, 100
"""Maximum size of one search, in Cohere's terms: the tokens of a document and the query together, and the number of documents."""


def relevance(query: str, documents: Sequence[str]) -> list[float]:
    """Return a score of each document, 0 to 1: its share of the query's words, slightly lower for longer documents."""
    wanted = set(_WORD.findall(query.lower()))
    found = []
    for document in documents:
        words = _WORD.findall(document.lower())
        found.append(len(wanted.intersection(words)) / (len(wanted) or 1) * (1 - 1e-6 * min(len(words), 99_999)))
    return found


def packed(vector: list[float]) -> str:
    """Return the vector in the form of `encoding_format: base64`: 4-byte floats, little-endian."""
    return base64.b64encode(array("f", vector).tobytes()).decode("ascii")


@functools.lru_cache(maxsize=100_000)
def _hashed(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
