"""The sentences of the Punkt splitter are NLTK's, also where its annotation of tokens is not needed."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from summhay_ray.text import nltk_part, punkt_sentences
from summhay_ray.text.punkt import _splitter

pytestmark = pytest.mark.core

NLTK = nltk_part("tokenize.punkt").PunktSentenceTokenizer(_splitter()._params)
WORDS = ["The", "word", "etc", "U.S", "J", "v", "dr", "forces", "yale", "univ", "3"]
ENDS = [".", ". ", "? ", "! ", '"', ")", ", ", " ", "\n\n"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS + ENDS), max_size=20).map("".join))
@example("He met Dr. Smith. They left, e.g. at 3. Then no. 4 came (late). yale univ. press")
def test_a_text_has_the_sentences_of_nltk(text: str) -> None:
    assert punkt_sentences(text) == list(NLTK.tokenize(text))
