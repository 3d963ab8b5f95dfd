"""NLTK's Punkt sentence splitter for English, which some papers fix. Part of the text room.

Its parameters lie in `data/punkt_english` (data/README.txt names their source); nothing is downloaded or unpickled.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from summhay_ray.text.nltk_parts import nltk_part

_PLAIN_END = re.compile(r"([A-Za-z]{2,})\.\s+([A-Za-z]+),?")
"""A word, a full stop and the next word."""


def punkt_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, as `nltk.sent_tokenize(text)` gives them, without the white space between them."""
    return list(_splitter().tokenize(text))


@functools.cache
def _splitter() -> Any:
    punkt = nltk_part("tokenize.punkt")
    folder = files("summhay_ray.text") / "data" / "punkt_english"
    parameters = punkt.PunktParameters()
    parameters.abbrev_types = set(_lines(folder / "abbrev_types.txt"))
    parameters.sent_starters = set(_lines(folder / "sent_starters.txt"))
    parameters.collocations = {tuple(line.split("\t")) for line in _lines(folder / "collocations.tab")}
    contexts = (line.split("\t") for line in _lines(folder / "ortho_context.tab"))
    # Punkt's own defaultdict would store every word that is ever looked up; a Counter returns 0 and does not grow.
    parameters.ortho_context = Counter({word: int(flags) for word, flags in contexts})

    class Splitter(punkt.PunktSentenceTokenizer):  # type: ignore[misc, name-defined]
        def text_contains_sentbreak(self, text: str) -> bool:
            """Whether a sentence ends within `text`. Between plain words this takes a look into two sets; Punkt needs 30 us."""
            if plain := _PLAIN_END.fullmatch(text):
                word, following = plain[1].lower(), plain[2].lower()
                if word not in parameters.abbrev_types:
                    return (word, following) not in parameters.collocations
            ends: bool = super().text_contains_sentbreak(text)
            return ends

    return Splitter(parameters)


def _lines(file: Traversable) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]
