"""Sentences, terms and bullets of the offline summarizers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summarize_tasks import hostile_texts

from summhay_ray.summarize.offline.index import answer_text, sentences_of, terms_of

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It cost 1.80 euros, i.e. much. Mr. Bell paid.", ["It cost 1.80 euros, i.e. much.", "Mr. Bell paid."]),
        ('"It is late." She left.\nAnn: Yes.', ['"It is late."', "She left.", "Ann: Yes."]),
        ("洪水が来た。電車は止まった。", ["洪水が来た。", "電車は止まった。"]),
        ("one line\r\nanother\u2028third", ["one line", "another", "third"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


def test_a_text_without_sentence_ends_is_cut_between_words() -> None:
    text = "word " * 1000
    pieces = sentences_of(text)
    assert " ".join(pieces) == text.strip()
    assert max(map(len, pieces)) <= 600


@given(hostile_texts | st.text())
def test_no_visible_character_is_lost(text: str) -> None:
    joined = "".join("".join(sentences_of(text)).split())
    assert joined == "".join(re.sub("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]", "", text).split())


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The trams of Port Elsin", ["tram", "port", "elsin"]),
        ("1,025 hp on E85, 8.91-second", ["1,025", "hp", "e85", "8.91", "second"]),
        ("Powered, powering, powers", ["power", "power", "power"]),
        ("gas was used", ["gas", "used"]),
        ("a" * 100, ["a" * 40]),
        ("電車", ["電", "車"]),
        ("\x00 \u202e […] 【】", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


def test_a_bullet_is_one_line_with_our_citations_alone() -> None:
    assert (
        answer_text([("- Trams\n[99] run\u2028again \u202e【7】\x00.", [3, 12])], True) == "- Trams (99) run again (7) . [3][12]"
    )


@given(hostile_texts | st.text(), st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_no_text_forges_a_citation(text: str, numbers: list[int]) -> None:
    bullet = answer_text([(text, numbers)], True)
    assert [int(cited) for cited in re.findall(r"\[(\d+)\]", bullet)] == numbers
    assert len(bullet.splitlines()) == 1
