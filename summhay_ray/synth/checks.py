"""Part of the synth room, for the room alone: what is checked of an outline offline (appendices A.1.1 and A.1.2).

Each check gives a verdict whose `score` is 0.5 at the decision; between its two bounds it is not sure. On the two released
haystacks, whose outlines were checked by a language model (news 1 and news 2; people: Table 4 of the paper):

| check        | of           | found | not sure | right                                                  |
|--------------|-------------:|------:|---------:|--------------------------------------------------------|
| overlap      |    72 pairs  |     0 |       72 | never sure to be apart: other words may say the same   |
| same_insight |  4636 pairs  |     0 |        3 |                                                        |
| leak         |   137 pairs  |     0 |        0 |                                                        |
| assigned     | 137 insights |       |      113 | 75.4 % and 63.9 %; 24 of 24 where sure; people 91.0 %  |
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from summhay_ray.synth.kinds import Verdict
from summhay_ray.synth.words import Reading, read
from summhay_ray.text import FUNCTION_WORDS, MONTHS, plain_words, sentences

ENGLISH = "English"
"""The language whose numbers, names and endings the offline checks know: of a text in another one they are sure only of a
verdict that nothing speaks for."""

OVERLAP = (-1.0, 0.5, 0.8)
"""Share of two subtopics' words that they have in common: at most the first: surely apart (never: two may be one in other
words); from the second on: one; from the third on: surely."""

SAME = (0.45, 0.65, 0.8)
"""The same of two insights."""

SIDES = 0.3
"""Share of the shorter one's words that the two sides of a conflict have in common, at least."""

NAMED, NAMING = 0.7, 4
"""Share of a headline's words that a sentence must have to name it, and how many that must be at least."""

LEAK = (0.2, 0.3, 0.5)
"""Share of an insight's own words, those that its subtopic does not have, that a query gives away."""

ASSIGNED_BY = 0.5
"""Share of its nearness by which a subtopic must be nearer than the next one for the assignment to be sure."""

ASSIGNED_WITH = 0.15
"""Share of the insight that must be in the subtopic's words for the assignment to be sure."""

_TELLING = """
    discuss describe explain mention say tell talk report topic subtopic insight aspect theme various different regarding
    concern detail information specific
"""
_OF_ASKING = frozenset(read(_TELLING).roots)
"""Roots that subtopics, insights and queries share whatever they are about."""


def is_english(language: str) -> bool:
    """Whether a domain's language is one that the offline checks read: English, British English, en-GB."""
    words = language.lower().replace("_", "-").split()
    return ENGLISH.lower() in words or any(word == "en" or word.startswith("en-") for word in words)


def specific(text: str) -> Verdict:
    """Whether an insight mentions a number, a date or a name (section 3.2). Evidence: the insight.

    Of a word that opens the sentence nobody can say whether it is a name: it surely is none where it looks like a plural, or like
    a function word.
    """
    reading = read(text)
    if reading.numbers or reading.names:
        return Verdict(True, True, 1.0, text)
    words = text.split()
    if len(words) > 1 and _may_be_a_name(words[0], words[1]):
        return Verdict(True, False, 0.6, text)
    # Scripts without capitals hide their names.
    cased = any(letter.isupper() or letter.islower() for letter in text)
    sure = cased and not (words and _opens_like_a_name(words[0]))
    return Verdict(False, sure, 0.0 if sure else 0.4)


def overlap(one: str, other: str, topic: str = "") -> Verdict:
    """Whether two subtopics are the same or overlap. The words of their topic count nothing."""
    if _same(one, other):
        return Verdict(True, True, 1.0, f"{one} | {other}")
    left, right = (frozenset(read(text).roots) - _OF_ASKING - frozenset(read(topic).roots) for text in (one, other))
    shared, least = left & right, min(len(left), len(right))
    if not least:
        return Verdict(False, False, 0.4)
    dice = 2 * len(shared) / (len(left) + len(right))
    return _verdict((dice + len(shared) / least) / 2, OVERLAP, f"{one} | {other}")


def same_insight(one: str, other: str) -> Verdict:
    """Whether two insights say the same. Where a number or a name differs they do not, for all that their words are the same."""
    if _same(one, other):
        return Verdict(True, True, 1.0, f"{one} | {other}")
    mine, theirs = _facts_of(one), _facts_of(other)
    if not mine or not theirs:
        return Verdict(False, False, 0.4)
    dice = 2 * len(mine & theirs) / (len(mine) + len(theirs))
    verdict = _verdict(dice, SAME, f"{one} | {other}")
    if dice <= SAME[0]:
        return verdict
    left, right = read(one), read(other)
    differ = _values(left) - _values(right) - _loose(right), _values(right) - _values(left) - _loose(left)
    if all(differ):
        return Verdict(False, sum(map(len, differ)) > 2 or verdict.score < 0.5, min(verdict.score, 0.45))
    return verdict


def other_side(one: str, other: str) -> Verdict:
    """Whether two insights answer the same question otherwise: about the same, with numbers or names that only one of them has.

    Where neither has a number or a name that can be read, other words must do. Evidence: what only each of them has.
    """
    left, right = read(one), read(other)
    mine, theirs = _values(left), _values(right)
    if not mine and not theirs:
        mine, theirs = frozenset(left.roots), frozenset(right.roots)
    differ = mine - theirs - _loose(right), theirs - mine - _loose(left)
    shared = _facts(left) & _facts(right)
    share = len(shared) / (min(len(_facts(left)), len(_facts(right))) or 1)
    found = all(differ) and share >= SIDES
    evidence = " | ".join(" ".join(sorted(word.lstrip("#") for word in only)) for only in differ)
    return Verdict(found, True, round(share if all(differ) else 0.0, 4), evidence if found else "")


def assigned(insight: str, subtopics: Sequence[str], others: Sequence[Sequence[str]] = ()) -> tuple[int | None, Verdict]:
    """The place of the subtopic that an insight belongs to, blind; None where it belongs to none.

    `others`: for each subtopic the insights that are known to be of it, without the one that is assigned.
    """
    reading = frozenset(read(insight).roots)
    shown = [frozenset(read(text).roots) - _OF_ASKING for text in subtopics]
    known = [[frozenset(read(text).roots) for text in texts] for texts in others] or [[] for _ in subtopics]
    rarity = _rarity([roots.union(*more) for roots, more in zip(shown, known, strict=True)])
    scores = [_affinity(reading, roots, more, rarity) for roots, more in zip(shown, known, strict=True)]
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if not order or scores[order[0]] <= 0:
        return None, Verdict(False, False, 0.0)
    best, second = scores[order[0]], scores[order[1]] if len(order) > 1 else 0.0
    margin = (best - second) / best
    strength = best / sum(rarity.get(word, math.log(1 + len(shown))) for word in sorted(reading))
    sure = bool(others) and margin >= ASSIGNED_BY and strength >= ASSIGNED_WITH
    return order[0], Verdict(True, sure, round(0.5 + 0.5 * margin, 4), subtopics[order[0]])


def leak(query: str, insight: str, subtopic: str) -> Verdict:
    """Whether a query gives an insight of its subtopic away. Evidence: the query."""
    asked, told, about = read(query), read(insight), read(subtopic)
    own = _facts(told) - _facts(about) - _OF_ASKING
    if not own:
        return Verdict(False, False, 0.4)
    offered = _facts(asked) | _loose(asked)
    telling = _values(told)
    weight = {fact: 2.0 if fact in telling else 1.0 for fact in own}
    share = sum(weight[fact] for fact in sorted(own & offered)) / sum(weight.values())
    numbers = {fact for fact in own & offered if fact.startswith("#")}
    bounds = (0.0, *LEAK[1:]) if numbers else LEAK
    return _verdict(share, bounds, query)


def holds_facts(text: str, insight: str) -> bool:
    """Whether every number, date and name of the insight is in the text."""
    held = read(text)
    return _values(read(insight)) <= _facts(held) | _values(held) | _loose(held)


def refers(texts: tuple[str, str], date: str, headline: str, topic: str) -> Verdict:
    """Whether a text names a document by its date (ISO; no other year's), or a sentence of the second text, which is what of
    it carries no insight, by most of what of the headline is not the topic's. Evidence: the words."""
    named = _day(texts[0], date)
    if named:
        return Verdict(True, True, 1.0, named)
    told = frozenset(read(headline).roots) - frozenset(read(topic).roots)
    shares = (
        [(len(told & frozenset(read(one).roots)) / len(told), one) for one in sentences(texts[1])] if len(told) >= NAMING else []
    )
    share, sentence = max(shares, key=lambda each: each[0], default=(0.0, ""))
    return Verdict(share >= NAMED, True, round(share, 4), sentence if share >= NAMED else "")


def _day(text: str, date: str) -> str:
    """Where a text names the day (ISO), with its year or without any, in English or in figures."""
    if not date:
        return ""
    year, month, day = date.split("-")
    name, figures = MONTHS[int(month) - 1], rf"0?{int(day)}[./]0?{int(month)}[./]|0?{int(month)}/0?{int(day)}/"
    months, days = rf"(?:{name}|{name[:3]}\.?)", rf"0?{int(day)}(?:st|nd|rd|th|\.)?"
    spelled = rf"\b(?:{days}(?: of)? {months}|{months} {days})\b(?:,? (?:of )?(?P<year>(?:19|20)\d\d))?"
    for match in re.finditer(rf"{date}|\b(?:{figures})(?:{year}|{year[2:]})\b|{spelled}", text, re.IGNORECASE):
        if match["year"] in (None, year):
            return match[0]
    return ""


@functools.lru_cache(maxsize=4096)
def _facts_of(text: str) -> frozenset[str]:
    return _facts(read(text))


def _same(one: str, other: str) -> bool:
    left, right = plain_words(one), plain_words(other)
    return left == right if left or right else one.strip() == other.strip()


def _verdict(share: float, bounds: tuple[float, float, float], evidence: str) -> Verdict:
    low, least, high = bounds
    found = share >= least
    score = min(0.5 + 0.5 * (share - least) / (1 - least), 1.0) if found else min(0.5 * share / least, 0.4999)
    return Verdict(found, share <= low or share >= high, round(score, 4), evidence if found else "")


def _may_be_a_name(first: str, second: str) -> bool:
    """A capital at the beginning says nothing; `Corvane pays`, without an article and with a verb's s, does."""
    named = first[:1].isupper() and first.lower() not in FUNCTION_WORDS and not first.endswith(("s", "ing", ","))
    return named and (second.endswith("s") or second in ("has", "is", "was", "will", "had", "would")) and first.isalpha()


def _opens_like_a_name(first: str) -> bool:
    return first[:1].isupper() and first.lower() not in FUNCTION_WORDS and not first.endswith(("s", "ing", "tion", "ment", "ity"))


def _values(reading: Reading) -> frozenset[str]:
    return frozenset(f"#{value}" for value in reading.numbers) | frozenset(word for name in reading.names for word in name)


def _loose(reading: Reading) -> frozenset[str]:
    return frozenset(f"#{value}" for value in reading.loose)


def _facts(reading: Reading) -> frozenset[str]:
    return frozenset(reading.roots) | frozenset(f"#{value}" for value in reading.numbers)


def _rarity(shown: Sequence[frozenset[str]]) -> Mapping[str, float]:
    count = Counter(word for roots in shown for word in roots)
    return {word: math.log((1 + len(shown)) / number) for word, number in count.items()}


def _affinity(
    insight: frozenset[str], subtopic: frozenset[str], known: Sequence[frozenset[str]], rarity: Mapping[str, float]
) -> float:
    """How much an insight has of a subtopic's words, and of those of its other insights."""
    named = sum(rarity[word] for word in sorted(insight & subtopic))
    near = 0.0
    for word in sorted(insight - subtopic):
        holders = sum(word in roots for roots in known)
        near += rarity.get(word, 0.0) * holders / (1 + len(known))
    return named + near
