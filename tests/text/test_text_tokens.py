"""cl100k tokens: the same as tiktoken's own, whatever the text; cuts never break a character."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.text import tokens

pytestmark = pytest.mark.core

PIECES = [
    *("word", " the", "I'll", "1234567", "漢字", "かな", "😀", "👩\u200d👩\u200d👧", "e\u0301", "\u0301", "\u202e", "\x00"),
    *("<|endoftext|>", "<|im_start|>", "\ufffd", " ", "  ", "\n", "\r\n", "\t", "\xa0", "\u2028", "\u3000", "!", "...", "'s"),
    *("\x0b", "\x1c", "\x1f", "\x85"),
]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    yield
    for counts in itertools.chain(*tokens._COUNTS.values()):
        counts.clear()


def reference(text: str) -> list[int]:
    return tokens._encoding().encode_ordinary(text)


@given(TEXT)
def test_encode_is_tiktokens_encode_ordinary(text: str) -> None:
    assert tokens.encode_tokens(text) == reference(text)
    assert tokens.count_tokens(text) == tokens.count_tokens(text) == len(reference(text))


@given(TEXT, st.integers(1, 6), st.integers(2, 4))
@example("x!\r\n \n  y", 1, 2)
@example("word\n\n   word", 1, 2)
@example("\n\n", 1, 2)
@example("!  ", 1, 2)
def test_parts_encode_as_the_whole(text: str, part: int, run: int) -> None:
    parts = list(tokens._parts(text, part, run))
    assert "".join(parts) == text
    assert [token for piece in parts for token in reference(piece)] == reference(text)


@given(TEXT, st.integers(-1, 40))
def test_first_tokens_against_the_bytes_of_the_first_tokens(text: str, n: int) -> None:
    cut = tokens.first_tokens(text, n)
    data = tokens._encoding().decode_bytes(reference(text)[: max(n, 0)])
    assert text.startswith(cut) and data.startswith(cut.encode())
    # The dropped part is shorter than the next character.
    dropped = len(data) - len(cut.encode())
    assert dropped == 0 or dropped < len(text[len(cut)].encode())


def test_a_cut_character_is_dropped_and_a_genuine_replacement_character_stays() -> None:
    assert len(reference("a👩b")) == 5  # "a", three pieces of the four-byte character, "b"
    assert [tokens.first_tokens("a👩b", n) for n in range(6)] == ["", "a", "a", "a", "a👩", "a👩b"]
    assert reference("\ufffd x") == [5809, 865]
    assert tokens.first_tokens("\ufffd x", 1) == "\ufffd"


def test_special_tokens_are_plain_text() -> None:
    assert tokens.count_tokens("<|endoftext|>") == 7
    assert tokens.first_tokens("<|endoftext|> and more", 7) == "<|endoftext|>"


def test_lone_surrogates_are_counted_and_whole_text_is_left_as_it_is() -> None:
    assert tokens.count_tokens("a\ud800") == tokens.count_tokens("a\ufffd")
    assert tokens.first_tokens("a\ud800", 50) == "a\ud800"


@pytest.mark.soak
@pytest.mark.parametrize("blank", ["\u3000"])
def test_a_million_blanks_before_a_word(blank: str) -> None:
    # tiktoken itself panics here. The last blank joins the word; the others are one piece.
    run, tail = blank * 1_000_000, blank + "word one"
    assert len(tokens.encode_tokens("one" + run + tail)) == 1 + len(reference(run)) + len(reference(tail))


@pytest.mark.parametrize(
    "unit", ["a", pytest.param("漢字", marks=pytest.mark.soak), pytest.param("aB3x/", marks=pytest.mark.soak)]
)
def test_a_run_without_a_place_to_cut_it_is_counted_in_short_pieces(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    text = unit * (500_000 // len(unit)) + "."
    exact = len(reference(text))
    assert exact <= tokens.count_tokens(text) <= exact + 10
    given = []
    monkeypatch.setattr(tokens, "_encoding", lambda: Recorder(given))
    tokens.count_tokens("b" + text)
    assert "".join(given) == "b" + text and max(map(len, given)) <= 400_000


class Recorder:
    """A stand-in for the encoding that records its input."""

    def __init__(self, given: list[str]) -> None:
        self._given = given

    def encode_ordinary(self, part: str) -> list[int]:
        self._given.append(part)
        return []


PARAGRAPHS = st.lists(st.sampled_from([*PIECES, "\n\n", "\n\n", "\n\n\n", "\n\n ", " \n\n", "\r\n\r\n", "word\n\n"]), max_size=25)


@given(PARAGRAPHS.map("".join) | st.text(st.sampled_from("\n\r ab.1'\u3000\x1c\x85"), max_size=20))
@example("")
@example("\n\n")
@example("a\n\n")
@example("\n\na")
@example("a\n\n\nb")
@example("a.\n\n\n\n b\n\nc\n\n")
@example("a\n\n\u3000b")
@example("a\n\n\x1cb")
@example("'\n\n's")
def test_a_count_by_paragraphs_is_the_count_of_the_whole(text: str) -> None:
    assert tokens.count_tokens(text) == len(reference(text))
    assert tokens.count_tokens(text) == len(reference(text)), "the remembered count is the same"


def test_counting_a_long_prompt_again_costs_little() -> None:
    paragraphs = [f"Paragraph {n} says that {n * n} is the square of {n}. " * 10 for n in range(700)]
    prompt = "\n\n".join(paragraphs)
    assert tokens.count_tokens(prompt) > 90_000
    times = []
    for n in range(5):
        again = "\n\n".join([*paragraphs[n:], *paragraphs[:n]])
        started = time.perf_counter()
        tokens.count_tokens(again)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.01  # 1 ms on an idle machine; encoding it takes 30.


def test_loading_needs_no_network_and_no_litellm_and_leaves_the_environment() -> None:
    script = (
        "import sys, os, socket\n"
        "def refuse(*a, **k): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from summhay_ray.text import tokens\n"
        "before = dict(os.environ)\n"
        "assert 'tiktoken' not in sys.modules\n"
        "assert tokens.count_tokens('hello world') == 2\n"
        "assert dict(os.environ) == before and 'litellm' not in sys.modules\n"
    )
    for value in (None, "/elsewhere"):
        environment = {name: held for name, held in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
        if value:
            environment["TIKTOKEN_CACHE_DIR"] = value
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)


def test_a_missing_vocabulary_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="install litellm"):
        tokens._encoding.__wrapped__()
