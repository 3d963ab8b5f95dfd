"""The words of SummHay's release: tokens as NLTK makes them. For the retrievers of this room; nothing is downloaded or unpickled.

`nltk.word_tokenize` is the Punkt sentence splitter, trained for English (`text/punkt.py`), before NLTK's word tokenizer. The
stop words come from `data/` (data/README.txt says whence).
"""

from __future__ import annotations

import functools
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from summhay_ray.text import punkt_sentences


def word_tokens(text: str) -> list[str]:
    """The lower-cased tokens of `text`, punctuation among them, as the release cuts its documents and queries."""
    tokenizer = _tokenizer()
    return [token.lower() for sentence in punkt_sentences(text) for token in tokenizer.tokenize(sentence)]


@functools.cache
def stop_words() -> frozenset[str]:
    """NLTK's English stop words, lower case."""
    return frozenset(_lines(_data() / "stopwords_english.txt"))


def _data() -> Traversable:
    return files("summhay_ray.retrieve") / "data"


def _lines(file: Traversable) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


@functools.cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()
