"""Sentences of any text: no letter is lost, and none is too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.text import sentences

pytestmark = pytest.mark.core


def test_sentences_keep_titles_and_turns() -> None:
    text = 'Dr. Quill came. "Good." She left!\nTobias: Yes. No. 5 is mine。次です。'
    assert sentences(text) == ["Dr. Quill came.", '"Good."', "She left!", "Tobias: Yes.", "No. 5 is mine。", "次です。"]


def test_a_german_ordinal_number_ends_no_sentence() -> None:
    text = "Am 3. Mai fiel er aus, im 2. Quartal nicht. Zum 31. Dezember endet er. I have 3. Then I left. Es war 1989. Er ging."
    assert sentences(text) == [
        "Am 3. Mai fiel er aus, im 2. Quartal nicht.",
        "Zum 31. Dezember endet er.",
        "I have 3.",
        "Then I left.",
        "Es war 1989.",
        "Er ging.",
    ]


def test_a_text_without_ends_is_cut() -> None:
    pieces = sentences("word " * 1000)
    assert max(map(len, pieces)) <= 600 and " ".join(pieces).split() == ["word"] * 1000


def test_what_ends_no_sentence_can_be_said() -> None:
    assert sentences("Prof. Quill. She left.", ("Prof",)) == ["Prof. Quill.", "She left."]
    assert sentences("Prof. Quill.") == ["Prof.", "Quill."]


@given(st.text(max_size=200) | st.text(" .a\n", min_size=600, max_size=2000))
def test_no_letter_is_lost(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and 0 < len(sentence) <= 600 for sentence in found)
