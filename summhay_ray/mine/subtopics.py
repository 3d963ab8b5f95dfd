"""Part of the mine room: groups insights into subtopics, and asks for each without giving its insights away."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from summhay_ray.synth import leak, read_words

LARGEST = 12
"""Most insights of a subtopic: a summary has a bullet for each."""
_COMMON = 0.5
"""A word in more of the insights than this is the topic's, and tells no subtopic from another."""
_WORD = re.compile(r"[^\W\d_](?:[^\W_]|[-’'](?=[^\W\d_]))*")
_ENDINGS = ("ing", "ed", "ly", "ant", "ive", "ous")
"""Endings of words that name no subject, mostly."""
OTHERS = "other subjects"


@dataclass(frozen=True, slots=True)
class Grouped:
    """A subtopic: its text, its query, and the places of its insights."""

    text: str
    query: str
    places: tuple[int, ...]


def group_insights(insights: Sequence[str], topic: str) -> list[Grouped]:
    """Subtopics of insights that share a word, the largest first; those that share none are asked for together."""
    words = [_words(text) for text in insights]
    common = Counter(root for found in words for root in found)
    shown = _shown(words)
    usable = {root for root, n in common.items() if 2 <= n <= max(2, _COMMON * len(insights))}
    left = dict.fromkeys(range(len(insights)))
    holders: dict[str, list[int]] = {}
    for place, found in enumerate(words):
        for root in found.keys() & usable:
            holders.setdefault(root, []).append(place)
    counts = Counter({root: len(places) for root, places in holders.items()})
    order = {root: -number for number, root in enumerate(sorted(counts))}

    def worth(root: str) -> tuple[int, int, int]:
        return -min(counts[root], LARGEST), common[root], order[root]

    # What is left of a word only shrinks, so a word that is first with its present worth is the best one.
    waiting = [(worth(root), root) for root in counts]
    heapq.heapify(waiting)
    grouped: list[tuple[str, list[int]]] = []
    while waiting:
        known, root = heapq.heappop(waiting)
        if counts[root] < 2:
            continue
        if worth(root) != known:
            heapq.heappush(waiting, (worth(root), root))
            continue
        places = [place for place in holders[root] if place in left][:LARGEST]
        second = Counter(other for place in places for other in words[place] if other in usable and other != root)
        more = [other for other, n in second.most_common(1) if 2 * n >= len(places)]
        grouped.append((" and ".join(shown[one] for one in (root, *more)), places))
        for place in places:
            del left[place]
            counts.subtract(words[place].keys() & usable)
        heapq.heappush(waiting, (worth(root), root))
    rest = [*left]
    grouped += [(OTHERS, rest[begin : begin + LARGEST]) for begin in range(0, len(rest), LARGEST)]
    used: Counter[str] = Counter()
    asked = []
    for number, (name, places) in enumerate(grouped, start=1):
        group = _asked(name, places, insights, topic, number)
        used[group.text] += 1
        if (again := used[group.text]) > 1:
            text = f"{group.text}, part {again}"
            group = Grouped(text, f"What do the documents say about {text}?", group.places)
        asked.append(group)
    return asked


def _asked(name: str, places: Sequence[int], insights: Sequence[str], topic: str, number: int) -> Grouped:
    """The subtopic with the first of its wordings that gives none of its insights away."""
    for text in (name, name.split(" and ")[0], f"part {number} of what the documents report"):
        query = f"What do the documents say about {text}?"
        if not any(leak(query, insights[place], topic).found for place in places):
            break
    return Grouped(text, query, tuple(places))


def _words(text: str) -> dict[str, str]:
    """Root -> the word, for the words of a text that carry a subject; names of one letter and numbers do not."""
    found: dict[str, str] = {}
    for word in _WORD.findall(text):
        roots = read_words(word.lower()).roots
        if len(word) > 3 and roots and not word.endswith(_ENDINGS):
            found.setdefault(roots[0], word)
    return found


def _shown(words: Sequence[dict[str, str]]) -> dict[str, str]:
    """Root -> its commonest spelling."""
    spelled: dict[str, Counter[str]] = {}
    for found in words:
        for root, word in found.items():
            spelled.setdefault(root, Counter())[word] += 1
    return {root: max(counts.items(), key=lambda item: (item[1], item[0]))[0] for root, counts in spelled.items()}
