"""What rooms share of reading texts: words without their endings, JSON objects in an answer. Any room may import it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_VOWEL = re.compile("[aeiouy]")


def stem(word: str) -> str:
    """A lower-case word without a plural's, a past tense's or a participle's ending, and without the final e that these hide."""
    if len(word) <= 3:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and not word.endswith("ss") and _VOWEL.search(root):
            word = root
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def whole_objects(
    text: str, start: re.Pattern[str], decoder: json.JSONDecoder, wanted: Callable[[Any], object]
) -> tuple[list[Any], str]:
    """What the decoder reads from places where `start` matches and is wanted, outermost first; and the text without it.

    Raises what the decoder raises beside ValueError and RecursionError.
    """
    found: list[Any] = []
    rest: list[str] = []
    kept = 0
    match = start.search(text)
    while match:
        after = match.start() + 1
        try:
            value, end = decoder.raw_decode(text, match.start())
        except ValueError:
            pass
        except RecursionError:
            break
        else:
            if wanted(value):
                found.append(value)
                rest.append(text[kept : match.start()])
                kept = after = end
        match = start.search(text, after)
    return found, "".join((*rest, text[kept:]))
