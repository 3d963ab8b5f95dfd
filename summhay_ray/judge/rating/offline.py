"""`offline/rater`, a rater that needs no API key.

It reads the same prompt as any model, and rates the share of the summary's words that the source contains: a baseline that a
model must beat. It has no fitted parameters, does not understand meaning, and misses a wrong figure among right words.
"""

from __future__ import annotations

import json
from typing import ClassVar

from summhay_ray.judge.rating.base import part, scale_in
from summhay_ray.llm import Request
from summhay_ray.text import FUNCTION_WORDS, plain_words, root, sentences

_DIGITS = 4


class OfflineRater:
    """The local model `offline/rater` (llm.LocalModel)."""

    name: ClassVar[str] = "offline/rater"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """The answer as JSON, such as `{"rating": 4, "expected": 3.6182}`, on the scale that the prompt names.

        Raises LookupError if the prompt lacks a tagged source (or reference), a tagged summary, or a scale.
        """
        prompt = request.prompt
        source = part(prompt, "source")
        source = part(prompt, "reference") if source is None else source
        summary, scale = part(prompt, "summary"), scale_in(prompt)
        if source is None or summary is None:
            raise LookupError("the prompt has no <source> and <summary>, each tag on a line; offline/rater reads between them")
        if scale is None:
            raise LookupError("the prompt does not say 'a whole number from 1 to 5'; offline/rater rates on that scale")
        low, high = scale
        expected = round(low + (high - low) * support(source, summary), _DIGITS)
        return json.dumps({"rating": round(expected), "expected": expected})


def support(source: str, summary: str) -> float:
    """The share of a summary that its source supports, 0..1: the mean of `_supported` over its sentences; 0 if it has no
    words."""
    words = _words(source)
    known, pairs = set(words), set(zip(words, words[1:], strict=False))
    shares = [share for sentence in sentences(summary) if (share := _supported(_words(sentence), known, pairs)) is not None]
    return sum(shares) / len(shares) if shares else 0.0


def _supported(words: list[str], known: set[str], pairs: set[tuple[str, str]]) -> float | None:
    """The mean of two shares: the sentence's words that are in the source, and its bigrams that are; None if it has no words."""
    if not words:
        return None
    bigrams = list(zip(words, words[1:], strict=False))
    share = sum(word in known for word in words) / len(words)
    return share if not bigrams else (share + sum(pair in pairs for pair in bigrams) / len(bigrams)) / 2


def _words(text: str) -> list[str]:
    """The roots of the words, without function words, in order."""
    return [root(word) for word in plain_words(text) if word not in FUNCTION_WORDS]
