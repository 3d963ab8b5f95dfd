"""The Punkt sentence splitter for English (Kiss and Strunk, 2006), which some papers require.

The rules and the trained parameters are those of NLTK (3.10). They are reimplemented because importing NLTK takes seconds. The
parameters are in `data/punkt_english` (data/README.txt names their source). Nothing is downloaded or unpickled.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_MARKS = "()\";}\\]*:@'{\\[\u2018\u2019\u201c\u201d\u00ab\u00bb?!"
_DOTS = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_STOP = rf"[{_MARKS}]|{_DOTS}"
_TOKEN = re.compile(rf"{_DOTS}|(?![(\"`{{\[:;&#*@)}}\]\-,])\S+?(?=\s|$|{_STOP}|,(?=$|\s|{_STOP}))|\S")
"""Matches a token: dashes or dots, a word up to the mark that ends it (a full stop belongs to the word), or a single sign."""
_END = re.compile(rf"[.?!](?=(?P<after>[{_MARKS}]|\s+(?P<next>\S+)))")
"""Matches a possible end of a sentence, and what follows."""
_CLOSING = re.compile("[\"')\\]}\u2018\u2019\u201c\u201d\u00ab\u00bb]+?(?:\\s+|(?=--)|$)", re.MULTILINE)
"""Matches quotation marks and brackets that belong to the sentence before them."""
_BLANKS = " \t\n\r\v\f"
_NUMBER = re.compile(r"^-?[.,]?\d[\d,.\-]*\.?$")
_NUMBER_TYPE: Final = "##number##"
_INITIAL = re.compile(r"[^\W\d]\.$")
_ELLIPSIS = re.compile(r"\.\.+$")
_PLAIN_END = re.compile(r"([A-Za-z]{2,})\.\s+([A-Za-z]+),?")
"""Matches a word, a full stop and the next word."""

_UPPER_WITHIN, _UPPER = 1 << 2, 0b1110
_LOWER_FIRST, _LOWER = 1 << 4, 0b1110000
"""Bits that record where training saw a word. `_UPPER_WITHIN`: capitalized within a sentence; `_UPPER`: capitalized anywhere.
`_LOWER_FIRST`: in lower case at the beginning of a sentence; `_LOWER`: in lower case anywhere."""


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
    """The token in lower case; `##number##` for a number."""
    bare: str
    """`kind` without its full stop."""
    ends: bool
    """Whether a sentence ends after it."""
    short: bool
    """Whether it is an abbreviation or an ellipsis."""


def punkt_sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, like `nltk.sent_tokenize(text)`, without the white space between them."""
    # Possible ends of sentences, each with the offset of the word before it. If a word has several, the last one counts.
    possible: list[tuple[re.Match[str], int]] = []
    word = stop = 0
    for mark in _END.finditer(text):
        blank = max(text.rfind(blank, stop, mark.start()) for blank in _BLANKS)
        # As in NLTK, a blank directly after the previous end does not count.
        begin = blank + 1 if blank > stop else word
        if possible and stop > begin:
            possible.pop()
        possible.append((mark, begin))
        word, stop = begin, mark.start()
    # (Begin, end) of each sentence.
    spans: list[tuple[int, int] | None] = []
    begin = 0
    for mark, word in possible:
        if _ends(f"{text[word : mark.end()]}{mark['after']}"):
            spans.append((begin, mark.end()))
            begin = mark.end() if mark["next"] is None else mark.start("next")
    spans += [(begin, len(text.rstrip())), None]
    # Closing marks move to the sentence that they close.
    sentences = []
    moved = 0
    for span, following in itertools.pairwise(spans):
        assert span is not None
        begin, end = span[0] + moved, span[1]
        closing = _CLOSING.match(text, *following) if following else None
        moved = len(closing[0]) if closing else 0
        if closing and following:
            end = following[0] + len(closing[0].rstrip())
        if closing or text[begin:end]:
            sentences.append(text[begin:end])
    return sentences


def _ends(context: str) -> bool:
    """Whether a sentence ends within `context`, which is a word, a mark that may end a sentence, and what follows."""
    known = _parameters()
    if plain := _PLAIN_END.fullmatch(context):
        # For plain words, two look-ups suffice.
        word, following = plain[1].lower(), plain[2].lower()
        if word not in known.abbreviations:
            return (word, following) not in known.collocations
    tokens = [_token(token, known) for line in context.split("\n") for token in _TOKEN.findall(line)]
    return any(_ends_before(*pair, known) for pair in itertools.pairwise(tokens))


def _token(text: str, known: _Parameters) -> _Token:
    """Return a token, classified without its context."""
    lower = text.lower()
    kind = _NUMBER.sub(_NUMBER_TYPE, lower)
    bare = kind[:-1] if len(kind) > 1 and kind.endswith(".") else kind
    if text in (".", "?", "!"):
        return _Token(text, kind, bare, ends=True, short=False)
    if not text.endswith(".") or text.endswith(".."):
        return _Token(text, kind, bare, ends=False, short=_ELLIPSIS.match(text) is not None)
    short = not known.abbreviations.isdisjoint((text[:-1].lower(), text[:-1].lower().rpartition("-")[2]))
    return _Token(text, kind, bare, ends=not short, short=short)


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
    # Whether the next token begins a sentence, judged by how training saw its word; None if undecided.
    seen, begins = known.contexts.get(next_kind, 0), None
    if following.text in (";", ":", ",", ".", "!", "?"):
        begins = False
    elif capital and seen & _LOWER and not seen & _UPPER_WITHIN:
        begins = True
    elif following.text[0].islower() and (seen & _UPPER or not seen & _LOWER_FIRST):
        begins = False
    if token.short and not initial and (begins or (capital and next_kind in known.starters)):
        return True
    if initial or kind == _NUMBER_TYPE:
        always_capital = begins is None and initial and capital and not seen & _LOWER
        return token.ends and begins is not False and not always_capital
    return token.ends


@functools.cache
def _parameters() -> _Parameters:
    folder = files("summhay_ray.text") / "data" / "punkt_english"
    names = ("abbrev_types.txt", "sent_starters.txt", "collocations.tab", "ortho_context.tab")
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    abbreviations, starters, collocations, contexts = ([line for line in text.split("\n") if line] for text in texts)
    return _Parameters(
        abbreviations=frozenset(abbreviations),
        starters=frozenset(starters),
        collocations=frozenset(tuple(line.split("\t")) for line in collocations),
        contexts={word: int(flags) for word, flags in (line.split("\t") for line in contexts)},
    )
