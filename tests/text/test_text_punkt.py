"""The sentences of the Punkt splitter are NLTK's, also if the annotation of tokens is skipped."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.text import punkt_sentences, whole_nltk

pytestmark = pytest.mark.core


@functools.cache
def nltk_splitter() -> Any:
    punkt = whole_nltk().tokenize.punkt
    folder = files("summhay_ray.text") / "data" / "punkt_english"

    def lines(name: str) -> list[str]:
        return [line for line in (folder / name).read_text(encoding="utf-8").split("\n") if line]

    known = punkt.PunktParameters()
    known.abbrev_types, known.sent_starters = set(lines("abbrev_types.txt")), set(lines("sent_starters.txt"))
    known.collocations = {tuple(line.split("\t")) for line in lines("collocations.tab")}
    for line in lines("ortho_context.tab"):
        word, flags = line.split("\t")
        known.ortho_context[word] = int(flags)
    return punkt.PunktSentenceTokenizer(known)


WORDS = ["The", "word", "etc", "U.S", "J", "v", "dr", "forces", "yale", "univ", "3", "-4,5", "co-op", "Inc", "Ünit", "p.m"]
ENDS = [".", ". ", "? ", "! ", '"', ")", ", ", " ", "\n\n", "...", ". . .", "--", "[", "\u201d ", "\u00bb", ";", ": "]


@given(st.lists(st.sampled_from(WORDS + ENDS), max_size=20).map("".join))
@example("He met Dr. Smith. They left, e.g. at 3. Then no. 4 came (late). yale univ. press")
def test_a_text_has_the_sentences_of_nltk(text: str) -> None:
    assert punkt_sentences(text) == list(nltk_splitter().tokenize(text))
