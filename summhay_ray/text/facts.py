"""The numbers, dates, times, names and denials of a sentence, as values that can be compared.

One pattern finds the tokens; dates, times, quantities and names become facts, and the other words become roots (`stems.py`).
"2 hours", "two hours" and "120 minutes" are one value, and so are $1.2m and 1,200,000 USD, 22 July 2021 and 2021-07-22.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from summhay_ray.text.names import TITLES
from summhay_ray.text.words import FUNCTION_WORDS, UNSPACED, is_latin, root

Kind = Literal["number", "amount", "date", "time", "name", "denial"]
Day = tuple[int | None, int | None, tuple[int, int] | None, int | None]
"""Year, month, first and last day of the month, day of the week from 0; None where a text does not say it."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, or a range of numbers, in its base unit: seconds, bytes, dollars, per cent, or counted things."""

    low: float
    high: float
    grain: float
    """The size of its last digit: 2 hours has 3600 seconds, 1.2 million has 100,000."""
    unit: str
    """Empty for counted things."""
    nouns: frozenset[str] = frozenset()
    """Roots of the words for the counted or measured thing."""
    excluded: bool = False
    """Whether the range is open at one end and excludes its other end: "before 2.4", not "2.3 and earlier"."""

    def agrees(self, other: Quantity) -> bool:
        """Whether both can be the same number, at the coarser precision: 12 is in 10 to 15, but "more than 10" is not "more than
        20"."""
        if self.unit != other.unit:
            # "Two to three hours" leaves out a unit.
            return not (self.unit and other.unit) and self.low == self.high == other.low == other.high
        bound = max(self.grain, other.grain) / 2 * (1 - 1e-9)
        if self.low == self.high or other.low == other.high or (self.low == -math.inf) != (other.low == -math.inf):
            gap = max(self.low, other.low) - min(self.high, other.high)
            if math.inf in (self.high, other.high) and -math.inf in (self.low, other.low):
                # "At least 50" and "at most 50" have only their bound in common.
                return gap < 0
            return gap <= 0 or gap < bound
        # "Fewer than 10" is "at most 9".
        step = max(self.grain, other.grain) * (1 + 1e-9) if self.excluded != other.excluded else bound
        return all(one == two or abs(one - two) < step for one, two in ((self.low, other.low), (self.high, other.high)))


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a sentence: its kind, its words, and its value."""

    kind: Kind
    words: str
    place: int
    """Index of its first token in the sentence."""
    end: int
    """Index after its last token."""
    quantity: Quantity | None = None
    days: tuple[Day, ...] = ()
    """The possible dates: 3/4/2021 has two."""
    minutes: frozenset[int] = frozenset()
    """The possible minutes of the day: 2:30 has two."""
    name: tuple[str, ...] = ()
    """The roots of a name's words."""
    begins: bool = False
    """Whether a name is one word at the beginning of a sentence, and so perhaps not a name."""
    acts: bool = False
    """Whether this word is a singular without an article before a past form, as in "Google acquired"."""


@dataclass(frozen=True, slots=True)
class Negation:
    """A denial in a sentence."""

    words: str
    what: frozenset[str]
    """The root of the negated word; for an event that did not happen, or a statement that is called untrue, all its roots."""
    whole: bool
    """Whether `what` is an event or a statement."""
    before: frozenset[str]
    after: frozenset[str]
    """Roots of the two content words before the negation, and of those after the negated word."""
    scope: frozenset[str]
    """Roots of all words that the negation may apply to."""
    certain: bool = True
    """Whether it denies: a condition ("if it does not") and "cannot without" do not."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed sentence."""

    tokens: tuple[str, ...]
    """Every token in lower case, words other than function words as roots."""
    roots: frozenset[str]
    """Roots of all content words, including names."""
    facts: tuple[Fact, ...]
    negations: tuple[Negation, ...]
    prefixed: tuple[tuple[int, str], ...]
    """(Index, root without the prefix) of each token with a negative prefix: the root of "safe" for "unsafe"."""


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
    / overcome overcame / overtake overtook overtaken / undergo underwent undergone / rebuild rebuilt
"""
_BASE = {form: forms[0] for forms in map(str.split, _IRREGULAR.split("/")) for form in forms[1:]}
"""Past tense or participle of an irregular verb -> its infinitive."""
_PREFIXED = re.compile(
    r"(?:un(?!der|it|iv|ion|til)|(?:in|im|il|ir|non-?|dis)(?=\w+(?:able|ible|al|ful|ive|ent|ant|ate|ous|ect|ete)$))(\w{4,})"
)
"""A word with a negative prefix: `un`, and the others for adjectives."""

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
_MONTHS = {name: place % 12 + 1 for place, name in enumerate(_MONTH_NAMES.split())} | {"sept": 9}
_UNAMBIGUOUS = "january february april june july august september october november december"
_ALONE = frozenset(_UNAMBIGUOUS.split())
"""Months that are recognized without an adjacent day or year; March and May need a preposition."""
_PREPOSITIONS = "in of since until till by early late mid last next this every through during"
_BEFORE_A_MONTH = frozenset(_PREPOSITIONS.split())
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
_WEEKDAYS = {name: place for place, name in enumerate(_WEEKDAY_NAMES.split())}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")(?![^\W\d_])\.?"
_DAY = r"(?<!\d)\d{1,2}(?:st|nd|rd|th|er|º|\.)?(?![\d%])"
_DAYS = rf"{_DAY}(?:\s?(?:-|–|—|to|and|&|bis|al?)\s?{_DAY})?"
_TOKEN = re.compile(
    rf"""
      (?P<iso>(?<![\d-])\d{{4}}(?P<sep>[-/.])\d{{1,2}}(?P=sep)\d{{1,2}}(?![\d-]))
    | (?P<slashed>(?<![\d/.-])\d{{1,2}}(?:/\d{{1,2}}/(?:\d{{4}}|\d\d)|(?P<dot>[.-])\d{{1,2}}(?P=dot)\d{{4}})(?![\d/-]))
    | (?P<wide>\d{{4}}\s?[年년]\s?(?:\d{{1,2}}\s?[月월]\s?(?:\d{{1,2}}\s?[日일])?)?)
    | (?P<day>{_DAYS}(?:\s|-)(?:(?:of|de|di|del)\s)?{_MONTH}(?:,?(?:\s|-)(?:(?:de|del)\s)?\d{{4}}(?!\d))?)
    | (?P<month>(?<![^\W\d_]){_MONTH}\s(?:{_DAYS}(?:,?\s\d{{4}}(?!\d))?|(?:(?:of|de|del)\s)?\d{{4}}(?!\d)))
    | (?P<clock>(?<=\d)T[0-2]\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)
        | (?<![\d:.,])(?:[01]?\d|2[0-3])(?::[0-5]\d){{1,2}}(?![\d:])(?:\s?[ap]\.?m\b\.?)?
        | (?<![\d:.,])1?\d\s?[ap]\.?m\b\.? | (?<!\d)(?:[01]?\d|2[0-3])h[0-5]\d(?!\d))
    | (?P<label>(?<![\w.])[^\W\d_]{{1,5}}-?\d+(?:\.\d+)*(?!\w) | (?<![\w.])\d+(?:\.\d+){{2,}}(?![\w.,]*\d))
    | (?P<number>(?<![\d.,])\d{{1,3}}(?:[ \u00a0\u202f'’]\d{{3}})+(?![\d.,]*\d)|\d+(?:[.,'’]\d+)*)
    | (?P<char>[{UNSPACED}])
    | (?P<word>(?:[^\W\d_]\.){{2,}}|[^\W\d_{UNSPACED}](?:[^\W_{UNSPACED}]|['’](?=[^\W\d_]))*)
    | (?P<sign>[$€£¥₹%‰~<>≥≤])
    | (?P<mark>[^\w\s])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[[^\[\]]{0,300}\](?:\([^()\s]*\))?|【[^】]{0,60}】|https?://\S+")

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
"""
_UNITS_OF_TEN = {word: value for value, word in enumerate(_SMALL.split())}
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * value for value, word in enumerate(_ROUND.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ATTACHED = {"k": 1000, "m": 10**6, "mn": 10**6, "mm": 10**6, "mio": 10**6, "b": 10**9, "bn": 10**9, "tn": 10**12}
_OTHER_NUMBERS = {
    "no": 0,
    "dozen": 12,
    "both": 2,
    "twice": 2,
    "once": 1,
    **{word: value for value, word in enumerate(["zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"], 2)},
    **{word: value for value, word in enumerate(["deux", "trois", "quatre", "cinq"], 2)},
    **{word: value for value, word in enumerate(["dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"], 2)},
    "huit": 8,
    "dix": 10,
    "zwölf": 12,
    "douze": 12,
    "doce": 12,
}
_ORDINAL_NAMES = "first second third fourth fifth sixth seventh eighth ninth tenth"
_ORDINALS = {word: value for value, word in enumerate(_ORDINAL_NAMES.split(), 1)}
_FRACTIONS = {"half": 50.0, "third": 100 / 3, "thirds": 100 / 3, "quarter": 25.0, "quarters": 25.0, "fifth": 20.0, "fifths": 20.0}
_LASTING = frozenset(("for", "lasted", "took", "within", "after"))
_HOUR, _DAY_SECONDS = 3600, 86400
_MEASURES: dict[str, tuple[str, float]] = {
    word: (unit, factor)
    for unit, factor, words in (
        ("%", 1, "% percent pct prozent procent"),
        ("%", 0.1, "‰"),
        ("points", 1, "pp"),
        ("$", 1, "$ dollar dollars usd"),
        ("€", 1, "€ euro euros eur"),
        ("£", 1, "£ gbp pounds pound"),
        ("¥", 1, "¥ yen jpy"),
        ("₹", 1, "₹ inr rupee rupees"),
        ("yuan", 1, "yuan rmb cny renminbi"),
        ("franc", 1, "chf franc francs"),
        ("second", 0.001, "ms millisecond milliseconds"),
        ("second", 1, "second seconds sec secs sekunden secondes segundos"),
        ("second", 60, "minute minutes min mins minuten minutos"),
        ("second", _HOUR, "hour hours hr hrs h stunde stunden heure heures hora horas"),
        ("second", _DAY_SECONDS, "day days tag tage tagen jour jours día días"),
        ("second", 7 * _DAY_SECONDS, "week weeks woche wochen semaine semaines semana semanas"),
        ("second", 14 * _DAY_SECONDS, "fortnight fortnights"),
        ("second", 365.25 / 12 * _DAY_SECONDS, "month months monat monate monaten mois mes meses"),
        ("second", 365.25 * _DAY_SECONDS, "year years yr yrs jahr jahre jahren ans año años"),
        ("second", 3652.5 * _DAY_SECONDS, "decade decades"),
        ("byte", 1, "byte bytes"),
        ("byte", 1e3, "kb kilobytes"),
        ("byte", 1e6, "mb megabytes megabyte"),
        ("byte", 1e9, "gb gigabytes gigabyte"),
        ("byte", 1e12, "tb terabytes terabyte"),
        ("metre", 0.001, "mm millimetres millimeters"),
        ("metre", 0.01, "cm centimetres centimeters"),
        ("metre", 1, "metre metres meter meters"),
        ("metre", 1000, "km kilometre kilometres kilometer kilometers"),
        ("metre", 1609.344, "mile miles"),
        ("metre", 0.3048, "foot feet ft"),
        ("litre", 0.001, "ml millilitres milliliters"),
        ("litre", 1, "litre litres liter liters"),
        ("litre", 3.785, "gallon gallons"),
        ("litre", 159, "barrel barrels"),
        ("hectare", 1, "hectare hectares"),
        ("hectare", 0.4047, "acre acres"),
        ("gram", 0.001, "mg milligrams"),
        ("gram", 1, "gram grams"),
        ("gram", 1000, "kg kilogram kilograms kilo kilos"),
        ("gram", 1e6, "tonne tonnes"),
        ("watt", 1e3, "kw kilowatts"),
        ("watt", 1e6, "mw megawatts"),
        ("watt", 1e9, "gw gigawatts"),
        ("degree", 1, "° degree degrees celsius"),
        ("horsepower", 1, "hp bhp horsepower"),
        ("speed", 1, "kmh kph"),
        ("speed", 1.609344, "mph"),
    )
    for word in words.split()
}
_CURRENCIES = frozenset("$€£¥₹") | {"yuan", "franc"}
_ABOVE = re.compile(r"(?:(?P<excluded>more than|over|above|exceed\w*|greater than|>)|at least|no fewer than|no less than|≥) ?$")
_BELOW = re.compile(
    r"(?:(?P<excluded>(?<!no )(?<!or )(?:less than|fewer than|under|below|<))|up to|at most|no more than|within|≤) ?$"
)
_SINCE = re.compile(r"(?P<excluded>after|newer than|later than|higher than)(?: versions?)? $")
_UNTIL = re.compile(r"(?P<excluded>before|prior to|older than|earlier than|lower than)(?: versions?)? $")
"""The same before a version, a number with a decimal point."""
_ABOVE_AFTER = re.compile(r" ?(?:(?:and|or) (?:later|newer|above|higher|more|up(?:wards)?|over)|onwards?)\b")
_BELOW_AFTER = re.compile(r" (?:and|or) (?:earlier|older|below|lower|less|fewer|under|prior)\b")
_ABOUT = re.compile(r"(?:about|around|almost|nearly|roughly|approximately|some|circa|ca|an estimated|close to|~) ?$")
_TOLERANCE = 0.1
"""Relative tolerance of a number after "about"."""

_NEGATION = re.compile(
    r"\b(?:not|never|cannot|nicht|kein(?:e[mnrs]?)?|niemals|niet|geen|nunca|não|non|n(?:e\s|['’])\w+\s(?:\w+\s)?(?:pas|jamais|plus)"
    r"|\w+n['’]t|(?P<noun>no(?:[ -]one|body)?|none(?: of)?|without|neither|nor|zero|lack(?:s|ed|ing)?(?: of)?|absence of)"
    r"|(?:fail(?:s|ed|ing|ure)?|refus(?:es|ed|ing|al)|declin(?:es|ed|ing)|unable) to"
    r"|(?P<claim>den(?:y|ies|ied|ying)|refut(?:es|ed|ing)|disprov(?:es|ed|ing)|debunk(?:s|ed|ing)|disput(?:es|ed|ing)|ruled out))"
    r"\b(?!-)",
    re.IGNORECASE,
)
_NO_NEGATION = re.compile(
    r"\b(?:not (?:only|just|merely|simply|solely|necessarily|least|until|all|every|many|much|always|entirely|exclusively)"
    r"|no (?:doubt|matter|wonder|more than|less than|fewer than)|no\.? ?\d|nothing but|or not)\b",
    re.IGNORECASE,
)
_UNTRUE = re.compile(
    r"\b(?:(?:did not|didn['’]t|never|ha(?:s|ve|d) (?:not|never)|ha(?:s|ve|d)n['’]t|(?:does|do) not) (?:actually |really |ever )?"
    r"(?:happen(?:ed)?|occur(?:red)?|exist(?:ed)?|tak(?:e|en) place|took place)"
    r"|(?:is|are|was|were|be) (?:not true|untrue|false|not the case|not correct|incorrect|a hoax|a myth|fabricated|invented"
    r"|made up|denied|refuted|disproved|debunked|ruled out)"
    r"|there (?:was|were|is|are|has been|had been|have been) (?:no|never))\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(r"なかった|なかっ|ません|(?<!か)ない(?![わとか])|않[았는]|못했|없[었다]|\bnicht(?=\s*[.!;])")
_NOT_DENIED_BEFORE = re.compile(r"(?:なければなら|かもしれ|に違い|間違い|少なく|しか|だけで)な|なければ")
"""Patterns for negations of the words before them, in languages that put the negation last; and for similar text that is no
negation."""
_DENIES_AFTER = re.compile(r"没有|沒有|并未|並未|未能|不会|不會|不再")
_CONDITION = re.compile(r"\b(?:if|unless|whether)\b", re.IGNORECASE)
_PROVIDED = re.compile(r"\b(?:without|unless|until|except)\b", re.IGNORECASE)
_CLAUSE = frozenset(".;:!?()—–,") | {"but", "although", "however", "while", "whereas", "because", "though"}
_REACH, _FAR = 5, 10
"""Maximum number of following content words that a negation applies to; a denial applies to more."""


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    lower: str
    start: int
    end: int
    root: str = ""
    """The root of a content word; else empty."""


_END = _Token("", "", "", -9, -9)


@functools.lru_cache(maxsize=1 << 14)
def read_statement(sentence: str) -> Statement:
    """The facts, words and denials of a sentence. Never fails. The last 16,384 sentences are cached."""
    return _Reader(sentence).read()


def values_of(sentence: str) -> dict[str, str]:
    """The values of a sentence's numbers, dates and times, and its words for each: "2 hours" and "120 minutes" have one value."""
    found = {}
    for fact in read_statement(sentence).facts:
        if (number := fact.quantity) is not None:
            found[f"{number.low:g} {number.high:g} {number.unit}"] = fact.words
        elif fact.kind != "name":
            found[f"{min(fact.minutes)} minutes" if fact.minutes else str(fact.days[0])] = fact.words
    return found


class _Reader:
    """Reads one sentence. Each step takes the index of a token, and returns the facts there and the index of the next token."""

    def __init__(self, sentence: str) -> None:
        self.text = " ".join(unicodedata.normalize("NFKC", _BRACKETS.sub(" ", sentence)).split())
        self.tokens = [
            _Token(match.lastgroup or "", match[0], match[0].lower(), match.start(), match.end())
            for match in _TOKEN.finditer(self.text)
        ]
        for token in self.tokens:
            plain = token.lower.replace("’", "'").removesuffix("'s").replace(".", "")
            if token.text[:-1].isupper():
                plain = plain.removesuffix("s")
            if token.kind == "char" or (token.kind == "word" and len(plain) > 1 and plain not in FUNCTION_WORDS):
                # Endings in other alphabets are cut in the same way: the nouns of 2 часа and 9 часов are equal.
                token.root = root(_BASE.get(plain, plain)) if is_latin(plain) else plain[: min(5, max(3, len(plain) - 2))]

    def read(self) -> Statement:
        facts: list[Fact] = []
        place = 0
        while place < len(self.tokens):
            fact = self._date(place) or self._clock(place) or self._quantity(place) or self._name(place)
            if fact is not None:
                facts.append(fact)
            place = fact.end if fact is not None else place + 1
        taken = {place for fact in facts if fact.kind != "name" for place in range(fact.place, fact.end)}
        roots = frozenset(token.root for place, token in enumerate(self.tokens) if token.root and place not in taken)
        tokens = tuple(token.root or token.lower for token in self.tokens)
        matches = [(place, _PREFIXED.fullmatch(token.lower)) for place, token in enumerate(self.tokens) if token.root]
        prefixed = tuple((place, root(match[1])) for place, match in matches if match)
        return Statement(tokens, roots, tuple(facts), tuple(self._negations()), prefixed)

    def _at(self, place: int) -> _Token:
        return self.tokens[place] if 0 <= place < len(self.tokens) else _END

    def _words(self, begin: int, end: int) -> str:
        return self.text[self.tokens[begin].start : self.tokens[end - 1].end]

    # --- dates and times ------------------------------------------------------------------------------------------------

    def _date(self, place: int) -> Fact | None:
        token = self.tokens[place]
        days: tuple[Day, ...] = ()
        if token.kind in ("iso", "slashed", "wide", "day", "month"):
            days = _days_of(token)
        elif token.lower in _WEEKDAYS:
            written = place + 1 + (self._at(place + 1).lower == ",")
            # "Tuesday, 14 February" is one date.
            if self._at(written).kind in ("iso", "slashed", "day", "month"):
                return Fact("date", self._words(place, written + 1), place, written + 1, days=_days_of(self._at(written)))
            days = ((None, None, None, _WEEKDAYS[token.lower]),)
        elif token.kind == "word" and token.lower in _MONTHS and token.text[0].isupper():
            # The short forms are also other words, such as "may".
            if token.lower in _ALONE or self._at(place - 1).lower in _BEFORE_A_MONTH:
                days = ((None, _MONTHS[token.lower], None, None),)
        elif token.kind == "number" and re.fullmatch(r"(?:1[89]|20)\d\d", token.text) and self._is_year(place):
            days = ((int(token.text), None, None, None),)
        if self._at(place - 1).lower in ("before", "after"):
            # "After 1 March" may be "from 2 March".
            days = (*days, *_next_to(days, 1 if self._at(place - 1).lower == "after" else -1))
        return Fact("date", token.text, place, place + 1, days=days) if days else None

    def _is_year(self, place: int) -> bool:
        """Four digits are a year unless they have a unit, or count something ("2000 customers")."""
        before, after = self._at(place - 1), self._at(place + 1)
        counts = after.kind == "word" and after.root and after.text.islower() and after.lower.endswith("s")
        unit = after.lower in _MEASURES or after.lower in _SCALES or before.kind == "sign"
        return not (counts or unit or after.start == self.tokens[place].end and after.kind == "word")

    def _clock(self, place: int) -> Fact | None:
        token = self.tokens[place]
        if token.kind == "word" and token.lower in ("noon", "midnight"):
            return Fact("time", token.text, place, place + 1, minutes=frozenset({720 if token.lower == "noon" else 0}))
        if token.kind != "clock":
            return None
        hour, minute = ([int(part) for part in re.findall(r"\d+", token.text)] + [0])[:2]
        half = re.search(r"[ap](?=\.?m)", token.lower)
        if half and hour <= 12:
            minutes = {(hour % 12 + (12 if half[0] == "p" else 0)) * 60 + minute}
        else:
            # 2:30 may be in the afternoon; 02:30 and 14:30 are unambiguous.
            afternoon = {(hour % 12 + 12) * 60 + minute} if 0 < hour <= 12 and token.text[0] not in "0T" else set()
            minutes = {hour * 60 + minute} | afternoon
        return Fact("time", token.text, place, place + 1, minutes=frozenset(minutes))

    # --- quantities -----------------------------------------------------------------------------------------------------

    def _quantity(self, place: int) -> Fact | None:
        begin = place
        currency = ""
        negative = self._is_minus(place)
        place += negative
        token, following = self._at(place), self._at(place + 1)
        if token.lower in _ORDINALS and following.root and not self._number(place - 1):
            value = float(_ORDINALS[token.lower])
            return Fact(
                "number", token.text, place, place + 1, Quantity(value, value, 1.0, "#", self._nouns(place, place + 1, "#"))
            )
        if self._unit(place)[0] in _CURRENCIES and self._number(place + 1):
            currency, place = self._unit(place)[0], place + 1
        fraction = self._fraction(place)
        found = fraction or self._number(place)
        if found is None:
            return None
        low, grain, place = found
        low = high = -low if negative else low
        joins = ("-", "–", "to", "and") if self._at(begin - 1).lower == "between" else ("-", "–", "to")
        if self._at(place).lower in joins:
            further = place + 1 + (self._unit(place + 1)[0] == currency != "")
            negative = self._is_minus(further)
            upper = self._number(further + negative)
            if upper is not None and (to := -upper[0] if negative else upper[0]) > low:
                high, (_, grain, place) = to, upper
        unit, factor, place = ("%", 1.0, place) if fraction else self._measure(place, currency)
        low, high, grain = low * factor, high * factor, grain * factor
        if unit == "second":
            low, high, grain, place = self._compound(low, high, grain, factor, place)
        before, after = self.text[: self.tokens[begin].start].lower(), self.text[self.tokens[place - 1].end :].lower()
        version = not unit and grain < 1
        above = _ABOVE.search(before) or (version and _SINCE.search(before)) or _ABOVE_AFTER.match(after)
        below = _BELOW.search(before) or (version and _UNTIL.search(before)) or _BELOW_AFTER.match(after)
        bound = above or below
        if above:
            high = math.inf
        elif below:
            low = -math.inf
        elif low == high and _ABOUT.search(before):
            low, high = low - abs(low) * _TOLERANCE, high + abs(high) * _TOLERANCE
        excluded = bool(bound and bound.groupdict().get("excluded"))
        quantity = Quantity(low, high, grain, unit, self._nouns(begin, place, unit), excluded)
        return Fact("amount" if unit in _CURRENCIES else "number", self._words(begin, place), begin, place, quantity)

    def _is_minus(self, place: int) -> bool:
        """Whether a number's minus sign, or the word `minus`, is here; the hyphen in "10-15" is none."""
        token, before, after = self._at(place), self._at(place - 1), self._at(place + 1)
        if token.lower in ("minus", "negative"):
            return self._number(place + 1) is not None and not self._number(place - 1)
        joined = after.start == token.end and (after.kind == "number" or self._unit(place + 1)[0] in _CURRENCIES)
        return token.text in ("-", "−") and joined and before.end != token.start and before.kind != "number"

    def _fraction(self, place: int) -> tuple[float, float, int] | None:
        """The result of `_number` for "half of", "a third of", "two thirds of" and "by a quarter", in per cent."""
        many = _UNITS_OF_TEN.get(self._at(place).lower, 0)
        end = place + (1 if many or self._at(place).lower == "a" else 0)
        share = _FRACTIONS.get(self._at(end).lower)
        # "By a third" and "to half" name a share, too; "by third parties" does not.
        is_share = self._at(end + 1).lower == "of" or (self._at(place - 1).lower in ("by", "to") and not self._at(end + 1).root)
        return (share * (many or 1), 1.0, end + 1) if share is not None and is_share else None

    def _number(self, place: int) -> tuple[float, float, int] | None:
        """The value of a number in digits or words, the size of its last digit, and the index after it."""
        token = self._at(place)
        if token.kind == "number":
            value, after = _decimal(token.text), self._at(place + 1)
            # A decade such as 1990s is neither a number nor a year.
            if value is None or (after.lower == "s" and after.start == token.end and len(token.text) == 4):
                return None
            number, grain = value
            attached = (
                _ATTACHED.get(after.lower)
                if after.start == token.end and not (after.lower == "m" and after.text == "m" and not self._is_money(place))
                else None
            )
            scale = _SCALES.get(after.lower) or _SCALES.get(after.lower.removesuffix("s")) or attached
            if scale is None and after.lower in ("m", "mn", "bn", "mio") and self._is_money(place):
                scale = _ATTACHED[after.lower]
            return (number * scale, grain * scale, place + 2) if scale else (number, grain, place + 1)
        if token.kind != "word":
            return None
        after = self._at(place + 1)
        if token.lower in ("a", "an") and self._unit(place + 1)[0] == "second" and self._at(place - 1).lower in _LASTING:
            return 1.0, 1.0, place + 1
        if token.lower == "half" and after.lower == "an" and self._unit(place + 2)[0] == "second":
            return 0.5, 0.5, place + 2
        joined = "-" in (self._at(place - 1).lower, after.lower)
        if token.lower in _OTHER_NUMBERS and not joined and (token.lower != "no" or after.root):
            return float(_OTHER_NUMBERS[token.lower]), 1.0, place + 1
        total, current, after_words = 0, 0, place
        while True:
            here = after_words
            if here > place and self._at(here).lower in ("and", "-") and self._at(here + 1).lower in _UNITS_OF_TEN | _TENS:
                here += 1
            word = self._at(here).lower
            if word in _SCALES and (current or total):
                total, current = (total + current * _SCALES[word], 0) if word != "hundred" else (total, current * 100)
            elif word in _TENS and current % 100 == 0 and (here == after_words or current):
                current += _TENS[word]
            elif word in _UNITS_OF_TEN and (
                current == 0 or current % 100 == 0 or (current % 10 == 0 and _UNITS_OF_TEN[word] < 10)
            ):
                if here > after_words and self._at(after_words).lower == "and" and current % 100 != 0:
                    break
                current += _UNITS_OF_TEN[word]
            else:
                break
            after_words = here + 1
        if after_words == place:
            return None
        if after_words == place + 1 and token.lower == "one" and after.lower not in _MEASURES:
            return None
        return float(total + current), 1.0, after_words

    def _is_money(self, place: int) -> bool:
        return self._unit(place - 1)[0] in _CURRENCIES

    def _unit(self, place: int) -> tuple[str, float]:
        token = self._at(place)
        return _MEASURES.get(token.lower.rstrip("."), ("", 1.0)) if token.kind in ("word", "sign") else ("", 1.0)

    def _measure(self, place: int, currency: str) -> tuple[str, float, int]:
        """The unit after a number, its size in the base unit, and the index after it."""
        if currency:
            return currency, 1.0, place + (self._unit(place)[0] == currency)
        token = self._at(place)
        attached = token.start == self._at(place - 1).end
        if attached and token.lower in ("st", "nd", "rd", "th"):
            return "#", 1.0, place + 1
        if token.lower == "-" and attached and self._unit(place + 1)[0]:
            place += 1
        if self._at(place).lower == "per" and self._at(place + 1).lower == "cent":
            return "%", 1.0, place + 2
        if self._at(place).lower == "percentage" and self._at(place + 1).lower.startswith("point"):
            return "points", 1.0, place + 2
        if not attached and token.text == "m" and not self._is_money(place - 1):
            return "metre", 1.0, place + 1
        unit, factor = self._unit(place)
        return unit, factor, place + bool(unit)

    def _compound(self, low: float, high: float, grain: float, factor: float, place: int) -> tuple[float, float, float, int]:
        """1 hour and 30 minutes, 2h 5m 10s, an hour and a half."""
        if [self._at(place + step).lower for step in range(3)] == ["and", "a", "half"] and low == high:
            return low + factor / 2, high + factor / 2, factor / 2, place + 3
        here = place + (self._at(place).lower in ("and", ","))
        found = self._number(here)
        if found is not None:
            minutes = factor == _HOUR and self._at(found[2]).lower == "m"
            unit, smaller, after = ("second", 60.0, found[2] + 1) if minutes else self._measure(found[2], "")
            if unit == "second" and smaller < factor and low == high:
                total = low + found[0] * smaller
                return self._compound(total, total, smaller, smaller, after)
        return low, high, grain, place

    def _nouns(self, begin: int, place: int, unit: str) -> frozenset[str]:
        """The roots of the two words after a number and its unit. If the number counts nothing or is part of a name ("Boeing
        737"), the root of the word before it."""
        while self._at(place).lower in ("of", "the", "all", "its", "their", "our", "-", "more", "other"):
            place += 1
        after = [self._at(place), self._at(place + 1)]
        found = [token.root for token in (after if after[0].root else [])[:2] if token.root and token.kind != "number"]
        before = self._at(begin - 1)
        if not unit and before.root and (not found or before.text[0].isupper()):
            found.append(before.root)
        return frozenset(found)

    # --- names and denials ----------------------------------------------------------------------------------------------

    def _name(self, place: int) -> Fact | None:
        if self.tokens[place].kind == "label":
            return Fact("name", self.tokens[place].text, place, place + 1, name=(self.tokens[place].lower,))
        end = place
        for token in self.tokens[place:]:
            if token.kind != "word" or not token.text[0].isupper() or not token.root or token.lower in _UNITS_OF_TEN:
                break
            end += 1
        if end == place:
            return None
        words = [token for token in self.tokens[place:end] if token.lower not in TITLES] or self.tokens[place:end]
        name = tuple(token.root for token in words)
        begins = end == place + 1 and self._at(place - 1).kind in ("", "mark") and not self.tokens[place].text[1:2].isupper()
        follows = self._at(end).lower
        past = follows in _BASE or follows.endswith("ed") or follows in ("was", "has", "had", "did", "is", "will")
        acts = begins and past and not self.tokens[place].lower.endswith(("s", "ly", "ing"))
        return Fact("name", self._words(place, end), place, end, name=name, begins=begins, acts=acts)

    def _negations(self) -> Iterator[Negation]:
        """The denials in the sentence."""
        spared = [match.span() for match in _NO_NEGATION.finditer(self.text)]
        condition = _CONDITION.search(self.text)
        limit = condition.start() if condition else len(self.text)
        for match in _UNTRUE.finditer(self.text):
            there = match[0].lower().startswith("there")
            what = frozenset(self._after(match.end(), _REACH) if there else self._before(match.start(), len(self.tokens)))
            yield Negation(match[0], what, True, frozenset(), frozenset(), what, match.start() < limit)
        for match in () if _NOT_DENIED_BEFORE.search(self.text) else _DENIED_BEFORE.finditer(self.text):
            what = frozenset(self._before(match.start(), _REACH))
            if what:
                yield Negation(match[0], what, True, frozenset(), frozenset(), what)
        for match in _DENIES_AFTER.finditer(self.text):
            what = frozenset(self._after(match.end(), _REACH))
            if what:
                yield Negation(match[0], what, True, frozenset(), frozenset(), what)
        for match in _NEGATION.finditer(self.text):
            scope = self._after(match.end(), _FAR if match["claim"] else _REACH)
            if not scope or any(begin <= match.start() < end for begin, end in spared):
                continue
            certain = match.start() < limit and not (not match["noun"] and _PROVIDED.search(self.text, match.end()))
            if match["claim"]:
                what = frozenset(scope)
                yield Negation(match[0], what, True, frozenset(), frozenset(), what, certain)
                continue
            before = frozenset(self._before(match.start(), 1 if match["noun"] else 2)) - {scope[0]}
            # In "hit no customers" the denied event is before the negation, in "no customers were hit" after it.
            after = frozenset() if match["noun"] and before else frozenset(scope[1:3])
            yield Negation(f"{match[0]} {scope[0]}", frozenset(scope[:1]), False, before, after, frozenset(scope), certain)

    def _after(self, start: int, most: int) -> list[str]:
        """The roots after a place in the text, up to the end of the clause, without adverbs."""
        found: list[str] = []
        for token in self.tokens:
            if token.start >= start:
                if token.lower in _CLAUSE or len(found) == most:
                    break
                if token.root and not (token.lower.endswith("ly") and len(token.lower) > 6):
                    found.append(token.root)
        return found

    def _before(self, start: int, most: int) -> list[str]:
        """The last roots before a place in the text."""
        return [token.root for token in self.tokens if token.root and token.end <= start][-most:]


def plain_numeral(numeral: str) -> str:
    """A numeral without separators of thousands and with a decimal point: 1,025 and 1 025 are 1025, 1,5 is 1.5."""
    plain = re.sub(r"[ \u00a0\u202f'’]", "", numeral)
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", plain):
        return plain.replace(",", "")
    if re.fullmatch(r"\d{1,3}(\.\d{3}){2,}(,\d+)?|\d{1,3}\.\d{3},\d+", plain):
        return plain.replace(".", "").replace(",", ".")
    return plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain


def _decimal(numeral: str) -> tuple[float, float] | None:
    """The value of a numeral and the size of its last digit."""
    plain = plain_numeral(numeral)
    if not re.fullmatch(r"\d{1,30}(\.\d{1,30})?", plain):
        return None
    return float(plain), 10.0 ** -len(plain.partition(".")[2])


def _days_of(token: _Token) -> tuple[Day, ...]:
    """The possible dates of a date in words or digits; none if there is no such day."""
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
        month = next(_MONTHS[word] for word in re.findall(r"[^\W\d_]+", token.lower) if word in _MONTHS)
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


def _next_to(days: tuple[Day, ...], step: int) -> Iterator[Day]:
    """The day after (`step` 1) or before (-1) each of the days of which at least the month is known."""
    for year, month, span, _ in days:
        if month and span:
            # In a leap year, the last of February has two dates.
            for known in (year,) if year else (2023, 2024):
                try:
                    day = datetime.date(known, month, span[0]) + datetime.timedelta(days=step)
                except ValueError:
                    continue
                yield (day.year if year else None), day.month, (day.day, day.day), (day.weekday() if year else None)
