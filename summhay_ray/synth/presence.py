"""Part of the synth room, for the room alone: which of a topic's insights a text contains, offline (appendix A.1.3).

An insight is looked for in windows of one to three neighbouring sentences: how much of its words a window holds, each by its
rarity among the topic's insights, and whether its numbers, dates and names are there. Measured in percent against
`insights_included` of the two released haystacks (each document and insight of its topic; a language model wrote and checked
those lists), and of the two samples; "people" is Table 5 of the paper:

| haystack     | pairs | accuracy | precision | recall |   F1 | not sure | among the sure: accuracy | precision | recall |
|--------------|------:|---------:|----------:|-------:|-----:|---------:|-------------------------:|----------:|-------:|
| news 1       |  6500 |     98.3 |      93.4 |   90.1 | 91.7 |     12.2 |                     99.9 |     100.0 |   87.0 |
| news 2       |  7200 |     98.0 |      99.6 |   80.0 | 88.7 |      4.9 |                     98.5 |     100.0 |   75.9 |
| both         | 13700 |     98.2 |      96.3 |   85.0 | 90.3 |      8.4 |                     99.1 |     100.0 |   77.2 |
| samples      |  1408 |     99.6 |     100.0 |   97.9 | 98.9 |     19.0 |                    100.0 |     100.0 |  100.0 |
| people       |   155 |     96.8 |     100.0 |   90.9 | 95.2 |          |                          |           |        |

Of the 139 of news 2 that are not found, 102 are surely not: no window has more than 0.36 of their words; of two dozen that were
read, most documents say a part of the insight, or something near it. A text that turns an insight's verb, denies it or exchanges
two of its numbers has its words: what is found is sure only where nearly all of them are there, and nothing is denied.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from summhay_ray.synth.kinds import Verdict
from summhay_ray.synth.words import Reading, canonical, quoted, read
from summhay_ray.text import sentences

LEAST = 0.48
"""Recall of an insight's words in a window, from which on it is found where its numbers are there, too."""

SURE_NOT, SURE = 0.25, 0.97
"""Below the one no model is asked; above the other none is where every number and name is there and nothing is denied."""

WINDOW_WORTH = (1.0, 0.95, 0.9)
"""What a recall in one, two and three neighbouring sentences counts: three hold a word by chance more often."""

_NUMBER_WEIGHT = 1.5
_RARE_SHARE = 0.1
"""What at most so many of the topic's insights have is theirs; what more have (Demon 170, SVB) is the topic's."""

_MAY_MISS = 1 / 3
_RIVAL, _TWIN = 0.4, 0.6
"""Share of two insights' words, from which on their numbers and names, and their words, must tell them apart."""

_DENIED = re.compile(
    r"\b(?:not|never|no|nobody|none|neither|nor|without|den(?:y|ies|ied|ial)|refus\w+|untrue|false|wrong\w*|reject\w*|disput\w*"
    r"|fail\w*|unlikely|hardly|cannot)\b|n[’']t\b|\?",
    re.IGNORECASE,
)
"""A text that denies what it names, or asks whether it is so, may hold all words of an insight."""

_TELLING = 5
"""Words and numbers, below which an insight's words may stand together by chance ("It cost $5.")."""

_LACKING, _OTHER_SIDE = 0.45, 0.1
"""Scores at most where numbers or names are missing, and where they are those of the other side of a conflict."""

_SPEAKS = 0.1
"""Recall of an insight's words that evidence for it must have."""

_MONTH, _YEAR = re.compile(r"month:\d+"), re.compile(r"(?:1\d|20)\d\d")
_NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Sought:
    """One insight as bits: each of its words, numbers and names is one; `weights[bit]` sum up to 1."""

    weights: tuple[float, ...]
    numbers: int
    """Its numbers and dates."""
    rare: int
    """Numbers and names that few insights of the topic have: all numbers must be there, and of both all but a third."""
    own: int
    """What tells it from its rivals: all must be there."""
    date: int
    """Its month and its year, where it has both."""
    denies: bool
    """It denies something itself."""
    order: tuple[str, ...]
    """Its numerals, as they follow each other."""
    known: dict[int, float] = field(default_factory=dict, compare=False)

    def recall(self, mask: int) -> float:
        """The weight of the bits of `mask`, from 0 to 1."""
        found = self.known.get(mask)
        if found is None:
            found = sum(weight for bit, weight in enumerate(self.weights) if mask >> bit & 1)
            if len(self.known) < _REMEMBERED:
                self.known[mask] = found
        return found

    def lacks(self, mask: int) -> bool:
        """Whether numbers or names are missing that the insight is not said without."""
        missing = self.rare & ~mask
        return bool((self.own | self.rare & self.numbers) & ~mask) or missing.bit_count() > _MAY_MISS * self.rare.bit_count()

    def pieced(self, mask: int, dated: bool) -> bool:
        """Whether a name is missing and the date is put together out of several sentences (not `dated`): what others did."""
        return bool(self.date) and not dated and bool(self.rare & ~self.numbers & ~mask)

    def whole(self, mask: int, evidence: str) -> bool:
        """Whether no number and no name is missing, no two numbers changed places, and nothing is denied or asked."""
        told = [numeral for numeral in _numerals(evidence) if numeral in self.order]
        in_order = told == [numeral for numeral in self.order if numeral in told]
        telling = sum(weight > 0 for weight in self.weights) >= _TELLING
        return telling and not (self.rare | self.numbers) & ~mask and in_order and (self.denies or not _DENIED.search(evidence))


class Presence:
    """The insights of a topic, ready to be looked for in texts."""

    def __init__(self, insights: Sequence[str]) -> None:
        readings = [read(insight) for insight in insights]
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._acronyms: dict[str, list[tuple[int, int]]] = {}
        common = Counter(word for reading in readings for word in _facts(reading))
        rivals = _rivals(readings, common)
        self._twins = [(one, two) for one, others in sorted(rivals.items()) for two, twin in others if twin and one < two]
        self._sought = [
            self._indexed(place, insight, readings, common, rivals.get(place, ())) for place, insight in enumerate(insights)
        ]

    def of(self, text: str) -> list[Verdict]:
        """One verdict for each insight, in their order. Found: a window of one to three sentences says it; evidence: these."""
        listed = sentences(text)
        masks = self._masks(listed)
        looked = [self._verdict(sought, masks.get(place, {}), listed) for place, sought in enumerate(self._sought)]
        for one, two in self._twins:
            loser = _stretched(looked[one], looked[two])
            if loser is not None:
                place = (one, two)[loser]
                looked[place] = (Verdict(False, False, _LACKING), *looked[place][1:])
            elif _overlap(looked[one], looked[two]):
                # "37, not 41 as was written before": one of the sides is named, but not said.
                for place in (one, two):
                    looked[place] = (replace(looked[place][0], sure=False), *looked[place][1:])
        return [verdict for verdict, *_ in looked]

    def shows(self, place: int, words: str, text: str) -> bool:
        """Whether somebody's evidence that the text contains an insight is the text's own words, and speaks of that insight.

        Models exchange insights, and name some that are not there; that evidence tells all of the insight is not asked.
        """
        mask = 0
        for held in self._masks(sentences(words)).get(place, {}).values():
            mask |= held
        return self._sought[place].recall(mask) >= _SPEAKS and quoted(words, text)

    def _indexed(
        self, place: int, insight: str, readings: Sequence[Reading], common: Mapping[str, int], rivals: Iterable[tuple[int, bool]]
    ) -> _Sought:
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
            # The last of its rarest words stands for a name: "Brandt" for Engineer Ilse Brandt.
            telling = next(word for word in reversed(name) if common[word] == least)
            self._postings.setdefault(f"@{telling}", []).append((place, len(weights)))
            if len(name) == 1 and name[0].isalpha() and 2 <= len(name[0]) <= 5:
                self._acronyms.setdefault(name[0], []).append((place, len(weights)))
            weights.append(0.0)
        own = 0
        for other, wordy in rivals:
            for fact in _told_apart(reading, readings[other], wordy):
                own |= 1 << bits[fact] if fact in bits else 0
        total = sum(weights) or 1.0
        parts = [[f"#{value}" for value in reading.numbers if kind.fullmatch(value)] for kind in (_MONTH, _YEAR)]
        date = sum(1 << bits[part] for part in dict.fromkeys(itertools.chain(*parts))) if all(parts) else 0
        return _Sought(
            weights=tuple(weight / total for weight in weights),
            numbers=numbers,
            rare=rare,
            own=own,
            date=date,
            denies=bool(_DENIED.search(insight)),
            order=_numerals(insight),
        )

    def _masks(self, listed: Sequence[str]) -> dict[int, dict[int, int]]:
        """By insight: what of it each sentence holds, where it holds anything."""
        found: dict[int, dict[int, int]] = {}
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
                    masks = found.setdefault(place, {})
                    masks[at] = masks.get(at, 0) | 1 << bit
        return found

    def _verdict(self, sought: _Sought, masks: Mapping[int, int], listed: Sequence[str]) -> tuple[Verdict, int, int]:
        """The verdict, and the window that it is about: its first sentence and how many it has."""
        everything = 0
        for mask in masks.values():
            everything |= mask
        if sought.recall(everything) < SURE_NOT:
            return Verdict(False, True, _score(sought.recall(everything) * WINDOW_WORTH[-1])), 0, 0
        lacks, recall, start, size = _best(sought, masks)
        if lacks and sought.own & ~everything:
            # A number or a name has no synonym, as words have.
            sure = bool(sought.own & (sought.rare | sought.numbers) & ~everything)
            verdict = Verdict(False, sure, min(_score(recall), _OTHER_SIDE))
        elif lacks:
            verdict = Verdict(False, recall < LEAST, min(_score(recall), _LACKING))
        else:
            found = recall >= LEAST
            evidence = " ".join(listed[start : start + size]) if found else ""
            sure = recall < SURE_NOT or (recall >= SURE and sought.whole(_held(masks, start, size), evidence))
            verdict = Verdict(found, sure, _score(recall), evidence)
        return verdict, start, size


def _stretched(one: tuple[Verdict, int, int], two: tuple[Verdict, int, int]) -> int | None:
    """Which of two sides of a conflict, both found, has its number from a neighbouring sentence that speaks of something else."""
    if one[2] == two[2] or not _overlap(one, two):
        return None
    return 0 if one[2] > two[2] else 1


def _overlap(one: tuple[Verdict, int, int], two: tuple[Verdict, int, int]) -> bool:
    """Whether both are found, in windows that have a sentence in common."""
    (first, start, size), (second, begin, length) = one, two
    return first.found and second.found and start < begin + length and begin < start + size


def _numerals(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(canonical(numeral) for numeral in _NUMERAL.findall(text)))


def _held(masks: Mapping[int, int], start: int, size: int) -> int:
    """What the sentences of a window hold together."""
    return functools.reduce(operator.or_, (masks.get(at, 0) for at in range(start, start + size)), 0)


def _best(sought: _Sought, masks: Mapping[int, int]) -> tuple[bool, float, int, int]:
    """The best window: whether it lacks a number or name, its recall, its first sentence and how many it has."""
    best = (True, 0.0, 0, 1)
    for start in sorted(masks):
        mask, dated = 0, False
        for size, worth in enumerate(WINDOW_WORTH, 1):
            added = masks.get(start + size - 1, 0)
            dated = dated or not sought.date & ~added
            if added | mask == mask:
                continue
            mask |= added
            here = (sought.lacks(mask) or sought.pieced(mask, dated), sought.recall(mask) * worth, start, size)
            if (not here[0], here[1]) > (not best[0], best[1]):
                best = here
    return best


def _score(recall: float) -> float:
    """0.5 at the decision, 1 where all is there."""
    if recall < LEAST:
        return min(round(0.5 * recall / LEAST, 4), 0.4999)
    return round(min(0.5 + 0.5 * (recall - LEAST) / (1 - LEAST), 1.0), 4)


def _values(reading: Reading) -> list[str]:
    return sorted(f"#{value}" for value in reading.numbers)


def _facts(reading: Reading) -> list[str]:
    return [*dict.fromkeys(reading.roots), *_values(reading)]


def _rivals(readings: Sequence[Reading], common: Mapping[str, int]) -> dict[int, list[tuple[int, bool]]]:
    """By insight: those that say nearly the same (the other side of a conflict), and whether in the same words."""
    weight = {fact: math.log(1 + len(readings) / count) for fact, count in common.items()}
    kept = [frozenset(_facts(reading)) for reading in readings]
    found: dict[int, list[tuple[int, bool]]] = {}
    totals = [sum(weight[fact] for fact in sorted(facts)) for facts in kept]
    for one in range(len(kept)):
        for two in range(one + 1, len(kept)):
            shared = sum(weight[fact] for fact in sorted(kept[one] & kept[two]))
            dice = 2 * shared / ((totals[one] + totals[two]) or 1.0)
            if dice > _RIVAL:
                found.setdefault(one, []).append((two, dice > _TWIN))
                found.setdefault(two, []).append((one, dice > _TWIN))
    return found


def _told_apart(reading: Reading, other: Reading, wordy: bool) -> list[str]:
    """What of a reading tells it from a rival: its numbers and names; its words where these are the same of a twin."""
    theirs = {*_facts(other)}
    values = [value for value in _values(reading) if value not in theirs]
    values += [word for name in reading.names for word in name if word not in theirs]
    return values or [word for word in dict.fromkeys(reading.roots) if word not in theirs and wordy]
