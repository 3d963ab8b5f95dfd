"""Reads the words, numbers, dates and names of a text, which the checks compare.

Numbers are values in a base unit. So 1,025 equals "one thousand twenty-five"; 25 % equals 25 per cent and "twenty-five percent";
and 2 hours equal 120 minutes.
"""

import functools
import re
from dataclasses import dataclass

from summhay_ray.text import Fact, plain_words, read_statement, sentences

_RUN, _QUOTED = 3, 0.7
_JOINED = re.compile(r"\.\.\.|[…;|/\n()\[\]\"“”„«»]")
_LOOSE = {"no": 0, "half": 0.5, "one": 1, "once": 1, "singl": 1, "both": 2, "twice": 2, "coupl": 2, "pair": 2, "doubl": 2}
_LOOSE |= {"tripl": 3, "dozen": 12, "quart": 25, "hundr": 100, "thous": 1000, "milli": 10**6, "billi": 10**9}
"""Root of a word that may mean a number -> the number."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The words, numbers and names of a text.

    `roots`: those of its words and units, in order. `numbers`: decimals in the base unit, times as h:mm, and parts of dates
    (`month:9`, `day:4` for Friday). `loose`: numbers that the text may mean ("both": 2, "third": 3); they can match a number of
    another text, but need no match themselves. `names`: the roots of each name, in order. `capitals`: roots of all capitalized
    words, names or not.
    """

    roots: tuple[str, ...]
    numbers: frozenset[str]
    loose: frozenset[str]
    names: tuple[tuple[str, ...], ...]
    capitals: frozenset[str]


def parts_of(words: str) -> list[str]:
    """Return the parts of a quotation as plain words. Parts of fewer than three words are left out; if no part remains, the whole
    quotation is returned."""
    parts = [" ".join(own) for part in _JOINED.split(words) if len(own := plain_words(part)) >= _RUN]
    return parts or [" ".join(plain_words(words))]


def quoted(words: str, text: str) -> bool:
    """Whether at least 70 % of the quotation's words are in the text.

    A word counts only if it belongs to three consecutive words of a part that are also consecutive in the text. In a part of
    fewer than three words, the whole part must be in the text. Punctuation, and the marks that separate the parts, are ignored.
    """
    whole = f" {' '.join(plain_words(text))} "
    right = total = 0
    for own in map(plain_words, _JOINED.split(words)):
        size = min(_RUN, len(own))
        places: set[int] = set()
        for start in range(len(own) - size + 1) if own else ():
            if f" {' '.join(own[start : start + size])} " in whole:
                places |= set(range(start, start + size))
        right, total = right + len(places), total + len(own)
    return total > 0 and right >= _QUOTED * total


@functools.lru_cache(maxsize=1 << 13)
def read(text: str) -> Reading:
    """Parse the words, numbers, dates and names of a text. Never fails. The last 8,192 texts are cached."""
    numbers, loose, capitals = set[str](), set[str](), set[str]()
    roots, names = list[str](), list[tuple[str, ...]]()
    for statement in map(read_statement, sentences(text)):
        facts = {fact.place: fact for fact in statement.facts}
        place = 0
        while place < len(statement.tokens):
            fact = facts.get(place)
            before, words = statement.tokens[place - 1 : place], statement.tokens[place : fact.end if fact else place + 1]
            place += len(words)
            if fact is None or fact.name:
                own = fact.name if fact else ()
                roots += [word for word in words if word in statement.roots or word in own]
                capitals.update(own)
                loose |= {_plain(_LOOSE[word]) for word in words if word in _LOOSE}
                if fact and (not fact.begins or before in ((",",), ("-",))):
                    names.append(own)
            elif fact.quantity is None:
                first, others = _moments(fact)
                numbers |= first
                loose |= others
            else:
                unit, values = fact.quantity.unit, set(map(_plain, fact.quantity.stated))
                # "Within a week", "first", "both", "the third quarter".
                if words[0] in ("a", "an") or (len(words) == 1 and words[0].isalpha() and (unit == "#" or words[0] in _LOOSE)):
                    loose |= values
                    roots.append(words[-1])
                else:
                    numbers |= values
                    roots += [unit if len(unit) == 1 else words[-1]] if unit not in ("", "#") else []
    return Reading(tuple(roots), frozenset(numbers), frozenset(loose), tuple(names), frozenset(capitals))


def _moments(fact: Fact) -> tuple[set[str], set[str]]:
    """Return the certain numbers of a date or time, and the possible ones: 3/4/2021 is in March or April, 8:15 may be 20:15."""
    if fact.minutes:
        first = min(fact.minutes)
        ways = [{f"{minute // 60}:{minute % 60:02}".removesuffix(":00")} for minute in (first, (first + 720) % 1440)]
    else:
        ways = []
        for year, month, days, weekday in fact.days:
            ways.append({str(number) for number in (year, *(days or ())) if number} | ({f"month:{month}"} if month else set()))
            if weekday is not None and not days:
                ways[-1].add(f"day:{weekday}")
    return ways[0], set().union(*ways[1:])


def _plain(value: float) -> str:
    return format(value, ".12g")
