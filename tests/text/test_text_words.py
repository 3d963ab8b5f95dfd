"""Words and stems, of any script."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.text import FUNCTION_WORDS, UNSPACED, plain_words, root

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("They'll pay 4,800 (E85)!", ["they", "ll", "pay", "4", "800", "e85"]),
        ("\ufb01ve STRASSE stra\u00dfe", ["five", "strasse", "strasse"]),
        ("\u4eba\u53e325\u4e07", ["\u4eba", "\u53e3", "25", "\u4e07"]),
        ("\u0e21\u0e32", ["\u0e21", "\u0e32"]),
        ("_ \u2026 !?", []),
    ],
)
def test_plain_words(text: str, words: list[str]) -> None:
    assert plain_words(text) == words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("prescribe", "prescribes", "prescribed", "prescription"), "presc"),
        (("policy", "policies"), "polic"),
        (("stopping", "stopped", "stops", "stop"), "stop"),
        (("price", "prices", "priced"), "pric"),
        (("gas",), "gas"),
        (("glasses", "glass"), "glas"),
        (("red",), "red"),
        (("sing",), "sing"),
    ],
)
def test_words_of_one_family_have_one_root(words: tuple[str, ...], expected: str) -> None:
    assert {root(word) for word in words} == {expected}


@given(st.text(st.characters(categories=["Ll"]), min_size=1, max_size=20))
def test_a_root_is_a_beginning_but_for_a_plural_in_ies(word: str) -> None:
    assert root(word) and (word.startswith(root(word)) or word.endswith("ies"))
    assert len(root(word)) <= 5


def test_function_words_are_words() -> None:
    assert all(plain_words(word) == [word] for word in FUNCTION_WORDS)
    assert not any(re.search(f"[{UNSPACED}]", word) for word in FUNCTION_WORDS)
