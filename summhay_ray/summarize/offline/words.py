"""Room summarize, offline models: words and sentences of a text. Imported by this folder alone; imports nothing of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Kana and CJK ideographs are written without spaces: there, each character is a term.
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_TERM = re.compile(rf"\d+(?:[.,]\d+)*|[{_WIDE}]|[^\W\d_{_WIDE}][^\W_{_WIDE}]*")
_SENTENCE_END = re.compile(
    r"(?<!\b(?:Mr|Ms|Dr|St)\.)(?:(?<=[.!?])|(?<=[.!?][\"'”’)\]]))\s+(?=[^a-z\s])"
    r"|(?<=[。！？])|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+"
)
_SUFFIXES = ("ies", "es", "s", "ing", "ed")
_SHORTEST_STEM = 4
# A term longer than any word of a language is noise (base64, a line without spaces): its beginning identifies it.
_LONGEST_TERM = 40
# About 100 words: a "sentence" beyond that is a text without sentence ends, and is cut.
_LONGEST_SENTENCE = 600

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_BRACKETS = str.maketrans("[]【】［］", "()()()")

# Closed-class English words: they say nothing about what a sentence is about. Other languages do without a list.
_FUNCTION_WORDS = """
    a about after all also an and any are as at be been before being both but by can could d did do does during each for
    from had has have having he her here hers him his how i if in into is it its itself just ll m may me might more most
    must my no nor not of on once only or other our ours out over own re s same shall she should so some such t than
    that the their theirs them then there these they this those through to too under until up us ve very was we were
    what when where which while who whom whose why will with would you your yours
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


def sentences_of(text: str) -> list[str]:
    """The sentences of `text` in their order, stripped, none longer than 600 characters."""
    found: list[str] = []
    for part in _SENTENCE_END.split(text):
        found.extend(_pieces(part.strip()))
    return found


def terms_of(text: str) -> list[str]:
    """The words of `text` in their order, lower case, without function words and without the commonest English endings."""
    words = (word[:_LONGEST_TERM] for word in _TERM.findall(text.lower()))
    return [_stem(word) for word in words if word not in FUNCTION_WORDS]


def as_bullet(sentence: str, numbers: list[int]) -> str:
    """One line: the sentence and its citations. Brackets and line breaks of the document's own cannot pass for ours."""
    plain = " ".join(_UNPRINTABLE.sub(" ", sentence).translate(_BRACKETS).split()).lstrip("-*•– ")
    return f"- {plain} " + "".join(f"[{number}]" for number in numbers)


def _pieces(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > _LONGEST_SENTENCE:
        space = sentence.rfind(" ", start + 1, start + _LONGEST_SENTENCE)
        end = space if space > 0 else start + _LONGEST_SENTENCE
        yield sentence[start:end].strip()
        start = end
    if start < len(sentence):
        yield sentence[start:].strip()


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word
