"""Room summarize, offline models: terms and sentences of a text, and bullets. Imported by this folder alone; imports text.

Titles, function words and endings of its own: the answers of these models depend on them, and other ones are another `revision`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from summhay_ray.text import FUNCTION_WORDS, sentences

# Kana and CJK ideographs are written without spaces: there, each character is a term.
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_TERM = re.compile(rf"\d+(?:[.,]\d+)*|[{_WIDE}]|[^\W\d_{_WIDE}][^\W_{_WIDE}]*")
_SUFFIXES = ("ies", "es", "s", "ing", "ed")
_SHORTEST_STEM = 4
# A term longer than any word of a language is noise (base64, a line without spaces): its beginning identifies it.
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
    """The sentences of `text` in their order, stripped, none longer than 600 characters."""
    return sentences(text, _TITLES)


def terms_of(text: str) -> list[str]:
    """The words of `text` in their order, lower case, without function words and without the commonest English endings."""
    words = (word[:_LONGEST_TERM] for word in _TERM.findall(text.lower()))
    return [_stem(word) for word in words if word not in _FUNCTION_WORDS]


def as_bullet(sentence: str, numbers: list[int]) -> str:
    """One line: the sentence and its citations. Brackets and line breaks of the document's own cannot pass for ours."""
    return f"- {as_sentence(sentence)} " + "".join(f"[{number}]" for number in numbers)


def as_text(sentences: Iterable[str]) -> str:
    """The sentences as one text; where there is none, that the documents say nothing: a text is asked for, and this is one."""
    return " ".join(map(as_sentence, sentences)) or "The documents do not say."


def as_sentence(sentence: str) -> str:
    """The sentence on one line, without brackets and without a bullet's mark."""
    return " ".join(_UNPRINTABLE.sub(" ", sentence).translate(_BRACKETS).split()).lstrip("-*•– ")


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word
