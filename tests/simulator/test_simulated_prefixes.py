"""Encoding by paragraphs, and the prefix cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.simulator.prefixes import LEAST, STEP, Encoder, PrefixCache, steps
from summhay_ray.text import tokens

pytestmark = pytest.mark.core

TOKEN = 4
LINES = st.lists(
    st.sampled_from(["a b", "\n", "\r\n", " ", "\t", ".", "Tolls rose 12%.", "\x1c", "\x85", "é", "'s", "12345", "\u2028"])
)


def numbered(*blocks: int) -> bytes:
    """Blocks of 128 tokens, each block with its own token."""
    return b"".join(number.to_bytes(TOKEN, "little") * STEP for number in blocks)


@given(st.text(st.sampled_from("ab1 \n\r\t.'s\u00a0\x1c\u3000é😀")) | LINES.map("".join))
def test_encoding_by_paragraphs_gives_the_tokens_of_the_whole(text: str) -> None:
    encoder = Encoder()
    whole = b"".join(token.to_bytes(TOKEN, "little") for token in tokens.encode_tokens(text))
    long = "A line before.\n" + text
    assert encoder.encode(text) == whole
    assert encoder.count(long) == tokens.count_tokens(long)
    assert encoder.encode(long) == Encoder().encode(long)
    assert encoder.encode(long) == b"".join(token.to_bytes(TOKEN, "little") for token in tokens.encode_tokens(long))


def test_the_cache_of_paragraphs_is_bounded() -> None:
    encoder = Encoder(kept_bytes=1000)
    texts = [f"paragraph {n}" for n in range(100)]
    assert [encoder.count(text) for text in texts] == [tokens.count_tokens(text) for text in texts]
    assert len(encoder._ends) < 10


def test_prefixes_come_in_steps() -> None:
    seven = numbered(*range(7))
    eleven = numbered(*range(11))
    assert (len(seven) // 4, steps(seven)) == (7 * 128, [])
    assert len(steps(numbered(*range(8)))) == 1
    assert len(steps(eleven)) == 1 + 3
    assert steps(eleven + b"\1\0\0\0" * 127) == steps(eleven)
    assert steps(eleven)[:2] == steps(numbered(*range(9), 50, 51))[:2]


def test_a_common_prefix_is_cached() -> None:
    cache = PrefixCache()
    served, other = numbered(*range(12)), numbered(*range(10), 98, 99)
    assert cache.cached_tokens(steps(served), 0.0, 300) == 0
    cache.remember(steps(served), 0.0)
    assert cache.cached_tokens(steps(served), 1.0, 300) == 12 * 128
    assert cache.cached_tokens(steps(other), 1.0, 300) == 10 * 128
    assert cache.cached_tokens(steps(numbered(*range(7), 99, *range(8, 12))), 1.0, 300) == 0
    assert cache.cached_tokens(steps(numbered(*range(7))), 1.0, 300) == 0


def test_a_prefix_is_forgotten_after_its_lifetime() -> None:
    cache = PrefixCache()
    cache.remember(steps(numbered(*range(12))), 0.0)
    cache.remember(steps(numbered(*range(9))), 200.0)
    asked = steps(numbered(*range(12)))
    assert cache.cached_tokens(asked, 299.9, 300) == 12 * 128
    assert cache.cached_tokens(asked, 300.0, 300) == 9 * 128
    assert cache.cached_tokens(asked, 500.0, 300) == 0


def test_the_oldest_and_longest_prefixes_are_forgotten_first() -> None:
    cache = PrefixCache(kept=10)
    first, second = numbered(*range(14)), numbered(*range(100, 112))
    cache.remember(steps(first), 0.0)  # 7 steps
    cache.remember(steps(second), 1.0)  # 5 steps: 12 are more than 10, of which 5 are kept
    assert cache.cached_tokens(steps(second), 2.0, 300) == 12 * 128
    assert cache.cached_tokens(steps(first), 2.0, 300) == 0


@given(st.lists(st.integers(0, 1), min_size=8, max_size=20), st.lists(st.integers(0, 1), min_size=8, max_size=20))
def test_the_longest_common_prefix_is_found(one: list[int], other: list[int]) -> None:
    cache = PrefixCache()
    cache.remember(steps(numbered(*one)), 0.0)
    common = next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )
    expected = common * STEP if common * STEP >= LEAST else 0
    assert cache.cached_tokens(steps(numbered(*other)), 1.0, 300) == expected
