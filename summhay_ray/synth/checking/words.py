"""The words, numbers, dates and names of a text, which the checks compare.

A word is reduced to its normal form: lower case, without an English ending, at most five letters. Numbers are read as values:
1,025, 1 025 and "one thousand and twenty-five" are equal; so are 25 %, 25 per cent and "twenty-five percent". Scripts without
blanks between words are split into characters.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from summhay_ray.text import FUNCTION_WORDS, MONTHS, UNSPACED, plain_numeral, plain_words, root

_TOKEN = re.compile(
    r"(?P<time>(?<![\d:.,])\d{1,2}:\d\d(?![\d:]))"
    r"|(?P<date>(?<![\d-])\d{4}-\d\d-\d\d(?![\d-]))"
    r"|(?P<number>(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,]*\d)|\d+(?:[.,'’]\d+)*)"
    rf"|(?P<wide>[{UNSPACED}])"
    rf"|(?P<word>[^\W\d_{UNSPACED}](?:[^\W_{UNSPACED}]|[&’'](?=[^\W\d_]))*)"
    r"|(?P<sign>[$€£¥%])"
)
_RUN, _QUOTED = 3, 0.7
_JOINED = re.compile(r"\.\.\.|[…;|/\n()\[\]\"“”„«»]")
_OPENS = re.compile(r"(?:^|[.!?:;—\"“‘(\[\n\r*•])\s*$")
_NUMERAL = re.compile(r"\d+(?:\.\d+)?")
_LONGEST_NUMERAL = 30  # Longer tokens are identifiers and have no value.

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
"""
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_DAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = {word: 10 * value for value, word in enumerate(_ROUND.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ATTACHED = {"k": 1000, "bn": 10**9, "mn": 10**6}
_NUMBER_WORDS = frozenset(_UNITS) | frozenset(_TENS) | frozenset(_SCALES)
_LOOSE = {word: str(value) for value, word in enumerate(_ORDINALS.split(), 1)}
_LOOSE |= {"one": "1", "once": "1", "single": "1", "both": "2", "twice": "2", "couple": "2", "pair": "2", "double": "2"}
_LOOSE |= {"triple": "3", "dozen": "12", "half": "0.5"}
_MONTHS = {name.lower(): f"month:{number}" for number, name in enumerate(MONTHS, 1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": "month:9"}
_WORDS_TOO = frozenset({"may", "march", "mar", "dec", "jan", "sep", "jun"})
"""Names of months that are also words or names. They are months only next to a day or a year, or after `in`, `since`, `of`,
..."""

_BEFORE = "in of since until till by early late mid last next this every through"
_BEFORE_A_MONTH = frozenset(_BEFORE.split())
_WEEKDAYS = frozenset(_DAY_NAMES.split())
_SIGNS = {"$": "dolla", "€": "euro", "£": "pound", "¥": "yen", "%": "perce"}
_SAME = {"usd": "dolla", "eur": "euro", "gbp": "pound", "jpy": "yen", "pct": "perce", "cent": "perce"}
_DAY_ENDINGS = frozenset({"st", "nd", "rd", "th"})


@dataclass(frozen=True, slots=True)
class Reading:
    """The words, numbers and names of a text.

    `roots`: of its words, in order. `numbers`: canonical decimals, times as h:mm, and dates (`month:9`, `day:friday`). `loose`:
    numbers that the text may mean ("both": 2, "third": 3); they can match a number of another text, but need no match themselves.
    `names`: the roots of each name, in order. `capitals`: roots of all capitalized words, names or not.
    """

    roots: tuple[str, ...]
    numbers: frozenset[str]
    loose: frozenset[str]
    names: tuple[tuple[str, ...], ...]
    capitals: frozenset[str]


def parts_of(words: str) -> list[str]:
    """The parts of a quotation as plain words, without parts of fewer than three words; the whole quotation if no part
    remains."""
    parts = [" ".join(own) for part in _JOINED.split(words) if len(own := plain_words(part)) >= _RUN]
    return parts or [" ".join(plain_words(words))]


def quoted(words: str, text: str) -> bool:
    """Whether most of the words (70 %) are in the text, in runs of three; a shorter part of a quotation is one run. Punctuation
    and the marks between the parts are ignored."""
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
    """The words, numbers, dates and names of a text. Never fails. The last 8,192 texts are cached."""
    return _Reader(text).reading()


@functools.lru_cache(maxsize=1 << 15)
def normal_form(word: str) -> str:
    """The word in lower case, without the ending of a plural, a past tense or a participle, cut to five letters."""
    word = word[:-1] if len(word) > 2 and word[-1] == "s" and word[:-1].isupper() else word
    plain = word.lower().replace("’", "'").removesuffix("'s")
    return _SAME.get(plain) or root(plain)


def canonical(numeral: str) -> str:
    """The value of a numeral: 1,025 and 1 025 are 1025, 2.50 is 2.5, 1,5 is 1.5. Unchanged if it is not a decimal (1.2.3)."""
    plain = plain_numeral(numeral)
    return _plain(Decimal(plain)) if _NUMERAL.fullmatch(plain) and len(plain) <= _LONGEST_NUMERAL else plain


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    lower: str
    start: int
    end: int


_END = _Token("", "", "", -9, -9)


class _Reader:
    """Reads one text token by token. Each step takes the index of a token and returns the index of the next one to read."""

    def __init__(self, text: str) -> None:
        self._text = unicodedata.normalize("NFC", text)
        self._tokens = [
            _Token(match.lastgroup or "", match.group(), match.group().lower(), match.start(), match.end())
            for match in _TOKEN.finditer(self._text)
        ]
        self._roots: list[str] = []
        self._numbers: set[str] = set()
        self._loose: set[str] = set()

    def reading(self) -> Reading:
        place = 0
        while place < len(self._tokens):
            token = self._tokens[place]
            if token.kind == "number":
                place = self._numeral(place)
            elif token.kind == "word":
                place = self._word(place)
            else:
                if token.kind == "time":
                    clock, minutes = token.text.split(":")
                    hour = int(clock)
                    other = hour - 12 if hour > 12 else hour + 12
                    self._numbers.add(f"{hour}:{minutes}" if minutes != "00" else str(hour))
                    self._loose.add(f"{other}:{minutes}" if minutes != "00" else str(other))
                elif token.kind == "date":
                    year, month, day = token.text.split("-")
                    self._numbers |= {canonical(year), f"month:{int(month)}", _plain(Decimal(day))}
                else:
                    self._roots.append(_SIGNS.get(token.text, token.lower))
                place += 1
        names: list[list[str]] = []
        last = -9
        for place, token in enumerate(self._tokens):
            if not self._is_name(place):
                continue
            if last == place - 1 and self._beside(place):
                names[-1].append(normal_form(token.text))
            else:
                names.append([normal_form(token.text)])
            last = place
        capitals = frozenset(
            normal_form(token.text) for token in self._tokens if token.kind == "word" and token.text[0].isupper()
        )
        return Reading(tuple(self._roots), frozenset(self._numbers), frozenset(self._loose), tuple(map(tuple, names)), capitals)

    def _at(self, place: int) -> _Token:
        return self._tokens[place] if 0 <= place < len(self._tokens) else _END

    def _beside(self, place: int) -> bool:
        """Whether only a blank, a hyphen or both separate the token from the one before it."""
        gap = self._text[self._at(place - 1).end : self._at(place).start] if place > 0 else "."
        return len(gap) <= 2 and not gap.strip(" -\u00a0\u202f\u2011–")

    def _numeral(self, place: int) -> int:
        token, following = self._at(place), self._at(place + 1)
        value = canonical(token.text)
        attached = following.start == token.end
        scale = _SCALES.get(following.lower) if self._beside(place + 1) else None
        if attached and following.kind == "word":
            scale = scale or _ATTACHED.get(following.lower)
            if following.lower == "m" and self._at(place - 1).kind == "sign" and self._beside(place):
                scale = 10**6
        if scale and _NUMERAL.fullmatch(value):
            self._numbers.add(_plain(Decimal(value) * scale))
            return place + 2
        self._numbers.add(value)
        if re.fullmatch(r"\d{1,2}\.[0-5]\d", token.text):
            self._loose.add(token.text.replace(".", ":").removesuffix(":00"))
        return place + 2 if attached and following.lower in _DAY_ENDINGS else place + 1

    def _word(self, place: int) -> int:
        token = self._at(place)
        if token.lower == "half" and self._at(place + 1).lower == "a" and (scale := _SCALES.get(self._at(place + 2).lower)):
            self._numbers.add(_plain(Decimal(scale) / 2))
            return place + 3
        if token.lower in _NUMBER_WORDS and (after := self._number_words(place)):
            return after
        if token.lower in _MONTHS and self._is_month(place):
            self._numbers.add(_MONTHS[token.lower])
        elif token.lower in _WEEKDAYS:
            self._numbers.add(f"day:{token.lower}")
        elif token.lower == "per" and self._at(place + 1).lower == "cent":
            return place + 1
        elif token.lower not in FUNCTION_WORDS:
            self._roots.append(normal_form(token.text))
        if token.lower in _LOOSE:
            self._loose.add(_LOOSE[token.lower])
        if len(token.text) == 2 and re.fullmatch(r"Q[1-4]", token.text):
            self._loose.add(token.text[1])
        return place + 1

    def _is_month(self, place: int) -> bool:
        token, before, after = self._at(place), self._at(place - 1), self._at(place + 1)
        if not token.text[0].isupper():
            return False
        near = "number" in (before.kind, after.kind) or before.lower in _BEFORE_A_MONTH or before.lower in _DAY_ENDINGS
        return near or (len(token.text) > 4 and token.lower not in _WORDS_TOO)

    def _number_words(self, place: int) -> int:
        """Read a number in words. Returns 0 if there is none, or only "one", which often is not a count."""
        total, current, after = 0, 0, place
        while True:
            here = after + 1 if after > place and self._at(after).lower == "and" and (current % 100 == 0) else after
            step = _joined(current, self._at(here).lower, after == place)
            if step is None or (after > place and not all(self._beside(spot) for spot in range(after, here + 1))):
                break
            total, current = (total + step[0], 0) if step[1] else (total, step[0])
            after = here + 1
        value = Decimal(total + current)
        if after > place and [self._at(after + step).lower for step in range(3)] == ["and", "a", "half"]:
            value, after = value + Decimal("0.5"), after + 3
        if after == place or (after == place + 1 and self._at(place).lower == "one"):
            return 0
        self._numbers.add(_plain(value))
        return after

    def _is_name(self, place: int) -> bool:
        token = self._at(place)
        if (
            token.kind != "word"
            or token.text == token.lower
            or token.lower in _MONTHS
            or token.lower in _WEEKDAYS
            or token.text == "I"
        ):
            return False
        letters = [letter for letter in token.text if letter.isalpha()]
        if not letters:
            return False
        with_digit = letters[0].isupper() and any(letter.isdigit() for letter in token.text)
        if with_digit or sum(letter.isupper() for letter in letters) >= 2:
            return True
        if re.match(r"I['’]", token.text):
            return False
        if not letters[0].isupper() or token.lower in FUNCTION_WORDS or token.lower in _NUMBER_WORDS:
            return False
        if not _OPENS.search(self._text[max(0, token.start - 4) : token.start]):
            return True
        following = self._at(place + 1)
        return following.kind == "word" and following.text[0].isupper() and self._beside(place + 1)


def _joined(current: int, word: str, begins: bool) -> tuple[int, bool] | None:
    """The `current` number joined with the number in `word`, and whether a scale closes it; None if `word` does not continue
    it."""
    if word in _SCALES and _SCALES[word] > 100:
        return ((current or 1) * _SCALES[word], True) if begins or current else None
    if word == "hundred":
        return ((current or 1) * 100, False) if current < 100 else None
    value = _UNITS.get(word, _TENS.get(word, -1))
    if value < 0 or (current and value == 0):
        return None
    if current % 100 == 0 or (value < 10 and current % 10 == 0 and current % 100 >= 20):
        return current + value, False
    # Years: nineteen ninety-four, twenty twenty-four.
    return (current * 100 + value, False) if 10 <= current <= 99 and value >= 10 else None
