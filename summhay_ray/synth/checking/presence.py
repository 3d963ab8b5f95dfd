"""Finds offline which of a topic's insights a text contains (appendix A.1.3).

Windows of one to three neighbouring sentences are searched for an insight. Two things count: the share of its words in the
window, weighted by their rarity among the topic's insights, and the presence of its numbers, dates and names. The table compares
the results with `insights_included` of the two released haystacks and of the two samples. Figures are in percent of all pairs of
a document and an insight of its topic. A language model wrote and checked the released lists. "people" is Table 5 of the paper:

| haystack     | pairs | accuracy | precision | recall |   F1 | not sure | among the sure: accuracy | precision | recall |
|--------------|------:|---------:|----------:|-------:|-----:|---------:|-------------------------:|----------:|-------:|
| news 1       |  6500 |     98.4 |      93.4 |   90.5 | 91.9 |     17.9 |                     99.9 |     100.0 |   92.2 |
| news 2       |  7200 |     98.0 |      99.1 |   80.0 | 88.5 |     14.5 |                     99.1 |     100.0 |   84.9 |
| both         | 13700 |     98.2 |      96.0 |   85.2 | 90.3 |     16.1 |                     99.5 |     100.0 |   85.7 |
| samples      |  1408 |     99.5 |     100.0 |   97.5 | 98.7 |     18.8 |                    100.0 |     100.0 |  100.0 |
| people       |   155 |     96.8 |     100.0 |   90.9 | 95.2 |          |                          |           |        |

In news 2, 139 insights are missed. Of these, 58 are surely not found, because their words or numbers are missing. In most of two
dozen that were read, the document states only part of the insight, or something similar. A text that reverses an insight's verb,
denies it or swaps two of its numbers has all its words. So an insight is surely found only if nearly all of its words occur and
nothing is denied.
"""

import functools
import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from summhay_ray.synth.checking.words import Reading, quoted, read
from summhay_ray.synth.making.kinds import Finding
from summhay_ray.text import plain_numeral, sentences

LEAST = 0.48
"""Minimum recall of an insight's words, in a window that also has its numbers, for the insight to be found."""

SURE_NOT, SURE = 0.26, 0.97
"""Below the recall `SURE_NOT`, an insight is surely not found. From `SURE` on it is surely found, if every number and name occurs
and nothing is denied."""

WINDOW_WORTH = (1.0, 0.95, 0.9)
"""Factors on the recall in one, two and three sentences, since longer windows have more words by chance."""

_NUMBER_WEIGHT = 1.5
"""Weight of a number, relative to a word of the same rarity."""
_RARE_SHARE = 0.1
"""Maximum share of the topic's insights in which a rare number or name occurs. A more frequent one (Demon 170, SVB) belongs to
the topic."""

_MAY_MISS = 1 / 3
"""Maximum share of an insight's rare numbers and names that a text may lack."""
_RIVAL, _TWIN = 0.4, 0.6
"""Minimum shares of common words. From the first on, two insights are rivals, which numbers and names must distinguish. From the
second on they are twins, which words must distinguish if numbers and names do not."""

_DENIED = re.compile(
    r"\b(?:not|never|no|nobody|none|neither|nor|without|den(?:y|ies|ied|ial)|refus\w+|untrue|false|wrong\w*|reject\w*|disput\w*"
    r"|fail\w*|unlikely|hardly|cannot)\b|n[’']t\b|\?",
    re.IGNORECASE,
)
"""Matches signs of a denial or a question. Such a text may have all words of an insight without stating it."""

_LEAST_FACTS = 5
"""Minimum number of words and numbers. Those of an insight with fewer may occur together by chance ("It cost $5.")."""

_LACKING, _OTHER_SIDE = 0.45, 0.1
"""Maximum scores. The first is for a text without some numbers or names of an insight. The second is for a text that lacks the
difference between the insight and its rivals."""

_ABOUT = 0.1
"""Minimum recall of an insight's words in evidence for the insight."""

_MONTH, _YEAR = re.compile(r"month:\d+"), re.compile(r"(?:1\d|20)\d\d")
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Sought:
    """An insight to search for. Each of its words, numbers and names is a bit; the integers here are sets of bits."""

    weights: tuple[float, ...]
    """Weight of each bit. The weights add up to 1. Names weigh 0, since their words already count."""
    numbers: int
    """The insight's numbers and dates."""
    rare: int
    """Numbers and names that few insights of the topic have. A text must have all of the numbers, and two thirds of the numbers
    and names together."""
    distinctive: int
    """Bits that distinguish the insight from its rivals. A text must have all of them."""
    date: int
    """The insight's month and year, if it has both."""
    denies: bool
    """Whether the insight itself denies something."""
    order: tuple[str, ...]
    """The insight's numerals, in order."""
    known: dict[int, float] = field(default_factory=dict, compare=False)
    """A cache of `recall`."""

    def recall(self, mask: int) -> float:
        total = self.known.get(mask)
        if total is None:
            total = sum(weight for bit, weight in enumerate(self.weights) if mask >> bit & 1)
            if len(self.known) < _REMEMBERED:
                self.known[mask] = total
        return total

    def lacks(self, mask: int) -> bool:
        """Whether a text with the bits in `mask` lacks necessary numbers or names."""
        missing = self.rare & ~mask
        necessary = self.distinctive | self.rare & self.numbers
        return bool(necessary & ~mask) or missing.bit_count() > _MAY_MISS * self.rare.bit_count()

    def whole(self, mask: int, evidence: str) -> bool:
        """Whether no number or rare name is missing, the numbers are in order, and nothing is denied or asked."""
        present = [numeral for numeral in _numerals(evidence) if numeral in self.order]
        in_order = present == [numeral for numeral in self.order if numeral in present]
        enough = sum(weight > 0 for weight in self.weights) >= _LEAST_FACTS
        return enough and not (self.rare | self.numbers) & ~mask and in_order and (self.denies or not _DENIED.search(evidence))


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding and its window: the index of the first sentence, and the number of sentences."""

    finding: Finding
    start: int = 0
    size: int = 0


class Presence:
    """An index of a topic's insights, for finding them in texts."""

    def __init__(self, insights: Sequence[str]) -> None:
        readings = [read(insight) for insight in insights]
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._acronyms: dict[str, list[tuple[int, int]]] = {}
        common = Counter(word for reading in readings for word in _facts(reading))
        rivals = _rivals(readings, common)
        self._twins = [(one, two) for one, others in sorted(rivals.items()) for two, twin in others if twin and one < two]
        self._sought = [
            self._index(place, insight, readings, common, rivals.get(place, ())) for place, insight in enumerate(insights)
        ]

    def find(self, text: str) -> list[Finding]:
        """Return one finding per insight, in their order. The evidence of a found insight is the window that states it."""
        listed = sentences(text)
        masks = self._masks(listed)
        found = [self._found(sought, masks.get(place, {}), listed) for place, sought in enumerate(self._sought)]
        for one, two in self._twins:
            first, second = found[one], found[two]
            disjoint = first.start >= second.start + second.size or second.start >= first.start + first.size
            if disjoint or not (first.finding.found and second.finding.found):
                continue
            if first.size != second.size:
                # The longer window has its insight's number only from a neighbouring sentence, which is about something else. So
                # the text does not state that insight.
                longer = one if first.size > second.size else two
                found[longer] = replace(found[longer], finding=Finding(False, False, _LACKING))
            else:
                # "37, not 41 as was written before" mentions both values, but states only one.
                for place in (one, two):
                    found[place] = replace(found[place], finding=replace(found[place].finding, sure=False))
        return [each.finding for each in found]

    def shows(self, place: int, words: str, text: str) -> bool:
        """Whether `words` come from the text and are about the insight, since models confuse insights and invent some.

        The words need not state the whole insight.
        """
        mask = 0
        for held in self._masks(sentences(words)).get(place, {}).values():
            mask |= held
        return self._sought[place].recall(mask) >= _ABOUT and quoted(words, text)

    def _index(
        self, place: int, insight: str, readings: Sequence[Reading], common: Mapping[str, int], rivals: Iterable[tuple[int, bool]]
    ) -> _Sought:
        """Add the insight to the inverted index. `common`: fact -> number of insights with it; `rivals`: (index, whether it is a
        twin)."""
        reading, number = readings[place], len(readings)
        few = max(2, _RARE_SHARE * number)
        bits: dict[str, int] = {}
        weights: list[float] = []
        rare = numbers = 0
        for fact in _facts(reading):
            bits[fact] = len(weights)
            weights.append(math.log(1 + number / common[fact]) * (_NUMBER_WEIGHT if fact.startswith("#") else 1))
            self._postings.setdefault(fact, []).append((place, bits[fact]))
            if fact.startswith("#"):
                numbers |= 1 << bits[fact]
                rare |= 1 << bits[fact] if common[fact] <= few else 0
        for name in dict.fromkeys(reading.names):
            least = min(common[word] for word in name)
            if least > few:
                continue
            rare |= 1 << len(weights)
            # A name is found by the last of its rarest words: "Brandt" for Engineer Ilse Brandt.
            telling = next(word for word in reversed(name) if common[word] == least)
            self._postings.setdefault(f"@{telling}", []).append((place, len(weights)))
            if len(name) == 1 and name[0].isalpha() and 2 <= len(name[0]) <= 5:
                self._acronyms.setdefault(name[0], []).append((place, len(weights)))
            weights.append(0.0)
        distinctive = 0
        for other, twin in rivals:
            theirs = {*_facts(readings[other])}
            values = [value for value in _values(reading) if value not in theirs]
            values += [word for name in reading.names for word in name if word not in theirs]
            for fact in values or [word for word in dict.fromkeys(reading.roots) if word not in theirs and twin]:
                distinctive |= 1 << bits[fact] if fact in bits else 0
        total = sum(weights) or 1.0
        parts = [[f"#{value}" for value in reading.numbers if kind.fullmatch(value)] for kind in (_MONTH, _YEAR)]
        date = sum(1 << bits[part] for part in dict.fromkeys(itertools.chain(*parts))) if all(parts) else 0
        return _Sought(
            weights=tuple(weight / total for weight in weights),
            numbers=numbers,
            rare=rare,
            distinctive=distinctive,
            date=date,
            denies=bool(_DENIED.search(insight)),
            order=_numerals(insight),
        )

    def _masks(self, listed: Sequence[str]) -> dict[int, dict[int, int]]:
        """Return index of an insight -> index of a sentence -> the insight's bits in that sentence, if any."""
        by_place: dict[int, dict[int, int]] = {}
        for at, sentence in enumerate(listed):
            reading = read(sentence)
            held = {
                *reading.roots,
                *_values(reading),
                *(f"#{value}" for value in reading.loose),
                *(f"@{word}" for word in reading.capitals),
            }
            hits = [self._postings[fact] for fact in held if fact in self._postings]
            if self._acronyms:
                initials = "".join(word[0] for word in reading.roots)
                hits += [spots for acronym, spots in self._acronyms.items() if acronym in initials]
            for spots in hits:
                for place, bit in spots:
                    masks = by_place.setdefault(place, {})
                    masks[at] = masks.get(at, 0) | 1 << bit
        return by_place

    def _found(self, sought: _Sought, masks: Mapping[int, int], listed: Sequence[str]) -> _Found:
        everything = 0
        for mask in masks.values():
            everything |= mask
        if sought.recall(everything) < SURE_NOT:
            return _Found(Finding(False, True, _score(sought.recall(everything) * WINDOW_WORTH[-1])))
        lacks, recall, start, size = _best(sought, masks)
        if lacks and sought.distinctive & ~everything:
            # Numbers and names have no synonyms, so a missing one is sure. A missing word may be replaced by a synonym.
            sure = bool(sought.distinctive & (sought.rare | sought.numbers) & ~everything)
            finding = Finding(False, sure, min(_score(recall), _OTHER_SIDE))
        elif lacks:
            finding = Finding(False, recall < LEAST, min(_score(recall), _LACKING))
        else:
            present = recall >= LEAST
            evidence = " ".join(listed[start : start + size]) if present else ""
            held = functools.reduce(operator.or_, (masks.get(at, 0) for at in range(start, start + size)), 0)
            sure = recall < SURE_NOT or (recall >= SURE and sought.whole(held, evidence))
            finding = Finding(present, sure, _score(recall), evidence)
        return _Found(finding, start, size)


def _numerals(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(plain_numeral, _NUMERAL.findall(text))))


def _best(sought: _Sought, masks: Mapping[int, int]) -> tuple[bool, float, int, int]:
    """Return the best window: whether it lacks a number or name, its recall, the index of its first sentence, and its size."""
    best = (True, 0.0, 0, 1)
    for start in sorted(masks):
        mask, dated = 0, False
        for size, worth in enumerate(WINDOW_WORTH, 1):
            added = masks.get(start + size - 1, 0)
            dated = dated or not sought.date & ~added
            if added | mask == mask:
                continue
            mask |= added
            # If a name is missing and no single sentence has the date, the window is about something else.
            elsewhere = bool(sought.date) and not dated and bool(sought.rare & ~sought.numbers & ~mask)
            here = (sought.lacks(mask) or elsewhere, sought.recall(mask) * worth, start, size)
            if (not here[0], here[1]) > (not best[0], best[1]):
                best = here
    return best


def _score(recall: float) -> float:
    """Return the score of a recall: 0.5 at LEAST, 1 for a recall of 1."""
    if recall < LEAST:
        return min(round(0.5 * recall / LEAST, 4), 0.4999)
    return round(min(0.5 + 0.5 * (recall - LEAST) / (1 - LEAST), 1.0), 4)


def _values(reading: Reading) -> list[str]:
    return sorted(f"#{value}" for value in reading.numbers)


def _facts(reading: Reading) -> list[str]:
    return [*dict.fromkeys(reading.roots), *_values(reading)]


def _rivals(readings: Sequence[Reading], common: Mapping[str, int]) -> dict[int, list[tuple[int, bool]]]:
    """Return index of an insight -> its rivals, such as the other side of a conflict, as (index, whether it is a twin)."""
    weight = {fact: math.log(1 + len(readings) / count) for fact, count in common.items()}
    kept = [frozenset(_facts(reading)) for reading in readings]
    twins: dict[int, list[tuple[int, bool]]] = {}
    totals = [sum(weight[fact] for fact in sorted(facts)) for facts in kept]
    for one in range(len(kept)):
        for two in range(one + 1, len(kept)):
            shared = sum(weight[fact] for fact in sorted(kept[one] & kept[two]))
            dice = 2 * shared / ((totals[one] + totals[two]) or 1.0)
            if dice > _RIVAL:
                twins.setdefault(one, []).append((two, dice > _TWIN))
                twins.setdefault(two, []).append((one, dice > _TWIN))
    return twins
