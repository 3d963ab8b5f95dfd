"""Part of the synth room's writer: answers the prompts of checks by comparing words, numbers and names. For the writer alone.

It stands in for a checking model in runs without a key, and knows no meaning. An insight is found where a few neighbouring
sentences have all of its numbers and names and enough of its other words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from summhay_ray.synth.writer.prompts import Given
from summhay_ray.synth.writer.sentences import Words, speaker_of, split_sentences, words_of

_SAME_SUBTOPIC = 0.5
_SAME_INSIGHT = 0.6
_WINDOW = 3
"""Most neighbouring sentences in which an insight of one sentence is looked for."""
_FOUND_WITH_FACTS = 0.4
_FOUND_WITHOUT = 0.7
_LEAKED = 0.6


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that states an insight: indices of its first and last sentence, and the share of the insight's words in it."""

    first: int
    last: int
    share: float


class Text:
    """A text as a list of sentences."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = sentences
        self._words = [words_of(sentence) for sentence in sentences]
        self._tokens: frozenset[str] = frozenset().union(*(words.tokens for words in self._words))

    def find(self, insight: str) -> Found | None:
        """The shortest passage that states the insight, and among equals the one with most of its words; None without one."""
        wanted = words_of(insight)
        if not wanted.tokens or not wanted.facts <= self._tokens:
            return None
        least = _FOUND_WITH_FACTS if wanted.facts else _FOUND_WITHOUT
        for size in range(1, min(len(self.sentences), _WINDOW + len(split_sentences(insight)) - 1) + 1):
            passages = [self._at(first, size, wanted) for first in range(len(self.sentences) - size + 1)]
            good = (passage for passage in passages if passage is not None and passage.share >= least)
            best = max(good, key=lambda passage: passage.share, default=None)
            if best is not None:
                return best
        return None

    def _at(self, first: int, size: int, wanted: Words) -> Found | None:
        window = self._words[first : first + size]
        if not all(any(fact in words.tokens for words in window) for fact in wanted.facts):
            return None
        shared = sum(any(root in words.roots for words in window) for root in wanted.roots)
        return Found(first, first + size - 1, shared / len(wanted.roots) if wanted.roots else 1.0)


def text_of(document: str) -> Text:
    """The sentences of a document, without its speakers."""
    lines = document.splitlines()
    return Text([sentence for line in lines for sentence in split_sentences(line[len(speaker_of(line)) :])])


def overlapping_subtopics(given: Given) -> dict[str, list[list[int]]]:
    """Pairs of subtopics of which one shares at least half of its words with the other; words of the topic are ignored."""
    topic = words_of(given.words("topic", "")).roots
    numbered = [(number, words_of(text).roots - topic) for number, text in given.numbered("subtopics")]
    pairs = combinations(numbered, 2)
    return {"overlaps": [[one, other] for (one, a), (other, b) in pairs if _contained(a, b) >= _SAME_SUBTOPIC]}


def _contained(one: frozenset[str], other: frozenset[str]) -> float:
    smaller = min(len(one), len(other))
    return len(one & other) / smaller if smaller else 0.0


def duplicate_insights(given: Given) -> dict[str, list[list[int]]]:
    """Pairs of insights of which one has all numbers and names of the other, and which share most of their words."""
    numbered = [(number, words_of(text)) for number, text in given.numbered("insights")]
    return {"duplicates": [[one, other] for (one, a), (other, b) in combinations(numbered, 2) if _same(a, b)]}


def _same(one: Words, other: Words) -> bool:
    facts = one.facts <= other.tokens or other.facts <= one.tokens
    return facts and _contained(one.roots, other.roots) >= _SAME_INSIGHT


def assign_subtopic(given: Given) -> dict[str, int | None]:
    """The subtopic that shares most words with the insight, weighted by rarity; None if no subtopic shares any."""
    subtopics = [(number, words_of(text).roots) for number, text in given.numbered("subtopics")]
    return {"subtopic": _nearest(words_of(given.text("insight")).roots, subtopics)}


def _nearest(roots: frozenset[str], subtopics: Sequence[tuple[int, frozenset[str]]]) -> int | None:
    frequency = Counter(root for _, own in subtopics for root in own)
    best, most = None, 0.0
    for number, own in subtopics:
        # Sorted, so that the sum is the same on every machine.
        shared = sum(math.log(1 + len(subtopics) / frequency[root]) for root in sorted(roots & own))
        if shared > most:
            best, most = number, shared
    return best


def query_leaks(given: Given) -> dict[str, list[int]]:
    """Insights of which the query has a number or a name, or most other words, apart from those of its subtopic."""
    query, theme = words_of(given.text("query")), words_of(given.text("subtopic"))
    leaked = []
    for number, text in given.numbered("insights"):
        insight = words_of(text)
        facts, roots = insight.facts - theme.tokens, insight.roots - theme.roots
        if facts & query.tokens or (roots and len(roots & query.roots) >= _LEAKED * len(roots)):
            leaked.append(number)
    return {"leaked": leaked}


def chapter_check(given: Given) -> dict[str, int | None]:
    """The insight that the chapter has most words of, among those that it states; None if it states none."""
    text = text_of(given.text("chapter"))
    best, most = None, 0.0
    for number, insight in given.numbered("insights"):
        match = text.find(insight)
        if match is not None and match.share > most:
            best, most = number, match.share
    return {"insight": best}


def insights_present(given: Given) -> dict[str, list[dict[str, object]]]:
    """Each insight that the document states, with the sentences that do."""
    text = text_of(given.text("document"))
    present: list[dict[str, object]] = []
    for number, insight in given.numbered("insights"):
        match = text.find(insight)
        if match is not None:
            present.append({"id": number, "evidence": " ".join(text.sentences[match.first : match.last + 1])})
    return {"present": present}
