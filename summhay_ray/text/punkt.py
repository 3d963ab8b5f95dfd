"""The Punkt sentence splitter for English (Kiss and Strunk, 2006), which some papers require.

The rules and the trained parameters are those of NLTK (3.10), reimplemented: importing NLTK takes seconds. The parameters are in
`data/punkt_english` (data/README.txt names their source); nothing is downloaded or unpickled.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_MARKS = "()\";}\\]*:@'{\\[\u2018\u2019\u201c\u201d\u00ab\u00bb?!"
_DOTS = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_STOP = rf"[{_MARKS}]|{_DOTS}"
_TOKEN = re.compile(rf"{_DOTS}|(?![(\"`{{\[:;&#*@)}}\]\-,])\S+?(?=\s|$|{_STOP}|,(?=$|\s|{_STOP}))|\S")
"""A token: dashes or dots, a word up to the mark that ends it (a full stop belongs to the word), or a single sign."""
_END = re.compile(rf"[.?!](?=(?P<after>[{_MARKS}]|\s+(?P<next>\S+)))")
"""A possible end of a sentence, with what follows."""
_CLOSING = re.compile("[\"')\\]}\u2018\u2019\u201c\u201d\u00ab\u00bb]+?(?:\\s+|(?=--)|$)", re.MULTILINE)
"""Quotation marks and brackets that belong to the sentence before them."""
_BLANKS = " \t\n\r\v\f"
_NUMBER = re.compile(r"^-?[.,]?\d[\d,.\-]*\.?$")
_NUMBER_TYPE: Final = "##number##"
_INITIAL = re.compile(r"[^\W\d]\.$")
_ELLIPSIS = re.compile(r"\.\.+$")
_PLAIN_END = re.compile(r"([A-Za-z]{2,})\.\s+([A-Za-z]+),?")
"""A word, a full stop and the next word."""

_UPPER_WITHIN, _UPPER = 1 << 2, 0b1110
_LOWER_FIRST, _LOWER = 1 << 4, 0b1110000
"""Bits of a word's orthographic context: seen with a capital within a sentence, or anywhere; with a small letter at the beginning
of a sentence, or anywhere."""


@dataclass(frozen=True)
class _Parameters:
    abbreviations: frozenset[str]
    starters: frozenset[str]
    collocations: frozenset[tuple[str, ...]]
    contexts: Mapping[str, int]


@dataclass(slots=True)
class _Token:
    text: str
    kind: str
    """The token in small letters; `##number##` for a number."""
    ends: bool
    """A sentence ends after it."""
    short: bool
    """An abbreviation or an ellipsis."""

    @property
    def bare(self) -> str:
        """`kind` without its full stop."""
        return self.kind[:-1] if len(self.kind) > 1 and self.kind.endswith(".") else self.kind


def punkt_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, as `nltk.sent_tokenize(text)` gives them, without the white space between them."""
    found = []
    spans = [*_spans(text), None]
    moved = 0
    for span, following in itertools.pairwise(spans):
        assert span is not None
        begin, end = span[0] + moved, span[1]
        closing = _CLOSING.match(text, *following) if following else None
        moved = len(closing[0]) if closing else 0
        if closing and following:
            end = following[0] + len(closing[0].rstrip())
        if closing or text[begin:end]:
            found.append(text[begin:end])
    return found


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """(begin, end) of each sentence, before closing marks are moved to the sentence that they close."""
    begin = 0
    for end, word in _possible_ends(text):
        if _ends(f"{text[word : end.end()]}{end['after']}"):
            yield begin, end.end()
            begin = end.end() if end["next"] is None else end.start("next")
    yield begin, len(text.rstrip())


def _possible_ends(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """The possible ends of sentences, each with the offset of the word before it; for several in one word, the last one."""
    last, word, stop = None, 0, 0
    for end in _END.finditer(text):
        blank = max(text.rfind(blank, stop, end.start()) for blank in _BLANKS)
        # As in NLTK, a blank directly after the previous end does not count.
        begin = blank + 1 if blank > stop else word
        if last and stop <= begin:
            yield last, word
        last, word, stop = end, begin, end.start()
    if last:
        yield last, word


def _ends(context: str) -> bool:
    """Whether a sentence ends within `context`: a word, a mark that may end a sentence, and what follows."""
    known = _parameters()
    if plain := _PLAIN_END.fullmatch(context):
        # For plain words, two look-ups decide.
        word, following = plain[1].lower(), plain[2].lower()
        if word not in known.abbreviations:
            return (word, following) not in known.collocations
    tokens = [_token(token, known) for line in context.split("\n") for token in _TOKEN.findall(line)]
    return any(_ends_before(*pair, known) for pair in itertools.pairwise(tokens))


def _token(text: str, known: _Parameters) -> _Token:
    """A token, classified without its context."""
    lower = text.lower()
    kind = _NUMBER.sub(_NUMBER_TYPE, lower)
    if text in (".", "?", "!"):
        return _Token(text, kind, ends=True, short=False)
    if not text.endswith(".") or text.endswith(".."):
        return _Token(text, kind, ends=False, short=_ELLIPSIS.match(text) is not None)
    short = not known.abbreviations.isdisjoint((text[:-1].lower(), text[:-1].lower().rpartition("-")[2]))
    return _Token(text, kind, ends=not short, short=short)


def _ends_before(token: _Token, following: _Token, known: _Parameters) -> bool:
    """Whether a sentence ends between two tokens."""
    if not token.text.endswith("."):
        return token.ends
    kind, next_kind = token.bare, following.bare if following.ends else following.kind
    if (kind, next_kind) in known.collocations:
        return False
    # A superscript or a fraction is not a letter, although `\w` matches it.
    initial = _INITIAL.match(token.text) is not None and unicodedata.category(token.text[0]) != "No"
    capital = following.text[0].isupper()
    begins = _begins_sentence(following, next_kind, known)
    if token.short and not initial and (begins or (capital and next_kind in known.starters)):
        return True
    if initial or kind == _NUMBER_TYPE:
        always_capital = begins is None and initial and capital and not known.contexts.get(next_kind, 0) & _LOWER
        return token.ends and begins is not False and not always_capital
    return token.ends


def _begins_sentence(token: _Token, kind: str, known: _Parameters) -> bool | None:
    """Whether a token is the first of a sentence, by how its word was seen in training; None if undecided."""
    if token.text in (";", ":", ",", ".", "!", "?"):
        return False
    seen = known.contexts.get(kind, 0)
    if token.text[0].isupper() and seen & _LOWER and not seen & _UPPER_WITHIN:
        return True
    if token.text[0].islower() and (seen & _UPPER or not seen & _LOWER_FIRST):
        return False
    return None


@functools.cache
def _parameters() -> _Parameters:
    folder = files("summhay_ray.text") / "data" / "punkt_english"

    def lines(name: str) -> list[str]:
        return [line for line in (folder / name).read_text(encoding="utf-8").split("\n") if line]

    contexts = (line.split("\t") for line in lines("ortho_context.tab"))
    return _Parameters(
        abbreviations=frozenset(lines("abbrev_types.txt")),
        starters=frozenset(lines("sent_starters.txt")),
        collocations=frozenset(tuple(line.split("\t")) for line in lines("collocations.tab")),
        contexts={word: int(flags) for word, flags in contexts},
    )
