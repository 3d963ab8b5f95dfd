"""The stem of an English word, and the root that words of one family share.

These few rules are used because Snowball is slightly worse: `offline/judge`, refitted with Snowball's stems, agrees less with
people on the held-out topic (correlation 0.804 instead of 0.805, of labels 0.773 instead of 0.776), and the offline checks are
right about 13,446 instead of 13,449 of the 13,700 pairs of document and insight in the two released haystacks.
"""

from __future__ import annotations

import re

_VOWEL = re.compile("[aeiouy]")
_ROOT = 5


def stem(word: str) -> str:
    """A lower-case word without its plural, past tense or participle ending, and without a final e, which endings replace."""
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


def root(word: str) -> str:
    """The first five letters of a lower-case word's stem: prescribe and prescription have the same root."""
    return stem(word)[:_ROOT]
