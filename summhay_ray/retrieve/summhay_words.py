"""The tokenization of SummHay's release, equal to `nltk.word_tokenize`. For this room; nothing is downloaded or unpickled.

`nltk.word_tokenize` applies the Punkt sentence splitter for English (here `text/punkt.py`), then NLTK's word tokenizer. The stop
words are in `data/`; data/README.txt names their source.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from summhay_ray.text import nltk_part, punkt_sentences

_APART = r"?!;@#$%&*()\[\]{}<>’\u2012-\u2015"
_PLAIN = re.compile(
    rf"(?:[A-Za-z0-9 \n°{_APART}]++|[,:](?=[ 0-9])|-(?!-)|\.(?= ?[A-Za-z0-9])|(?<=[A-Za-z])'(?=[smdt]\b|[A-Za-z][A-Za-z]))*+\.?"
)
_CONTRACTED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna", "d'ye", "more'n")
_MARK = re.compile(rf"[{_APART}]|[,:](?= )")
_ENDING = re.compile(r"(?<=[^' ])(?:'[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?=\s|$)")


def word_tokens(text: str) -> list[str]:
    """The lower-case tokens of `text`, including punctuation, as in the release."""
    return [token.lower() for sentence in punkt_sentences(text) for token in tokens_of(sentence)]


def tokens_of(sentence: str) -> list[str]:
    """The tokens of a sentence by NLTK's word tokenizer, whose thirty patterns a plain sentence does not need."""
    lowered = sentence.lower()
    if not _PLAIN.fullmatch(sentence) or any(word in lowered for word in _CONTRACTED):
        found: list[str] = _tokenizer().tokenize(sentence)
        return found
    body, end = (sentence[:-1], ".") if sentence.endswith(".") else (sentence, "")
    apart = _MARK.sub(r" \g<0> ", body)
    return [*(_ENDING.sub(r" \g<0>", apart) if "'" in apart else apart).split(), *end]


@functools.cache
def stop_words() -> frozenset[str]:
    """NLTK's English stop words, in lower case."""
    return frozenset(_lines(_data() / "stopwords_english.txt"))


def _data() -> Traversable:
    return files("summhay_ray.retrieve") / "data"


def _lines(file: Traversable) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


@functools.cache
def _tokenizer() -> Any:
    return nltk_part("tokenize.destructive").NLTKWordTokenizer()
