"""Terms and sentences of a text, and formatting of answers, for the offline models.

The titles, function words and suffixes are fixed here because answers depend on them: a change requires a new `revision` of the
models.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from summhay_ray.text import FUNCTION_WORDS, sentences

# Kana and CJK ideographs are written without spaces, so each character is a term.
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_TERM = re.compile(rf"\d+(?:[.,]\d+)*|[{_WIDE}]|[^\W\d_{_WIDE}][^\W_{_WIDE}]*")
_SUFFIXES = ("ies", "es", "s", "ing", "ed")
_SHORTEST_STEM = 4
# A longer term is noise (base64, a line without spaces) and is cut to this many characters.
_LONGEST_TERM = 40

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_BRACKETS = str.maketrans("[]【】［］", "()()()")

_TITLES = ("Mr", "Ms", "Dr", "St")
# Function words that count as terms here.
_TELLING = """
    against although am another because between doing down either even every few however many much neither onto per several since
    though toward towards upon via whether within without yet
"""
_FUNCTION_WORDS = FUNCTION_WORDS - frozenset(_TELLING.split()) | {"hers", "itself", "once", "ours", "theirs", "yours"}


def sentences_of(text: str) -> list[str]:
    """The sentences of `text` in order, stripped, each at most 600 characters long."""
    return sentences(text, _TITLES)


def terms_of(text: str) -> list[str]:
    """The words of `text` in order, in lower case, without function words and common English suffixes."""
    words = (word[:_LONGEST_TERM] for word in _TERM.findall(text.lower()))
    return list(filter(None, map(_term, words)))


def as_bullet(sentence: str, numbers: list[int]) -> str:
    """A bullet with citations. Brackets and line breaks in the sentence are replaced, so that they cannot imitate ours."""
    return f"- {as_sentence(sentence)} " + "".join(f"[{number}]" for number in numbers)


NOTHING_SAID = "The documents do not say."


def as_text(sentences: Iterable[str]) -> str:
    """The sentences as one text; without sentences, a text that says so, since a text is expected."""
    return " ".join(map(as_sentence, sentences)) or NOTHING_SAID


def as_sentence(sentence: str) -> str:
    """The sentence on one line, with parentheses for square brackets, and without a leading bullet mark."""
    return " ".join(_UNPRINTABLE.sub(" ", sentence).translate(_BRACKETS).split()).lstrip("-*•– ")


# A language has few words, and its texts repeat them.
@functools.lru_cache(maxsize=32_768)
def _term(word: str) -> str:
    """The term that a word in lower case stands for; empty for a function word."""
    if word in _FUNCTION_WORDS:
        return ""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word
