"""Sentences and words of texts in any script, chunks of limited length, function words, and stems.

The papers' tokenizers support only ASCII letters: for them, a text in Hindi, Thai, Arabic or Chinese has no words and one
sentence. ICU, Unicode's own library, has rules for all scripts (UAX #29), and dictionaries for scripts without blanks between
words.
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

from summhay_ray.text.tokens import count_tokens, first_tokens

ABBREVIATIONS = ("Mr", "Ms", "Dr", "St", "No", "vs", "Mrs", "Inc", "Ltd")
"""Abbreviations. Their full stop does not end a sentence."""

_BEFORE_ORDINAL = ("am", "im", "vom", "zum", "beim", "der", "dem", "des", "seit")
"""German words before an ordinal number of one or two digits with a full stop ("am 3. Mai")."""
_BREAKS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_WIDE_END = re.compile("[。！？]")
_LONGEST = 600
"""Maximum length in characters, about 100 words. Longer text lacks sentence ends, so it is cut."""


def sentences(text: str, abbreviations: tuple[str, ...] = ABBREVIATIONS) -> list[str]:
    """Return the sentences of a text in order, stripped. A line break ends a sentence; no sentence is longer than 600 characters.

    The full stop of an abbreviation, or of a German ordinal number after a preposition or article, does not end a sentence.
    """
    pieces = []
    for part in _end(abbreviations).split(_WIDE_END.sub("\\g<0>\n", text)):
        sentence, start = part.strip(), 0
        while len(sentence) - start > _LONGEST:
            space = sentence.rfind(" ", start + 1, start + _LONGEST)
            end = space if space > 0 else start + _LONGEST
            pieces.append(sentence[start:end].strip())
            start = end
        pieces.append(sentence[start:].strip())
    return [piece for piece in pieces if piece]


@functools.cache
def _end(abbreviations: tuple[str, ...]) -> re.Pattern[str]:
    ordinals = [rf"[{word[0].upper()}{word[0]}]{word[1:]} {digits}" for word in _BEFORE_ORDINAL for digits in (r"\d", r"\d\d")]
    none_of_them = "".join(rf"(?<!\b{word}\.\s)" for word in (*abbreviations, *ordinals))
    # A search is fast if the pattern begins with a single character class.
    return re.compile(
        rf"\s(?:(?:(?<=[.!?]\s)|(?<=[.!?][\"'”’)\]]\s)){none_of_them}\s*+(?=[^a-z\s])|(?<=[{_BREAKS}])[{_BREAKS}]*)"
    )


_NO_END = "".join(rf"(?<!\b{word}\.)" for word in ABBREVIATIONS)
_PIECE = re.compile(rf".+?(?:\n\s*\n|(?<=[.!?。！？]){_NO_END}[\"'”’)\]]*\s+|\n|\Z)", re.DOTALL)


def chunks(text: str, most_tokens: int) -> list[tuple[int, int]]:
    """Return (begin, end) offsets of consecutive chunks of at most `most_tokens` cl100k tokens, without surrounding white space.

    A chunk has as many whole sentences or lines as fit. Only a sentence longer than a chunk is cut. The chunks cover every word.
    Raises ValueError for less than one token.
    """
    if most_tokens < 1:
        raise ValueError(f"chunks of {most_tokens} tokens; expected at least 1")
    found: list[tuple[int, int]] = []
    begin, size = 0, 0
    for start, end in _fitting(text, most_tokens):
        length = count_tokens(text[start:end])
        # Joining two texts can add a token.
        if size and (size + length + 1 > most_tokens and count_tokens(text[begin:end].strip()) > most_tokens):
            found.append((begin, start))
            begin, size = start, 0
        size += length
    found.append((begin, len(text)))
    filled = [(begin, text[begin:end]) for begin, end in found if text[begin:end].strip()]
    return [(begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())) for begin, part in filled]


def _fitting(text: str, most_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of consecutive sentences or lines. One longer than `most_tokens` is cut."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        while count_tokens(text[start:end].strip()) > most_tokens:
            step = len(first_tokens(text[start:end], most_tokens)) or 1
            yield start, start + step
            start += step
        if start < end:
            yield start, end


UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Character ranges, for a regular expression, of scripts without blanks between words (Chinese, Japanese, Thai, ...). Each of
their characters counts as a word."""

_CLOSED_CLASSES = """
    a about after against all also although am an and another any are as at be because been before being between both but by
    can could d did do does doing down during each either even every few for from had has have having he her here him his how
    however i if in into is it its just ll m many may me might more most much must my neither no nor not of on only onto or
    other our out over own per re s same several shall she should since so some such t than that the their them then there
    these they this those though through to too toward towards under until up upon us ve very via was we were what when where
    whether which while who whom whose why will with within without would yet you your
"""
FUNCTION_WORDS = frozenset(_CLOSED_CLASSES.split())
"""English function words, which have no topic of their own."""

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

_PLAIN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


def plain_words(text: str) -> list[str]:
    """Return the words and numerals of a text in order, in lower case, without punctuation."""
    return _PLAIN.findall(unicodedata.normalize("NFKC", text).casefold())


_VOWEL = re.compile("[aeiouy]")
_ROOT = 5


def stem(word: str) -> str:
    """Remove the plural, past tense or participle ending from a lower-case word. Also remove a final e, because endings replace
    it."""
    if len(word) <= 3:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 3 and not word.endswith(("ss", "eed")) and _VOWEL.search(root):
            word = root
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


@functools.lru_cache(maxsize=1 << 15)
def root(word: str) -> str:
    """Return the first five letters of a lower-case word's stem: prescribe and prescription have the same root."""
    return stem(word)[:_ROOT]


def content_roots(text: str) -> list[str]:
    """Return the roots of a text's words in order, without function words."""
    return [root(word) for word in plain_words(text) if word not in FUNCTION_WORDS]


Script = Literal["auto", "latin"]
"""auto: ICU tokenizes texts that are not Latin. latin: the papers' tokenizers are used for every text."""

_LATIN = (
    "A-Za-z\u00aa\u00ba\u00c0-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2070-\u209f\u2100-\u218f\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f"
    "\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_LETTER = re.compile(r"[^\W\d_]")
_OTHER = re.compile(rf"[^\W\d_{_LATIN}]")
_SHARE = 10
"""A text is Latin if fewer than one in ten letters are of another script, since English text may mention a Greek letter."""
_BLANK = re.compile(r"(?<=[\u0e00-\u0eff])\s+(?=[\u0e00-\u0eff])")
"""Thai and Lao have a blank after a sentence, and none between words."""


def is_latin(*texts: str) -> bool:
    """Whether the letters of all the texts together are mostly Latin."""
    foreign = [text for text in texts if not text.isascii()]
    # A fraction or a circled number is not a letter.
    n_others = sum(sum(map(str.isalpha, _OTHER.findall(text))) for text in foreign)
    return not n_others or n_others * _SHARE < sum(len(_LETTER.findall(text)) for text in texts)


def words_of(text: str) -> list[str]:
    """Return the words and numbers of a text in any script, in order, case-folded; punctuation is left out."""
    from icu4py.breakers import WordBreaker

    pieces = WordBreaker(unicodedata.normalize("NFC", text), "und")
    return [unicodedata.normalize("NFKC", word).casefold() for word in map(str, pieces) if any(map(str.isalnum, word))]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text in any script, in order, without the white space between them."""
    from icu4py.breakers import SentenceBreaker

    found = (part.strip() for sentence in map(str, SentenceBreaker(text, "und")) for part in _BLANK.split(sentence))
    return [sentence for sentence in found if sentence]


_LOCK = threading.Lock()


def whole_nltk() -> Any:
    """Import the package `nltk` in one thread at a time.

    Call it before importing anything that imports a module of NLTK. Otherwise, two threads that import two of NLTK's modules for
    the first time can deadlock.
    """
    with _LOCK:
        import nltk
    return nltk
