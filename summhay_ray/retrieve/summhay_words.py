"""The words of SummHay's release: tokens as NLTK makes them. For the retrievers of this room; nothing is downloaded or unpickled.

`nltk.word_tokenize` is the Punkt sentence splitter, trained for English, before NLTK's word tokenizer. Its parameters and
the stop words come from `data/` (data/README.txt says whence).
"""

from __future__ import annotations

import functools
from collections import Counter
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any


def word_tokens(text: str) -> list[str]:
    """The lower-cased tokens of `text`, punctuation among them, as the release cuts its documents and queries."""
    splitter, tokenizer = _splitter(), _tokenizer()
    return [token.lower() for sentence in splitter.tokenize(text) for token in tokenizer.tokenize(sentence)]


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


@functools.cache
def _splitter() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    folder = _data() / "punkt_english"
    parameters = PunktParameters()
    parameters.abbrev_types = set(_lines(folder / "abbrev_types.txt"))
    parameters.sent_starters = set(_lines(folder / "sent_starters.txt"))
    parameters.collocations = {tuple(line.split("\t")) for line in _lines(folder / "collocations.tab")}
    contexts = (line.split("\t") for line in _lines(folder / "ortho_context.tab"))
    # Punkt's own defaultdict would keep every word that it is ever asked for; a Counter answers 0 and stays as it is
    parameters.ortho_context = Counter({word: int(flags) for word, flags in contexts})
    return PunktSentenceTokenizer(parameters)
