"""Part of the synth room's writer: sentences of a text, and the words, numbers and names in them. For the writer alone.

It is simple on purpose: it serves the offline model alone. The checks of haystacks have their own reader, `synth.words`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from summhay_ray.text import FUNCTION_WORDS as FUNCTION_WORDS_OF_TEXT
from summhay_ray.text import MONTHS

_MONTH = "|".join(MONTHS)
DATE = rf"(?:\d{{1,2}} (?:{_MONTH})(?: \d{{4}})?|(?:{_MONTH}) \d{{1,2}}, \d{{4}}|(?:{_MONTH}) \d{{4}}|\d{{4}}-\d\d-\d\d)"
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"

_TOKEN = re.compile(rf"{NUMBER}|[^\W\d_]+(?:['’][^\W\d_]+)*")
_END = re.compile(r"[.!?][\"”'’)\]]*\s+(?=[\"“'‘(\[]?[^\sa-z])")
_ABBREVIATED = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|No|vs|Inc|Ltd|Co|Jr|Sr|e\.g|i\.e|approx)|\b[A-Z])\.$")
_SPEAKER = re.compile(r"^(?!(?:[^\s:]+ ){2,}[^\s:]+: +[\"“])([^\s:.!?\"][^:.!?\"\n]{0,40}): +(?=\S)")
_ROOT = 5

_OPENING = """
    above according across additionally again almost along always among around become behind below beside besides beyond currently
    despite due else enough ever everybody everyone everything finally following further given hence hers indeed initially inside
    instead itself later least less like meanwhile mine moreover near never nevertheless nobody none nothing now off often once
    others overall perhaps rather recently similarly somebody someone something soon still themselves therefore throughout thus
    today together unless whatever
"""
FUNCTION_WORDS = FUNCTION_WORDS_OF_TEXT - frozenset(["d", "ll", "m", "re", "s", "t", "ve", "via"]) | frozenset(_OPENING.split())
"""English words that may open a sentence without being a name, and are no content words."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text. `tokens`: in lower case, numbers without commas; `facts`: tokens that are numbers or parts of names;
    `roots`: of the content words; `doubtful`: tokens with a capital, names or not."""

    tokens: frozenset[str]
    facts: frozenset[str]
    roots: frozenset[str]
    doubtful: frozenset[str]


def split_sentences(line: str) -> list[str]:
    """The sentences of one line; joined by blanks they are the line, apart from the number of blanks between them."""
    sentences, start = [], 0
    for end in _END.finditer(line):
        if _ABBREVIATED.search(line[start : end.start() + 1]):
            continue
        sentences.append(line[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in [*sentences, line[start:].strip()] if sentence]


def speaker_of(line: str) -> str:
    """The `Name: ` at the beginning of a turn of a conversation; else empty, also for `The statement reads: "..."`."""
    match = _SPEAKER.match(line)
    return match.group() if match else ""


@lru_cache(maxsize=1 << 16)
def words_of(text: str) -> Words:
    """The words of a text of any length."""
    tokens: set[str] = set()
    facts: set[str] = set()
    doubtful: set[str] = set()
    roots: set[str] = set()
    matches = list(_TOKEN.finditer(text))
    for place, match in enumerate(matches):
        token = match.group()
        plain = _plain(token)
        tokens.add(plain)
        if token[0].isdigit():
            facts.add(plain)
            continue
        if plain not in FUNCTION_WORDS:
            roots.add(root(plain))
            if token[0].isupper() and len(plain) > 1:
                doubtful.add(plain)
                follower = matches[place + 1].group() if place + 1 < len(matches) else ""
                if not _opens(text, match.start()) or follower[:1].isupper() or token[1:] != token[1:].lower():
                    facts.add(plain)
    return Words(frozenset(tokens), frozenset(facts), frozenset(roots), frozenset(doubtful))


def root(word: str) -> str:
    """The first five letters of a lower-case word, without a plural's s."""
    plain = word.removesuffix("s") if len(word) > 3 else word
    return plain[:_ROOT]


def _plain(token: str) -> str:
    if token[0].isdigit():
        return token.replace(",", "")
    lower = token.lower()
    return lower[:-2] if lower.endswith(("'s", "’s")) else lower


def _opens(text: str, start: int) -> bool:
    """Whether a sentence begins at `start`."""
    before = text[:start].rstrip(" \"“'‘([")
    return not before or before[-1] in ".!?:\n"


def complete(text: str) -> str:
    """The text as a sentence on one line: capitalized, with punctuation at its end."""
    plain = " ".join(text.split())
    if not plain:
        return ""
    plain = plain[0].upper() + plain[1:]
    return plain if plain.rstrip("\"”'’)]")[-1:] in tuple(".!?") else plain + "."


def lower_start(sentence: str) -> str | None:
    """The sentence with a small first letter unless it is a name's; None if it is unclear whether the first word is a name."""
    match = re.match(r"[^\W_]+(?:['’-][^\W_]+)*", sentence)
    if match is None:
        return None
    first, follower = match.group(), sentence[match.end() : match.end() + 2].strip()
    if first == "I" or first.startswith(("I'", "I’")) or not first[0].isalpha() or first[0].islower():
        return sentence
    if first.lower() in FUNCTION_WORDS:
        return first[0].lower() + sentence[1:]
    names = first[1:] != first[1:].lower() or follower[:1].isupper()
    return sentence if names else None


def count(text: str) -> int:
    """The number of words, separated by blanks."""
    return len(text.split())
