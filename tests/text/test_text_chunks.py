"""Chunks are whole sentences within a number of tokens; turns are who speaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.text import chunks, count_tokens, turns

pytestmark = pytest.mark.core


def test_chunks_end_with_sentences_and_paragraphs() -> None:
    text = "One two three. Mr. Four said: five!\n\nSix seven eight nine ten. " * 3
    found = [text[begin:end] for begin, end in chunks(text, 20)]
    assert all(count_tokens(one) <= 20 for one in found) and len(found) == 3
    found = [text[begin:end] for begin, end in chunks(text, 12)]
    assert all(one.endswith((".", "!")) and not one.endswith("Mr.") for one in found)


@given(st.text(alphabet=st.sampled_from("ab .\n!?é李"), max_size=400), st.integers(1, 30))
def test_no_word_is_lost_and_no_chunk_too_long(text: str, most: int) -> None:
    found = chunks(text, most)
    assert "".join("".join(text[begin:end] for begin, end in found).split()) == "".join(text.split())
    assert all(before[1] <= after[0] for before, after in zip(found, found[1:], strict=False))
    # A single character may be several tokens.
    assert all(count_tokens(text[begin:end]) <= max(most, 3) for begin, end in found)


def test_turns_are_names_before_colons() -> None:
    text = "Ada: Look here: a list.\nMr. Bo: Yes.\nAda: Good. so it is. grad g: then. grad g: again? as I said: never."
    assert turns(text) == ["Ada", "Mr. Bo", "Ada", "grad g", "grad g"]
    assert turns("anthony rota (nipissing, lib.)): order. Anna says: no. anthony rota (lib.): thanks") == ["anthony rota"] * 2
    assert turns("no turns") == []
