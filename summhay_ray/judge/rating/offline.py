"""Part of the judge room: `offline/rater`, a rater that needs no key. Other rooms take it from `summhay_ray.judge`.

It reads the prompt that any model would read, and rates how much of the summary the source supports, word by word: a floor
that a model must beat. It is fitted to nothing, knows no meaning, and does not see a wrong figure among right words.
"""

from __future__ import annotations

import json
from typing import ClassVar

from summhay_ray.judge.rating.prompt import part, scale_in
from summhay_ray.llm import Request
from summhay_ray.text import FUNCTION_WORDS, plain_words, root, sentences

_DIGITS = 4


class OfflineRater:
    """The local model `offline/rater` (llm.LocalModel)."""

    name: ClassVar[str] = "offline/rater"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """`{"rating": 4, "expected": 3.6182}` on the scale that the request's prompt names.

        Raises LookupError where the prompt has no source (or reference) and summary between tags, or names no scale.
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
    """How much of a summary its source supports, 0..1: the mean over its sentences of `_supported`; 0 for one without a word."""
    words = _words(source)
    known, pairs = set(words), set(zip(words, words[1:], strict=False))
    found = [share for sentence in sentences(summary) if (share := _supported(_words(sentence), known, pairs)) is not None]
    return sum(found) / len(found) if found else 0.0


def _supported(words: list[str], known: set[str], pairs: set[tuple[str, str]]) -> float | None:
    """Of a sentence the share of its words, and of its pairs of neighbours, that the source has: the mean of the two."""
    if not words:
        return None
    own = list(zip(words, words[1:], strict=False))
    share = sum(word in known for word in words) / len(words)
    return share if not own else (share + sum(pair in pairs for pair in own) / len(own)) / 2


def _words(text: str) -> list[str]:
    """The roots of the words that say something, in order."""
    return [root(word) for word in plain_words(text) if word not in FUNCTION_WORDS]
