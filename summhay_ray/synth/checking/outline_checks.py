"""The offline checks of an outline (appendices A.1.1 and A.1.2).

Each check returns a finding with a `score`, which is 0.5 at the threshold. Between two further bounds, the finding is unsure. The
table gives results on the two released haystacks (news 1 and news 2), whose outlines a language model checked; the figures of
people are from Table 4 of the paper:

| check        | of           | found | not sure | right                                                  |
|--------------|-------------:|------:|---------:|--------------------------------------------------------|
| overlap      |    72 pairs  |     0 |       72 | "distinct" is never sure: other words may say the same |
| same_insight |  4636 pairs  |     0 |        4 |                                                        |
| leak         |   137 pairs  |     0 |        0 |                                                        |
| assigned     | 137 insights |       |      117 | 75.4 % and 63.9 %; 20 of 20 where sure; people 91.0 %  |
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence

from summhay_ray.synth.checking.words import Reading, read
from summhay_ray.synth.making.kinds import Finding
from summhay_ray.text import FUNCTION_WORDS, plain_words, read_statement, sentences

ENGLISH = "English"
"""The language in which the offline checks recognize numbers, names and endings. In other languages, only a clear "not found" is
sure."""

OVERLAP = (-1.0, 0.5, 0.8)
"""Thresholds on the share of words that two subtopics have in common. They are surely distinct up to the first threshold, overlap
from the second on, and surely overlap from the third on. The first is negative, so that "distinct" is never sure: other words may
mean the same."""

SAME = (0.45, 0.65, 0.8)
"""Thresholds, as in OVERLAP, on the share of words that two insights have in common."""

SIDES = 0.3
"""Minimum share of the shorter insight's words that the two sides of a conflict have in common."""

NAMED, NAMING = 0.7, 4
"""A sentence names a document if it has at least the share `NAMED` of the headline's words, and the headline has at least
`NAMING` words."""

LEAK = (0.2, 0.3, 0.5)
"""Thresholds, as in OVERLAP, on the share of an insight's own words that a query reveals. Words of the subtopic do not count."""

ASSIGNED_BY = 0.56
"""Minimum relative margin of a sure assignment over the next subtopic: (best - second) / best."""

ASSIGNED_WITH = 0.15
"""Minimum weight of an insight's words that a sure assignment shares with the subtopic."""

_ACRONYM = 5
"""Maximum letters of a one-word name that may be an acronym. Roots are no longer than this."""

_TELLING = """
    discuss describe explain mention say tell talk report topic subtopic insight aspect theme various different regarding
    concern detail information specific
"""
_OF_ASKING = frozenset(read(_TELLING).roots)
"""Roots that occur in subtopics, insights and queries about any subject."""


def is_english(language: str) -> bool:
    """Whether the offline checks can handle a domain's language: English, British English, en-GB."""
    words = language.lower().replace("_", "-").split()
    return ENGLISH.lower() in words or any(word == "en" or word.startswith("en-") for word in words)


def specific(text: str) -> Finding:
    """Find out whether an insight mentions a number, a date or a name (section 3.2). The evidence is the insight.

    A capitalized first word is surely not a name if it looks like a plural or is a function word.
    """
    reading = read(text)
    if reading.numbers or reading.names:
        return Finding(True, True, 1.0, text)
    first, second, *_ = [*text.split(), "", ""]
    opens = first[:1].isupper() and first.lower() not in FUNCTION_WORDS
    # The capital of the first word proves nothing, but a following verb in -s does: `Corvane pays`.
    followed = second.endswith("s") or second in ("has", "is", "was", "will", "had", "would")
    if opens and followed and first.isalpha() and not first.endswith(("s", "ing", ",")):
        return Finding(True, False, 0.6, text)
    # Names in scripts without capitals cannot be recognized.
    cased = any(letter.isupper() or letter.islower() for letter in text)
    sure = cased and not (opens and not first.endswith(("s", "ing", "tion", "ment", "ity")))
    return Finding(False, sure, 0.0 if sure else 0.4)


def overlap(one: str, other: str, topic: str = "") -> Finding:
    """Find out whether two subtopics are the same or overlap. The words of their topic are ignored."""
    if same_text(one, other):
        return Finding(True, True, 1.0, f"{one} | {other}")
    left, right = (frozenset(read(text).roots) - _OF_ASKING - frozenset(read(topic).roots) for text in (one, other))
    shared, least = left & right, min(len(left), len(right))
    if not least:
        return Finding(False, False, 0.4)
    dice = 2 * len(shared) / (len(left) + len(right))
    return _finding((dice + len(shared) / least) / 2, OVERLAP, f"{one} | {other}")


def same_insight(one: str, other: str) -> Finding:
    """Find out whether two insights mean the same. They do not if each has a number or name that the other lacks."""
    if same_text(one, other):
        return Finding(True, True, 1.0, f"{one} | {other}")
    mine, theirs = _facts_of(one), _facts_of(other)
    if not mine or not theirs:
        return Finding(False, False, 0.4)
    dice = 2 * len(mine & theirs) / (len(mine) + len(theirs))
    finding = _finding(dice, SAME, f"{one} | {other}")
    if dice <= SAME[0]:
        return finding
    left, right = read(one), read(other)
    differ = _values(left) - _values(right) - _loose(right), _values(right) - _values(left) - _loose(left)
    if all(differ):
        return Finding(False, sum(map(len, differ)) > 2 or finding.score < 0.5, min(finding.score, 0.45))
    return finding


def other_side(one: str, other: str) -> Finding:
    """Find out whether two insights conflict.

    They conflict if they answer the same question, and if each has numbers or names that the other lacks (words, if neither has
    any). Evidence: the parts that only one of them has.
    """
    left, right = read(one), read(other)
    mine, theirs = _values(left), _values(right)
    if not mine and not theirs:
        mine, theirs = frozenset(left.roots), frozenset(right.roots)
    differ = mine - theirs - _loose(right), theirs - mine - _loose(left)
    shared = _facts(left) & _facts(right)
    share = len(shared) / (min(len(_facts(left)), len(_facts(right))) or 1)
    opposed = all(differ) and share >= SIDES
    evidence = " | ".join(" ".join(sorted(word.lstrip("#") for word in only)) for only in differ)
    return Finding(opposed, True, round(share if all(differ) else 0.0, 4), evidence if opposed else "")


def assigned(insight: str, subtopics: Sequence[str], others: Sequence[Sequence[str]] = ()) -> tuple[int | None, Finding]:
    """Return the index of the subtopic to which an insight seems to belong, and the finding. The index is None if its words match
    no subtopic. `others`: for each subtopic, the insights known to belong to it, without the one to assign."""
    reading = frozenset(read(insight).roots)
    shown = [frozenset(read(text).roots) - _OF_ASKING for text in subtopics]
    known = [[frozenset(read(text).roots) for text in texts] for texts in others] or [[] for _ in subtopics]
    count = Counter(word for roots, more in zip(shown, known, strict=True) for word in roots.union(*more))
    rarity = {word: math.log((1 + len(shown)) / number) for word, number in count.items()}
    # The weight of the words shared with the subtopic, or with its other insights (multiplied by the share of these that have the
    # word).
    scores = []
    for roots, more in zip(shown, known, strict=True):
        near = 0.0
        for word in sorted(reading - roots):
            near += rarity.get(word, 0.0) * sum(word in other for other in more) / (1 + len(more))
        scores.append(sum(rarity[word] for word in sorted(reading & roots)) + near)
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    if not order or scores[order[0]] <= 0:
        return None, Finding(False, False, 0.0)
    best, second = scores[order[0]], scores[order[1]] if len(order) > 1 else 0.0
    margin = (best - second) / best
    strength = best / sum(rarity.get(word, math.log(1 + len(shown))) for word in sorted(reading))
    sure = bool(others) and margin >= ASSIGNED_BY and strength >= ASSIGNED_WITH
    return order[0], Finding(True, sure, round(0.5 + 0.5 * margin, 4), subtopics[order[0]])


def leak(query: str, insight: str, subtopic: str) -> Finding:
    """Find out whether a query reveals an insight of its subtopic. Evidence: the query."""
    query_reading, insight_reading = read(query), read(insight)
    own = _facts(insight_reading) - _facts(read(subtopic)) - _OF_ASKING
    if not own:
        return Finding(False, False, 0.4)
    offered = _facts(query_reading) | _loose(query_reading)
    values = _values(insight_reading)
    weight = {fact: 2.0 if fact in values else 1.0 for fact in own}
    share = sum(weight[fact] for fact in sorted(own & offered)) / sum(weight.values())
    numbers = {fact for fact in own & offered if fact.startswith("#")}
    bounds = (0.0, *LEAK[1:]) if numbers else LEAK
    return _finding(share, bounds, query)


def holds_facts(text: str, insight: str) -> bool:
    """Whether the text has every number, date and name of the insight."""
    reading = read(text)
    return _values(read(insight)) <= _facts(reading) | _values(reading) | _loose(reading)


def lacks_a_fact(text: str, insight: str) -> bool:
    """Whether a number, date or whole name of the insight is missing from the text. A name may occur as its initials."""
    own, there = read(insight), read(text)
    initials = "".join(word[0] for word in there.roots)
    words = there.capitals.union(there.roots)

    def has(name: tuple[str, ...]) -> bool:
        acronym = len(name) == 1 and name[0].isalpha() and len(name[0]) <= _ACRONYM and name[0] in initials
        return acronym or not words.isdisjoint(name) or "".join(word[0] for word in name) in words

    return bool(own.numbers - there.numbers - there.loose) or not all(map(has, own.names))


def same_text(one: str, other: str) -> bool:
    """Whether two texts have the same words in the same order. Punctuation and capitals do not count."""
    left, right = plain_words(one), plain_words(other)
    return left == right if left or right else one.strip() == other.strip()


def refers(texts: tuple[str, str], date: str, headline: str, topic: str) -> Finding:
    """Find out whether a document refers to another one by its date or its headline. Evidence: the words that refer to it.

    `texts`: the whole text, which is searched for the date (ISO; with the same year or none), and its sentences without insights.
    One of these sentences must have most of the headline's words that are not in the topic.
    """
    named = _day(texts[0], date)
    if named:
        return Finding(True, True, 1.0, named)
    words = frozenset(read(headline).roots) - frozenset(read(topic).roots)
    shares = (
        [(len(words & frozenset(read(sentence).roots)) / len(words), sentence) for sentence in sentences(texts[1])]
        if len(words) >= NAMING
        else []
    )
    share, sentence = max(shares, key=lambda each: each[0], default=(0.0, ""))
    return Finding(share >= NAMED, True, round(share, 4), sentence if share >= NAMED else "")


def _day(text: str, date: str) -> str:
    """Return the words by which a text names the day (ISO), with or without its year; else an empty string."""
    if date:
        year, month, day = map(int, date.split("-"))
        for fact in (fact for sentence in sentences(text) for fact in read_statement(sentence).facts):
            for its_year, its_month, days, _ in fact.days:
                if its_year in (None, year) and (its_month, days) == (month, (day, day)):
                    return fact.words
    return ""


@functools.lru_cache(maxsize=4096)
def _facts_of(text: str) -> frozenset[str]:
    return _facts(read(text))


def _finding(share: float, bounds: tuple[float, float, float], evidence: str) -> Finding:
    low, least, high = bounds
    same = share >= least
    score = min(0.5 + 0.5 * (share - least) / (1 - least), 1.0) if same else min(0.5 * share / least, 0.4999)
    return Finding(same, share <= low or share >= high, round(score, 4), evidence if same else "")


def _values(reading: Reading) -> frozenset[str]:
    return frozenset(f"#{value}" for value in reading.numbers) | frozenset(word for name in reading.names for word in name)


def _loose(reading: Reading) -> frozenset[str]:
    return frozenset(f"#{value}" for value in reading.loose)


def _facts(reading: Reading) -> frozenset[str]:
    return frozenset(reading.roots) | frozenset(f"#{value}" for value in reading.numbers)
