"""Part of the judge room, for the room alone: how much of an insight's wording stands in each bullet of a summary.

The measure is word recall weighted by rarity: of the distinct content words of the insight, those that a bullet has, each
counted by its inverse document frequency over the summary's own bullets. So the theme's words, which every bullet repeats, count
for little, and no corpus has to be shipped. Words are stems; figures are words, with their thousands commas taken out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_NUMBER = r"\s{0,3}(?:[A-Za-z]{1,12}\s{0,3})?\d{1,5}\s{0,3}"
_CITATION = re.compile(rf"[\[【]{_NUMBER}(?:[,;–-]{_NUMBER})*[\]】]")
_VOWEL = re.compile("[aeiouy]")
_FUNCTION_WORDS = """
    a about after against all also although am an and another any are as at be because been before being between both but by
    can could d did do does doing down during each either even every few for from had has have having he her him his how
    however i if in into is it its just ll m many may me might more most much must my neither no nor not of on only onto or
    other our out over own per re s same several shall she should since so some still such t than that the their them then
    there these they this those though through to too toward towards under up upon us ve very via was we were what when where
    which while who whom whose why will with within without would yet you your
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True, slots=True)
class Best:
    """The bullet that has most of an insight: its place from 0, and its recall (0..1)."""

    index: int
    recall: float


def best_bullet(insight: str, bullets: Sequence[str]) -> Best | None:
    """The bullet with the highest recall of the insight, the first of equals; None where there are no bullets."""
    found = recalls(insight, bullets)
    if not found:
        return None
    index = max(range(len(found)), key=found.__getitem__)
    return Best(index, found[index])


def recalls(insight: str, bullets: Sequence[str]) -> list[float]:
    """The weighted word recall (0..1) of the insight in each bullet; 0 for an insight without a content word."""
    wanted = dict.fromkeys(content_words(insight))
    held = [set(content_words(bullet)) for bullet in bullets]
    frequency = Counter(word for words in held for word in words if word in wanted)
    # A word that no bullet has is as rare as one that a single bullet has: what is missing must not outweigh what is said.
    weights = {word: math.log((len(bullets) + 1) / max(frequency[word], 1)) for word in wanted}
    total = math.fsum(weights.values())
    if total == 0:
        return [0.0] * len(bullets)
    return [math.fsum(weight for word, weight in weights.items() if word in words) / total for words in held]


def content_words(text: str) -> list[str]:
    """The stems and figures of a text in their order, without English function words and citations."""
    words = _WORD.findall(_CITATION.sub(" ", text).lower())
    return [_stem(word) for word in words if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    """The word without a plural's, a past tense's or a participle's ending, and without the final e that these hide."""
    if word[0].isdigit():
        return word.replace(",", "")
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
