"""ROUGE-N by the rules of py-rouge 1.1 (D. Antognini), which the paper extracts and scores with.

py-rouge follows ROUGE-1.5.5: words are ASCII letters and digits, a table of irregular words comes first, then Porter's original
stemmer. Google's `rouge_score` differs in all three. `data/README.txt` gives the source of the tables. py-rouge itself is
unmaintained and needs an old setuptools, so its rules are reimplemented here and tested against its results.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from summhay_ray.text import Script, is_latin, whole_nltk, words_of

_OTHER = re.compile(r"[^A-Za-z0-9]")
_SPLIT = {"gonna": ("gon", "na"), "wanna": ("wan", "na"), "gotta": ("got", "ta"), "gimme": ("gim", "me"), "lemme": ("lem", "me")}
"""The words of letters and digits that NLTK's tokenizer splits, except `cannot`, which py-rouge keeps whole."""
_LONG = 3
"""Words of at most this many letters are not stemmed."""


@dataclass(frozen=True, slots=True)
class RougeScore:
    """Clipped n-gram overlap of a text with a reference, each 0..1."""

    precision: float
    recall: float
    f1: float


def rouge_n(text: str, reference: str, n: int, stem: bool = True, script: Script = "auto") -> RougeScore:
    """ROUGE-`n` of a text against one reference; all 0 if either has no n-gram. `script`: see `text.Script`."""
    latin = script == "latin" or is_latin(text, reference)
    found, wanted = (ngrams(rouge_words(one, stem, latin), n) for one in (text, reference))
    overlap = sum((found & wanted).values())
    precision = overlap / found.total() if found else 0.0
    recall = overlap / wanted.total() if wanted else 0.0
    # Use py-rouge's order of operations, so that the last digits are equal.
    f1 = precision * recall / (0.5 * precision + 0.5 * recall) if overlap else 0.0
    return RougeScore(precision, recall, f1)


def rouge_words(text: str, stem: bool = True, latin: bool = True) -> list[str]:
    """The words of a text in order, stemmed unless `stem` is false. Not `latin`: the words that ICU finds; py-rouge's rules apply
    to ASCII words."""
    if not latin:
        return [one for word in words_of(text) for one in (rouge_words(word, stem) if word.isascii() else [word])]
    words: list[str] = []
    for word in _OTHER.sub(" ", text.lower()).split():
        words += _SPLIT.get(word, (word,))
    return [_stem(word) for word in words] if stem else words


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    # py-rouge hides `cannot` from the tokenizer this way, and stems the hidden form.
    hidden = word.replace("cannot", "_cannot_")
    if len(hidden) > _LONG:
        hidden = _table().get(hidden) or _porter().stem(hidden)
    return hidden.replace("_cannot_", "cannot")


@functools.cache
def _porter() -> Any:
    """Porter's algorithm as first published (1980); later versions give other stems."""
    return whole_nltk().stem.PorterStemmer(mode="ORIGINAL_ALGORITHM")


@functools.cache
def _table() -> dict[str, str]:
    folder = files("summhay_ray.extract") / "data"
    names = ("wordnet_exceptions.txt", "porter_special_cases.txt")
    lines = [line for name in names for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    return {word: becomes for word, _, becomes in (line.strip().partition("|") for line in lines)}
