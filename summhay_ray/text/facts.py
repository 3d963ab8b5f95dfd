"""Parses the numbers, dates, times, names and denials of a sentence into values that can be compared.

`fact_tokens.py` splits the sentence. Dates, times, quantities and names become facts; the other words become roots. "2 hours",
"two hours" and "120 minutes" have the same value. So do $1.2m and 1,200,000 USD, and 22 July 2021 and 2021-07-22.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Literal

from summhay_ray.text.fact_tokens import (
    ALONE,
    BASE,
    BEFORE_A_MONTH,
    END_TOKEN,
    MONTH_NUMBERS,
    WEEKDAYS,
    Day,
    Token,
    days_of,
    infinitive,
    next_to,
    read_tokens,
)
from summhay_ray.text.names import TITLES
from summhay_ray.text.negations import Negation, find_negations
from summhay_ray.text.words import root, stem

Kind = Literal["number", "amount", "date", "time", "name", "denial"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number or a range of numbers, in its base unit: seconds, bytes, dollars, per cent, or counted things."""

    low: float
    high: float
    grain: float
    """The size of the last digit: 3600 seconds for 2 hours, 100,000 for 1.2 million."""
    unit: str
    """The base unit; empty for counted things."""
    nouns: frozenset[str] = frozenset()
    """Roots of the words for the counted or measured things."""
    stated: tuple[float, ...] = field(default=(), compare=False)
    """The numbers as the text states them, in the base unit: 10 for "at least 10" and "about 10"."""
    excluded: bool = False
    """Whether a range that is open at one end excludes its other end: "before 2.4", but not "2.3 and earlier"."""

    def agrees(self, other: Quantity) -> bool:
        """Whether both can be the same number, at the coarser precision. 12 agrees with 10 to 15, but "more than 10" does not
        agree with "more than 20"."""
        if self.unit != other.unit:
            # "Two to three hours" omits a unit.
            return not (self.unit and other.unit) and self.low == self.high == other.low == other.high
        bound = max(self.grain, other.grain) / 2 * (1 - 1e-9)
        if self.low == self.high or other.low == other.high or (self.low == -math.inf) != (other.low == -math.inf):
            gap = max(self.low, other.low) - min(self.high, other.high)
            if math.inf in (self.high, other.high) and -math.inf in (self.low, other.low):
                # "At least 50" and "at most 50" share only their bound.
                return gap < 0
            return gap <= 0 or gap < bound
        # "Fewer than 10" is the same as "at most 9".
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
    """Index of the token after its last one."""
    quantity: Quantity | None = None
    days: tuple[Day, ...] = ()
    """The possible dates: 3/4/2021 has two."""
    edges: tuple[Day, ...] = ()
    """The first possible day, if the text says "after" a date, or the last possible day, if it says "before" one."""
    minutes: frozenset[int] = frozenset()
    """The possible times, in minutes of the day: 2:30 has two."""
    name: tuple[str, ...] = ()
    """The roots of a name's words."""
    begins: bool = False
    """Whether a name is a single word at the beginning of a sentence. Then it may not be a name."""
    acts: bool = False
    """Whether the word is a singular without an article before a past form, as in "Google acquired"."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed sentence."""

    tokens: tuple[str, ...]
    """All tokens in lower case; content words are replaced by their roots."""
    stems: tuple[str, ...]
    """The same tokens with stems instead of roots: the stems of "exclusive" and "exclude" differ."""
    roots: frozenset[str]
    """Roots of all content words, including names."""
    facts: tuple[Fact, ...]
    negations: tuple[Negation, ...]
    prefixed: tuple[tuple[int, str], ...]
    """(Index, root without the prefix) of each token with a negative prefix: for "unsafe", the root of "safe"."""
    particles: tuple[tuple[int, int], ...]
    """(Index, index of its verb) of each particle."""
    actions: tuple[Action, ...]
    """(Agent, verb, object) of each action: the same for "Acme bought Birch" and "Birch was bought by Acme"."""
    agents: tuple[tuple[Fact, str], ...]
    """(Name, verb root) of each name before a verb about a past event: "Ada Lake resigned"."""
    done: frozenset[str]
    """Roots of verbs about past events ("closed", "has closed")."""
    planned: frozenset[str]
    """Roots of verbs about planned or possible events ("may close", "plans to close")."""


Action = tuple[tuple[str, ...], str, tuple[str, ...]]
_DETERMINERS = frozenset(("the", "a", "an", "its", "their", "his", "her"))
_WITH_VERB = _DETERMINERS | frozenset(("has", "have", "had", "will", "would", "did", "also", "later", "then", "to", "must"))
_PASSIVE = frozenset(("is", "are", "was", "were", "be", "been", "being"))
_WITH_NAMES = frozenset(("to", "from", "over", "against", "for"))
"""Function words between agent, verb and object: in any action, in a passive one, and between names."""
_PHRASE_WORDS = """
    call off cancel / put off postpone / turn down reject / vote down reject / strike down overturn / throw out overturn
    / go ahead proceed / take place proceed / carry on continue / keep on continue / wave through approve
    / bring forward advance / take over acquire / shut down close / close down close / set up create / give up abandon
    / lay off dismiss / sell off sell / leave out exclude / phase out abolish / pull out withdraw / step down resign
    / stand down resign / sign off approve / hold back withhold / hold up delay / bring back reinstate / take away remove
    / start up start / hand over give / pay back repay / break down fail / carry out perform
"""
_PHRASES = {(stem(verb), after): meaning for verb, after, meaning in (phrase.split() for phrase in _PHRASE_WORDS.split("/"))}
"""(Stem of a verb, particle) -> a verb with the same meaning."""
PARTICLES = ("up", "down", "on", "off", "out", "back", "forward", "over", "away")
"""Particles of verbs. An object may be between the two: "turned the offer down"."""
MOVING = frozenset(map(stem, ("go", "move", "come", "bring", "push", "put", "drive", "switch", "turn")))
"""Stems of verbs whose particle makes an opposite: "switched the pump off"."""
_AFTER_PARTICLE_WORDS = "after and as at because but by for from in on since though to until when with"
_AFTER_PARTICLES = frozenset(("", *_AFTER_PARTICLE_WORDS.split()))
"""Words that can follow a particle, but no preposition; empty at the end of a sentence."""
_OBJECT = 8
"""Maximum number of words between a verb and its particle."""
_REACH = 6
"""Maximum number of words and names from an agent to the end of a possible object."""
MUTUAL = frozenset(map(root, ("meet", "play", "face", "marry", "married", "equal", "match")))
"""Verbs whose agent and object can be exchanged without a change of meaning."""

_PLANNED = re.compile(
    r"\b(?:may|might|(?:is|are|was|were|(?:plan|propos|intend|want|hop)\w*) to(?! blame)"
    r"|(?:consider|propos|plan|suggest|recommend|discuss)\w*(?= \w+ing\b))"
    r"(?: (?:not|also|have|be|been|being|soon|later))* (?P<verb>\w+)",
    re.IGNORECASE,
)
"""Matches a verb about a planned or possible event."""
_PLANNING = frozenset(("to", "be", "may", "might", "could", "would", "will", "should", "if"))
_WITH_PARTICIPLE = frozenset(("has", "have", "had"))
_BEFORE_PAST = _WITH_PARTICIPLE.union(
    ("was", "were", "been", "also", "later", "and", "it", "he", "she", "they", "we", "who", "which", "that", ",")
)

_PREFIXED = re.compile(
    r"(?:un(?!der|it|iv|ion|til)|(?:in|im|il|ir|non-?|dis)(?=\w+(?:able|ible|al|ful|ive|ent|ant|ate|ous|ect|ete)$))(\w{4,})"
)
"""Matches a word with a negative prefix: `un` for any word, the other prefixes for adjectives."""

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
"""
UNITS_OF_TEN = {word: value for value, word in enumerate(_SMALL.split())}
"""The words for 0 to 19."""
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS = {word: 10 * value for value, word in enumerate(_ROUND.split(), 2)}
"""The words for 20 to 90."""
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
_BEFORE_ORDINAL = frozenset(("the", "is", "are", "was", "were", *map(root, ("finish", "come", "place", "rank"))))
"""Words before an ordinal that may lack its noun. Verbs are given as roots."""
_NO_NAMES = UNITS_OF_TEN.keys() | {"nobody", "nothing", "none", "everybody", "everyone", "everything", "somebody", "someone"}
"""Words that are not names, although they are capitalized at the beginning of a sentence."""
_PARTS = {"half": 2, "quarter": 4, **{word: part for word, part in _ORDINALS.items() if part > 2}}
_FRACTIONS = {word + plural: 100 / part for word, part in _PARTS.items() for plural in ("", "s")}
_ROUGH = 2.0
"""The precision of a fraction in words, in per cent: two thirds are 66 % or 67 %."""
_NO_COUNT = frozenset(["the", "this", "that", "which", "each", "every", "any", "another", "no", "some"])
"""Words after which `one` is a pronoun."""
_EXAMPLE = re.compile(r"one (?:[\w-]+ ){1,2}(?:is|was|would be) (?:the|that|to|an?)\b", re.IGNORECASE)
"""Matches "one" as one of several things: "One drawback is the cost"."""
_BEFORE_A_YEAR = frozenset(("in", "since", "until", "during"))
_LASTING = frozenset(("for", "lasted", "took", "within", "after"))
_AND_A_HALF = ["and", "a", "half"]
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
        ("gram", 1e6, "t tonne tonnes"),
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
_BEGINNINGS = frozenset().union(UNITS_OF_TEN, TENS, _OTHER_NUMBERS, _ORDINALS, _FRACTIONS, ("a", "an", "minus", "negative"))
_BEGINNINGS |= {word for word, (unit, _) in _MEASURES.items() if unit in _CURRENCIES}
"""Words that can begin a quantity."""
_BEGIN_FACTS = _BEGINNINGS | WEEKDAYS.keys() | {"noon", "midnight"}
"""Lower-case words that can begin a fact."""
_ABOVE = re.compile(
    r"(?:(?P<excluded>\b(?:more than|over|above|exceed\w*|greater than)|>)|\bat least|no fewer than|no less than|≥) ?$"
)
_BELOW = re.compile(
    r"(?:(?P<excluded>(?<!no )(?<!or )(?:\b(?:less than|fewer than|under|below)|<))|\b(?:up to|at most|no more than|within)|≤) ?$"
)
_SINCE = re.compile(r"(?P<excluded>after|newer than|later than|higher than)(?: versions?)? $")
_UNTIL = re.compile(r"(?P<excluded>before|prior to|older than|earlier than|lower than)(?: versions?)? $")
"""Similar words before a version, that is, a number with a decimal point."""
_ABOVE_AFTER = re.compile(r" ?(?:(?:and|or) (?:later|newer|above|higher|more|up(?:wards)?|over)|onwards?)\b")
_BELOW_AFTER = re.compile(r" (?:and|or) (?:earlier|older|below|lower|less|fewer|under|prior)\b")
_ABOUT = re.compile(r"(?:\b(?:about|around|almost|nearly|roughly|approximately|some|circa|ca|an estimated|close to)|~) ?$")
_TOLERANCE = 0.1
"""Relative tolerance of a number after "about"."""


@functools.lru_cache(maxsize=1 << 14)
def read_statement(sentence: str) -> Statement:
    """Parse the facts, words and denials of a sentence. Never fails. The last 16,384 sentences are cached."""
    text, tokens = read_tokens(sentence)
    stems = [stem(infinitive(token.lower)) if token.root else token.lower for token in tokens]
    particles = tuple(_particles(tokens, stems))
    for place, (token, after) in enumerate(pairwise(tokens)):
        if meaning := _PHRASES.get((stems[place], after.lower)):
            token.root, after.root, stems[place] = root(meaning), "", stem(meaning)
    for place, verb in particles:
        tokens[place].root = ""
        if meaning := _PHRASES.get((stems[verb], tokens[place].lower)):
            tokens[verb].root, stems[verb] = root(meaning), stem(meaning)
    reader = _Reader(text, tokens)
    facts: list[Fact] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.lower not in _BEGIN_FACTS and token.text.isalpha() and token.text.islower():
            place += 1
            continue
        fact = reader.date(place) or reader.clock(place) or reader.score(place) or reader.quantity(place) or reader.name(place)
        if fact is not None:
            facts.append(fact)
        place = fact.end if fact is not None else place + 1
    taken = {place for fact in facts if fact.kind != "name" for place in range(fact.place, fact.end)}
    roots = frozenset(token.root for place, token in enumerate(tokens) if token.root and place not in taken)
    words = tuple(token.root or token.lower for token in tokens)
    matches = [(place, _PREFIXED.fullmatch(token.lower)) for place, token in enumerate(tokens) if token.root]
    prefixed = tuple((place, root(match[1])) for place, match in matches if match)
    negations = tuple(find_negations(text, [token for place, token in enumerate(tokens) if place not in taken]))
    starts = {found.start("verb") for found in _PLANNED.finditer(text)}
    verbs = [place for place, token in enumerate(tokens) if token.start in starts]
    # "Wants to ask for approval" plans the approval, too.
    objects = [token for place in verbs for token in tokens[place + 1 : place + _OBJECT // 2]]
    objects = [token for token in objects if token.lower not in BASE and not token.lower.endswith("ed")]
    planned = frozenset(token.root for token in [*(tokens[place] for place in verbs), *objects] if token.root)
    done = frozenset(
        token.root
        for place, token in enumerate(tokens)
        if token.root and _is_done(token.lower, tokens[max(0, place - 3) : place])
    )
    return Statement(
        words,
        tuple(stems),
        roots,
        tuple(facts),
        negations,
        prefixed,
        particles,
        tuple(_actions(words, roots, facts)),
        tuple(islice(_agents(words, facts, done - planned), _REACH)),
        done - planned,
        planned,
    )


def _particles(tokens: Sequence[Token], stems: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (index, index of its verb) for each particle. Its verb is the word before it, or before an object in between."""
    for place, token in enumerate(tokens):
        if token.lower not in PARTICLES or not place:
            continue
        before = tokens[place - 1]
        if before.kind == "word" and before.lower not in _DETERMINERS:
            earlier = range(max(0, place - _OBJECT), place)
            phrases = [at for at in earlier if (stems[at], token.lower) in _PHRASES or stems[at] in MOVING]
            following = tokens[place + 1].lower if place + 1 < len(tokens) else ""
            ends = following in _AFTER_PARTICLES or not following[:1].isalnum()
            yield place, (phrases[-1] if phrases and ends else place - 1)


def _is_done(verb: str, words: Sequence[Token]) -> bool:
    """Whether a verb is a past tense or participle after its subject or an auxiliary verb: "they closed", "has been closed".
    `words`: the three words before the verb."""
    before = words[-1] if words else END_TOKEN
    if not (verb in BASE or verb.endswith("ed") or before.lower in _WITH_PARTICIPLE):
        return False
    follows = before.lower in _BEFORE_PAST or (before.root and not before.lower.endswith(("ing", "ly", "ed")))
    return bool(follows) and not any(word.lower in _PLANNING for word in words)


def _agents(tokens: Sequence[str], facts: Sequence[Fact], done: frozenset[str]) -> Iterator[tuple[Fact, str]]:
    for fact in facts:
        # "The lawyer, Ada Lake, resigned".
        verb = next((token for token in tokens[fact.end :] if token not in _WITH_VERB and token != ","), "")
        if fact.name and fact.begins <= fact.acts and verb in done and verb not in MUTUAL:
            yield fact, verb


def _actions(tokens: Sequence[str], roots: frozenset[str], facts: Sequence[Fact]) -> Iterator[Action]:
    """Yield the actions of a sentence: agent, verb and object in a row, with only certain function words between them.

    Agent and object are content words or names. The object of an active verb must have an article, unless it is a name.
    """
    names = {fact.place: fact for fact in facts if fact.name}
    units: list[tuple[tuple[str, ...], bool, list[str]]] = []
    """(Word or name, whether it is a name, the tokens before it), in order."""
    between: list[str] = []
    place = 0
    while place < len(tokens):
        name = names.get(place)
        if name or tokens[place] in roots:
            units.append((name.name if name else (tokens[place],), bool(name), between))
            between = []
        else:
            between.append(tokens[place])
        place = name.end if name else place + 1
    for (agent, *_), (verb, is_name, before), *others in (units[start : start + _REACH] for start in range(len(units) - 2)):
        if is_name or verb[0] in MUTUAL:
            continue
        # In "paid contractor Acme", the name is the object.
        others = [
            (following[0], True, unit[2]) if following[1] and not (unit[1] or following[2]) else unit
            for unit, following in zip(others, [*others[1:], ((), False, [])], strict=True)
        ]
        other, last, after = others[0]
        if after[:1] == ["by"] and _PASSIVE.intersection(before) and {*before, *after[1:]} <= _WITH_VERB | _PASSIVE:
            yield other, verb[0], agent
        elif {*before} <= _WITH_VERB:
            if {*after} <= _WITH_VERB and (last or _DETERMINERS.intersection(after)):
                yield agent, verb[0], other
            # "Acme lost to Birch", "Acme bought a mill from Birch".
            for named, last, after in others:
                if (last or _DETERMINERS.intersection(after)) and len(prepositions := _WITH_NAMES.intersection(after)) == 1:
                    yield agent, " ".join((*verb, *prepositions)), named


def values_of(sentence: str) -> dict[str, str]:
    """Return value -> words for the numbers, dates and times of a sentence: "2 hours" and "120 minutes" have the same value."""
    found = {}
    for fact in read_statement(sentence).facts:
        if (number := fact.quantity) is not None:
            found[f"{number.low:g} {number.high:g} {number.unit}"] = fact.words
        elif fact.kind != "name":
            found[f"{min(fact.minutes)} minutes" if fact.minutes else str(fact.days[0])] = fact.words
    return found


@dataclass(slots=True)
class _Reader:
    """Parses the fact that begins at a token, given by its index. Each method returns None if no fact of its kind begins
    there."""

    text: str
    tokens: list[Token]

    def _at(self, place: int) -> Token:
        return self.tokens[place] if 0 <= place < len(self.tokens) else END_TOKEN

    def _words(self, begin: int, end: int) -> str:
        return self.text[self.tokens[begin].start : self.tokens[end - 1].end]

    # --- dates and times ------------------------------------------------------------------------------------------------

    def date(self, place: int) -> Fact | None:
        token = self.tokens[place]
        days: tuple[Day, ...] = ()
        weekday = WEEKDAYS.get(token.lower.replace("’", "'").removesuffix("'s"))
        if token.kind in ("iso", "slashed", "wide", "day", "month"):
            days = days_of(token)
        elif weekday is not None:
            written = place + 1 + (self._at(place + 1).lower == ",")
            # "Tuesday, 14 February" is one date.
            if self._at(written).kind in ("iso", "slashed", "day", "month"):
                return Fact("date", self._words(place, written + 1), place, written + 1, days=days_of(self._at(written)))
            days = ((None, None, None, weekday),)
        elif token.kind == "word" and token.lower in MONTH_NUMBERS and token.text[0].isupper():
            # Short names of months are also other words, such as "may".
            if token.lower in ALONE or self._at(place - 1).lower in BEFORE_A_MONTH:
                days = ((None, MONTH_NUMBERS[token.lower], None, None),)
        elif token.kind == "number" and re.fullmatch(r"(?:1[89]|20)\d\d", token.text) and self._is_year(place):
            days = ((int(token.text), None, None, None),)
        step = {"after": 1, "before": -1}.get(self._at(place - 1).lower, 0)
        edges = tuple(next_to(days, step)) if step else ()
        return Fact("date", token.text, place, place + 1, days=days, edges=edges) if days else None

    def _is_year(self, place: int) -> bool:
        """Whether four digits are a year. They are not if they have a unit or count something ("2000 customers", unlike "in
        2000")."""
        before, after = self._at(place - 1), self._at(place + 1)
        counts = after.kind == "word" and after.root and after.text.islower() and after.lower.endswith("s")
        unit = after.lower in _MEASURES or after.lower in _SCALES or before.kind == "sign"
        counts = counts and before.lower not in _BEFORE_A_YEAR
        return not (counts or unit or after.start == self.tokens[place].end and after.kind == "word")

    def clock(self, place: int) -> Fact | None:
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
            # 2:30 may be in the afternoon, but 02:30 and 14:30 are unambiguous.
            afternoon = {(hour % 12 + 12) * 60 + minute} if 0 < hour <= 12 and token.text[0] not in "0T" else set()
            minutes = {hour * 60 + minute} | afternoon
        return Fact("time", token.text, place, place + 1, minutes=frozenset(minutes))

    # --- quantities -----------------------------------------------------------------------------------------------------

    def score(self, place: int) -> Fact | None:
        """A score such as 3-1; "1-3" is a range."""
        (first, dash, second) = (self._at(place + step) for step in range(3))
        digits = first.text.isdecimal() and second.text.isdecimal() and len(first.text) < 4
        joined = dash.text in ("-", "–") and first.end == dash.start and dash.end == second.start
        ends = "-" in (self._at(place - 1).text, self._at(place + 3).text) or self._unit(place + 3)[0]
        if not (digits and joined) or ends or int(second.text) > int(first.text):
            return None
        value = 1000.0 * int(first.text) + int(second.text)
        quantity = Quantity(value, value, 1.0, "score", stated=(float(first.text), float(second.text)))
        return Fact("number", self._words(place, place + 3), place, place + 3, quantity)

    def quantity(self, place: int) -> Fact | None:
        if self.tokens[place].kind == "word" and self.tokens[place].lower.rstrip(".") not in _BEGINNINGS:
            return None
        begin = place
        currency = ""
        negative = self._is_minus(place)
        place += negative
        token, following = self._at(place), self._at(place + 1)
        # "Third-quarter revenue", unlike "third-party software".
        in_period = following.text == "-" and self._at(place + 2).lower in ("quarter", "half")
        # "The second was at noon", "came second".
        alone = not {self._at(place - 1).lower, self._at(place - 1).root}.isdisjoint(_BEFORE_ORDINAL)
        if token.lower in _ORDINALS and (following.root or in_period or alone) and not self._number(place - 1):
            value = float(_ORDINALS[token.lower])
            nouns = self._nouns(place, place + 1, "#") if following.root or in_period else frozenset[str]()
            return Fact("number", token.text, place, place + 1, Quantity(value, value, 1.0, "#", nouns, (value,)))
        if self._unit(place)[0] in _CURRENCIES and self._number(place + 1):
            currency, place = self._unit(place)[0], place + 1
        fraction = self._fraction(place)
        found = fraction or self._number(place)
        if found is None:
            return None
        low, grain, place = found
        if not fraction and [self._at(place + step).lower for step in range(3)] == _AND_A_HALF and low == int(low):
            low, grain, place = low + 0.5, 0.5, place + 3
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
        stated = (low,) if low == high else (low, high)
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
        quantity = Quantity(low, high, grain, unit, self._nouns(begin, place, unit), stated, excluded)
        return Fact("amount" if unit in _CURRENCIES else "number", self._words(begin, place), begin, place, quantity)

    def _is_minus(self, place: int) -> bool:
        """Whether the token is a number's minus sign or the word `minus`. The hyphen in "10-15" is not."""
        token, before, after = self._at(place), self._at(place - 1), self._at(place + 1)
        if token.lower in ("minus", "negative"):
            return self._number(place + 1) is not None and not self._number(place - 1)
        joined = after.start == token.end and (after.kind == "number" or self._unit(place + 1)[0] in _CURRENCIES)
        return token.text in ("-", "−") and joined and before.end != token.start and before.kind != "number"

    def _fraction(self, place: int) -> tuple[float, float, int] | None:
        """Return what `_number` returns, for "half of", "a third of", "two thirds of" and "by a quarter", in per cent."""
        many = UNITS_OF_TEN.get(self._at(place).lower, 0)
        end = place + (1 if many or self._at(place).lower == "a" else 0)
        share = _FRACTIONS.get(self._at(end).lower)
        # "By a third" and "to half" name a share, too, but "by third parties" does not.
        is_share = self._at(end + 1).lower == "of" or (self._at(place - 1).lower in ("by", "to") and not self._at(end + 1).root)
        return (share * (many or 1), _ROUGH, end + 1) if share is not None and is_share else None

    def _number(self, place: int) -> tuple[float, float, int] | None:
        """Return the value of a number in digits or words, the size of its last digit, and the index after it."""
        token = self._at(place)
        if token.kind == "number":
            plain, after = plain_numeral(token.text), self._at(place + 1)
            # A decade such as 1990s is neither a number nor a year.
            is_decade = after.lower == "s" and after.start == token.end and len(token.text) == 4
            if is_decade or not re.fullmatch(r"\d{1,30}(\.\d{1,30})?", plain):
                return None
            number, grain = float(plain), 10.0 ** -len(plain.partition(".")[2])
            # "$2m" and "2m containers" are millions; "a 2m wall" is metres.
            counts = self._at(place + 2).root and self._at(place + 2).lower.endswith("s")
            metres = after.text == "m" and not self._is_money(place) and not counts
            attached = _ATTACHED.get(after.lower) if after.start == token.end and not metres else None
            scale = _SCALES.get(after.lower) or _SCALES.get(after.lower.removesuffix("s")) or attached
            if scale is None and after.lower in ("m", "mn", "bn", "mio") and self._is_money(place):
                scale = _ATTACHED[after.lower]
            return (number * scale, grain * scale, place + 2) if scale else (number, grain, place + 1)
        if token.kind != "word":
            return None
        after = self._at(place + 1)
        if token.lower in ("a", "an") and self._unit(place + 1)[0] == "second" and self._at(place - 1).lower in _LASTING:
            return 1.0, 1.0, place + 1
        if token.lower == "half" and after.lower in ("a", "an") and self._unit(place + 2)[0] == "second":
            return 0.5, 0.5, place + 2
        joined = "-" in (self._at(place - 1).lower, after.lower)
        if token.lower in _OTHER_NUMBERS and not joined and (token.lower != "no" or after.root and after.lower != "longer"):
            return float(_OTHER_NUMBERS[token.lower]), 1.0, place + 1
        total, current, after_words = 0, 0, place
        while True:
            here = after_words
            if here > place and self._at(here).lower in ("and", "-") and self._at(here + 1).lower in UNITS_OF_TEN | TENS:
                here += 1
            word = self._at(here).lower
            if word in _SCALES and (current or total):
                total, current = (total + current * _SCALES[word], 0) if word != "hundred" else (total, current * 100)
            elif word in TENS and current % 100 == 0 and (here == after_words or current):
                current += TENS[word]
            elif word in UNITS_OF_TEN and (current == 0 or current % 100 == 0 or (current % 10 == 0 and UNITS_OF_TEN[word] < 10)):
                if here > after_words and self._at(after_words).lower == "and" and current % 100 != 0:
                    break
                current += UNITS_OF_TEN[word]
            else:
                break
            after_words = here + 1
        if after_words == place:
            return None
        named = after.lower == "of" or (after.root and self._at(place - 1).lower not in _NO_COUNT)
        counts = after.lower in _MEASURES or (named and not _EXAMPLE.match(self.text, token.start))
        if after_words == place + 1 and token.lower == "one" and not counts:
            return None
        return float(total + current), 1.0, after_words

    def _is_money(self, place: int) -> bool:
        return self._unit(place - 1)[0] in _CURRENCIES

    def _unit(self, place: int) -> tuple[str, float]:
        token = self._at(place)
        return _MEASURES.get(token.lower.rstrip("."), ("", 1.0)) if token.kind in ("word", "sign") else ("", 1.0)

    def _measure(self, place: int, currency: str) -> tuple[str, float, int]:
        """Return the unit after a number, the unit's size in the base unit, and the index after it."""
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
        """Add the smaller units of a quantity such as 1 hour and 30 minutes, 2h 5m 10s, or an hour and a half."""
        if [self._at(place + step).lower for step in range(3)] == _AND_A_HALF and low == high:
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
        """Return the roots of the two words after a number and its unit. If the number counts nothing or is part of a name
        ("Boeing 737"), return the root of the word before it."""
        while self._at(place).lower in ("of", "the", "all", "its", "their", "our", "-", "more", "other"):
            place += 1
        after = [self._at(place), self._at(place + 1)]
        found = [token.root for token in (after if after[0].root else [])[:2] if token.root and token.kind != "number"]
        before = self._at(begin - 1)
        if not unit and before.root and before.lower not in ("above", "below") and (not found or before.text[0].isupper()):
            found.append(before.root)
        return frozenset(found)

    # --- names ----------------------------------------------------------------------------------------------------------

    def name(self, place: int) -> Fact | None:
        if self.tokens[place].kind == "label" or re.search(r"[^\W\d_]\d", self.tokens[place].text):
            return Fact("name", self.tokens[place].text, place, place + 1, name=(self.tokens[place].lower,))
        end = place
        for token in self.tokens[place:]:
            if token.kind != "word" or not token.text[0].isupper() or not token.root or token.lower in _NO_NAMES:
                break
            end += 1
        if end == place:
            return None
        words = [token for token in self.tokens[place:end] if token.lower not in TITLES] or self.tokens[place:end]
        name = tuple(token.root for token in words)
        begins = end == place + 1 and self._at(place - 1).kind in ("", "mark") and not self.tokens[place].text[1:2].isupper()
        follows = self._at(end).lower
        past = follows in BASE or follows.endswith("ed") or follows in ("was", "has", "had", "did", "is", "will")
        acts = begins and past and not self.tokens[place].lower.endswith(("s", "ly", "ing"))
        return Fact("name", self._words(place, end), place, end, name=name, begins=begins, acts=acts)


def plain_numeral(numeral: str) -> str:
    """Return a numeral without thousands separators and with a decimal point: 1,025 and 1 025 become 1025, 1,5 becomes 1.5."""
    plain = re.sub(r"[ \u00a0\u202f'’]", "", numeral)
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", plain):
        return plain.replace(",", "")
    if re.fullmatch(r"\d{1,3}(\.\d{3}){2,}(,\d+)?|\d{1,3}\.\d{3},\d+", plain):
        return plain.replace(".", "").replace(",", ".")
    return plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain
