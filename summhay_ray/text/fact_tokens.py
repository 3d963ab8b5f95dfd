"""Splits a sentence into tokens: dates, times of day, labels, numbers, words with their roots, and marks."""

import datetime
import functools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from summhay_ray.text.words import FUNCTION_WORDS, UNSPACED, is_latin, root

Day = tuple[int | None, int | None, tuple[int, int] | None, int | None]
"""(Year, month, first day, last day of the month, day of the week from 0). A part that the text does not give is None."""

_IRREGULAR = """
    agree agreed / arise arose arisen / be been being / bear bore borne / beat beaten / become became / begin began begun
    / bind bound / bite bit bitten / blow blew blown / break broke broken / bring brought / build built / burn burnt / buy bought
    / catch caught / choose chose chosen / come came / cling clung / creep crept / deal dealt / dig dug / draw drew drawn
    / drink drank drunk / drive drove driven / eat ate eaten / fall fell fallen / feed fed / feel felt / fight fought
    / find found / flee fled / fly flew flown / forbid forbade forbidden / forget forgot forgotten / free freed
    / freeze froze frozen / get got gotten / give gave given / go went gone / grow grew grown / hang hung / hear heard
    / hide hid hidden / hold held
    / keep kept / know knew known / lay laid / lead led / leave left / lend lent / lose lost / make made / mean meant / meet met
    / pay paid / ride rode ridden / ring rang rung / rise rose risen / run ran / say said / see saw seen / seek sought
    / sell sold / send sent / shake shook shaken / shine shone / shoot shot / show shown / shrink shrank shrunk / sing sang sung
    / sink sank sunk / sit sat / sleep slept / speak spoke spoken / spend spent / spin spun / stand stood / steal stole stolen
    / stick stuck / strike struck stricken / swear swore sworn / swim swam swum / swing swung / take took taken / teach taught
    / tear tore torn / tell told / think thought / throw threw thrown / understand understood / uphold upheld / wake woke woken
    / wear wore worn / win won / withdraw withdrew withdrawn / withhold withheld / write wrote written
    / age aged aging / die died dying / owe owed owing / sue sued suing / tie tied tying / use used using
    / cut cut / hit hit / put put / quit quit / set set / shut shut / split split / spread spread
    / overcome overcame / overtake overtook overtaken / undergo underwent undergone / rebuild rebuilt
"""
BASE = {form: forms[0] for forms in map(str.split, _IRREGULAR.split("/")) for form in forms[1:]}
"""Past tense or participle -> infinitive, for verbs that are irregular or too short for `stem`."""

_MONTH_NAMES = """
    january february march april may june july august september october november december
    jan feb mar apr may jun jul aug sep oct nov dec
    januar februar märz april mai juni juli august september oktober november dezember
    janvier février mars avril mai juin juillet août septembre octobre novembre décembre
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
    gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
    janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
    januari februari maart april mei juni juli augustus september oktober november december
    января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر
    जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर
"""
MONTH_NUMBERS = {name: place % 12 + 1 for place, name in enumerate(_MONTH_NAMES.split())} | {"sept": 9}
_UNAMBIGUOUS = "january february april june july august september october november december"
ALONE = frozenset(_UNAMBIGUOUS.split())
"""Months that are recognized without an adjacent day or year; March and May need a preposition."""
_PREPOSITIONS = "in of since until till by early late mid last next this every through during"
BEFORE_A_MONTH = frozenset(_PREPOSITIONS.split())
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
WEEKDAYS = {name: place for place, name in enumerate(_WEEKDAY_NAMES.split())}
_MONTH = "(?:" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")(?![^\W\d_])\.?"
_DAY = r"(?<!\d)\d{1,2}(?:st|nd|rd|th|er|º|\.)?(?![\d%])"
_DAYS = rf"{_DAY}(?:\s?(?:-|–|—|to|and|&|bis|al?)\s?{_DAY})?"
_PLAIN = rf"""
      (?P<word>(?:[^\W\d_]\.){{2,}}|[^\W\d_{UNSPACED}](?:[A-Za-z\d]+|[^\W_{UNSPACED}]|['’](?=[^\W\d_]))*)
    | (?P<char>[{UNSPACED}])
    | (?P<sign>[$€£¥₹%‰°~<>≥≤])
    | (?P<mark>[^\w\s])
    """
_NUMERIC = rf"""
      (?P<iso>(?<![\d-])\d{{4}}(?P<sep>[-/.])\d{{1,2}}(?P=sep)\d{{1,2}}(?![\d-]))
    | (?P<slashed>(?<![\d/.-])\d{{1,2}}(?:/\d{{1,2}}/(?:\d{{4}}|\d\d)|(?P<dot>[.-])\d{{1,2}}(?P=dot)\d{{4}})(?![\d/-]))
    | (?P<wide>\d{{4}}\s?[年년]\s?(?:\d{{1,2}}\s?[月월]\s?(?:\d{{1,2}}\s?[日일])?)?)
    | (?P<day>{_DAYS}(?:\s|-)(?:(?:of|de|di|del)\s)?{_MONTH}(?:,?(?:\s|-)(?:(?:de|del)\s)?\d{{4}}(?!\d))?)
    | (?P<month>(?<![^\W\d_]){_MONTH}\s(?:{_DAYS}(?:,?\s\d{{4}}(?!\d))?|(?:(?:of|de|del)\s)?\d{{4}}(?!\d)))
    | (?P<clock>(?<=\d)T[0-2]\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)
        | (?<![\d:.,])(?:[01]?\d|2[0-3])(?::[0-5]\d){{1,2}}(?![\d:])(?:\s?[ap]\.?m\b\.?)?
        | (?<![\d:.,])1?\d(?:\.[0-5]\d)?\s?[ap]\.?m\b\.? | (?<!\d)(?:[01]?\d|2[0-3])h[0-5]\d(?!\d))
    | (?P<label>(?<![\w.])[^\W\d_]{{1,5}}-?\d+(?:\.\d+)*(?!\w) | (?<![\w.])\d+(?:\.\d+){{2,}}(?![\w.,]*\d))
    | (?P<number>(?<![\d.,])\d{{1,3}}(?:[ \u00a0\u202f'’]\d{{3}})+(?![\d.,]*\d)|\d+(?:[.,'’]\d+)*)
    """
_PLAIN_TOKEN = re.compile(_PLAIN, re.VERBOSE)
"""Matches the tokens of a text without digits."""
_TOKEN = re.compile(rf"{_NUMERIC} | {_PLAIN}", re.VERBOSE | re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_BRACKETS = re.compile(r"\[[^\[\]]{0,300}\](?:\([^()\s]*\))?|【[^】]{0,60}】|https?://\S+")


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    lower: str
    start: int
    end: int
    root: str = ""
    """The root of a content word, or an empty string."""


END_TOKEN = Token("", "", "", -9, -9)


def read_tokens(sentence: str) -> tuple[str, list[Token]]:
    """Return a sentence without citation marks and addresses, and its tokens."""
    text = " ".join(unicodedata.normalize("NFKC", _BRACKETS.sub(" ", sentence)).split())
    tokens = []
    for match in (_TOKEN if _DIGIT.search(text) else _PLAIN_TOKEN).finditer(text):
        kind, written, start = match.lastgroup or "", match[0], match.start()
        has_root = kind in ("word", "char")
        tokens.append(
            Token(kind, written, written.lower(), start, match.end(), _root(written, kind, start == 0) if has_root else "")
        )
    return text, tokens


@functools.lru_cache(maxsize=1 << 15)
def _root(written: str, kind: str, begins: bool) -> str:
    """Return the root of a word or character; empty for a function word. `begins`: whether the word begins a sentence."""
    plain = written.lower().replace("’", "'").removesuffix("'s").replace(".", "")
    if written[:-1].isupper():
        plain = plain.removesuffix("s")
    if kind == "word" and (len(plain) < 2 or plain in FUNCTION_WORDS):
        return ""
    if not is_latin(plain):
        # Endings in other alphabets are removed in the same way: the nouns of 2 часа and 9 часов are equal.
        return plain[: min(5, max(3, len(plain) - 2))]
    # A name such as "the Fed" is not a form of a verb.
    return root(BASE.get(plain, plain) if begins or not written[0].isupper() else plain)


def days_of(token: Token) -> tuple[Day, ...]:
    """Return the possible dates of a date in words or digits; none if there is no such day."""
    numbers = [int(part) for part in re.findall(r"\d+", token.text)]
    if token.kind == "iso":
        found = [(numbers[0], numbers[1], numbers[2], numbers[2])]
    elif token.kind == "wide":
        found = [(numbers[0], (numbers + [0, 0])[1], (numbers + [0, 0])[2], (numbers + [0, 0])[2])]
    elif token.kind == "slashed":
        one, two, year = numbers
        year += 2000 if year < 50 else 1900 if year < 100 else 0
        found = list(dict.fromkeys([(year, two, one, one), (year, one, two, two)]))
    else:
        month = next(MONTH_NUMBERS[word] for word in re.findall(r"[^\W\d_]+", token.lower) if word in MONTH_NUMBERS)
        year = numbers.pop() if numbers and numbers[-1] > 31 else 0
        found = [(year, month, numbers[0] if numbers else 0, numbers[-1] if numbers else 0)]
    days: list[Day] = []
    for year, month, first, last in found:
        if month > 12 or first > 31 or last > 31:
            continue
        weekday = None
        if year and month and first and first == last:
            try:
                weekday = datetime.date(year, month, first).weekday()
            except ValueError:
                continue
        days.append((year or None, month or None, (first, last) if first else None, weekday))
    return tuple(days)


def next_to(days: tuple[Day, ...], step: int) -> Iterator[Day]:
    """Yield the day after (`step` 1) or before (-1) each of the days. Days without a month are left out."""
    for year, month, span, _ in days:
        if month and span:
            # If the year is unknown, try a common year and a leap year, which differ at the end of February.
            for known in (year,) if year else (2023, 2024):
                try:
                    day = datetime.date(known, month, span[0]) + datetime.timedelta(days=step)
                except (ValueError, OverflowError):
                    continue
                yield (day.year if year else None), day.month, (day.day, day.day), (day.weekday() if year else None)
