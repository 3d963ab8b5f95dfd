"""The features by which `offline/judge` compares an insight with a summary.

A word is reduced to its root: lower case, without an English ending, and cut after five letters, so that prescribe and
prescription are the same word. A number is kept with all its digits. Scripts without blanks between words (Chinese, Japanese,
Thai, ...) are split into characters. English function words, and citations such as [8, 11], are dropped.

Shared words are weighted by rarity: ln((n + 1) / f) for a word in f of the n texts at hand, bullets and
insights. So the theme's words, which every text repeats, count little, and no corpus is needed. Each feature was chosen
for what it adds on the held-out topic (`fit.py` prints it):

- recall: the share of the insight's words in its best bullet, 0..1; a word that no bullet contains has a lower weight.
- whole: the same for the whole summary, for an insight spread over several bullets.
- pairs: ln(1 + number of word pairs that are close together, in either order, in both insight and bullet).
- lead: the fit of the insight to its bullet minus that of the best other insight, -1..1; for an insight judged alone instead
  margin: the fit of its bullet minus that of the second-best bullet, 0..1. Both show whether the bullet is about the insight.

The best bullet has the highest cosine of weighted words (the first of equals), so if two bullets share the same words with the
insight, the shorter one wins.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from summhay_ray.text import FUNCTION_WORDS, UNSPACED, find_contradictions, root

COMMON_WEIGHT = 0.5
"""Weight of a common word (of `COMMON_ROOTS`) relative to other words."""

_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED}]|[^\W\d_{UNSPACED}]+")
_NUMBER = r"\s{0,3}(?:[A-Za-z]{1,12}\s{0,3})?\d{1,5}\s{0,3}"
_CITATION = re.compile(rf"[\[【]{_NUMBER}(?:[,;–-]{_NUMBER})*[\]】]")
_STOP_WORDS = FUNCTION_WORDS - {"here", "until", "whether"} | {"still"}
"""The list of function words with which the parameters were fitted."""

# Words of reporting and assessment, which differ between two accounts of the same fact.
_COMMON_WORDS = """
    ability able accord account achieve acknowledge act address advise affect aim allow approach around ask aspect base become
    begin believe better bring call cause certain claim come common concern consider continue crucial current deal describe
    despite detail different discuss drive due effect emphasize enable end ensure especially essential event example expect
    explain face fact factor feature feel find first focus follow form future general get give go good great happen help high
    highlight idea identify impact important include increase indicate inform instance involve issue keep key know large lead
    level like likely look main major make manner matter mean measure mention method move need new note notable number offer
    outline overall part particular past people person place plan play point possible potential present problem process produce
    provide put quite range reason recent recommend reduce reflect relate remain remark report require result reveal review role
    say second see seek seem serve set share show significant similar situation specific speak start state step stress suggest
    support take talk tell tend term thing think time today together topic try type underline understand use usual various vital
    want way well word work year
"""

ALONE = ("recall", "whole", "pairs", "margin")
TOGETHER = ("recall", "whole", "pairs", "lead")
UNSAID = 0.6
"""Weight factor of a word that is in no bullet: the summary may express it in other words."""
_NEAR = 3
_LONGEST_KEPT = 5000
_CONTINUES = re.compile(r"\W*(?:it|its|this|that|they|their|these|he|she)\b", re.IGNORECASE)
"""A bullet with such a beginning continues the one before it."""

Pair = tuple[str, str]


def roots(text: str) -> list[str]:
    """The roots and numbers of a text, in order."""
    words: list[str] = _WORD.findall(unicodedata.normalize("NFC", without_citations(text).lower()))
    return [word.replace(",", "") if word[0].isdigit() else root(word) for word in words if word not in _STOP_WORDS]


def without_citations(text: str) -> str:
    """The text without numeric citations: [8], [Articles 8, 11], 【8-11】."""
    return _CITATION.sub(" ", text)


COMMON_ROOTS = frozenset(roots(_COMMON_WORDS))
"""Roots of words of reporting, which carry little content."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one insight."""

    bullet: int
    """The best bullet, from 0."""
    values: tuple[float, ...]
    """Values in the order of `TOGETHER` (or `ALONE` for a single insight)."""
    contradicted: bool = False
    """Whether the best bullet contradicts the insight (`text.find_contradictions`)."""


@dataclass(frozen=True, slots=True)
class _Text:
    words: tuple[str, ...]
    """Distinct roots, in the order of the text."""
    kinds: frozenset[str]
    pairs: frozenset[Pair]


def features(insights: Sequence[str], bullets: Sequence[str]) -> list[Features | None]:
    """The features of insights judged together; None for an insight without words, and for all if there is no bullet."""
    # Insights are judged one by one against the same bullets, hence the cache; huge texts are not cached.
    bullet_texts, insight_texts = (
        [(_read_again if len(text) <= _LONGEST_KEPT else _read)(text) for text in texts] for texts in (bullets, insights)
    )
    if not bullet_texts:
        return [None] * len(insight_texts)
    # A single insight does not show which words are rare among insights.
    counted = [*insight_texts, *bullet_texts] if len(insight_texts) > 1 else bullet_texts
    frequency = Counter(word for text in counted for word in text.words)
    weights = {
        word: math.log((len(counted) + 1) / max(frequency[word], 1)) * (COMMON_WEIGHT if word in COMMON_ROOTS else 1.0)
        for text in (*insight_texts, *bullet_texts)
        for word in text.words
    }
    norms, own_norms = (
        [math.sqrt(math.fsum(weights[word] ** 2 for word in text.words)) for text in texts]
        for texts in (bullet_texts, insight_texts)
    )
    fits = [
        # The cosine, 0..1, with each bullet.
        [
            math.fsum(weights[word] ** 2 for word in insight.words if word in bullet.kinds) / (own * norm) if own * norm else 0.0
            for bullet, norm in zip(bullet_texts, norms, strict=True)
        ]
        for insight, own in zip(insight_texts, own_norms, strict=True)
    ]
    said = frozenset().union(*(text.kinds for text in bullet_texts))
    found: list[Features | None] = []
    for place, (insight, own) in enumerate(zip(insight_texts, fits, strict=True)):
        wanted = {word: weights[word] * (1.0 if word in said else UNSAID) for word in insight.words}
        total = math.fsum(wanted.values())
        if not total:
            found.append(None)
            continue
        best = max(range(len(own)), key=own.__getitem__)
        kinds = (bullet_texts[best].kinds, said)
        recall, whole = (math.fsum(weight for word, weight in wanted.items() if word in some) / total for some in kinds)
        pairs = math.log1p(len(insight.pairs & bullet_texts[best].pairs))
        others = [fit[best] for other, fit in enumerate(fits) if other != place]
        rival = max(others) if others else max((fit for other, fit in enumerate(own) if other != best), default=0.0)
        following = bullets[best + 1] if best + 1 < len(bullets) else ""
        passage = bullets[best] + (f"\n{following}" if _CONTINUES.match(following) else "")
        contradicted = bool(find_contradictions(insights[place], passage))
        found.append(Features(best, (recall, whole, pairs, own[best] - rival), contradicted))
    return found


def _read(text: str) -> _Text:
    words = roots(text)
    pairs = {
        (first, second) if first < second else (second, first)
        for place, first in enumerate(words)
        for second in words[place + 1 : place + 1 + _NEAR]
    }
    kinds = tuple(dict.fromkeys(words))
    return _Text(kinds, frozenset(kinds), frozenset(pairs))


_read_again = lru_cache(maxsize=1024)(_read)
