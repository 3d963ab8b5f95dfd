"""The words of SummHay's release are NLTK's, also in sentences that skip NLTK's patterns."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.retrieve.lexical import tokens_of
from summhay_ray.text import whole_nltk

pytestmark = pytest.mark.core

PIECES = [
    "cannot",
    "Gonna",
    "can",
    "not",
    "a",
    "U.S",
    "3",
    "1,000",
    " ",
    "\n",
    ",",
    ", ",
    ".",
    "..",
    "-",
    "--",
    "?",
    "!",
    ":",
    "'s",
    "it",
    "'",
    "n't",
    "'ll",
    "d'ye",
    "more'n",
    "’",
    "%",
    "$",
    ";",
    "(",
    ")",
    "—",
    "*",
    "<",
    '"',
    "``",
    "''",
    "“",
    "”",
    "'tis",
    "wanna ",
    "[",
    "«",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text("aB1 ,.-?!:;%()’—'\n", max_size=30))
@example("Ten, or 1,000 U.S. boats came; they can-not stay.")
@example(" a. b , c,d.e 3.5. ")
@example("The company's 5% (of $1,000; more: less) wasn't the dogs', they'd've said'x y.")
def test_a_sentence_has_the_tokens_of_nltk(sentence: str) -> None:
    assert tokens_of(sentence) == whole_nltk().tokenize.NLTKWordTokenizer().tokenize(sentence)
